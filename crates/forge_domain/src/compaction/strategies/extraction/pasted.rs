//! Lines that the user pasted and that have one shape, such as the rows of a log, and drawings of marks. In a
//! record, the first of them is enough, with those that name an error. Lines with a number by itself are data
//! unless they begin with a time: the numbers are what the user tells in them.

use std::collections::{HashMap, HashSet};

use super::frames::shape;
use super::passage::{Passage, indented_start};
use crate::compaction::features::{Features, TermHasher, hash};
use crate::compaction::findings::has_sign_of_failure;

/// The fewest rows of a log, and lines whose words are the same.
const LEAST_ROWS: usize = 4;
const LEAST_ALIKE: usize = 6;
/// The fewest lines and marks of a drawing.
const LEAST_DRAWN: usize = 2;
const LEAST_MARKS: usize = 40;
/// The form of a time in a log, in which a 0 stands for any digit, and the most characters before it.
const TIME: &str = "0000-00-00 00:00:00";
const BEFORE_TIME: usize = 8;

/// The pasted lines of a message that are left out, by their starts.
pub(super) struct Pasted(HashSet<u32>);

impl Pasted {
    pub(super) fn of(features: &Features) -> Self {
        let mut left_out = HashSet::new();
        let mut alike: HashMap<u64, Vec<usize>, TermHasher> = HashMap::default();
        for (nth, line) in features.lines.iter().enumerate() {
            let text = features.line(line);
            if !text.contains(char::is_alphanumeric) {
                left_out.insert(line.start);
                continue;
            }
            let form = if begins_with_time(text) { hash(TIME) } else { shape(text) };
            alike.entry(form).or_default().push(nth);
        }
        for (form, lines) in alike {
            let is_log = form == hash(TIME);
            let least = if is_log { LEAST_ROWS } else { LEAST_ALIKE };
            let is_data = || !is_log && has_number(features.line(&features.lines[lines[0]]));
            if lines.len() < least || is_data() {
                continue;
            }
            // Of the same error, the first is enough as well.
            let mut errors: HashSet<u64, TermHasher> = HashSet::default();
            for (nth, line) in lines.into_iter().map(|line| &features.lines[line]).enumerate() {
                let text = features.line(line);
                let is_new_error = has_sign_of_failure(text) && errors.insert(shape(text));
                if nth > 0 && !is_new_error {
                    left_out.insert(line.start);
                }
            }
        }
        Self(left_out)
    }

    /// Returns the parts of a passage between the lines that are left out, and between drawings.
    pub(super) fn beside(&self, passage: &Passage, features: &Features) -> Vec<Passage> {
        let parts = passage.without(features, |line| self.0.contains(&line.start));
        parts.iter().flat_map(|part| without_drawings(part, features)).collect()
    }
}

/// Returns the parts of a passage between drawings.
fn without_drawings(passage: &Passage, features: &Features) -> Vec<Passage> {
    let mut parts: Vec<Passage> = Vec::new();
    for (line, nth) in passage.lines(features).iter().zip(passage.lines_from..) {
        let end = line.end.min(passage.end);
        let gap = |last: &Passage| &features.text[last.end as usize..line.start as usize];
        match parts.last_mut().filter(|last| !is_drawing(gap(last))) {
            Some(part) => (part.end, part.lines_to) = (end, nth + 1),
            None => {
                let is_first = nth == passage.lines_from;
                let start = if is_first { passage.start } else { indented_start(&features.text, line.start) };
                parts.push(Passage { start, end, lines_from: nth, lines_to: nth + 1, ..*passage });
            }
        }
    }
    parts
}

/// Checks whether what stands between two lines with words is drawn with marks.
pub(super) fn is_drawing(between: &str) -> bool {
    let n_lines = between.lines().filter(|line| !line.trim().is_empty()).count();
    let marks = between.chars().filter(|c| !c.is_whitespace() && !c.is_alphanumeric());
    n_lines >= LEAST_DRAWN && marks.count() >= LEAST_MARKS
}

/// Checks whether a line begins as a row of a log, with the date and the time.
fn begins_with_time(line: &str) -> bool {
    let digit = |c: char| match c {
        c if c.is_ascii_digit() => '0',
        'T' => ' ',
        c => c,
    };
    let begin: String = line.chars().take(BEFORE_TIME + TIME.len()).map(digit).collect();
    begin.contains(TIME)
}

/// Checks whether a line has a number by itself, which is no part of a name, a place or a time.
fn has_number(line: &str) -> bool {
    let words = line.split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | '|' | '='));
    let mut bare = words.map(|word| word.trim_matches(|c: char| !c.is_alphanumeric()));
    bare.any(|word| !word.is_empty() && word.chars().all(|c| c.is_numeric() || c == '.'))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::cutting::passages;
    use super::super::passage::Origin;
    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::{ContextMessage, Message};

    #[test]
    fn of_pasted_rows_the_first_and_those_with_an_error_are_told() {
        let row = |n: usize, says: &str| format!("2025-06-28T22:5{n}:05.9704{n}Z {says}");
        let told = ["the mill turns", "the wind is from the west", "a sack is full", "the miller sleeps"];
        let mut log: Vec<String> = told.iter().enumerate().map(|(n, says)| row(n, says)).collect();
        log.insert(3, row(8, "Error: the stone broke"));
        let alike: Vec<String> = (0..7).map(|n| format!("  at turn_{n} (mill.rs:{n})")).collect();
        let rooms = "Room 1: 20 m2\nRoom 2: 15 m2\nRoom 3: 12 m2\nRoom 4: 9 m2";
        let rents: Vec<String> =
            (1..9).map(|n| format!("Room {n}: {} m2, {} euros", n + 9, n * 40)).collect();
        let drawing = r"  _____  /\ ______ \__
 /  _  \/ /\___   /  /
/___|__ \/_______/__/";
        for (pasted, expected) in [
            (log.join("\n"), vec![log[0].as_str(), log[3].as_str()]),
            (alike.join("\n"), vec![alike[0].as_str()]),
            (drawing.to_owned(), vec![]),
            (rooms.to_owned(), vec![rooms]),
            (rents.join("\n"), rents.iter().map(String::as_str).collect()),
        ] {
            let text = format!("This is what I see:\n{pasted}\nAnd what now?");
            let message = ContextMessage::count(Message::user(text.as_str()), &Characters);
            let features = message.features();
            let pasted = Pasted::of(features);
            let whole = passages(&message, 0, Origin::User, 0..features.lines.len(), None);
            let parts = whole.iter().flat_map(|passage| pasted.beside(passage, features));
            let left: Vec<String> =
                parts.map(|part| part.text(std::slice::from_ref(&message)).to_owned()).collect();
            let expected = [vec!["This is what I see:"], expected, vec!["And what now?"]].concat();
            assert_eq!(left.join("\n"), expected.join("\n"), "{text}");
        }
    }
}
