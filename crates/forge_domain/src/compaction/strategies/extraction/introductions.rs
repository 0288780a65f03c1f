//! Lines that only introduce what follows them, such as headings. Apart because they move between passages
//! once these are cut: they say nothing without what they introduce.

use super::fence::FENCE;
use super::listing::is_word;
use super::passage::{Origin, Passage, indented_start};
use crate::compaction::features::{Features, SENTENCE_ENDS};
use crate::conversation::is_word_by_itself;

/// The length of a line that only introduces what follows it.
const INTRODUCTION_LENGTH: usize = 80;

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

/// Checks whether a line of the agent's only introduces what follows it.
pub(super) fn says_nothing_alone(line: &str) -> bool {
    is_introduction(line) || is_bold(line)
}

/// Checks whether a line is a heading, or short and ends with a colon.
fn is_introduction(line: &str) -> bool {
    let text = line.trim_end_matches(['*', '_', ' ']);
    line.starts_with('#') || (is_within(line, INTRODUCTION_LENGTH) && text.ends_with([':', '：']))
}

/// Checks whether all of a short line is in bold type, and no sentence.
fn is_bold(line: &str) -> bool {
    let bold = line.strip_prefix("**").and_then(|line| line.strip_suffix("**"));
    bold.is_some_and(|bold| is_within(line, INTRODUCTION_LENGTH) && !bold.ends_with(SENTENCE_ENDS))
}

/// Checks whether a text has at most such a length. It is counted in characters, so that every alphabet has
/// the same limit; one that is a word by itself counts as two.
pub(super) fn is_within(text: &str, length: usize) -> bool {
    let lengths = text.chars().map(|c| 1 + usize::from(is_word_by_itself(c)));
    lengths.take(length + 1).sum::<usize>() <= length
}

/// Checks whether a line of any length announces what follows it.
fn is_announcement(line: &str) -> bool {
    line.trim_end_matches(['*', '_', ' ']).ends_with([':', '：'])
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::cutting::passages;
    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::{ContextMessage, Message};

    #[test]
    fn a_length_is_counted_in_characters() {
        for (text, length, expected) in [
            ("", 0, true),
            ("Дверь:", 6, true),
            ("Дверь:", 5, false),
            ("दरवाज़ा", 7, true),
            ("门和锁：", 7, true),
            ("门和锁：", 6, false),
        ] {
            assert_eq!(is_within(text, length), expected, "{text} {length}");
        }
    }

    #[test]
    fn a_heading_stands_with_what_it_introduces_or_not_at_all() {
        let long = "The server reads its settings once, when it starts, and never again after that.";
        let told = |text: &str, is_newest: bool| {
            let message = ContextMessage::count(Message::assistant(text), &Characters);
            let n_lines = message.features().lines.len();
            let mut found = passages(&message, 0, Origin::Agent, 0..n_lines, None);
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
}
