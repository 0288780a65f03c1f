//! Shorter forms of a passage, for where all of it does not fit.

use super::announcements::sentences;
use super::passage::Passage;
use crate::compaction::features::{Features, is_line_break};

/// Most characters before a sentence on its line that are the number or the letter of an item.
const LABEL_CHARS: usize = 4;

/// Returns a passage and the parts that end as it does, the longest first. Each begins with a sentence, an
/// item with its number.
pub(super) fn ends_of(passage: Passage, features: &Features) -> Vec<Passage> {
    let text = &features.text[passage.start as usize..passage.end as usize];
    let is_begin = |start: &usize| {
        let before = text[..*start].rsplit(is_line_break).next().unwrap_or_default().trim();
        *start > 0 && (before.is_empty() || before.chars().nth(LABEL_CHARS).is_some())
    };
    let begins = sentences(text).map(|sentence| sentence.start).filter(is_begin);
    let ends = begins.map(|begin| {
        let start = passage.start + begin as u32;
        let before = passage.lines(features).iter().take_while(|line| line.end <= start);
        Passage { start, lines_from: passage.lines_from + before.count() as u32, ..passage }
    });
    std::iter::once(passage).chain(ends).collect()
}

/// Returns a passage and the parts that begin as it does, the longest first. Each ends with a line.
pub(super) fn beginnings_of(passage: Passage, features: &Features) -> Vec<Passage> {
    let lines = passage.lines(features);
    let beginnings = (1..lines.len()).rev().map(|n_lines| Passage {
        end: lines[n_lines - 1].end,
        lines_to: passage.lines_from + n_lines as u32,
        ..passage
    });
    std::iter::once(passage).chain(beginnings).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::cutting::passages;
    use super::super::passage::Origin;
    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::{ContextMessage, Message};

    /// Returns the texts and the numbers of lines of the parts of the only passage of a text of the agent's.
    fn parts_of(text: &str, parts: impl Fn(Passage, &Features) -> Vec<Passage>) -> Vec<(String, usize)> {
        let message = ContextMessage::count(Message::assistant(text), &Characters);
        let n_lines = message.features().lines.len();
        let [whole] = passages(&message, 0, Origin::Agent, 0..n_lines, None)[..] else {
            panic!("not one passage")
        };
        let parts = parts(whole, message.features());
        let text = |part: &Passage| part.text(std::slice::from_ref(&message)).to_owned();
        parts.iter().map(|part| (text(part), part.n_lines())).collect()
    }

    #[test]
    fn the_ends_of_a_passage_begin_with_sentences_and_items() {
        for (text, expected) in [
            (
                "The door is open. May I:\n1. Close it?\n2. Lock it?",
                vec![
                    ("The door is open. May I:\n1. Close it?\n2. Lock it?", 3),
                    ("May I:\n1. Close it?\n2. Lock it?", 3),
                    ("1. Close it?\n2. Lock it?", 2),
                    ("2. Lock it?", 1),
                ],
            ),
            (
                "扉は開いています。閉めますか？",
                vec![("扉は開いています。閉めますか？", 1), ("閉めますか？", 1)],
            ),
            ("Shall I?", vec![("Shall I?", 1)]),
        ] {
            let actual = parts_of(text, ends_of);
            let actual: Vec<(&str, usize)> = actual.iter().map(|(text, n)| (text.as_str(), *n)).collect();
            assert_eq!(actual, expected, "{text}");
        }
    }

    #[test]
    fn the_beginnings_of_a_passage_end_with_lines() {
        let actual = parts_of("1. Close it.\n   It is cold.\n   And dark.", beginnings_of);
        let actual: Vec<(&str, usize)> = actual.iter().map(|(text, n)| (text.as_str(), *n)).collect();
        let expected = [
            ("1. Close it.\n   It is cold.\n   And dark.", 3),
            ("1. Close it.\n   It is cold.", 2),
            ("1. Close it.", 1),
        ];
        assert_eq!(actual, expected);
    }
}
