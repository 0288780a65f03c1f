//! `forge doctor`: looks at everything that a run needs, and says what to do.

use std::collections::BTreeMap;
use std::process::ExitCode;
use std::sync::Arc;

use console::style;
use forge_app::{ActionLog, Check, Credentials, Health, Services, check_workflow, diagnose};
use forge_domain::{
    Mending, Nobody, ProviderConfig, ProviderId, StoreHealth, StoreSetting, Workflow, quantity,
};
use forge_infra::{SqlitePlace, StoreUrl};
use serde::Serialize;

use crate::arguments::DoctorArguments;
use crate::consent::{Demand, Need};
use crate::setup::{self, Configuration};
use crate::{mcp, output, sandbox, store};

/// What one JSON document says.
#[derive(Serialize)]
struct Diagnosis<'a> {
    /// Whether there is no fault; warnings may be there.
    healthy: bool,
    checks: &'a [Check],
}

/// Looks at configuration, keys, servers, models and the store of checkpoints. Fails where a run would.
pub(crate) fn doctor(arguments: &DoctorArguments) -> anyhow::Result<ExitCode> {
    let Configuration { mut workflow, layers, left_out } =
        setup::configuration(&arguments.source, Need::Nothing)?;
    let store = workflow.checkpoint.store.clone();
    let credentials = credentials(&workflow);
    // What fails is said at once: nobody waits for a server here.
    workflow.providers.values_mut().for_each(|provider| provider.retries = Some(0));
    let mut checks = vec![configuration_check(layers.project.as_ref().map(|source| source.name.as_str()))];
    checks.extend(trust_check(&left_out));
    let runtime = crate::run::runtime()?;
    let sandbox = sandbox::of(&workflow, &layers.environment, &setup::unwatched()).ok().flatten();
    checks.push(runtime.block_on(sandbox::check(&workflow, &layers.environment)));
    match setup::services(
        workflow,
        None,
        &layers,
        &setup::unwatched(),
        Arc::new(Nobody),
        sandbox.as_ref(),
        &ActionLog::new(),
    ) {
        Ok(services) => {
            checks.extend(findings(&services, &layers));
            checks.extend(runtime.block_on(diagnose(&services, &credentials)));
            checks.extend(runtime.block_on(mcp::checks(
                &services.workflow,
                &layers.environment,
                sandbox.as_ref(),
            )));
        }
        Err(error) => checks.push(fault("configuration", &format!("{error:#}"))),
    }
    checks.push(runtime.block_on(store_check(arguments, store.as_ref())));
    let healthy = checks.iter().all(|check| check.health < Health::Fault);
    if arguments.json {
        let diagnosis = Diagnosis { healthy, checks: &checks };
        output::print(&(serde_json::to_string_pretty(&diagnosis)? + "\n"))?;
    } else {
        output::print(&checks.iter().map(shown).collect::<String>())?;
    }
    Ok(if healthy { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What each provider asks of the environment, and whether it is there; never what it is.
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

fn configuration_check(project: Option<&str>) -> Check {
    match project {
        Some(name) => Check::well("configuration", format!("{name} is read")),
        None => Check::well("configuration", "there is no forge.yaml here").but(
            Health::Note,
            "name a model with `forge run --model PROVIDER:MODEL`, or write one: `forge run` without either shows how",
        ),
    }
}

/// What the project's file asks for and nobody has consented to, if there is anything.
fn trust_check(left_out: &[Demand]) -> Option<Check> {
    let n = left_out.len();
    let found = format!("{} of forge.yaml left out, as nobody has trusted it", quantity(n, "power"));
    let advice = "`forge trust` shows them all and allows them until they change";
    (n > 0).then(|| Check::well("trust", found).but(Health::Warning, advice))
}

/// What is wrong with the agents, each at its place; or that all their templates and budgets hold.
fn findings(services: &Services, layers: &forge_services::workflow::Layers) -> Vec<Check> {
    let findings = check_workflow(services);
    if findings.is_empty() {
        let names: Vec<&str> = services.workflow.agents.iter().map(|agent| agent.id.as_str()).collect();
        return match names.as_slice() {
            [] => Vec::new(),
            names => {
                let found =
                    format!("{}: templates render, limits fit, names lead somewhere", names.join(", "));
                vec![Check::well("agents", found)]
            }
        };
    }
    layers.point_at_all(&findings).iter().map(|error| fault("agents", &error.to_string())).collect()
}

fn fault(about: &str, found: &str) -> Check {
    Check { health: Health::Fault, ..Check::well(about, found) }
}

/// How the store of checkpoints is; it is not made where there is none.
async fn store_check(arguments: &DoctorArguments, configured: Option<&StoreSetting>) -> Check {
    const ABOUT: &str = "checkpoints";
    let named = match arguments.store.as_deref() {
        Some(named) => store::named(named),
        None => store::configured(configured),
    };
    let url = match named {
        Ok(Some(url)) => url,
        Ok(None) => {
            let what = "none are kept: `none` is said of the store".to_owned();
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
                    "`forge doctor --repair` makes indexes anew; what is stored stays as it is",
                ),
                (false, Mending::Indexes) => fault(ABOUT, &format!("{found}: {}", faults.join("; "))).but(
                    Health::Fault,
                    "restore a copy of the store, or go on from a checkpoint that can be read",
                ),
            }
        }
    }
}

fn shown(check: &Check) -> String {
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
