//! The passages that may be in a record: contiguous lines of one message, long enough to stand alone.

use std::collections::HashSet;
use std::ops::Range;

use super::command_words::command_words;
use super::imports::Imports;
use super::record::{Part, Section, parts};
use crate::ContextMessage;
use crate::compaction::features::{Features, Line, SENTENCE_ENDS, is_line_break, split_number};
use crate::compaction::findings::Deed;

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
const WORK_BYTES: u32 = 420;
/// Most lines of it.
pub(super) const WORK_LINES: u32 = 8;
/// Most bytes and lines of a passage of what the agent wrote in a call: its newest work is told in one piece.
const WRITTEN_BYTES: u32 = 900;
const WRITTEN_LINES: u32 = 20;
/// Most bytes of a passage of what somebody says: most statements are shorter.
const SAID_BYTES: u32 = 560;
/// Most bytes of a table in it.
const TABLE_BYTES: u32 = 1_200;
/// Most bytes of such a passage if it would otherwise end within a sentence: the rest of a sentence says
/// nothing by itself.
const SENTENCE_BYTES: u32 = 2 * SAID_BYTES;
/// Fewer lines are no listing.
const LEAST_LISTING: usize = 4;
/// From so many bytes on, an empty line ends a passage.
const WHOLE_BYTES: u32 = 120;

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
    fn note_listing(&mut self, text: &str) {
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

/// Returns the passages of the `content` of the message at `position`, a range of its lines, whose author is
/// `origin`. A block of code in what the agent says is a passage of its own.
pub(super) fn passages(
    message: &ContextMessage,
    position: usize,
    origin: Origin,
    content: Range<usize>,
) -> Vec<Passage> {
    let features = message.features();
    let mut passages: Vec<Passage> = Vec::new();
    let mut fence = Fence::default();
    let mut imports = Imports::default();
    let is_edit = message.findings().deeds.iter().any(Deed::changes_files);
    let is_compacted = message.message().is_compacted;
    let own_words = command_words(message);
    for (nth, line) in features.lines.iter().enumerate().take(content.end).skip(content.start) {
        if is_omission(features.line(line)) || is_compacted && is_tag(features.line(line)) {
            continue;
        }
        // Text that an edit replaces is gone, or the new text has it as well.
        if line.is_old && is_edit {
            continue;
        }
        // The first line of a call is told with how the call ended, unless it is long.
        let next = features.lines.get(nth + 1).filter(|next| next.is_call);
        if line.begins_call && !next.is_some_and(|next| features.is_one_line(line, next)) {
            continue;
        }
        let start = line.start as usize;
        let own = own_words.iter().find(|own| (own.words.start..own.end).contains(&start));
        if own.is_some_and(|own| start >= own.words.end) {
            continue;
        }
        let in_code = origin == Origin::Agent && !line.is_call && fence.pass(&features.text, line);
        if fence.is_at(line) || fence.is_in_old {
            continue;
        }
        let origin = match origin {
            _ if own.is_some() => Origin::Agent,
            _ if line.is_call => Origin::Work,
            _ if in_code => Origin::Code,
            origin => origin,
        };
        let (most_bytes, most_lines) = match origin {
            Origin::Work if line.is_call => (WRITTEN_BYTES, WRITTEN_LINES),
            Origin::Work | Origin::Code => (WORK_BYTES, WORK_LINES),
            Origin::User | Origin::Agent | Origin::Record(_) => (SAID_BYTES, u32::MAX),
        };
        let is_import = origin == Origin::Work && imports.pass(&features.text, line);
        let goes_on = passages.last().is_some_and(|last| {
            let gap = &features.text[last.end as usize..line.start as usize];
            let is_said = !matches!(origin, Origin::Work | Origin::Code);
            let is_in_sentence = is_said && is_in_sentence(&features.text[..last.end as usize], gap);
            // The rows of a table say nothing without its head.
            let is_in_table =
                is_said && is_row(features.line(line)) && is_row(features.line(&features.lines[nth - 1]));
            let most_bytes = match is_in_sentence {
                true => SENTENCE_BYTES,
                false if is_in_table => TABLE_BYTES,
                false => most_bytes,
            };
            last.origin == origin
                && last.only_names == is_import
                && !line.begins_call
                && line.end - last.start <= most_bytes
                && nth as u32 == last.lines_to
                && nth as u32 - last.lines_from < most_lines
                && !(gap.as_bytes().contains(&b'`') && gap.contains(FENCE))
                && (is_in_table || !(last.n_bytes() >= WHOLE_BYTES && is_break(gap, is_said)))
        });
        match passages.last_mut().filter(|_| goes_on) {
            Some(last) => (last.end, last.lines_to) = (line.end, nth as u32 + 1),
            None => passages.push(Passage {
                message: position as u32,
                start: indented_start(&features.text, line.start),
                end: line.end,
                lines_from: nth as u32,
                lines_to: nth as u32 + 1,
                origin,
                is_outdated: false,
                only_names: is_import,
                is_code: false,
            }),
        }
    }
    if is_edit {
        retain_changed(&mut passages, features);
    }
    passages = join_sentences(passages, &features.text);
    passages.iter_mut().for_each(|passage| passage.note_listing(&features.text));
    passages
}

/// Drops what an edit leaves as it is: it shows where the edit is, and tells nothing without its change.
fn retain_changed(passages: &mut Vec<Passage>, features: &Features) {
    let old = features.lines.iter().filter(|line| line.is_old).map(|line| features.line(line));
    let old: HashSet<&str> = old.collect();
    let is_new = |line: &Line| !line.is_call || !old.contains(features.line(line));
    passages.retain(|passage| passage.lines(features).iter().any(is_new));
}

/// Most bytes of a block of code that is a part of a sentence.
const IN_SENTENCE_BYTES: u32 = 160;

/// Joins what the agent says before and after a short block of code in the middle of a sentence: neither part
/// says anything alone.
fn join_sentences(passages: Vec<Passage>, text: &str) -> Vec<Passage> {
    let mut joined: Vec<Passage> = Vec::with_capacity(passages.len());
    for passage in passages {
        let n = joined.len();
        if n < 2 || !is_one_sentence(&joined[n - 2], &joined[n - 1], &passage, text) {
            joined.push(passage);
            continue;
        }
        joined.pop();
        let before = &mut joined[n - 2];
        (before.end, before.lines_to) = (passage.end, passage.lines_to);
    }
    joined
}

/// Checks whether a short block of code stands in the middle of a sentence of the agent's.
fn is_one_sentence(before: &Passage, code: &Passage, after: &Passage, text: &str) -> bool {
    let text_of = |passage: &Passage| &text[passage.start as usize..passage.end as usize];
    [before.origin, code.origin, after.origin] == [Origin::Agent, Origin::Code, Origin::Agent]
        && code.n_bytes() <= IN_SENTENCE_BYTES
        && after.end - before.start <= SENTENCE_BYTES
        && !text_of(before).ends_with(SENTENCE_ENDS)
        && !text_of(before).ends_with([':', '：'])
        && text_of(after).starts_with(char::is_lowercase)
        // The name of a file before its code belongs to no sentence.
        && !text_of(before).lines().next_back().is_some_and(is_word)
        && !text_of(after).lines().next().is_some_and(is_word)
}

/// Most bytes of a line that only introduces what follows it.
const INTRODUCTION_BYTES: usize = 80;

/// Moves lines that only introduce something, such as headings, from the end of one of the agent's passages
/// to the start of the next. If another author's passage or nothing follows, the lines are dropped, because
/// they say nothing alone, unless the text `is_newest`; so is the name of a file before a block of code.
pub(super) fn move_introductions(passages: &mut Vec<Passage>, features: &Features, is_newest: bool) {
    for nth in (0..passages.len()).rev() {
        while passages[nth].origin == Origin::Agent
            && let Some(last) = passages[nth].lines(features).last()
        {
            let from = passages[nth].lines_to - 1;
            let line = features.line(last);
            let is_before_code =
                passages.get(nth + 1).is_some_and(|next| next.origin == Origin::Code) && is_word(line);
            let next = passages.get_mut(nth + 1).filter(|next| {
                let between = &features.lines[from as usize + 1..next.lines_from as usize];
                next.origin == Origin::Agent
                    && between.iter().all(|line| features.line(line).starts_with(FENCE))
            });
            // A line in bold type may say something by itself.
            let says_nothing = is_introduction(line) || is_before_code;
            let moves = next.is_some() && (says_nothing || is_bold(line) || is_announcement(line));
            if !moves && (is_newest || !says_nothing) {
                break;
            }
            if let Some(next) = next {
                next.start = indented_start(&features.text, last.start);
                next.lines_from = from;
            }
            let passage = &mut passages[nth];
            passage.lines_to = from;
            if let Some(last) = passage.lines(features).last() {
                passage.end = last.end;
            }
        }
    }
    passages.retain(|passage| passage.lines_from < passage.lines_to);
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

/// Checks whether a line of the agent's only introduces what follows it.
pub(super) fn says_nothing_alone(line: &str) -> bool {
    is_introduction(line) || is_bold(line)
}

/// Checks whether a line is a heading, or short and ends with a colon.
fn is_introduction(line: &str) -> bool {
    let text = line.trim_end_matches(['*', '_', ' ']);
    line.starts_with('#') || (line.len() <= INTRODUCTION_BYTES && text.ends_with([':', '：']))
}

/// Checks whether all of a short line is in bold type, and no sentence.
fn is_bold(line: &str) -> bool {
    let bold = line.strip_prefix("**").and_then(|line| line.strip_suffix("**"));
    bold.is_some_and(|bold| line.len() <= INTRODUCTION_BYTES && !bold.ends_with(SENTENCE_ENDS))
}

/// Checks whether a line of any length announces what follows it.
fn is_announcement(line: &str) -> bool {
    line.trim_end_matches(['*', '_', ' ']).ends_with([':', '：'])
}

/// Checks whether a passage may end at a gap between two lines. In what somebody says, it may if the gap has
/// an empty line; the rule below the head of a table is not empty. In code, a line of nothing but marks is
/// enough.
fn is_break(gap: &str, is_said: bool) -> bool {
    let between: Vec<&str> = gap.split('\n').skip(1).collect();
    let between = between.split_last().map_or(&[][..], |(_, between)| between);
    between.iter().any(|line| !is_said || line.trim().is_empty())
}

/// Checks whether a line is one word, not a sentence.
fn is_word(line: &str) -> bool {
    is_bare(line) && !line.ends_with(SENTENCE_ENDS)
}

/// Checks whether what follows `before` after `gap` continues its last sentence.
fn is_in_sentence(before: &str, gap: &str) -> bool {
    !gap.contains(is_line_break) && !before.ends_with(SENTENCE_ENDS) && !before.ends_with(':')
}

/// Most bytes of a text that may have no words at all, and of how many bytes one at least is of a word.
const WORDLESS_BYTES: usize = 80;
const BYTES_TO_WORD: usize = 10;
/// The fewest bytes of a word. One character has as many in a script that writes words without blanks.
const WORD_BYTES: usize = 3;

/// Checks whether hardly anything of a text is words, as in the coordinates of a drawing.
fn has_hardly_a_word(text: &str) -> bool {
    let words = text.split(|c: char| !c.is_alphabetic()).map(str::len);
    let n_bytes: usize = words.filter(|n_bytes| *n_bytes >= WORD_BYTES).sum();
    text.len() > WORDLESS_BYTES && n_bytes * BYTES_TO_WORD < text.len()
}

/// Checks whether a passage is all that the user says in a message, or an entry of one line.
pub(super) fn is_said_whole(passage: &Passage, sources: &[ContextMessage]) -> bool {
    match passage.origin {
        Origin::User => ends_at(passage, sources) == [true; 2],
        Origin::Record(Section::Said) => !passage.text(sources).contains('\n'),
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

/// Checks whether a line is nothing but a tag, as before and after a summary.
fn is_tag(line: &str) -> bool {
    line.starts_with('<') && line.ends_with('>') && !line.contains(char::is_whitespace)
}

/// Checks whether three of four lines pass `is_such`, as those of a list of files do.
fn is_listing(text: &str, is_such: impl Fn(&str) -> bool) -> bool {
    let (mut n_lines, mut n_such) = (0, 0);
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        n_lines += 1;
        n_such += usize::from(is_such(line));
    }
    n_lines >= LEAST_LISTING && n_such * 4 >= n_lines * 3
}

/// Checks whether a line has no blank, and is of a script that has blanks.
fn is_bare(line: &str) -> bool {
    line.is_ascii() && !line.contains(char::is_whitespace)
}

/// Checks whether a line is a field of JSON, or a bracket of it, which is no sentence.
fn is_field(line: &str) -> bool {
    line.starts_with('"') && line.contains("\":") || !line.contains(char::is_alphanumeric)
}

/// Checks whether a line is one name, with marks or a link around it at most. A key with its value, and a row
/// of a table, are no name; nor is a sentence in a script without blanks.
fn is_name(line: &str) -> bool {
    let line = split_number(line).map_or(line, |(_, rest)| rest);
    let line = line.split_once("](").filter(|(_, link)| link.ends_with(')')).map_or(line, |(text, _)| text);
    let has_any = |word: &&str| word.contains(char::is_alphanumeric);
    // Git and archives name what they did with each: `create mode 100644 a.js`.
    let line = DONE_WITH.iter().find_map(|done| line.strip_prefix(done)).unwrap_or(line);
    let mut words = line.split_whitespace().filter(has_any);
    let Some(word) = words.next().filter(|_| words.next().is_none()) else { return false };
    let name = word.trim_matches(|c: char| !c.is_alphanumeric());
    name.is_ascii() && !name.contains([',', '=', ':', ';', '(', '|'])
}

/// The words before the names of files in lists of what was done with them.
const DONE_WITH: [&str; 6] = [
    "create mode 100644 ",
    "create mode 100755 ",
    "delete mode 100644 ",
    "delete mode 100755 ",
    "extracting: ",
    "inflating: ",
];

/// The mark before and after a block of code.
pub(super) const FENCE: &str = "```";
/// The marks around a call, or a change of a file, that a model writes into its text.
const CALLS: [[&str; 2]; 2] = [["<function=", "</function>"], [REPLACES[0], REPLACES[2]]];
/// The marks before what a written change replaces, before what takes its place, and after that.
const REPLACES: [&str; 3] = ["<<<<<<< SEARCH", "=======", ">>>>>>> "];

/// The blocks of code and the written calls in a text, as far as it was passed.
#[derive(Default)]
struct Fence {
    /// The end of what was passed.
    passed: u32,
    is_open: bool,
    /// The mark that ends the written call in which it is.
    call_end: Option<&'static str>,
    /// True if it is in what a written change replaces.
    is_in_old: bool,
    /// The start of the last line that is a mark, of the language or of a change.
    mark: Option<u32>,
}

impl Fence {
    /// Passes to a line, and checks whether it is in a block of code or a written call.
    fn pass(&mut self, text: &str, line: &Line) -> bool {
        let gap = &text[self.passed as usize..line.start as usize];
        let between = gap.lines().map(str::trim_start);
        let n_marks = between.clone().filter(|line| line.starts_with(FENCE)).count();
        self.call_end = self.call_end.filter(|end| !between.clone().any(|line| line.starts_with(end)));
        let here = &text[line.start as usize..];
        let is_mark = here.starts_with(FENCE);
        self.is_open ^= (n_marks + usize::from(is_mark)) % 2 == 1;
        // A call whose end was lost ends with the block of code around it.
        self.call_end = self.call_end.filter(|_| self.is_open || n_marks == 0);
        let was_in_call = self.call_end.is_some();
        let begun = || CALLS.iter().find(|[begin, _]| here.starts_with(begin)).map(|[_, end]| *end);
        let is_of_change = here.starts_with(REPLACES[0]) || was_in_call && here.starts_with(REPLACES[2]);
        let has_new = between.clone().chain([here]).any(|line| line.starts_with(REPLACES[1]));
        self.is_in_old = !has_new && (self.is_in_old && was_in_call || here.starts_with(REPLACES[0]));
        self.call_end = self.call_end.or_else(begun).filter(|end| !here.starts_with(end));
        self.passed = line.end;
        self.mark = (is_mark || is_of_change).then_some(line.start);
        self.is_open || self.call_end.is_some() || was_in_call
    }

    /// Checks whether the last line is a mark itself.
    fn is_at(&self, line: &Line) -> bool {
        self.mark == Some(line.start)
    }
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
fn indented_start(text: &str, start: u32) -> u32 {
    let before = &text[..start as usize];
    let line = before.rfind('\n').map_or(0, |at| at + 1);
    if before[line..].chars().all(char::is_whitespace) { line as u32 } else { start }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::{Message, ToolCall, ToolName, ToolResult};

    #[test]
    fn a_heading_stands_with_what_it_introduces_or_not_at_all() {
        let long = "The server reads its settings once, when it starts, and never again after that.";
        let told = |text: &str, is_newest: bool| {
            let message = ContextMessage::count(Message::assistant(text), &Characters);
            let n_lines = message.features().lines.len();
            let mut found = passages(&message, 0, Origin::Agent, 0..n_lines);
            if is_newest {
                found.iter_mut().for_each(|passage| passage.origin = Origin::Agent);
            }
            move_introductions(&mut found, message.features(), is_newest);
            let texts = found.iter().filter(|passage| passage.origin == Origin::Agent);
            texts.map(|passage| passage.text(std::slice::from_ref(&message)).to_owned()).collect::<Vec<_>>()
        };
        let after = |text: &str| told(text, false);
        let blocks = format!("{long}\n{long}\n\n## Next\n\n{long}");
        assert_eq!(after(&blocks), [format!("{long}\n{long}"), format!("## Next\n\n{long}")]);
        let at_the_end = format!("{long}\n## Next\nSteps:");
        assert_eq!(after(&at_the_end), [long]);
        let before_code = format!("{long}\n\n**The output is:**\n```\nlet a = 1;\n```");
        assert_eq!(after(&before_code), [long]);
        let named = format!("{long}\n\nsrc/main.rs\n```\nlet table = read_table();\n```");
        assert_eq!(after(&named), [long]);
        let written = format!(
            "{long}\n\nI look at it:\n\n<function=view>\n<parameter=path>a.rs</parameter>\n</function>\n\n{long}"
        );
        assert_eq!(after(&written), [long, long]);
        let named_last = format!("{long}\n\nsrc/main.rs");
        assert_eq!(after(&named_last), [named_last.as_str()]);
        let long_line = format!("{long} So this is what I change in the parser:");
        assert_eq!(after(&long_line), [long_line.as_str()]);
        let announced = format!("{long}\n{long_line}\n\n- {long}");
        assert_eq!(after(&announced), [long.to_owned(), format!("{long_line}\n\n- {long}")]);
        let table =
            format!("{long} {long}\n\n| Level | What it takes to reach it |\n|---|---|\n| one | little |");
        let rows = format!("{long} {long}\n| Level | What it takes |\n|---|---|\n| one | little |");
        assert_eq!(after(&table).last().unwrap().lines().count(), 3);
        assert_eq!(after(&rows), [rows.as_str()]);
        let bold = format!("{long}\n{long}\n\n**Still open**\n\n{long}");
        assert_eq!(after(&bold), [format!("{long}\n{long}"), format!("**Still open**\n\n{long}")]);
        // In bold type alone it may say something, and the newest text is told as it is.
        let bold_last = format!("{long}\n\n**All of it passes**");
        assert_eq!(after(&bold_last), [bold_last.as_str()]);
        assert_eq!(told(&at_the_end, true), [at_the_end.as_str()]);
        let code = format!("{long}\n{long}\n\n## The table\n```rust\nlet table = read_table();\n```");
        let with_code = "## The table\n```rust\nlet table = read_table();";
        assert_eq!(told(&code, true), [format!("{long}\n{long}"), with_code.to_owned()]);
    }

    #[test]
    fn a_sentence_with_a_block_of_code_in_it_is_one_passage() {
        let code = "\n\n```csharp\nfinalSlip = 1000;\n```\n\n";
        let long = format!("\n\n```csharp\n{}```\n\n", "finalSlip = finalSlip + 1000;\n".repeat(9));
        for (text, expected) in [
            (format!("If the value of{code}is large, the wheel spins."), 1),
            (format!("If the value of{code}is large, and{code}is small, the wheel spins."), 1),
            (format!("This is the value:{code}is large, the wheel spins."), 3),
            (format!("This is the value.{code}It is large, the wheel spins."), 3),
            (format!("If the value of{code}Slip is large, the wheel spins."), 3),
            (format!("If the value of{long}is large, the wheel spins."), 4),
        ] {
            let message = ContextMessage::count(Message::assistant(text.as_str()), &Characters);
            let found = passages(&message, 0, Origin::Agent, 0..message.features().lines.len());
            assert_eq!(found.len(), expected, "{text}");
            let first = found[0].text(std::slice::from_ref(&message));
            assert!(expected > 1 || first == text, "{first}");
        }
    }

    #[test]
    fn an_empty_line_behind_its_number_ends_a_passage_of_a_file() {
        let function = |name: &str| {
            format!(
                "fn {name}_of_the_house() {{\n    turn_the_key(left);\n    push_the_door(twice);\n}}\n\n// Then.\n"
            )
        };
        let file: String = ["open", "close", "lock"].map(function).concat();
        let numbered = |mark: &str| {
            let lines = file.lines().zip(8..).map(|(line, nth)| format!("{nth:>5}{mark}{line}\n"));
            lines.collect::<String>()
        };
        for text in [file.clone(), numbered("→"), numbered("\t")] {
            let call =
                ToolCall { id: "c".into(), name: ToolName::new("Read").unwrap(), arguments: "{}".into() };
            let message = ContextMessage::count(Message::tool(ToolResult::answer(&call, text)), &Characters);
            let found = passages(&message, 0, Origin::Work, 0..message.features().lines.len());
            let words = |passage: &Passage| {
                let text = passage.text(std::slice::from_ref(&message)).to_owned();
                let letters =
                    |line: &str| line.trim_start_matches(|c: char| !c.is_alphabetic() && c != '/').to_owned();
                (letters(text.lines().next().unwrap()), letters(text.lines().last().unwrap()))
            };
            let ends: Vec<(String, String)> = found.iter().map(words).collect();
            assert!(ends.iter().all(|(first, last)| !first.is_empty() && !last.is_empty()), "{ends:?}");
            assert!(ends.len() > 1 && ends[1].0.starts_with("// Then."), "{ends:?}");
        }
    }

    #[test]
    fn a_change_that_is_written_as_text_is_code() {
        let long = "The server reads its settings once, when it starts, and never again after that.";
        let edit = "<<<<<<< SEARCH\n    let a = read_settings(\"`x`\");\n=======\n    let a = read_once();\n>>>>>>> REPLACE";
        for text in [
            format!("{long}\n\nsrc/a.rs\n```rust\n{edit}\n```\n\n{long}"),
            format!("{long}\n\nsrc/a.rs\n{edit}\n\n{long}"),
            format!("{long}\n\nsrc/a.rs\n```rust\n{}\n```\n\n{long}", edit.replace(">>>>>>> REPLACE", "")),
            format!("{long}\n\nsrc/a.rs\n```rust\n{edit}\n```\n\nsrc/b.rs\n```rust\n{edit}\n```\n\n{long}"),
        ] {
            let message = ContextMessage::count(Message::assistant(text.as_str()), &Characters);
            let found = passages(&message, 0, Origin::Agent, 0..message.features().lines.len());
            let said = found.iter().filter(|passage| passage.origin == Origin::Agent);
            let said: String = said.map(|passage| passage.text(std::slice::from_ref(&message))).collect();
            assert_eq!(said.matches(long).count(), 2, "{said}");
            assert!(!said.contains("let a"), "{said}");
            // What is replaced is gone.
            let told: String =
                found.iter().map(|passage| passage.text(std::slice::from_ref(&message))).collect();
            let has_new = told.contains("read_once") && !told.contains("read_settings");
            assert!(has_new && !told.contains("SEARCH"), "{told}");
        }
    }

    #[test]
    fn of_an_edit_the_changed_lines_are_told() {
        let around: String = (0..30).map(|n| format!("    step_number_{n}(of_the_work);\n")).collect();
        let arguments = serde_json::json!({
            "file_path": "a.rs",
            "old_string": format!("{around}    close_the_door();\n"),
            "new_string": format!("{around}    lock_the_door();\n"),
        });
        let name = ToolName::new("Edit").unwrap();
        let call = ToolCall { id: "c".into(), name, arguments: arguments.to_string() };
        let message = ContextMessage::count(Message::calling(vec![call]), &Characters);
        let found = passages(&message, 0, Origin::Agent, 0..message.features().lines.len());
        let [changed] = found.as_slice() else { panic!("{found:?}") };
        assert!(changed.text(std::slice::from_ref(&message)).ends_with("lock_the_door();"));
    }

    #[test]
    fn a_passage_of_what_somebody_says_ends_with_a_sentence() {
        let sentence = |n: usize| format!("Sentence {n} tells of {}the end.", "a word and ".repeat(24));
        let text = [1, 2, 3, 4].map(sentence).join(" ");
        let message = ContextMessage::count(Message::assistant(text), &Characters);
        let n_lines = message.features().lines.len();
        let found = passages(&message, 0, Origin::Agent, 0..n_lines);
        assert_eq!(found.len(), 2, "{found:?}");
        for passage in found {
            let text = passage.text(std::slice::from_ref(&message));
            assert!(text.starts_with("Sentence ") && text.ends_with("the end."), "{text}");
        }
    }

    #[test]
    fn a_table_is_one_passage_with_its_head() {
        let row = |n: usize| format!("| Level {n} | It takes {n} keys and a long ladder |\n");
        let rows: String = (0..18).map(row).collect();
        let table = format!("| Level | What it takes to reach it |\n|---|---|\n{rows}");
        assert!((SAID_BYTES as usize + 1..TABLE_BYTES as usize).contains(&table.len()));
        let n_passages = |text: String| {
            let message = ContextMessage::count(Message::assistant(text), &Characters);
            let n_lines = message.features().lines.len();
            passages(&message, 0, Origin::Agent, 0..n_lines).len()
        };
        assert_eq!(n_passages(table.replace("| ", "")), 2);
        assert_eq!(n_passages(table), 1);
    }

    #[test]
    fn the_last_line_of_a_passage_ends_with_it() {
        let text = "1. The door is open.\n2. The key is lost. Now I look.";
        let message = ContextMessage::count(Message::assistant(text), &Characters);
        let n_lines = message.features().lines.len();
        let [whole] = passages(&message, 0, Origin::Agent, 0..n_lines)[..] else { panic!("not one passage") };
        let cut = Passage { end: text.find(" Now").unwrap() as u32, ..whole };
        let items = cut.by_items(message.features());
        let lines: Vec<&str> = items.iter().map(|line| line.text(std::slice::from_ref(&message))).collect();
        assert_eq!(lines, ["1. The door is open.", "2. The key is lost."]);
    }

    #[test]
    fn hardly_a_word_is_in_a_text_of_numbers() {
        for (text, expected) in [
            ("12.5 80.2 L ".repeat(9), true),
            (format!("{} door", "12.5 80.2 ".repeat(9)), true),
            ("The door 12 ".repeat(9), false),
            ("東京 12, 北京 13, ".repeat(6), false),
            ("12.5 80.2".to_owned(), false),
        ] {
            assert_eq!(has_hardly_a_word(&text), expected, "{text}");
        }
    }

    #[test]
    fn what_only_names_things_is_told_apart() {
        let of_result = |text: &str| {
            let call =
                ToolCall { id: "c".into(), name: ToolName::new("Read").unwrap(), arguments: "{}".into() };
            let message = ContextMessage::count(Message::tool(ToolResult::answer(&call, text)), &Characters);
            passages(&message, 0, Origin::Work, 0..message.features().lines.len())
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
