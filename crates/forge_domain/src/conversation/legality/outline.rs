//! The parts of a message by which it is judged.

use serde_json::Value;

use crate::{Body, Content, Message, Part, ToolCall, ToolResult};

/// Returns the message with its texts cut short. The providers' rules depend only on whether a text is empty
/// or blank, and that stays as it is. So the messages of a large session can be judged without holding what
/// they say.
pub fn outline(message: &Message) -> Message {
    let body = match &message.body {
        Body::System(content) => Body::System(outline_content(content)),
        Body::User(content) => Body::User(outline_content(content)),
        Body::Assistant { content, calls } => Body::Assistant {
            content: content.as_ref().map(outline_content),
            calls: calls.iter().map(outline_call).collect(),
        },
        Body::Tool(result) => Body::Tool(ToolResult {
            call_id: result.call_id.clone(),
            name: result.name.clone(),
            content: outline_content(&result.content),
            is_error: result.is_error,
        }),
    };
    let extra = message.extra.iter().map(|(key, value)| (key.clone(), shorten(value)));
    Message {
        extra: extra.collect(),
        metadata: message.metadata.clone(),
        timestamp: message.timestamp,
        is_compacted: message.is_compacted,
        ..Message::new(body)
    }
}

fn outline_call(call: &ToolCall) -> ToolCall {
    ToolCall { id: call.id.clone(), name: call.name.clone(), arguments: String::new() }
}

fn outline_content(content: &Content) -> Content {
    match content {
        Content::Text(text) => Content::Text(sign(text)),
        Content::Parts(parts) => Content::Parts(
            parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => Part::Text(sign(text)),
                    Part::Media(value) => Part::Media(shorten(value)),
                })
                .collect(),
        ),
    }
}

/// Returns a short text that is empty or blank if `text` is.
fn sign(text: &str) -> String {
    match text {
        "" => "",
        blank if blank.trim().is_empty() => " ",
        _ => "x",
    }
    .to_owned()
}

/// Cuts the texts in `value` to their beginnings: a rule only asks whether a signature is there.
fn shorten(value: &Value) -> Value {
    const MOST: usize = 32;
    match value {
        Value::String(text) => Value::String(text.chars().take(MOST).collect()),
        Value::Array(items) => items.iter().map(shorten).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), shorten(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}
