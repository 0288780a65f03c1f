//! The loop: view → fit → chat → append → tools → append, until no tool is called or a limit is reached.

mod asking;

mod capping;

mod effects;

mod fitting;

mod helping;

mod hooking;
mod looking;

mod repeating;

mod keeping;

mod permitting;

mod recalling;

mod readiness;
mod rehearsing;

mod transforming;

mod catalog;

mod spanning;
mod spending;
mod unfinished;

pub(crate) use self::keeping::is_over;
pub use self::looking::{LiveContext, NextCall};

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use forge_domain::compaction::{Compact, ContextCompactor, Rehearsal, Settled};
use forge_domain::{
    Agent, Budget, ContextMessage, Conversation, Event, FinishReason, Message, MessageId, Model, ModelRef,
    Price, Reply, Tokens, ToolCall, ToolDefinition, WindowSource,
};
use futures::channel::mpsc::unbounded;
use futures::future::{BoxFuture, Either, join, join_all, select};

use self::asking::Answer;
use self::catalog::Catalog;
use self::helping::Helpers;
use self::permitting::Consents;
use self::recalling::Recalls;
use self::spending::Ledger;
use self::transforming::Transformed;
use self::unfinished::Flaw;
use crate::actions::ActionLog;
use crate::checkpointing::{Checkpointing, Point};
use crate::conversations::{Conversations, Others, Work};
use crate::course::{Course, Errand};
use crate::learned_limit::LearnedLimits;
use crate::{Hooks, RunError, RunEvent, RunReport, Services, StopReason, Watcher};

/// Runs turns of any agent on conversations that are handed to it.
pub struct Engine {
    services: Services,
    compactor: ContextCompactor,
    watcher: Watcher,
    hooks: Hooks,
    checkpointing: Option<Arc<Checkpointing>>,
    /// What is said but once.
    said: Arc<Mutex<BTreeSet<String>>>,
    /// What models taught that took less than their window says.
    narrowed: Arc<Mutex<LearnedLimits>>,
    catalog: Arc<Catalog>,
    ledger: Arc<Ledger>,
    consents: Arc<Consents>,
    actions: ActionLog,
    /// What the person was told and hooks are yet to hear.
    unheard: Arc<Mutex<Vec<String>>>,
    /// True if replies come from a recording, which are used as they are.
    is_playback: bool,
}

/// What stays the same over one turn.
#[derive(Clone)]
struct Setup {
    budget: Budget,
    compact: Compact,
    price: Option<Price>,
    /// The same with the tool that gives back what left the view; `None` where the agent has none.
    recall: Option<Box<Self>>,
    /// When that one is offered.
    recalls: Recalls,
    /// What the next compaction was asked for ahead.
    rehearsal: Rehearsal,
}

impl Engine {
    /// An engine that fits contexts with `compactor` and tells `watcher` what happens.
    pub fn new(services: Services, compactor: ContextCompactor, watcher: Watcher) -> Self {
        Self {
            services,
            compactor,
            watcher,
            hooks: Hooks::new(),
            checkpointing: None,
            said: Arc::default(),
            narrowed: Arc::default(),
            catalog: Arc::default(),
            ledger: Arc::default(),
            consents: Arc::default(),
            actions: ActionLog::default(),
            unheard: Arc::default(),
            is_playback: false,
        }
    }

    /// The same engine, which takes replies as they were recorded: none is asked for again.
    #[must_use]
    pub(crate) fn playing_back(self) -> Self {
        Self { is_playback: true, ..self }
    }

    /// The same engine, which asks and tells `hooks`.
    #[must_use]
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        Self { hooks, ..self }
    }

    /// The same engine, which keeps what it does in `actions`, if it keeps checkpoints.
    #[must_use]
    pub fn with_actions(self, actions: ActionLog) -> Self {
        if let Some(checkpointing) = &self.checkpointing {
            actions.keep_with(checkpointing);
        }
        Self { actions, ..self }
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
        let definitions = self.services.callable(agent.tools.as_deref().unwrap_or_default());
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
        let mut others = Conversations::besides(&agent.id);
        self.work(agent, conversation, &mut Course::default(), &Others::new(&mut others)).await
    }

    /// Tells `agent` of `event` and runs its turn; `errand` is what is to be done after it. Its first event also brings
    /// its system message.
    pub(crate) async fn tell_and_run(
        &self,
        agent: &Agent,
        event: &Event,
        Work { conversation, course }: &mut Work,
        others: &Others<'_>,
        errand: Option<Errand>,
    ) -> Result<RunReport, RunError> {
        self.tell(&RunEvent::Woken { agent: &agent.id });
        self.settle(conversation, course);
        self.services.prepare(agent).await?;
        let templates = &self.services.templates;
        // Who is called as a tool is told its own name, and not that of its lane.
        let named = self.services.workflow.agents.find(agent.id.without_lane()).unwrap_or(agent);
        let task = templates.render_event(named, event).map_err(RunError::Template)?;
        if conversation.entries().is_empty() {
            let tools = self.tools(agent)?;
            if let Some(system) = templates.render_system(named, &tools).map_err(RunError::Template)? {
                self.append(conversation, Message::system(system));
            }
        }
        self.append(conversation, Message::user(task));
        course.progress.turn_iterations = 0;
        course.errand = errand;
        self.work(agent, conversation, course, others).await
    }

    async fn worked(
        &self,
        agent: &Agent,
        conversation: &mut Conversation,
        course: &mut Course,
        others: &Others<'_>,
    ) -> Result<RunReport, RunError> {
        self.services.prepare(agent).await?;
        if self.checkpointing.is_some() && course.configuration.is_none() {
            course.configuration = Some(self.configuration(agent)?);
        }
        self.keep_task(agent, conversation, course).await;
        let result = self.turn(agent, conversation, course, others).await;
        let point = if result.is_ok() { Point::End } else { Point::Interrupt };
        self.keep(agent, conversation, course, point).await;
        if let Ok(RunReport { stop, .. }) = &result
            && *stop != StopReason::Done
        {
            self.notify(&stop.to_string());
        }
        self.tell_notifications(&agent.id).await;
        let mut report = result?;
        report.progress = course.progress.clone();
        report.checkpoints = self.checkpoints();
        self.tell(&RunEvent::Stopped(&report.stop));
        Ok(report)
    }

    async fn turn(
        &self,
        agent: &Agent,
        conversation: &mut Conversation,
        course: &mut Course,
        others: &Others<'_>,
    ) -> Result<RunReport, RunError> {
        self.learn(agent).await?;
        let mut revision = self.services.prepare(agent).await?;
        let mut setup = self.setup(agent)?;
        let mut report = RunReport::empty(StopReason::Done);
        let mut transformed = Transformed::default();
        // Results that were there when a run was interrupted.
        self.cap_results(agent, &setup, conversation);
        report.stop = loop {
            let n_asked = course.progress.turn_iterations;
            if let Some(limit) = agent.max_iterations.filter(|limit| n_asked >= limit.get()) {
                break StopReason::MaxIterations(limit.get());
            }
            let latest = self.services.prepare(agent).await?;
            if std::mem::replace(&mut revision, latest) != latest {
                setup = self.setup(agent)?;
            }
            if let Some(stop) = self.heed_repetition(agent, conversation) {
                break stop;
            }
            let n_compactions = conversation.n_compactions();
            self.transform(agent, &setup, conversation, others, &mut transformed, &mut report).await;
            self.keep_compaction(agent, conversation, course, n_compactions).await;
            self.tell_notifications(&agent.id).await;
            if let Some(denial) = self.rule_prompt(agent, &setup, conversation, course).await {
                break StopReason::Denied { hook: denial.by, reason: denial.reason };
            }
            let reply = match self.ask(agent, &mut setup, conversation, course, &mut report).await? {
                Answer::Reply(reply) => *reply,
                Answer::BudgetSpent(over) => break StopReason::BudgetSpent(over),
            };
            report.iterations += 1;
            report.usage += reply.usage.unwrap_or_default();
            report.response = reply.message.to_text();
            course.count(&reply);
            let cut_calls = reply.cut_calls();
            let Reply { message, usage, finish_reason } = reply;
            let calls = message.calls().to_vec();
            let flaw = Flaw::of(&report.response, calls.len(), &cut_calls, &finish_reason)
                .filter(|_| !self.is_playback)
                // The agent that asked is told that the answer is empty, and decides.
                .filter(|flaw| *flaw != Flaw::Empty || course.asked_by.is_none());
            // Servers refuse a message that neither says nor calls anything.
            let is_blank = calls.is_empty() && report.response.trim().is_empty();
            if flaw.is_none() || !is_blank {
                self.append(conversation, message);
            }
            self.save(agent, conversation).await?;
            let said = (calls.as_slice(), report.response.as_str());
            self.tell_replied(agent, &setup, course, said, (usage, &finish_reason)).await;
            if calls.is_empty() && flaw.is_none() {
                break end_of(&finish_reason);
            }
            let mut ahead = None;
            if !calls.is_empty() {
                // Saved as begun, so that a run resumed after a crash does not make these calls again.
                self.keep(agent, conversation, course, Point::Calling).await;
                self.known_fence()?;
                let helpers = Helpers::new(others, course.depth);
                ahead = self.run_tools(agent, &setup, &calls, conversation, course, &helpers).await?;
                for theirs in helpers.took() {
                    transformed.take(theirs, &mut report);
                }
            }
            let n_tokens = usage.map(|usage| usage.completion_tokens).filter(|tokens| *tokens > Tokens::ZERO);
            let n_tokens = n_tokens.or(setup.budget.options().max_output_tokens);
            let mut stop = None;
            if let Some(flaw) = flaw {
                stop = self.tell_flaw(&flaw, agent, n_tokens, conversation);
                self.save(agent, conversation).await?;
            }
            self.keep(agent, conversation, course, Point::Iteration).await;
            if let Some(stop) = stop {
                break stop;
            }
            if let Some(ahead) = ahead
                && self.is_compaction_due(&setup, conversation)
            {
                ahead.await;
            }
        };
        report.iterations += transformed.calls;
        self.settle_rehearsal(&agent.id, &setup.rehearsal, Settled::NotCompacted, course, &mut report);
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
        let (rehearsal, recalls) = (Rehearsal::default(), Recalls::of(agent));
        let narrowed = self.narrowed.lock().unwrap_or_else(PoisonError::into_inner).get(&name).copied();
        let Some(limit) = narrowed else {
            return Ok(Setup { budget, compact, price, recall: None, recalls, rehearsal });
        };
        let budget = budget.narrowed(limit.tokens());
        // Limits that made sense in the room that was believed in may make none in this one: the defaults always do.
        let unlimited = Compact { token_threshold: None, max_tokens: None, ..block.clone() };
        let compact = block.resolve(&budget).or_else(|_| unlimited.resolve(&budget)).map_err(refused)?;
        Ok(Setup { budget, compact, price, recall: None, recalls, rehearsal })
    }

    /// Runs the calls at once and appends their results in the order of the calls. Summaries that the next call is
    /// likely to need are asked for meanwhile; what is still to come of them is returned.
    async fn run_tools<'a>(
        &'a self,
        agent: &'a Agent,
        setup: &'a Setup,
        calls: &[ToolCall],
        conversation: &mut Conversation,
        course: &mut Course,
        helpers: &Helpers<'_, '_>,
    ) -> Result<Option<BoxFuture<'a, ()>>, RunError> {
        for call in calls {
            self.tell(&RunEvent::ToolCall(call));
        }
        let rehearsal = self.rehearsal(agent, setup, calls, conversation, course);
        // A result is noted when it is there: who is interrupted while others still run keeps it.
        let finished = Arc::clone(&course.finished);
        let (notes, noted) = unbounded();
        let log: &Conversation = conversation;
        let run = async |(at, call): (usize, &ToolCall)| {
            let result = self.ruled_call(agent, call, log, helpers).await;
            finished.lock().unwrap_or_else(PoisonError::into_inner).insert(at, result);
            self.tell(&RunEvent::ToolFinished(call));
            // Nobody listens only where nobody waits for these calls any more.
            drop(notes.unbounded_send(()));
        };
        let results = join_all(calls.iter().enumerate().map(run));
        let work = Box::pin(join(results, self.keep_results(agent, log, course, noted, calls.len())));
        let ahead = match rehearsal {
            None => {
                work.await;
                None
            }
            Some(ahead) => match select(work, ahead).await {
                Either::Left((_, ahead)) => Some(ahead),
                Either::Right(((), work)) => {
                    work.await;
                    None
                }
            },
        };
        // What was not called any more has no result.
        self.known_fence()?;
        let results = std::mem::take(&mut *finished.lock().unwrap_or_else(PoisonError::into_inner));
        for result in results.into_values() {
            self.tell(&RunEvent::ToolResult(&result));
            self.append(conversation, Message::tool(result));
        }
        self.cap_results(agent, setup, conversation);
        self.save(agent, conversation).await?;
        Ok(ahead)
    }

    async fn save(&self, agent: &Agent, conversation: &Conversation) -> Result<(), RunError> {
        match &self.services.sink {
            Some(sink) => sink.save(&agent.id, conversation).await.map_err(RunError::Sink),
            None => Ok(()),
        }
    }

    pub(crate) fn tell(&self, event: &RunEvent<'_>) {
        if let RunEvent::Notice(notice) = event {
            self.notify(notice);
        }
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
        FinishReason::Length | FinishReason::Window => StopReason::Cut,
        FinishReason::ContentFilter => StopReason::Withheld,
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_) => StopReason::Done,
    }
}

/// A watcher that looks away.
pub(crate) fn unwatched() -> Watcher {
    Arc::new(|_| {})
}
