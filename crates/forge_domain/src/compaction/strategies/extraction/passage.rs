//! The passages that may be in a record: contiguous lines of one message, long enough to stand alone.

use super::record::{Part, Section, parts};
use crate::ContextMessage;
use crate::compaction::features::{Features, Line};

/// A passage: contiguous lines of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Passage {
    /// Position of its message.
    pub(super) message: u32,
    /// Its bytes in the message's text; whole lines but for the pieces of very long ones.
    pub(super) start: u32,
    pub(super) end: u32,
    /// Its part of the lines that have any term.
    pub(super) lines_from: u32,
    pub(super) lines_to: u32,
    pub(super) origin: Origin,
}

/// The author of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The person.
    Person,
    /// The agent, in its own words.
    Agent,
    /// A tool, or the agent in a call.
    Work,
    /// An earlier record, whose entry it is.
    Record(Section),
}

/// Most bytes of a passage of work.
const WORK_BYTES: u32 = 420;
/// Most lines of it.
const WORK_LINES: u32 = 8;
/// Most bytes of a passage of what somebody says: most statements are shorter.
const SAID_BYTES: u32 = 560;
/// From so many bytes on, an empty line ends a passage.
const WHOLE_BYTES: u32 = 120;

impl Passage {
    pub(super) fn text<'a>(&self, messages: &'a [ContextMessage]) -> &'a str {
        &messages[self.message as usize].features().text[self.start as usize..self.end as usize]
    }

    pub(super) fn lines<'a>(&self, features: &'a Features) -> &'a [Line] {
        &features.lines[self.lines_from as usize..self.lines_to as usize]
    }

    pub(super) const fn n_bytes(&self) -> u32 {
        self.end - self.start
    }
}

/// Returns the passages of the message at `position`, whose author is `origin`.
pub(super) fn passages(message: &ContextMessage, position: usize, origin: Origin) -> Vec<Passage> {
    let features = message.features();
    let mut passages: Vec<Passage> = Vec::new();
    let mut was_call = false;
    for (nth, line) in features.lines.iter().enumerate() {
        // The first line of a call is told with how the call ended.
        if line.is_call && !continues(&features.text, line.start, message) {
            was_call = false;
            continue;
        }
        let origin = if line.is_call { Origin::Work } else { origin };
        let (most_bytes, most_lines) = match origin {
            Origin::Work => (WORK_BYTES, WORK_LINES),
            Origin::Person | Origin::Agent | Origin::Record(_) => (SAID_BYTES, u32::MAX),
        };
        let goes_on = passages.last().is_some_and(|last| {
            let gap = &features.text[last.end as usize..line.start as usize];
            was_call == line.is_call
                && line.end - last.start <= most_bytes
                && nth as u32 - last.lines_from < most_lines
                && !(last.n_bytes() >= WHOLE_BYTES && gap.matches('\n').count() > 1)
        });
        was_call = line.is_call;
        match passages.last_mut().filter(|_| goes_on) {
            Some(last) => (last.end, last.lines_to) = (line.end, nth as u32 + 1),
            None => passages.push(Passage {
                message: position as u32,
                start: indented_start(&features.text, line.start),
                end: line.end,
                lines_from: nth as u32,
                lines_to: nth as u32 + 1,
                origin,
            }),
        }
    }
    passages
}

/// Returns the entries of the record at `position` as passages.
pub(super) fn passages_of_record(record: &ContextMessage, position: usize) -> Vec<Passage> {
    let features = record.features();
    let mut next = 0;
    let entries = parts(&features.text).into_iter().filter_map(|(start, text, part)| match part {
        Part::Entry(section) => Some((start as u32, (start + text.len()) as u32, section)),
        Part::Task | Part::File | Part::Error | Part::Frame => None,
    });
    entries
        .map(|(start, end, section)| {
            let from = features.lines[next..].iter().take_while(|line| line.start < start).count() + next;
            next = features.lines[from..].iter().take_while(|line| line.start < end).count() + from;
            Passage {
                message: position as u32,
                start,
                end,
                lines_from: from as u32,
                lines_to: next as u32,
                origin: Origin::Record(section),
            }
        })
        .collect()
}

/// Checks whether a line of a call does not begin with the tool's name, as a call's first line does.
fn continues(text: &str, start: u32, message: &ContextMessage) -> bool {
    let line = &text[start as usize..];
    !message.message().calls().iter().any(|call| {
        line.strip_prefix(call.name.as_str())
            .is_some_and(|rest| rest.is_empty() || rest.starts_with([' ', '\n']))
    })
}

/// Returns the start of the line's indentation.
fn indented_start(text: &str, start: u32) -> u32 {
    let before = &text[..start as usize];
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    if before[line..].chars().all(char::is_whitespace) { line as u32 } else { start }
}
