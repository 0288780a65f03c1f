//! The messages of a request to and from the domain.

use forge_domain::{Body, Content, Message, Part, Role, ToolCall, ToolName, ToolResult};
use serde_json::{Map, Value, json};

use super::{Block, BlockContent, MessageBody, kept, media_block};
use crate::WireError;

/// The key of a message's `extra` that holds its reasoning: the blocks as they came, signatures included.
pub const THINKING: &str = forge_domain::THINKING_BLOCKS;

/// Reads an entry of `messages`. A user entry may hold several messages: a result for each block of that
/// kind, followed by the user's text. Blocks of reasoning are kept in `extra`, under [`THINKING`].
///
/// # Errors
/// [`WireError`] if it has no role that the protocol knows, or no content.
pub fn read_entry(value: Value) -> Result<Vec<Message>, WireError> {
    let body = MessageBody::read(value)?;
    let blocks = match body.content {
        BlockContent::Text(text) => vec![Block::Other(Value::String(text))],
        BlockContent::Blocks(blocks) => blocks,
        BlockContent::Other(Value::Null) => Vec::new(),
        BlockContent::Other(_) => {
            return Err(WireError::shape("content", "must be a string or a list of blocks"));
        }
    };
    match body.role.as_str() {
        "assistant" => Ok(vec![assistant(blocks)]),
        "user" => Ok(user(blocks)),
        other => Err(WireError::shape("role", format!("is `{other}` (expected one of user and assistant)"))),
    }
}

/// Reads the `system` of a request: a text, or a list of blocks.
///
/// # Errors
/// [`WireError::Shape`] if it is neither.
pub fn read_system(value: Value) -> Result<Message, WireError> {
    match value {
        Value::String(text) => Ok(Message::system(text)),
        Value::Array(blocks) => Ok(Message::system(Content::Parts(blocks.into_iter().map(part).collect()))),
        _ => Err(WireError::shape("system", "must be a string or a list of blocks")),
    }
}

/// Returns the `system` of a request that starts with `messages`; `None` if there is none.
pub fn system_json(messages: &[&Message]) -> Option<Value> {
    let texts: Vec<String> =
        messages.iter().filter_map(|message| message.content()).map(Content::to_text).collect();
    match texts.as_slice() {
        [] => None,
        [only] => Some(json!(only)),
        several => Some(several.iter().map(|text| json!({"type": "text", "text": text})).collect()),
    }
}

/// Returns the role and the blocks that `message` is sent as. Results belong to the user.
///
/// # Errors
/// [`WireError::Shape`] for a system message, which has no place among the others, and for parts that the
/// protocol does not know.
pub fn entry_blocks(message: &Message) -> Result<(&'static str, Vec<Value>), WireError> {
    let role = if message.role() == Role::Assistant { "assistant" } else { "user" };
    match kept::blocks(message) {
        Some(blocks) => Ok((role, blocks)),
        None => Ok((role, plain_blocks(message)?)),
    }
}

/// Reads an entry of `messages` as [`read_entry`] does, and keeps with each message its original blocks if it
/// could not be written as it was read: with marks for the cache, citations, and unknown keys.
///
/// # Errors
/// As [`read_entry`].
pub fn read_entry_whole(value: Value) -> Result<Vec<Message>, WireError> {
    let blocks = value.get("content").and_then(Value::as_array).cloned().unwrap_or_default();
    let mut messages = read_entry(value)?;
    // Each result is a message, in order; the rest is the message after them.
    let (results, said): (Vec<_>, Vec<_>) = blocks.into_iter().partition(is_result);
    let mut results = results.into_iter();
    for message in &mut messages {
        let own = match message.role() {
            Role::Tool => results.next().into_iter().collect(),
            Role::System | Role::User | Role::Assistant => said.clone(),
        };
        if !own.is_empty() {
            message.metadata = kept::metadata(&own);
        }
    }
    Ok(messages)
}

/// Returns the one message that `blocks` form; `None` if they form several, or none.
pub(super) fn read_blocks(blocks: &[Value]) -> Option<Message> {
    let is_users = blocks.iter().any(is_result);
    let read =
        blocks.iter().map(|block| serde_json::from_value(block.clone())).collect::<Result<_, _>>().ok()?;
    if !is_users {
        return Some(assistant(read));
    }
    let mut messages = user(read);
    messages.pop().filter(|_| messages.is_empty())
}

/// Returns the blocks for what the domain knows of `message`.
pub(super) fn plain_blocks(message: &Message) -> Result<Vec<Value>, WireError> {
    match &message.body {
        Body::System(_) => Err(WireError::shape(
            "role",
            "is `system` in mid-conversation, where Anthropic's messages have none",
        )),
        Body::User(content) => content_blocks(content),
        Body::Tool(result) => Ok(vec![result_block(result)?]),
        Body::Assistant { content, calls } => {
            let thinking = message.extra.get(THINKING).and_then(Value::as_array);
            let mut blocks = thinking.cloned().unwrap_or_default();
            if let Some(content) = content {
                blocks.extend(content_blocks(content)?);
            }
            blocks.extend(calls.iter().map(call_block));
            Ok(blocks)
        }
    }
}

/// Returns a call as a block. Arguments that are not a JSON object are put, as text, under `input`.
pub fn call_block(call: &ToolCall) -> Value {
    let input = serde_json::from_str(&call.arguments).ok().filter(Value::is_object);
    let input = input.unwrap_or_else(|| json!({"input": call.arguments}));
    json!({"type": "tool_use", "id": call.id, "name": call.name, "input": input})
}

/// Returns a result as a block.
///
/// # Errors
/// [`WireError::Shape`] for parts that the protocol does not know.
pub fn result_block(result: &ToolResult) -> Result<Value, WireError> {
    let content = match &result.content {
        Content::Text(text) => json!(text),
        parts @ Content::Parts(_) => Value::Array(content_blocks(parts)?),
    };
    let mut block = json!({"type": "tool_result", "tool_use_id": result.call_id, "content": content});
    if result.is_error {
        block["is_error"] = json!(true);
    }
    Ok(block)
}

/// Blocks for `content`; blank texts, which the protocol refuses, are left out.
fn content_blocks(content: &Content) -> Result<Vec<Value>, WireError> {
    let text_block = |text: &str| json!({"type": "text", "text": text});
    match content {
        Content::Text(text) if text.trim().is_empty() => Ok(Vec::new()),
        Content::Text(text) => Ok(vec![text_block(text)]),
        Content::Parts(parts) => parts
            .iter()
            .filter(|part| !matches!(part, Part::Text(text) if text.trim().is_empty()))
            .map(|part| match part {
                Part::Text(text) => Ok(text_block(text)),
                Part::Media(value) => media_block(value),
            })
            .collect(),
    }
}

fn assistant(blocks: Vec<Block>) -> Message {
    let mut thinking = Vec::new();
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for block in blocks {
        match block {
            Block::Thinking(_) | Block::RedactedThinking(_) => {
                thinking.extend(serde_json::to_value(block).ok());
            }
            Block::ToolUse(call) if !call.name.trim().is_empty() => {
                calls.extend(tool_call(call.id, call.name, &call.input));
            }
            Block::Text(block) => parts.push(Part::Text(block.text)),
            Block::Other(Value::String(text)) => parts.push(Part::Text(text)),
            block => parts.extend(serde_json::to_value(block).ok().map(Part::Media)),
        }
    }
    let content = said(parts);
    let mut message = Message::new(Body::Assistant { content, calls });
    if !thinking.is_empty() {
        message.extra = Map::from_iter([(THINKING.to_owned(), Value::Array(thinking))]);
    }
    message
}

fn tool_call(id: String, name: String, input: &Value) -> Option<ToolCall> {
    let arguments = match input {
        Value::String(text) => text.clone(),
        input => input.to_string(),
    };
    Some(ToolCall { id, name: ToolName::new(name).ok()?, arguments })
}

fn user(blocks: Vec<Block>) -> Vec<Message> {
    let mut messages = Vec::new();
    let mut parts = Vec::new();
    for block in blocks {
        match block {
            Block::ToolResult(result) => messages.push(Message::tool(ToolResult {
                call_id: result.tool_use_id,
                name: None,
                content: result.content.map_or_else(|| "".into(), result_content),
                is_error: result.is_error == Some(true),
            })),
            Block::Text(block) => parts.push(Part::Text(block.text)),
            Block::Other(Value::String(text)) => parts.push(Part::Text(text)),
            Block::Other(value) if is_result(&value) => messages.push(foreign_result(value)),
            block => parts.extend(serde_json::to_value(block).ok().map(Part::Media)),
        }
    }
    messages.extend(said(parts).map(Message::user));
    messages
}

/// Checks whether `block` answers a call, whatever else it is or lacks.
pub fn is_result(block: &Value) -> bool {
    block.get("type").and_then(Value::as_str).is_some_and(|kind| kind.ends_with("tool_result"))
}

/// Reads a result of a kind that the protocol does not know, or that lacks a part.
fn foreign_result(mut block: Value) -> Message {
    let call_id = block.get("tool_use_id").and_then(Value::as_str).unwrap_or_default().to_owned();
    let is_error = block.get("is_error") == Some(&Value::Bool(true));
    let content =
        block.get_mut("content").map(Value::take).and_then(|content| serde_json::from_value(content).ok());
    let content = content.map_or_else(|| "".into(), result_content);
    Message::tool(ToolResult { call_id, name: None, content, is_error })
}

fn result_content(content: BlockContent) -> Content {
    match content {
        BlockContent::Text(text) => Content::Text(text),
        BlockContent::Blocks(blocks) => {
            let values = blocks.into_iter().filter_map(|block| serde_json::to_value(block).ok());
            Content::Parts(values.map(part).collect())
        }
        BlockContent::Other(Value::Null) => "".into(),
        BlockContent::Other(value) => Content::Text(value.to_string()),
    }
}

/// Returns the content of the parts: a single text as itself, and `None` for no parts.
fn said(mut parts: Vec<Part>) -> Option<Content> {
    match parts.as_mut_slice() {
        [] => None,
        [Part::Text(text)] => Some(Content::Text(std::mem::take(text))),
        _ => Some(Content::Parts(parts)),
    }
}

fn part(block: Value) -> Part {
    let is_text = block.get("type").and_then(Value::as_str) == Some("text");
    match block.get("text") {
        Some(Value::String(text)) if is_text => Part::Text(text.clone()),
        _ => Part::Media(block),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_entry_is_read_and_written() {
        for entry in [
            json!({"role": "user", "content": [{"type": "text", "text": "hi"}]}),
            json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "out"}]}),
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "out"}], "is_error": true},
                {"type": "text", "text": "go on"}, {"type": "image", "source": {"type": "url", "url": "u"}}]}),
            json!({"role": "assistant", "content": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "text", "text": "I look"},
                {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}}]}),
        ] {
            let messages = read_entry(entry.clone()).unwrap();
            let mut blocks = Vec::new();
            for message in &messages {
                let (role, more) = entry_blocks(message).unwrap();
                assert_eq!(json!(role), entry["role"]);
                blocks.extend(more);
            }
            assert_eq!(json!(blocks), entry["content"]);
        }
    }

    #[test]
    fn foreign_keys_survive_where_they_are_kept() {
        for entry in [
            json!({"role": "user", "content": [
                {"type": "tool_result", "tool_use_id": "t", "content": "out", "cache_control": {"type": "ephemeral"}},
                {"type": "tool_result", "tool_use_id": "u", "is_error": false, "content": []},
                {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]}),
            json!({"role": "assistant", "content": [
                {"type": "text", "text": "I look", "citations": null, "new": 1.5},
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "tool_use", "id": "t", "name": "read", "input": {"path": "a"}, "caller": {"type": "direct"}},
                {"type": "never_seen", "id": 5}]}),
        ] {
            let mut blocks = Vec::new();
            for message in read_entry_whole(entry.clone()).unwrap() {
                blocks.extend(entry_blocks(&message).unwrap().1);
            }
            assert_eq!(json!(blocks), entry["content"]);
        }
    }

    #[test]
    fn what_cannot_be_said_is_refused() {
        assert!(entry_blocks(&Message::system("rules")).is_err());
        for entry in [
            json!({"role": "tool", "content": "x"}),
            json!({"role": "user"}),
            json!({"role": "user", "content": 5}),
        ] {
            assert!(read_entry(entry.clone()).is_err(), "{entry}");
        }
    }

    #[test]
    fn arguments_become_an_object() {
        for (arguments, input) in
            [("{\"a\": 1}", json!({"a": 1})), ("[1]", json!({"input": "[1]"})), ("", json!({"input": ""}))]
        {
            let call =
                ToolCall { id: "c".into(), name: ToolName::new("f").unwrap(), arguments: arguments.into() };
            assert_eq!(call_block(&call)["input"], input);
        }
    }

    #[test]
    fn the_system_prompt_is_a_text_or_blocks() {
        let (one, two) = (Message::system("a"), Message::system("b"));
        assert_eq!(system_json(&[]), None);
        assert_eq!(system_json(&[&one]), Some(json!("a")));
        assert_eq!(
            system_json(&[&one, &two]),
            Some(json!([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]))
        );
        let read =
            read_system(json!([{"type": "text", "text": "a", "cache_control": {"type": "ephemeral"}}]))
                .unwrap();
        assert_eq!(read.content().map(Content::to_text).as_deref(), Some("a"));
    }
}
