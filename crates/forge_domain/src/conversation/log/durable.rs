//! The log as it is kept: how it is written, and how it is read back and proven.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::{CompactionEntry, Conversation, Entry, RecordError, Replacement};
use crate::{Context, ContextMessage, EntryId, Message, MessageId, Tokens};

/// The reasons why lines that were read cannot be a conversation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} of the conversation's log {fault}")]
pub struct RestoreError {
    /// Which line, counted from zero.
    pub line: usize,
    /// The fault of the line, to be read after "the line".
    pub fault: String,
}

/// The state while lines are read back.
#[derive(Clone, Debug, Default)]
struct Books {
    /// The lowest id that the next message may have.
    next_id: u64,
    /// The messages of the log, ascending, and by which entry in force each is replaced.
    appended: Vec<(MessageId, Option<EntryId>)>,
}

/// A log that is read back line by line, and proven on the way: all that was taken is a sound log at every
/// moment. A clone reads on by itself, for a fork.
#[derive(Clone, Debug, Default)]
pub struct LogReader {
    log: Conversation,
    books: Books,
}

impl LogReader {
    /// Takes the next line.
    ///
    /// # Errors
    /// [`RestoreError`] if it does not follow from those before it; nothing more can be read then.
    pub fn take(&mut self, entry: Entry) -> Result<(), RestoreError> {
        let line = self.log.entries.len();
        self.log.take_back(&mut self.books, entry).map_err(|fault| RestoreError { line, fault })
    }

    /// Returns the compaction of that number among the lines so far.
    pub fn compaction(&self, id: EntryId) -> Option<&CompactionEntry> {
        self.log.compaction(id)
    }

    /// Returns the conversation of all lines.
    ///
    /// # Errors
    /// [`RestoreError`] if a message is neither in the view nor replaced.
    pub fn finish(self) -> Result<Conversation, RestoreError> {
        let Self { mut log, books } = self;
        log.refresh(MessageId::new(books.next_id));
        let (n_lines, coverage) = (log.entries.len(), log.coverage());
        if coverage.is_complete() {
            return Ok(log);
        }
        let fault = format!("leaves {} of {} messages uncovered", uncovered(coverage), coverage.appended);
        Err(RestoreError { line: n_lines.saturating_sub(1), fault })
    }
}

impl Conversation {
    /// Restores the conversation of which `entries`, oldest first, are the log. It checks ids, order, and the
    /// coverage after every line; equal entries give an equal conversation, down to the id of its next
    /// message.
    ///
    /// # Errors
    /// [`RestoreError`] at the first line that does not follow from those before it.
    pub fn restore(entries: Vec<Entry>) -> Result<Self, RestoreError> {
        let mut reader = LogReader::default();
        entries.into_iter().try_for_each(|entry| reader.take(entry))?;
        reader.finish()
    }

    /// Returns the conversation as it was when its log had `n_entries` lines: for a fork or a rewind, also to
    /// before a compaction. `None` if the log never had that many.
    pub fn rewound(&self, n_entries: usize) -> Option<Self> {
        // A part of a proven log from its start is a log itself.
        Self::restore(self.entries.get(..n_entries)?.to_vec()).ok()
    }

    fn take_back(&mut self, books: &mut Books, entry: Entry) -> Result<(), String> {
        match &entry {
            Entry::Message(message) => {
                let id = message.id().ok_or("is a message without an id")?;
                books.number(id)?;
                books.appended.push((id, None));
                self.n_messages += 1;
            }
            Entry::Compaction(compaction) => self.take_back_compaction(books, compaction)?,
            Entry::Undo(id) => {
                if self.live.last() != Some(id) {
                    return Err(format!("undoes {id}, which is not the latest compaction in force"));
                }
                self.live.remove(id);
                books.uncover(self.compaction(*id));
                let absorbed = self.compaction(*id).map(|undone| undone.absorbs.clone()).unwrap_or_default();
                for entry in absorbed.iter().filter_map(|id| self.compaction(*id)) {
                    books.cover(entry)?;
                }
                self.live.extend(absorbed);
            }
        }
        Arc::make_mut(&mut self.entries).push(entry);
        Ok(())
    }

    fn take_back_compaction(&mut self, books: &mut Books, entry: &CompactionEntry) -> Result<(), String> {
        if entry.id != EntryId::nth(self.compactions.len() as u64) {
            return Err(format!("is the compaction {} out of its turn", entry.id));
        }
        // What an absorbed entry put there may stay as it is; all else must be new.
        let mut taken_over: HashSet<MessageId> = HashSet::new();
        for id in &entry.absorbs {
            if !self.live.remove(id) {
                return Err(format!("absorbs {id}, which was not in force"));
            }
            taken_over.extend(self.compaction(*id).iter().flat_map(|absorbed| absorbed.made_messages()));
        }
        books.uncover(entry.absorbs.iter().filter_map(|id| self.compaction(*id)));
        let mut made: Vec<MessageId> = Vec::new();
        for message in entry.replacements.iter().flat_map(|replacement| &replacement.with) {
            let id = message.id().ok_or("holds a message without an id")?;
            if !taken_over.remove(&id) {
                made.push(id);
            }
        }
        // Messages of one entry are numbered by their place in the view, which taken-over ones may interrupt.
        made.sort_unstable();
        made.into_iter().try_for_each(|id| books.number(id))?;
        books.cover(entry)?;
        self.live.insert(entry.id);
        self.compactions.push(self.entries.len());
        Ok(())
    }

    /// Rebuilds the view and the owners from the log.
    pub(super) fn refresh(&mut self, next_id: MessageId) {
        let live: Vec<&CompactionEntry> = self.live_entries();
        let view = super::fold(self.messages(), &live);
        let owned = live.iter().flat_map(|entry| {
            let replacements = entry.replacements.iter().enumerate();
            let owner = |(at, replacement): (usize, &Replacement)| {
                let ids: Vec<_> = replacement.with.iter().filter_map(ContextMessage::id).collect();
                ids.into_iter().map(move |id| (id, (entry.id, at)))
            };
            replacements.flat_map(owner).collect::<Vec<_>>()
        });
        let owners: HashMap<_, _> = owned.collect();
        self.owners = Arc::new(owners);
        self.view = Context::new(view, next_id, self.entries.len());
    }

    /// Checks whether every message is in the view `compacted`, or replaced by `replacements` or an entry
    /// that stays in force.
    pub(super) fn check_books(
        &self,
        compacted: &Context,
        replacements: &[Replacement],
        absorbs: &BTreeSet<EntryId>,
    ) -> Result<(), RecordError> {
        let others =
            self.live.iter().filter(|id| !absorbs.contains(id)).filter_map(|id| self.compaction(*id));
        let standing = others.flat_map(CompactionEntry::replacements).chain(replacements);
        let (mut replaced, mut synthetic) = (0, 0);
        for replacement in standing {
            replaced += replacement.replaces.len();
            synthetic += replacement.with.len();
        }
        let covered = (compacted.messages().len() + replaced).saturating_sub(synthetic);
        match covered.abs_diff(self.n_messages) {
            0 => Ok(()),
            n => Err(RecordError::Uncovered(n)),
        }
    }
}

const fn uncovered(coverage: super::Coverage) -> usize {
    coverage.appended.saturating_sub(coverage.verbatim + coverage.replaced)
}

impl CompactionEntry {
    /// Iterates over the ids of the messages that replace others.
    fn made_messages(&self) -> impl Iterator<Item = MessageId> {
        self.replacements.iter().flat_map(|replacement| &replacement.with).filter_map(ContextMessage::id)
    }

    /// Returns the replacement text: the text of every message that compaction made, with a blank line
    /// between two.
    pub fn summary(&self) -> String {
        let made = self.replacements.iter().flat_map(|replacement| &replacement.with);
        let texts = made.map(ContextMessage::message).filter(|message| message.is_compacted);
        texts.map(Message::to_text).collect::<Vec<_>>().join("\n\n")
    }
}

impl Books {
    fn number(&mut self, id: MessageId) -> Result<(), String> {
        if id.as_u64() < self.next_id {
            return Err(format!("gives the id {id}, which is not above those before it"));
        }
        self.next_id = id.as_u64().checked_add(1).ok_or("holds the last id there is")?;
        Ok(())
    }

    /// Takes back what `entries` covered. Takes time in proportion to that, however long the log is.
    fn uncover<'a>(&mut self, entries: impl IntoIterator<Item = &'a CompactionEntry>) {
        for entry in entries {
            let ids = entry.replacements().iter().flat_map(|replacement| &replacement.replaces);
            self.each(ids, |by| *by = by.filter(|by| *by != entry.id));
        }
    }

    /// Does something with what replaces each of the messages `ids` that was appended.
    fn each<'a>(
        &mut self,
        ids: impl Iterator<Item = &'a MessageId>,
        mut work: impl FnMut(&mut Option<EntryId>),
    ) {
        // Mostly the one after the last: a search for each would be most of the work.
        let mut next = 0;
        for id in ids {
            let is_next = self.appended.get(next).is_some_and(|(known, _)| known == id);
            let searched = || self.appended.binary_search_by_key(id, |(known, _)| *known).ok();
            if let Some(at) = if is_next { Some(next) } else { searched() } {
                work(&mut self.appended[at].1);
                next = at + 1;
            }
        }
    }

    fn cover(&mut self, entry: &CompactionEntry) -> Result<(), String> {
        for replacement in entry.replacements() {
            if replacement.replaces.is_empty() {
                return Err("puts messages where none left".into());
            }
            // Mostly the one after the last: a search for each would be most of the work.
            let mut next = 0;
            for id in &replacement.replaces {
                let is_next = self.appended.get(next).is_some_and(|(known, _)| known == id);
                let searched = || self.appended.binary_search_by_key(id, |(known, _)| *known).ok();
                let at = if is_next { Some(next) } else { searched() };
                let at = at.ok_or_else(|| format!("replaces {id}, which was never appended"))?;
                if let Some(other) = self.appended[at].1.replace(entry.id) {
                    return Err(format!("replaces {id}, which {other} has replaced"));
                }
                next = at + 1;
            }
        }
        Ok(())
    }
}

impl Serialize for Conversation {
    /// Writes the log, as a list of its lines.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.entries.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Conversation {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::restore(Vec::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}

/// A counted message as it is written.
#[derive(Serialize, Deserialize)]
struct Written<M> {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    id: Option<MessageId>,
    tokens: Tokens,
    message: M,
}

impl Serialize for ContextMessage {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Written { id: self.id(), tokens: self.tokens(), message: self.message() }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for ContextMessage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Written { id, tokens, message } = Written::<Message>::deserialize(deserializer)?;
        let id = id.ok_or_else(|| de::Error::missing_field("id"))?;
        Ok(Self::restored(id, tokens, message))
    }
}

/// Ids in order as `[first, last]` pairs: a compaction of a thousand neighbours is two numbers.
pub(super) mod ranges {
    use super::{Deserialize, Deserializer, MessageId, Serializer, de};

    /// Most ids of one written list; more is not a log of ours.
    const MAX_IDS: u64 = 10_000_000;

    pub(in super::super) fn serialize<S: Serializer>(
        ids: &[MessageId],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for id in ids.iter().map(|id| id.as_u64()) {
            match ranges.last_mut() {
                Some((_, last)) if *last + 1 == id => *last = id,
                _ => ranges.push((id, id)),
            }
        }
        serializer.collect_seq(ranges)
    }

    pub(in super::super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<MessageId>, D::Error> {
        let ranges = Vec::<(u64, u64)>::deserialize(deserializer)?;
        let n: u64 = ranges
            .iter()
            .fold(0, |n: u64, (first, last)| n.saturating_add(last.saturating_sub(*first).saturating_add(1)));
        if n > MAX_IDS || ranges.iter().any(|(first, last)| first > last) {
            return Err(de::Error::custom("these are no ranges of message ids"));
        }
        Ok(ranges.into_iter().flat_map(|(first, last)| first..=last).map(MessageId::new).collect())
    }
}
