//! The append-only log: every message ever, and every compaction as an entry. The source of truth.

mod durable;
mod front;
mod measurement;
mod undo;

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

pub use self::durable::{LogReader, RestoreError};
use crate::{Context, ContextMessage, EntryId, Measure, Message, MessageId};

/// A set of messages that left the view together, and what replaces them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Replacement {
    /// Ids of the messages that left, in order; never empty. The new ones are placed where the first of them
    /// was.
    #[serde(with = "durable::ranges")]
    pub replaces: Vec<MessageId>,
    /// The literal messages in their place; empty if they were dropped.
    pub with: Vec<ContextMessage>,
}

/// A compaction, however many steps it took.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompactionEntry {
    id: EntryId,
    /// Shared: a snapshot of a long conversation is a copy of its lines.
    replacements: Arc<[Replacement]>,
    absorbs: Vec<EntryId>,
}

impl CompactionEntry {
    /// Creates an entry as a log had it before; [`Conversation::restore`] checks it.
    pub fn restored(id: EntryId, replacements: Vec<Replacement>, absorbs: Vec<EntryId>) -> Self {
        Self { id, replacements: replacements.into(), absorbs }
    }

    /// Returns its id.
    pub const fn id(&self) -> EntryId {
        self.id
    }

    /// Returns its replacements, in terms of the messages as they were first appended.
    pub fn replacements(&self) -> &[Replacement] {
        &self.replacements
    }

    /// Returns the earlier entries whose replacements this one took over.
    pub fn absorbs(&self) -> &[EntryId] {
        &self.absorbs
    }
}

/// One line of the log.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    /// A message was appended.
    Message(ContextMessage),
    /// The view was compacted.
    Compaction(CompactionEntry),
    /// That compaction, then the latest one in force, was undone: what it had absorbed is in force again.
    Undo(EntryId),
}

/// The reasons why a compacted context cannot become an entry of the log.
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
    /// A message would be neither in the view nor replaced, or both.
    #[error("the compaction would lose track of {0} messages")]
    Uncovered(usize),
}

/// The append-only log of one agent's work.
///
/// The view is a pure function of the log: the messages as they were appended, with the replacements of every
/// compaction that no later one absorbed.
#[derive(Clone, Debug, PartialEq)]
pub struct Conversation {
    /// Shared: a state that is saved is not copied, and a line that is appended meanwhile copies it.
    entries: Arc<Vec<Entry>>,
    view: Context,
    /// The positions of the compactions in `entries`, by their ids.
    compactions: Vec<usize>,
    /// For each message that a live entry put into the view: that entry, and which of its replacements.
    owners: Arc<HashMap<MessageId, (EntryId, usize)>>,
    measure: Measure,
    /// Messages ever appended.
    n_messages: usize,
    /// The compactions in force.
    live: BTreeSet<EntryId>,
}

/// The coverage of a conversation's messages: the books that must balance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Messages ever appended.
    pub appended: usize,
    /// The messages among them that are verbatim in the view.
    pub verbatim: usize,
    /// The messages among them that exactly one live entry replaces.
    pub replaced: usize,
}

impl Coverage {
    /// Checks whether every message is in exactly one place.
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
    /// Creates an empty log.
    pub fn new() -> Self {
        Self {
            entries: Arc::default(),
            view: Context::new(Vec::new(), MessageId::FIRST, 0),
            compactions: Vec::new(),
            owners: Arc::default(),
            measure: Measure::default(),
            n_messages: 0,
            live: BTreeSet::new(),
        }
    }

    /// Creates an empty log with space for `n_messages`.
    pub fn with_capacity(n_messages: usize) -> Self {
        let view = Context::new(Vec::with_capacity(n_messages), MessageId::FIRST, 0);
        Self { entries: Arc::new(Vec::with_capacity(n_messages)), view, ..Self::new() }
    }

    /// Appends a counted message and returns its id. An id that it already had is replaced.
    pub fn append(&mut self, message: ContextMessage) -> MessageId {
        let id = self.view.next_id();
        let message = message.numbered(id);
        Arc::make_mut(&mut self.entries).push(Entry::Message(message.apart()));
        self.n_messages += 1;
        self.view.push(message, id.next());
        id
    }

    /// Gives later messages ids from `id` on, if it is above those that were given: labels below it are of
    /// another log, whose messages must not be taken for those of this one.
    pub fn number_from(&mut self, id: MessageId) {
        self.view.number_from(id);
    }

    /// Returns what the model would see now. Costs nothing: the view is kept up to date as the log grows.
    pub fn view(&self) -> Context {
        self.view.clone()
    }

    /// Records that the view was compacted to `compacted`, which came from [`Self::view`] of this very state.
    /// Takes time in proportion to the view, however long the log is.
    ///
    /// # Errors
    /// [`RecordError`] if `compacted` is not a compaction of this view; the log is then unchanged.
    pub fn record(&mut self, compacted: &Context) -> Result<&CompactionEntry, RecordError> {
        if compacted.revision() != self.entries.len() {
            return Err(RecordError::Stale);
        }
        let kept: HashSet<MessageId> = ids(compacted)?.into_iter().collect();
        let touched: BTreeSet<(EntryId, usize)> = self
            .view
            .messages()
            .iter()
            .filter_map(ContextMessage::id)
            .filter(|id| !kept.contains(id))
            .filter_map(|id| self.owners.get(&id).copied())
            .collect();
        let owned = self.adopt(compacted);
        let mut replacements = difference(&self.cells(&kept, &touched), owned.messages())?;
        let absorbs: BTreeSet<EntryId> = touched.iter().map(|(entry, _)| *entry).collect();
        for entry in absorbs.iter().filter_map(|id| self.compaction(*id)) {
            // What an absorbed entry did elsewhere is taken over as it is.
            let elsewhere = entry.replacements.iter().enumerate();
            let elsewhere = elsewhere.filter(|(at, _)| !touched.contains(&(entry.id, *at)));
            replacements.extend(elsewhere.map(|(_, replacement)| replacement.clone()));
        }
        replacements.sort_by_key(|replacement| replacement.replaces.first().copied());
        self.check_books(compacted, &replacements, &absorbs)?;
        let id = EntryId::nth(self.compactions.len() as u64);
        self.own(id, &replacements, &absorbs);
        self.live.retain(|live| !absorbs.contains(live));
        self.live.insert(id);
        self.compactions.push(self.entries.len());
        let absorbs = absorbs.into_iter().collect();
        let entry = Entry::Compaction(CompactionEntry::restored(id, replacements, absorbs));
        Arc::make_mut(&mut self.entries).push(entry);
        self.view = owned.revised(self.entries.len());
        match self.entries.last() {
            Some(Entry::Compaction(entry)) => Ok(entry),
            _ => unreachable!("the entry was pushed just now"),
        }
    }

    /// Returns `compacted` as the log holds it: a prompt may leave out reasoning, the log has it.
    fn adopt(&self, compacted: &Context) -> Context {
        if !compacted.messages().iter().any(ContextMessage::is_bare) {
            return compacted.clone().unframed();
        }
        let own: HashMap<_, _> = self.view.messages().iter().map(|message| (message.id(), message)).collect();
        let whole = |message: &ContextMessage| match own.get(&message.id()) {
            Some(own) if message.is_bare() => (*own).clone(),
            _ => message.clone(),
        };
        let messages = compacted.messages().iter().map(whole).collect();
        Context::new(messages, compacted.next_id(), compacted.revision())
    }

    /// Returns the log, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Returns the user's first message.
    pub fn task(&self) -> Option<&Message> {
        self.messages().map(ContextMessage::message).find(|message| message.starts_turn())
    }

    /// Iterates over every message ever appended, oldest first.
    pub fn messages(&self) -> impl Iterator<Item = &ContextMessage> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Message(message) => Some(message),
            Entry::Compaction(_) | Entry::Undo(_) => None,
        })
    }

    /// Returns the message of that id as it was appended; `None` if no such message was. Takes logarithmic
    /// time: ids grow along the log.
    pub fn message(&self, id: MessageId) -> Option<&ContextMessage> {
        let (mut from, mut to) = (0, self.entries.len());
        while from < to {
            let middle = from.midpoint(to);
            let next = (middle..to).find_map(|at| match &self.entries[at] {
                Entry::Message(message) => Some((at, message)),
                Entry::Compaction(_) | Entry::Undo(_) => None,
            });
            match next {
                Some((_, message)) if message.id() == Some(id) => return Some(message),
                Some((at, message)) if message.id() < Some(id) => from = at + 1,
                Some(_) | None => to = middle,
            }
        }
        None
    }

    /// Iterates over the compactions, oldest first.
    pub fn compactions(&self) -> impl Iterator<Item = &CompactionEntry> {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Compaction(entry) => Some(entry),
            Entry::Message(_) | Entry::Undo(_) => None,
        })
    }

    /// Returns the number of compactions ever made, in constant time.
    pub const fn n_compactions(&self) -> usize {
        self.compactions.len()
    }

    /// Returns the view that the log alone gives; always equal to [`Self::view`].
    pub fn refold(&self) -> Context {
        Context::new(fold(self.messages(), &self.live_entries()), self.view.next_id(), self.entries.len())
    }

    /// Returns the books: the place of every message.
    pub fn coverage(&self) -> Coverage {
        let in_view: BTreeSet<_> = self.view.messages().iter().filter_map(ContextMessage::id).collect();
        let mut replaced: BTreeMap<MessageId, usize> = BTreeMap::new();
        for id in self.live_entries().iter().flat_map(|entry| entry.replacements()).flat_map(|r| &r.replaces)
        {
            *replaced.entry(*id).or_default() += 1;
        }
        let appended: Vec<_> = self.messages().filter_map(ContextMessage::id).collect();
        let verbatim = appended.iter().filter(|id| in_view.contains(id)).count();
        let replaced =
            appended.iter().filter(|id| !in_view.contains(id) && replaced.get(id) == Some(&1)).count();
        Coverage { appended: appended.len(), verbatim, replaced }
    }

    /// Returns the compactions that make the view: those that no later one absorbed and that were not undone.
    pub fn live_entries(&self) -> Vec<&CompactionEntry> {
        let mut live = BTreeSet::new();
        for entry in self.entries.iter() {
            match entry {
                Entry::Message(_) => {}
                Entry::Compaction(entry) => {
                    live.retain(|id| !entry.absorbs.contains(id));
                    live.insert(entry.id);
                }
                Entry::Undo(id) => {
                    live.remove(id);
                    live.extend(self.compaction(*id).iter().flat_map(|undone| &undone.absorbs));
                }
            }
        }
        live.into_iter().filter_map(|id| self.compaction(id)).collect()
    }

    /// Returns the view in cells: a message that stays by itself, or the replacement of an open stretch.
    fn cells(&self, kept: &HashSet<MessageId>, touched: &BTreeSet<(EntryId, usize)>) -> Vec<Cell> {
        let mut cells = Vec::with_capacity(self.view.messages().len());
        let mut opened = BTreeSet::new();
        for id in self.view.messages().iter().filter_map(ContextMessage::id) {
            match self.owners.get(&id).filter(|owner| touched.contains(owner)) {
                Some(owner) => {
                    if opened.insert(*owner)
                        && let Some(entry) = self.compaction(owner.0)
                    {
                        cells.push(Cell::Gone(entry.replacements[owner.1].replaces.clone()));
                    }
                }
                None if kept.contains(&id) => cells.push(Cell::Stays(id)),
                None => cells.push(Cell::Gone(vec![id])),
            }
        }
        cells
    }

    fn compaction(&self, id: EntryId) -> Option<&CompactionEntry> {
        match self.entries.get(*self.compactions.get(id.index())?)? {
            Entry::Compaction(entry) => Some(entry),
            Entry::Message(_) | Entry::Undo(_) => None,
        }
    }

    /// Records the new owner of the messages of `replacements`.
    fn own(&mut self, id: EntryId, replacements: &[Replacement], absorbs: &BTreeSet<EntryId>) {
        let owners = Arc::make_mut(&mut self.owners);
        owners.retain(|_, (entry, _)| !absorbs.contains(entry));
        for (at, replacement) in replacements.iter().enumerate() {
            owners
                .extend(replacement.with.iter().filter_map(ContextMessage::id).map(|with| (with, (id, at))));
        }
    }
}

fn ids(context: &Context) -> Result<Vec<MessageId>, RecordError> {
    context.messages().iter().map(|message| message.id().ok_or(RecordError::Unnumbered)).collect()
}

/// A piece of the view while a compaction is recorded.
enum Cell {
    /// A message that stays.
    Stays(MessageId),
    /// Messages, as they were first appended, that are replaced.
    Gone(Vec<MessageId>),
}

/// Computes the view: `appended` with the replacements of `live` entries, each at the position of its first
/// message.
fn fold<'a>(
    appended: impl Iterator<Item = &'a ContextMessage>,
    live: &[&CompactionEntry],
) -> Vec<ContextMessage> {
    let replacements: Vec<&Replacement> = live.iter().flat_map(|entry| entry.replacements()).collect();
    let gone: BTreeSet<MessageId> = replacements.iter().flat_map(|r| r.replaces.iter().copied()).collect();
    let at: BTreeMap<MessageId, &Replacement> =
        replacements.iter().filter_map(|r| r.replaces.first().map(|first| (*first, *r))).collect();
    let mut view = Vec::new();
    for message in appended {
        let Some(id) = message.id() else { continue };
        if let Some(replacement) = at.get(&id) {
            view.extend(replacement.with.iter().map(ContextMessage::apart));
        }
        if !gone.contains(&id) {
            view.push(message.apart());
        }
    }
    view
}

/// Returns the replacements that turned the view of `cells` into `compacted`: the messages that stay are in
/// both, in order; between them, some left and some were added.
fn difference(cells: &[Cell], compacted: &[ContextMessage]) -> Result<Vec<Replacement>, RecordError> {
    let staying: HashSet<MessageId> = cells
        .iter()
        .filter_map(|cell| match cell {
            Cell::Stays(id) => Some(*id),
            Cell::Gone(_) => None,
        })
        .collect();
    let mut replacements = Vec::new();
    let mut rest = cells.iter();
    let mut with: Vec<ContextMessage> = Vec::new();
    for message in compacted {
        let id = message.id().ok_or(RecordError::Unnumbered)?;
        if !staying.contains(&id) {
            with.push(message.apart());
            continue;
        }
        let mut replaces = Vec::new();
        loop {
            match rest.next() {
                Some(Cell::Stays(next)) if *next == id => break,
                Some(Cell::Gone(gone)) => replaces.extend(gone),
                Some(Cell::Stays(_)) | None => return Err(RecordError::Moved(id)),
            }
        }
        replacements.extend(replacement(replaces, std::mem::take(&mut with))?);
    }
    let mut replaces = Vec::new();
    for cell in rest {
        match cell {
            Cell::Gone(gone) => replaces.extend(gone),
            Cell::Stays(id) => return Err(RecordError::Moved(*id)),
        }
    }
    replacements.extend(replacement(replaces, with)?);
    Ok(replacements)
}

/// Returns what left and what was added at one position; `None` if nothing changed.
fn replacement(
    replaces: Vec<MessageId>,
    with: Vec<ContextMessage>,
) -> Result<Option<Replacement>, RecordError> {
    match (replaces.is_empty(), with.first()) {
        (true, None) => Ok(None),
        (true, Some(inserted)) => Err(inserted.id().map_or(RecordError::Unnumbered, RecordError::Inserted)),
        (false, _) => Ok(Some(Replacement { replaces, with })),
    }
}
