//! The blocks of a message, to and from the domain.

use forge_domain::{Body, Content, Message, Part, ToolCall, ToolName, ToolResult};
use serde_json::{Map, Value, json};

use super::block::{Block, BlockContent};
use super::media::media_block;
use crate::WireError;
use crate::arguments::arguments_object;

/// The key of a message's `extra` that holds its reasoning: the blocks as they came, signatures included.
pub const THINKING: &str = forge_domain::THINKING_BLOCKS;

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
    let input = arguments_object(&call.arguments);
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

pub(super) fn assistant(blocks: Vec<Block>) -> Message {
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
    let content = content_of(parts);
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

pub(super) fn user(blocks: Vec<Block>) -> Vec<Message> {
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
    messages.extend(content_of(parts).map(Message::user));
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
fn content_of(mut parts: Vec<Part>) -> Option<Content> {
    match parts.as_mut_slice() {
        [] => None,
        [Part::Text(text)] => Some(Content::Text(std::mem::take(text))),
        _ => Some(Content::Parts(parts)),
    }
}

pub(super) fn part(block: Value) -> Part {
    let is_text = block.get("type").and_then(Value::as_str) == Some("text");
    match block.get("text") {
        Some(Value::String(text)) if is_text => Part::Text(text.clone()),
        _ => Part::Media(block),
    }
}
