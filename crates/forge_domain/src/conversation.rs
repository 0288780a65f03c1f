//! The append-only log: every message ever, and every compaction as an entry. The source of truth.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{Context, ContextMessage, EntryId, MessageId};

/// Messages that left the view together, and what stands in their place.
#[derive(Clone, Debug, PartialEq)]
pub struct Replacement {
    /// Ids of the messages that left, in order; never empty. The new ones stand where the first of them stood.
    pub replaces: Vec<MessageId>,
    /// The literal messages in their place; empty where they were dropped.
    pub with: Vec<ContextMessage>,
}

/// One compaction, however many steps it took.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionEntry {
    id: EntryId,
    replacements: Vec<Replacement>,
    absorbs: Vec<EntryId>,
}

impl CompactionEntry {
    /// Its id.
    pub const fn id(&self) -> EntryId {
        self.id
    }

    /// What it replaced by what, in terms of the messages as they were first appended.
    pub fn replacements(&self) -> &[Replacement] {
        &self.replacements
    }

    /// Earlier entries whose replacements this one took over.
    pub fn absorbs(&self) -> &[EntryId] {
        &self.absorbs
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq)]
pub enum Entry {
    /// A message was appended.
    Message(ContextMessage),
    /// The view was compacted.
    Compaction(CompactionEntry),
}

/// Why a compacted context cannot become an entry of the log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// The log has grown since the view was taken.
    #[error("the context was made from another state of the conversation")]
    Stale,
    /// A message has no id.
    #[error("the context holds a message that was never numbered")]
    Unnumbered,
    /// Something was inserted without anything leaving.
    #[error("message {0} was inserted where nothing left")]
    Inserted(MessageId),
    /// The order of what stayed was changed.
    #[error("message {0} was moved")]
    Moved(MessageId),
}

/// The append-only log of one agent's work.
///
/// The view is a pure function of the log: the messages as they were appended, with the replacements of every
/// compaction that no later one absorbed.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    entries: Vec<Entry>,
    view: Context,
    n_compactions: u64,
}

/// How a conversation's messages are covered: the books that must balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Messages ever appended.
    pub appended: usize,
    /// Of these, verbatim in the view.
    pub verbatim: usize,
    /// Of these, replaced by exactly one live entry.
    pub replaced: usize,
}

impl Coverage {
    /// Whether every message is in exactly one place.
    pub const fn is_complete(&self) -> bool {
        self.verbatim + self.replaced == self.appended
    }
}

impl Default for Conversation {
    fn default() -> Self {
        Self::new()
    }
}

impl Conversation {
    /// An empty log.
    pub fn new() -> Self {
        Self { entries: Vec::new(), view: Context::new(Vec::new(), MessageId::FIRST, 0), n_compactions: 0 }
    }

    /// Appends a counted message and returns its id. An id that it already had is replaced.
    pub fn append(&mut self, message: ContextMessage) -> MessageId {
        let id = self.view.next_id();
        let message = message.numbered(id);
        self.entries.push(Entry::Message(message.clone()));
        self.view.push(message, id.next());
        id
    }

    /// What the model would see now. Costs nothing: the view is kept up to date as the log grows.
    pub fn view(&self) -> Context {
        self.view.clone()
    }

    /// Records that the view was compacted to `compacted`, which came from [`Self::view`] of this very state.
    ///
    /// # Errors
    /// [`RecordError`] where `compacted` is no compaction of this view; the log is then unchanged.
    pub fn record(&mut self, compacted: &Context) -> Result<&CompactionEntry, RecordError> {
        if compacted.revision() != self.entries.len() {
            return Err(RecordError::Stale);
        }
        let kept: BTreeSet<MessageId> = ids(compacted)?.into_iter().collect();
        let mut live = self.live_entries();
        let absorbs: Vec<EntryId> = live
            .iter()
            .filter(|entry| entry.replacements.iter().any(|replacement| leaves(replacement, &kept)))
            .map(|entry| entry.id)
            .collect();
        live.retain(|entry| !absorbs.contains(&entry.id));
        let base = fold(&self.appended(), &live);
        let replacements = difference(&base, compacted.messages())?;
        let entry = CompactionEntry { id: EntryId::nth(self.n_compactions), replacements, absorbs };
        self.n_compactions += 1;
        self.entries.push(Entry::Compaction(entry));
        self.view = compacted.clone().revised(self.entries.len());
        match self.entries.last() {
            Some(Entry::Compaction(entry)) => Ok(entry),
            _ => unreachable!("the entry was pushed just now"),
        }
    }

    /// The log, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Every message ever appended, oldest first.
    pub fn messages(&self) -> impl Iterator<Item = &ContextMessage> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Message(message) => Some(message),
            Entry::Compaction(_) => None,
        })
    }

    /// The compactions, oldest first.
    pub fn compactions(&self) -> impl Iterator<Item = &CompactionEntry> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Compaction(entry) => Some(entry),
            Entry::Message(_) => None,
        })
    }

    /// The view as the log alone gives it; always equal to [`Self::view`].
    pub fn refold(&self) -> Context {
        Context::new(fold(&self.appended(), &self.live_entries()), self.view.next_id(), self.entries.len())
    }

    /// The books: where every message is.
    pub fn coverage(&self) -> Coverage {
        let in_view: BTreeSet<_> = self.view.messages().iter().filter_map(ContextMessage::id).collect();
        let mut replaced: BTreeMap<MessageId, usize> = BTreeMap::new();
        for id in self.live_entries().iter().flat_map(|entry| &entry.replacements).flat_map(|r| &r.replaces) {
            *replaced.entry(*id).or_default() += 1;
        }
        let appended: Vec<_> = self.messages().filter_map(ContextMessage::id).collect();
        let verbatim = appended.iter().filter(|id| in_view.contains(id)).count();
        let replaced =
            appended.iter().filter(|id| !in_view.contains(id) && replaced.get(id) == Some(&1)).count();
        Coverage { appended: appended.len(), verbatim, replaced }
    }

    /// The compactions that make the view: those that no later one absorbed.
    pub fn live_entries(&self) -> Vec<&CompactionEntry> {
        let absorbed: BTreeSet<EntryId> =
            self.compactions().flat_map(|entry| entry.absorbs.iter().copied()).collect();
        self.compactions().filter(|entry| !absorbed.contains(&entry.id)).collect()
    }

    fn appended(&self) -> Vec<ContextMessage> {
        self.messages().cloned().collect()
    }
}

fn ids(context: &Context) -> Result<Vec<MessageId>, RecordError> {
    context.messages().iter().map(|message| message.id().ok_or(RecordError::Unnumbered)).collect()
}

/// Whether a message that `replacement` put into the view is no longer among those kept.
fn leaves(replacement: &Replacement, kept: &BTreeSet<MessageId>) -> bool {
    replacement.with.iter().filter_map(ContextMessage::id).any(|id| !kept.contains(&id))
}

/// The view: `appended` with the replacements of `live` entries, each where its first message stood.
fn fold(appended: &[ContextMessage], live: &[&CompactionEntry]) -> Vec<ContextMessage> {
    let replacements: Vec<&Replacement> = live.iter().flat_map(|entry| &entry.replacements).collect();
    let gone: BTreeSet<MessageId> = replacements.iter().flat_map(|r| r.replaces.iter().copied()).collect();
    let at: BTreeMap<MessageId, &Replacement> =
        replacements.iter().filter_map(|r| r.replaces.first().map(|first| (*first, *r))).collect();
    let mut view = Vec::with_capacity(appended.len());
    for message in appended {
        let Some(id) = message.id() else { continue };
        if let Some(replacement) = at.get(&id) {
            view.extend(replacement.with.iter().cloned());
        }
        if !gone.contains(&id) {
            view.push(message.clone());
        }
    }
    view
}

/// What turned `base` into `compacted`: messages of both stay, in order; between them, those of `base` left and those
/// of `compacted` came.
fn difference(
    base: &[ContextMessage],
    compacted: &[ContextMessage],
) -> Result<Vec<Replacement>, RecordError> {
    let in_base: BTreeSet<MessageId> = base.iter().filter_map(ContextMessage::id).collect();
    let mut replacements = Vec::new();
    let mut rest = base.iter().filter_map(ContextMessage::id);
    let mut with: Vec<ContextMessage> = Vec::new();
    let mut close =
        |replaces: Vec<MessageId>, with: Vec<ContextMessage>| match (replaces.is_empty(), with.first()) {
            (true, None) => Ok(()),
            (true, Some(inserted)) => {
                Err(inserted.id().map_or(RecordError::Unnumbered, RecordError::Inserted))
            }
            (false, _) => {
                replacements.push(Replacement { replaces, with });
                Ok(())
            }
        };
    for message in compacted {
        let id = message.id().ok_or(RecordError::Unnumbered)?;
        if !in_base.contains(&id) {
            with.push(message.clone());
            continue;
        }
        let mut replaces = Vec::new();
        loop {
            match rest.next() {
                Some(next) if next == id => break,
                Some(next) => replaces.push(next),
                None => return Err(RecordError::Moved(id)),
            }
        }
        close(replaces, std::mem::take(&mut with))?;
    }
    close(rest.collect(), with)?;
    Ok(replacements)
}
