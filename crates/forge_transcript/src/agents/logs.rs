//! Logs of agents that print or keep one event a line, and results of benchmarks.

use forge_domain::{Message, Role, tool_twin};
use serde_json::Value;

use crate::any_blocks::{answer, call, chat_messages, messages_of, reply, role_of, text_at};
use crate::codec::{EntryFormat, Evidence, Fields, Listing};
use crate::flat_text::NO_RESULT;
use crate::format::FormatFacts;
use crate::reply_pieces::continuing;

/// Messages of Anthropic's form, one a line.
pub(super) struct AnthropicLines;

impl EntryFormat for AnthropicLines {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "anthropic-lines",
        name: "Anthropic messages in lines",
        description: "JSONL of {\"role\", \"content\": [blocks]}, or of {\"role\", \"content\": {block}}",
        protocol: None,
    };
    const JOINS_REPLIES: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |line: &Fields<'_>| {
            matches!(line.text("role").as_str(), "user" | "assistant")
                && !line.contains("ts")
                && (line.items("content").iter().any(|block| is_call_or_result(&Fields::of(block.get())))
                    || is_block(&Fields::of(line.get("content"))))
        };
        evidence.document().is_none() && evidence.lines().iter().any(is_own)
    }

    fn messages(entry: &Value) -> Vec<Message> {
        let role = role_of(text_at(entry, "/role"));
        let content = entry.get("content").unwrap_or(&Value::Null);
        role.map(|role| messages_of(role, content)).unwrap_or_default()
    }

    /// Checks for a reply that says nothing, which is no message.
    fn is_silent(entry: &str) -> bool {
        let entry = Fields::of(entry);
        entry.contains("role") && (entry.has_list("content") || is_block(&Fields::of(entry.get("content"))))
    }
}

/// Checks for a block that is the whole content of its line: some programs write each in a line of its own.
fn is_block(content: &Fields<'_>) -> bool {
    match content.text("type").as_str() {
        "text" | "thinking" => content.contains("text"),
        "tool_use" => content.contains("input"),
        "tool_result" => content.contains("tool_id"),
        _ => false,
    }
}

/// Checks for a block that only messages of Anthropic's form have: its keys, too, are those of that form.
fn is_call_or_result(block: &Fields<'_>) -> bool {
    match block.text("type").as_str() {
        "tool_use" => block.contains("input"),
        "tool_result" => block.contains("tool_use_id"),
        _ => false,
    }
}

/// The events that Gemini CLI prints with `--output-format stream-json`.
pub(super) struct GeminiEvents;

impl EntryFormat for GeminiEvents {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "gemini-events",
        name: "printed events of Gemini CLI",
        description: "JSONL of {\"type\": \"init\", \"session_id\"}, {\"type\": \"tool_use\", \"tool_id\"}",
        protocol: None,
    };
    const JOINS_REPLIES: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |line: &Fields<'_>| match line.text("type").as_str() {
            "tool_use" => line.has(&["tool_name", "tool_id"]),
            "init" => line.has(&["session_id", "model"]) && !line.contains("subtype"),
            _ => false,
        };
        evidence.lines().iter().any(is_own)
    }

    fn messages(event: &Value) -> Vec<Message> {
        let said = |key: &str| event.get(key).unwrap_or(&Value::Null);
        match text_at(event, "/type") {
            "message" if event.get("delta") == Some(&Value::Bool(true)) => {
                chat_messages(event).into_iter().map(continuing).collect()
            }
            "message" => chat_messages(event),
            "tool_use" => {
                let call = call(text_at(event, "/tool_id"), text_at(event, "/tool_name"), said("parameters"));
                reply(String::new().into(), vec![call], 0).into_iter().collect()
            }
            "tool_result" => {
                let is_error = text_at(event, "/status") == "error";
                vec![answer(text_at(event, "/tool_id"), &printed_result(event), is_error)]
            }
            _ => Vec::new(),
        }
    }

    fn session_id(event: &Value) -> Option<String> {
        event.get("session_id").and_then(Value::as_str).map(str::to_owned)
    }
}

/// Returns what is printed of a result: as much as the user sees of it, which is nothing of a file that was
/// read or written. The ids of calls begin with the names of their tools.
fn printed_result(event: &Value) -> Value {
    let printed = |at: &str| event.pointer(at).filter(|text| !text.is_null() && *text != "");
    if let Some(text) = printed("/output").or_else(|| printed("/error/message")) {
        return text.clone();
    }
    let tool = text_at(event, "/tool_id").split('-').next().unwrap_or_default();
    let is_read = tool_twin(tool) == Some("read");
    match (event.get("output").filter(|output| !output.is_null()), text_at(event, "/status")) {
        (Some(empty), _) if !is_read => empty.clone(),
        (None, status) if !is_read && !status.is_empty() => status.into(),
        _ => NO_RESULT.into(),
    }
}

/// Results of tau2-bench: a session for each simulation, named `task3.trial0`.
pub(super) struct Tau2Bench;

impl EntryFormat for Tau2Bench {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "tau2-bench",
        name: "tau2-bench results",
        description: "{\"info\", \"tasks\", \"simulations\": [{\"messages\"}]}",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        evidence.document().is_some_and(|file| file.has_list("simulations") && file.has_list("tasks"))
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let simulations = Fields::of(text).items("simulations").into_iter();
        let sessions = simulations.map(|simulation| {
            let simulation = Fields::of(simulation.get());
            let id = format!("task{}.trial{}", simulation.text("task_id"), simulation.get("trial"));
            Listing::of_keys(&simulation, &["messages"]).named(id)
        });
        Ok(sessions.collect())
    }

    fn messages(entry: &Value) -> Vec<Message> {
        let is_users = text_at(entry, "/requestor") == "user";
        match role_of(text_at(entry, "/role")) {
            // The simulated user has tools of its own, which the agent does not see.
            Some(Role::Tool) if is_users => Vec::new(),
            Some(Role::Tool) => {
                let is_error = entry.get("error") == Some(&Value::Bool(true));
                vec![answer(text_at(entry, "/id"), entry.get("content").unwrap_or(&Value::Null), is_error)]
            }
            Some(Role::User) => messages_of(Role::User, entry.get("content").unwrap_or(&Value::Null)),
            _ => match said_in_object(text_at(entry, "/content")) {
                Some(said) => {
                    let mut entry = entry.clone();
                    entry["content"] = said.into();
                    chat_messages(&entry)
                }
                None => chat_messages(entry),
            },
        }
    }
}

/// Returns what a reply says that is only an object with one text for the person: some models write one, in
/// place of the text or as a call of `respond`.
fn said_in_object(reply: &str) -> Option<String> {
    const TEXTS: [&str; 3] = ["message", "response", "content"];
    let reply = Some(reply.trim()).filter(|reply| reply.starts_with('{'))?;
    let object: Value = serde_json::from_str(reply).ok()?;
    let fields = object.as_object()?;
    let said = match fields.len() {
        1 => TEXTS.iter().find_map(|key| fields.get(*key))?,
        2 if text_at(&object, "/name") == "respond" => object.pointer("/arguments/content")?,
        _ => return None,
    };
    said.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_reply_in_an_object_is_its_text() {
        for (reply, expected) in [
            (r#"{"message":"Hi."}"#, "Hi."),
            (" {\"response\": \"Hi.\"}\n", "Hi."),
            (r#"{"name":"respond","arguments":{"content":"Hi."}}"#, "Hi."),
            (
                r#"{"name":"book","arguments":{"content":"Hi."}}"#,
                r#"{"name":"book","arguments":{"content":"Hi."}}"#,
            ),
            (r#"{"message":{"a":1}}"#, r#"{"message":{"a":1}}"#),
            (r#"{"message":"Hi.","code":1}"#, r#"{"message":"Hi.","code":1}"#),
            ("{Hi.}", "{Hi.}"),
            ("Hi.", "Hi."),
        ] {
            let messages = Tau2Bench::messages(&json!({"role": "assistant", "content": reply}));
            assert_eq!(messages[0].to_text(), expected, "{reply}");
            let messages = Tau2Bench::messages(&json!({"role": "user", "content": reply}));
            assert_eq!(messages[0].to_text(), reply, "{reply}");
        }
    }
}
