//! Taking a compaction back, and clearing the view: both are lines of the log, so that nothing is lost by
//! them either.

use std::sync::Arc;

use super::{CompactionEntry, Conversation, Entry, RecordError};
use crate::{Context, ContextMessage, EntryId, Role};

impl Conversation {
    /// Undoes the latest compaction in force and returns it, if there is one. What it had absorbed is in
    /// force again, so that undoing step by step removes layer after layer, down to the messages as they were
    /// appended. Later messages stay.
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
        self.keep(kept).map(Some)
    }

    /// Takes the latest user message, which no reply follows, out of the view, with the notes before it, as a
    /// compaction that can be undone. `None` if a reply follows it.
    ///
    /// # Errors
    /// [`RecordError`] as of [`Self::record`].
    pub fn withdraw(&mut self) -> Result<Option<&CompactionEntry>, RecordError> {
        let messages = self.view.messages();
        let is_note = |message: &ContextMessage| message.message().note_by().is_some();
        let latest = messages.iter().rposition(|message| !is_note(message));
        let Some(latest) = latest.filter(|at| messages[*at].starts_turn()) else { return Ok(None) };
        let kept = messages[..latest].iter().rposition(|message| !is_note(message)).map_or(0, |at| at + 1);
        let kept = messages[..kept].to_vec();
        self.keep(kept).map(Some)
    }

    /// Reduces the view to `kept`, which are messages of it.
    fn keep(&mut self, kept: Vec<ContextMessage>) -> Result<&CompactionEntry, RecordError> {
        let kept = Context::new(kept, self.view.next_id(), self.view.revision());
        self.record(&kept)
    }
}
