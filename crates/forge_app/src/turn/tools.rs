//! The tools that a reply calls. They run while summaries for the next call are requested.

use std::collections::BTreeSet;
use std::sync::{Arc, PoisonError};

use forge_domain::compaction::cap;
use forge_domain::{Message, Tokens, ToolCall};
use futures::channel::mpsc::unbounded;
use futures::future::{BoxFuture, Either, join, select};

use super::agents::SubAgents;
use super::calls::ToolCalls;
use super::{Halt, Turn};
use crate::checkpointing::Point;
use crate::conversations::Work;
use crate::engine::AgentState;
use crate::{RunEvent, RunReport, StopReason};

/// Most tokens of a result unless the agent sets a limit.
const USUAL: Tokens = Tokens::new(16_000);
/// The largest share of the room that a result may have.
const SHARE: (u64, u64) = (1, 2);

impl<'a> Turn<'a, '_> {
    /// Runs the calls, except those that have a result already, and appends the results in the order of the
    /// calls. Summaries that the next call is likely to need are requested meanwhile; what is still to
    /// come of them is returned.
    ///
    /// # Errors
    /// [`Halt`] if calls wait for a person, which are made when the turn is resumed; if another process has
    /// taken the run over, or the session cannot be saved.
    pub(super) async fn run_tools(&mut self, calls: &[ToolCall]) -> Result<Option<BoxFuture<'a, ()>>, Halt> {
        if calls.is_empty() {
            return Ok(None);
        }
        self.work.course.dialogue.lock_awaiting().clear();
        // Saved as begun, so that a run resumed after a crash does not make these calls again.
        self.state().save(Point::Calling).await;
        self.engine.check_known_fence()?;
        let rehearsal = self.rehearsal(calls);
        let agents = SubAgents::of(self);
        let (engine, agent) = (self.engine, self.agent);
        let finished = Arc::clone(&self.work.course.finished);
        let (notes, noted) = unbounded();
        let Work { conversation, course } = &mut *self.work;
        let (emitted, started) = (Arc::clone(&course.events.emitted), Arc::clone(&course.started));
        let (awaiting, iterations) = (Arc::clone(&course.dialogue.awaiting), course.progress.iterations);
        *started.lock().unwrap_or_else(PoisonError::into_inner) = Some(BTreeSet::new());
        let tools = ToolCalls {
            engine,
            agent,
            conversation,
            agents: &agents,
            emitted: &emitted,
            started: &started,
            awaiting: &awaiting,
            iterations,
        };
        let mut state = AgentState { engine, agent, conversation, course };
        let results = tools.run_all(calls, &finished, &notes);
        let work = Box::pin(join(results, state.save_results(noted, calls.len())));
        let rest = beside(work, rehearsal).await;
        drop(started.lock().unwrap_or_else(PoisonError::into_inner).take());
        // Calls that were not made because of the fence have no result.
        self.engine.check_known_fence()?;
        let reports = agents.into_reports();
        let is_waiting = !awaiting.lock().unwrap_or_else(PoisonError::into_inner).is_empty();
        let stop = is_waiting.then(|| pause_of(&reports));
        for report in reports {
            self.transforms.count(report, &mut self.report);
        }
        if let Some(stop) = stop {
            return Err(Halt::Stop(stop));
        }
        let results = std::mem::take(&mut *finished.lock().unwrap_or_else(PoisonError::into_inner));
        for result in results.into_values() {
            self.engine.events.emit(&RunEvent::ToolResult(&result));
            self.append(Message::tool(result));
        }
        self.cap_results();
        self.save_session().await;
        Ok(rest)
    }

    /// Leaves the middle of results that are too large out of the view. That is a compaction like any other:
    /// the log has the whole, and `recall` gives it back.
    pub(super) fn cap_results(&mut self) {
        let own = self.agent.max_result_tokens.map(|most| Tokens::new(most.get() as u64));
        let room = self.setup.limits.budget.room();
        let most = own.unwrap_or_else(|| USUAL.min(room.share(SHARE.0, SHARE.1)));
        let log = &mut self.work.conversation;
        let Some(capped) = cap(&log.view(), most, &*self.engine.services.counter) else { return };
        if let Err(error) = log.record(&capped) {
            tracing::debug!(%error, "a result stays as large as it is");
        }
    }
}

/// Completes `work`, and returns what is still to come of a rehearsal that runs beside it.
async fn beside<'a, T>(
    work: impl Future<Output = T> + Unpin,
    rehearsal: Option<BoxFuture<'a, ()>>,
) -> Option<BoxFuture<'a, ()>> {
    let Some(rehearsal) = rehearsal else {
        work.await;
        return None;
    };
    match select(work, rehearsal).await {
        Either::Left((_, rest)) => Some(rest),
        Either::Right(((), work)) => {
            work.await;
            None
        }
    }
}

/// Returns the reason to stop when calls wait: for the next slice if an agent that was called paused, and
/// otherwise for a person.
fn pause_of(reports: &[RunReport]) -> StopReason {
    let has_paused = reports.iter().any(|report| report.stop == StopReason::Paused);
    if has_paused { StopReason::Paused } else { StopReason::Waiting }
}
