//! The items of which input and output are made: their authors, and their parts that the domain has.

use forge_domain::{ToolCall, ToolName};
use serde_json::{Map, Value, json};

/// The author of an item.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Author {
    /// The party that set up the conversation. Tools that are added in its course count as its own.
    System,
    User,
    /// The model. Its reply is a sequence of items, of which a message is one.
    Assistant,
    /// A tool that the client runs.
    Tool,
}

impl Author {
    /// Returns the author of `item`. Items of unknown kinds are the model's, unless they have a role.
    pub(super) fn of(item: &Value) -> Self {
        match (text(item, "role"), kind(item)) {
            ("system" | "developer", _) => Self::System,
            ("user", _) => Self::User,
            ("assistant", _) => Self::Assistant,
            (_, kind) if kind.ends_with("_output") && item["call_id"].is_string() => Self::Tool,
            (_, kind) if kind == "compaction_trigger" || kind.ends_with("_response") => Self::User,
            _ => Self::Assistant,
        }
    }
}

/// Returns the text of a field; empty if it has none.
pub(super) fn text<'a>(item: &'a Value, key: &str) -> &'a str {
    item.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the kind of an item or a part. A message may leave it out.
pub(super) fn kind(item: &Value) -> &str {
    text(item, "type")
}

pub(super) fn is_message(item: &Value) -> bool {
    kind(item) == "message" || (kind(item).is_empty() && item.get("content").is_some())
}

pub(super) fn is_reasoning(item: &Value) -> bool {
    kind(item) == "reasoning"
}

/// Returns the key of an item's payload, which the domain has as a call's arguments or a result's content.
pub(super) fn payload(item: &Value, author: Author) -> Option<&'static str> {
    let keys: &[&str] = match author {
        Author::Tool => &["output", "tools"],
        _ => &["arguments", "input", "action", "operation"],
    };
    keys.iter().find(|key| item.get(**key).is_some()).copied()
}

/// Returns the call that `item` is. Only the client answers calls that have a `call_id`; the server runs the
/// others itself.
pub(super) fn call(item: &Value) -> Option<ToolCall> {
    let id = item.get("call_id")?.as_str()?.to_owned();
    let kind = kind(item);
    let name =
        if text(item, "name").is_empty() { kind.trim_end_matches("_call") } else { text(item, "name") };
    let name = ToolName::new(name).ok().filter(|_| Author::of(item) == Author::Assistant)?;
    let arguments = match payload(item, Author::Assistant).map(|key| &item[key]) {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(value) => value.to_string(),
    };
    Some(ToolCall { id, name, arguments })
}

/// Returns the texts of a message of the model's: one that it refuses with counts as well.
pub(super) fn texts(item: &Value) -> Vec<&str> {
    match item.get("content") {
        Some(Value::String(text)) => vec![text],
        Some(Value::Array(parts)) => parts.iter().filter_map(|part| part_text(part)).collect(),
        _ => Vec::new(),
    }
}

/// Returns the text of a part, if it is one.
pub(super) fn part_text(part: &Value) -> Option<&str> {
    part.get(text_key(part)?)?.as_str()
}

/// Returns the key under which a part has its text.
pub(super) fn text_key(part: &Value) -> Option<&'static str> {
    match kind(part) {
        "output_text" | "input_text" | "text" => Some("text"),
        "refusal" => Some("refusal"),
        _ => None,
    }
}

/// Returns the readable texts of an item of reasoning: of its summary, and of the reasoning itself.
pub(super) fn thoughts(item: &Value) -> Vec<&str> {
    let parts = ["summary", "content"].iter().filter_map(|key| item.get(*key)?.as_array()).flatten();
    parts.map(|part| text(part, "text")).filter(|text| !text.is_empty()).collect()
}

/// Estimates the tokens of an item that the domain keeps as it is: four characters each.
pub(super) fn opaque_tokens(item: &Value) -> u64 {
    item.to_string().len() as u64 / 4
}

/// Returns a message of the model's with nothing special about it.
pub(super) fn assistant_item(text: &str) -> Value {
    json!({"role": "assistant", "content": text})
}

/// Returns a call with nothing special about it.
pub(super) fn call_item(call: &ToolCall) -> Value {
    let id = legal_id(&call.id);
    json!({"type": "function_call", "call_id": id, "name": call.name, "arguments": call.arguments})
}

/// Returns an id that servers accept: some other servers give none.
pub(super) fn legal_id(id: &str) -> &str {
    if id.is_empty() { "call_0" } else { id }
}

/// Returns an item of a reply without the server's own notes: its temporary id, its state, and what is unset.
pub(super) fn without_notes(item: &Value) -> Value {
    let mut fields = item.as_object().cloned().unwrap_or_default();
    fields.retain(|key, value| !matches!(key.as_str(), "id" | "status") && !value.is_null());
    if is_message(item) {
        fields.shift_remove("type");
        let parts = item["content"].as_array().map(Vec::as_slice).unwrap_or_default();
        if let [part] = parts
            && is_bare(part)
        {
            fields.insert("content".into(), part["text"].clone());
        }
    }
    Value::Object(fields)
}

/// Checks whether a part of a reply is a text and nothing else.
fn is_bare(part: &Value) -> bool {
    let is_empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let says_nothing = |(key, value): (&String, &Value)| match key.as_str() {
        "type" | "text" => true,
        "annotations" => is_empty(value),
        _ => false,
    };
    kind(part) == "output_text" && part.as_object().is_some_and(|fields| fields.iter().all(says_nothing))
}

/// Drops the probabilities of each token, which are not asked for and some servers send: they are many times
/// as long as the text.
pub(super) fn drop_probabilities(item: &mut Value) {
    let parts = item.get_mut("content").and_then(Value::as_array_mut).into_iter().flatten();
    for part in parts.filter_map(Value::as_object_mut) {
        part.shift_remove("logprobs");
    }
}

/// Returns the fields of a part for the model to read.
pub(super) fn input_text(text: &str) -> Value {
    Value::Object(Map::from_iter([("type".into(), json!("input_text")), ("text".into(), json!(text))]))
}
