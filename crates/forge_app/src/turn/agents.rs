//! The agents that a turn may start: called as tools, or named by transforms. Each works in its own
//! conversation, which is fitted and saved like any other.

use std::sync::{Mutex, PoisonError};

use forge_domain::{Agent, AgentId, Body, Conversation, Event, ToolCall, ToolResult};
use forge_services::workflow::MOST_CALLERS;
use futures::future::BoxFuture;
use serde::Deserialize;

use super::call_end::CallEnd;
use super::{Assignment, Turn};
use crate::callable::TASK;
use crate::conversations::Others;
use crate::engine::{is_over, settle_waiting_calls};
use crate::{Engine, RunError, RunReport, StopReason};

/// The agents that a turn may start.
pub(super) struct SubAgents<'a, 'b> {
    engine: &'a Engine,
    /// The agent whose turn it is.
    caller: &'a AgentId,
    others: &'a Others<'b>,
    /// The number of agents above the caller in a chain of calls.
    depth: usize,
    /// The reports of those that were called.
    reports: Mutex<Vec<RunReport>>,
}

/// The arguments of a call of an agent.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    task: String,
}

/// The memory with which another agent starts on an event.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Memory {
    /// All that it remembers of earlier events.
    Kept,
    /// Nothing but its instructions: each summary is of one run alone. Its log keeps the others.
    Cleared,
}

impl<'a, 'b> SubAgents<'a, 'b> {
    /// Creates the agents that `turn` may start.
    pub(super) const fn of(turn: &Turn<'a, 'b>) -> Self {
        let Turn { engine, agent, others, .. } = *turn;
        let depth = turn.work.course.depth;
        Self { engine, caller: &agent.id, others, depth, reports: Mutex::new(Vec::new()) }
    }

    /// Returns the reports of those that were called.
    pub(super) fn into_reports(self) -> Vec<RunReport> {
        self.reports.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs `callee` on the task of `call`, in its own conversation and hidden from the user.
    pub(super) fn call<'c>(&'c self, callee: &'c Agent, call: &'c ToolCall) -> BoxFuture<'c, CallEnd> {
        // Boxed: its turn may call others in turn.
        Box::pin(async move {
            let Arguments { task } = match serde_json::from_str(&call.arguments) {
                Ok(arguments) => arguments,
                Err(error) => {
                    let what = format!("the arguments are not `{{\"{TASK}\": \"...\"}}`: {error}");
                    return ToolResult::error(call, what).into();
                }
            };
            let depth = self.depth + 1;
            if depth >= MOST_CALLERS {
                let why = "too many agents have called one another: do it yourself";
                return ToolResult::error(call, why).into();
            }
            match self.run_in_lane(callee, Event::task(task), depth).await {
                Ok(report) => {
                    let end = match report.stop {
                        // Called again with the same task, it resumes where it stopped.
                        StopReason::Paused | StopReason::Waiting => CallEnd::Waits(None),
                        _ => tool_result(call, &report).into(),
                    };
                    self.reports.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                    end
                }
                Err(why) => ToolResult::error(call, why).into(),
            }
        })
    }

    /// Runs `callee` on `event` in a lane.
    ///
    /// # Errors
    /// The reason, in words, if it could not.
    async fn run_in_lane(&self, callee: &Agent, event: Event, depth: usize) -> Result<RunReport, String> {
        let task = self.engine.services.templates.render_event(callee, &event).ok();
        let is_left = |log: &Conversation| task.as_ref().is_some_and(|task| is_interrupted(log, task));
        let mut lent = self.others.lend_lane(&callee.id, |work| is_left(&work.conversation));
        let lane = Agent { id: lent.agent().clone(), ..callee.clone() };
        let engine = &self.engine.quiet(&lane.id);
        let work = &mut lent.work;
        work.course.asked_by = Some(self.caller.clone());
        work.course.depth = depth;
        let was_interrupted = is_left(&work.conversation);
        let is_waiting = was_interrupted && settle_waiting_calls(work);
        if !is_waiting {
            engine.answer_open_calls(work);
        }
        if !was_interrupted {
            work.conversation.clear().map_err(|error| error.to_string())?;
        }
        let assignment = Assignment { engine, agent: &lane, work, others: self.others };
        let result = if was_interrupted {
            // The run crashed during this call and was resumed: what was done then is not done again.
            assignment.run().await
        } else {
            assignment.run_event(&event, None).await
        };
        result.map_err(|error| format!("the agent `{}` failed: {error}", callee.id))
    }

    /// Runs the agent named `id` on `event`, in its own conversation and hidden from the user.
    ///
    /// # Errors
    /// The reason, in words, if it could not.
    pub(super) fn ask<'c>(
        &'c self,
        id: &'c AgentId,
        event: &'c Event,
        memory: Memory,
    ) -> BoxFuture<'c, Result<RunReport, String>> {
        // Boxed: its turn may start others in turn.
        Box::pin(async move {
            if self.others.is_at_work(id) {
                return Err(format!("the agent `{id}` is already working on this request"));
            }
            let Some(agent) = self.engine.services.workflow.agents.find(id.as_str()) else {
                return Err(format!("there is no agent `{id}`"));
            };
            let failure = |error: RunError| format!("the agent `{id}`: {error}");
            let mut lent = self.others.lend(id);
            let work = &mut lent.work;
            let engine = &self.engine.quiet(id);
            if memory == Memory::Cleared {
                // Results of calls that were left open would stand alone after it.
                engine.answer_open_calls(work);
                work.conversation.clear().map_err(|error| failure(RunError::Record(error)))?;
            }
            work.course.asked_by = Some(self.caller.clone());
            let assignment = Assignment { engine, agent, work, others: self.others };
            assignment.run_event(event, None).await.map_err(failure)
        })
    }
}

/// Checks whether the conversation was left during `task`.
fn is_interrupted(log: &Conversation, task: &str) -> bool {
    let last = log.messages().filter(|message| message.starts_turn()).last();
    let is_task = |body: &Body| matches!(body, Body::User(content) if content.to_text() == task);
    !is_over(log) && last.is_some_and(|last| is_task(&last.message().body))
}

/// Returns an agent's answer as the result of the call. An answer that is not complete is an error.
fn tool_result(call: &ToolCall, theirs: &RunReport) -> ToolResult {
    let answer = theirs.response.trim();
    match &theirs.stop {
        StopReason::Done if answer.is_empty() => ToolResult::error(call, "the agent said nothing"),
        StopReason::Done => ToolResult::answer(call, answer),
        stop if answer.is_empty() => ToolResult::error(call, format!("the agent {stop}")),
        stop => ToolResult::error(call, format!("the agent {stop}. What it said last:\n{answer}")),
    }
}
