//! The body of a request for a reply.

use std::collections::BTreeMap;

use forge_domain::{Body, ContextMessage, Message, Prompt, Tokens, ToolName};
use serde_json::{Map, Value, json};

use super::message_json;
use crate::Delivery;
use crate::turns::merge_neighbours;

/// Builds the body of `POST /api/chat` for `prompt`, for a server that is to read prompts of up to `window`
/// tokens. Without that, it would choose a window of its own and cut the prompt silently.
pub fn request(prompt: &Prompt, window: Tokens, delivery: Delivery) -> Value {
    let options = prompt.options();
    let messages: Vec<&Message> = prompt.messages().iter().map(ContextMessage::message).collect();
    let mut set = Map::new();
    set.insert("num_ctx".into(), json!(window.as_u64()));
    if let Some(limit) = options.max_output_tokens {
        set.insert("num_predict".into(), json!(limit.as_u64()));
    }
    if let Some(temperature) = options.temperature {
        set.insert("temperature".into(), json!(temperature));
    }
    if let Some(top_p) = options.top_p {
        set.insert("top_p".into(), json!(top_p));
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(options.model.model));
    body.insert("messages".into(), Value::Array(merge_neighbours(entries(&messages))));
    if !prompt.tools().is_empty() {
        body.insert("tools".into(), json!(prompt.tools()));
    }
    // Unset it is true.
    body.insert("stream".into(), json!(delivery == Delivery::Stream));
    body.insert("options".into(), Value::Object(set));
    Value::Object(body)
}

/// Returns the entries for `messages`. Results name the tool, since the protocol has no ids by which to find
/// the call.
fn entries(messages: &[&Message]) -> Vec<Value> {
    let mut called: BTreeMap<&str, &ToolName> = BTreeMap::new();
    let mut entries = Vec::with_capacity(messages.len());
    for message in messages {
        called.extend(message.calls().iter().map(|call| (call.id.as_str(), &call.name)));
        let mut entry = message_json(message);
        if let Body::Tool(result) = &message.body
            && let Some(name) = called.get(result.call_id.as_str())
            && entry.get("tool_name").is_none()
        {
            entry["tool_name"] = json!(name);
        }
        entries.push(entry);
    }
    entries
}
