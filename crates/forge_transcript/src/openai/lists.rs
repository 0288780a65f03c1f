//! Formats that hold lists of chat-completions messages inside documents of their own.

use serde_json::value::RawValue;

use super::{read_records, write_entries};
use crate::codec::{Codec, Evidence, Fields, Input, Revision, file_name};
use crate::format::FormatFacts;
use crate::splice::{list_like, splice};
use crate::{Format, RewriteError, Session, TranscriptError};

/// A format that holds lists of chat-completions messages, each of them a session.
pub(crate) struct MessageLists {
    /// Its names.
    pub(crate) facts: &'static FormatFacts,
    /// Checks whether a file is of this format.
    pub(crate) detect: fn(&Evidence<'_>) -> bool,
    /// True if its agent accepts messages that no provider does.
    pub(crate) keeps_form: bool,
    /// Finds the lists of a file.
    pub(crate) lists: fn(&str) -> Result<Vec<NamedList<'_>>, serde_json::Error>,
}

/// A list of messages in a document.
pub(crate) struct NamedList<'a> {
    /// The name of the session, if the file has several.
    id: Option<String>,
    /// The place of the list in the document.
    place: String,
    /// The text of the list.
    text: &'a str,
    /// The texts of its messages.
    entries: Vec<&'a RawValue>,
    /// True if it has a message on each line, rather than being a JSON list.
    is_lines: bool,
    /// Lines that are no message, or no list.
    skipped_lines: usize,
    /// The tool schemas that stand beside the list, as compact JSON.
    tools: Option<String>,
}

impl<'a> NamedList<'a> {
    /// Reads the list that is `text`, at `place` in its document.
    pub(crate) fn of(
        id: Option<String>,
        place: impl Into<String>,
        text: &'a str,
    ) -> Result<Self, serde_json::Error> {
        let entries = serde_json::from_str(text)?;
        Ok(Self { id, place: place.into(), text, entries, is_lines: false, skipped_lines: 0, tools: None })
    }

    /// Reads the list that has a message on each line of `text`.
    pub(crate) fn of_lines(
        text: &'a str,
        lines: &[&'a str],
        skipped_lines: usize,
    ) -> Result<Self, serde_json::Error> {
        let entries: Result<Vec<&RawValue>, _> =
            lines.iter().map(|line| serde_json::from_str(line)).collect();
        let (place, entries) = ("lines".into(), entries?);
        Ok(Self { id: None, place, text, entries, is_lines: true, skipped_lines, tools: None })
    }

    /// Sets the number of lines of its file that are no list.
    pub(crate) fn skipping(self, skipped_lines: usize) -> Self {
        Self { skipped_lines, ..self }
    }

    /// Sets the tool schemas of the request that has the list.
    pub(crate) fn with_tools(self, tools: Option<String>) -> Self {
        Self { tools, ..self }
    }
}

impl Codec for MessageLists {
    fn format(&self) -> Format {
        Format(self.facts)
    }

    fn detect(&self, evidence: &Evidence<'_>) -> bool {
        (self.detect)(evidence)
    }

    fn keeps_form(&self) -> bool {
        self.keeps_form
    }

    /// Checks whether a line is passed over: among lines with conversations, one without is read as empty.
    fn is_lost(&self, record: &str) -> bool {
        let is_message = |entry: &&RawValue| Fields::of(entry.get()).contains("role");
        let is_lost = |list: &NamedList<'_>| match list.is_lines {
            true => !list.entries.iter().any(is_message),
            false => list.entries.is_empty(),
        };
        (self.lists)(record).is_ok_and(|lists| lists.iter().all(is_lost))
    }

    fn read(&self, input: &Input<'_>) -> Result<Vec<Session>, TranscriptError> {
        let lists = (self.lists)(input.text()?);
        let lists = lists.map_err(|source| TranscriptError::json(input.origin, source))?;
        let session = |list: NamedList<'_>| {
            let records = read_records(&list.entries, &list.place, input)?;
            let id = list.id.unwrap_or_else(|| file_name(input.origin).to_owned());
            let (skipped_lines, tools) = (list.skipped_lines, list.tools);
            Ok(Session { skipped_lines, tools, ..Session::new(id, input.format, records) })
        };
        lists.into_iter().map(session).collect()
    }

    fn write(&self, revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        if revision.from() != self.format() {
            return Err(revision.refuse_conversion("there is no task or run for the messages to belong to"));
        }
        let entries = write_entries(revision)?;
        let text = revision.text();
        let mut lists = (self.lists)(&text).map_err(|_| RewriteError::OtherFile)?.into_iter();
        let old = lists.nth(revision.nth).ok_or(RewriteError::OtherFile)?;
        let new = if old.is_lines { entries.join("\n") + "\n" } else { list_like(old.text, &entries) };
        splice(&text, old.text, &new).map(String::into_bytes).ok_or(RewriteError::OtherFile)
    }
}
