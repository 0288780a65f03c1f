//! A message to and from its Anthropic form.

use forge_domain::{Content, Message, Role};
use serde_json::{Value, json};

use super::block::{Block, BlockContent};
use super::content::{assistant, is_result, part, plain_blocks, user};
use super::form;
use super::message_body::MessageBody;
use crate::WireError;

/// Reads an entry of `messages`. A user entry may hold several messages: a result for each block of that
/// kind, followed by the user's text. Blocks of reasoning are kept in `extra`, under [`super::THINKING`].
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

/// Returns the `system` of a request that starts with `messages`, if it has one.
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
    match form::blocks(message) {
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
            message.metadata = form::metadata(&own);
        }
    }
    Ok(messages)
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
