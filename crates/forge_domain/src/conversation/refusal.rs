//! The user's words in the result of a call that they refused.

use serde_json::Value;

use crate::Message;

/// The metadata key of a tool result that quotes the user.
const USER_WORDS: &str = "user_words";

/// Returns a tool result marked as one that quotes the user, as when they refuse a call and say why: `words`
/// are a part of its text.
#[must_use]
pub fn quoting_user(mut result: Message, words: impl Into<String>) -> Message {
    result.metadata.insert(USER_WORDS.to_owned(), Value::String(words.into()));
    result
}

/// Returns the user's words that a tool result quotes, if it is marked as one that does.
pub fn user_words(message: &Message) -> Option<&str> {
    message.metadata.get(USER_WORDS)?.as_str()
}
