//! The services of a run: providers, tools, hooks and the rest, from a workflow.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_app::{ActionLog, Hooks, Services, Watcher, check_workflow};
use forge_domain::{
    HookCommand, Nobody, Person, ProviderConfig, RuleLayer, SessionSink, ToolService, Workflow,
};
use forge_infra::{CommandSandbox, ShellHook, SystemClock, WorkspaceTools};
use forge_services::workflow::{Finding, Layers, Source as YamlSource, all_callees};
use forge_services::{HandlebarsTemplates, ProviderRegistry, token_counter};

use super::logged_provider::LoggedProvider;
use super::mcp;
use super::provider_faults::used_providers;
use super::providers::{Providers, providers, unusable};
use super::surroundings;
use crate::failure::Misconfigured;
use crate::places::environment;

/// Creates the services of a run for `person` in the working folder, with commands in this sandbox; `watcher`
/// is told about the servers of tools, and about retries.
pub(crate) fn services(
    workflow: Workflow,
    sink: Option<Arc<dyn SessionSink>>,
    layers: &Layers,
    watcher: &Watcher,
    person: Arc<dyn Person>,
    sandbox: Option<&Arc<CommandSandbox>>,
    actions: &ActionLog,
) -> anyhow::Result<Services> {
    let mut providers = providers(&workflow, watcher);
    for (id, provider) in &mut providers {
        let address = workflow.providers.get(id).and_then(ProviderConfig::address).unwrap_or_default();
        *provider = Arc::new(LoggedProvider::new(Arc::clone(provider), id.as_str(), address, actions));
    }
    let built_in = tools(&workflow)?.asking(Arc::clone(&person)).within(sandbox.cloned());
    let built_in = built_in.editing_in(person.editor()).running_in(person.terminal());
    let tools = mcp::join_tools(
        &workflow,
        Arc::new(built_in),
        &layers.environment,
        watcher,
        &person,
        sandbox,
        actions,
    );
    Ok(Services { person, ..services_around(workflow, providers, tools, sink) })
}

/// Creates the built-in tools over the working folder, configured by the workflow.
fn tools(workflow: &Workflow) -> anyhow::Result<WorkspaceTools> {
    Ok(WorkspaceTools::open(Path::new("."))?.with_settings(&workflow.tool_settings, &environment()))
}

/// Returns a watcher that does nothing.
pub(crate) fn silent_watcher() -> Watcher {
    Arc::new(|_| {})
}

/// Creates the workflow's hook commands, which run in the working folder.
pub(crate) fn hooks(
    workflow: &Workflow,
    layers: &Layers,
    sandbox: Option<&Arc<CommandSandbox>>,
    actions: &ActionLog,
) -> Hooks {
    Hooks::new().with_commands(workflow, |point, command, tools| {
        let hook = ShellHook::new(point, command, PathBuf::from("."), &layers.environment);
        let hook = Arc::new(hook.about(tools).within(sandbox.cloned()));
        actions.hook(hook, &format!("`hooks.{}`{}", point.as_str(), file_of_hook(layers, command)))
    })
}

/// Returns the words for the file that has the hook: the earliest one that holds its command.
fn file_of_hook(layers: &Layers, command: &HookCommand) -> String {
    let files = [
        (&layers.system, RuleLayer::System),
        (&layers.user, RuleLayer::User),
        (&layers.project, RuleLayer::Project),
    ];
    let holds = |source: &YamlSource| source.text.contains(command.command.as_str());
    let file = files.into_iter().find(|(source, _)| source.as_ref().is_some_and(holds));
    file.map_or_else(String::new, |(_, layer)| format!(" of {layer}"))
}

/// Creates services around existing providers and tools.
pub(crate) fn services_around(
    workflow: Workflow,
    providers: Providers,
    tools: Arc<dyn ToolService>,
    sink: Option<Arc<dyn SessionSink>>,
) -> Services {
    let counter = token_counter(workflow.counting.unwrap_or_default());
    let is_shown = workflow.agents.iter().any(surroundings::is_shown_to);
    let about_folder = if is_shown { surroundings::of(Path::new(".")) } else { String::new() };
    let templates = HandlebarsTemplates::new(workflow.variables.clone()).with_workspace(about_folder);
    Services {
        templates: Arc::new(templates),
        workflow: Arc::new(workflow),
        providers: Arc::new(ProviderRegistry::new(providers)),
        counter,
        tools,
        person: Arc::new(Nobody),
        clock: Some(Arc::new(SystemClock)),
        sink,
    }
}

/// Creates services whose tools are known and are not run: nothing is watched, logged or kept in a sandbox.
pub(crate) fn idle_services(workflow: Workflow, layers: &Layers) -> anyhow::Result<Services> {
    let built_in = Arc::new(tools(&workflow)?);
    let environment = &layers.environment;
    let watcher = silent_watcher();
    let person: Arc<dyn Person> = Arc::new(Nobody);
    let tools = mcp::join_tools(&workflow, built_in, environment, &watcher, &person, None, &ActionLog::new());
    let providers = providers(&workflow, &watcher);
    Ok(services_around(workflow, providers, tools, None))
}

/// Fails with all faults of the agents, or of the one that is to run, and of the providers that they need,
/// each at its place in its layer.
pub(crate) fn check_agents(services: &Services, layers: &Layers, agent: Option<&str>) -> anyhow::Result<()> {
    let mut findings = check_workflow(services);
    if let Some(agent) = agent.and_then(|agent| services.workflow.agents.find(agent)) {
        // It works with those that it calls.
        let callees = all_callees(&services.workflow, agent).into_iter();
        let paths: Vec<String> = callees.chain([agent]).map(|agent| format!("agents.{}", agent.id)).collect();
        let is_below = |path: &String, finding: &Finding| {
            finding.path.strip_prefix(path).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        // The rules of the whole file are its rules, too.
        let is_rule = |finding: &Finding| finding.path.starts_with("permissions.");
        findings.retain(|finding| is_rule(finding) || paths.iter().any(|path| is_below(path, finding)));
    }
    let used = used_providers(&services.workflow, agent);
    let unusable = unusable(&services.workflow, layers).into_iter();
    findings.extend(unusable.filter(|(id, _)| used.contains(id)).map(|(_, finding)| finding));
    if findings.is_empty() {
        return Ok(());
    }
    let faults: Vec<String> = layers.point_at_all(&findings).iter().map(ToString::to_string).collect();
    Err(Misconfigured(faults.join("\n\n")).into())
}
