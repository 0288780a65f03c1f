//! The records that a recording agent adds to a session itself.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::Record;

/// The attachments of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attachments {
    /// The kind, as Claude Code names it: `file`, `nested_memory`, `skill_listing`.
    pub kind: String,
    /// The number of its records.
    pub records: usize,
    /// The number of them in the context that is read, as messages that are not turns.
    pub in_context: usize,
    /// The bytes of the records.
    pub bytes: usize,
}

/// A count of attachments.
#[derive(Default)]
pub(crate) struct Tally {
    kinds: BTreeMap<Box<str>, Attachments>,
}

impl Tally {
    /// Counts the attachment that `record` holds, if it holds one.
    pub(crate) fn add(&mut self, record: &Record, is_in_context: bool) {
        let Some(kind) = &record.attachment else { return };
        let none = || Attachments { kind: kind.to_string(), records: 0, in_context: 0, bytes: 0 };
        let counted = self.kinds.entry(kind.clone()).or_insert_with(none);
        counted.records += 1;
        counted.in_context += usize::from(is_in_context);
        counted.bytes += record.raw().len();
    }

    /// Returns all counts, by kind.
    pub(crate) fn finish(self) -> Vec<Attachments> {
        self.kinds.into_values().collect()
    }
}
