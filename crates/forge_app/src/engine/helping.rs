//! Agents that others call as tools: each call is a conversation of its own, made to fit and kept like any other.

use std::sync::{Mutex, PoisonError};

use forge_domain::{Agent, AgentId, Body, Conversation, Event, ToolCall, ToolResult};
use forge_services::workflow::MOST_CALLERS;
use futures::future::BoxFuture;
use serde::Deserialize;

use super::{Engine, is_over};
use crate::callable::TASK;
use crate::conversations::Others;
use crate::{RunReport, StopReason};

/// Those who can be called in the middle of a turn, and what their work took.
pub(super) struct Helpers<'a, 'b> {
    others: &'a Others<'b>,
    /// How many agents stand above those that are called here.
    depth: usize,
    /// What those took that were called.
    took: Mutex<Vec<RunReport>>,
}

/// With what an agent is called.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Arguments {
    task: String,
}

impl<'a, 'b> Helpers<'a, 'b> {
    /// Those among `others`, below `depth` agents.
    pub(super) const fn new(others: &'a Others<'b>, depth: usize) -> Self {
        Self { others, depth, took: Mutex::new(Vec::new()) }
    }

    /// What their work took.
    pub(super) fn took(self) -> Vec<RunReport> {
        self.took.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Engine {
    /// The agent that `call` means, where `agent` may call it.
    pub(super) fn callee(&self, agent: &Agent, call: &ToolCall) -> Option<&Agent> {
        let is_listed = agent.tools.iter().flatten().any(|name| *name == call.name);
        self.services.workflow.agents.find(call.name.as_str()).filter(|_| is_listed)
    }

    /// Has `callee` work on what `call` says, in a conversation of its own and without a word to whoever reads along.
    pub(super) fn call_agent<'a>(
        &'a self,
        callee: &'a Agent,
        caller: &'a AgentId,
        call: &'a ToolCall,
        helpers: &'a Helpers<'_, '_>,
    ) -> BoxFuture<'a, ToolResult> {
        // Boxed: its turn may call others in turn.
        Box::pin(async move {
            let Arguments { task } = match serde_json::from_str(&call.arguments) {
                Ok(arguments) => arguments,
                Err(error) => {
                    let what = format!("the arguments are not `{{\"{TASK}\": \"...\"}}`: {error}");
                    return ToolResult::error(call, what);
                }
            };
            let depth = helpers.depth + 1;
            if depth >= MOST_CALLERS {
                return ToolResult::error(call, "too many agents have called one another: do it yourself");
            }
            let mut lent = helpers.others.lend_lane(&callee.id);
            let helper = Agent { id: lent.agent().clone(), ..callee.clone() };
            let work = &mut lent.work;
            work.course.asked_by = Some(caller.clone());
            work.course.depth = depth;
            let quiet = self.quiet();
            let event = Event::task(task);
            let asked = self.services.templates.render_event(callee, &event);
            let is_the_same = asked.is_ok_and(|asked| is_interrupted(&work.conversation, &asked));
            quiet.settle(&mut work.conversation, &mut work.course);
            let result = if is_the_same {
                // A run was resumed that had died in the middle of this: what was done then is not done again.
                quiet.work(&helper, &mut work.conversation, &mut work.course, helpers.others).await
            } else if let Err(error) = work.conversation.clear() {
                return ToolResult::error(call, error.to_string());
            } else {
                quiet.tell_and_run(&helper, &event, work, helpers.others, None).await
            };
            match result {
                Ok(report) => {
                    let result = answer(call, &report);
                    helpers.took.lock().unwrap_or_else(PoisonError::into_inner).push(report);
                    result
                }
                Err(error) => ToolResult::error(call, format!("the agent `{}` failed: {error}", callee.id)),
            }
        })
    }
}

/// Whether the conversation was left in the middle of `task`.
fn is_interrupted(conversation: &Conversation, task: &str) -> bool {
    let last = conversation.messages().filter(|message| message.starts_turn()).last();
    let is_asked = |body: &Body| matches!(body, Body::User(content) if content.to_text() == task);
    !is_over(conversation) && last.is_some_and(|last| is_asked(&last.message().body))
}

/// What an agent says, as the result of the call; an answer that is not whole is an error.
fn answer(call: &ToolCall, report: &RunReport) -> ToolResult {
    let said = report.response.trim();
    match &report.stop {
        StopReason::Done if said.is_empty() => ToolResult::error(call, "the agent said nothing"),
        StopReason::Done => ToolResult::answer(call, said),
        stop if said.is_empty() => ToolResult::error(call, format!("the agent {stop}")),
        stop => ToolResult::error(call, format!("the agent {stop}. What it said last:\n{said}")),
    }
}
