//! The mark of the lines that Forge appended to another agent's file.

use serde::Deserialize;
use serde_json::Value;

use crate::json_text::parse;

/// The beginning of the key that marks a line as appended. It is the last of its line.
pub(crate) const MARK: &str = "\"forge\":{\"compaction\":";

/// The mark of the first line that was appended.
#[derive(Deserialize)]
pub(crate) struct Mark {
    /// The number of lines that were appended.
    pub(crate) lines: usize,
    /// The length of the file before.
    pub(crate) bytes: usize,
    /// The SHA-256 of the file before, in hexadecimal digits.
    pub(crate) sha256: String,
}

/// Checks whether a record was appended by Forge.
pub(crate) fn is_appended(raw: &str) -> bool {
    raw.contains(MARK) && mark_of(raw).is_some()
}

/// Returns the mark of a line that was appended; the inner one is only in the first line.
pub(crate) fn mark_of(line: &str) -> Option<Option<Mark>> {
    if !line.contains(MARK) {
        return None;
    }
    let fields: Value = parse(line).ok()?;
    let mark = fields.get("forge")?.get("compaction")?;
    Some(serde_json::from_value(mark.clone()).ok())
}
