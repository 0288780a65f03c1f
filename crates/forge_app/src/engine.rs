//! The loop: view → fit → chat → append → tools → append, until no tool is called or a limit is reached.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use forge_domain::compaction::{Compact, CompactionReport, ContextCompactor, Fit, Fitted, Outcome, Trigger};
use forge_domain::{
    Agent, AgentId, Budget, Context, ContextMessage, Conversation, FinishReason, HookError, HookEvent,
    Message, MessageId, Model, ModelRef, PostCompact, PreCompact, Prompt, Reply, ReplyParts, Size,
    StrategyId, ToolCall, ToolDefinition, WindowSource,
};
use futures::StreamExt;
use futures::future::join_all;
use tracing::field::Empty;
use tracing::{Instrument, Span};

use crate::hooks::Ruling;
use crate::{Hooks, RunError, RunEvent, RunReport, Services, StopReason, Watcher};

/// Runs turns of any agent on conversations that are handed to it.
pub struct Engine {
    services: Services,
    compactor: ContextCompactor,
    watcher: Watcher,
    hooks: Hooks,
    /// Models whose assumed window was said.
    said_windows: Mutex<BTreeSet<String>>,
}

/// What stays the same over one turn.
struct Setup {
    budget: Budget,
    compact: Compact,
}

impl Engine {
    /// An engine that fits contexts with `compactor` and tells `watcher` what happens.
    pub fn new(services: Services, compactor: ContextCompactor, watcher: Watcher) -> Self {
        Self { services, compactor, watcher, hooks: Hooks::new(), said_windows: Mutex::default() }
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
        let setup = self.setup(agent)?;
        let mut report = RunReport::empty(StopReason::Done);
        report.stop = loop {
            if let Some(limit) = agent.max_iterations.filter(|limit| report.iterations >= limit.get()) {
                break StopReason::MaxIterations(limit.get());
            }
            let prompt = self.fit(&agent.id, &setup, conversation, &mut report).await?;
            let counted = prompt.tokens();
            let reply = self.chat(prompt).await?;
            report.iterations += 1;
            if let Some(usage) = reply.usage {
                conversation.report_usage(&setup.budget.options().model, counted, usage);
                report.usage += usage;
            }
            report.response = reply.message.to_text();
            let calls = reply.message.calls().to_vec();
            self.append(conversation, reply.message);
            self.save(agent, conversation).await?;
            if calls.is_empty() {
                break end_of(&reply.finish_reason);
            }
            self.run_tools(agent, &calls, conversation).await?;
        };
        self.tell(&RunEvent::Stopped(&report.stop));
        Ok(report)
    }

    fn setup(&self, agent: &Agent) -> Result<Setup, RunError> {
        let named = || agent.id.to_string();
        let id = agent.model.as_ref().ok_or_else(|| RunError::NoModel { agent: named() })?;
        let model = self.services.workflow.model(id);
        let model = model.map_err(|source| RunError::Model { agent: named(), source })?;
        self.say_assumed_window(&model);
        let options = agent.chat_options(model.reference);
        let budget = Budget::new(model.limits, options, self.tools(agent)?, &*self.services.counter);
        let compact = agent.compact.clone().unwrap_or_default().resolve(&budget);
        let compact = compact.map_err(|source| RunError::Compact { agent: named(), source })?;
        Ok(Setup { budget, compact })
    }

    /// The view, made to fit: compacted where that is due, and the log told so.
    async fn fit(
        &self,
        agent: &AgentId,
        setup: &Setup,
        conversation: &mut Conversation,
        report: &mut RunReport,
    ) -> Result<Prompt, RunError> {
        let started = Instant::now();
        let view = conversation.view();
        let compactor = self.compactor.clone().informed_by(report.strategies.clone());
        // All that is counted from here on is ours; the limits are what the provider would count.
        let scale = conversation.scale(&setup.budget.options().model);
        let measured = Setup {
            budget: setup.budget.measured(scale),
            compact: setup.compact.measured(scale, &setup.budget),
        };
        let span = compact_span(view.size());
        let fit = self.ruled_fit(agent, &measured, &compactor, view).instrument(span.clone()).await;
        record(&span, &fit.report);
        let Fit { report: said, result } = fit;
        let result = match result {
            Err(still_over) => Err(RunError::StillOver(still_over)),
            Ok(Fitted { prompt, compacted: Some(compacted) }) => {
                conversation.record(&compacted).map(|_| prompt).map_err(RunError::Record)
            }
            Ok(Fitted { prompt, compacted: None }) => Ok(prompt),
        };
        let took = started.elapsed();
        tracing::debug!(parent: &span, micros = took.as_micros() as u64, "context fitted");
        self.tell(&RunEvent::Fitted { report: &said, took });
        if said.trigger.is_some() {
            let duration_ms = took.as_millis() as u64;
            let event = HookEvent::PostCompact(PostCompact { agent, report: &said, duration_ms });
            self.ask_hooks(agent, &event).await;
        }
        report.take(said);
        result
    }

    /// The view, made to fit as the hooks rule where a compaction is due.
    async fn ruled_fit(
        &self,
        agent: &AgentId,
        setup: &Setup,
        compactor: &ContextCompactor,
        view: Context,
    ) -> Fit {
        let Setup { budget, compact } = setup;
        let is_asked = !self.hooks.is_empty();
        let due = is_asked.then(|| compactor.due(compact, &view, budget, &*self.services.counter));
        let ruling = match due.flatten() {
            None => Ruling::Proceed,
            Some(trigger) => {
                let event = PreCompact::new(agent, trigger, budget.room(), compact, &view);
                match self.ask_hooks(agent, &HookEvent::PreCompact(event)).await {
                    Ruling::Deny { by, reason } => {
                        if trigger == Trigger::Window {
                            let notice = format!(
                                "the hook `{by}` denied a compaction that the window demands: {reason}"
                            );
                            self.tell(&RunEvent::Notice(&notice));
                        }
                        return compactor.veto(trigger, &by, &reason, view, budget);
                    }
                    ruling => ruling,
                }
            }
        };
        match ruling {
            Ruling::Edit(edit) => {
                compactor.fit(&edit.applied_to(compact), view, budget, &self.services).await
            }
            _ => compactor.fit(compact, view, budget, &self.services).await,
        }
    }

    /// Asks or tells the hooks; one that is broken is said and left out.
    async fn ask_hooks(&self, agent: &AgentId, event: &HookEvent<'_>) -> Ruling {
        let broken = |hook: &str, error: &HookError| self.tell(&RunEvent::HookFailed { hook, error });
        self.hooks.ask(agent, event, &broken).await
    }

    async fn chat(&self, prompt: Prompt) -> Result<Reply, RunError> {
        self.tell(&RunEvent::Sending(&prompt));
        let mut stream = self.services.providers.chat(prompt).await.map_err(RunError::Provider)?;
        let mut parts = ReplyParts::default();
        while let Some(piece) = stream.next().await {
            let piece = piece.map_err(RunError::Provider)?;
            if let Some(text) = &piece.content {
                self.tell(&RunEvent::Text(text));
            }
            if let Some(reasoning) = &piece.reasoning {
                self.tell(&RunEvent::Reasoning(reasoning));
            }
            parts.push(piece);
        }
        let reply = parts.finish().map_err(RunError::Provider)?;
        self.tell(&RunEvent::Replied { usage: reply.usage, finish_reason: &reply.finish_reason });
        Ok(reply)
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
        let results = join_all(calls.iter().map(|call| self.services.tools.call(call))).await;
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
        let is_new = || {
            let mut said = self.said_windows.lock().unwrap_or_else(PoisonError::into_inner);
            said.insert(model.reference.to_string())
        };
        if model.window_source == WindowSource::Assumed && is_new() {
            let window = model.limits.window;
            self.tell(&RunEvent::Notice(&format!(
                "the window of `{name}` is not known; {window} tokens are assumed. \
                 Set `models: {{ {name}: {{ window: N }} }}` in forge.yaml"
            )));
        }
    }
}

/// The span around a compaction; what comes of it is recorded at its end.
fn compact_span(before: Size) -> Span {
    tracing::info_span!(
        "compact",
        tokens_before = before.tokens.as_u64(),
        messages_before = before.messages as u64,
        tokens_after = Empty,
        messages_after = Empty,
        trigger = Empty,
        outcome = Empty,
        strategies = Empty,
    )
}

fn record(span: &Span, report: &CompactionReport) {
    span.record("tokens_after", report.after.tokens.as_u64());
    span.record("messages_after", report.after.messages as u64);
    span.record("outcome", report.outcome.name());
    if let Some(trigger) = report.trigger {
        span.record("trigger", tracing::field::display(trigger));
    }
    if let Outcome::Applied { strategies, .. } = &report.outcome {
        let strategies: Vec<&str> = strategies.iter().map(StrategyId::as_str).collect();
        span.record("strategies", strategies.join(", "));
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
