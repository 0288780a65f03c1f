//! `forge config`: checks and shows the configuration.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use console::style;
use forge_app::{ActionLog, Services, check_workflow, deprecations};
use forge_domain::{Agent, Allowance, ModelInfo, WindowSource, without_secrets};
use forge_services::workflow::{Examination, Layers, Origins, WorkflowError, examine, schema};
use serde_json::{Value, json};

use crate::arguments::{ConfigArguments, ConfigCommand, Source};
use crate::consent::{self, Need};
use crate::failure::{Exit, Misconfigured};
use crate::mcp;
use crate::migrate;
use crate::output;
use crate::resolution::{render, resolve};
use crate::run::runtime;
use crate::setup;

/// Checks or shows the configuration.
pub(crate) fn config(arguments: &ConfigArguments) -> anyhow::Result<ExitCode> {
    match &arguments.command {
        ConfigCommand::Check { source, json } => check(source, *json),
        ConfigCommand::Schema => {
            output::print(&schema_text()?)?;
            Ok(ExitCode::SUCCESS)
        }
        ConfigCommand::Migrate(arguments) => migrate::migrate(arguments),
        ConfigCommand::Show { source, budget, resolved, agent, json } => {
            let view = if *resolved { View::Resolved(agent.as_deref()) } else { View::Merged };
            show(source, budget.allowance(), &view, *json)
        }
    }
}

/// Returns the schema as in the shipped file.
pub(crate) fn schema_text() -> anyhow::Result<String> {
    Ok(serde_json::to_string_pretty(&schema())? + "\n")
}

fn check(source: &Source, json: bool) -> anyhow::Result<ExitCode> {
    let layers = setup::layers(source)?;
    // All of the file is looked at, and nothing of it is done; what is not trusted is told.
    consent::settle(&mut layers.clone(), setup::project_file(source), Need::Nothing)?;
    let Examination { workflow, faults, .. } = examine_layers(&layers)?;
    let agents: Vec<&str> = workflow.agents.iter().map(|agent| agent.id.as_str()).collect();
    let warnings = workflow.agents.iter().flat_map(deprecations).map(|finding| layers.point_at(&finding));
    let warnings: Vec<WorkflowError> = warnings.collect();
    if json {
        let told = |errors: &[WorkflowError]| errors.iter().map(as_json).collect::<Vec<_>>();
        let report = json!({
            "ok": faults.is_empty(), "agents": agents, "faults": told(&faults), "warnings": told(&warnings),
        });
        output::print(&(serde_json::to_string_pretty(&report)? + "\n"))?;
        return Ok(if faults.is_empty() { Exit::Done } else { Exit::NotBegun }.into());
    }
    for warning in &warnings {
        let mark = style("warning:").yellow().for_stderr();
        output::say(&format!("{mark} {}\n", output::visible_lines(&warning.to_string())));
    }
    if !faults.is_empty() {
        let told: Vec<String> = faults.iter().map(ToString::to_string).collect();
        return Err(Misconfigured(told.join("\n\n")).into());
    }
    let name = layers.project.map_or_else(|| "no forge.yaml".to_owned(), |source| source.name);
    output::print(&match agents.as_slice() {
        [] => format!("{name}: no agents\n"),
        agents => format!("{name}: no errors in {}\n", agents.join(", ")),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Examines the layers: returns all errors in them, and the merged workflow in this folder.
pub(crate) fn examine_layers(layers: &Layers) -> anyhow::Result<Examination> {
    let examined = examine(layers);
    let providers = setup::providers(&examined.workflow);
    let unusable = setup::unusable(&examined.workflow, layers);
    let built_in = Arc::new(setup::tools(&examined.workflow)?);
    let tools = mcp::join_tools(
        &examined.workflow,
        built_in,
        &layers.environment,
        &setup::silent_watcher(),
        None,
        &ActionLog::new(),
    );
    let services = setup::services_around(examined.workflow.clone(), providers, tools, None);
    let findings = unusable.into_iter().map(|(_, finding)| finding).chain(check_workflow(&services));
    Ok(examined.with_findings(findings, layers))
}

fn as_json(fault: &WorkflowError) -> Value {
    json!({
        "source": fault.source_name,
        "line": fault.position.map(|position| position.line),
        "column": fault.position.map(|position| position.column),
        "path": fault.path,
        "what": fault.what,
        "hint": fault.hint,
        "snippet": fault.snippet,
    })
}

/// The note below a configuration that a single layer could not express.
const HELD: &str = "# Permissions and hooks of earlier layers also apply: --resolved shows them.\n";

/// The view of the configuration.
enum View<'a> {
    /// All of it, as one complete layer.
    Merged,
    /// Each value with its layer, of one agent or of all.
    Resolved(Option<&'a str>),
}

fn show(source: &Source, budget: Allowance, view: &View<'_>, json: bool) -> anyhow::Result<ExitCode> {
    let configuration = setup::configuration_within(source, budget, Need::Nothing)?;
    let mut shown = configuration.workflow.clone();
    for provider in shown.providers.values_mut() {
        provider.base_url = provider.base_url.take().map(|url| without_secrets(&url));
        // A value that is no variable's name may be a secret.
        let values = provider.headers.iter_mut().flat_map(|headers| headers.values_mut());
        values.filter(|value| !value.starts_with('$')).for_each(|value| "(hidden)".clone_into(value));
    }
    let only = match view {
        View::Resolved(only) => only,
        View::Merged => {
            output::print(&if json {
                serde_json::to_string_pretty(&shown)? + "\n"
            } else {
                let held = if shown.floor.is_empty() { "" } else { HELD };
                serde_saphyr::to_string(&shown)? + held
            })?;
            return Ok(ExitCode::SUCCESS);
        }
    };
    let providers = setup::providers(&configuration.workflow);
    let built_in = Arc::new(setup::tools(&configuration.workflow)?);
    let environment = &configuration.layers.environment;
    let tools = mcp::join_tools(
        &configuration.workflow,
        built_in,
        environment,
        &setup::silent_watcher(),
        None,
        &ActionLog::new(),
    );
    let services = setup::services_around(configuration.workflow, providers, tools, None);
    let origins = Origins::of(&configuration.layers);
    let agents =
        services.workflow.agents.iter().filter(|agent| only.is_none_or(|id| agent.id.as_str() == id));
    let runtime = runtime()?;
    let all = agents
        .map(|agent| {
            let told = runtime.block_on(server_model_info(agent, &services));
            resolve(agent, &shown, &services, &origins, told.as_ref())
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let (Some(id), []) = (only, all.as_slice()) {
        let known: Vec<&str> = services.workflow.agents.iter().map(|agent| agent.id.as_str()).collect();
        return Err(Misconfigured(format!(
            "there is no agent `{id}` (expected one of {})",
            known.join(", ")
        ))
        .into());
    }
    output::print(&if json {
        serde_json::to_string_pretty(&json!({ "agents": all }))? + "\n"
    } else if all.is_empty() {
        "no agents\n".to_owned()
    } else {
        all.iter().map(render).collect::<Vec<_>>().join("\n")
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the server's description of the agent's model, if a run would request it too because the window is
/// not configured. A server that does not answer soon is no obstacle.
async fn server_model_info(agent: &Agent, services: &Services) -> Option<ModelInfo> {
    const PATIENCE: Duration = Duration::from_secs(3);
    let model = services.workflow.model(agent.model.as_ref()?).ok()?;
    if model.window_source != WindowSource::Assumed {
        return None;
    }
    let asked = services.providers.model_info(&model.reference);
    tokio::time::timeout(PATIENCE, asked).await.ok()?.ok()?
}
