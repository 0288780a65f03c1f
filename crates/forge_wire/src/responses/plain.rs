//! Messages with nothing special about them as items.

use forge_domain::{Body, Content, Message, Part, ToolResult};
use serde_json::{Value, json};

use super::item::{assistant_item, call_item, input_text, kind, legal_id};

/// Returns the items of a message with nothing special about it.
pub(super) fn plain_items(message: &Message) -> Vec<Value> {
    let content = message.content();
    let item = |role: &str| json!({"role": role, "content": content.map(plain_content)});
    match &message.body {
        Body::System(_) => vec![item("system")],
        Body::User(_) => vec![item("user")],
        Body::Assistant { content, calls } => {
            let said = content.as_ref().map(Content::to_text).filter(|text| !text.is_empty());
            said.as_deref().map(assistant_item).into_iter().chain(calls.iter().map(call_item)).collect()
        }
        Body::Tool(result) => vec![result_item("function_call_output", result)],
    }
}

/// Returns a result as an item of `kind`.
pub(super) fn result_item(kind: &str, result: &ToolResult) -> Value {
    json!({"type": kind, "call_id": legal_id(&result.call_id), "output": plain_content(&result.content)})
}

/// Returns a content that has no form of its own.
pub(super) fn plain_content(content: &Content) -> Value {
    let part = |part: &Part| match part {
        Part::Text(text) => input_text(text),
        Part::Media(raw) => media_json(raw),
    };
    match content {
        Content::Text(text) => json!(text),
        Content::Parts(parts) => parts.iter().map(part).collect(),
    }
}

/// Returns a part that is not text in this protocol's form. Images of the chat protocol and of Anthropic's
/// are the parts that conversations hold.
pub(super) fn media_json(part: &Value) -> Value {
    let chat = crate::anthropic::media_part(part).unwrap_or_else(|_| part.clone());
    match (kind(&chat), chat.pointer("/image_url/url").and_then(Value::as_str)) {
        ("image_url", Some(url)) => {
            let detail = chat.pointer("/image_url/detail").and_then(Value::as_str).unwrap_or("auto");
            json!({"type": "input_image", "image_url": url, "detail": detail})
        }
        _ => chat,
    }
}

/// Returns the result with the item's kind that answers a call of `kind`.
pub(super) fn answer_of(kind: &str, message: &Message) -> Option<Value> {
    match &message.body {
        Body::Tool(result) => Some(result_item(&format!("{kind}_output"), result)),
        _ => None,
    }
}
