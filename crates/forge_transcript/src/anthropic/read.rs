//! Messages as recordings of Anthropic's protocol have them.

use forge_domain::Message;
use forge_wire::WireError;
use forge_wire::anthropic::{read_entry, read_system};
use serde_json::Value;

use crate::codec::{Input, MessageList};
use crate::json_text::parse;
use crate::session::Names;
use crate::written::split;
use crate::{Record, TranscriptError, foreign, parts};

/// Reads the records of `list`. The system prompt is the first, if there is one.
pub(super) fn records(list: &MessageList<'_>, input: &Input<'_>) -> Result<Vec<Record>, TranscriptError> {
    let mut reader = Entries::new(input.origin);
    let mut records = Vec::with_capacity(list.entries.len() + 1);
    if let Some(system) = list.system {
        records.push(system_record(system.get(), input.origin)?);
    }
    for entry in &list.entries {
        records.push(input.shelf.put(entry.get(), reader.read(entry.get())?, read_again));
    }
    Ok(records)
}

/// Returns the record of the system prompt, which is `text`.
pub(super) fn system_record(text: &str, origin: &str) -> Result<Record, TranscriptError> {
    let read = |value: Value| {
        parts::are_anthropic(Some(&value), "system")?;
        read_system(value)
    };
    let message = value(text)
        .and_then(read)
        .map_err(|source| TranscriptError::entry(origin, "system", 0, text, source))?;
    Ok(Record::new(text, vec![message]))
}

/// A reader of the entries of `messages`, one by one.
pub(super) struct Entries<'o> {
    origin: &'o str,
    n_read: usize,
    names: Names,
}

impl<'o> Entries<'o> {
    /// Creates a reader of the entries in the file `origin`.
    pub(super) fn new(origin: &'o str) -> Self {
        Self { origin, n_read: 0, names: Names::default() }
    }

    /// Reads the next entry, which is `text`.
    pub(super) fn read(&mut self, text: &str) -> Result<Record, TranscriptError> {
        let index = self.n_read;
        self.n_read += 1;
        let mut messages = value(text)
            .and_then(read_recorded)
            .map_err(|source| TranscriptError::entry(self.origin, "messages", index, text, source))?;
        self.names.name(&mut messages);
        Ok(Record::new(text, messages))
    }
}

/// Reads the messages of an entry. A block that the protocol does not have is refused: its text would not be
/// counted.
fn read_recorded(value: Value) -> Result<Vec<Message>, WireError> {
    if let Some((key, _)) = value.as_object().and_then(foreign::telling_key) {
        let what = "is not a key of an Anthropic message, and holds its content".to_owned();
        return Err(WireError::Shape { at: key.to_owned(), what });
    }
    parts::are_anthropic(value.get("content"), "content")?;
    Ok(read_entry(value)?.into_iter().flat_map(split).collect())
}

fn value(text: &str) -> Result<Value, WireError> {
    parse(text).map_err(|source| WireError::Json { source })
}

/// Reads the messages of an entry that was read before, without what the entries before it say.
fn read_again(text: &str) -> Vec<Message> {
    value(text).and_then(read_recorded).unwrap_or_default()
}
