//! The part of a session that the model would see, by what the recording agent did to it.

use crate::attachments::Tally;
use crate::formats::codec;
use crate::{Attachments, RecordedCompaction, Session};

impl Session {
    /// Returns the compactions that the recording agent made, oldest first.
    pub fn compactions(&self) -> Vec<RecordedCompaction> {
        codec(self.format).compactions(&self.records)
    }

    /// Returns the first record of what the model would see: the whole session, or what follows its last
    /// compaction together with what that left in the context.
    pub(crate) fn window_start(&self) -> usize {
        codec(self.format).window_start(&self.records)
    }

    /// Returns what the recording agent itself added to the session, by kind.
    pub fn attachments(&self) -> Vec<Attachments> {
        let mut tally = Tally::default();
        let start = self.window_start();
        for (place, record) in self.records.iter().enumerate() {
            let is_in_context = place >= start && record.n_messages() > 0;
            tally.add(record, is_in_context);
        }
        tally.finish()
    }
}
