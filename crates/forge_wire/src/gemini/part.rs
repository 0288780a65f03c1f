//! The parts of a content, to and from the domain.

use forge_domain::{Body, Content, Message, Part, ToolCall, ToolName, ToolResult};
use serde_json::{Map, Value, json};

use crate::WireError;
use crate::arguments::arguments_object;

/// Returns the parts for what the domain knows of `message`. What is not text in a tool's result follows the
/// result as parts of its own: older models accept no other place.
pub(super) fn plain_parts(message: &Message) -> Result<Vec<Value>, WireError> {
    match &message.body {
        Body::System(content) | Body::User(content) => content.parts(),
        Body::Tool(result) => {
            let mut parts = vec![response(result)];
            if let Content::Parts(inner) = &result.content {
                let media = inner.iter().filter_map(|part| match part {
                    Part::Text(_) => None,
                    Part::Media(value) => Some(media_part(value)),
                });
                parts.extend(media.collect::<Result<Vec<_>, _>>()?);
            }
            Ok(parts)
        }
        Body::Assistant { content, calls } => {
            let mut parts = content.as_ref().map_or(Ok(Vec::new()), Parts::parts)?;
            parts.extend(calls.iter().map(call_part));
            Ok(parts)
        }
    }
}

/// A value with parts in the form of this protocol.
trait Parts {
    /// Returns the parts; blank texts, which the protocol refuses, are left out.
    fn parts(&self) -> Result<Vec<Value>, WireError>;
}

impl Parts for Content {
    fn parts(&self) -> Result<Vec<Value>, WireError> {
        match self {
            Self::Text(text) if text.trim().is_empty() => Ok(Vec::new()),
            Self::Text(text) => Ok(vec![text_part(text)]),
            Self::Parts(parts) => parts
                .iter()
                .filter(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()))
                .map(|part| match part {
                    Part::Text(text) => Ok(text_part(text)),
                    Part::Media(value) => media_part(value),
                })
                .collect(),
        }
    }
}

pub(super) fn text_part(text: &str) -> Value {
    json!({"text": text})
}

/// Returns a call as a part. Arguments that are not a JSON object are put, as text, under `input`.
fn call_part(call: &ToolCall) -> Value {
    let mut spelt = Map::new();
    if !is_made_up(&call.id) {
        spelt.insert("id".to_owned(), json!(call.id));
    }
    spelt.insert("name".to_owned(), json!(call.name));
    spelt.insert("args".to_owned(), arguments_object(&call.arguments));
    json!({"functionCall": spelt})
}

/// Returns a result as a part.
fn response(result: &ToolResult) -> Value {
    let mut spelt = Map::new();
    if !is_made_up(&result.call_id) {
        spelt.insert("id".to_owned(), json!(result.call_id));
    }
    spelt.insert("name".to_owned(), json!(result.name.as_ref().map_or("", ToolName::as_str)));
    let key = if result.is_error { "error" } else { "output" };
    spelt.insert("response".to_owned(), json!({key: result.content.to_text()}));
    json!({"functionResponse": spelt})
}

/// Checks whether `id` is one that was made up here, because the model gave its call none. Such calls and
/// their results are matched by their order.
pub(super) fn is_made_up(id: &str) -> bool {
    id.starts_with(MADE_UP)
}

/// Returns the id of the `n`-th call of a message, to which the model gave none.
pub(super) fn made_up_id(n: usize) -> String {
    format!("{MADE_UP}{n}")
}

/// The beginning of the ids that are made up here.
const MADE_UP: &str = "by_order_";

/// Converts what is not text to a part. Parts of this protocol stay unchanged.
fn media_part(value: &Value) -> Result<Value, WireError> {
    let text = |place: &str| value.pointer(place).and_then(Value::as_str);
    let Some(kind) = text("/type") else { return Ok(value.clone()) };
    let inline = |media: &str, data: &str| json!({"inlineData": {"mimeType": media, "data": data}});
    let at = |url: &str| match url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,")) {
        Some((media, data)) => inline(media, data),
        None => json!({"fileData": {"fileUri": url}}),
    };
    let found = match kind {
        "image_url" => text("/image_url/url").or_else(|| text("/image_url")).map(at),
        "file" => text("/file/file_data").map(at),
        "input_audio" => text("/input_audio/format")
            .zip(text("/input_audio/data"))
            .map(|(format, data)| inline(&format!("audio/{format}"), data)),
        "image" | "document" => match (text("/source/media_type"), text("/source/data"), text("/source/url"))
        {
            (Some(media), Some(data), _) => Some(inline(media, data)),
            (_, _, Some(url)) => Some(at(url)),
            _ => None,
        },
        _ => None,
    };
    let none = || format!("has a part `{kind}`, for which Gemini's contents have none");
    found.ok_or_else(|| WireError::shape("content", none()))
}

/// Returns the message of the assistant that `parts` form. Thoughts are not part of it.
pub(super) fn assistant(parts: &[Value]) -> Message {
    let mut content = Vec::new();
    let mut calls: Vec<ToolCall> = Vec::new();
    for part in parts {
        match read_call(part, &calls) {
            Some(call) => calls.push(call),
            None if is_thought(part) => {}
            None => content.push(plain_part(part)),
        }
    }
    Message::new(Body::Assistant { content: content_of(content), calls })
}

/// Returns the messages of the user that `parts` form: a result for each response, and the rest after them.
/// `open` are the calls that are not answered yet.
pub(super) fn user(parts: &[Value], open: &mut Vec<ToolCall>) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut content = Vec::new();
    for part in parts {
        match part.get("functionResponse") {
            Some(response) => messages.push(Message::tool(read_response(response, open))),
            None => content.push(plain_part(part)),
        }
    }
    messages.extend(content_of(content).map(Message::user));
    messages
}

/// Reads a part that calls a tool; `None` if it is of another kind.
fn read_call(part: &Value, before: &[ToolCall]) -> Option<ToolCall> {
    let call = part.get("functionCall")?;
    let name = ToolName::new(call.get("name")?.as_str()?.to_owned()).ok()?;
    let given = call.get("id").and_then(Value::as_str).filter(|id| !id.is_empty());
    let id = given.map_or_else(|| made_up_id(before.len()), str::to_owned);
    Some(ToolCall { id, name, arguments: arguments(call) })
}

/// Returns the arguments of a call as text.
pub(super) fn arguments(call: &Value) -> String {
    match call.get("args") {
        None | Some(Value::Null) => "{}".to_owned(),
        Some(args) => args.to_string(),
    }
}

/// Reads a response. One without an id answers the first open call of its name, else the first one.
fn read_response(response: &Value, open: &mut Vec<ToolCall>) -> ToolResult {
    let text = |key: &str| response.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
    let place = match text("id") {
        Some(id) => open.iter().position(|call| call.id == id),
        None => open
            .iter()
            .position(|call| Some(call.name.as_str()) == text("name"))
            .or(Some(0))
            .filter(|at| *at < open.len()),
    };
    let answered = place.map(|at| open.remove(at));
    let id = text("id").map(str::to_owned).or_else(|| answered.map(|call| call.id));
    let (is_error, content) = read_output(response.get("response").unwrap_or(&Value::Null));
    ToolResult {
        call_id: id.unwrap_or_default(),
        name: text("name").and_then(|name| ToolName::new(name.to_owned()).ok()),
        content: content.into(),
        is_error,
    }
}

/// Returns the text of a response, and whether it is an error. One in a form of its author's is JSON.
fn read_output(response: &Value) -> (bool, String) {
    let only = |key: &str| {
        let fields = response.as_object().filter(|fields| fields.len() == 1)?;
        fields.get(key)?.as_str().map(str::to_owned)
    };
    match (only("output"), only("error")) {
        (Some(output), _) => (false, output),
        (None, Some(error)) => (true, error),
        (None, None) => (response.get("error").is_some_and(|error| !error.is_null()), response.to_string()),
    }
}

/// Checks whether `part` is a summary of the model's thoughts.
pub(super) fn is_thought(part: &Value) -> bool {
    part.get("thought") == Some(&Value::Bool(true))
}

fn plain_part(part: &Value) -> Part {
    match (part.as_object().map(Map::len), part.get("text")) {
        (Some(1), Some(Value::String(text))) => Part::Text(text.clone()),
        _ => Part::Media(part.clone()),
    }
}

/// Returns the content of the parts: a single text as itself, and `None` for no parts.
fn content_of(mut parts: Vec<Part>) -> Option<Content> {
    match parts.as_mut_slice() {
        [] => None,
        [Part::Text(text)] => Some(Content::Text(std::mem::take(text))),
        _ => Some(Content::Parts(parts)),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn media_of_other_protocols_become_parts() {
        let png = json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}});
        for (value, expected) in [
            (
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}),
                Some(png.clone()),
            ),
            (
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}),
                Some(png.clone()),
            ),
            (
                json!({"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}),
                Some(json!({"fileData": {"fileUri": "https://example.test/a.png"}})),
            ),
            (
                json!({"type": "input_audio", "input_audio": {"format": "wav", "data": "AA=="}}),
                Some(json!({"inlineData": {"mimeType": "audio/wav", "data": "AA=="}})),
            ),
            (
                json!({"type": "file", "file": {"file_data": "data:application/pdf;base64,AA=="}}),
                Some(json!({"inlineData": {"mimeType": "application/pdf", "data": "AA=="}})),
            ),
            (png.clone(), Some(png)),
            (json!({"type": "refusal", "refusal": "no"}), None),
        ] {
            assert_eq!(media_part(&value).ok(), expected, "{value}");
        }
    }
}
