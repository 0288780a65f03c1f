//! The message of a reply that Forge writes for Claude Code.

use serde_json::{Value, json};

/// Returns the message of a reply with these blocks, without usage. A `model` of `None` is one that no model
/// wrote; `uuid` tells replies apart.
pub(crate) fn reply_message(model: Option<Value>, uuid: &str, blocks: &[Value]) -> Value {
    let is_call = blocks.iter().any(|block| block.get("type").is_some_and(|kind| kind == "tool_use"));
    json!({
        "model": model.unwrap_or_else(|| json!("<synthetic>")),
        "id": format!("msg_{}", uuid.replace('-', "")),
        "type": "message",
        "role": "assistant",
        "content": blocks,
        "stop_reason": if is_call { "tool_use" } else { "end_turn" },
        "stop_sequence": null,
        "usage": {
            "input_tokens": 0,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
            "output_tokens": 0,
        },
    })
}
