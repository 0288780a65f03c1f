//! Checkpoints of a turn, and the state in which a later process finds it.

use std::sync::{Arc, PoisonError};
use std::time::Instant;

use forge_domain::{
    Agent, AgentId, Body, Checkpoint, CheckpointSaved, Configuration, Conversation, HookEvent, Message, Role,
    ToolCall, ToolResult,
};
use futures::channel::mpsc::UnboundedReceiver;
use futures::{FutureExt, StreamExt};
use tracing::Instrument;

use super::Engine;
use crate::checkpointing::{CheckpointTally, Checkpointing, Point};
use crate::course::Course;
use crate::learned_limit::LearnedLimits;
use crate::resume::find;
use crate::{Resume, ResumeError, RunError, RunEvent, RunReport, StopReason, spans};

/// What the model is told of a call that a run did not live to see the end of.
const INTERRUPTED: &str = "The run was interrupted before this call had answered. It may have had its effect, or a part of \
                           it: look before you call it again.";

impl Engine {
    /// The same engine, which keeps checkpoints.
    #[must_use]
    pub fn with_checkpoints(self, checkpointing: Checkpointing) -> Self {
        let checkpointing = Arc::new(checkpointing);
        self.actions.keep_with(&checkpointing);
        Self { checkpointing: Some(checkpointing), ..self }
    }

    pub(crate) fn checkpointing(&self) -> Option<&Checkpointing> {
        self.checkpointing.as_deref()
    }

    /// What became of the checkpoints in this process; `None` where none are kept.
    pub fn checkpoints(&self) -> Option<CheckpointTally> {
        self.checkpointing().map(Checkpointing::report)
    }

    /// What `agent` works with, as checkpoints keep it.
    ///
    /// # Errors
    /// [`RunError`] where it cannot work.
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

    /// Keeps the state where that is due at `point` and it is not kept yet.
    pub(crate) async fn keep(
        &self,
        agent: &Agent,
        conversation: &Conversation,
        course: &mut Course,
        point: Point,
    ) {
        course.progress.spent = self.ledger.of(&agent.id);
        let Some(checkpointing) = self.checkpointing() else { return };
        let mark = course.mark(conversation);
        // That results were kept while other calls ran is not the state of a run that was interrupted.
        let is_told = point != Point::Interrupt || mark.n_finished == 0;
        let is_kept = course.kept == Some(mark) && point != Point::Fork && is_told;
        if is_kept || !checkpointing.is_due(agent, point, course.progress.iterations) {
            return;
        }
        let started = Instant::now();
        let limits = self.narrowed.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let snapshot = course.snapshot(&agent.id, conversation, &limits);
        let span = spans::checkpoint_span(&point.step(course.progress.iterations));
        let saved = checkpointing.save(snapshot, point, course.parent).instrument(span.clone()).await;
        spans::record_checkpoint(&span, &saved);
        drop(span);
        match saved {
            Ok(info) => {
                course.parent = Some(info.key);
                course.kept = Some(mark);
                match point {
                    Point::Calling => {
                        if let Some(earlier) = course.begun.replace(info.key) {
                            checkpointing.drop_needless(earlier).await;
                        }
                    }
                    // The calls that were known to have begun are known to be over.
                    Point::Iteration => {
                        if let Some(begun) = course.begun.take() {
                            checkpointing.drop_needless(begun).await;
                        }
                    }
                    _ => {}
                }
                self.tell(&RunEvent::Checkpointed { info: &info, took: started.elapsed() });
                // One that is made while calls run is taken away when they are over.
                if point != Point::Calling {
                    let saved = CheckpointSaved { agent: &agent.id, checkpoint: &info };
                    self.tell_hooks(&agent.id, HookEvent::Checkpoint(saved)).await;
                }
            }
            Err(error) => self.tell(&RunEvent::CheckpointFailed(&error)),
        }
    }

    /// Checks that no other process has taken the run over: asked directly before a model or a tool is called.
    ///
    /// # Errors
    /// [`RunError::Fenced`].
    pub(super) async fn check_fence(&self) -> Result<(), RunError> {
        match self.checkpointing() {
            Some(checkpointing) => {
                checkpointing.check_fence().await.map_err(|source| RunError::Fenced { source })
            }
            None => Ok(()),
        }
    }

    /// The same, as far as it is known already.
    ///
    /// # Errors
    /// [`RunError::Fenced`].
    pub(crate) fn known_fence(&self) -> Result<(), RunError> {
        let known = self.checkpointing().map_or(Ok(()), Checkpointing::known_fence);
        known.map_err(|source| RunError::Fenced { source })
    }

    /// Keeps each result of `n_calls` calls that run at once, as long as others are still missing: whoever goes on after a
    /// death in the middle has it. `noted` tells of each. Results that come while a state is saved are kept together.
    pub(super) async fn keep_results(
        &self,
        agent: &Agent,
        conversation: &Conversation,
        course: &mut Course,
        mut noted: UnboundedReceiver<()>,
        n_calls: usize,
    ) {
        let mut n_noted = 0;
        while n_noted < n_calls && noted.next().await.is_some() {
            n_noted += 1;
            while noted.next().now_or_never().flatten().is_some() {
                n_noted += 1;
            }
            if n_noted < n_calls {
                self.keep(agent, conversation, course, Point::Calling).await;
            }
        }
    }

    /// Keeps the state where the turn has only its task yet.
    pub(crate) async fn keep_task(&self, agent: &Agent, conversation: &Conversation, course: &mut Course) {
        if self.checkpointing.is_some() && course.progress.turn_iterations == 0 {
            let turns = conversation.messages().filter(|message| message.starts_turn());
            let n_turns = turns.count();
            self.keep(agent, conversation, course, Point::Turn(n_turns)).await;
        }
    }

    /// Keeps the state where the context was compacted since there were `n_before` compactions.
    pub(super) async fn keep_compaction(
        &self,
        agent: &Agent,
        conversation: &Conversation,
        course: &mut Course,
        n_before: usize,
    ) {
        let n = conversation.n_compactions();
        if n > n_before {
            self.keep(agent, conversation, course, Point::Compaction(n)).await;
        }
    }

    /// The work of `agent` alone as it was saved, whose run is claimed: for those who keep the conversation themselves.
    ///
    /// # Errors
    /// [`ResumeError`]; nothing is claimed then.
    pub(crate) async fn restored(
        &self,
        agent: &Agent,
        resume: &Resume,
    ) -> Result<(Conversation, Course), ResumeError> {
        let checkpointing = self.checkpointing().ok_or(ResumeError::NotKept)?;
        let mut found = find(checkpointing.store(), &resume.which, checkpointing.folder()).await?;
        self.services.prepare(agent).await?;
        let now = self.configuration(agent)?;
        if found.is_latest {
            found = found.adopted(checkpointing, resume.take_from).await?;
        }
        let Checkpoint { info, snapshot } = found.checkpoint;
        let (conversation, mut course, limits) = Course::restored(snapshot, info.key);
        course.configuration = Some(now);
        self.take_up(&agent.id, &course, limits);
        if !found.is_latest {
            self.keep(agent, &conversation, &mut course, Point::Fork).await;
        }
        Ok((conversation, course))
    }

    /// Takes in what was learnt of windows before, and what `agent` has spent of its budget.
    pub(crate) fn take_up(&self, agent: &AgentId, course: &Course, limits: LearnedLimits) {
        self.ledger.restore(agent, course.progress.spent);
        self.narrowed.lock().unwrap_or_else(PoisonError::into_inner).extend(limits);
    }

    /// The report of a turn that was over before.
    pub(crate) fn report_of(&self, conversation: &Conversation, course: &Course) -> RunReport {
        let last = conversation.messages().last().map(|message| message.message().to_text());
        RunReport {
            response: last.unwrap_or_default(),
            progress: course.progress.clone(),
            checkpoints: self.checkpoints(),
            ..RunReport::empty(StopReason::Done)
        }
    }

    /// Answers the calls that the log leaves open: with the results that were there when the run stopped, and where there
    /// is none with one that says so. No call is made again.
    pub(crate) fn settle(&self, conversation: &mut Conversation, course: &mut Course) {
        let finished = &mut *course.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let mut finished = std::mem::take(finished);
        for (at, call) in open_calls(conversation) {
            let result = finished.remove(&at).unwrap_or_else(|| ToolResult::error(&call, INTERRUPTED));
            self.tell(&RunEvent::ToolResult(&result));
            self.append(conversation, Message::tool(result));
        }
    }

    /// Ends what tools have started, gives the run back, so that the next process need not take it over, and lets go what the policy
    /// lets go.
    pub async fn close(&self) {
        self.services.tools.close().await;
        let Some(checkpointing) = &self.checkpointing else { return };
        self.actions.flush().await;
        self.tell_gap();
        if let Err(error) = checkpointing.close().await {
            self.tell(&RunEvent::CheckpointFailed(&error));
        }
    }
}

/// The calls of the last reply that have no result yet, and the place of each among its calls.
pub(crate) fn open_calls(conversation: &Conversation) -> Vec<(usize, ToolCall)> {
    let newest_first = || {
        conversation.entries().iter().rev().filter_map(|entry| match entry {
            forge_domain::Entry::Message(message) => Some(message.message()),
            forge_domain::Entry::Compaction(_) | forge_domain::Entry::Undo(_) => None,
        })
    };
    let n_results = newest_first().take_while(|message| message.role() == Role::Tool).count();
    match newest_first().nth(n_results).map(|message| &message.body) {
        Some(Body::Assistant { calls, .. }) => calls.iter().cloned().enumerate().skip(n_results).collect(),
        _ => Vec::new(),
    }
}

/// Whether the last turn is over: the model has spoken and called nothing.
pub(crate) fn is_over(conversation: &Conversation) -> bool {
    let last = conversation.entries().iter().rev().find_map(|entry| match entry {
        forge_domain::Entry::Message(message) => Some(message.message()),
        forge_domain::Entry::Compaction(_) | forge_domain::Entry::Undo(_) => None,
    });
    last.is_none_or(|last| last.role() == Role::Assistant && last.calls().is_empty())
}
