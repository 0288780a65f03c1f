//! The events that hooks get.

use std::borrow::Cow;

use serde::Serialize;
use serde_json::Value;

use super::HookEdit;
use crate::compaction::{CompactionReport, CompactionSettings, Focus, Pin, Rung, Trigger};
use crate::{
    AgentId, CheckpointInfo, Content, Context, HookPoint, Message, Role, Size, Tokens, ToolCall, ToolName,
    ToolResult, Usage,
};

/// An event for hooks. As JSON, `event` is the word of its point and its fields are beside it.
#[derive(Clone, Debug, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[non_exhaustive]
pub enum HookEvent<'a> {
    /// A task was given, or a run is resumed; nothing is done yet.
    WorkflowStart(WorkflowStart<'a>),
    /// All is done that was to be done, or nothing more can be.
    WorkflowEnd(WorkflowEnd<'a>),
    /// A model is about to be asked, before its context is made to fit.
    PrePrompt(PrePrompt<'a>),
    /// A model has replied.
    PostPrompt(PostPrompt<'a>),
    /// A tool is about to be called.
    PreToolCall(PreToolCall<'a>),
    /// A tool has answered.
    PostToolCall(PostToolCall<'a>),
    /// A tool has failed.
    ToolFailure(PostToolCall<'a>),
    /// A compaction is due and about to be tried.
    PreCompact(PreCompact<'a>),
    /// A compaction was due, and this is what became of it.
    PostCompact(PostCompact<'a>),
    /// A checkpoint was saved.
    Checkpoint(CheckpointSaved<'a>),
    /// The user was told something.
    Notification(Notification<'a>),
}

impl HookEvent<'_> {
    /// Returns the point at which it happens.
    pub const fn point(&self) -> HookPoint {
        match self {
            Self::WorkflowStart(_) => HookPoint::WorkflowStart,
            Self::WorkflowEnd(_) => HookPoint::WorkflowEnd,
            Self::PrePrompt(_) => HookPoint::PrePrompt,
            Self::PostPrompt(_) => HookPoint::PostPrompt,
            Self::PreToolCall(_) => HookPoint::PreToolCall,
            Self::PostToolCall(_) => HookPoint::PostToolCall,
            Self::ToolFailure(_) => HookPoint::ToolFailure,
            Self::PreCompact(_) => HookPoint::PreCompact,
            Self::PostCompact(_) => HookPoint::PostCompact,
            Self::Checkpoint(_) => HookPoint::Checkpoint,
            Self::Notification(_) => HookPoint::Notification,
        }
    }

    /// Returns the tool that it is about, if any.
    pub const fn tool(&self) -> Option<&ToolName> {
        match self {
            Self::PreToolCall(call) => Some(call.tool),
            Self::PostToolCall(call) | Self::ToolFailure(call) => Some(call.tool),
            _ => None,
        }
    }

    /// Applies a hook's change, so that the next one sees what is going to happen.
    pub fn take(&mut self, edit: &HookEdit) {
        match (self, edit) {
            (Self::PreToolCall(call), HookEdit::Call(edit)) => {
                call.arguments = Value::Object(edit.arguments.clone());
            }
            (Self::PostToolCall(call) | Self::ToolFailure(call), HookEdit::Result(edit)) => {
                let result = ToolResult {
                    call_id: String::new(),
                    name: None,
                    content: Content::Text(call.text.clone().into_owned()),
                    is_error: false,
                };
                call.text = Cow::Owned(edit.clone().applied_to(result).content.to_text());
            }
            _ => {}
        }
    }
}

/// A run that starts or is resumed.
#[derive(Clone, Debug, Serialize)]
pub struct WorkflowStart<'a> {
    /// The agents that will work, in order.
    pub agents: Vec<&'a AgentId>,
    /// The task; `None` if an interrupted run is resumed.
    pub task: Option<&'a str>,
}

/// A run that is over.
#[derive(Clone, Debug, Serialize)]
pub struct WorkflowEnd<'a> {
    /// The reason, as one word: `done`, `max_iterations`, `failed`, `interrupted` and the like.
    pub stop: &'a str,
    /// The reason in words for people; the error if it failed.
    pub because: String,
    /// The last answer; `None` if it failed or was interrupted.
    pub response: Option<&'a str>,
    /// Calls to models.
    pub iterations: usize,
    /// The usage of these calls.
    pub usage: Usage,
    /// The duration in milliseconds.
    pub duration_ms: u64,
}

/// A model that is about to be asked.
#[derive(Clone, Debug, Serialize)]
pub struct PrePrompt<'a> {
    /// The agent whose model is asked.
    pub agent: &'a AgentId,
    /// The model, as `provider:model`.
    pub model: String,
    /// Which call of the agent's turn it is, from 1.
    pub iteration: usize,
    /// The context as it is, before it is made to fit.
    pub context: Size,
    /// The context's messages in order.
    pub messages: Vec<MessageNote>,
}

/// A model that has replied.
#[derive(Clone, Debug, Serialize)]
pub struct PostPrompt<'a> {
    /// The agent whose model replied.
    pub agent: &'a AgentId,
    /// The model, as `provider:model`.
    pub model: String,
    /// Which call of the agent's turn it was, from 1.
    pub iteration: usize,
    /// The text of the reply.
    pub text: String,
    /// The calls in the reply.
    pub calls: &'a [ToolCall],
    /// The reason why it stopped: `stop`, `tool_calls`, `length`, `content_filter`, or another word of the
    /// provider's.
    pub finish_reason: &'a str,
    /// The usage of the call, if the provider reports it.
    pub usage: Option<Usage>,
}

/// A tool that is about to be called.
#[derive(Clone, Debug, Serialize)]
pub struct PreToolCall<'a> {
    /// The calling agent.
    pub agent: &'a AgentId,
    /// The id that the provider gave the call.
    pub call_id: &'a str,
    /// The tool.
    pub tool: &'a ToolName,
    /// The arguments: a mapping, or the text as written if it is not JSON.
    pub arguments: Value,
}

impl<'a> PreToolCall<'a> {
    /// Creates the event that `agent` is about to make `call`.
    pub fn new(agent: &'a AgentId, call: &'a ToolCall) -> Self {
        Self { agent, call_id: &call.id, tool: &call.name, arguments: arguments_of(call) }
    }
}

/// A tool that was called.
#[derive(Clone, Debug, Serialize)]
pub struct PostToolCall<'a> {
    /// The calling agent.
    pub agent: &'a AgentId,
    /// The id that the provider gave the call.
    pub call_id: &'a str,
    /// The tool.
    pub tool: &'a ToolName,
    /// With what it was called.
    pub arguments: Value,
    /// The text of the result; parts that are not text are left out.
    pub text: Cow<'a, str>,
    /// The duration in milliseconds.
    pub duration_ms: u64,
}

impl<'a> PostToolCall<'a> {
    /// Creates the event that `agent` has made `call`, and got `result`.
    pub fn new(agent: &'a AgentId, call: &'a ToolCall, result: &'a ToolResult, duration_ms: u64) -> Self {
        Self {
            agent,
            call_id: &call.id,
            tool: &call.name,
            arguments: arguments_of(call),
            text: result.content.text(),
            duration_ms,
        }
    }
}

fn arguments_of(call: &ToolCall) -> Value {
    serde_json::from_str(&call.arguments).unwrap_or_else(|_| Value::String(call.arguments.clone()))
}

/// A compaction that is about to be tried.
#[derive(Clone, Debug, Serialize)]
pub struct PreCompact<'a> {
    /// The agent whose context it is.
    pub agent: &'a AgentId,
    /// The reason why it is due.
    pub trigger: Trigger,
    /// The context as it is.
    pub before: Size,
    /// Tokens that a context may have.
    pub room: Tokens,
    /// Tokens that are to be left at most.
    pub target: Tokens,
    /// The strategies that will be tried, in order.
    pub strategies: Vec<&'a str>,
    /// The focus, in words.
    pub focus: Option<&'a Focus>,
    /// Patterns of user text that survives.
    pub pin: &'a [Pin],
    /// The context's messages in order.
    pub messages: Vec<MessageNote>,
}

impl<'a> PreCompact<'a> {
    /// Creates the event for `agent`, whose `context` is to be compacted by `settings`.
    pub fn new(
        agent: &'a AgentId,
        trigger: Trigger,
        room: Tokens,
        settings: &'a CompactionSettings,
        context: &Context,
    ) -> Self {
        Self {
            agent,
            trigger,
            before: context.size(),
            room,
            target: settings.rules.target.tokens,
            strategies: settings.strategies.iter().map(Rung::id).collect(),
            focus: settings.rules.focus.as_ref(),
            pin: &settings.rules.pin,
            messages: MessageNote::all(context),
        }
    }
}

/// A message, as hooks see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MessageNote {
    /// Its label, such as `m12`, by which an answer names it.
    pub id: String,
    /// The author's role.
    pub role: Role,
    /// Its tokens.
    pub tokens: Tokens,
    /// True if compaction made it.
    pub is_compacted: bool,
    /// The beginning of its text: at most 200 characters.
    pub text: String,
}

const NOTED_CHARS: usize = 200;

impl MessageNote {
    /// Returns the notes of every message of `context`, in order.
    pub fn all(context: &Context) -> Vec<Self> {
        let text = |message: &Message| message.to_text().chars().take(NOTED_CHARS).collect();
        let note = |message: &crate::ContextMessage| {
            Some(Self {
                id: message.id()?.to_string(),
                role: message.message().role(),
                tokens: message.tokens(),
                is_compacted: message.message().is_compacted,
                text: text(message.message()),
            })
        };
        context.messages().iter().filter_map(note).collect()
    }
}

/// A compaction that was due, and what became of it.
#[derive(Clone, Debug, Serialize)]
pub struct PostCompact<'a> {
    /// The agent whose context it is.
    pub agent: &'a AgentId,
    /// The outcome.
    pub report: &'a CompactionReport,
    /// The duration in milliseconds.
    pub duration_ms: u64,
}

/// A checkpoint that was saved.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointSaved<'a> {
    /// The agent whose work it holds.
    pub agent: &'a AgentId,
    /// The facts about it.
    pub checkpoint: &'a CheckpointInfo,
}

/// A notice to the user.
#[derive(Clone, Debug, Serialize)]
pub struct Notification<'a> {
    /// The agent that it is about.
    pub agent: &'a AgentId,
    /// The text of the notice.
    pub text: &'a str,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::compaction::fixture::settings;
    use crate::{Characters, ContextMessage, Conversation};

    #[test]
    fn an_event_reads_like_this() {
        let mut log = Conversation::new();
        log.append(ContextMessage::count(Message::user("x".repeat(300)), &Characters));
        let agent = AgentId::new("researcher").unwrap();
        let settings = settings("{ max_tokens: 50 }", 10_000);
        let call = |arguments: &str| ToolCall {
            id: "c1".into(),
            name: ToolName::new("shell").unwrap(),
            arguments: arguments.into(),
        };
        let (run, broken) = (call(r#"{"command": "ls"}"#), call("{"));
        let result = ToolResult::answer(&run, "a\nb");
        for (event, expected) in [
            (
                HookEvent::PreCompact(PreCompact::new(
                    &agent,
                    Trigger::Tokens,
                    Tokens::new(400),
                    &settings,
                    &log.view(),
                )),
                json!({
                    "event": "pre_compact", "agent": "researcher", "trigger": "tokens", "room": 400, "target": 50,
                    "before": {"messages": 1, "turns": 1, "tokens": 307},
                    "strategies": ["clear_tool_results", "extraction", "sliding_window", "truncation"], "focus": null, "pin": [],
                    "messages":
                        [{"id": "m0", "role": "user", "tokens": 304, "is_compacted": false, "text": "x".repeat(200)}],
                }),
            ),
            (
                HookEvent::WorkflowStart(WorkflowStart { agents: vec![&agent], task: Some("go") }),
                json!({"event": "workflow_start", "agents": ["researcher"], "task": "go"}),
            ),
            (
                HookEvent::PreToolCall(PreToolCall::new(&agent, &run)),
                json!({"event": "pre_tool_call", "agent": "researcher", "call_id": "c1", "tool": "shell",
                    "arguments": {"command": "ls"}}),
            ),
            (
                HookEvent::PreToolCall(PreToolCall::new(&agent, &broken)),
                json!({"event": "pre_tool_call", "agent": "researcher", "call_id": "c1", "tool": "shell",
                    "arguments": "{"}),
            ),
            (
                HookEvent::ToolFailure(PostToolCall::new(&agent, &run, &result, 7)),
                json!({"event": "tool_failure", "agent": "researcher", "call_id": "c1", "tool": "shell",
                    "arguments": {"command": "ls"}, "text": "a\nb", "duration_ms": 7}),
            ),
            (
                HookEvent::Notification(Notification { agent: &agent, text: "heed" }),
                json!({"event": "notification", "agent": "researcher", "text": "heed"}),
            ),
        ] {
            assert_eq!(event.point().as_str(), expected["event"]);
            assert_eq!(serde_json::to_value(event).unwrap(), expected);
        }
    }

    #[test]
    fn the_next_hook_hears_of_what_is_going_to_happen() {
        let agent = AgentId::new("a").unwrap();
        let call =
            ToolCall { id: "c".into(), name: ToolName::new("t").unwrap(), arguments: r#"{"a":1}"#.into() };
        let mut event = HookEvent::PreToolCall(PreToolCall::new(&agent, &call));
        event.take(&HookEdit::Call(serde_json::from_value(json!({"arguments": {"b": 2}})).unwrap()));
        assert_eq!(serde_json::to_value(&event).unwrap()["arguments"], json!({"b": 2}));
        let result = ToolResult::answer(&call, "said");
        let mut event = HookEvent::PostToolCall(PostToolCall::new(&agent, &call, &result, 0));
        event.take(&HookEdit::Result(serde_json::from_value(json!({"note": "more"})).unwrap()));
        assert_eq!(serde_json::to_value(&event).unwrap()["text"], json!("said\nmore"));
    }
}
