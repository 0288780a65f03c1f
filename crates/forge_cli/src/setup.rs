//! The wiring: files and the environment become a workflow, and a workflow becomes services.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use forge_app::{ActionLog, Hooks, Services, Watcher, check_workflow};
use forge_domain::{
    Agent, AgentId, Allowance, Hook, HookCommand, HookCommands, HookPoint, Nobody, Person, Provider,
    ProviderConfig, ProviderId, ProviderKind, RuleLayer, SessionSink, ToolName, ToolPattern, ToolService,
    Workflow,
};
use forge_infra::{
    AnthropicProvider, CommandSandbox, Key, OllamaProvider, OpenAiProvider, Secret, ShellHook, SystemClock,
    SystemPause, WorkspaceTools,
};
use forge_services::workflow::{Finding, Flags, Layers, Source as YamlSource, all_callees, load};
use forge_services::{HandlebarsTemplates, ProviderRegistry, RetryPolicy, RetryingProvider, token_counter};

use crate::arguments::Source;
use crate::consent::{self, Demand, Need};
use crate::failure::Misconfigured;
use crate::logged_provider::LoggedProvider;
use crate::mcp;
use crate::output;
use crate::places::{self, PROJECT_FILE, environment};
use crate::provider_faults::{self, Fault, Unusable};
use crate::secrets;
use crate::session_file::{MOST_OF_A_CONFIGURATION, read_named};

/// A workflow and the layers that it came from.
pub(crate) struct Configuration {
    pub(crate) workflow: Workflow,
    pub(crate) layers: Layers,
    /// The untrusted demands of the project's file, which are left out.
    pub(crate) left_out: Vec<Demand>,
}

/// Reads and merges all layers, for a command that needs so much of the project's.
pub(crate) fn configuration(source: &Source, need: Need) -> anyhow::Result<Configuration> {
    configuration_within(source, Allowance::default(), need)
}

/// Reads and merges all layers, with the run's budget from the command line.
pub(crate) fn configuration_within(
    source: &Source,
    budget: Allowance,
    need: Need,
) -> anyhow::Result<Configuration> {
    let mut layers = layers(source)?;
    layers.flags.budget = budget;
    let left_out = consent::settle(&mut layers, project_file(source), need)?;
    let workflow = load(&layers).map_err(|error| Misconfigured(error.to_string()))?;
    secrets::hide_from_now_on(&workflow);
    Ok(Configuration { workflow, layers, left_out })
}

/// Returns the path of the project's file, whether or not it exists.
pub(crate) fn project_file(source: &Source) -> &Path {
    source.config.as_deref().unwrap_or(Path::new(PROJECT_FILE))
}

/// Reads all layers, the project's as if it were trusted.
pub(crate) fn layers(source: &Source) -> anyhow::Result<Layers> {
    let file = project_file(source);
    let project = match source.config.is_some() || file.exists() {
        true => Some(read_yaml(file)?),
        false => None,
    };
    let flags = Flags { model: source.model.clone(), provider: source.provider.clone(), ..Flags::default() };
    Ok(Layers { project, flags, ..own_layers()? })
}

/// Reads the layers that are not the project's.
pub(crate) fn own_layers() -> anyhow::Result<Layers> {
    let system =
        places::system_file().filter(|path| path.exists()).map(|path| read_yaml(&path)).transpose()?;
    Ok(Layers { system, user: user_layer()?, environment: environment(), ..Layers::default() })
}

/// Reads the user's own file, if there is one.
pub(crate) fn user_layer() -> anyhow::Result<Option<YamlSource>> {
    let file = places::configuration_folder(&environment()).map(|folder| folder.join(PROJECT_FILE));
    file.filter(|path| path.exists()).map(|path| read_yaml(&path)).transpose()
}

/// Reads the text of a workflow.
pub(crate) fn read_yaml(path: &Path) -> anyhow::Result<YamlSource> {
    let name = path.display().to_string();
    let text =
        String::from_utf8(read_named(path, "configuration", MOST_OF_A_CONFIGURATION)?).map_err(|error| {
            let at = error.utf8_error().valid_up_to();
            Misconfigured(format!("{name} is not UTF-8 text (byte {at}): is it a YAML file?"))
        })?;
    Ok(YamlSource { name, text })
}

/// Adds the agent that runs if none is configured: it reads the working folder.
pub(crate) fn with_built_in_agent(mut workflow: Workflow, source: &Source) -> anyhow::Result<Workflow> {
    if !workflow.agents.is_empty() {
        return Ok(workflow);
    }
    let named = || std::env::var("FORGE_MODEL").ok().filter(|model| !model.trim().is_empty());
    let model = source.model.clone().or_else(named);
    let model = model.ok_or_else(|| Misconfigured(NOTHING_CONFIGURED.to_owned()))?;
    let mut agent = Agent::new(AgentId::new("forge")?)
        .system_prompt(include_str!("../../../templates/system.md.hbs"))
        .tools(vec![ToolName::new("read")?, ToolName::new("list")?]);
    agent.model = Some(forge_domain::ModelId::new(model).map_err(|error| Misconfigured(error.to_string()))?);
    workflow.agents.add(agent);
    Ok(workflow)
}

const NOTHING_CONFIGURED: &str = "\
no agent and no model is configured. Do one of these:
  - name a model and give its key:
      export OPENAI_API_KEY=...
      forge run --model openai:gpt-4o-mini \"TASK\"
  - use a server of your own (llama.cpp, vLLM, LM Studio, Ollama...):
      export OPENAI_BASE_URL=http://localhost:8080/v1 OPENAI_API_KEY=none
      forge run --model openai:NAME \"TASK\"
  - write a forge.yaml here:
      providers:
        local: { kind: openai, base_url: http://localhost:8080/v1 }
      models:
        local:NAME: { window: 32000 }
      agents:
        - { id: helper, model: local:NAME, tools: [read, list] }";

/// Reports that transforms of the agent do nothing if only its `compact` block is used.
pub(crate) fn say_without_transforms(agent: &Agent) {
    if agent.transforms.as_deref().is_some_and(|transforms| !transforms.is_empty()) {
        let id = output::visible(agent.id.as_str());
        output::say(&format!(
            "note: the transforms of the agent `{id}` are ignored: only its `compact` block is used here"
        ));
    }
}

/// Creates the services of a run for `person` in the working folder, with commands in this sandbox; `watcher`
/// is told about the servers of tools.
pub(crate) fn services(
    workflow: Workflow,
    sink: Option<Arc<dyn SessionSink>>,
    layers: &Layers,
    watcher: &Watcher,
    person: Arc<dyn Person>,
    sandbox: Option<&Arc<CommandSandbox>>,
    actions: &ActionLog,
) -> anyhow::Result<Services> {
    let mut providers = providers(&workflow);
    for (id, provider) in &mut providers {
        let address = workflow.providers.get(id).and_then(ProviderConfig::address).unwrap_or_default();
        *provider = Arc::new(LoggedProvider::new(Arc::clone(provider), id.as_str(), address, actions));
    }
    let built_in = tools(&workflow)?.asking(Arc::clone(&person)).within(sandbox.cloned());
    let tools =
        mcp::join_tools(&workflow, Arc::new(built_in), &layers.environment, watcher, sandbox, actions);
    Ok(Services { person, ..services_around(workflow, providers, tools, sink) })
}

/// Creates the built-in tools over the working folder, configured by the workflow.
pub(crate) fn tools(workflow: &Workflow) -> anyhow::Result<WorkspaceTools> {
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
    let shell = |(point, command, tools): (HookPoint, HookCommand, &[ToolPattern])| -> Arc<dyn Hook> {
        let hook = ShellHook::new(point, &command, PathBuf::from("."), &layers.environment);
        let hook = Arc::new(hook.about(tools).within(sandbox.cloned()));
        actions.hook(hook, &format!("`hooks.{}`{}", point.as_str(), file_of_hook(layers, &command)))
    };
    let of = |commands: &HookCommands| -> Vec<Arc<dyn Hook>> { commands.iter().map(shell).collect() };
    let of_all = workflow.hooks.iter().flat_map(of).fold(Hooks::new(), Hooks::with);
    let of_agents = workflow.agents.iter().flat_map(|agent| {
        agent.hooks.iter().flat_map(of).map(|hook| (agent.id.clone(), hook)).collect::<Vec<_>>()
    });
    let with_agents = of_agents.fold(of_all, |hooks, (agent, hook)| hooks.with_one_of(agent, hook));
    let held = workflow.floor.hooks().flat_map(|(agent, commands)| {
        of(commands).into_iter().map(|hook| (agent.cloned(), hook)).collect::<Vec<_>>()
    });
    held.fold(with_agents, |hooks, (agent, hook)| hooks.with_last(agent, hook))
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

/// Providers by their name in the workflow.
pub(crate) type Providers = BTreeMap<ProviderId, Arc<dyn Provider>>;

/// Creates services around existing providers and tools.
pub(crate) fn services_around(
    workflow: Workflow,
    providers: Providers,
    tools: Arc<dyn ToolService>,
    sink: Option<Arc<dyn SessionSink>>,
) -> Services {
    let counter = token_counter(workflow.counting.unwrap_or_default());
    Services {
        templates: Arc::new(HandlebarsTemplates::new(workflow.variables.clone())),
        workflow: Arc::new(workflow),
        providers: Arc::new(ProviderRegistry::new(providers)),
        counter,
        tools,
        person: Arc::new(Nobody),
        clock: Some(Arc::new(SystemClock)),
        sink,
    }
}

/// Creates every declared provider; none is called yet. One that cannot be set up reports that when it is
/// called.
pub(crate) fn providers(workflow: &Workflow) -> Providers {
    let providers = workflow.providers.iter().map(|(id, config)| {
        let provider = provider(id, config);
        (id.clone(), provider.unwrap_or_else(|fault| Arc::new(Unusable::new(&fault))))
    });
    providers.collect()
}

/// Fails if the provider cannot be set up, or requires a key that is not in the environment.
pub(crate) fn key_is_there(workflow: &Workflow, id: &ProviderId) -> anyhow::Result<()> {
    if let Some(Err(fault)) = workflow.providers.get(id).map(|config| provider(id, config)) {
        return Err(Misconfigured(fault.to_string()).into());
    }
    let variable = workflow.providers.get(id).and_then(|config| config.api_key_env.as_ref());
    match variable.filter(|variable| std::env::var(variable).is_ok_and(|key| !key.trim().is_empty())) {
        None if variable.is_some() => {
            let variable = variable.cloned().unwrap_or_default();
            let error = forge_domain::ProviderError::MissingKey { provider: id.clone(), variable };
            Err(Misconfigured(error.to_string()).into())
        }
        _ => Ok(()),
    }
}

fn provider(id: &ProviderId, config: &ProviderConfig) -> Result<Arc<dyn Provider>, Fault> {
    let kind = config.kind.unwrap_or(ProviderKind::OpenAi);
    let Some(base_url) = config.address() else {
        return Err(Fault::NoAddress(id.clone()));
    };
    let key = match &config.api_key_env {
        None => Key::None,
        Some(variable) => match std::env::var(variable) {
            Ok(key) if !key.trim().is_empty() => Key::Given(Secret::new(key)),
            _ => Key::Missing { variable: variable.clone() },
        },
    };
    let (headers, missing) = headers(config);
    // What is missing is told when the provider is asked: the others can be used.
    let key = missing.map_or(key, |variable| Key::Missing { variable });
    let headers = headers.iter().map(|(name, value)| (*name, value));
    let provider = adapter(kind, id.clone(), base_url, key, headers)?;
    let usual = RetryPolicy::default();
    let retries = config.retries.map_or(usual.retries, |retries| retries as usize);
    Ok(Arc::new(RetryingProvider::new(
        provider,
        RetryPolicy { retries, ..usual },
        Arc::new(SystemPause),
        u64::from(std::process::id()),
        Arc::new(|retrying| {
            let said = output::visible_lines(&retrying.to_string());
            tracing::warn!(target: "forge::chat", "{said}");
            output::say_waiting(&format!("note: {said}"));
        }),
    )))
}

fn adapter<'a>(
    kind: ProviderKind,
    id: ProviderId,
    base_url: &str,
    key: Key,
    headers: impl Iterator<Item = (&'a str, &'a Secret)>,
) -> Result<Arc<dyn Provider>, Fault> {
    Ok(match kind {
        ProviderKind::OpenAi => Arc::new(OpenAiProvider::new(id, base_url, key)?.with_headers(headers)?),
        ProviderKind::Anthropic => {
            Arc::new(AnthropicProvider::new(id, base_url, key)?.with_headers(headers)?)
        }
        ProviderKind::Ollama => Arc::new(OllamaProvider::new(id, base_url, key)?.with_headers(headers)?),
        #[cfg(feature = "genai")]
        ProviderKind::Genai => {
            let base_url = Some(base_url).filter(|url| !url.is_empty());
            Arc::new(forge_infra::GenaiProvider::new(id, base_url, key)?.with_headers(headers))
        }
        #[cfg(not(feature = "genai"))]
        ProviderKind::Genai => return Err(Fault::NotBuilt(id)),
    })
}

/// Returns the headers of a provider's requests, with the values of environment variables, and the first
/// variable that is not set.
fn headers(config: &ProviderConfig) -> (Vec<(&str, Secret)>, Option<String>) {
    let (mut headers, mut missing) = (Vec::new(), None);
    for (name, value) in config.headers.iter().flatten() {
        let value = match value.strip_prefix('$') {
            None => Ok(value.clone()),
            Some(variable) => std::env::var(variable).map_err(|_| variable.to_owned()),
        };
        match value {
            Ok(value) => headers.push((name.as_str(), Secret::new(value))),
            Err(variable) => missing = missing.or(Some(variable)),
        }
    }
    (headers, missing)
}

/// Returns the faults of the providers that cannot be set up.
pub(crate) fn unusable(workflow: &Workflow, layers: &Layers) -> Vec<(ProviderId, Finding)> {
    let fault =
        |(id, config)| provider(id, config).err().map(|fault: Fault| (id.clone(), fault.finding(id, layers)));
    workflow.providers.iter().filter_map(fault).collect()
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
        findings.retain(|finding| paths.iter().any(|path| is_below(path, finding)));
    }
    let used = provider_faults::used_providers(&services.workflow, agent);
    let unusable = unusable(&services.workflow, layers).into_iter();
    findings.extend(unusable.filter(|(id, _)| used.contains(id)).map(|(_, finding)| finding));
    if findings.is_empty() {
        return Ok(());
    }
    let faults: Vec<String> = layers.point_at_all(&findings).iter().map(ToString::to_string).collect();
    Err(Misconfigured(faults.join("\n\n")).into())
}
