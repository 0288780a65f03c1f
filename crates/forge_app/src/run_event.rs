//! Events of a run, for code that renders or traces them. Events are observed, never obeyed.

use std::sync::Arc;
use std::time::Duration;

use forge_domain::compaction::{CompactionReport, Trigger, Unused};
use forge_domain::{
    AgentId, CheckpointInfo, Content, Cost, FinishReason, HookError, HookPoint, Message, Prompt, StoreError,
    ToolCall, ToolName, ToolResult, Usage,
};

use serde_json::{Value, json};

use crate::StopReason;

/// An event in a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunEvent<'a> {
    /// The events until the next one of this kind are of this agent, which another one asked; without it, of
    /// the agent that does the task.
    Speaker {
        /// The agent, such as `scout~1`.
        agent: Option<&'a AgentId>,
    },
    /// An agent started.
    Woken {
        /// The agent.
        agent: &'a AgentId,
    },
    /// A server is asked for what is not known of a model, before its first call.
    Learning {
        /// The model, with its provider.
        model: &'a str,
    },
    /// A notice for the user.
    Notice(&'a str),
    /// A hook failed and is ignored.
    HookFailed {
        /// The hook.
        hook: &'a str,
        /// The reason.
        error: &'a HookError,
    },
    /// A hook denied something. A denied compaction is in [`Self::Fitted`].
    HookDenied {
        /// The point at which it was denied.
        point: HookPoint,
        /// The tool, if it is a call or its result.
        tool: Option<&'a ToolName>,
        /// The hook.
        hook: &'a str,
        /// Its reason; may be empty.
        reason: &'a str,
    },
    /// A compaction begins; [`Self::Fitted`] has its result.
    Compacting {
        /// The trigger that makes it due.
        trigger: Trigger,
    },
    /// The context was checked before a call and, if that was due, compacted.
    Fitted {
        /// The report of the fit.
        report: &'a CompactionReport,
        /// The time it took.
        took: Duration,
    },
    /// Summaries that the next call is likely to need are requested while tools run.
    Preparing,
    /// Summaries that were requested ahead did not match the context, and are discarded.
    Discarded(&'a [Unused]),
    /// A prompt is sent to the provider.
    Sending(&'a Prompt),
    /// A request is made after a wait, since it failed before its reply began, or the last reply broke off.
    /// It may be of any agent.
    Retrying {
        /// The reason, in words.
        why: &'a str,
        /// The retry that comes now, counted from one.
        n: usize,
        /// The most retries.
        of: usize,
        /// The wait before it.
        wait: Duration,
    },
    /// A piece of the model's text.
    Text(&'a str),
    /// A piece of the model's reasoning; empty if it is hidden.
    Reasoning(&'a str),
    /// The reply broke off and is requested again: its text and reasoning so far are void.
    Restarted {
        /// The reason, in words.
        why: &'a str,
    },
    /// The reply is complete.
    Replied {
        /// The usage that the provider reported.
        usage: Option<Usage>,
        /// Its cost, as far as the model's price is known.
        cost: Cost,
        /// The reason why the model stopped.
        finish_reason: &'a FinishReason,
        /// False if it calls tools, is unfinished, or is asked for again: it is empty, was cut off in a
        /// call, or has one as text.
        is_answer: bool,
        /// True if its text was cut off, and the next reply continues it or is a call.
        is_unfinished: bool,
    },
    /// A whole message, as it was added to the conversation: the task, or a reply with its calls. Results of
    /// tools are [`Self::ToolResult`].
    Message(&'a Message),
    /// A call of the last reply is about to be made. All of them are reported first.
    ToolCall(&'a ToolCall),
    /// A tool call starts: only some of a reply run at once.
    ToolStarted(&'a ToolCall),
    /// A tool that runs reports its progress.
    ToolProgress {
        /// The tool.
        tool: &'a ToolName,
        /// The progress until now.
        done: f64,
        /// The end of its progress, if that is known.
        of: Option<f64>,
        /// A message of the tool.
        message: Option<&'a str>,
    },
    /// A call that runs printed a line. Its result has the line as well.
    ToolOutput {
        /// The call.
        call: &'a ToolCall,
        /// The line, without its end.
        line: &'a str,
    },
    /// A tool call has its result, while others of the same reply may still run.
    ToolFinished(&'a ToolCall),
    /// A tool has answered.
    ToolResult(&'a ToolResult),
    /// A checkpoint was saved.
    Checkpointed {
        /// The checkpoint.
        info: &'a CheckpointInfo,
        /// The time the work waited for it.
        took: Duration,
    },
    /// A checkpoint was not saved, or the run not released. The work continues, and the next checkpoint makes
    /// up for it.
    CheckpointFailed(&'a StoreError),
    /// The turn has ended.
    Stopped(&'a StopReason),
}

impl RunEvent<'_> {
    /// Returns the event for programs: an object whose `event` is its name. Times are in seconds.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Speaker { agent } => json!({"event": "speaker", "agent": agent}),
            Self::Woken { agent } => json!({"event": "woken", "agent": agent}),
            Self::Learning { model } => json!({"event": "learning", "model": model}),
            Self::Notice(notice) => json!({"event": "notice", "text": notice}),
            Self::HookFailed { hook, error } => {
                json!({"event": "hook_failed", "hook": hook, "error": error.to_string()})
            }
            Self::HookDenied { point, tool, hook, reason } => json!({
                "event": "hook_denied", "point": point, "tool": tool, "hook": hook, "reason": reason,
            }),
            Self::Compacting { trigger } => json!({"event": "compacting", "trigger": trigger}),
            Self::Fitted { report, took } => {
                json!({"event": "fitted", "report": report, "took": took.as_secs_f64()})
            }
            Self::Preparing => json!({"event": "preparing"}),
            Self::Discarded(unused) => json!({"event": "discarded", "summaries": unused.len()}),
            Self::Sending(prompt) => json!({
                "event": "sending",
                "model": prompt.options().model.to_string(),
                "messages": prompt.messages().len(),
                "tokens": prompt.tokens(),
                "window": prompt.window(),
            }),
            Self::Retrying { why, n, of, wait } => json!({
                "event": "retrying", "why": why, "n": n, "of": of, "wait": wait.as_secs_f64(),
            }),
            Self::Text(text) => json!({"event": "text", "text": text}),
            Self::Reasoning(text) => json!({"event": "reasoning", "text": text}),
            Self::Restarted { why } => json!({"event": "restarted", "why": why}),
            Self::Replied { usage, cost, finish_reason, is_answer: _, is_unfinished: _ } => json!({
                "event": "replied", "usage": usage, "cost": cost, "finish_reason": finish_reason.as_str(),
            }),
            Self::Message(message) => json!({"event": "message", "message": message_json(message)}),
            Self::ToolCall(call) => json!({"event": "tool_call", "call": call}),
            Self::ToolStarted(call) => {
                json!({"event": "tool_started", "call_id": call.id, "tool": call.name})
            }
            Self::ToolProgress { tool, done, of, message } => {
                json!({"event": "tool_progress", "tool": tool, "done": done, "of": of, "message": message})
            }
            Self::ToolOutput { call, line } => {
                json!({"event": "tool_output", "call_id": call.id, "tool": call.name, "line": line})
            }
            Self::ToolFinished(call) => {
                json!({"event": "tool_finished", "call_id": call.id, "tool": call.name})
            }
            Self::ToolResult(result) => json!({"event": "tool_result", "result": result}),
            Self::Checkpointed { info, took } => {
                json!({"event": "checkpointed", "checkpoint": info, "took": took.as_secs_f64()})
            }
            Self::CheckpointFailed(error) => {
                json!({"event": "checkpoint_failed", "error": error.to_string()})
            }
            Self::Stopped(stop) => json!({"event": "stopped", "why": stop}),
        }
    }
}

/// Returns a message for programs: its role, its text, and the calls of a reply that has some.
fn message_json(message: &Message) -> Value {
    let mut json = json!({
        "role": message.role().as_str(),
        "content": message.content().map(Content::to_text),
    });
    if !message.calls().is_empty() {
        json["calls"] = json!(message.calls());
    }
    json
}

/// An observer of a run's events.
pub type Watcher = Arc<dyn Fn(&RunEvent<'_>) + Send + Sync>;
