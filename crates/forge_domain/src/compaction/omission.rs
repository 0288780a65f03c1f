//! The message that stands for omitted ones.

use serde_json::json;

use crate::{ContextMessage, Message, TokenCounter, Tokens};

/// What a marker costs by common counters, and some more, before it is known what it counts.
pub(crate) const MARKER_TOKENS: Tokens = Tokens::new(16);

/// Key of a marker's metadata: how many messages it stands for.
const OMITTED: &str = "omitted";

/// The user message that stands for `dropped`: a marker among them counts for the messages that it stood for.
pub(crate) fn omission_marker<'a>(
    dropped: impl Iterator<Item = &'a ContextMessage>,
    counter: &dyn TokenCounter,
) -> ContextMessage {
    marker(dropped.map(|message| n_omitted(message.message()).unwrap_or(1)).sum(), counter)
}

/// The most that a marker costs, whatever it counts: what must stay is the same before and after a compaction.
pub(crate) fn most_for_a_marker(counter: &dyn TokenCounter) -> Tokens {
    marker(999_999, counter).tokens()
}

fn marker(omitted: u64, counter: &dyn TokenCounter) -> ContextMessage {
    let mut marker = Message::user(format!("[... {omitted} messages omitted ...]")).compacted();
    marker.metadata.insert(OMITTED.into(), json!(omitted));
    ContextMessage::count(marker, counter)
}

/// How many messages `text` says were omitted; `None` where it is no marker.
pub(super) fn parse(text: &str) -> Option<u64> {
    let count = text.strip_prefix("[... ")?.strip_suffix(" messages omitted ...]")?;
    count.bytes().all(|b| b.is_ascii_digit()).then(|| count.parse().ok()).flatten()
}

/// A message that compaction made, with the fact that a marker among them has to carry.
pub(super) fn marked(mut message: Message) -> Message {
    if let Some(omitted) = parse(&message.text()) {
        message.metadata.insert(OMITTED.into(), json!(omitted));
    }
    message
}

/// How many messages `message` says were omitted; `None` where it is no marker of omission.
pub fn n_omitted(message: &Message) -> Option<u64> {
    message.metadata.get(OMITTED).filter(|_| message.is_compacted).and_then(serde_json::Value::as_u64)
}
