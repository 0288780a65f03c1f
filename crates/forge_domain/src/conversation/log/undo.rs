//! Taking a compaction back, and clearing the view: both are lines of the log, so that nothing is lost by
//! them either.

use std::sync::Arc;

use super::{CompactionEntry, Conversation, Entry, RecordError};
use crate::{Context, ContextMessage, EntryId, Role};

impl Conversation {
    /// Undoes the latest compaction in force and returns it; `None` if there is none. What it had absorbed is
    /// in force again, so that undoing step by step removes layer after layer, down to the messages as they
    /// were appended. Later messages stay.
    pub fn undo(&mut self) -> Option<EntryId> {
        let undone = self.live.pop_last()?;
        let absorbed = self.compaction(undone).map(|entry| entry.absorbs.clone()).unwrap_or_default();
        self.live.extend(absorbed);
        Arc::make_mut(&mut self.entries).push(Entry::Undo(undone));
        self.refresh(self.view.next_id());
        Some(undone)
    }

    /// Checks whether a compaction is in force: the view is then not everything.
    pub fn is_compacted(&self) -> bool {
        !self.live.is_empty()
    }

    /// Empties the view down to the leading system messages, as a compaction that can be undone. `None` if
    /// nothing could leave.
    ///
    /// # Errors
    /// [`RecordError`] as of [`Self::record`].
    pub fn clear(&mut self) -> Result<Option<&CompactionEntry>, RecordError> {
        let is_system = |message: &&ContextMessage| message.message().role() == Role::System;
        let kept: Vec<_> = self.view.messages().iter().take_while(is_system).cloned().collect();
        if kept.len() == self.view.messages().len() {
            return Ok(None);
        }
        let cleared = Context::new(kept, self.view.next_id(), self.view.revision());
        self.record(&cleared).map(Some)
    }
}
