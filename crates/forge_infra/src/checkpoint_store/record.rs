//! A conversation as rows: a line for each entry of the log, contents by their hash, everything large
//! compressed.
//!
//! The stores that speak SQL share this. The content of a message is stored once, even if several messages
//! have it. Its number, tokens and time belong to the line.

use std::collections::HashMap;
use std::sync::LazyLock;

use forge_domain::{
    Action, AgentId, CheckpointKey, CheckpointOutline, CompactionEntry, Configuration, ContextMessage,
    ContextSnapshot, Conversation, Entry, EntryId, LeaseEnd, LogReader, Message, MessageId, NewCheckpoint,
    PackedMessage, Progress, Replacement, Tokens, distinct_words, searched_text,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};
use zstd::dict::DecoderDictionary;

/// The level of compression: larger ones gain little on single messages.
const LEVEL: i32 = 3;
/// The common parts of the JSON of messages and states: single ones are too small for the compressor to find
/// them. The schema versions from 3 of SQLite and 2 of Postgres use it; it is never changed.
const DICTIONARY: &[u8] = include_bytes!("dictionary.txt");
/// The most bytes of one content. No message has as many, so a larger number means damage.
const MAX_BYTES: usize = 1 << 29;

/// The number of lines that are read at once to find the user's first message.
pub(super) const OUTLINED_AT_ONCE: usize = 8;

/// The key of a content: the first half of its SHA-256.
pub(super) type Hash = [u8; 16];

/// The kind of a line's entry, as a number in the rows.
pub(super) const MESSAGE: i64 = 0;
pub(super) const COMPACTION: i64 = 1;
pub(super) const UNDO: i64 = 2;

/// The content of a message, or a configuration; stored once.
pub(super) struct StoredContent {
    pub(super) hash: Hash,
    pub(super) json: Vec<u8>,
}

impl StoredContent {
    fn of(value: &impl Serialize) -> Result<Self, serde_json::Error> {
        let json = serde_json::to_vec(value)?;
        Ok(Self { hash: hash(&json), json })
    }

    /// Returns the words by which it is found; `None` if it is not a message.
    pub(super) fn words(json: &[u8]) -> Option<Vec<String>> {
        let message: Message = serde_json::from_slice(json).ok()?;
        Some(distinct_words(&searched_text(&message)).into_iter().collect())
    }
}

/// One entry of a log as a row.
pub(super) struct Line {
    pub(super) kind: i64,
    /// The number of the message or of the compaction.
    pub(super) number: i64,
    pub(super) tokens: i64,
    /// Nanoseconds since 1970.
    pub(super) made_at: Option<i64>,
    pub(super) content: Option<StoredContent>,
    pub(super) note: Option<Vec<u8>>,
}

/// Everything that a save writes.
pub(super) struct Draft {
    /// The lines that the log gained since the parent.
    pub(super) lines: Vec<Line>,
    pub(super) configuration: StoredContent,
    pub(super) state: Vec<u8>,
    /// A digest that is equal for equal saves, and different for all others.
    pub(super) digest: Hash,
}

/// A line that was read.
pub(super) struct Row {
    pub(super) position: i64,
    pub(super) kind: i64,
    pub(super) number: i64,
    pub(super) tokens: i64,
    pub(super) made_at: Option<i64>,
    pub(super) hash: Option<Vec<u8>>,
    pub(super) body: Option<Vec<u8>>,
    pub(super) note: Option<Vec<u8>>,
}

/// The part of a line's message that is not in its content.
#[derive(Default, Serialize, Deserialize)]
struct Note {
    /// The time, only if it does not fit the row's own column.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    timestamp: Option<Timestamp>,
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    metadata: Map<String, Value>,
}

/// The note of a line about a compaction.
#[derive(Serialize, Deserialize)]
struct CompactionNote {
    absorbs: Vec<EntryId>,
    replacements: Vec<NotedReplacement>,
}

/// A replacement, or the position of those that were taken over unchanged from an absorbed entry. Without
/// this, an agent's every compaction would be written again with every later one.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum NotedReplacement {
    TakenOver { of: EntryId, first: usize, n: usize },
    New(Replacement),
}

/// A compressor and decompressor that reuses its memory.
pub(super) struct Press {
    compressor: zstd::bulk::Compressor<'static>,
    decompressor: zstd::bulk::Decompressor<'static>,
}

/// The dictionary, prepared once.
static PREPARED: LazyLock<DecoderDictionary<'static>> = LazyLock::new(|| DecoderDictionary::copy(DICTIONARY));

fn decompressor() -> std::io::Result<zstd::bulk::Decompressor<'static>> {
    zstd::bulk::Decompressor::with_prepared_dictionary(&PREPARED)
}

fn unpack(decompressor: &mut zstd::bulk::Decompressor<'_>, packed: &[u8]) -> Result<Vec<u8>, String> {
    let (n, bytes) = packed.split_first_chunk::<4>().ok_or("a content is cut off")?;
    match u32::from_le_bytes(*n) as usize {
        0 => Ok(bytes.to_vec()),
        n if n > MAX_BYTES => Err("a content says that it is enormous".into()),
        n => match decompressor.decompress(bytes, n) {
            Ok(bytes) if bytes.len() == n => Ok(bytes),
            Ok(_) => Err("a content is shorter than it was".into()),
            Err(error) => Err(format!("a content cannot be decompressed: {error}")),
        },
    }
}

impl Press {
    pub(super) fn new() -> std::io::Result<Self> {
        let compressor = zstd::bulk::Compressor::with_dictionary(LEVEL, DICTIONARY)?;
        // What was packed without a dictionary is read with one just as well.
        Ok(Self { compressor, decompressor: decompressor()? })
    }

    /// Compresses the bytes and puts their number first. If that is not shorter, they are kept as they are
    /// after a zero.
    pub(super) fn pack(&mut self, bytes: &[u8]) -> Vec<u8> {
        let plain = |bytes: &[u8]| [&[0; 4], bytes].concat();
        let Ok(n) = u32::try_from(bytes.len()) else { return plain(bytes) };
        match self.compressor.compress(bytes) {
            Ok(packed) if packed.len() < bytes.len() => [&n.to_le_bytes()[..], &packed].concat(),
            _ => plain(bytes),
        }
    }

    /// Returns the bytes that were packed, or a description of the damage.
    pub(super) fn unpack(&mut self, packed: &[u8]) -> Result<Vec<u8>, String> {
        unpack(&mut self.decompressor, packed)
    }

    /// Returns the searchable text of the message in `row`.
    pub(super) fn text(&mut self, row: &Row) -> Result<String, String> {
        let what = format!("message m{}", row.number);
        let body = row.body.as_deref().ok_or_else(|| format!("{what} has no content"))?;
        self.json(body, &what).map(|message: Message| searched_text(&message))
    }

    /// Returns the message in `row` if it starts a turn.
    pub(super) fn task(&mut self, row: Row) -> Result<Option<Message>, String> {
        if row.kind != MESSAGE {
            return Ok(None);
        }
        let entry = self.entry(row, &LogReader::default())?;
        let Entry::Message(message) = entry else { return Ok(None) };
        Ok(Some(message.message().clone()).filter(Message::starts_turn))
    }

    /// Rebuilds the outline from the user's first message and the checkpoint's own columns.
    pub(super) fn outline(
        &mut self,
        task: Option<Message>,
        configuration: &[u8],
        state: &[u8],
    ) -> Result<CheckpointOutline, String> {
        let configuration = self.json(configuration, "the configuration")?;
        Ok(CheckpointOutline { task, progress: self.json(state, "the state")?, configuration })
    }

    fn json<T: for<'de> Deserialize<'de>>(&mut self, packed: &[u8], what: &str) -> Result<T, String> {
        let bytes = self.unpack(packed)?;
        serde_json::from_slice(&bytes).map_err(|error| format!("{what} cannot be read: {error}"))
    }

    /// Prepares everything of a save that does not depend on the store's content; `n_known` lines of the log
    /// are already stored.
    pub(super) fn draft(
        &mut self,
        checkpoint: &NewCheckpoint,
        n_known: usize,
    ) -> Result<Draft, serde_json::Error> {
        let snapshot = &checkpoint.snapshot;
        let conversation = &snapshot.conversation;
        let new = conversation.entries().get(n_known..).unwrap_or_default();
        let lines: Vec<Line> =
            new.iter().map(|entry| self.line(entry, conversation)).collect::<Result<_, _>>()?;
        let configuration = StoredContent::of(&snapshot.configuration)?;
        let state = serde_json::to_vec(&snapshot.progress)?;
        let mut digest = Sha256::new();
        let head = (&snapshot.agent, &checkpoint.step, checkpoint.reason, checkpoint.parent);
        digest.update(serde_json::to_vec(&head)?);
        digest.update(&state);
        digest.update(configuration.hash);
        for line in &lines {
            for number in [line.kind, line.number, line.tokens, line.made_at.unwrap_or(i64::MIN)] {
                digest.update(number.to_le_bytes());
            }
            digest.update(line.content.as_ref().map_or(Hash::default(), |content| content.hash));
            digest.update(line.note.as_deref().unwrap_or_default());
        }
        let state = self.pack(&state);
        Ok(Draft { lines, configuration, state, digest: first_half(digest) })
    }

    fn line(&mut self, entry: &Entry, conversation: &Conversation) -> Result<Line, serde_json::Error> {
        let line = |kind, number| Line { kind, number, tokens: 0, made_at: None, content: None, note: None };
        Ok(match entry {
            Entry::Undo(id) => line(UNDO, id.as_u64() as i64),
            Entry::Compaction(compaction) => {
                let note = serde_json::to_vec(&note_of(compaction, conversation))?;
                Line { note: Some(self.pack(&note)), ..line(COMPACTION, compaction.id().as_u64() as i64) }
            }
            Entry::Message(counted) => {
                let mut message = counted.message().clone();
                let made_at = message.timestamp.and_then(nanoseconds);
                let timestamp = message.timestamp.take().filter(|_| made_at.is_none());
                let note = Note { timestamp, metadata: std::mem::take(&mut message.metadata) };
                let is_blank = note.timestamp.is_none() && note.metadata.is_empty();
                let note = if is_blank { None } else { Some(self.pack(&serde_json::to_vec(&note)?)) };
                let number = counted.id().map_or(0, |id| id.as_u64() as i64);
                let tokens = counted.tokens().as_u64() as i64;
                Line {
                    tokens,
                    made_at,
                    content: Some(StoredContent::of(&message)?),
                    note,
                    ..line(MESSAGE, number)
                }
            }
        })
    }

    /// Checks whether `row`, the last one in the store, is the conversation's line number `n_known - 1`.
    pub(super) fn follows(&mut self, conversation: &Conversation, n_known: usize, row: &Row) -> bool {
        let Some(entry) = conversation.entries().get(n_known.wrapping_sub(1)) else { return false };
        self.line(entry, conversation).is_ok_and(|line| {
            let content = line.content.map(|content| content.hash.to_vec());
            (line.kind, line.number, line.tokens, &content) == (row.kind, row.number, row.tokens, &row.hash)
        })
    }

    /// Rebuilds the state from `rows`, which are the log's in order, and the checkpoint's own columns.
    pub(super) fn snapshot(
        &mut self,
        agent: AgentId,
        rows: Vec<Row>,
        configuration: &[u8],
        state: &[u8],
    ) -> Result<ContextSnapshot, String> {
        let mut reader = LogReader::default();
        for row in rows {
            let entry = self.entry(row, &reader)?;
            reader.take(entry).map_err(|error| error.to_string())?;
        }
        let conversation = reader.finish().map_err(|error| error.to_string())?;
        let configuration: Configuration = self.json(configuration, "the configuration")?;
        let progress: Progress = self.json(state, "the state")?;
        Ok(ContextSnapshot { agent, conversation, progress, configuration })
    }

    /// Checks that a checkpoint's own column can be read; the error describes the damage.
    pub(super) fn check_state(&mut self, state: &[u8]) -> Result<(), String> {
        self.json(state, "the state").map(|_: Progress| ())
    }

    /// Checks that a configuration can be read; the error describes the damage.
    pub(super) fn check_configuration(&mut self, body: &[u8]) -> Result<(), String> {
        self.json(body, "the configuration").map(|_: Configuration| ())
    }

    /// Reads the entry in `row`, the next one after those of `before`.
    pub(super) fn entry(&mut self, row: Row, before: &LogReader) -> Result<Entry, String> {
        let number = row.number as u64;
        match row.kind {
            UNDO => Ok(Entry::Undo(EntryId::nth(number))),
            COMPACTION => {
                let note = row.note.ok_or_else(|| format!("compaction c{number} has no content"))?;
                let note: CompactionNote = self.json(&note, &format!("compaction c{number}"))?;
                let mut replacements = Vec::new();
                for noted in note.replacements {
                    match noted {
                        NotedReplacement::New(replacement) => replacements.push(replacement),
                        NotedReplacement::TakenOver { of, first, n } => {
                            let earlier = before.compaction(of);
                            let all = earlier.map(CompactionEntry::replacements).unwrap_or_default();
                            let some = first.checked_add(n).and_then(|end| all.get(first..end));
                            let some =
                                some.ok_or_else(|| format!("compaction c{number} refers to nothing"))?;
                            replacements.extend_from_slice(some);
                        }
                    }
                }
                let id = EntryId::nth(number);
                Ok(Entry::Compaction(CompactionEntry::restored(id, replacements, note.absorbs)))
            }
            MESSAGE => {
                let missing = || format!("message m{number} has no content");
                let body = row.body.ok_or_else(missing)?;
                let json = self.unpack(&body)?;
                if Some(&hash(&json)[..]) != row.hash.as_deref() {
                    return Err(format!("message m{number} is not what was written"));
                }
                let note: Note = match &row.note {
                    Some(note) => self.json(note, &format!("the note of message m{number}"))?,
                    None => Note::default(),
                };
                let timestamp = row.made_at.map(timestamp).or(note.timestamp);
                let packed = PackedRow { body: body.into(), timestamp, metadata: note.metadata };
                let message = packed
                    .read_message(&json)
                    .map_err(|error| format!("message m{number} cannot be read: {error}"))?;
                let (id, tokens) = (MessageId::new(number), Tokens::new(row.tokens as u64));
                let counted = ContextMessage::packed(id, tokens, &message, packed);
                Ok(Entry::Message(counted))
            }
            kind => Err(format!("a line is of the unknown kind {kind}")),
        }
    }
}

/// A message as stored in its row. Most messages of a long log have left the view: they take the memory of
/// what is stored, not of what they contain, until someone reads them.
#[derive(Debug)]
struct PackedRow {
    body: Box<[u8]>,
    timestamp: Option<Timestamp>,
    metadata: Map<String, Value>,
}

impl PackedRow {
    /// Returns the message of `json` and the line's own columns.
    fn read_message(&self, json: &[u8]) -> serde_json::Result<Message> {
        let message: Message = serde_json::from_slice(json)?;
        Ok(Message { timestamp: self.timestamp, metadata: self.metadata.clone(), ..message })
    }
}

impl PackedMessage for PackedRow {
    fn unpack(&self) -> Message {
        let mut decompressor = decompressor().expect("there is memory for it");
        let json = unpack(&mut decompressor, &self.body);
        let message = json.map(|json| self.read_message(&json));
        message.expect("it was unpacked when it was read").expect("it was a message when it was read")
    }
}

/// Returns the note of a compaction; what an absorbed one wrote is only referred to.
fn note_of(entry: &CompactionEntry, conversation: &Conversation) -> CompactionNote {
    let absorbed = conversation.compactions().filter(|earlier| entry.absorbs().contains(&earlier.id()));
    let mut written: HashMap<MessageId, (EntryId, usize, &Replacement)> = HashMap::new();
    for earlier in absorbed {
        for (at, replacement) in earlier.replacements().iter().enumerate() {
            written
                .extend(replacement.replaces.first().map(|first| (*first, (earlier.id(), at, replacement))));
        }
    }
    let mut replacements: Vec<NotedReplacement> = Vec::new();
    for replacement in entry.replacements() {
        let known = replacement.replaces.first().and_then(|first| written.get(first));
        match (known.filter(|(_, _, known)| *known == replacement), replacements.last_mut()) {
            (Some((id, at, _)), Some(NotedReplacement::TakenOver { of, first, n }))
                if of == id && *first + *n == *at =>
            {
                *n += 1;
            }
            (Some((id, at, _)), _) => {
                replacements.push(NotedReplacement::TakenOver { of: *id, first: *at, n: 1 });
            }
            (None, _) => replacements.push(NotedReplacement::New(replacement.clone())),
        }
    }
    CompactionNote { absorbs: entry.absorbs().to_vec(), replacements }
}

/// Returns the key as stored in the rows.
pub(super) const fn number(key: CheckpointKey) -> i64 {
    key.as_u64() as i64
}

/// Returns the action of a row: its beginning and, where there is one, its end.
pub(super) fn action(begun: &str, ended: Option<&str>) -> Result<Action, serde_json::Error> {
    Ok(Action { begun: serde_json::from_str(begun)?, end: ended.map(serde_json::from_str).transpose()? })
}

/// Returns the time as stored in the rows; `None` if it is centuries away.
pub(super) fn nanoseconds(time: Timestamp) -> Option<i64> {
    i64::try_from(time.as_nanosecond()).ok()
}

/// Returns the time of a row.
pub(super) fn timestamp(nanoseconds: i64) -> Timestamp {
    Timestamp::from_nanosecond(nanoseconds.into()).unwrap_or(Timestamp::UNIX_EPOCH)
}

/// Returns the end of a lease in a row, by the clock of this machine, which is that of a file's writers.
pub(super) fn lease_end(nanoseconds: Option<i64>) -> Option<LeaseEnd> {
    let at = timestamp(nanoseconds?);
    Some(LeaseEnd { at, has_passed: at <= Timestamp::now() })
}

/// Returns the hash by which bytes are found.
pub(super) fn hash(bytes: &[u8]) -> Hash {
    first_half(Sha256::new().chain_update(bytes))
}

fn first_half(digest: Sha256) -> Hash {
    let whole: [u8; 32] = digest.finalize().into();
    let mut half = Hash::default();
    half.copy_from_slice(&whole[..16]);
    half
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_dictionary_is_the_one_that_stores_are_packed_with() {
        let hex = hex::encode(hash(DICTIONARY));
        assert_eq!(
            hex, "58448327612f40dad29e9eda6ae3067f",
            "another one needs another version of the schema"
        );
    }

    #[test]
    fn what_is_small_is_packed_by_the_dictionary_and_what_was_packed_without_is_read() {
        let progress = Progress { iterations: 401, turn_iterations: 17, ..Progress::default() };
        let message = Message::assistant("The dome was closed on Monday.");
        let mut plain = zstd::bulk::Compressor::new(LEVEL).unwrap();
        let mut press = Press::new().unwrap();
        for json in [serde_json::to_vec(&progress).unwrap(), serde_json::to_vec(&message).unwrap()] {
            let without = plain.compress(&json).unwrap();
            let packed = press.pack(&json);
            assert!(3 * packed.len() < 2 * without.len(), "{} and {}", packed.len(), without.len());
            assert_eq!(press.unpack(&packed), Ok(json.clone()));
            let without = [&(json.len() as u32).to_le_bytes()[..], &without].concat();
            assert_eq!(press.unpack(&without), Ok(json));
        }
    }
}
