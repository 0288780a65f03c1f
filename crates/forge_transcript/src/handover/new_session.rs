//! A session that begins with the messages of another.

use std::fmt::Write;

use forge_domain::Message;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::new_uuid;

/// A session that begins with the messages of another.
#[derive(Clone, Debug)]
pub struct NewSession<'a> {
    /// Its id, a UUID.
    pub id: String,
    /// The folder in which it is continued.
    pub folder: String,
    /// The time now.
    pub now: Timestamp,
    /// The model to continue with, if one was named.
    pub model: Option<String>,
    /// The messages.
    pub messages: &'a [Message],
}

impl NewSession<'_> {
    /// Returns the time of the line at `place`, in the form that agents write.
    pub(super) fn timestamp(&self, place: usize) -> String {
        let later = SignedDuration::from_millis(i64::try_from(place).unwrap_or_default());
        format!("{:.3}", self.now.checked_add(later).unwrap_or(self.now))
    }

    /// Returns a UUID that the same session always gets at `place`.
    pub(super) fn uuid(&self, place: usize) -> String {
        new_uuid(&[self.id.as_bytes(), &place.to_le_bytes()])
    }

    /// Returns the time in the names of files.
    pub(super) fn time_in_names(&self, form: &str) -> String {
        self.now.strftime(form).to_string()
    }
}

/// The lines of a new file. They are one text from the start: a large session should not be held twice.
#[derive(Default)]
pub(super) struct NewLines {
    text: String,
    n_lines: usize,
}

impl NewLines {
    /// Adds a line.
    pub(super) fn push(&mut self, line: &Value) {
        let _ = writeln!(self.text, "{line}");
        self.n_lines += 1;
    }

    /// Returns the number of lines.
    pub(super) const fn len(&self) -> usize {
        self.n_lines
    }

    /// Returns the bytes of the file.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.text.into_bytes()
    }
}
