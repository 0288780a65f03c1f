//! Messages written as a chat-completions request would hold them.

use forge_domain::{ContextMessage, Conversation, Message};
use forge_wire::openai::message_json;

/// Writes `{"messages": [...]}` with every message that was ever in `conversation`, including those that left
/// its view: one message per line, in UTF-8, with a newline at the end. The form has no place for timestamps,
/// metadata, and whether a result is an error or a message was made by compaction.
pub fn write_openai(conversation: &Conversation) -> Vec<u8> {
    write(conversation.messages().map(ContextMessage::message))
}

/// Writes `{"messages": [...]}` with `messages`, in the form of [`write_openai`].
pub fn write_messages(messages: &[Message]) -> Vec<u8> {
    write(messages.iter())
}

fn write<'a>(messages: impl Iterator<Item = &'a Message>) -> Vec<u8> {
    let lines: Vec<String> = messages.map(|message| message_json(message).to_string()).collect();
    let lines = if lines.is_empty() { String::new() } else { format!("\n{}\n", lines.join(",\n")) };
    format!("{{\"messages\":[{lines}]}}\n").into_bytes()
}
