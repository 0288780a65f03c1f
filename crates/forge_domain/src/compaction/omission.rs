//! The message that replaces omitted ones.

use serde_json::json;

use crate::{ContextMessage, Message, MessageId, TokenCounter, Tokens};

/// The tokens of a marker by common counters, with a margin, before its count is known.
pub(crate) const MARKER_TOKENS: Tokens = Tokens::new(26);

/// Key of a marker's metadata: the number of messages that it replaces.
const OMITTED: &str = "omitted";
/// Larger counts and labels are not expected.
pub(super) const MOST: u64 = 999_999;

/// The text that stands for a record if messages only became shorter.
pub const NO_RECORD: &str = "[Earlier messages were shortened to fit the context window.]";

/// The content of a marker: the number of messages that it replaces, and the labels of the first and the last
/// of them, by which they can be asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Omission {
    n_messages: u64,
    labels: Option<(u64, u64)>,
}

/// Returns the user message that replaces `dropped`: a marker among them counts for the messages that it
/// replaced.
pub(crate) fn omission_marker<'a>(
    dropped: impl Iterator<Item = &'a ContextMessage>,
    counter: &dyn TokenCounter,
) -> ContextMessage {
    let mut omission = Omission::default();
    for message in dropped {
        let earlier = n_omitted(message.message()).and_then(|_| omission_in(&message.message().text()));
        let label = || message.id().map(MessageId::as_u64).map(|id| (id, id));
        let of = earlier.unwrap_or_else(|| Omission { n_messages: 1, labels: label() });
        omission.n_messages += of.n_messages;
        omission.labels = match (omission.labels, of.labels) {
            (Some((first, last)), Some((one, other))) => Some((first.min(one), last.max(other))),
            (known, more) => known.or(more),
        };
    }
    omission.to_marker(counter)
}

/// Returns the user message that replaces `dropped`, unless it would be no smaller.
pub(crate) fn smaller_marker<'a>(
    dropped: impl Iterator<Item = &'a ContextMessage> + Clone,
    counter: &dyn TokenCounter,
) -> Option<ContextMessage> {
    let tokens: Tokens = dropped.clone().map(ContextMessage::tokens).sum();
    Some(omission_marker(dropped, counter)).filter(|marker| marker.tokens() < tokens)
}

/// Returns the most tokens of a marker, whatever it counts: what must stay is the same before and after a
/// compaction.
pub(crate) fn most_for_a_marker(counter: &dyn TokenCounter) -> Tokens {
    Omission { n_messages: MOST, labels: Some((MOST, MOST - 1)) }.to_marker(counter).tokens()
}

impl Omission {
    fn to_marker(self, counter: &dyn TokenCounter) -> ContextMessage {
        let n_messages = self.n_messages;
        let labels = match self.labels {
            None => String::new(),
            Some((first, last)) if first == last => format!(": m{first}"),
            Some((first, last)) => format!(": m{first}–m{last}"),
        };
        let mut marker =
            Message::user(format!("[... {n_messages} messages omitted{labels} ...]")).compacted();
        marker.metadata.insert(OMITTED.into(), json!(n_messages));
        ContextMessage::count(marker, counter)
    }
}

/// Returns the number of messages that `text` reports as omitted; `None` if it is not a marker.
pub(super) fn parse(text: &str) -> Option<u64> {
    omission_in(text).map(|omission| omission.n_messages)
}

/// Reads a marker: with labels, or without them as earlier versions wrote it.
fn omission_in(text: &str) -> Option<Omission> {
    let number = |text: &str| text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten();
    let label = |text: &str| text.strip_prefix('m').and_then(number);
    let (count, rest) = text.strip_prefix("[... ")?.strip_suffix(" ...]")?.split_once(" messages omitted")?;
    let labels = match rest.strip_prefix(": ") {
        None if rest.is_empty() => None,
        None => return None,
        Some(labels) => match labels.split_once('–') {
            None => Some((label(labels)?, label(labels)?)),
            Some((first, last)) => Some((label(first)?, label(last)?)),
        },
    };
    Some(Omission { n_messages: number(count)?, labels })
}

/// Marks a message that compaction made, with the fact that a marker among them has to carry.
pub(super) fn marked(mut message: Message) -> Message {
    if let Some(omitted) = parse(&message.text()) {
        message.metadata.insert(OMITTED.into(), json!(omitted));
    }
    message
}

/// Checks whether a message only says that something left.
pub(crate) fn is_marker(message: &Message) -> bool {
    n_omitted(message).is_some() || (message.is_compacted && message.text() == NO_RECORD)
}

/// Returns the number of messages that `message` reports as omitted; `None` if it is not an omission marker.
pub fn n_omitted(message: &Message) -> Option<u64> {
    message.metadata.get(OMITTED).filter(|_| message.is_compacted).and_then(serde_json::Value::as_u64)
}
