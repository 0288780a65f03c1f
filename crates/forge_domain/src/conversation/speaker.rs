//! The agents of a team, who have names.

use serde_json::Value;

use super::Message;

/// The key of [`Message::metadata`] for the name of the agent that says it.
const SPEAKER: &str = "speaker";

/// Returns the message as said by the agent of a team that has this name.
pub fn said_by(mut message: Message, name: &str) -> Message {
    message.metadata.insert(SPEAKER.to_owned(), name.into());
    message
}

/// Returns the name of the agent that says a message, if its session or its provider gives it one.
pub fn speaker(message: &Message) -> Option<&str> {
    let named = message.metadata.get(SPEAKER).or_else(|| message.extra.get("name"));
    named.and_then(Value::as_str).filter(|name| !name.trim().is_empty())
}
