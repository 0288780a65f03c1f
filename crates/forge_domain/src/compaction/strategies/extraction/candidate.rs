//! The lines that may be in a record, with the terms that make them worth it.

use super::record::reads_as_frame;
use super::source::{Source, Sources};
use crate::compaction::features::{Features, Line};
use crate::{ContextMessage, Tokens};

/// A line of a message that may be in the record: its place, and what is asked of all lines repeatedly.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate {
    /// Position of its message.
    pub(super) message: u32,
    /// Its number among the lines of its message.
    pub(super) nth: u32,
    n_bytes: u16,
    is_like_a_heading: bool,
}

impl Candidate {
    pub(super) fn text<'a>(&self, messages: &'a [ContextMessage]) -> &'a str {
        let (features, line) = self.features(messages);
        features.line(line)
    }

    /// Returns the features of its message and of itself.
    pub(super) fn features<'a>(&self, messages: &'a [ContextMessage]) -> (&'a Features, &'a Line) {
        let features = messages[self.message as usize].features();
        (features, &features.lines[self.nth as usize])
    }

    pub(super) fn n_bytes(&self) -> usize {
        self.n_bytes.into()
    }

    /// Checks whether it cannot be put into a record unchanged.
    pub(super) fn is_barred(&self, messages: &[ContextMessage]) -> bool {
        self.is_like_a_heading && reads_as_frame(self.text(messages))
    }
}

/// A candidate that is chosen.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) line: Candidate,
    /// Its place among the candidates.
    pub(super) index: usize,
    /// The cost of the line.
    pub(super) tokens: Tokens,
}

/// The candidate lines with the numbers of their terms, close together: they are read repeatedly.
#[derive(Default)]
pub(super) struct Candidates {
    lines: Vec<Candidate>,
    terms: Vec<u32>,
    /// The ends of each line's terms.
    ends: Vec<u32>,
}

/// The approximate number of terms of a line.
const ABOUT_TERMS: usize = 6;

impl Candidates {
    /// Returns the lines of those `messages` that `leaves`, and separately those that are bare names of
    /// earlier records; `numbers` returns the numbers of a message's terms.
    pub(super) fn of<'a>(
        messages: &[ContextMessage],
        leaves: &[bool],
        sources: &Sources,
        numbers: impl Fn(usize) -> &'a [u32],
    ) -> (Self, Self) {
        let leaving = || messages.iter().enumerate().filter(|(position, _)| leaves[*position]);
        let n_lines = leaving().map(|(_, message)| message.features().lines.len()).sum();
        let (mut lines, mut names) = (Self::with_capacity(n_lines), Self::default());
        for (position, message) in leaving() {
            let (features, numbers) = (message.features(), numbers(position));
            let record = sources.record(position);
            for (nth, line) in features.lines.iter().enumerate() {
                let of = match record.map(|lines| &lines[nth]) {
                    Some(Source::Frame) => continue,
                    Some(Source::Name) => &mut names,
                    Some(Source::Line(_)) | None => &mut lines,
                };
                of.lines.push(Candidate {
                    message: position as u32,
                    nth: nth as u32,
                    n_bytes: line.n_bytes(),
                    is_like_a_heading: line.is_like_a_heading,
                });
                of.terms.extend(features.places(line).iter().map(|place| numbers[*place as usize]));
                of.ends.push(of.terms.len() as u32);
            }
        }
        (lines, names)
    }

    fn with_capacity(n_lines: usize) -> Self {
        Self {
            lines: Vec::with_capacity(n_lines),
            terms: Vec::with_capacity(n_lines * ABOUT_TERMS),
            ends: Vec::with_capacity(n_lines),
        }
    }

    pub(super) fn lines(&self) -> &[Candidate] {
        &self.lines
    }

    /// Returns the numbers of the terms of the line at `index`.
    pub(super) fn terms(&self, index: usize) -> &[u32] {
        let begin = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.terms[begin as usize..self.ends[index] as usize]
    }
}
