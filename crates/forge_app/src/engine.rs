//! The loop: view → fit → chat → append → tools → append, until no tool is called or a limit is reached.

mod asking;

mod fitting;

mod recalling;

mod transforming;

mod catalog;

mod spending;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use forge_domain::compaction::{Compact, ContextCompactor};
use forge_domain::{
    Agent, Budget, ContextMessage, Conversation, Event, FinishReason, Message, MessageId, Model, ModelRef,
    Price, Tokens, ToolCall, ToolDefinition, WindowSource,
};
use futures::future::join_all;

use self::asking::Answer;
use self::catalog::Catalog;
use self::spending::Ledger;
use self::transforming::Transformed;
use crate::conversations::Conversations;
use crate::{Hooks, RunError, RunEvent, RunReport, Services, StopReason, Watcher};

/// Runs turns of any agent on conversations that are handed to it.
pub struct Engine {
    services: Services,
    compactor: ContextCompactor,
    watcher: Watcher,
    hooks: Hooks,
    /// What is said but once.
    said: Arc<Mutex<BTreeSet<String>>>,
    /// Most tokens that are sent to models that took less than their window says.
    narrowed: Arc<Mutex<BTreeMap<String, Tokens>>>,
    catalog: Arc<Catalog>,
    ledger: Arc<Ledger>,
}

/// What stays the same over one turn.
#[derive(Clone)]
struct Setup {
    budget: Budget,
    compact: Compact,
    price: Option<Price>,
    /// The same with the tool that gives back what left the view; `None` where the agent has none.
    recall: Option<Box<Self>>,
}

impl Engine {
    /// An engine that fits contexts with `compactor` and tells `watcher` what happens.
    pub fn new(services: Services, compactor: ContextCompactor, watcher: Watcher) -> Self {
        Self {
            services,
            compactor,
            watcher,
            hooks: Hooks::new(),
            said: Arc::default(),
            narrowed: Arc::default(),
            catalog: Arc::default(),
            ledger: Arc::default(),
        }
    }

    /// The same engine, which asks and tells `hooks`.
    #[must_use]
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        Self { hooks, ..self }
    }

    /// The world that it works on.
    pub const fn services(&self) -> &Services {
        &self.services
    }

    /// Counts `message`, stamps it with the time and appends it to `conversation`.
    pub fn append(&self, conversation: &mut Conversation, message: Message) -> MessageId {
        let message = match &self.services.clock {
            Some(clock) if message.timestamp.is_none() => message.at(clock.now()),
            _ => message,
        };
        conversation.append(ContextMessage::count(message, &*self.services.counter))
    }

    /// What the model of `agent` is told of its tools.
    ///
    /// # Errors
    /// [`RunError::Tools`] where one of them is not there.
    pub fn tools(&self, agent: &Agent) -> Result<Vec<ToolDefinition>, RunError> {
        let names = agent.tools.as_deref().unwrap_or_default();
        let definitions = self.services.tools.definitions(names);
        definitions.map_err(|source| RunError::Tools { agent: agent.id.to_string(), source })
    }

    /// Runs one turn of `agent`: the conversation ends with what the agent is to answer, and afterwards with its answer.
    ///
    /// # Errors
    /// [`RunError`] where a step fails; everything before that step is in the conversation.
    pub async fn run_turn(
        &self,
        agent: &Agent,
        conversation: &mut Conversation,
    ) -> Result<RunReport, RunError> {
        self.run_turn_among(agent, conversation, &mut Conversations::besides(&agent.id)).await
    }

    /// Tells `agent` of `event` and runs its turn. Its first event also brings its system message.
    pub(crate) async fn tell_and_run(
        &self,
        agent: &Agent,
        event: &Event,
        conversation: &mut Conversation,
        others: &mut Conversations,
    ) -> Result<RunReport, RunError> {
        self.tell(&RunEvent::Woken { agent: &agent.id });
        let templates = &self.services.templates;
        let task = templates.render_event(agent, event).map_err(RunError::Template)?;
        if conversation.entries().is_empty() {
            let tools = self.tools(agent)?;
            if let Some(system) = templates.render_system(agent, &tools).map_err(RunError::Template)? {
                self.append(conversation, Message::system(system));
            }
        }
        self.append(conversation, Message::user(task));
        self.run_turn_among(agent, conversation, others).await
    }

    /// The same turn, where the conversations of the agents that its transforms name are among `others`.
    async fn run_turn_among(
        &self,
        agent: &Agent,
        conversation: &mut Conversation,
        others: &mut Conversations,
    ) -> Result<RunReport, RunError> {
        self.learn(agent).await?;
        let mut setup = self.setup(agent)?;
        let mut report = RunReport::empty(StopReason::Done);
        let mut transformed = Transformed::default();
        report.stop = loop {
            if let Some(limit) = agent.max_iterations.filter(|limit| report.iterations >= limit.get()) {
                break StopReason::MaxIterations(limit.get());
            }
            self.transform(agent, &setup, conversation, others, &mut transformed, &mut report).await;
            let reply = match self.ask(agent, &mut setup, conversation, &mut report).await? {
                Answer::Reply(reply) => *reply,
                Answer::BudgetSpent(over) => break StopReason::BudgetSpent(over),
            };
            report.iterations += 1;
            report.usage += reply.usage.unwrap_or_default();
            report.response = reply.message.to_text();
            let calls = reply.message.calls().to_vec();
            self.append(conversation, reply.message);
            self.save(agent, conversation).await?;
            if calls.is_empty() {
                break end_of(&reply.finish_reason);
            }
            self.run_tools(agent, &calls, conversation).await?;
        };
        report.iterations += transformed.calls;
        self.tell(&RunEvent::Stopped(&report.stop));
        Ok(report)
    }

    fn setup(&self, agent: &Agent) -> Result<Setup, RunError> {
        let tools = self.tools(agent)?;
        let recall = match recalling::tools(agent, &tools) {
            Some(tools) => Some(Box::new(self.setup_with(agent, tools)?)),
            None => None,
        };
        Ok(Setup { recall, ..self.setup_with(agent, tools)? })
    }

    fn setup_with(&self, agent: &Agent, tools: Vec<ToolDefinition>) -> Result<Setup, RunError> {
        let named = || agent.id.to_string();
        let id = agent.model.as_ref().ok_or_else(|| RunError::NoModel { agent: named() })?;
        let model = self.catalog.model(&self.services, id);
        let model = model.map_err(|source| RunError::Model { agent: named(), source })?;
        self.say_assumed_window(&model);
        let price = model.price;
        let options = agent.chat_options(model.reference);
        let name = options.model.to_string();
        let budget = Budget::new(model.limits, options, tools, &*self.services.counter);
        let block = agent.compact.clone().unwrap_or_default();
        let refused = |source| RunError::Compact { agent: named(), source };
        let compact = block.resolve(&budget).map_err(refused)?;
        let narrowed = self.narrowed.lock().unwrap_or_else(PoisonError::into_inner).get(&name).copied();
        let Some(tokens) = narrowed else { return Ok(Setup { budget, compact, price, recall: None }) };
        let budget = budget.narrowed(tokens);
        // Limits that made sense in the room that was believed in may make none in this one: the defaults always do.
        let unlimited = Compact { token_threshold: None, max_tokens: None, ..block.clone() };
        let compact = block.resolve(&budget).or_else(|_| unlimited.resolve(&budget)).map_err(refused)?;
        Ok(Setup { budget, compact, price, recall: None })
    }

    /// Runs the calls at once and appends their results in the order of the calls.
    async fn run_tools(
        &self,
        agent: &Agent,
        calls: &[ToolCall],
        conversation: &mut Conversation,
    ) -> Result<(), RunError> {
        for call in calls {
            self.tell(&RunEvent::ToolCall(call));
        }
        let results = join_all(calls.iter().map(|call| self.call(agent, call, conversation))).await;
        for result in results {
            self.tell(&RunEvent::ToolResult(&result));
            self.append(conversation, Message::tool(result));
        }
        self.save(agent, conversation).await
    }

    async fn save(&self, agent: &Agent, conversation: &Conversation) -> Result<(), RunError> {
        match &self.services.sink {
            Some(sink) => sink.save(&agent.id, conversation).await.map_err(RunError::Sink),
            None => Ok(()),
        }
    }

    pub(crate) fn tell(&self, event: &RunEvent<'_>) {
        (self.watcher)(event);
    }

    fn say_assumed_window(&self, model: &Model) {
        let ModelRef { model: name, .. } = &model.reference;
        if model.window_source == WindowSource::Assumed {
            let window = model.limits.window;
            self.say_once(&format!(
                "the window of `{name}` is not known; {window} tokens are assumed. \
                 Set `models: {{ {name}: {{ window: N }} }}` in forge.yaml"
            ));
        }
    }

    /// Says what the person should know, where it was not said before.
    fn say_once(&self, notice: &str) {
        let is_new = self.said.lock().unwrap_or_else(PoisonError::into_inner).insert(notice.to_owned());
        if is_new {
            self.tell(&RunEvent::Notice(notice));
        }
    }
}

/// Why a turn ends with a reply that calls no tool.
fn end_of(finish_reason: &FinishReason) -> StopReason {
    match finish_reason {
        FinishReason::Length => StopReason::Cut,
        FinishReason::ContentFilter => StopReason::Withheld,
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_) => StopReason::Done,
    }
}

/// A watcher that looks away.
pub(crate) fn unwatched() -> Watcher {
    Arc::new(|_| {})
}
