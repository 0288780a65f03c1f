//! Chosen passages as they are written: each under the label of its message and its source.

use std::cmp::Reverse;

use super::Material;
use super::fence::FENCE;
use super::label::{Folder, number, tool_name};
use super::passage::{Origin, Passage};
use super::pasted::is_drawing;
use super::picks::number_of;
use super::record::{Entry, Section};
use super::team::{Team, is_agent, is_user};
use crate::compaction::answered_call::answered_call;
use crate::compaction::arguments::patched_in;
use crate::compaction::features::{Features, SENTENCE_ENDS, is_line_break, split_number};
use crate::compaction::findings::is_act;
use crate::{Context, ContextMessage, MessageId, Role};

/// The author of what a summary says, in labels.
const SUMMARY: &str = "summary";

/// Returns the number of the message in which the agent said what an entry of the story quotes; `None` for
/// other entries.
pub(super) fn said_in(entry: &str) -> Option<u64> {
    let (label, author) = author_of(entry)?;
    is_agent(author).then(|| label.parse().ok().map(MessageId::as_u64)).flatten()
}

/// Checks whether an entry of the story quotes what somebody says; the others tell of calls.
pub(super) fn is_statement(entry: &str) -> bool {
    author_of(entry).is_some_and(|(_, author)| author == SUMMARY || is_agent(author))
}

/// Checks whether an entry of the story is the user's answer to what the entry before it quotes.
pub(super) fn is_answer(entry: &str) -> bool {
    author_of(entry).is_some_and(|(_, author)| is_user(author))
}

/// Checks whether an entry of the story tells of a call that changed something outside.
pub(super) fn tells_act(entry: &str) -> bool {
    let mut words = author_of(entry).into_iter().flat_map(|(_, call)| call.split_whitespace());
    // Calls that are one step have a label each.
    let tool = words.find(|word| word.trim_end_matches(',').parse::<MessageId>().is_err());
    tool.is_some_and(is_act)
}

/// Returns the user's answer in a message, as an entry of the story.
pub(super) fn answer(source: &ContextMessage, team: &Team) -> Entry {
    let label = format!("{} {}", source.label(), team.user(source));
    Entry::labelled(&label, source.message().text().trim(), false)
}

/// Returns the label of the message that an entry quotes, and its author or call.
fn author_of(entry: &str) -> Option<(&str, &str)> {
    entry.split_once(": ")?.0.split_once(' ')
}

/// Returns the entries of the chosen passages, with their section and place. Passages with nothing but blanks
/// between them become one.
pub(super) fn write(
    mut chosen: Vec<Passage>,
    material: &Material<'_>,
    folder: &Folder,
) -> Vec<(Section, (u64, usize), Entry)> {
    let Material { context, sources, changes, team, .. } = *material;
    chosen.sort_unstable_by_key(|passage| (passage.message, passage.start, Reverse(passage.end)));
    let text_of = |passage: &Passage| &*sources[passage.message as usize].features().text;
    let mut joined: Vec<Passage> = Vec::with_capacity(chosen.len());
    for next in chosen {
        match joined.last_mut() {
            // Its best line was chosen before all of it.
            Some(last) if last.message == next.message && next.end <= last.end => {}
            Some(last)
                if last.message == next.message
                    && last.origin == next.origin
                    && !matches!(next.origin, Origin::Record(_))
                    && text_of(last).get(last.end as usize..next.start as usize).is_none_or(|gap| {
                        is_nothing(gap) && !(next.origin == Origin::User && is_drawing(gap))
                    }) =>
            {
                (last.end, last.lines_to) = (next.end, next.lines_to);
            }
            _ => joined.push(next),
        }
    }
    let carried = numbers_of_carried(&joined, sources);
    let mut last_label = String::new();
    let written = joined.iter().enumerate().filter_map(|(nth, passage)| {
        let (source, text) = (&sources[passage.message as usize], passage.text(sources));
        let place = (number(source), passage.start as usize);
        let entry = match passage.origin {
            Origin::User => (Section::Said, place, Entry::quote(&team.said(source, text.trim()))),
            Origin::Agent => {
                // One entry stands for all that is told of a message.
                let is_told_with = |other: &&Passage| other.is_said_at(passage.message as usize);
                if joined[..nth].last().as_ref().is_some_and(is_told_with) {
                    return None;
                }
                let told = joined[nth..].iter().take_while(is_told_with);
                let told: Vec<String> = told.map(|passage| said(passage, material)).collect();
                let (number, label) = place_of(sources, passage.message as usize, team);
                (Section::Story, (number, place.1), Entry::labelled(&label, &joined_with_gaps(&told), false))
            }
            Origin::Code => {
                let label = format!("{} {}", source.label(), team.agent(source));
                (Section::Excerpts, place, Entry::labelled(&label, text, true))
            }
            Origin::Work => {
                let label = source_of(context, passage, source, folder);
                // The label says it already.
                if label.ends_with(text.trim()) {
                    return None;
                }
                let shown = if label == last_label { short_label(&label) } else { label.clone() };
                last_label = label;
                let mark = changes.outdate(passage, context, source).mark();
                (Section::Excerpts, place, excerpt(passage, source, text, &shown, mark))
            }
            Origin::Record(section) => (section, (carried[nth], passage.start as usize), Entry::carry(text)),
        };
        Some(entry)
    });
    written.collect()
}

/// Returns the numbers by which the entries of earlier records among `passages` are in order; 0 for others.
/// An entry came before its record's later ones, and before what comes after the record, whatever its label
/// says: it may be of a session whose messages had other labels.
fn numbers_of_carried(passages: &[Passage], sources: &[ContextMessage]) -> Vec<u64> {
    let mut numbers = vec![0; passages.len()];
    let mut after: Option<((u32, Section), u64)> = None;
    for (passage, number) in passages.iter().zip(&mut numbers).rev() {
        let Origin::Record(section) = passage.origin else { continue };
        let of_record = sources[passage.message as usize].id().map_or(u64::MAX, MessageId::as_u64);
        let place = (passage.message, section);
        let most = after.filter(|(later, _)| *later == place).map_or(of_record, |(_, number)| number);
        *number = most.min(Entry::carry(passage.text(sources)).number());
        after = Some((place, *number));
    }
    numbers
}

/// Returns the number by which what the agent says in a message is in order, and its label. A summary that
/// was written in this compaction is in no log yet: it has the labels of the messages that it replaces.
fn place_of(sources: &[ContextMessage], position: usize, team: &Team) -> (u64, String) {
    let source = &sources[position];
    if source.id().is_some() {
        let author = if source.role() == Role::User { SUMMARY.to_owned() } else { team.agent(source) };
        return (number(source), format!("{} {author}", source.label()));
    }
    let id = |message: &ContextMessage| message.id().map(MessageId::as_u64);
    let first =
        sources[..position].iter().rev().find_map(id).map_or(MessageId::FIRST.as_u64(), |before| before + 1);
    match sources[position + 1..].iter().find_map(id) {
        Some(after) if after > first + 1 => (first, format!("m{first}–m{} {SUMMARY}", after - 1)),
        _ => (first, format!("m{first} {SUMMARY}")),
    }
}

/// The mark in place of what is not told of a text or a list.
const GAP: &str = "[…]";

/// Returns passages of one text below each other, with one mark between two.
fn joined_with_gaps(told: &[String]) -> String {
    let bare = told.iter().enumerate().map(|(nth, text)| {
        let text = if nth > 0 { text.trim_start_matches(GAP).trim_start() } else { text.as_str() };
        if nth + 1 < told.len() { text.trim_end_matches(GAP).trim_end() } else { text }
    });
    bare.collect::<Vec<_>>().join(format!(" {GAP}\n").as_str())
}

/// Returns a passage of what the agent says, with marks where something is cut.
fn said(passage: &Passage, material: &Material<'_>) -> String {
    let position = passage.message as usize;
    let features = material.sources[position].features();
    let words = material.speech.final_words(position);
    let Some(words) = words.filter(|words| words.contains(&(passage.start as usize))) else {
        return with_cuts(passage, said_around(passage, material));
    };
    let from = if features.beside_calls().contains(char::is_alphanumeric) { 0 } else { words.start };
    let (start, end) = (passage.start as usize - from, words.end.min(passage.end as usize) - from);
    let moved = Passage { start: start as u32, end: end as u32, ..*passage };
    with_cuts(&moved, &features.text[from..words.end])
}

/// Returns the text of the agent's that a passage is a part of, without the announcement of a call and the
/// calls if it stands before those: nothing is missing then.
fn said_around<'m>(passage: &Passage, material: &Material<'m>) -> &'m str {
    let Material { sources, announcements, .. } = *material;
    let position = passage.message as usize;
    let features = sources[position].features();
    let said = features.beside_calls();
    let announced_from = announcements.end_before(sources, position).map_or(said.len(), |end| end as usize);
    let ends = [announced_from, said.len()].into_iter().find(|end| passage.end as usize <= *end);
    &features.text[..ends.unwrap_or(features.text.len())]
}

/// Returns a passage of `whole`, with a mark where it begins or ends within a sentence, and where something
/// stands before or after it.
fn with_cuts(passage: &Passage, whole: &str) -> String {
    let (before, rest) = whole.split_at(passage.start as usize);
    let (text, after) = rest.split_at((passage.end - passage.start) as usize);
    let text = text.trim();
    // No more than the next mark is read: a line may be as long as a text.
    let is_blank = |c: char| c.is_whitespace() && !is_line_break(c);
    let last = before.trim_end_matches(is_blank).chars().next_back();
    let begins = last.is_none_or(|c| is_line_break(c) || SENTENCE_ENDS.contains(&c));
    let next = after.trim_start_matches(is_blank).chars().next();
    let ends = text.ends_with(SENTENCE_ENDS) || next.is_none_or(is_line_break);
    let first = text.lines().next();
    // An answer may begin with what its end only adds to.
    let is_further =
        before.contains(char::is_alphanumeric) || first.and_then(number_of).is_some_and(|number| number > 1);
    let goes_on = after.contains(char::is_alphanumeric);
    let begin = if !begins {
        "… "
    } else if is_further {
        "[…] "
    } else {
        ""
    };
    let end = if !ends {
        " …"
    } else if goes_on {
        " […]"
    } else {
        ""
    };
    format!("{begin}{text}{end}")
}

/// Checks whether nothing but blanks, brackets and marks of code stands between two passages.
fn is_nothing(between: &str) -> bool {
    let rest = |line| split_number(line).map_or(line, |(_, rest)| rest);
    let is_nothing = |line: &str| !line.contains(char::is_alphanumeric) || line.trim().starts_with(FENCE);
    between.lines().map(rest).all(is_nothing)
}

/// Returns a passage of work under its `label`, with a `mark` if it is out of date. Numbers of lines stand in
/// the label once, in place of one in front of each line: the lines are then as they are in the file.
fn excerpt(passage: &Passage, source: &ContextMessage, text: &str, label: &str, mark: &str) -> Entry {
    let whole = &source.features().text;
    let around =
        [whole[..passage.start as usize].lines().next_back(), whole[passage.end as usize..].lines().nth(1)];
    match without_numbers(text, around).filter(|_| has_line_numbers(whole)) {
        Some((first, last, text)) if first == last => {
            Entry::labelled(&format!("{label}:{first}{mark}"), &text, true)
        }
        Some((first, last, text)) => Entry::labelled(&format!("{label}:{first}–{last}{mark}"), &text, true),
        None => Entry::labelled(&format!("{label}{mark}"), text, true),
    }
}

/// Most characters of the label of a further passage of the same source.
const SHORT_LABEL_CHARS: usize = 48;

/// Returns the label of a further passage of the same source: of a path that is too long, the name of the
/// file.
pub(super) fn short_label(label: &str) -> String {
    if label.chars().count() <= SHORT_LABEL_CHARS {
        return label.to_owned();
    }
    let mut short = String::new();
    for word in label.split(' ') {
        if short.chars().count() + word.chars().count() >= SHORT_LABEL_CHARS {
            let name = word.trim_end_matches('/').rfind('/').map_or("", |slash| &word[slash + 1..]);
            short.push_str(if name.is_empty() { " …" } else { " …/" });
            short.push_str(name);
            break;
        }
        if !short.is_empty() {
            short.push(' ');
        }
        short.push_str(word);
    }
    short
}

/// Returns the label of a passage of work: its message, and where that is from.
pub(super) fn source_of(
    context: &Context,
    passage: &Passage,
    source: &ContextMessage,
    folder: &Folder,
) -> String {
    let role = source.message().role();
    let of = match answered_call(context, passage.message as usize).filter(|_| role == Role::Tool) {
        Some(asked) => {
            let tool = tool_name(asked.call).unwrap_or_default();
            format!("{tool}{}", folder.subject(asked.deed))
        }
        None if role == Role::Assistant && passage.lines(source.features())[0].begins_call => {
            "call".to_owned()
        }
        None if role == Role::Assistant => call(passage, source, folder),
        // A harness sent it under the user's role.
        None if role == Role::User && !source.starts_turn() => "note".to_owned(),
        None => role.as_str().to_owned(),
    };
    format!("{} {of}", source.label())
}

/// Returns the source of what the agent wrote in a call: the last one that begins before the passage. A label
/// does not repeat the beginning of the passage.
fn call(passage: &Passage, source: &ContextMessage, folder: &Folder) -> String {
    let features = source.features();
    let begins = features.lines.iter().take_while(|line| line.start <= passage.start);
    let begins = begins.filter(|line| line.begins_call);
    let nth = begins.count().saturating_sub(1);
    match (source.message().calls().get(nth), source.findings().deeds.get(nth)) {
        (Some(call), Some(deed)) => {
            let tool = tool_name(call).unwrap_or_default();
            let patched = (deed.touches.len() > 1).then(|| patched_file(features, passage)).flatten();
            let subject = match patched {
                Some(path) => format!(" {}", folder.path(path)),
                None => folder.subject(deed),
            };
            let text = &features.text[passage.start as usize..passage.end as usize];
            let shown = if begins_with(text, subject.trim_end_matches('…')) { "" } else { &subject };
            format!("call {tool}{shown}")
        }
        _ => "call".to_owned(),
    }
}

/// Returns the file of a patch that a passage of it changes: the last one that is named before it.
fn patched_file<'a>(features: &'a Features, passage: &Passage) -> Option<&'a str> {
    let before = features.lines.iter().take_while(|line| line.start <= passage.start);
    before.filter_map(|line| patched_in(features.line(line))).last()
}

/// Checks whether a text begins with the words of a subject, of which the last may be shortened.
fn begins_with(text: &str, subject: &str) -> bool {
    let mut words = text.split_whitespace();
    let is_next = |word: &str| words.next().is_some_and(|next| next.starts_with(word));
    !subject.trim().is_empty() && subject.split_whitespace().all(is_next)
}

/// Returns the first and the last number of lines that all have one in front, and the lines without them;
/// `None` if not all have, or if they do not count up. A single line is known by the lines `around` it.
fn without_numbers(text: &str, around: [Option<&str>; 2]) -> Option<(u64, u64, String)> {
    let mut numbers: Vec<u64> = Vec::new();
    let mut lines: Vec<&str> = Vec::new();
    for line in text.split('\n') {
        let blank = || Some((line.trim().parse().ok()?, ""));
        let (number, rest) = split_number(line).or_else(blank)?;
        if numbers.last().is_some_and(|last| number != last + 1) {
            return None;
        }
        numbers.push(number);
        lines.push(rest);
    }
    // Blank lines at the start and the end tell nothing.
    let is_told = |line: &&str| !line.trim().is_empty();
    let told = lines.iter().position(is_told)?..lines.iter().rposition(is_told)? + 1;
    let n_lines = numbers.len();
    let (numbers, lines) = (&numbers[told.clone()], &lines[told]);
    let (first, last) = (*numbers.first()?, *numbers.last()?);
    let number_of = |line: Option<&str>| Some(split_number(line?)?.0);
    let [before, after] = around.map(number_of);
    let is_certain =
        n_lines > 1 || before == first.checked_sub(1) && before.is_some() || after == Some(last + 1);
    is_certain.then(|| (first, last, lines.join("\n")))
}

/// Checks whether the numbers in front of a text's lines are those of lines. Hours and the keys of a table
/// count up as well, but no line of them is empty or indented behind its number.
fn has_line_numbers(text: &str) -> bool {
    let mut rests = text.lines().filter_map(split_number).map(|(_, rest)| rest);
    text.contains('→') || rests.any(|rest| rest.is_empty() || rest.starts_with([' ', '\t']))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::Message;
    use crate::compaction::fixture::{Characters, conversation};

    #[test]
    fn a_summary_that_is_in_no_log_has_the_labels_of_what_it_replaces() {
        let log = conversation("suaaa");
        let view = log.view();
        let [first, second, third, _, fifth] = view.messages() else { panic!("five messages") };
        let new = ContextMessage::count(Message::assistant("All is done.").compacted(), &Characters);
        for (messages, position, expected) in [
            (vec![first, second, &new, fifth], 2, (2, "m2–m3 summary")),
            (vec![first, &new, third], 1, (1, "m1 summary")),
            (vec![first, &new], 1, (1, "m1 summary")),
            (vec![first, second, third], 2, (2, "m2 agent")),
        ] {
            let messages: Vec<ContextMessage> = messages.into_iter().cloned().collect();
            let (number, label) = place_of(&messages, position, &Team::of(&messages));
            assert_eq!((number, label.as_str()), expected);
        }
    }

    #[test]
    fn the_author_of_an_entry_is_read_from_its_label() {
        for (entry, said, is_said, is_of_user) in [
            ("m7 agent: It is done.", Some(7), true, false),
            ("m7 agent (planner): It is done.", Some(7), true, false),
            ("m7 summary: It is done.", None, true, false),
            ("m7 user: It is done.", None, false, true),
            ("m7 user (Ana): It is done.", None, false, true),
            ("m7 agent a task: done", None, false, false),
        ] {
            assert_eq!((said_in(entry), is_statement(entry), is_answer(entry)), (said, is_said, is_of_user));
        }
    }

    #[test]
    fn a_passage_has_marks_where_a_sentence_or_a_list_is_cut() {
        let cut = |whole: &str, part: &str| {
            let start = whole.find(part).unwrap() as u32;
            let passage = Passage {
                message: 0,
                start,
                end: start + part.len() as u32,
                lines_from: 0,
                lines_to: 1,
                origin: Origin::Agent,
                is_outdated: false,
                only_names: false,
                is_code: false,
            };
            with_cuts(&passage, whole)
        };
        for (whole, part, expected) in [
            ("One. Two. Three.", "Two.", "[…] Two. […]"),
            ("One. Two. Three.", "One.", "One. […]"),
            ("One. Two. Three.", "Two. Three.", "[…] Two. Three."),
            ("One. Two, or three.", "Two,", "[…] Two, …"),
            ("One or two. Three.", "or two.", "… or two. […]"),
            ("One, and\n  two\nThree.", "two", "[…] two […]"),
            ("扉は閉。鍵は右。", "鍵は右。", "[…] 鍵は右。"),
            ("- One\n- Two\n- Three", "- Two", "[…] - Two […]"),
            ("1. One\n\n2. Two", "1. One", "1. One […]"),
            ("| a | b |\n|---|---|\n| 1 | 2 |", "| a | b |", "| a | b | […]"),
            ("Some of them:\n- One", "Some of them:", "Some of them: […]"),
            ("Some of them:\n  - One", "- One", "[…] - One"),
            ("**\n\nOne.", "One.", "One."),
        ] {
            assert_eq!(cut(whole, part), expected, "{whole}");
        }
    }

    #[test]
    fn between_two_passages_of_a_text_stands_one_mark() {
        for (told, expected) in [
            (vec!["[…] - Two […]"], "[…] - Two […]"),
            (vec!["One.", "Two."], "One. […]\nTwo."),
            (vec!["One:", "[…] - Two […]", "[…] - Three"], "One: […]\n- Two […]\n- Three"),
        ] {
            let told: Vec<String> = told.into_iter().map(str::to_owned).collect();
            assert_eq!(joined_with_gaps(&told), expected);
        }
    }

    #[test]
    fn a_further_passage_of_a_source_has_a_short_label() {
        for (label, expected) in [
            ("m7 read src/a.rs", "m7 read src/a.rs"),
            (
                "m7 ask where the notes of the first meeting in March are kept",
                "m7 ask where the notes of the first meeting in …",
            ),
            ("m7 read crates/forge_domain/src/compaction/strategies/a.rs", "m7 read …/a.rs"),
            (
                "m7 fetch https://example.org/a-page-about-the-first-meeting/",
                "m7 fetch …/a-page-about-the-first-meeting/",
            ),
        ] {
            assert_eq!(short_label(label), expected);
        }
    }

    #[test]
    fn a_label_does_not_repeat_what_its_text_begins_with() {
        for (text, subject, expected) in [
            ("Go on with the list\nof all series.", " Go on with the list of all se…", true),
            ("Go on with the list", " Go on with", true),
            ("Go on", " Go on with", false),
            ("fn a() {}", " src/a.rs", false),
            ("fn a() {}", "", false),
        ] {
            assert_eq!(begins_with(text, subject.trim_end_matches('…')), expected, "{subject}");
        }
    }

    #[test]
    fn hours_and_keys_are_no_line_numbers() {
        for (text, expected) in [
            ("  9→fn a() {\n 10→    b()\n 11→}", true),
            ("[File: a.py]\n9:def a():\n10:    b()\n11:", true),
            ("41|a {\n42|  color: red;\n43|}", true),
            ("14:30 wind 12\n15:30 wind 14\n16:30 wind 9", false),
            ("id\tname\n1217\tCoil\n1218\tLever", false),
            ("1217|Coil|Ulm\n1218|Lever|Bonn", false),
            ("00:\n01:", false),
        ] {
            assert_eq!(has_line_numbers(text), expected, "{text}");
        }
    }

    #[test]
    fn numbers_of_lines_stand_once() {
        for (text, expected) in [
            ("  9→fn a() {\n 10→    b()\n 11→}", Some((9, 11, "fn a() {\n    b()\n}"))),
            ("9\ta\n10\t\n11\tb", Some((9, 11, "a\n\nb"))),
            ("9:a\n11:b", None),
            ("a\nb", None),
            ("12:b()", None),
            ("  8\ta\n  9\n 10\tb", Some((8, 10, "a\n\nb"))),
            ("8\t\n9\ta\n10\t", Some((9, 9, "a"))),
            ("9→a\nb", None),
        ] {
            let actual = without_numbers(text, [None, None]);
            assert_eq!(actual.as_ref().map(|(a, b, text)| (*a, *b, text.as_str())), expected, "{text}");
        }
        for (around, expected) in [
            ([Some("11\ta"), None], true),
            ([None, Some(" 13\tc")], true),
            ([Some("10\ta"), Some("c")], false),
        ] {
            assert_eq!(without_numbers("12\tb", around).is_some(), expected, "{around:?}");
        }
    }
}
