//! A session that begins with the messages of another.

use forge_domain::Message;
use jiff::{SignedDuration, Timestamp};

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
