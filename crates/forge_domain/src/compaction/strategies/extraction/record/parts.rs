//! The parts of a record's text. Apart because a record is read in parts for its passages, too, and not only
//! as a whole.

use super::{
    ERRORS, EXCERPTS, FILES, INDENT, INTERVIEW, LEFT_OUT, OLD_LINES, OLD_NAMES, SAID, STORY, Section, TASKS,
};
use crate::compaction::record_tag::{CLOSE, OPEN};

/// The part of a record that a line, or an entry of several, belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    Entry(Section),
    Task,
    File,
    Error,
    /// No content: a heading, the tags.
    Frame,
}

/// Returns the parts of a record's text: the start of each in bytes, its lines without the last line's end,
/// and what it is. An indented line belongs to the entry above it.
pub(crate) fn parts(text: &str) -> Vec<(usize, &str, Part)> {
    let (mut inside, mut is_old) = (Part::Frame, false);
    let mut parts: Vec<(usize, usize, Part)> = Vec::new();
    let mut start = 0;
    for line in text.split_inclusive('\n') {
        let (at, end) = (start, start + line.trim_end_matches('\n').len());
        start += line.len();
        let heading = match &text[at..end] {
            SAID => Some(Part::Entry(Section::Said)),
            INTERVIEW => Some(Part::Entry(Section::Interview)),
            TASKS => Some(Part::Task),
            FILES => Some(Part::File),
            ERRORS => Some(Part::Error),
            STORY => Some(Part::Entry(Section::Story)),
            EXCERPTS | OLD_LINES => Some(Part::Entry(Section::Excerpts)),
            LEFT_OUT => Some(Part::Entry(Section::LeftOut)),
            OPEN | CLOSE | "" => Some(Part::Frame),
            OLD_NAMES => {
                inside = Part::Frame;
                Some(Part::Frame)
            }
            _ => None,
        };
        is_old |= &text[at..end] == OLD_LINES;
        let goes_on = text[at..end].starts_with(INDENT)
            || (is_old && inside == Part::Entry(Section::Excerpts) && !is_old_label(&text[at..end]));
        match (heading, parts.last_mut()) {
            (Some(Part::Frame), _) => parts.push((at, end, Part::Frame)),
            (Some(heading), _) => {
                inside = heading;
                parts.push((at, end, Part::Frame));
            }
            (None, Some((_, last, Part::Entry(_)))) if goes_on => *last = end,
            (None, _) => parts.push((at, end, inside)),
        }
    }
    parts.into_iter().map(|(at, end, part)| (at, &text[at..end], part)).collect()
}

/// Checks whether a line is a label above lines of an old record: a message's and the author's word.
fn is_old_label(line: &str) -> bool {
    let label = line.strip_prefix('m').and_then(|line| line.strip_suffix(':'));
    label
        .and_then(|label| label.split_once(' '))
        .is_some_and(|(id, of)| !id.is_empty() && id.bytes().all(|b| b.is_ascii_digit()) && !of.contains(' '))
}
