//! What happens in a run, for those who render or trace it. Events are watched, never obeyed.

use std::sync::Arc;
use std::time::Duration;

use forge_domain::compaction::{CompactionReport, Trigger, Unused};
use forge_domain::{
    AgentId, CheckpointInfo, Cost, FinishReason, HookError, HookPoint, Prompt, StoreError, ToolCall,
    ToolName, ToolResult, Usage,
};

use serde_json::{Value, json};

use crate::StopReason;

/// Something that happened in a run.
#[derive(Debug)]
#[non_exhaustive]
pub enum RunEvent<'a> {
    /// An agent woke.
    Woken {
        /// Which.
        agent: &'a AgentId,
    },
    /// Something that the person should know, said once.
    Notice(&'a str),
    /// A hook is broken and counts as if it had said nothing.
    HookFailed {
        /// Which.
        hook: &'a str,
        /// Why.
        error: &'a HookError,
    },
    /// A hook denied something; a compaction that is denied is in [`Self::Fitted`].
    HookDenied {
        /// What.
        point: HookPoint,
        /// The tool, where it is a call or its result.
        tool: Option<&'a ToolName>,
        /// Which hook.
        hook: &'a str,
        /// Its reason; may be empty.
        reason: &'a str,
    },
    /// A compaction is tried; [`Self::Fitted`] says what came of it.
    Compacting {
        /// What makes it due.
        trigger: Trigger,
    },
    /// The context was looked at before a call and, where that was due, compacted.
    Fitted {
        /// What became of it.
        report: &'a CompactionReport,
        /// How long it took.
        took: Duration,
    },
    /// Summaries that the next call is likely to need are asked for while tools run.
    Preparing,
    /// Summaries that were asked for ahead did not fit what came, and are thrown away.
    Discarded(&'a [Unused]),
    /// A prompt goes to the provider.
    Sending(&'a Prompt),
    /// A piece of the model's text.
    Text(&'a str),
    /// A piece of the model's reasoning.
    Reasoning(&'a str),
    /// The reply broke off and is asked for again: its text and reasoning so far are void.
    Restarted {
        /// Why, in words.
        why: &'a str,
    },
    /// The reply is complete.
    Replied {
        /// What the provider says it consumed.
        usage: Option<Usage>,
        /// What it cost, as far as the model's price is known.
        cost: Cost,
        /// Why the model stopped.
        finish_reason: &'a FinishReason,
    },
    /// A tool is about to run.
    ToolCall(&'a ToolCall),
    /// A tool that runs tells how far it is.
    ToolProgress {
        /// Which.
        tool: &'a ToolName,
        /// How far.
        done: f64,
        /// How far it goes, where that is known.
        of: Option<f64>,
        /// What it does, in its own words.
        message: Option<&'a str>,
    },
    /// A tool call has its result, while others of the same reply may still run.
    ToolFinished(&'a ToolCall),
    /// A tool has answered.
    ToolResult(&'a ToolResult),
    /// A checkpoint was saved.
    Checkpointed {
        /// Which.
        info: &'a CheckpointInfo,
        /// How long the work waited for it.
        took: Duration,
    },
    /// A checkpoint was not saved, or the run not given back; the run continues, and the next checkpoint will
    /// include this state.
    CheckpointFailed(&'a StoreError),
    /// The turn has ended.
    Stopped(&'a StopReason),
}

impl RunEvent<'_> {
    /// The event for programs: an object whose `event` is the word for it. Times are in seconds.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Woken { agent } => json!({"event": "woken", "agent": agent}),
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
            Self::Text(text) => json!({"event": "text", "text": text}),
            Self::Reasoning(text) => json!({"event": "reasoning", "text": text}),
            Self::Restarted { why } => json!({"event": "restarted", "why": why}),
            Self::Replied { usage, cost, finish_reason } => json!({
                "event": "replied", "usage": usage, "cost": cost, "finish_reason": finish_reason.as_str(),
            }),
            Self::ToolCall(call) => json!({"event": "tool_call", "call": call}),
            Self::ToolProgress { tool, done, of, message } => {
                json!({"event": "tool_progress", "tool": tool, "done": done, "of": of, "message": message})
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

/// Watches a run.
pub type Watcher = Arc<dyn Fn(&RunEvent<'_>) + Send + Sync>;
