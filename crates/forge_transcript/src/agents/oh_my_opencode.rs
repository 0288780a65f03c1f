//! Transcripts that the plugin oh-my-opencode keeps beside opencode's sessions, for hooks of Claude Code:
//! each call with its result, and the user's words. Those of the model are not in them.

use forge_domain::{Body, Message, Role, ToolName};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::exit_code::with_exit_code;
use crate::any_blocks::{answer, call, messages_of, reply, text_at};
use crate::codec::{EntryFormat, Evidence, Fields};
use crate::flat_text::NO_RESULT;
use crate::format::FormatFacts;

/// The author of what the plugin itself says to the model.
const BY: &str = "oh-my-opencode";
/// The beginnings of such texts.
const OWN_WORDS: [&str; 2] = ["[BACKGROUND TASK COMPLETED]", "[SYSTEM REMINDER"];
/// The keys under which a result has its text, and those of results that say nothing else than their call.
const TEXTS: [&str; 4] = ["output", "preview", "diff", "error"];
const SILENT: [&str; 2] = ["filepath", "todos"];
/// The key of a mark that says nothing by itself.
const TRUNCATED: &str = "truncated";

/// The characters of an id.
const ID_CHARS: usize = 12;

/// The format of such transcripts.
pub(super) struct OhMyOpencode;

impl EntryFormat for OhMyOpencode {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "oh-my-opencode",
        name: "transcripts of oh-my-opencode",
        description: "JSONL of {\"type\": \"tool_use\", \"tool_name\", \"tool_input\"}",
        protocol: None,
    };
    const JOINS_REPLIES: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |line: &Fields<'_>| {
            matches!(line.text("type").as_str(), "tool_use" | "tool_result")
                && line.has(&["timestamp", "tool_name", "tool_input"])
                && !line.contains("tool_id")
        };
        evidence.lines().iter().any(is_own)
    }

    fn messages(entry: &Value) -> Vec<Message> {
        let said = |key: &str| entry.get(key).unwrap_or(&Value::Null);
        let name = text_at(entry, "/tool_name");
        match text_at(entry, "/type") {
            "user" if OWN_WORDS.iter().any(|words| text_at(entry, "/content").starts_with(*words)) => {
                vec![Message::note(BY, text_at(entry, "/content"))]
            }
            "user" => messages_of(Role::User, said("content")),
            "tool_use" => {
                let call = call(&call_id(name, said("tool_input")), name, said("tool_input"));
                reply(String::new().into(), vec![call], 0).into_iter().collect()
            }
            "tool_result" => vec![result(name, said("tool_input"), said("tool_output"))],
            _ => Vec::new(),
        }
    }
}

/// Returns an id for a call of a tool with this input, which its result repeats.
fn call_id(name: &str, input: &Value) -> String {
    let digest = hex::encode(Sha256::digest(format!("{name} {input}")));
    digest.chars().take(ID_CHARS).collect()
}

/// Returns a result. One that does not repeat the input belongs to the last call of its tool.
fn result(name: &str, input: &Value, output: &Value) -> Message {
    let is_known = input.as_object().is_some_and(|input| !input.is_empty());
    let id = if is_known { call_id(name, input) } else { String::new() };
    let said = output.as_object().map_or_else(|| output.clone(), |output| Value::String(told(output)));
    let mut message = answer(&id, &said, false);
    if let Body::Tool(result) = &mut message.body {
        result.name = ToolName::new(name).ok();
    }
    message
}

/// Returns what a result says, with the exit code of a command.
fn told(output: &Map<String, Value>) -> String {
    let text = TEXTS.iter().find_map(|key| output.get(*key)?.as_str());
    let code = output.get("exit").and_then(Value::as_i64);
    match (text, code) {
        (Some(text), Some(code)) => with_exit_code(code, text),
        (Some(text), None) => text.to_owned(),
        (None, _) if SILENT.iter().any(|key| output.contains_key(*key)) => String::new(),
        (None, _) if output.keys().all(|key| key == TRUNCATED) => NO_RESULT.to_owned(),
        (None, _) => Value::Object(output.clone()).to_string(),
    }
}
