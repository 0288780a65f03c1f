//! One message of an opened session, and its places in the file.

use std::borrow::Cow;

use forge_domain::{Message, Role};
use smallvec::SmallVec;

use crate::Record;
use crate::reply_pieces::join;

/// One message of a draft.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) said: Said,
    pub(crate) role: Role,
    /// The records that it came from, and which of their messages it is; empty if repair made it.
    pub(crate) sources: Sources,
    /// True if it is written as if it were new: repair gave it its form.
    pub(crate) is_anew: bool,
}

/// The message of an item.
#[derive(Clone, Debug)]
pub(crate) enum Said {
    Here(Box<Message>),
    /// Read from its sources each time.
    InText,
}

/// The places that a message came from. There is nearly always one, and a large session has very many
/// messages, so it needs no memory of its own.
pub(crate) type Sources = SmallVec<[Place; 1]>;

/// A message in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) record: usize,
    pub(crate) message: usize,
}

impl Item {
    /// Returns the places in the file that it is written from; none where it is written anew.
    pub(crate) fn places(&self) -> &[Place] {
        if self.is_anew { &[] } else { &self.sources }
    }

    /// Returns what it says; `records` are those of its session.
    pub(crate) fn message(&self, records: &[Record]) -> Cow<'_, Message> {
        match &self.said {
            Said::Here(message) => Cow::Borrowed(message),
            Said::InText => Cow::Owned(from_sources(records, &self.sources)),
        }
    }

    pub(crate) const fn role(&self) -> Role {
        self.role
    }
}

/// Reads the message whose pieces are at `sources`.
pub(crate) fn from_sources(records: &[Record], sources: &[Place]) -> Message {
    let pieces =
        sources.iter().filter_map(|place| records.get(place.record)?.messages().get(place.message).cloned());
    let joined = pieces.reduce(|mut first, second| {
        join(&mut first, &second);
        first
    });
    joined.unwrap_or_else(|| Message::user(""))
}
