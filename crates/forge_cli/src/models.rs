//! `forge models`: what the providers offer.

use std::process::ExitCode;

use forge_domain::{ModelId, ModelInfo, ProviderId, Tokens, Workflow};
use futures::future::join_all;

use crate::arguments::{ModelsArguments, Source};
use crate::failure::Misconfigured;
use crate::output;
use crate::setup;

/// Lists the models of every provider, or of the one that is named. A provider that does not tell is said so; where it
/// is the one that was named, or none tells, that is a failure.
pub(crate) fn models(arguments: &ModelsArguments) -> anyhow::Result<ExitCode> {
    let source = Source { config: arguments.config.clone(), model: None, provider: None };
    let workflow = setup::configuration(&source)?.workflow;
    let mut providers = setup::providers(&workflow);
    if let Some(name) = &arguments.provider {
        providers.retain(|id, _| id.as_str() == name);
        if providers.is_empty() {
            let known = workflow.provider_names();
            return Err(Misconfigured(format!("there is no provider `{name}`; declared are {known}")).into());
        }
    }
    let asked = join_all(providers.iter().map(|(id, provider)| async move { (id, provider.models().await) }));
    let mut n_told = 0;
    for (id, told) in crate::run::runtime()?.block_on(asked) {
        match told {
            Ok(models) => {
                n_told += 1;
                output::print(&listed(&workflow, id, models))?;
            }
            Err(error) => output::say(&format!("{id}: {}", output::visible_lines(&error.to_string()))),
        }
    }
    Ok(if n_told > 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A line for each model, in the order of their names: `provider:model` and the window, by a tab.
fn listed(workflow: &Workflow, provider: &ProviderId, mut models: Vec<ModelInfo>) -> String {
    models.sort_by(|a, b| a.id.cmp(&b.id));
    let lines = models.into_iter().map(|model| {
        let name = format!("{provider}:{}", model.id);
        let window = configured(workflow, provider, &name, &model.id).or(model.window);
        let window = window.map_or_else(|| "-".to_owned(), |window| window.to_string());
        format!("{}\t{window}\n", output::visible(&name))
    });
    lines.collect()
}

/// The window that the workflow says; by its bare name a model may be another provider's.
fn configured(workflow: &Workflow, provider: &ProviderId, name: &str, bare: &ModelId) -> Option<Tokens> {
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
        let actual = listed(&workflow, &ProviderId::new("p").unwrap(), models);
        assert_eq!(actual, "p:full\t1\np:mine\t2\np:other\t-\np:told\t9\n");
    }
}
