//! Cuts what a message has into passages. Apart from the [`Passage`] itself, which later steps only move and
//! shorten: all that makes one long enough to stand alone, and no longer, is here.

use std::collections::HashSet;
use std::ops::Range;

use super::command_words::{CommandWords, command_words};
use super::fence::{FENCE, Fence};
use super::imports::Imports;
use super::listing::is_word;
use super::passage::{Origin, Passage, WORK_BYTES, WORK_LINES, indented_start, is_omission, is_row};
use super::told_lines::told_lines;
use crate::ContextMessage;
use crate::compaction::features::{Features, Line, SENTENCE_ENDS, is_line_break};
use crate::compaction::findings::Deed;

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
/// From so many bytes on, an empty line ends a passage.
const WHOLE_BYTES: u32 = 120;

/// Returns the passages of the `content` of the message at `position`, a range of its lines, whose author is
/// `origin`. A block of code in what the agent says is a passage of its own. In a call, the agent may have
/// `final_words` for the user.
pub(super) fn passages(
    message: &ContextMessage,
    position: usize,
    origin: Origin,
    content: Range<usize>,
    final_words: Option<&Range<usize>>,
) -> Vec<Passage> {
    let features = message.features();
    let mut passages: Vec<Passage> = Vec::new();
    let mut fence = Fence::default();
    let mut imports = Imports::default();
    let is_edit = message.findings().deeds.iter().any(Deed::changes_files);
    let is_compacted = message.message().is_compacted;
    let told = told_lines(message);
    let mut own_words = command_words(message);
    own_words.extend(final_words.map(|words| CommandWords { words: words.clone(), end: words.end }));
    for (nth, line) in features.lines.iter().enumerate().take(content.end).skip(content.start) {
        if is_omission(features.line(line)) || is_compacted && is_tag(features.line(line)) {
            continue;
        }
        // Text that an edit replaces is gone, or the new text has it as well.
        if line.is_old && is_edit {
            continue;
        }
        // Words without blanks may stand on the first line, behind the name of the tool.
        let behind_name = final_words.filter(|words| line.begins_call && words.start < line.end as usize);
        // The first line of a call is told with how the call ended, unless it is long.
        let next = features.lines.get(nth + 1).filter(|next| next.is_call);
        let is_alone = !next.is_some_and(|next| features.is_one_line(line, next));
        if line.begins_call && is_alone && behind_name.is_none() {
            continue;
        }
        let start = line.start as usize;
        let own = own_words.iter().find(|own| (own.words.start..own.end).contains(&start));
        if own.is_some_and(|own| start >= own.words.end) {
            continue;
        }
        if own.is_none() && behind_name.is_none() && told.contains(&nth) {
            continue;
        }
        let in_code = origin == Origin::Agent && !line.is_call && fence.pass(&features.text, line);
        if fence.is_at(line) || fence.is_in_old {
            continue;
        }
        let origin = match origin {
            _ if own.is_some() || behind_name.is_some() => Origin::Agent,
            _ if line.is_call => Origin::Work,
            _ if in_code => Origin::Code,
            origin => origin,
        };
        let is_import = origin == Origin::Work && imports.pass(&features.text, line);
        let is_next = |last: &Passage| {
            last.origin == origin && last.only_names == is_import && continues(last, features, nth)
        };
        let start = behind_name
            .map_or_else(|| indented_start(&features.text, line.start), |words| words.start as u32);
        match passages.last_mut().filter(|last| is_next(last)) {
            Some(last) => (last.end, last.lines_to) = (line.end, nth as u32 + 1),
            None => passages.push(Passage {
                message: position as u32,
                start,
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

/// Checks whether the line at `nth` may stand in a passage with those before it of the same author.
fn continues(last: &Passage, features: &Features, nth: usize) -> bool {
    let line = &features.lines[nth];
    let (most_bytes, most_lines) = match last.origin {
        Origin::Work if line.is_call => (WRITTEN_BYTES, WRITTEN_LINES),
        Origin::Work | Origin::Code => (WORK_BYTES, WORK_LINES),
        Origin::User | Origin::Agent | Origin::Record(_) => (SAID_BYTES, u32::MAX),
    };
    let gap = &features.text[last.end as usize..line.start as usize];
    let is_said = !matches!(last.origin, Origin::Work | Origin::Code);
    let is_in_sentence = is_said && is_in_sentence(&features.text[..last.end as usize], gap);
    // The rows of a table say nothing without its head.
    let is_in_table =
        is_said && is_row(features.line(line)) && is_row(features.line(&features.lines[nth - 1]));
    let most_bytes = match is_in_sentence {
        true => SENTENCE_BYTES,
        false if is_in_table => TABLE_BYTES,
        false => most_bytes,
    };
    !line.begins_call
        && line.end - last.start <= most_bytes
        && nth as u32 == last.lines_to
        && nth as u32 - last.lines_from < most_lines
        && !(gap.as_bytes().contains(&b'`') && gap.contains(FENCE))
        && (is_in_table || !(last.n_bytes() >= WHOLE_BYTES && is_break(gap, is_said)))
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

/// Checks whether a passage may end at a gap between two lines. In what somebody says, it may if the gap has
/// an empty line; the rule below the head of a table is not empty. In code, a line of nothing but marks is
/// enough.
fn is_break(gap: &str, is_said: bool) -> bool {
    let between: Vec<&str> = gap.split('\n').skip(1).collect();
    let between = between.split_last().map_or(&[][..], |(_, between)| between);
    between.iter().any(|line| !is_said || line.trim().is_empty())
}

/// Checks whether what follows `before` after `gap` continues its last sentence.
fn is_in_sentence(before: &str, gap: &str) -> bool {
    !gap.contains(is_line_break) && !before.ends_with(SENTENCE_ENDS) && !before.ends_with(':')
}

/// Checks whether a line is nothing but a tag, as before and after a summary.
fn is_tag(line: &str) -> bool {
    line.starts_with('<') && line.ends_with('>') && !line.contains(char::is_whitespace)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::{Message, ToolCall, ToolName, ToolResult};

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
            let found = passages(&message, 0, Origin::Agent, 0..message.features().lines.len(), None);
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
            let found = passages(&message, 0, Origin::Work, 0..message.features().lines.len(), None);
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
            let found = passages(&message, 0, Origin::Agent, 0..message.features().lines.len(), None);
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
        let found = passages(&message, 0, Origin::Agent, 0..message.features().lines.len(), None);
        let [changed] = found.as_slice() else { panic!("{found:?}") };
        assert!(changed.text(std::slice::from_ref(&message)).ends_with("lock_the_door();"));
    }

    #[test]
    fn a_passage_of_what_somebody_says_ends_with_a_sentence() {
        let sentence = |n: usize| format!("Sentence {n} tells of {}the end.", "a word and ".repeat(24));
        let text = [1, 2, 3, 4].map(sentence).join(" ");
        let message = ContextMessage::count(Message::assistant(text), &Characters);
        let n_lines = message.features().lines.len();
        let found = passages(&message, 0, Origin::Agent, 0..n_lines, None);
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
            passages(&message, 0, Origin::Agent, 0..n_lines, None).len()
        };
        assert_eq!(n_passages(table.replace("| ", "")), 2);
        assert_eq!(n_passages(table), 1);
    }
}
