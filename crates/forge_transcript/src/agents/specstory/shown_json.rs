//! Calls that a history shows as JSON, or as the call of a server's tool.

use serde_json::{Map, Value};

use super::fences::{Fenced, decoded, line_with, without_fence};
use super::parts::FENCE;
use super::shown::{Shown, Told, fields, named_values};
use crate::json_text::parse;

/// The words before the three objects of a call.
const PARAMETERS: &str = "Parameters:";
const DATA: &str = "Additional data:";
const RESULT: &str = "Result:";
/// The words before the state in which a call ended.
const STATUS: &str = "Status: **";
/// The words before the name of a server's tool, before its arguments and before its result.
const SERVER: &str = "*Called tool*:";
const SERVER_PARAMETERS: &str = "*Parameters*:";
const SERVER_RESULT: &str = "*Result*:";

/// Reads a block with the arguments and the result of a call as objects; `None` if it has none.
pub(super) fn json_call(shown: &Shown<'_>) -> Option<Told> {
    let is_own = [PARAMETERS, DATA, RESULT].iter().any(|words| shown.body.starts_with(*words));
    let [parameters, data, result] = [PARAMETERS, DATA, RESULT].map(|words| object_below(shown.body, words));
    if !is_own || parameters.or(data).or(result).is_none() {
        return None;
    }
    let object = |text: &str| parse::<Map<String, Value>>(text).unwrap_or_default();
    let mut arguments = parameters.map(object).unwrap_or_default();
    arguments.values_mut().for_each(decode);
    let is_error = line_with(shown.body, STATUS).is_some_and(|at| {
        let state = shown.body[at + STATUS.len()..].split("**").next();
        matches!(state, Some("error" | "failed"))
    });
    let fields_of_result = result.map(object).unwrap_or_default();
    let result = if fields_of_result.contains_key("invocationMessage") {
        arguments.append(&mut written_text(&fields_of_result));
        let message = fields_of_result.get("pastTenseMessage").and_then(Value::as_str);
        decoded(message.unwrap_or_default())
    } else {
        // The tools of VS Code have nothing else than their names there.
        let data = data.filter(|data| !data.contains("\"vscodeToolId\""));
        decoded(result.or(data).unwrap_or_default())
    };
    Some(Told { arguments, result, is_error })
}

/// Returns the text that a call of VS Code Copilot wrote, which it has beside its result.
fn written_text(result: &Map<String, Value>) -> Map<String, Value> {
    let texts = ["textEditContent", "content"].map(|key| result.get(key).and_then(Value::as_str));
    let text = texts.into_iter().flatten().find(|text| !text.is_empty()).map(decoded).unwrap_or_default();
    fields([("content", without_fence(text.trim()).to_owned())])
}

/// Returns the object below a line of these words.
fn object_below<'a>(body: &'a str, words: &str) -> Option<&'a str> {
    let below = body[line_with(body, words)? + words.len()..].trim_start();
    let fenced = Fenced::first(below).filter(|_| below.starts_with(FENCE))?;
    Some(fenced.text)
}

/// Replaces the entities in the texts of a value.
fn decode(value: &mut Value) {
    match value {
        Value::String(text) => *text = decoded(text),
        Value::Array(items) => items.iter_mut().for_each(decode),
        Value::Object(fields) => fields.values_mut().for_each(decode),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Reads a block about the call of a server's tool; `None` if it is of another.
pub(super) fn server_call(shown: &Shown<'_>) -> Option<Told> {
    let body = shown.body;
    if ![SERVER, SERVER_PARAMETERS].iter().any(|words| body.starts_with(*words)) {
        return None;
    }
    let below = &body[line_with(body, SERVER_PARAMETERS)? + SERVER_PARAMETERS.len()..];
    let (given, result) = match line_with(below, SERVER_RESULT) {
        Some(at) => (&below[..at], below[at + SERVER_RESULT.len()..].trim()),
        None => (below, ""),
    };
    let named = named_values(given, "  * ").into_iter();
    let arguments = named.map(|(name, text)| (name, Value::String(shown.plain(&text)))).collect();
    Some(Told { arguments, result: shown.plain(result), is_error: false })
}
