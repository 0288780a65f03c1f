//! The parts of a harness's notes that say nothing new: the same stands in a note of the opening, a later one
//! has what it is now, or the request below quotes it.
//!
//! Many harnesses put notes of several sections in tags before each request: the date, the open file,
//! reminders, attached files. Each has tags of its own, so a section is compared with what the same author
//! wrote between the same tags. A note of one section may tell of an event, and so does one whose tag names
//! what happened; two events can look alike: only a copy of such a section leaves.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::Range;

use super::loss::words;
use super::standing::end_of_opening;
use super::stub::is_stub;
use crate::{Content, Context, ContextMessage};

/// The most sections of a note: the search for each end takes time.
const MOST_SECTIONS: usize = 64;
/// Of an attachment that the request below quotes, at least so many lines stand there, and three of four.
const LEAST_QUOTED: usize = 3;
/// Words in the tags around what happened, in small letters: a later one says nothing of it.
const EVENTS: [&str; 9] =
    ["alert", "error", "event", "message", "notification", "output", "result", "stderr", "stdout"];

/// Returns the parts of notes that say nothing new, in order, by the position of the note. In the opening, a
/// section leaves for a later one only if that is among the newest `n_retained` messages.
pub(super) fn restated_notes(context: &Context, n_retained: usize) -> BTreeMap<usize, Vec<Range<usize>>> {
    let messages = context.messages();
    let opening = end_of_opening(context, context.n_leading_system());
    let groups = context.groups();
    let retained = groups.iter().nth(groups.retained_from(n_retained));
    let retained = retained.map_or(messages.len(), |group| group.range().start);
    let notes: Vec<Note<'_>> =
        messages.iter().enumerate().filter_map(|(position, message)| Note::of(position, message)).collect();
    // By the author and the tag, what is said first in the opening, and last anywhere.
    let mut first: HashMap<(&str, &str), (usize, &str)> = HashMap::new();
    let mut last: HashMap<(&str, &str), (usize, &str)> = HashMap::new();
    for note in &notes {
        for section in note.sections.iter().filter(|section| section.is_only) {
            let (key, said) = ((note.by, section.tag), (note.position, section.text));
            if note.position < opening {
                first.entry(key).or_insert(said);
            }
            last.insert(key, said);
        }
    }
    let mut restated = BTreeMap::new();
    let mut below: Option<(usize, Option<HashSet<&str>>)> = None;
    for note in &notes {
        // All notes in front of one request share it.
        if below.as_ref().is_none_or(|(position, _)| *position < note.position) {
            below = Some(request_below(messages, note.position));
        }
        let request = below.as_ref().and_then(|(_, request)| request.as_ref());
        let says_nothing_new = |section: &&Section<'_>| {
            let key = (note.by, section.tag);
            let above = first.get(&key).filter(|(position, _)| *position < note.position && section.is_only);
            let below = last.get(&key).filter(|(position, _)| *position > note.position && section.is_only);
            let is_above = above.is_some_and(|(_, text)| *text == section.text);
            let is_below = below.is_some_and(|(position, text)| match *text == section.text {
                true => note.position >= opening,
                false => {
                    (note.position >= opening || *position >= retained)
                        && note.has_several()
                        && !section.tells_event()
                        && are_alike(section.text, text)
                }
            });
            is_above || is_below || request.is_some_and(|request| section.is_quoted_in(request))
        };
        let parts: Vec<Range<usize>> =
            note.sections.iter().filter(says_nothing_new).map(|section| section.range.clone()).collect();
        if !parts.is_empty() {
            restated.insert(note.position, parts);
        }
    }
    restated
}

/// A note and its sections; all of it is one if it has no tags.
struct Note<'a> {
    position: usize,
    by: &'a str,
    sections: Vec<Section<'a>>,
}

impl<'a> Note<'a> {
    /// Returns the message as a note that may become shorter.
    fn of(position: usize, message: &'a ContextMessage) -> Option<Self> {
        let message = message.message();
        let by = message.note_by().filter(|_| !message.is_compacted && !message.is_renewed())?;
        let Some(Content::Text(text)) = message.content() else { return None };
        if is_stub(text) {
            return None;
        }
        let mut sections = sections(text);
        if sections.is_empty() {
            sections.push(Section { tag: "", text: text.trim(), range: 0..text.len(), is_only: true });
        }
        Some(Self { position, by, sections })
    }

    fn has_several(&self) -> bool {
        self.sections.len() > 1
    }
}

/// A part of a note between two tags.
struct Section<'a> {
    /// The opening tag, with what it says of the section.
    tag: &'a str,
    /// All of it.
    text: &'a str,
    range: Range<usize>,
    /// True if its tag stands once in the note: of others it is not known which is which.
    is_only: bool,
}

impl Section<'_> {
    /// Checks whether the name of its tag is one for what happened.
    fn tells_event(&self) -> bool {
        let name = self.tag.split_whitespace().next().unwrap_or_default().to_lowercase();
        EVENTS.iter().any(|word| name.contains(word))
    }

    /// Checks whether nearly all that is attached stands in the request below, of which these are the lines.
    fn is_quoted_in(&self, request: &HashSet<&str>) -> bool {
        let inner = self.text.strip_prefix(self.tag).unwrap_or(self.text);
        let inner = inner.rfind("</").map_or(inner, |end| &inner[..end]);
        let lines = inner.lines().map(str::trim).filter(|line| line.contains(char::is_alphanumeric));
        let (quoted, other): (Vec<&str>, Vec<&str>) = lines.partition(|line| request.contains(line));
        !self.tag.is_empty() && quoted.len() >= LEAST_QUOTED && quoted.len() >= 3 * other.len()
    }
}

/// Returns the sections of a note in order. What stands between tags that hold nothing but attachments, each
/// with a name in its own tag, is one section for each.
fn sections(text: &str) -> Vec<Section<'_>> {
    let mut found = Vec::new();
    for (tag, range) in elements(text) {
        let start = range.start + tag.len();
        let inner = &text[start..range.end];
        let inner = inner.rfind("</").map_or(inner, |end| &inner[..end]);
        let parts = elements(inner);
        let n_visible = |text: &str| text.split_whitespace().map(str::len).sum::<usize>();
        let n_in_parts: usize = parts.iter().map(|(_, part)| n_visible(&inner[part.clone()])).sum();
        let are_named = !parts.is_empty() && parts.iter().all(|(tag, _)| tag.contains(' '));
        if are_named && n_in_parts == n_visible(inner) {
            let parts = parts.into_iter().map(|(tag, part)| (tag, start + part.start..start + part.end));
            found.extend(parts);
        } else {
            found.push((tag, range));
        }
    }
    let tags: Vec<&str> = found.iter().map(|(tag, _)| *tag).collect();
    let is_only = |tag: &str| tags.iter().filter(|other| **other == tag).count() == 1;
    found
        .into_iter()
        .map(|(tag, range)| Section { tag, text: &text[range.clone()], range, is_only: is_only(tag) })
        .collect()
}

/// Returns what stands between tags in a text, each with its opening tag: that begins a line, and the closing
/// one ends a line.
fn elements(text: &str) -> Vec<(&str, Range<usize>)> {
    let mut found = Vec::new();
    let (mut at, mut n_tried) = (0, 0);
    while at < text.len() && n_tried < MOST_SECTIONS {
        let rest = &text[at..];
        let is_tag = rest.starts_with('<') && rest[1..].starts_with(|c: char| c.is_ascii_alphabetic());
        n_tried += usize::from(is_tag);
        match is_tag.then(|| element(rest)).flatten() {
            Some((tag, length)) => {
                found.push((tag, at..at + length));
                at += length;
            }
            None => at += rest.find('\n').map_or(rest.len(), |end| end + 1),
        }
    }
    found
}

/// Returns the tag with which a text begins, and the length up to the end of what that opens.
fn element(text: &str) -> Option<(&str, usize)> {
    let name = text.strip_prefix('<')?;
    let name = &name[..name.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '-')))?];
    let tag = &text[..=text.lines().next()?.find('>')?];
    let close = format!("</{name}>");
    let mut ends = text.match_indices(&close).map(|(at, _)| at + close.len());
    let is_last = |end: &usize| text[*end..].is_empty() || text[*end..].starts_with(['\n', '\r']);
    Some((tag, ends.find(is_last)?))
}

/// Checks whether half of the words of the shorter one are in both.
fn are_alike(one: &str, other: &str) -> bool {
    let [one, other]: [HashSet<&str>; 2] = [one, other].map(|text| words(text).collect());
    one.intersection(&other).count() * 2 >= one.len().min(other.len())
}

/// Returns the position of the first message below a note at `position` that is no note, and its lines if it
/// is a request.
fn request_below(messages: &[ContextMessage], position: usize) -> (usize, Option<HashSet<&str>>) {
    let next = (position + 1..messages.len()).find(|at| messages[*at].message().note_by().is_none());
    let text = next.and_then(|at| match messages[at].message().content() {
        Some(Content::Text(text)) if messages[at].starts_turn() => Some(text),
        _ => None,
    });
    (next.unwrap_or(messages.len()), text.map(|text| text.lines().map(str::trim).collect()))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{Conversation, Message};

    /// Returns the parts of each of the `notes` that say nothing new. An empty one stands for what the agent
    /// says, and what begins with `>` is the user's.
    fn restated(notes: &[&str], n_retained: usize) -> Vec<(usize, Vec<String>)> {
        let mut log = Conversation::new();
        for text in notes {
            match text.strip_prefix('>') {
                Some(said) => log.user(said),
                None if text.is_empty() => log.agent("Done."),
                None => log.add(Message::note("vscode", *text)),
            };
        }
        let restated = restated_notes(&log.view(), n_retained).into_iter();
        let part = |at: usize, part: Range<usize>| notes[at][part].to_owned();
        restated.map(|(at, parts)| (at, parts.into_iter().map(|range| part(at, range)).collect())).collect()
    }

    #[test]
    fn a_later_section_with_the_same_tag_stands_for_an_earlier_one() {
        let note = |day: usize, file: &str| {
            format!("<context>\nThe day is {day}.\n</context>\n<rules kind=\"a\">\nNo {file}.\n</rules>")
        };
        let notes = [note(1, "sluice"), note(2, "sluice"), note(3, "wheel at all, never more")];
        let [first, second, third] = notes.each_ref().map(String::as_str);
        let day = |day: usize| format!("<context>\nThe day is {day}.\n</context>");
        let sluice = "<rules kind=\"a\">\nNo sluice.\n</rules>";
        let talk = [">Oil it.", "", first, ">On.", "", second, ">On.", "", third, ">On.", ""];
        let expected = vec![(2, vec![day(1), sluice.to_owned()]), (5, vec![day(2), sluice.to_owned()])];
        assert_eq!(restated(&talk, 0), expected);
        // What the opening says stays there, and goes below it. What changed leaves the opening if what it is
        // now is among the newest messages.
        let talk = [first, ">Oil it.", "", second, ">On.", "", first, ">On.", ""];
        let same = (3, vec![day(2), sluice.to_owned()]);
        let last = (6, vec![day(1), sluice.to_owned()]);
        assert_eq!(restated(&talk, 3), [same.clone(), last.clone()]);
        let talk = [first, ">Oil it.", "", second, ">On.", ""];
        assert_eq!(restated(&talk, 3), [(0, vec![day(1)]), (3, vec![sluice.to_owned()])]);
        assert_eq!(restated(&talk, 2), [(3, vec![sluice.to_owned()])]);
    }

    #[test]
    fn of_notes_of_one_section_only_copies_leave() {
        let task = |n: usize| format!("<task>\nThe task {n} of the mill has ended well.\n</task>");
        let tasks = [task(1), task(2)];
        let [one, two] = tasks.each_ref().map(String::as_str);
        let talk = [">Oil it.", "", one, "", two, "", one, "Wait.", "", "Wait.", ">On."];
        assert_eq!(restated(&talk, 2), [(2, vec![one.to_owned()]), (7, vec!["Wait.".to_owned()])]);
        // Of two with the same tag in one note, it is not known which is which.
        let both = format!("{one}\n{two}");
        assert!(restated(&[">Oil it.", "", &both, "", &both], 0).is_empty());
        // It has no end, or none that ends a line.
        let open = "<task>\nIt runs.\n<b>\nwell</b> and on";
        assert!(restated(&[">Oil it.", "", open, "", "<task>\nIt runs.\n</task>"], 0).is_empty());
    }

    #[test]
    fn what_happened_stays_beside_a_later_event() {
        let day = |n: usize| format!("<context>\nThe day is {n}.\n</context>");
        let tag = "Task-Notification";
        let note = |n: usize| format!("{}\n<{tag}>\nThe task {n} of the mill ended.\n</{tag}>", day(n));
        let notes = [note(1), note(2)];
        let [first, second] = notes.each_ref().map(String::as_str);
        let talk = [">Oil it.", "", first, ">On.", "", second, ">On."];
        assert_eq!(restated(&talk, 0), [(2, vec![day(1)])]);
        let talk = [">Oil it.", "", first, ">On.", "", first, ">On."];
        assert_eq!(restated(&talk, 0), [(2, vec![day(1), first[day(1).len() + 1..].to_owned()])]);
    }

    #[test]
    fn an_attachment_leaves_that_the_request_below_quotes() {
        let file = |name: &str, lines: &str| format!("<file id=\"{name}\">\nSelected:\n{lines}\n</file>");
        let lines = "Open the gate.\n\nOil the hinge.\n  Close the gate.";
        let [a, b] = [file("a.md", lines), file("b.md", "The mill.\nThe pond.")];
        let note = format!("<files>\n{a}\n{b}\n</files>");
        let request = format!(">Do this:\n{lines}");
        assert_eq!(restated(&[&note, &request, ""], 2), [(0, vec![a.clone()])]);
        assert_eq!(restated(&[&note, "<c>\nMay\n</c>", &request, ""], 2), [(0, vec![a.clone()])]);
        assert!(restated(&[&note, "", &request], 2).is_empty());
        assert!(restated(&[&note, ">Open the gate.\nOil the hinge.", ""], 2).is_empty());
        // The same file was attached again.
        let again = file("a.md", "Open the gate.\nLeave it.");
        let second = format!("<files>\n{again}\n</files>\n<c>\nMay\n</c>");
        assert_eq!(restated(&[">Go.", "", &note, ">On.", "", &second, ">On."], 0), [(2, vec![a])]);
    }
}
