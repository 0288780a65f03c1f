//! A compaction that is appended to a file in its agent's own form.

use forge_domain::compaction::NO_RECORD;
use jiff::{SignedDuration, Timestamp};

use super::{Line, Revision, Says};
use crate::new_uuid;

/// The reason why nothing is appended to a file of a format.
pub(crate) const NO_ADDITION: &str = "its agent has no compaction record that Forge can append; write a new \
     file with --output instead, and with --to if its format cannot be written";

/// A compaction to append to a session.
pub(crate) struct Addition<'a> {
    /// The session as its agent should continue with it.
    pub(crate) revision: Revision<'a>,
    /// The current time.
    pub(crate) now: Timestamp,
    /// The tokens of the context before.
    pub(crate) pre_tokens: u64,
}

impl<'a> Addition<'a> {
    /// Returns the lines of the session: what compaction wrote, in one text, and the messages that stay. Of
    /// the summaries that stay only the text goes into the record.
    pub(crate) fn record_and_rest(&self) -> (String, Vec<&Line<'a>>) {
        let (records, rest): (Vec<_>, Vec<_>) =
            self.revision.lines.iter().partition(|line| line.message().is_compacted && line.is_text());
        let texts: Vec<String> = records.iter().map(|line| line.message().to_text()).collect();
        let record = if texts.is_empty() { NO_RECORD.to_owned() } else { texts.join("\n\n") };
        (record, rest)
    }

    /// Returns the time of the line at `place` of those appended, in the form that agents write.
    pub(crate) fn timestamp(&self, place: usize) -> String {
        let later = SignedDuration::from_millis(i64::try_from(place).unwrap_or_default());
        let at = self.now.checked_add(later).unwrap_or(self.now);
        format!("{at:.3}")
    }

    /// Returns a UUID that the same addition always gets at `place`.
    pub(crate) fn uuid(&self, place: usize) -> String {
        let (size, time) = (self.revision.bytes.len(), self.now.as_nanosecond());
        let id = self.revision.session.id.as_bytes();
        new_uuid(&[id, &size.to_le_bytes(), &time.to_le_bytes(), &place.to_le_bytes()])
    }
}

impl Line<'_> {
    /// Checks whether it is a text without calls: what compaction writes under the role of the user or the
    /// assistant.
    fn is_text(&self) -> bool {
        let message = self.message();
        message.calls().is_empty() && !matches!(message.body, forge_domain::Body::Tool(_))
    }

    /// Checks whether it is written as it was read.
    pub(crate) fn is_same(&self) -> bool {
        matches!(self.says, Says::Same(_)) && self.item().is_some()
    }
}
