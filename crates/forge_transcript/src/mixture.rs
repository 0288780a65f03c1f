//! Files of lines in which another format begins: its messages would be lost without a word.
//!
//! A session of many megabytes has a few kinds of records, so a look at a line must cost little: its outer
//! keys and its type are found without parsing it. Only the first line of each kind is parsed.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use memchr::memchr2;

use crate::codec::{Codec, Evidence, Fields, LineCheck, each_record};
use crate::formats::formats;
use crate::{Format, TranscriptError};

/// The kinds of records of a file that was recognized as one format.
pub(crate) struct Mixture {
    own: &'static dyn Codec,
    /// The looks of the lines that are known.
    looks: HashSet<u64>,
    /// The kinds that were looked at: records of one kind have the same keys and the same type.
    kinds: HashSet<u64>,
    n_lines: usize,
    /// The first line of its own format.
    first_own: Option<usize>,
    /// The first line of another format.
    other: Option<(usize, Format)>,
}

impl Mixture {
    /// Creates the mixture of a file of `own`, of which no line was seen.
    pub(crate) fn new(own: &'static dyn Codec) -> Self {
        Self { own, looks: HashSet::new(), kinds: HashSet::new(), n_lines: 0, first_own: None, other: None }
    }

    fn look_at(&mut self, record: &str) {
        let fields = Fields::of(record);
        if fields.0.is_empty() || !self.kinds.insert(kind(&fields)) {
            return;
        }
        // A document of one record has other signs than a file with many.
        let pair = format!("{record}\n{record}");
        let evidence = Evidence::of(pair.as_bytes());
        if self.own.detect(&evidence) {
            self.first_own.get_or_insert(self.n_lines);
        } else if self.other.is_none() && self.own.is_lost(record) {
            let other = formats().rev().find(|codec| codec.detect(&evidence));
            self.other = other.map(|codec| (self.n_lines, codec.format()));
        }
    }
}

impl LineCheck for Mixture {
    fn look(&mut self, line: &str) -> bool {
        self.n_lines += 1;
        let looks = looks(line);
        if self.looks.contains(&looks) {
            return true;
        }
        let invalid = each_record(line, &mut |record| self.look_at(record));
        // After an invalid record, the rest of the line was not looked at.
        if invalid == 0 {
            self.looks.insert(looks);
        }
        self.other.is_none() || self.first_own.is_none()
    }

    fn restart(&mut self) {
        *self = Self::new(self.own);
    }

    /// Returns the error that names the line at which the second format begins, if there is one.
    fn result(&self, origin: &str) -> Result<(), TranscriptError> {
        let Some((line, other)) = self.other else { return Ok(()) };
        let own = self.own.format();
        let (line, earlier, later) = match self.first_own {
            Some(first) if first > line => (first, other, own),
            _ => (line, own, other),
        };
        Err(TranscriptError::Mixed {
            origin: origin.to_owned(),
            line,
            before: line.saturating_sub(1),
            earlier: earlier.0.name,
            later: later.0.name,
        })
    }
}

/// Returns a number for the looks of a line: the outer keys and the type of each record in it, in their
/// order. Two valid lines that look the same have records of the same kinds. The line is not checked.
fn looks(line: &str) -> u64 {
    let bytes = line.as_bytes();
    let mut hasher = DefaultHasher::new();
    let (mut depth, mut at) = (0_usize, 0);
    let (mut is_key, mut is_type) = (false, false);
    while let Some(byte) = bytes.get(at) {
        let start = at;
        at = if *byte == b'"' { string_end(bytes, at) } else { at + 1 };
        match byte {
            b'"' if depth == 1 && is_key => {
                bytes[start..at].hash(&mut hasher);
                is_type = &bytes[start..at] == b"\"type\"";
                is_key = false;
            }
            b'{' | b'[' => {
                depth += 1;
                if depth == 1 {
                    byte.hash(&mut hasher);
                    is_key = *byte == b'{';
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    byte.hash(&mut hasher);
                    is_type = false;
                }
            }
            b',' if depth == 1 => (is_key, is_type) = (true, false),
            _ if depth == 1 && is_type => bytes[start..at].hash(&mut hasher),
            _ => {}
        }
    }
    depth.hash(&mut hasher);
    hasher.finish()
}

/// Returns the place after the string that starts at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = bytes.get(at..).and_then(|rest| memchr2(b'"', b'\\', rest)) {
        at += found + 1;
        if bytes[at - 1] == b'"' {
            return at;
        }
        at += 1;
    }
    bytes.len()
}

/// Returns a number for the keys and the type of a record.
fn kind(fields: &Fields<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (key, _) in &fields.0 {
        key.hash(&mut hasher);
    }
    fields.get("type").hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_that_look_the_same_have_the_same_kinds_of_records() {
        let line = r#"{"type":"a","n":{"x":1},"text":"say \"hi\" {"}"#;
        for (other, is_same) in [
            (r#"{"type":"a","n":[2, "y"],"text":""}"#, true),
            (r#" {"type" : "a", "n": null, "text": "\\"} "#, false),
            (r#"{"type":"b","n":{"x":1},"text":"say"}"#, false),
            (r#"{"type":"a","n":{"x":1},"test":"say"}"#, false),
            (r#"{"n":{"x":1},"type":"a","text":"say"}"#, false),
            (r#"{"type":"a","n":{"x":1}}"#, false),
            (r#"{"type":"a","n":{"x":1},"text":"say"}{"type":"a"}"#, false),
            (r#"{"type":"a","n":{"x":1},"text":"say"#, false),
            (r#"{"type":"a","n":{"x":1},"text":"say\"#, false),
            (r#"{"type":5,"n":{"x":1},"text":"say"}"#, false),
            ("[1]", false),
            ("", false),
        ] {
            assert_eq!(looks(line) == looks(other), is_same, "{other}");
        }
    }
}
