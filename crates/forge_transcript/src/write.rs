//! Messages written as a chat-completions request would hold them.

use std::borrow::Cow;

use forge_domain::{ContextMessage, Conversation, Message};
use forge_wire::openai::message_json;

use crate::author_mark::with_author;

/// Writes `{"messages": [...]}` with every message that was ever in `conversation`, including those that left
/// its view: one message per line, in UTF-8, with a newline at the end. The form has no place for timestamps,
/// metadata, and whether a result is an error. Notes and what a compaction made are marked in their texts.
pub fn write_openai(conversation: &Conversation) -> Vec<u8> {
    write(conversation.messages().map(ContextMessage::message))
}

/// Writes `{"messages": [...]}` with `messages`, in the form of [`write_openai`].
pub fn write_messages(messages: &[Message]) -> Vec<u8> {
    write(messages.iter())
}

fn write<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<u8> {
    let line = |message: &'a Message| message_json(&with_author(Cow::Borrowed(message))).to_string();
    let lines: Vec<String> = messages.map(line).collect();
    let lines = if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join(",\n")) };
    format!("{{\"messages\":[{lines}]}}\n").into_bytes()
}
