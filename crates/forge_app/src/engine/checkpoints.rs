//! Checkpoints of agents' states, and the state in which a later process finds them.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use forge_domain::{
    Agent, AgentId, Body, CheckpointInfo, CheckpointSaved, Configuration, Conversation, Entry, HookEvent,
    Message, Role, RunId, ToolCall, ToolResult,
};
use futures::channel::mpsc::UnboundedReceiver;
use futures::{FutureExt, StreamExt};
use tracing::Instrument;

use super::Engine;
use crate::checkpointing::{CheckpointTally, Checkpointing, Point};
use crate::conversations::Work;
use crate::course::{Course, Mark};
use crate::learned_limit::LearnedLimits;
use crate::{RunError, RunEvent, spans};

/// The result of a call whose end the run did not reach.
const INTERRUPTED: &str = "The run was interrupted before this call had answered. It may have had its effect, or a part of \
                           it: look before you call it again.";

/// The result of a call that had not started when the run was interrupted, as at a question for consent.
const NOT_STARTED: &str = "The run was interrupted before this call had started: nothing was done.";

/// The state of an agent that checkpoints save.
pub(crate) struct AgentState<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) agent: &'a Agent,
    pub(crate) conversation: &'a Conversation,
    pub(crate) course: &'a mut Course,
}

impl AgentState<'_> {
    /// Saves the state if that is due at `point` and it is not saved yet.
    pub(crate) async fn save(&mut self, point: Point) {
        let (engine, agent, course) = (self.engine, self.agent, &mut *self.course);
        course.progress.spent = engine.ledger.spent_by(&agent.id);
        course.dialogue.consents = engine.consents.kept(&agent.id);
        let Some(checkpointing) = engine.checkpointing() else { return };
        let mark = course.mark(self.conversation);
        // Results that were saved while other calls ran are not the state of an interrupted run.
        let is_same = course.saved == Some(mark) && (point != Point::Interrupt || mark.n_finished == 0);
        let is_saved = is_same && point != Point::Fork && !engine.limits.is_any_unsaved();
        if is_saved || !checkpointing.is_due(agent, point, course.progress.iterations) {
            return;
        }
        let started = Instant::now();
        let n_lowered = engine.limits.n_lowered();
        let snapshot = course.snapshot(&agent.id, self.conversation, &engine.limits.all());
        let span = spans::checkpoint_span(&point.step(course.progress.iterations));
        let saved = checkpointing.save(snapshot, point, course.parent).instrument(span.clone()).await;
        spans::record_checkpoint(&span, &saved);
        drop(span);
        match saved {
            Ok(info) => {
                engine.limits.note_saved(n_lowered);
                self.note_saved(point, mark, &info, checkpointing).await;
                engine.events.emit(&RunEvent::Checkpointed { info: &info, took: started.elapsed() });
                // A checkpoint made while calls run is removed when they are over.
                if point != Point::Calling {
                    let saved = CheckpointSaved { agent: &agent.id, checkpoint: &info };
                    engine.notify_hooks(&agent.id, HookEvent::Checkpoint(saved)).await;
                }
            }
            Err(error) => engine.events.emit(&RunEvent::CheckpointFailed(&error)),
        }
    }

    /// Notes the checkpoint, and deletes the one made while calls ran if this one replaces it.
    async fn note_saved(
        &mut self,
        point: Point,
        mark: Mark,
        info: &CheckpointInfo,
        checkpointing: &Checkpointing,
    ) {
        self.course.parent = Some(info.key);
        self.course.saved = Some(mark);
        let replaced = match point {
            Point::Calling => self.course.begun.replace(info.key),
            // The calls that were known to have begun are known to be over.
            Point::Iteration => self.course.begun.take(),
            _ => None,
        };
        if let Some(replaced) = replaced {
            checkpointing.delete_replaced(replaced).await;
        }
    }

    /// Saves the state if the turn has only its task yet.
    pub(crate) async fn save_task(&mut self) {
        if self.engine.checkpointing.is_some() && self.course.progress.turn_iterations == 0 {
            let n_turns = self.conversation.messages().filter(|message| message.starts_turn()).count();
            self.save(Point::Turn(n_turns)).await;
        }
    }

    /// Saves the state if the context was compacted since there were `n_before` compactions.
    pub(crate) async fn save_compaction(&mut self, n_before: usize) {
        let n = self.conversation.n_compactions();
        if n > n_before {
            self.save(Point::Compaction(n)).await;
        }
    }

    /// Saves each result of `n_calls` calls that run at once while others are still missing, so that a
    /// process that resumes after a crash has it. `noted` reports each. Results that come during a save are
    /// saved together.
    pub(crate) async fn save_results(&mut self, mut noted: UnboundedReceiver<()>, n_calls: usize) {
        let mut n_noted = 0;
        while n_noted < n_calls && noted.next().await.is_some() {
            n_noted += 1;
            while noted.next().now_or_never().flatten().is_some() {
                n_noted += 1;
            }
            if n_noted < n_calls {
                self.save(Point::Calling).await;
            }
        }
    }
}

impl Engine {
    /// Saves checkpoints.
    #[must_use]
    pub fn with_checkpoints(self, checkpointing: impl Into<Arc<Checkpointing>>) -> Self {
        let checkpointing = checkpointing.into();
        self.actions.keep_with(&checkpointing);
        Self { checkpointing: Some(checkpointing), ..self }
    }

    /// Returns the checkpoints of the run, if they are saved.
    pub fn checkpointing(&self) -> Option<&Checkpointing> {
        self.checkpointing.as_deref()
    }

    /// Returns the tally of the checkpoints in this process; `None` if none are saved.
    pub fn checkpoints(&self) -> Option<CheckpointTally> {
        self.checkpointing().map(Checkpointing::report)
    }

    /// Returns the run that checkpoints are saved under.
    pub(crate) fn run_id(&self) -> Option<RunId> {
        self.checkpoints().map(|tally| tally.run)
    }

    /// Returns the state of `agent`, to be saved.
    pub(crate) const fn state<'a>(&'a self, agent: &'a Agent, work: &'a mut Work) -> AgentState<'a> {
        let Work { conversation, course } = work;
        AgentState { engine: self, agent, conversation, course }
    }

    /// Returns the configuration of `agent`, as checkpoints save it.
    ///
    /// # Errors
    /// [`RunError`] if it cannot work.
    pub(crate) fn configuration(&self, agent: &Agent) -> Result<Configuration, RunError> {
        let named = || agent.id.to_string();
        let id = agent.model.as_ref().ok_or_else(|| RunError::NoModel { agent: named() })?;
        let model = self.services.workflow.model(id);
        let model = model.map_err(|source| RunError::Model { agent: named(), source })?;
        let tools = self.tools(agent)?;
        let mut configuration = Configuration::of(agent, Some((&model.reference, model.limits)), &tools);
        let folder = self.checkpointing().and_then(Checkpointing::folder);
        configuration.0.extend(folder.map(|folder| ("folder".to_owned(), folder.into())));
        Ok(configuration)
    }

    /// Checks that no other process has taken the run over, by asking the store. Called just before a model
    /// or a tool is called.
    ///
    /// # Errors
    /// [`RunError::Fenced`]; [`RunError::Unsaved`] if nothing may be done that is not saved.
    pub(crate) async fn check_fence(&self) -> Result<(), RunError> {
        let Some(checkpointing) = self.checkpointing() else { return Ok(()) };
        if let Some(at) = checkpointing.check_fence().await? {
            self.events.notice(&format!(
                "the lease of this run ran out at {at}, as when a machine sleeps; no other process had taken \
                 the run over, and it continues"
            ));
        }
        Ok(())
    }

    /// Checks that no other process is known to have taken the run over, and that a strict run is saved.
    ///
    /// # Errors
    /// [`RunError::Fenced`]; [`RunError::Unsaved`] if nothing may be done that is not saved.
    pub(crate) fn check_known_fence(&self) -> Result<(), RunError> {
        let Some(checkpointing) = self.checkpointing() else { return Ok(()) };
        Ok(checkpointing.check_known_fence()?)
    }

    /// Restores the learned limits, what the agent has spent of its budget, and the consents for the rest of
    /// the run, if checkpoints keep them.
    pub(crate) fn restore(&self, id: &AgentId, work: &Work, limits: LearnedLimits) {
        self.ledger.restore(id, work.course.progress.spent);
        self.limits.extend(limits);
        if let Some(consents) = &work.course.dialogue.consents {
            self.consents.restore(id, consents.clone());
        }
    }

    /// Answers the calls that the log leaves open: with the results that were there when the run stopped, and
    /// otherwise with a notice. No call is made again, and none that waited for a person is made.
    pub(crate) fn answer_open_calls(&self, work: &mut Work) {
        let waited = std::mem::take(&mut *work.course.dialogue.lock_awaiting());
        let finished = &mut *work.course.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let mut finished = std::mem::take(finished);
        for (at, call) in open_calls(&work.conversation) {
            let why = if waited.contains_key(&at) { NOT_STARTED } else { INTERRUPTED };
            let result = finished.remove(&at).unwrap_or_else(|| ToolResult::error(&call, why));
            self.events.emit(&RunEvent::ToolResult(&result));
            self.append(&mut work.conversation, Message::tool(result));
        }
    }

    /// Ends what tools have started, releases the run, so that the next process need not take it over, and
    /// deletes the checkpoints that the policy no longer retains.
    pub async fn close(&self) {
        self.services.tools.close().await;
        let Some(checkpointing) = &self.checkpointing else { return };
        self.actions.flush().await;
        self.events.report_gap(&self.actions);
        if let Err(error) = checkpointing.close().await {
            self.events.emit(&RunEvent::CheckpointFailed(&error));
        }
    }
}

/// Returns the messages of the log, newest first.
pub(crate) fn newest_first(log: &Conversation) -> impl Iterator<Item = &Message> {
    log.entries().iter().rev().filter_map(|entry| match entry {
        Entry::Message(message) => Some(message.message()),
        Entry::Compaction(_) | Entry::Undo(_) => None,
    })
}

/// Checks whether calls of the last reply wait for a person. They are made when the turn is resumed; their
/// neighbours that have no result get a notice, and are not made again.
pub(crate) fn settle_waiting_calls(work: &mut Work) -> bool {
    let Work { conversation, course } = work;
    let awaiting = course.dialogue.lock_awaiting();
    if awaiting.is_empty() {
        return false;
    }
    let mut finished = course.finished.lock().unwrap_or_else(PoisonError::into_inner);
    for (at, call) in open_calls(conversation) {
        if !awaiting.contains_key(&at) {
            finished.entry(at).or_insert_with(|| ToolResult::error(&call, INTERRUPTED));
        }
    }
    true
}

/// Notes of the calls that had not started when their turn was dropped that nothing was done.
pub(crate) fn note_unstarted(work: &mut Work) {
    let Work { conversation, course } = work;
    let started = course.started.lock().unwrap_or_else(PoisonError::into_inner).take();
    let Some(started) = started else { return };
    let mut finished = course.finished.lock().unwrap_or_else(PoisonError::into_inner);
    for (at, call) in open_calls(conversation) {
        if !started.contains(&call.id) {
            finished.entry(at).or_insert_with(|| ToolResult::error(&call, NOT_STARTED));
        }
    }
}

/// Returns the calls of the last reply that have no result yet, each with its place among the reply's calls.
pub(crate) fn open_calls(log: &Conversation) -> Vec<(usize, ToolCall)> {
    let n_results = newest_first(log).take_while(|message| message.role() == Role::Tool).count();
    match newest_first(log).nth(n_results).map(|message| &message.body) {
        Some(Body::Assistant { calls, .. }) => calls.iter().cloned().enumerate().skip(n_results).collect(),
        _ => Vec::new(),
    }
}

/// Checks whether the last turn is over: the model has answered and called nothing, or what it was asked was
/// withdrawn.
pub(crate) fn is_over(log: &Conversation) -> bool {
    log.view().messages().last().is_none_or(|last| ends_turn(last.message()))
}

/// Checks whether a message follows a turn that was stopped: nothing but notes follows what was asked or done
/// last.
pub(crate) fn was_stopped(log: &Conversation) -> bool {
    let view = log.view();
    let last = view.messages().iter().rfind(|message| message.message().note_by().is_none());
    last.is_some_and(|last| !ends_turn(last.message()))
}

/// Checks whether nothing is left to be answered after `message`.
fn ends_turn(message: &Message) -> bool {
    match message.role() {
        Role::System => true,
        Role::Assistant => message.calls().is_empty(),
        Role::User | Role::Tool => false,
    }
}
