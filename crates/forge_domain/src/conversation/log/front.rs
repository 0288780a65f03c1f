//! The oldest part of a view as a context of its own, for sessions that are too large to be looked at as a
//! whole.

use std::sync::Arc;

use super::{CompactionEntry, Conversation, Entry, RecordError, RestoreError};
use crate::{Context, ContextMessage, EntryId};

impl Conversation {
    /// Returns the first `n_messages` of the view, or all where there are fewer. What is found out about its
    /// messages is let go with it.
    pub fn front(&self, n_messages: usize) -> Context {
        let messages = self.view.messages().iter().take(n_messages).map(ContextMessage::apart);
        Context::new(messages.collect(), self.view.next_id(), self.entries.len())
    }

    /// Records that [`Self::front`] of `n_messages` was compacted to `compacted`; the rest of the view stays
    /// as it is.
    ///
    /// # Errors
    /// [`RecordError`] where `compacted` is no compaction of that part; the log is then unchanged.
    pub fn record_front(
        &mut self,
        n_messages: usize,
        compacted: &Context,
    ) -> Result<&CompactionEntry, RecordError> {
        // A clone would share a cache that the rest, of which nothing was read, does not have yet.
        let rest = self.view.messages().iter().skip(n_messages).map(ContextMessage::apart);
        let messages = compacted.messages().iter().cloned().chain(rest).collect();
        self.record(&Context::new(messages, compacted.next_id(), compacted.revision()))
    }

    /// Returns the conversation with the compactions in force as its only compaction: the rounds that it was
    /// made in cannot be undone one by one any more, and no longer take memory.
    ///
    /// # Errors
    /// [`RestoreError`] if the compactions in force make no log.
    pub fn without_absorbed(self) -> Result<Self, RestoreError> {
        let live = self.live_entries();
        let replacements = live.iter().flat_map(|entry| entry.replacements()).cloned().collect();
        let Self { entries, view, .. } = self;
        // The view is made again, and a long one should not be held twice.
        drop(view);
        let mut entries = Arc::unwrap_or_clone(entries);
        entries.retain(|entry| matches!(entry, Entry::Message(_)));
        entries.push(Entry::Compaction(CompactionEntry::restored(EntryId::nth(0), replacements, Vec::new())));
        Self::restore(entries)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{Message, MessageId, Tokens};

    #[test]
    fn a_part_is_compacted_and_the_rest_stays() {
        let mut log = Conversation::new();
        for n in 0..6 {
            let id = MessageId::new(n);
            log.append(ContextMessage::restored(id, Tokens::new(10), Message::user(format!("message {n}"))));
        }
        let texts = |context: &Context| context.plain().map(Message::to_text).collect::<Vec<_>>();
        for (n, kept, expected) in [
            (4, 3, ["a record", "message 3", "message 4", "message 5"].as_slice()),
            (3, 2, ["a record", "message 4", "message 5"].as_slice()),
            (99, 2, ["a record", "message 5"].as_slice()),
        ] {
            let front = log.front(n);
            let record = Message::user("a record").compacted();
            let record = ContextMessage::restored(front.next_id(), Tokens::new(10), record);
            let rest = front.messages().iter().skip(kept).cloned();
            let compacted = Context::new(
                std::iter::once(record).chain(rest).collect(),
                front.next_id().next(),
                front.revision(),
            );
            log.record_front(n, &compacted).unwrap();
            assert_eq!(texts(&log.view()), expected);
            assert!(log.coverage().is_complete());
            assert_eq!(texts(&log.refold()), expected);
        }
        let (view, n_compactions) = (texts(&log.view()), log.n_compactions());
        let log = log.without_absorbed().unwrap();
        assert_eq!((n_compactions, log.n_compactions()), (3, 1));
        assert_eq!(texts(&log.view()), view);
        assert!(log.coverage().is_complete());
    }
}
