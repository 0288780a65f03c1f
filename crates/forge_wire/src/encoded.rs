//! Messages that are turned into JSON once, and joined to requests as they are.
//!
//! A long conversation has many more messages than one call adds. So each message keeps its JSON in the forms
//! of [`form`](forge_domain::ContextMessage::form), and only what depends on its neighbours is made for each
//! request.

use serde::Serialize;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};

use crate::turns::{has_calls, merge_neighbours, role};

/// A piece of JSON, as text.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Encoded {
    Text(Box<RawValue>),
    /// A value that could not be turned into text. The same error ends the request.
    Value(Box<Value>),
}

impl From<Value> for Encoded {
    fn from(value: Value) -> Self {
        to_raw_value(&value).map_or_else(|_| Self::Value(Box::new(value)), Self::Text)
    }
}

/// A piece of a request.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(crate) enum Piece<'a> {
    /// A message keeps it.
    Kept(&'a Encoded),
    /// It was made for this request.
    Made(Value),
}

/// The author of an entry, as far as it decides what is merged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Speaker {
    System,
    Developer,
    User,
    Assistant,
    Tool,
    Other,
}

/// An entry of `messages` with the facts by which neighbours are merged.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) json: Encoded,
    pub(crate) speaker: Speaker,
    has_calls: bool,
}

impl From<Value> for Entry {
    fn from(entry: Value) -> Self {
        let speaker = match role(&entry) {
            "system" => Speaker::System,
            "developer" => Speaker::Developer,
            "user" => Speaker::User,
            "assistant" => Speaker::Assistant,
            "tool" => Speaker::Tool,
            _ => Speaker::Other,
        };
        Self { speaker, has_calls: has_calls(&entry), json: entry.into() }
    }
}

impl Entry {
    /// Checks whether it is a system message, under either name.
    pub(crate) const fn is_system(&self) -> bool {
        matches!(self.speaker, Speaker::System | Speaker::Developer)
    }

    /// Checks whether [`merge_neighbours`] could join `next` to it: if not, it looks at neither again.
    pub(crate) fn may_be_joined_by(&self, next: &Self) -> bool {
        self.speaker == next.speaker
            && !self.has_calls
            && !matches!(self.speaker, Speaker::Tool | Speaker::Other)
    }
}

/// Appends the entries of `run`, of which each may be joined by the next one. `value` returns an entry as a
/// value again; only entries with neighbours need that.
pub(crate) fn push_merged<'a, T>(
    pieces: &mut Vec<Piece<'a>>,
    run: &[T],
    kept: impl Fn(&T) -> &'a Encoded,
    value: impl Fn(&T) -> Value,
) {
    match run {
        [alone] => pieces.push(Piece::Kept(kept(alone))),
        several => {
            pieces.extend(merge_neighbours(several.iter().map(value).collect()).into_iter().map(Piece::Made));
        }
    }
}
