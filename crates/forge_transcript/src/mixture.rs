//! Files of lines in which another format begins: its messages would be lost without a word.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};

use crate::codec::{Codec, Evidence, Fields, each_record};
use crate::formats::formats;
use crate::{Format, TranscriptError};

/// The kinds of records of a file that was recognized as one format.
pub(crate) struct Mixture {
    own: &'static dyn Codec,
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
        Self { own, kinds: HashSet::new(), n_lines: 0, first_own: None, other: None }
    }

    /// Looks at the next line. Returns whether more have to be seen.
    pub(crate) fn look(&mut self, line: &str) -> bool {
        self.n_lines += 1;
        each_record(line, &mut |record| self.look_at(record));
        self.other.is_none() || self.first_own.is_none()
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

    /// Returns the error that names the line at which the second format begins, if there is one.
    pub(crate) fn into_result(self, origin: &str) -> Result<(), TranscriptError> {
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

/// Returns a number for the keys and the type of a record.
fn kind(fields: &Fields<'_>) -> u64 {
    let mut hasher = DefaultHasher::new();
    for (key, _) in &fields.0 {
        key.hash(&mut hasher);
    }
    fields.get("type").hash(&mut hasher);
    hasher.finish()
}
