//! Items to and from messages; what is read can be written again, byte for byte.

use forge_domain::{Body, Content, Message, Part, ToolResult};
use serde_json::{Value, json};

use super::form;
use super::item::{Author, call, is_message, kind, part_text, payload, text};
use super::plain::plain_items;
use crate::WireError;

/// Reads the `input` of a request: a text, or a list of items.
///
/// # Errors
/// [`WireError::Shape`] if it is neither.
pub fn read_input(input: Value) -> Result<Vec<Message>, WireError> {
    match input {
        Value::String(text) => Ok(vec![Message::user(text)]),
        Value::Array(items) => read_items(items),
        _ => Err(WireError::shape("input", "must be a string or a list of items")),
    }
}

/// Reads items. All that the model says between others is one message: its texts, its calls, and the
/// reasoning, which is kept in `extra` under [`forge_domain::REASONING_ITEMS`]. Order and unknown fields are
/// kept in the metadata.
///
/// # Errors
/// [`WireError::Shape`] if an item is not an object.
pub fn read_items(items: Vec<Value>) -> Result<Vec<Message>, WireError> {
    let mut messages = Vec::new();
    let mut reply = Vec::new();
    for (n, item) in items.into_iter().enumerate() {
        if !item.is_object() {
            return Err(WireError::shape(format!("input[{n}]"), "must be an object"));
        }
        if Author::of(&item) == Author::Assistant {
            reply.push(item);
            continue;
        }
        messages.extend(read_reply(&std::mem::take(&mut reply)));
        messages.push(read_single(item));
    }
    messages.extend(read_reply(&reply));
    Ok(messages)
}

/// Returns the items that `message` is sent as. The model's may be several, or no item if it says nothing.
pub fn message_items(message: &Message) -> Vec<Value> {
    form::items(message).unwrap_or_else(|| plain_items(message))
}

/// Returns the message of items that the model made.
pub(super) fn assistant(items: &[Value]) -> Message {
    let text = form::joined_text(items);
    let calls = items.iter().filter(|item| !is_message(item)).filter_map(call).collect();
    let content = (!text.is_empty()).then_some(Content::Text(text));
    Message::new(Body::Assistant { content, calls })
}

fn read_reply(items: &[Value]) -> Option<Message> {
    if items.is_empty() {
        return None;
    }
    let mut message = assistant(items);
    form::keep(&mut message, items, are_same_bytes);
    Some(message)
}

/// Compares text, since the order of an object's keys does not count for its value.
fn are_same_bytes(items: &[Value], plain: &[Value]) -> bool {
    let bytes = |items| serde_json::to_vec(items).ok();
    bytes(items) == bytes(plain)
}

/// Reads an item that is a message of its own.
fn read_single(item: Value) -> Message {
    let author = Author::of(&item);
    let mut message = match author {
        Author::Tool => {
            let content = payload(&item, author).map_or_else(|| "".into(), |key| read_content(&item[key]));
            let call_id = text(&item, "call_id").to_owned();
            Message::tool(ToolResult { call_id, name: None, content, is_error: false })
        }
        _ => {
            let content = if is_message(&item) {
                read_content(&item["content"])
            } else {
                Content::Parts(vec![Part::Media(item.clone())])
            };
            if author == Author::System { Message::system(content) } else { Message::user(content) }
        }
    };
    form::keep(&mut message, &[item], are_same_bytes);
    message
}

fn read_content(content: &Value) -> Content {
    match content {
        Value::String(text) => Content::Text(text.clone()),
        Value::Array(parts) => Content::Parts(parts.iter().map(read_part).collect()),
        value => Content::Text(value.to_string()),
    }
}

/// Reads a part; an image becomes a part of the chat protocol, which every codec knows.
fn read_part(part: &Value) -> Part {
    if let Some(text) = part_text(part) {
        return Part::Text(text.to_owned());
    }
    match part.get("image_url").and_then(Value::as_str) {
        Some(url) if kind(part) == "input_image" => {
            let mut image = json!({"url": url});
            if let Some(detail) = part.get("detail").filter(|detail| *detail != "auto") {
                image["detail"] = detail.clone();
            }
            Part::Media(json!({"type": "image_url", "image_url": image}))
        }
        _ => Part::Media(part.clone()),
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::{REASONING_ITEMS, Role};
    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns the roles of the messages that `items` are read as, after a check that they are written byte
    /// for byte as they were.
    fn roles(items: &Value) -> String {
        let messages = read_input(items.clone()).unwrap();
        let again: Vec<Value> = messages.iter().flat_map(message_items).collect();
        assert_eq!(json!(again).to_string(), items.to_string());
        messages.iter().map(|message| &message.role().as_str()[..1]).collect()
    }

    #[test]
    fn items_are_messages_and_written_byte_for_byte() {
        for (items, expected) in [
            (json!([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]), "ua"),
            (
                json!([{"type": "message", "id": "m", "role": "developer", "content": [{"type": "input_text", "text": "a"}]},
                    {"content": "b", "role": "system"}]),
                "ss",
            ),
            (
                json!([{"type": "message", "role": "user", "content": [
                    {"type": "input_text", "text": "see", "new": 1.0},
                    {"type": "input_image", "detail": "low", "image_url": "data:image/png;base64,AA"},
                    {"type": "input_image", "image_url": "https://h/a.png"},
                    {"type": "input_file", "file_id": "f"}]}]),
                "u",
            ),
            (
                json!([
                    {"type": "reasoning", "summary": [], "content": null, "encrypted_content": "AA=="},
                    {"type": "message", "role": "assistant", "phase": "commentary", "content": [
                        {"type": "output_text", "text": "ä", "annotations": [{"url": "u"}]},
                        {"type": "refusal", "refusal": "no"}]},
                    {"type": "function_call", "status": "completed", "name": "read", "arguments": "{\"a\": 1}",
                        "call_id": "c1", "namespace": "mcp__files"},
                    {"type": "reasoning", "id": "rs", "summary": [{"type": "summary_text", "text": "hm"}]},
                    {"type": "custom_tool_call", "call_id": "c2", "name": "patch", "input": "*** Begin\n"},
                    {"type": "message", "role": "assistant", "content": "behind"},
                    {"type": "function_call_output", "id": "o", "call_id": "c1", "output": "out"},
                    {"type": "custom_tool_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "x"}]},
                ]),
                "att",
            ),
            (
                json!([
                    {"type": "local_shell_call", "id": "l", "call_id": "c", "status": "completed",
                        "action": {"type": "exec", "command": ["ls"], "timeout_ms": 1.0}},
                    {"type": "local_shell_call_output", "id": "lo", "output": {"stdout": "a", "exit": 0}, "call_id": "c"},
                    {"type": "tool_search_call", "call_id": null, "arguments": {"q": 1}},
                    {"type": "tool_search_output", "call_id": null, "tools": []},
                    {"type": "web_search_call", "id": "w", "action": {"query": "q"}},
                    {"type": "item_reference", "id": "msg_1"},
                ]),
                "ata",
            ),
            (
                json!([
                    {"type": "additional_tools", "role": "developer", "tools": [
                        {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f"}]}]},
                    {"type": "compaction", "id": "cmp", "encrypted_content": "AA=="},
                    {"role": "user", "content": "more"},
                    {"type": "compaction_trigger"},
                    {"type": "mcp_approval_response", "approval_request_id": "a", "approve": true},
                    {"type": "never_seen", "a": [null]},
                ]),
                "sauuua",
            ),
            (json!([]), ""),
        ] {
            assert_eq!(roles(&items), expected, "{items}");
        }
        assert_eq!(read_input(json!("hi")).unwrap(), [Message::user("hi")]);
        for input in [json!(5), json!(["hi"])] {
            assert!(read_input(input.clone()).is_err(), "{input}");
        }
    }

    #[test]
    fn what_changed_since_is_sent_as_it_is_now() {
        let items = json!([
            {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "AA=="},
            {"type": "message", "id": "m1", "role": "assistant", "content": [{"type": "output_text", "text": "one"}]},
            {"type": "message", "id": "m2", "role": "assistant", "content": [{"type": "output_text", "text": "two"}]},
            {"type": "function_call", "id": "f", "call_id": "c1", "name": "read", "arguments": "{\"path\":\"a\"}"},
            {"type": "function_call", "call_id": "c2", "name": "list", "arguments": "{}"},
        ]);
        let message = read_input(items).unwrap().remove(0);
        assert_eq!((message.role(), message.extra.len()), (Role::Assistant, 1));
        let mut changed = message.clone().with_content("shorter");
        if let Body::Assistant { calls, .. } = &mut changed.body {
            calls.remove(1);
            calls[0].arguments = "{}".into();
        }
        let reasoning = message.extra[REASONING_ITEMS][0].clone();
        let expected = json!([
            reasoning,
            {"role": "assistant", "content": "shorter"},
            {"type": "function_call", "id": "f", "call_id": "c1", "name": "read", "arguments": "{}"},
        ]);
        assert_eq!(json!(message_items(&changed)), expected);
        let result = json!([{"type": "function_call_output", "id": "o", "call_id": "c1", "output": [
            {"type": "input_text", "text": "a"}, {"type": "input_file", "file_id": "f"}]}]);
        let cleared = read_input(result).unwrap().remove(0).with_content("(cleared)");
        let expected =
            json!([{"type": "function_call_output", "id": "o", "call_id": "c1", "output": "(cleared)"}]);
        assert_eq!(json!(message_items(&cleared)), expected);
    }
}
