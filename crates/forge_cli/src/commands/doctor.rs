//! `forge doctor`: checks everything that a run needs, and shows how to fix it.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;
use console::style;
use forge_app::{ActionLog, Check, Credentials, Health, Services, check_workflow, diagnose, probe_models};
use forge_domain::{
    Mending, Nobody, ProviderConfig, ProviderId, StoreHealth, StoreSetting, Workflow, quantity,
};
use forge_infra::{SqlitePlace, StoreUrl, SystemPause};
use serde::Serialize;

use crate::arguments::{JsonFlag, STORE_OF_RUNS, Source};
use crate::consent::{Demand, Need};
use crate::run::runtime;
use crate::setup::{self, Configuration, first_model, mcp, sandbox, store};
use crate::{output, places};

/// Check everything that a run needs, and show how to fix it: configuration, keys, servers, models,
/// prices, checkpoints
///
/// Servers that an agent uses are asked for their models, all at once and for at most ten seconds each;
/// keys are never printed. The exit code is 1 if something is broken.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    source: Source,
    #[arg(long, value_name = "URL", help = STORE_OF_RUNS)]
    store: Option<String>,
    /// Rebuild the indexes of the store; its content is not changed
    #[arg(long)]
    repair: bool,
    /// Also ask each model in use for one tiny tool call, which costs tokens
    #[arg(long)]
    probe: bool,
    #[command(flatten)]
    form: JsonFlag,
}

impl DoctorArguments {
    /// Checks configuration, keys, servers, models and the store of checkpoints. Fails if a run would.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Configuration { mut workflow, layers, left_out } =
            setup::configuration(&self.source, Need::Nothing)?;
        let store = workflow.checkpoint.store.clone();
        let credentials = credentials(&workflow);
        // Failures are reported at once: nothing waits for a server here.
        workflow.providers.values_mut().for_each(|provider| provider.retries = Some(0));
        let project = layers.project.as_ref().map(|source| source.name.as_str());
        let mut checks = vec![configuration_check(project, &workflow, &self.source)];
        checks.extend(trust_check(&left_out));
        let runtime = runtime()?;
        let sandbox = sandbox::of(&workflow, &layers.environment, &setup::silent_watcher()).ok().flatten();
        checks.push(runtime.block_on(sandbox::check(&workflow, &layers.environment)));
        match setup::services(
            workflow,
            None,
            &layers,
            &setup::silent_watcher(),
            Arc::new(Nobody),
            sandbox.as_ref(),
            &ActionLog::new(),
        ) {
            Ok(services) => {
                checks.extend(findings(&services, &layers, &left_out));
                checks.extend(runtime.block_on(diagnose(&services, &credentials, &SystemPause)));
                if self.probe {
                    checks.extend(runtime.block_on(probe_models(&services)));
                }
                checks.extend(runtime.block_on(mcp::checks(
                    &services.workflow,
                    &layers.environment,
                    sandbox.as_ref(),
                )));
            }
            Err(error) => checks.push(fault("configuration", &format!("{error:#}"))),
        }
        checks.push(runtime.block_on(store_check(&self, store.as_ref())));
        let healthy = checks.iter().all(|check| check.health < Health::Fault);
        if self.form.json {
            let diagnosis = Diagnosis { healthy, checks: &checks };
            output::print_json(&diagnosis)?;
        } else {
            output::print(&checks.iter().map(check_text).collect::<String>())?;
        }
        Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

/// The content of the JSON document.
#[derive(Serialize)]
struct Diagnosis<'a> {
    /// True if nothing is broken; there may be warnings.
    healthy: bool,
    checks: &'a [Check],
}

/// Returns what each provider requires of the environment, and whether it is set; never its value.
fn credentials(workflow: &Workflow) -> BTreeMap<ProviderId, Credentials> {
    let of = |config: &ProviderConfig| {
        let headers = config.headers.iter().flat_map(BTreeMap::values);
        let headers = headers.filter_map(|value| value.strip_prefix('$').map(str::to_owned));
        let names: Vec<String> = config.api_key_env.iter().cloned().chain(headers).collect();
        let is_set = |name: &String| std::env::var(name).is_ok_and(|value| !value.trim().is_empty());
        let missing: Vec<String> = names.iter().filter(|name| !is_set(name)).cloned().collect();
        match (names.is_empty(), missing.is_empty()) {
            (true, _) => Credentials::NotAsked,
            (false, true) => Credentials::Present(names),
            (false, false) => Credentials::Missing(missing),
        }
    };
    workflow.providers.iter().map(|(id, config)| (id.clone(), of(config))).collect()
}

fn configuration_check(project: Option<&str>, workflow: &Workflow, source: &Source) -> Check {
    let about = "configuration";
    if let Some(name) = project {
        return Check::well(about, format!("{name} is read"));
    }
    let found = "no forge.yaml here";
    if !workflow.agents.is_empty() {
        return Check::well(about, format!("{found}; the agents of your own file work"));
    }
    let environment = places::environment();
    let advice = match first_model::named(source.model.as_ref(), &environment) {
        Some(model) => format!("`forge` works without one, with the model {model}"),
        None => match first_model::find(&environment) {
            Ok(first) => format!("`forge` works without one, with the {first}"),
            Err(why) if first_model::with_keys(&environment).next().is_some() => why,
            Err(_) => "`forge` needs a model: set a key such as ANTHROPIC_API_KEY, start Ollama, or run `forge init`"
                .to_owned(),
        },
    };
    Check::well(about, found).but(Health::Note, &advice)
}

/// Returns the check of the project's file, if it asks for something without consent.
fn trust_check(left_out: &[Demand]) -> Option<Check> {
    let n = left_out.len();
    let file = left_out.first().map_or("", |demand| demand.at.split(':').next().unwrap_or_default());
    let found = format!("{} of {file} left out, because it is not trusted", quantity(n, "power"));
    let advice = "`forge trust` shows them all and allows them until they change";
    (n > 0).then(|| Check::well("trust", found).but(Health::Warning, advice))
}

/// Returns the faults of the agents, each at its place; or that all their templates and budgets are valid.
/// They may lack just what was left out without consent.
fn findings(
    services: &Services,
    layers: &forge_services::workflow::Layers,
    left_out: &[Demand],
) -> Vec<Check> {
    let findings = check_workflow(services);
    if findings.is_empty() {
        let names: Vec<&str> = services.workflow.agents.iter().map(|agent| agent.id.as_str()).collect();
        return match names.as_slice() {
            [] => Vec::new(),
            names => {
                let found = format!("{}: templates render, limits fit, names resolve", names.join(", "));
                vec![Check::well("agents", found)]
            }
        };
    }
    let faults = layers.point_at_all(&findings);
    let faults = faults.iter().map(|error| fault("agents", &error.to_string()));
    if left_out.is_empty() {
        return faults.collect();
    }
    let advice = "run `forge trust` first: what is left out may be all that is missing";
    faults.map(|fault| fault.but(Health::Fault, advice)).collect()
}

fn fault(about: &str, found: &str) -> Check {
    Check { health: Health::Fault, ..Check::well(about, found) }
}

/// Returns the state of the store of checkpoints; a missing one is not created.
async fn store_check(arguments: &DoctorArguments, configured: Option<&StoreSetting>) -> Check {
    const ABOUT: &str = "checkpoints";
    let named = match arguments.store.as_deref() {
        Some(named) => store::named_store(named),
        None => store::configured_store(configured),
    };
    let url = match named {
        Ok(Some(url)) => url,
        Ok(None) => {
            let what = "none are saved: the store is `none`".to_owned();
            return Check { health: Health::Note, ..Check::well(ABOUT, what) };
        }
        Err(error) => return fault(ABOUT, &format!("{error:#}")),
    };
    if let StoreUrl::Sqlite(SqlitePlace { path, .. }) = &url
        && !path.exists()
    {
        return Check {
            health: Health::Note,
            ..Check::well(ABOUT, format!("none yet at {}", path.display()))
        };
    }
    let mending = if arguments.repair { Mending::Indexes } else { Mending::LookOnly };
    let store = match store::open_existing(&url).await {
        Ok(store) => store,
        Err(error) => return fault(ABOUT, &format!("{error:#}")),
    };
    match store.check(mending).await {
        Err(error) => fault(ABOUT, &error.to_string()),
        Ok(StoreHealth { schema, checkpoints, bytes, faults }) => {
            let found = format!(
                "{} in {}, schema {schema}",
                quantity(checkpoints, "checkpoint"),
                quantity(bytes, "byte")
            );
            match (faults.is_empty(), mending) {
                (true, _) => Check::well(ABOUT, found),
                (false, Mending::LookOnly) => fault(ABOUT, &format!("{found}: {}", faults.join("; "))).but(
                    Health::Fault,
                    "`forge doctor --repair` rebuilds the indexes; the content is not changed",
                ),
                (false, Mending::Indexes) => fault(ABOUT, &format!("{found}: {}", faults.join("; "))).but(
                    Health::Fault,
                    "restore a copy of the store, or resume from a checkpoint that can be read",
                ),
            }
        }
    }
}

fn check_text(check: &Check) -> String {
    let mark = match check.health {
        Health::Good => style("✓").green(),
        Health::Note => style("·").dim(),
        Health::Warning => style("!").yellow(),
        Health::Fault => style("✗").red(),
    };
    let advice = check.advice.as_ref().map(|advice| format!("    → {}\n", output::harmless(advice)));
    let found = output::harmless(&check.found).replace('\n', "\n    ");
    format!("{mark} {}: {found}\n{}", output::harmless(&check.about), advice.unwrap_or_default())
}
