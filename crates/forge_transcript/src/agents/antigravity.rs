//! Transcripts of Google Antigravity: a step a line. A call is answered by the step of its number.

use forge_domain::{Message, Role};
use serde_json::Value;

use crate::any_blocks::{answer, call, items, messages_of, reply, text_at};
use crate::codec::{EntryFormat, Evidence, Fields};
use crate::format::FormatFacts;
use crate::json_text::parse;

/// The author of what Antigravity itself says.
const BY: &str = "antigravity";
/// The tags around what the user typed; metadata stands beside them.
const REQUEST: [&str; 2] = ["<USER_REQUEST>", "</USER_REQUEST>"];

/// The format of Antigravity.
pub(super) struct Antigravity;

impl EntryFormat for Antigravity {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "antigravity",
        name: "Antigravity transcripts",
        description: "JSONL of {\"step_index\", \"source\", \"type\": \"PLANNER_RESPONSE\"}",
        protocol: None,
    };

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |line: &Fields<'_>| {
            line.has(&["step_index", "source"])
                && matches!(line.text("type").as_str(), "USER_INPUT" | "PLANNER_RESPONSE")
        };
        evidence.lines().iter().any(is_own)
    }

    fn messages(step: &Value) -> Vec<Message> {
        let text = text_at(step, "/content");
        let messages = match (text_at(step, "/type"), text_at(step, "/source")) {
            ("USER_INPUT", _) => user_messages(text),
            ("PLANNER_RESPONSE", _) => {
                let calls = items(step, "tool_calls").iter().enumerate();
                let calls = calls.map(|(n, made)| {
                    let given = made.get("args").unwrap_or(&Value::Null);
                    call(&call_id(step, n + 1), text_at(made, "/name"), &arguments(given))
                });
                reply(text.to_owned().into(), calls.collect(), 0).into_iter().collect()
            }
            // An error that is not of a call has no content: the model does not see it.
            ("ERROR_MESSAGE", _) if !text.is_empty() => vec![result(step, true)],
            (_, "MODEL") => vec![result(step, text_at(step, "/status") == "ERROR")],
            ("EPHEMERAL_MESSAGE", _) if !text.is_empty() => vec![note(text).renewed()],
            (_, "SYSTEM") if !text.is_empty() => vec![note(text)],
            _ => Vec::new(),
        };
        let timestamp = step.get("created_at").and_then(|at| serde_json::from_value(at.clone()).ok());
        messages.into_iter().map(|message| Message { timestamp, ..message }).collect()
    }

    fn is_silent(step: &str) -> bool {
        Fields::of(step).has(&["step_index", "type"])
    }
}

/// Returns what the user typed, and what Antigravity put around it as a note.
fn user_messages(text: &str) -> Vec<Message> {
    let [begin, end] = REQUEST;
    let Some((before, rest)) = text.split_once(begin) else {
        return messages_of(Role::User, &Value::String(text.to_owned()));
    };
    let (typed, after) = rest.rsplit_once(end).unwrap_or((rest, ""));
    let mut messages = messages_of(Role::User, &Value::String(typed.trim().to_owned()));
    let around = format!("{before}{after}");
    if !around.trim().is_empty() {
        messages.push(note(around.trim()));
    }
    messages
}

fn note(text: &str) -> Message {
    Message::user(text).noted_by(BY)
}

/// Returns the result that a step is.
fn result(step: &Value, is_error: bool) -> Message {
    answer(&call_id(step, 0), step.get("content").unwrap_or(&Value::Null), is_error)
}

/// Returns the id of the call that the step `n` steps after this one answers; an empty one if the step has no
/// number.
fn call_id(step: &Value, n: usize) -> String {
    let number = step.get("step_index").and_then(Value::as_u64);
    number.map(|number| format!("step_{}", number.saturating_add(n as u64))).unwrap_or_default()
}

/// Returns the arguments of a call, each of which the transcript holds as a text of JSON.
fn arguments(given: &Value) -> Value {
    let Some(fields) = given.as_object() else { return given.clone() };
    let plain = |value: &Value| value.as_str().and_then(|text| parse(text).ok());
    let fields =
        fields.iter().map(|(name, value)| (name.clone(), plain(value).unwrap_or_else(|| value.clone())));
    Value::Object(fields.collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn arguments_are_texts_of_json() {
        let given = json!({"Path": "\"a b\"", "Line": "5", "Parts": "[{\"a\":1}]", "Cut": "\"a", "Plain": 1});
        let expected = json!({"Path": "a b", "Line": 5, "Parts": [{"a": 1}], "Cut": "\"a", "Plain": 1});
        assert_eq!(arguments(&given), expected);
    }
}
