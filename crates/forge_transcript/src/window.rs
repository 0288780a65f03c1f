//! The part of a session that the model would see, by what the recording agent did to it.

use std::sync::Arc;

use crate::attachments::Tally;
use crate::codec::Window;
use crate::formats::codec;
use crate::{Attachments, RecordedCompaction, Session};

impl Session {
    /// Returns the compactions that the recording agent made, oldest first.
    pub fn compactions(&self) -> Vec<RecordedCompaction> {
        codec(self.format).compactions(&self.records)
    }

    /// Returns the session as it would be if its agent had never compacted it: the messages that left are
    /// there again, and the summaries in their place are gone.
    #[must_use]
    pub fn before_compaction(self) -> Self {
        let codec = codec(self.format);
        let records = Arc::unwrap_or_clone(self.records).into_iter();
        let records = records.map(|record| {
            let is_summary = codec.is_summary(&record);
            if is_summary { record.without_messages() } else { record }
        });
        Self { records: Arc::new(records.collect()), is_whole: true, ..self }
    }

    /// Returns the records of what the model would see: the whole session, or what follows its last
    /// compaction together with what that left in the context.
    pub(crate) fn window(&self) -> Window {
        if self.is_whole {
            return Window::default();
        }
        let mut window = codec(self.format).window(&self.records);
        let folded = self.records.iter().enumerate().filter(|(_, record)| record.is_folded);
        window.hidden.extend(folded.map(|(place, _)| place));
        window.hidden.sort_unstable();
        window
    }

    /// Returns what the recording agent itself added to the session, by kind.
    pub fn attachments(&self) -> Vec<Attachments> {
        let mut tally = Tally::default();
        let window = self.window();
        for (place, record) in self.records.iter().enumerate() {
            let is_in_context = window.contains(place) && record.n_messages() > 0;
            tally.add(record, is_in_context);
        }
        tally.finish()
    }
}
