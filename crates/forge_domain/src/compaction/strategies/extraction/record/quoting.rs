//! The form of a text in a line of a list: one that would break the line becomes a JSON string. Apart because
//! all sections but those of entries write and read their lines so.

use std::borrow::Cow;

use serde_json::json;

use super::ITEM;
use crate::compaction::features::is_line_break;

/// Returns the text in the form that a line of a list has: one that would break the line becomes a JSON
/// string, and so does one that is such a string already.
pub(super) fn quote(text: &str) -> Cow<'_, str> {
    if !text.contains(is_line_break) && json_string(text).is_none() {
        return Cow::Borrowed(text);
    }
    let mut quoted = String::with_capacity(text.len() + 8);
    for c in json!(text).to_string().chars() {
        match c {
            // JSON leaves these as they are.
            c if is_line_break(c) => quoted.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    Cow::Owned(quoted)
}

/// Returns the text that has this form in a record.
pub(in super::super) fn unquote(line: &str) -> Cow<'_, str> {
    json_string(line).map_or(Cow::Borrowed(line), Cow::Owned)
}

/// Returns the value of `text` if it is a JSON string from end to end.
pub(super) fn json_string(text: &str) -> Option<String> {
    let is_string = text.len() > 1 && text.starts_with('"') && text.ends_with('"');
    is_string.then(|| serde_json::from_str(text).ok()).flatten()
}

/// Returns the content of a list's line.
pub(super) fn item(line: &str) -> Option<String> {
    line.strip_prefix(ITEM).map(|line| unquote(line).into_owned())
}
