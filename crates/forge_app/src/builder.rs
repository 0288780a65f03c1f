//! A builder of an orchestrator, for programs that embed the crates.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::compaction::{CompactionStrategy, ContextCompactor, Rung};
use forge_domain::{
    Agent, Clock, Hook, HookCommand, HookPoint, ModelConfig, ModelId, Nobody, Person, Provider, ProviderId,
    SessionSink, TokenCounter, ToolCall, ToolDefinition, ToolName, ToolPattern, ToolResult, ToolService,
    UnknownToolError, Workflow,
};
use forge_services::workflow::Finding;
use forge_services::{HandlebarsTemplates, ProviderRegistry, token_counter};

use crate::engine::silent_watcher;
use crate::guarded_strategy::GuardedStrategy;
use crate::hooks::{NamedCommands, named_commands};
use crate::{Checkpointing, Engine, Hooks, Orchestrator, RunEvent, Services, Watcher, check_workflow};

/// A builder of an orchestrator, for programs that embed the crates. Parts that are not given have a default:
/// counting as the workflow says, no tools, no clock, no watcher.
#[derive(Default)]
pub struct OrchestratorBuilder {
    workflow: Workflow,
    providers: BTreeMap<ProviderId, Arc<dyn Provider>>,
    tools: Option<Arc<dyn ToolService>>,
    counter: Option<Arc<dyn TokenCounter>>,
    clock: Option<Arc<dyn Clock>>,
    sink: Option<Arc<dyn SessionSink>>,
    person: Option<Arc<dyn Person>>,
    watcher: Option<Watcher>,
    compactor: ContextCompactor,
    hooks: Hooks,
    runner: Option<HookRunner>,
    checkpointing: Option<Arc<Checkpointing>>,
}

/// A maker of hooks: of a point, the command there, and the tools that it is about.
type HookRunner = Box<dyn Fn(HookPoint, &HookCommand, &[ToolPattern]) -> Arc<dyn Hook> + Send + Sync>;

/// An error that prevents an orchestrator from being built.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// There is no agent.
    #[error("there is no agent: add one with `agent`, or a workflow that has one with `workflow`")]
    NoAgent,
    /// There is no provider.
    #[error("there is no provider: add one with `provider`")]
    NoProvider,
    /// The workflow or one of its agents names a command for a hook, and nothing would run it.
    #[error(
        "{key} is a command that nothing would run: set what runs it with `hook_commands`, for example \
         `forge_infra::ShellHook`, or remove the command"
    )]
    HookCommand {
        /// The key of the first such command.
        key: String,
    },
    /// A registered strategy has no id.
    #[error("a registered strategy has a blank id: return a word from its `id` ({description})")]
    BlankStrategy {
        /// The strategy, in its own words.
        description: String,
    },
    /// The agents cannot run as they are set up.
    #[error("{}", in_lines(.0))]
    Unusable(Vec<Finding>),
}

fn in_lines(findings: &[Finding]) -> String {
    findings.iter().map(|Finding { path, what, .. }| format!("{path}: {what}")).collect::<Vec<_>>().join("\n")
}

impl Orchestrator {
    /// Builds one piece by piece.
    pub fn builder() -> OrchestratorBuilder {
        OrchestratorBuilder::default()
    }
}

impl OrchestratorBuilder {
    /// Uses a whole workflow. Agents, models and providers that were added before stay: an agent of the same
    /// id is merged into the earlier one, and a model or a provider of the workflow replaces the one of its
    /// id. All else that an earlier workflow set is replaced.
    #[must_use]
    pub fn workflow(self, workflow: Workflow) -> Self {
        let Workflow { mut providers, mut models, mut agents, .. } = self.workflow;
        providers.extend(workflow.providers);
        models.extend(workflow.models);
        workflow.agents.iter().cloned().for_each(|agent| agents.add(agent));
        Self { workflow: Workflow { providers, models, agents, ..workflow }, ..self }
    }

    /// Adds an agent, or merges it into the one of the same id.
    #[must_use]
    pub fn agent(mut self, agent: Agent) -> Self {
        self.workflow.agents.add(agent);
        self
    }

    /// Adds what is known of a model.
    #[must_use]
    pub fn model(mut self, id: ModelId, model: ModelConfig) -> Self {
        self.workflow.models.insert(id, model);
        self
    }

    /// Adds a provider under `id`; models are `id:model` then.
    #[must_use]
    pub fn provider(mut self, id: ProviderId, provider: Arc<dyn Provider>) -> Self {
        self.workflow.providers.entry(id.clone()).or_default();
        self.providers.insert(id, provider);
        self
    }

    /// Sets the tools that agents may call.
    #[must_use]
    pub fn tools(self, tools: Arc<dyn ToolService>) -> Self {
        Self { tools: Some(tools), ..self }
    }

    /// Registers a compaction strategy. It replaces one of the same id. It is tried after the strategies of
    /// an agent's `compact` block, before `truncation`, unless [`Compact::strategies`](forge_domain::Compact)
    /// names it as a [`Rung::Registered`]: then it is tried at that place. A panic in it is a failed attempt.
    #[must_use]
    pub fn strategy(self, strategy: Arc<dyn CompactionStrategy>) -> Self {
        let strategy = Arc::new(GuardedStrategy(strategy));
        Self { compactor: self.compactor.register_strategy(strategy), ..self }
    }

    /// Counts tokens in another way.
    #[must_use]
    pub fn counter(self, counter: Arc<dyn TokenCounter>) -> Self {
        Self { counter: Some(counter), ..self }
    }

    /// Stamps messages with the time.
    #[must_use]
    pub fn clock(self, clock: Arc<dyn Clock>) -> Self {
        Self { clock: Some(clock), ..self }
    }

    /// Asks `person` if a call needs consent. Without a person, such calls are not made.
    #[must_use]
    pub fn person(self, person: Arc<dyn Person>) -> Self {
        Self { person: Some(person), ..self }
    }

    /// Saves the session after each step.
    #[must_use]
    pub fn sink(self, sink: Arc<dyn SessionSink>) -> Self {
        Self { sink: Some(sink), ..self }
    }

    /// Saves checkpoints, so that the run can be resumed. The caller ends with [`Orchestrator::close`].
    #[must_use]
    pub fn checkpoints(self, checkpointing: impl Into<Arc<Checkpointing>>) -> Self {
        Self { checkpointing: Some(checkpointing.into()), ..self }
    }

    /// Watches what happens.
    #[must_use]
    pub fn watcher(self, watcher: impl Fn(&RunEvent<'_>) + Send + Sync + 'static) -> Self {
        Self { watcher: Some(Arc::new(watcher)), ..self }
    }

    /// Adds a hook, which is asked or notified at points of the run, in the order in which hooks are added.
    /// The commands that a workflow or an agent names are not hooks automatically: see
    /// [`Self::hook_commands`].
    #[must_use]
    pub fn hook(self, hook: Arc<dyn Hook>) -> Self {
        Self { hooks: self.hooks.with(hook), ..self }
    }

    /// Sets what makes a hook of a command that the workflow or an agent names, such as
    /// `forge_infra::ShellHook`; these are asked after the hooks of [`Self::hook`]. Without it, nothing is
    /// built if there are such commands: the embedding program decides whether commands run.
    #[must_use]
    pub fn hook_commands(
        self,
        runner: impl Fn(HookPoint, &HookCommand, &[ToolPattern]) -> Arc<dyn Hook> + Send + Sync + 'static,
    ) -> Self {
        Self { runner: Some(Box::new(runner)), ..self }
    }

    /// Builds the orchestrator.
    ///
    /// # Errors
    /// [`BuildError`] if there is no agent or no provider, if nothing runs the command of a hook, if a
    /// strategy has a blank id, and with all findings of [`check_workflow`], such as a budget that can never
    /// fit, with the terms of its sum. A strategy that an agent's list names and that is not registered is a
    /// finding, too.
    pub fn build(self) -> Result<Orchestrator, BuildError> {
        self.build_engine().map(Orchestrator::new)
    }

    /// Builds the engine alone, for example to replay a session.
    ///
    /// # Errors
    /// [`BuildError`] if there is no agent or no provider, if nothing runs the command of a hook, if a
    /// strategy has a blank id, and with all findings of [`check_workflow`], such as a budget that can never
    /// fit, with the terms of its sum. A strategy that an agent's list names and that is not registered is a
    /// finding, too.
    pub fn build_engine(self) -> Result<Engine, BuildError> {
        let mut workflow = self.workflow;
        if workflow.agents.is_empty() {
            return Err(BuildError::NoAgent);
        }
        if self.providers.is_empty() {
            return Err(BuildError::NoProvider);
        }
        if let Some(blank) = self.compactor.registered().find(|strategy| strategy.id().trim().is_empty()) {
            return Err(BuildError::BlankStrategy { description: blank.description().to_owned() });
        }
        let hooks = match (self.runner, first_command(&workflow)) {
            (None, Some(key)) => return Err(BuildError::HookCommand { key }),
            (None, None) => self.hooks,
            (Some(runner), _) => self.hooks.with_commands(&workflow, runner),
        };
        let unknown = unknown_strategies(&workflow, &self.compactor);
        workflow.agents.for_each(Agent::summarize_by_own_model);
        let counting = workflow.counting.unwrap_or_default();
        let templates = Arc::new(HandlebarsTemplates::new(workflow.variables.clone()));
        let services = Services {
            workflow: Arc::new(workflow),
            providers: Arc::new(ProviderRegistry::new(self.providers)),
            templates,
            counter: self.counter.unwrap_or_else(|| token_counter(counting)),
            tools: self.tools.unwrap_or_else(|| Arc::new(NoTools)),
            person: self.person.unwrap_or_else(|| Arc::new(Nobody)),
            clock: self.clock,
            sink: self.sink,
        };
        let findings: Vec<Finding> = unknown.into_iter().chain(check_workflow(&services)).collect();
        if !findings.is_empty() {
            return Err(BuildError::Unusable(findings));
        }
        let watcher = self.watcher.unwrap_or_else(silent_watcher);
        let engine = Engine::new(services, self.compactor, watcher).with_hooks(hooks);
        Ok(match self.checkpointing {
            Some(checkpointing) => engine.with_checkpoints(checkpointing),
            None => engine,
        })
    }
}

/// Returns the key of the first command for a hook.
fn first_command(workflow: &Workflow) -> Option<String> {
    named_commands(workflow).find_map(|NamedCommands { agent, commands, .. }| {
        let (point, _, _) = commands.iter().next()?;
        let of_agent = agent.map(|agent| format!("agents.{agent}.")).unwrap_or_default();
        Some(format!("{of_agent}hooks.{}", point.as_str()))
    })
}

/// Returns the places where an agent's list names a registered strategy that there is not.
fn unknown_strategies(workflow: &Workflow, compactor: &ContextCompactor) -> Vec<Finding> {
    let known: Vec<&str> = compactor.registered().map(|strategy| strategy.id()).collect();
    let known_words = match known.as_slice() {
        [] => "no strategy is registered; add it with `strategy`".to_owned(),
        known => format!("expected one of {}", known.join(", ")),
    };
    let mut unknown = Vec::new();
    for agent in workflow.agents.iter() {
        let listed = agent.compact.iter().flat_map(|compact| compact.strategies.iter().flatten());
        for (position, rung) in listed.enumerate() {
            if let Rung::Registered(id) = rung
                && !known.contains(&id.as_str())
            {
                let path = format!("agents.{}.compact.strategies[{position}]", agent.id);
                let what = format!("no strategy `{id}` is registered ({known_words})");
                unknown.push(Finding { path, what, hint: None });
            }
        }
    }
    unknown
}

/// A tool service without tools.
struct NoTools;

#[async_trait]
impl ToolService for NoTools {
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        match names.first() {
            None => Ok(Vec::new()),
            Some(name) => Err(UnknownToolError { name: name.clone(), known: "(none)".to_owned() }),
        }
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        ToolResult::error(call, "there are no tools")
    }
}
