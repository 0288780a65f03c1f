//! The facts by which a format recognizes its files.

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::input::text;
use crate::arguments::object_fields;
use crate::json_text::parse;
use crate::{TranscriptError, foreign};

/// The looks of a file before it is read.
pub(crate) struct Evidence<'a> {
    /// The file. Formats that are not text recognize theirs by its first bytes.
    pub(crate) bytes: &'a [u8],
    /// The file as text, from its first visible character; empty if it is not text.
    pub(crate) text: &'a str,
    /// The structure of the text.
    pub(crate) layout: Layout<'a>,
}

/// The structure of a file.
pub(crate) enum Layout<'a> {
    /// It is one JSON list, of these items. Values stay text, which is cheap for files of many megabytes.
    List(Vec<&'a RawValue>),
    /// It is one JSON object, with these fields.
    Object(Vec<(String, &'a RawValue)>),
    /// It is other text, such as a record a line; the error is that of reading it as one value.
    Text(serde_json::Error),
    /// It is not text, or empty.
    Binary,
}

impl<'a> Evidence<'a> {
    /// Looks at a file.
    pub(crate) fn of(bytes: &'a [u8]) -> Self {
        let Ok(text) = text(bytes, "").map(str::trim_start) else {
            return Self { bytes, text: "", layout: Layout::Binary };
        };
        let layout = if text.starts_with('[') {
            serde_json::from_str(text).map(Layout::List)
        } else {
            object_fields(text).map(Layout::Object)
        };
        Self { bytes, text, layout: layout.unwrap_or_else(Layout::Text) }
    }

    /// Returns the error for a file that no format recognized: it names the format if it is a known one.
    /// `origin` names the file.
    pub(crate) fn into_error(self, origin: &str) -> TranscriptError {
        let (first, layout) = match self.layout {
            Layout::Binary => {
                return text(self.bytes, origin).err().unwrap_or(TranscriptError::unknown(origin));
            }
            Layout::List(items) => (items.first().map_or("", |item| item.get()), foreign::Layout::List),
            Layout::Object(_) => (self.text, foreign::Layout::One),
            Layout::Text(error) => match (first_json_line(self.text), foreign::of_text(self.text)) {
                (Some(first), _) => (first, foreign::Layout::Lines),
                (None, Some(foreign)) => return TranscriptError::foreign(origin, foreign, String::new()),
                (None, None) if error.is_data() => return TranscriptError::unknown(origin),
                (None, None) => return TranscriptError::json(origin, error),
            },
        };
        let fields: Option<Map<String, Value>> = parse(first).ok();
        match fields.and_then(|fields| foreign::of_document(&fields, layout)) {
            Some(foreign) => TranscriptError::foreign(origin, foreign, String::new()),
            None => TranscriptError::unknown(origin),
        }
    }
}

/// Returns the value of `key`, unless it is missing or null.
pub(crate) fn value_of<'a>(fields: &[(String, &'a RawValue)], key: &str) -> Option<&'a str> {
    let value = fields.iter().find(|(name, _)| name == key).map(|(_, value)| value.get());
    value.filter(|value| *value != "null")
}

/// Returns the first line, if it is a JSON value of its own and others follow.
fn first_json_line(text: &str) -> Option<&str> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().filter(|line| serde_json::from_str::<IgnoredAny>(line).is_ok());
    lines.next().and(first)
}
