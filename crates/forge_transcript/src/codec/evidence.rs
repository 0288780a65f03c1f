//! The facts by which a format recognizes its files.

use serde::de::IgnoredAny;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::input::{text, zero_error};
use crate::arguments::object_fields;
use crate::fields::Fields;
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
    /// The object that it is, or the first objects of its list or of its lines.
    records: Vec<Fields<'a>>,
}

/// The number of records that are looked at.
pub(crate) const LOOKED_AT: usize = 60;

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
            return Self { bytes, text: "", layout: Layout::Binary, records: Vec::new() };
        };
        let layout = if text.starts_with('[') {
            serde_json::from_str(text).map(Layout::List)
        } else {
            object_fields(text).map(Layout::Object)
        };
        let layout = layout.unwrap_or_else(Layout::Text);
        let records = match &layout {
            Layout::Object(fields) => vec![Fields(fields.clone())],
            Layout::List(items) => items.iter().take(LOOKED_AT).map(|item| Fields::of(item.get())).collect(),
            Layout::Text(_) => text.lines().take(LOOKED_AT).map(first_fields).collect(),
            Layout::Binary => Vec::new(),
        };
        Self { bytes, text, layout, records }
    }

    /// Returns the fields of the one object that the file is; none if it is anything else.
    pub(crate) fn document(&self) -> Option<&Fields<'a>> {
        self.records.first().filter(|_| matches!(self.layout, Layout::Object(_)))
    }

    /// Returns the first lines that are objects. A file of one line has one.
    pub(crate) fn lines(&self) -> &[Fields<'a>] {
        let is_lines = matches!(self.layout, Layout::Object(_)) || self.is_text();
        if is_lines { &self.records } else { &[] }
    }

    /// Returns the first items of the list that the file is.
    pub(crate) fn list(&self) -> &[Fields<'a>] {
        if matches!(self.layout, Layout::List(_)) { &self.records } else { &[] }
    }

    /// Checks whether the file is text with a record a line, or no JSON at all.
    fn is_text(&self) -> bool {
        matches!(self.layout, Layout::Text(_)) && !self.text.starts_with('[')
    }

    /// Returns the error for a file that no format recognized: it names the format if it is a known one.
    /// `origin` names the file.
    pub(crate) fn into_error(self, origin: &str) -> TranscriptError {
        if let Some(error) = zero_error(self.bytes, origin).filter(|_| !self.text.is_empty()) {
            return error;
        }
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
                (None, None) if !self.text.starts_with(['{', '[']) => {
                    return TranscriptError::Prose { origin: origin.to_owned() };
                }
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

/// Returns the fields of the first object of a line: two records may be run together.
fn first_fields(line: &str) -> Fields<'_> {
    let mut values = serde_json::Deserializer::from_str(line).into_iter::<&RawValue>();
    values.next().and_then(Result::ok).map(|first| Fields::of(first.get())).unwrap_or_default()
}

/// Returns the first line, if it is a JSON value of its own and others follow.
fn first_json_line(text: &str) -> Option<&str> {
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    let first = lines.next().filter(|line| serde_json::from_str::<IgnoredAny>(line).is_ok());
    lines.next().and(first)
}
