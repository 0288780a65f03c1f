//! The message that replaces omitted ones.

use serde_json::json;

use crate::{ContextMessage, Message, TokenCounter, Tokens};

/// The tokens of a marker by common counters, with a margin, before its count is known.
pub(crate) const MARKER_TOKENS: Tokens = Tokens::new(16);

/// Key of a marker's metadata: the number of messages that it replaces.
const OMITTED: &str = "omitted";

/// Returns the user message that replaces `dropped`: a marker among them counts for the messages that it
/// replaced.
pub(crate) fn omission_marker<'a>(
    dropped: impl Iterator<Item = &'a ContextMessage>,
    counter: &dyn TokenCounter,
) -> ContextMessage {
    marker(dropped.map(|message| n_omitted(message.message()).unwrap_or(1)).sum(), counter)
}

/// Returns the most tokens of a marker, whatever it counts: what must stay is the same before and after a
/// compaction.
pub(crate) fn most_for_a_marker(counter: &dyn TokenCounter) -> Tokens {
    marker(999_999, counter).tokens()
}

fn marker(omitted: u64, counter: &dyn TokenCounter) -> ContextMessage {
    let mut marker = Message::user(format!("[... {omitted} messages omitted ...]")).compacted();
    marker.metadata.insert(OMITTED.into(), json!(omitted));
    ContextMessage::count(marker, counter)
}

/// Returns the number of messages that `text` reports as omitted; `None` if it is not a marker.
pub(super) fn parse(text: &str) -> Option<u64> {
    let count = text.strip_prefix("[... ")?.strip_suffix(" messages omitted ...]")?;
    count.bytes().all(|b| b.is_ascii_digit()).then(|| count.parse().ok()).flatten()
}

/// Marks a message that compaction made, with the fact that a marker among them has to carry.
pub(super) fn marked(mut message: Message) -> Message {
    if let Some(omitted) = parse(&message.text()) {
        message.metadata.insert(OMITTED.into(), json!(omitted));
    }
    message
}

/// Returns the number of messages that `message` reports as omitted; `None` if it is not an omission marker.
pub fn n_omitted(message: &Message) -> Option<u64> {
    message.metadata.get(OMITTED).filter(|_| message.is_compacted).and_then(serde_json::Value::as_u64)
}
