//! Blocks that the domain cannot express, kept beside their message so that they can be sent back unchanged.

use forge_domain::{Body, Content, Message, Part};
use serde_json::{Map, Value, json};

use super::content::{THINKING, plain_blocks, read_blocks};

/// The key of a message's metadata under which they are kept.
const KEY: &str = "anthropic";

/// Returns the metadata of a message that came as `blocks`; empty if the message alone reproduces them.
pub(super) fn metadata(blocks: &[Value]) -> Map<String, Value> {
    let message = read_blocks(blocks);
    let again = message.as_ref().and_then(|message| plain_blocks(message).ok());
    match again {
        Some(again) if again == blocks => Map::new(),
        _ => Map::from_iter([(KEY.to_owned(), json!({"blocks": blocks}))]),
    }
}

/// Returns the blocks kept for `message`, as long as they still match it.
pub(super) fn blocks(message: &Message) -> Option<Vec<Value>> {
    let kept = message.metadata.get(KEY)?.get("blocks")?.as_array()?;
    let said = read_blocks(kept)?;
    let is_same = texts(&said) == texts(message)
        && calls(&said) == calls(message)
        && answers(&said) == answers(message);
    // The protocol refuses blank texts, and gives them nevertheless.
    let is_blank = |block: &&Value| {
        block.get("type") == Some(&json!("text"))
            && block.get("text").and_then(Value::as_str).is_some_and(|text| text.trim().is_empty())
    };
    // Reasoning without its signature is refused as well.
    let is_unsigned = |block: &&Value| {
        block.get("type") == Some(&json!("thinking"))
            && block.get("signature").and_then(Value::as_str).is_none_or(str::is_empty)
    };
    // The domain decides whether reasoning is sent, by the message's key for it.
    let goes_without = |block: &&Value| is_reasoning(block) && !message.extra.contains_key(THINKING);
    let sent = kept.iter().filter(|block| !is_blank(block) && !is_unsigned(block) && !goes_without(block));
    is_same.then(|| sent.cloned().collect())
}

fn is_reasoning(block: &Value) -> bool {
    matches!(block.get("type").and_then(Value::as_str), Some("thinking" | "redacted_thinking"))
}

/// Returns the texts joined: a streamed reply does not tell where one ends.
fn texts(message: &Message) -> String {
    match message.content() {
        None => String::new(),
        Some(Content::Text(text)) => text.clone(),
        Some(Content::Parts(parts)) => parts
            .iter()
            .filter_map(|part| match part {
                Part::Text(text) => Some(text.as_str()),
                Part::Media(_) => None,
            })
            .collect(),
    }
}

fn calls(message: &Message) -> Vec<(&str, &str, Value)> {
    let calls = message.calls().iter();
    let input = |arguments: &str| serde_json::from_str(arguments).unwrap_or_else(|_| json!(arguments));
    calls.map(|call| (call.id.as_str(), call.name.as_str(), input(&call.arguments))).collect()
}

fn answers(message: &Message) -> Option<(&str, bool)> {
    match &message.body {
        Body::Tool(result) => Some((result.call_id.as_str(), result.is_error)),
        Body::System(_) | Body::User(_) | Body::Assistant { .. } => None,
    }
}
