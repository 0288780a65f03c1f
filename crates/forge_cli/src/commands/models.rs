//! `forge models`: lists the providers' models.

use std::collections::BTreeSet;
use std::net::{TcpStream, ToSocketAddrs};
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use forge_domain::{
    ModelError, ModelId, ModelInfo, Provider, ProviderId, Tokens, Workflow, quantity, without_secrets,
};
use forge_infra::{fetch_text, write_whole};
use forge_services::workflow::{Layers, ModelTable, Source as YamlSource, load};
use futures::future::join_all;

use crate::arguments::ConfigFlag;
use crate::consent::Need;
use crate::failure::Misconfigured;
use crate::output;
use crate::places;
use crate::run::runtime;
use crate::setup;

/// The longest wait for a provider that was not named.
const PATIENCE: Duration = Duration::from_secs(2);
/// The environment variable for the address of a table of models.
const TABLE_VARIABLE: &str = "FORGE_MODELS_URL";

/// List the providers' models and their context windows
///
/// Only providers that are configured or have a key are asked, all at once, for at most two seconds each.
/// A window in forge.yaml overrides the server's; `-` means that neither is known.
#[derive(Debug, Args)]
pub(crate) struct ModelsArguments {
    #[command(flatten)]
    file: ConfigFlag,
    /// The only provider to ask
    #[arg(long, value_name = "NAME")]
    provider: Option<String>,
    /// Instead, fetch the table of known models, with prices and abilities, from URL or FORGE_MODELS_URL
    #[arg(long, value_name = "URL", num_args = 0..=1, default_missing_value = "", conflicts_with = "provider")]
    update: Option<String>,
}

impl ModelsArguments {
    /// Lists the models of every provider that is likely to answer, or of the named one. Providers without an
    /// answer are reported. It is a failure if the named one does not answer, or none does.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if let Some(url) = &self.update {
            return update(url);
        }
        let workflow = setup::configuration(&self.file.source(), Need::Nothing)?.workflow;
        let mut providers = setup::providers(&workflow, &setup::silent_watcher());
        let patience = if let Some(name) = &self.provider {
            providers.retain(|id, _| id.as_str() == name);
            if providers.is_empty() {
                let known = workflow.provider_names();
                return Err(
                    Misconfigured(format!("there is no provider `{name}`; use one of {known}")).into()
                );
            }
            None
        } else {
            let unlikely = unlikely(&workflow, |variable| std::env::var(variable).ok())?;
            providers.retain(|id, _| unlikely.iter().all(|(other, _)| other != id));
            if !unlikely.is_empty() {
                let unlikely: Vec<String> =
                    unlikely.iter().map(|(id, why)| format!("{id} ({why})")).collect();
                output::say(&format!("not asked: {}; to ask one, add --provider NAME", unlikely.join(", ")));
            }
            Some(PATIENCE)
        };
        let asked = join_all(
            providers.iter().map(|(id, provider)| async move { (id, ask(&**provider, patience).await) }),
        );
        let mut n_told = 0;
        for (id, told) in runtime()?.block_on(asked) {
            match told {
                Ok(models) => {
                    n_told += 1;
                    output::print(&model_list(&workflow, id, models))?;
                }
                Err(error) => output::say(&format!("{id}: {}", output::visible_lines(&error))),
            }
        }
        Ok(if n_told > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// Fetches the table of models and keeps it in the user's data folder, where it comes before the built-in
/// one.
fn update(url: &str) -> anyhow::Result<ExitCode> {
    let configured = std::env::var(TABLE_VARIABLE).unwrap_or_default();
    let url = if url.is_empty() { configured.trim() } else { url };
    if url.is_empty() {
        let what =
            format!("no address is configured: set {TABLE_VARIABLE}, or write `forge models --update URL`");
        return Err(Misconfigured(what).into());
    }
    let file = places::models_file(&places::environment())
        .ok_or_else(|| Misconfigured("there is no data folder: set HOME or XDG_DATA_HOME".to_owned()))?;
    let text = runtime()?.block_on(fetch_text(url))?;
    let source = YamlSource::new(output::visible(&without_secrets(url)), text);
    let table = ModelTable::read(&source).map_err(|error| Misconfigured(error.to_string()))?;
    places::make_private_folder(&file)?;
    write_whole(&file, source.text.as_bytes())?;
    output::say(&format!(
        "{} of {}, from {}; kept in {}",
        quantity(table.models, "model"),
        table.as_of,
        output::visible(&table.source),
        file.display()
    ));
    Ok(ExitCode::SUCCESS)
}

/// Returns a provider's models, or why it did not list them.
async fn ask(provider: &dyn Provider, patience: Option<Duration>) -> Result<Vec<ModelInfo>, String> {
    let told = match patience {
        None => provider.models().await,
        Some(patience) => match tokio::time::timeout(patience, provider.models()).await {
            Ok(told) => told,
            Err(_) => return Err(format!("no answer within {} s", patience.as_secs())),
        },
    };
    told.map_err(|error| error.to_string())
}

/// Returns the unconfigured providers that would not answer, each with the reason: they are built in, no
/// agent and no model names them, and there is neither a key nor a server on this machine.
fn unlikely(
    workflow: &Workflow,
    variable: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<Vec<(ProviderId, String)>> {
    let built_in = load(&Layers::default())?;
    let models = workflow
        .models
        .iter()
        .filter(|(id, model)| built_in.models.get(*id) != Some(*model))
        .map(|(id, _)| id);
    let of_agents = workflow.agents.iter().filter_map(|agent| agent.model.as_ref());
    let used = models.chain(of_agents).filter_map(|id| Some(workflow.model(id).ok()?.reference.provider));
    let wanted: BTreeSet<ProviderId> = used.collect();
    let mut unlikely = Vec::new();
    for (id, config) in &workflow.providers {
        if built_in.providers.get(id) != Some(config) || wanted.contains(id) {
            continue;
        }
        match &config.api_key_env {
            Some(name) if variable(name).is_none_or(|key| key.trim().is_empty()) => {
                unlikely.push((id.clone(), format!("{name} is not set")));
            }
            Some(_) => {}
            None => {
                let address = config.address();
                if !address.is_some_and(listens) {
                    let address = address.unwrap_or_default();
                    unlikely.push((id.clone(), format!("not configured, and nothing answers at {address}")));
                }
            }
        }
    }
    Ok(unlikely)
}

/// Checks whether something accepts connections at an address such as `http://localhost:11434`.
fn listens(address: &str) -> bool {
    const PATIENCE: Duration = Duration::from_millis(300);
    let Some((_, rest)) = address.split_once("://") else { return false };
    let host = rest.split('/').next().unwrap_or_default();
    let found = host.to_socket_addrs().into_iter().flatten();
    found.into_iter().any(|address| TcpStream::connect_timeout(&address, PATIENCE).is_ok())
}

/// Returns a line for each model, in the order of their names: `provider:model` and the window, separated by
/// a tab. Models that cannot be reached as the provider is configured are left out.
fn model_list(workflow: &Workflow, provider: &ProviderId, mut models: Vec<ModelInfo>) -> String {
    let reference = |model: &ModelInfo| ModelId::new(format!("{provider}:{}", model.id)).ok();
    let is_unreachable = |id: ModelId| matches!(workflow.model(&id), Err(ModelError::Unreachable { .. }));
    models.retain(|model| !reference(model).is_some_and(is_unreachable));
    models.sort_by(|a, b| a.id.cmp(&b.id));
    let lines = models.into_iter().map(|model| {
        let name = format!("{provider}:{}", model.id);
        let window = configured_window(workflow, provider, &name, &model.id).or(model.window);
        let window = window.map_or_else(|| "-".to_owned(), |window| window.to_string());
        format!("{}\t{window}\n", output::visible(&name))
    });
    lines.collect()
}

/// Returns the window of the workflow; a model's bare name may belong to another provider.
fn configured_window(
    workflow: &Workflow,
    provider: &ProviderId,
    name: &str,
    bare: &ModelId,
) -> Option<Tokens> {
    let of_provider = workflow.models.get(name);
    let by_name = workflow.models.get(bare.as_str());
    let by_name = by_name.filter(|model| model.provider.as_ref().is_none_or(|known| known == provider));
    of_provider.or(by_name).and_then(|model| model.window)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_window_of_the_workflow_counts_before_the_servers() {
        let workflow: Workflow = serde_saphyr::from_str(
            "models: { 'p:full': { window: 1 }, mine: { provider: p, window: 2 }, other: { provider: q, window: 3 } }",
        )
        .unwrap();
        let model = |id: &str, window: Option<u64>| ModelInfo {
            window: window.map(Tokens::new),
            ..ModelInfo::new(ModelId::new(id).unwrap())
        };
        let models =
            vec![model("told", Some(9)), model("full", Some(9)), model("mine", None), model("other", None)];
        let actual = model_list(&workflow, &ProviderId::new("p").unwrap(), models);
        assert_eq!(actual, "p:full\t1\np:mine\t2\np:other\t-\np:told\t9\n");
    }
}
