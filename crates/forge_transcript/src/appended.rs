//! Compactions that Forge appended to a file, and the way back.

use std::borrow::Cow;

use forge_domain::Replacement;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::codec::{Addition, Revision, is_packed};
use crate::formats::codec;
use crate::json_text::parse;
use crate::{Draft, RewriteError};

/// The beginning of the key that marks a line as appended. It is the last of its line.
const MARK: &str = "\"forge\":{\"compaction\":";

/// The reasons why a compaction cannot be taken back.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// Nothing was appended.
    #[error("the file has no compaction that `forge compact --in-place` appended")]
    Nothing,
    /// There are lines after those that were appended.
    #[error(
        "its agent has continued the session after the compaction: {lines} follow it, and undoing would lose them"
    )]
    Continued {
        /// The number of lines, in words.
        lines: String,
        /// The length of the file before the compaction.
        bytes: usize,
    },
    /// The file differs before the lines that were appended.
    #[error("the lines before the compaction were changed since, so the earlier file cannot be restored")]
    Changed,
}

/// The mark of the first line that was appended.
#[derive(Deserialize)]
struct Mark {
    /// The number of lines that were appended.
    lines: usize,
    /// The length of the file before.
    bytes: usize,
    /// The SHA-256 of the file before, in hexadecimal digits.
    sha256: String,
}

impl Draft<'_> {
    /// Returns the file with a compaction appended in its agent's own form. Every byte of `bytes`, the file
    /// that the session was read from, stays. If there is nothing to replace, the result is `bytes`.
    ///
    /// # Errors
    /// [`RewriteError`] if the format has no such record, the file is compressed, or a message has no form in
    /// that format.
    pub fn append<'b>(
        &self,
        bytes: &'b [u8],
        replacements: &[Replacement],
        pre_tokens: u64,
        now: Timestamp,
    ) -> Result<Cow<'b, [u8]>, RewriteError> {
        if is_packed(bytes) {
            return Err(RewriteError::Append("the file is compressed; unpack it first with `zstd -d`"));
        }
        let addition = Addition { revision: self.revision(bytes, replacements), now, pre_tokens };
        let lines = codec(self.format()).append(&addition)?;
        if replacements.is_empty() {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut out = bytes.to_vec();
        if !bytes.ends_with(b"\n") {
            out.push(b'\n');
        }
        let mark = json!({ "lines": lines.len(), "bytes": bytes.len(), "sha256": sha256(bytes) });
        for (place, line) in lines.iter().enumerate() {
            let Some(open) = line.strip_suffix('}') else { return Err(RewriteError::OtherFile) };
            let mark = if place == 0 { mark.to_string() } else { "null".to_owned() };
            out.extend_from_slice(format!("{open},{MARK}{mark}}}}}\n").as_bytes());
        }
        Ok(Cow::Owned(out))
    }

    fn revision<'l>(&'l self, bytes: &'l [u8], replacements: &'l [Replacement]) -> Revision<'l> {
        Revision {
            session: self.session,
            nth: self.nth,
            start: self.start,
            items: &self.items,
            lines: self.lines(replacements),
            bytes,
            to: self.format(),
        }
    }
}

/// Checks whether a record was appended by Forge.
pub(crate) fn is_appended(raw: &str) -> bool {
    raw.contains(MARK) && mark_of(raw).is_some()
}

/// Returns the file as it was before the compaction that was appended to it last.
///
/// # Errors
/// [`UndoError`] if there is none, or more than its lines would be lost.
pub fn undo_appended(bytes: &[u8]) -> Result<&[u8], UndoError> {
    let mut end = bytes.len();
    let mut after = 0;
    while end > 0 {
        let start = bytes[..end - 1].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let line = std::str::from_utf8(&bytes[start..end]).unwrap_or_default();
        if let Some(Some(mark)) = mark_of(line) {
            return before(bytes, start, after, &mark);
        }
        after += 1;
        end = start;
    }
    Err(UndoError::Nothing)
}

/// Returns what precedes the line at `start`, which `mark` marks and `after` lines follow.
fn before<'b>(bytes: &'b [u8], start: usize, after: usize, mark: &Mark) -> Result<&'b [u8], UndoError> {
    let earlier = bytes.get(..mark.bytes).filter(|_| mark.bytes <= start).ok_or(UndoError::Changed)?;
    if bytes[mark.bytes..start].iter().any(|byte| *byte != b'\n') || sha256(earlier) != mark.sha256 {
        return Err(UndoError::Changed);
    }
    match (after + 1).saturating_sub(mark.lines) {
        0 => Ok(earlier),
        more => {
            let lines = forge_domain::quantity(more, "line");
            Err(UndoError::Continued { lines, bytes: mark.bytes })
        }
    }
}

/// Returns the mark of a line that was appended; the inner one is only in the first line.
fn mark_of(line: &str) -> Option<Option<Mark>> {
    if !line.contains(MARK) {
        return None;
    }
    let fields: Value = parse(line).ok()?;
    let mark = fields.get("forge")?.get("compaction")?;
    Some(serde_json::from_value(mark.clone()).ok())
}

fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
