//! Sessions as a list of chat-completions messages.

use std::sync::Arc;

use forge_domain::{Body, Content, Message};
use forge_wire::WireError;
use forge_wire::openai::read_message;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::flat_text::{flat_text, flat_value};
use crate::json_text::parse;
use crate::session::name_results;
use crate::{Format, Record, Session, TranscriptError};

/// `{"messages": [...]}` with whatever else a request has.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

/// Reads a request body or a bare list of messages; the session is named after the file.
pub(crate) fn read(text: &str, origin: &str) -> Result<Vec<Session>, TranscriptError> {
    let entries = if text.trim_start().starts_with('[') {
        serde_json::from_str(text)
    } else {
        serde_json::from_str(text).map(|request: Request<'_>| request.messages)
    };
    let entries = entries.map_err(|source| TranscriptError::json(origin, source))?;
    let records = records(&entries, origin, "messages")?;
    let id = origin.rsplit(['/', '\\']).next().unwrap_or(origin).to_owned();
    Ok(vec![Session { id, format: Format::Openai, records, skipped_lines: 0 }])
}

/// The records of `entries`, which stand in `list`.
pub(crate) fn records(
    entries: &[&RawValue],
    origin: &str,
    list: &str,
) -> Result<Vec<Record>, TranscriptError> {
    let not_a_message = |index, source| TranscriptError::NotAMessage {
        origin: origin.to_owned(),
        list: list.to_owned(),
        index,
        source,
    };
    let mut records = Vec::with_capacity(entries.len());
    for (index, entry) in entries.iter().enumerate() {
        let (message, is_literal) = parse(entry.get())
            .map_err(|source| WireError::Json { source })
            .and_then(read_recorded)
            .map_err(|source| not_a_message(index, source))?;
        records.push(Record {
            raw: Arc::from(entry.get()),
            messages: vec![message],
            reply: None,
            is_literal,
        });
    }
    name_results(&mut records);
    Ok(records)
}

/// A message as recordings have it, which take more liberties than the protocol, and whether this one took none.
fn read_recorded(mut value: Value) -> Result<(Message, bool), WireError> {
    let mut error = String::new();
    let mut is_literal = true;
    if let Some(fields) = value.as_object_mut() {
        foreign_blocks(fields)?;
        match fields.get("role").and_then(Value::as_str) {
            Some("system" | "developer" | "user") | None => (),
            Some("assistant") => is_literal = !plain_calls(fields),
            Some("tool") => {
                error = fields
                    .get("error")
                    .filter(|error| says_something(error))
                    .map(flat_value)
                    .unwrap_or_default();
                is_literal = !plain_result(fields);
            }
            // A role of the recorder's own speaks to the model, so it is the user's.
            Some(_) => {
                fields.insert("role".into(), json!("user"));
                is_literal = false;
            }
        }
    }
    let mut message = read_message(value)?;
    if let (Body::Tool(result), false) = (&mut message.body, error.is_empty()) {
        result.is_error = true;
        if flat_text(&result.content).is_empty() {
            result.content = Content::Text(error);
            is_literal = false;
        }
    }
    Ok((message, is_literal))
}

/// Whether an error is one: recorders also write `false`, 0 or something empty where there was none.
fn says_something(error: &Value) -> bool {
    match error {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// Refuses the blocks of Anthropic's protocol, whose calls and results would silently become texts.
fn foreign_blocks(fields: &Map<String, Value>) -> Result<(), WireError> {
    let parts = fields.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for (n, part) in parts.iter().enumerate() {
        if let Some(kind @ ("tool_use" | "tool_result")) = part.get("type").and_then(Value::as_str) {
            let what = format!("is `{kind}`, a block of Anthropic's messages; read them as those");
            return Err(WireError::Shape { what, at: format!("content[{n}].type") });
        }
    }
    Ok(())
}

/// Gives the calls the form of the protocol: a call may be flat, its arguments any value, its id a number. Returns
/// whether any had another.
fn plain_calls(fields: &mut Map<String, Value>) -> bool {
    let Some(calls) = fields.get_mut("tool_calls").and_then(Value::as_array_mut) else { return false };
    let mut is_changed = false;
    for call in calls.iter_mut().filter_map(Value::as_object_mut) {
        is_changed |= plain_id(call, "id");
        if call.contains_key("custom") {
            continue;
        }
        if !call.get("function").is_some_and(Value::is_object) {
            let name = call.shift_remove("function").unwrap_or_default();
            let arguments = call.shift_remove("arguments").filter(|arguments| !arguments.is_null());
            let arguments = arguments.or_else(|| call.shift_remove("args")).unwrap_or_default();
            call.insert("function".into(), json!({"name": name, "arguments": arguments}));
            is_changed = true;
        }
        let function = &mut call["function"];
        if function["name"].as_str().is_none_or(|name| name.trim().is_empty()) {
            function["name"] = json!("tool");
            is_changed = true;
        }
        let arguments = &mut function["arguments"];
        is_changed |= !arguments.is_string();
        if !arguments.is_string() && !arguments.is_object() && !arguments.is_null() {
            *arguments = json!({"input": arguments});
        }
    }
    is_changed
}

/// Gives a result the form of the protocol: the call's id may be in a list, be a number, or be missing. Returns whether
/// it had another.
fn plain_result(fields: &mut Map<String, Value>) -> bool {
    let is_missing = fields.get("tool_call_id").is_none_or(Value::is_null);
    if is_missing {
        let first = fields.get("tool_call_ids").and_then(|ids| ids.get(0)).cloned();
        fields.insert("tool_call_id".into(), first.unwrap_or_else(|| json!("")));
    }
    plain_id(fields, "tool_call_id") || is_missing
}

fn plain_id(fields: &mut Map<String, Value>, key: &str) -> bool {
    match fields.get_mut(key) {
        Some(id @ Value::Number(_)) => *id = json!(id.to_string()),
        Some(id @ Value::Null) => *id = json!(""),
        _ => return false,
    }
    true
}
