//! Events of Copilot CLI: one a line, of which some are messages.

use forge_domain::{Message, Role};
use serde_json::Value;

use crate::RecordedCompaction;
use crate::any_blocks::{answer, call, content_of, hidden_tokens, messages_of, reply, text_at};
use crate::codec::{Effect, EntryFormat, Evidence, Fields, Trace};
use crate::format::FormatFacts;

/// The format of Copilot CLI.
pub(super) struct Copilot;

impl EntryFormat for Copilot {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "copilot",
        name: "Copilot CLI events",
        description: "JSONL that begins with {\"type\": \"session.start\", \"data\"}",
        protocol: None,
    };
    const COMPACTION: &'static str = "\"session.compaction_complete\"";

    fn detect(evidence: &Evidence<'_>) -> bool {
        const KINDS: [&str; 5] =
            ["session.start", "session.resume", "user.message", "assistant.message", "tool.execution_start"];
        let is_own = |line: &Fields<'_>| {
            line.get("data").starts_with('{') && KINDS.contains(&line.text("type").as_str())
        };
        evidence.lines().iter().any(is_own)
    }

    fn messages(event: &Value) -> Vec<Message> {
        let data = event.get("data").unwrap_or(&Value::Null);
        let said = |keys: [&str; 2]| {
            keys.iter().find_map(|key| data.get(key).filter(|said| !said.is_null())).unwrap_or(&Value::Null)
        };
        // What a sub-agent says is not in the context of the agent that called it.
        if data.get("parentToolCallId").is_some_and(Value::is_string) {
            return Vec::new();
        }
        match text_at(event, "/type") {
            "system.message" => messages_of(Role::System, said(["content", "content"])),
            "user.message" => messages_of(Role::User, said(["transformedContent", "content"])),
            "assistant.message" => reply_of(data).into_iter().collect(),
            "tool.execution_complete" => {
                let is_error = data.get("success") == Some(&Value::Bool(false));
                vec![answer(text_at(data, "/toolCallId"), said(["result", "error"]), is_error)]
            }
            "session.compaction_complete" => {
                let summary = messages_of(Role::User, said(["summaryContent", "summary"]));
                summary.into_iter().map(Message::compacted).collect()
            }
            _ => Vec::new(),
        }
    }

    fn session_id(event: &Value) -> Option<String> {
        let is_start = text_at(event, "/type") == "session.start";
        is_start.then(|| text_at(event, "/data/sessionId").to_owned())
    }

    /// Returns the facts of an event. The system prompt is recorded with each turn, and sent once.
    fn trace(event: &Value) -> Trace {
        let text = text_at(event, "/data/content");
        let is_system = text_at(event, "/type") == "system.message";
        let id = is_system.then(|| format!("system {} {}", text.len(), text.get(..200).unwrap_or_default()));
        let effect = if is_system { Effect::Repeats } else { Effect::None };
        Trace { id: id.map(String::into_boxed_str), effect, ..Trace::default() }
    }

    fn compaction(event: &Value) -> Option<RecordedCompaction> {
        let tokens = |key: &str| event.get("data")?.get(key)?.as_u64();
        let compaction = RecordedCompaction {
            pre_tokens: tokens("preCompactionTokens"),
            post_tokens: tokens("postCompactionTokens"),
            ..RecordedCompaction::default()
        };
        (text_at(event, "/type") == "session.compaction_complete").then_some(compaction)
    }

    fn is_standing(event: &str) -> bool {
        event.contains("\"system.message\"") && Fields::of(event).text("type") == "system.message"
    }
}

fn reply_of(data: &Value) -> Option<Message> {
    let requests = data.get("toolRequests").and_then(Value::as_array).into_iter().flatten();
    let calls = requests.map(|request| {
        let arguments = request.get("arguments").unwrap_or(&Value::Null);
        call(text_at(request, "/toolCallId"), text_at(request, "/name"), arguments)
    });
    let sealed = serde_json::json!({"data": data.get("reasoningOpaque")});
    reply(content_of(data.get("content").unwrap_or(&Value::Null)), calls.collect(), hidden_tokens(&sealed))
}
