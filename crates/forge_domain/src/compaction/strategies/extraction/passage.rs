//! The passages that may be in a record: contiguous lines of one message, long enough to stand alone.

use super::imports::Imports;
use super::listing::{has_hardly_a_word, is_bare, is_field, is_listing, is_name};
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
    /// True if most of it is not, or no longer, in the file that it is of.
    pub(super) is_outdated: bool,
    /// True if it only names things, what a file uses, or one below the other, or has no words.
    pub(super) only_names: bool,
    /// True if it is code in one of the agent's newest texts: it is told with them, and states nothing.
    pub(super) is_code: bool,
}

/// The author of a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// The user.
    User,
    /// The agent, in its own words.
    Agent,
    /// The agent, in a block of code.
    Code,
    /// A tool, or the agent in a call.
    Work,
    /// An earlier record, whose entry it is.
    Record(Section),
}

/// Most bytes of a passage of work.
pub(super) const WORK_BYTES: u32 = 420;
/// Most lines of it.
pub(super) const WORK_LINES: u32 = 8;

impl Passage {
    pub(super) fn text<'a>(&self, messages: &'a [ContextMessage]) -> &'a str {
        &messages[self.message as usize].features().text[self.start as usize..self.end as usize]
    }

    pub(super) fn lines<'a>(&self, features: &'a Features) -> &'a [Line] {
        &features.lines[self.lines_from as usize..self.lines_to as usize]
    }

    /// Returns the passage of the same message that begins with the line of such a number, of at most so many
    /// lines, and as long as one of work may be.
    pub(super) fn moved(&self, features: &Features, lines_from: u32, most_lines: u32) -> Self {
        let lines = &features.lines[lines_from as usize..];
        let start = indented_start(&features.text, lines[0].start);
        let mut imports = Imports::default();
        let mut fits = |(nth, line): &(usize, &Line)| {
            let is_import = imports.pass(&features.text, line);
            (*nth as u32) < most_lines
                && !(is_import && *nth > 0)
                && line.end - start <= WORK_BYTES
                && line.is_call == lines[0].is_call
                && !(line.begins_call && *nth > 0)
                && !line.is_old
                && !is_omission(features.line(line))
        };
        let n_lines = lines.iter().enumerate().take_while(|line| fits(line)).count().max(1);
        Self {
            start,
            end: lines[n_lines - 1].end,
            lines_from,
            lines_to: lines_from + n_lines as u32,
            ..*self
        }
    }

    /// Marks it if it is a listing in `text`, the text of its message: a listing that the agent writes is
    /// not a statement.
    pub(super) fn note_listing(&mut self, text: &str) {
        let text = &text[self.start as usize..self.end as usize];
        match self.origin {
            Origin::Agent if is_listing(text, is_bare) || is_listing(text, is_field) => {
                self.origin = Origin::Code;
            }
            Origin::Agent => self.only_names |= is_listing(text, is_name),
            Origin::Work => self.only_names |= is_listing(text, is_name) || has_hardly_a_word(text),
            _ => (),
        }
    }

    /// Checks whether it is out of date, or only names things.
    pub(super) const fn tells_little(&self) -> bool {
        self.is_outdated || self.only_names
    }

    /// Returns its lines as passages, each with the lines below it that are indented deeper, if the agent
    /// says it; else all of it as one.
    pub(super) fn by_items(&self, features: &Features) -> Vec<Self> {
        let lines = self.lines(features);
        let indent = |line: &Line| line.start - indented_start(&features.text, line.start);
        let least = lines.iter().map(indent).min().unwrap_or(0);
        let mut parts: Vec<Self> = Vec::new();
        for (line, nth) in lines.iter().zip(self.lines_from..) {
            // The last line may be cut before an announcement.
            let end = line.end.min(self.end);
            match parts.last_mut().filter(|_| indent(line) > least || self.origin != Origin::Agent) {
                Some(part) => (part.end, part.lines_to) = (end, nth + 1),
                None => {
                    let start = indented_start(&features.text, line.start);
                    parts.push(Self { start, end, lines_from: nth, lines_to: nth + 1, ..*self });
                }
            }
        }
        parts
    }

    /// Returns its parts between the lines that `leaves` is true of.
    pub(super) fn without(&self, features: &Features, leaves: impl Fn(&Line) -> bool) -> Vec<Self> {
        let mut parts: Vec<Self> = Vec::new();
        let mut goes_on = false;
        for (line, nth) in self.lines(features).iter().zip(self.lines_from..) {
            if leaves(line) {
                goes_on = false;
                continue;
            }
            let end = line.end.min(self.end);
            match parts.last_mut().filter(|_| goes_on) {
                Some(part) => (part.end, part.lines_to) = (end, nth + 1),
                None => {
                    let is_first = nth == self.lines_from;
                    let start =
                        if is_first { self.start } else { indented_start(&features.text, line.start) };
                    parts.push(Self { start, end, lines_from: nth, lines_to: nth + 1, ..*self });
                }
            }
            goes_on = true;
        }
        parts
    }

    /// Checks whether it is what the agent says in the message at `position`.
    pub(super) fn is_said_at(&self, position: usize) -> bool {
        self.message as usize == position && self.origin == Origin::Agent
    }

    /// Checks whether the byte at a position of the message's text is in it.
    pub(super) fn holds(&self, at: u32) -> bool {
        (self.start..self.end).contains(&at)
    }

    pub(super) const fn n_lines(&self) -> usize {
        (self.lines_to - self.lines_from) as usize
    }

    pub(super) const fn n_bytes(&self) -> u32 {
        self.end - self.start
    }
}

/// Returns the passage without the known lines at its start and its end; `None` if nothing is left.
pub(super) fn without_known(
    passage: Passage,
    features: &Features,
    is_known: impl Fn(&str) -> bool,
) -> Option<Passage> {
    let lines = passage.lines(features);
    let is_new = |line: &Line| !is_known(features.line(line).trim());
    let (first, last) = (lines.iter().position(is_new)?, lines.iter().rposition(is_new)?);
    let mut new = passage;
    if first > 0 {
        new.start = indented_start(&features.text, lines[first].start);
        new.lines_from += first as u32;
    }
    if last + 1 < lines.len() {
        new.end = lines[last].end;
        new.lines_to = passage.lines_from + last as u32 + 1;
    }
    Some(new)
}

/// Returns the passages of a message in which the agent shows a plan that a later one replaced: of the plan,
/// its first line.
pub(super) fn naming_plan(passages: Vec<Passage>, features: &Features) -> Vec<Passage> {
    let mut is_named = false;
    let named = passages.into_iter().filter_map(|mut passage| {
        let first = passage.lines(features).first()?;
        if !first.is_call || !matches!(passage.origin, Origin::Agent | Origin::Code) {
            return Some(passage);
        }
        (passage.end, passage.lines_to) = (first.end.min(passage.end), passage.lines_from + 1);
        let is_first = !is_named;
        is_named = true;
        is_first.then_some(passage)
    });
    named.collect()
}

/// Returns the passages of a note without the lines that are told elsewhere: what a harness says in one note
/// need not belong together.
pub(super) fn new_in_note(
    passages: &[Passage],
    features: &Features,
    is_told: impl Fn(&str) -> bool,
) -> Vec<Passage> {
    let leaves = |line: &Line| is_told(features.line(line).trim());
    passages.iter().flat_map(|passage| passage.without(features, leaves)).collect()
}

/// Checks whether a passage is all that the user says in a message, or an entry of one line.
pub(super) fn is_said_whole(passage: &Passage, sources: &[ContextMessage]) -> bool {
    match passage.origin {
        Origin::User => ends_at(passage, sources) == [true; 2],
        Origin::Record(Section::Said | Section::Interview) => !passage.text(sources).contains('\n'),
        _ => false,
    }
}

/// Returns whether a passage begins with its message, and whether it ends with it.
pub(super) fn ends_at(passage: &Passage, sources: &[ContextMessage]) -> [bool; 2] {
    let n_lines = sources[passage.message as usize].features().lines.len();
    [passage.lines_from == 0, passage.lines_to as usize == n_lines]
}

/// Checks whether a line is a row of a table in Markdown.
pub(super) fn is_row(line: &str) -> bool {
    line.starts_with('|')
}

/// Checks whether a line only says that an earlier compaction cut a text there.
pub(super) fn is_omission(line: &str) -> bool {
    line.starts_with("[... ") && line.ends_with(" omitted ...]")
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
                is_outdated: false,
                only_names: false,
                is_code: false,
            }
        })
        .collect()
}

/// Returns the start of the line's indentation.
pub(super) fn indented_start(text: &str, start: u32) -> u32 {
    // No more than the indentation is read: a line may be as long as a text, and have many pieces.
    let before = text[..start as usize].trim_end_matches(|c: char| c.is_whitespace() && c != '\n');
    if before.is_empty() || before.ends_with('\n') { before.len() as u32 } else { start }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::cutting::passages;
    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::{Message, ToolCall, ToolName, ToolResult};

    #[test]
    fn a_line_begins_with_its_indentation() {
        for (text, start, expected) in [
            ("a\n  b", 4, 2),
            ("  b", 2, 0),
            ("b", 0, 0),
            ("a b", 2, 2),
            ("a\n\nb", 3, 3),
            ("a\r\n\tb", 4, 3),
        ] {
            assert_eq!(indented_start(text, start), expected, "{text}");
        }
    }

    #[test]
    fn the_last_line_of_a_passage_ends_with_it() {
        let text = "1. The door is open.\n2. The key is lost. Now I look.";
        let message = ContextMessage::count(Message::assistant(text), &Characters);
        let n_lines = message.features().lines.len();
        let [whole] = passages(&message, 0, Origin::Agent, 0..n_lines, None)[..] else {
            panic!("not one passage")
        };
        let cut = Passage { end: text.find(" Now").unwrap() as u32, ..whole };
        let items = cut.by_items(message.features());
        let lines: Vec<&str> = items.iter().map(|line| line.text(std::slice::from_ref(&message))).collect();
        assert_eq!(lines, ["1. The door is open.", "2. The key is lost."]);
    }

    #[test]
    fn what_only_names_things_is_told_apart() {
        let of_result = |text: &str| {
            let call =
                ToolCall { id: "c".into(), name: ToolName::new("Read").unwrap(), arguments: "{}".into() };
            let message = ContextMessage::count(Message::tool(ToolResult::answer(&call, text)), &Characters);
            passages(&message, 0, Origin::Work, 0..message.features().lines.len(), None)
        };
        for (text, expected) in [
            ("src/a.rs\nsrc/b.rs\n./tests/\nREADME.md", true),
            ("├── door_keys/\n├── gate_keys/\n└── documents/\n    └── index.md", true),
            ("- `index`\n- `inequality`\n- `infrastructure`\n- `land-reform`", true),
            ("* [Home](index.html)\n* [Menu](menu.html)\n* [Docs](docs.html)\n* [News](news.html)", true),
            ("  1\tindexing\n  2\tlancets\n  3\tlandscape\n  4\tlawyers", true),
            ("depth=12\nwidth=40\nheight=9\ncolour=red", false),
            ("a,12,9\nb,13,8\nc,14,7\nd,15,6", false),
            ("open the door\nturn the key\npush it twice\nclose it", false),
            ("扉を開ける\n鍵を回す\n二度押す\n閉める", false),
            ("src/a.rs\nsrc/b.rs", false),
        ] {
            let found = of_result(text);
            assert!(found.iter().all(|passage| passage.only_names == expected), "{text}");
        }
        let file =
            "*** Add File: a.go\nimport (\n\t\"errors\"\n\t\"strings\"\n)\n\nfunc open(door string) {\n";
        let call = ToolCall { id: "c".into(), name: ToolName::new("Read").unwrap(), arguments: "{}".into() };
        let message = ContextMessage::count(Message::tool(ToolResult::answer(&call, file)), &Characters);
        let first = of_result(file)[0].moved(message.features(), 0, WORK_LINES);
        assert_eq!(first.text(std::slice::from_ref(&message)), "*** Add File: a.go");
    }
}
