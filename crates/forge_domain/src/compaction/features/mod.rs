//! The features of a message's text, line by line: computed once, when they are first needed.

mod garbled;
mod markup;
mod pieces;
mod signature;
mod spelling;
mod term;
mod text;

use std::ops::Range;

pub(crate) use self::garbled::is_garbled;
use self::markup::{is_markup, pieces_between};
use self::pieces::pieces;
pub(crate) use self::pieces::split_number;
pub(crate) use self::signature::Signature;
use self::spelling::terms;
pub(crate) use self::term::{ByTerm, Kind, Term, TermHasher, form_hash, hash};
use self::text::Written;
pub(crate) use self::text::text_of;
use crate::{Body, ContextMessage, Message};

/// The lines of a message and the terms in them.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Features {
    /// The text that the lines are ranges of: the message's text, then each call with its argument values.
    pub(crate) text: String,
    /// The lines in order; blank and garbled ones are left out and long ones are several.
    pub(crate) lines: Vec<Line>,
    /// The number of lines of the text as a program counts them, blank ones included.
    pub(crate) n_text_lines: u32,
    /// The distinct terms of all lines.
    pub(crate) terms: Vec<Term>,
    /// The terms of each line: their numbers, and where the word is. A ranking of lines needs the numbers
    /// alone.
    places: Vec<u32>,
    words: Vec<Word>,
    /// A quick check whether two texts are nearly the same.
    pub(crate) signature: Signature,
}

/// A line, or a piece of a long one.
#[derive(Debug, PartialEq)]
pub(crate) struct Line {
    /// Its bytes in the text.
    pub(crate) start: u32,
    pub(crate) end: u32,
    /// Its part of the places.
    places_from: u32,
    n_places: u16,
    /// True if it is from a tool call.
    pub(crate) is_call: bool,
    /// True if a tool call begins with it.
    pub(crate) begins_call: bool,
    /// True if it is from an argument that holds what another one replaces.
    pub(crate) is_old: bool,
}

impl Line {
    fn range(&self) -> Range<usize> {
        let from = self.places_from as usize;
        from..from + usize::from(self.n_places)
    }
}

/// The position of a term's first occurrence in a line, and its length, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Word {
    at: u16,
    len: u16,
}

/// Checks whether `c` ends a line for any reader: a program or a model.
pub(crate) const fn is_line_break(c: char) -> bool {
    matches!(c, '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// The characters that end a sentence.
pub(crate) const SENTENCE_ENDS: [char; 9] = ['.', '!', '?', '。', '！', '？', '।', '۔', '؟'];

impl ContextMessage {
    /// Returns the features of its lines, computed once.
    pub(crate) fn features(&self) -> &Features {
        self.form(Features::of)
    }
}

impl Features {
    pub(crate) fn of(message: &Message) -> Self {
        let Written { mut text, old, calls, .. } = Written::of(message);
        let mut reading = Reading::default();
        let (mut start, mut n_text_lines) = (0, u32::from(!text.is_empty() && !text.ends_with('\n')));
        let is_answer = matches!(message.body, Body::Assistant { .. }) && calls.is_empty();
        let is_result = matches!(message.body, Body::Tool(_));
        let pieces = if is_answer && is_markup(&text) { pieces_between } else { pieces };
        for line in text.split_inclusive(is_line_break) {
            n_text_lines += u32::from(line.ends_with('\n'));
            for (from, to) in pieces(line) {
                let (at, piece) = (start + from, &line[from..to]);
                let place = Place {
                    is_call: calls.first().is_some_and(|first| at >= *first),
                    begins_call: calls.contains(&at),
                    is_old: old.iter().any(|old| old.contains(&at)),
                };
                // A call is known by its first line.
                let is_of_tool = is_result || place.is_call && !place.begins_call;
                if !(is_of_tool && is_garbled(piece)) {
                    reading.take(piece, at, place);
                }
            }
            start += line.len();
        }
        let Self { mut lines, mut terms, mut places, mut words, .. } = reading.features;
        text.shrink_to_fit();
        lines.shrink_to_fit();
        terms.shrink_to_fit();
        places.shrink_to_fit();
        words.shrink_to_fit();
        let signature = Signature::of(&terms);
        Self { text, lines, n_text_lines, terms, places, words, signature }
    }

    /// Returns the numbers of the terms of `line`, each once, in order.
    pub(crate) fn places(&self, line: &Line) -> &[u32] {
        &self.places[line.range()]
    }

    /// Iterates over those of the places of `line` whose word begins before `end`, a byte of the text.
    pub(crate) fn places_before(&self, line: &Line, end: u32) -> impl Iterator<Item = u32> {
        let words = &self.words[line.range()];
        let places = self.places(line).iter().zip(words);
        places.filter(move |(_, word)| line.start + u32::from(word.at) < end).map(|(place, _)| *place)
    }

    /// Returns the word for the term of `line` at `nth` of its places.
    pub(crate) fn word(&self, line: &Line, nth: usize) -> &str {
        let word = self.words[line.range()][nth];
        let start = line.start as usize + usize::from(word.at);
        &self.text[start..start + usize::from(word.len)]
    }

    /// Returns the text before the calls, which is what somebody says.
    pub(crate) fn beside_calls(&self) -> &str {
        let call = self.lines.iter().find(|line| line.is_call);
        &self.text[..call.map_or(self.text.len(), |call| call.start as usize)]
    }

    pub(crate) fn line(&self, line: &Line) -> &str {
        &self.text[line.start as usize..line.end as usize]
    }

    /// Checks whether two lines that follow each other are pieces of one.
    pub(crate) fn is_one_line(&self, line: &Line, next: &Line) -> bool {
        !self.text[line.end as usize..next.start as usize].contains(is_line_break)
    }
}

/// The features of what was read so far.
#[derive(Default)]
struct Reading {
    features: Features,
    /// The number of each term by its hash.
    numbers: ByTerm<u32>,
    /// For each term one more than the number of the last line that has it.
    last_lines: Vec<u32>,
}

/// The part of a message that a line is from.
struct Place {
    is_call: bool,
    begins_call: bool,
    is_old: bool,
}

impl Reading {
    /// Adds a line that starts at `start`, if it has any term.
    fn take(&mut self, piece: &str, start: usize, Place { is_call, begins_call, is_old }: Place) {
        let places_from = self.features.places.len();
        terms(piece, &mut |word, kind| self.place(piece, word, kind, is_call));
        let n_places = self.features.places.len() - places_from;
        if n_places > 0 {
            self.features.lines.push(Line {
                start: start as u32,
                end: (start + piece.len()) as u32,
                places_from: places_from as u32,
                n_places: n_places as u16,
                is_call,
                begins_call,
                is_old,
            });
        }
    }

    fn place(&mut self, piece: &str, word: &str, kind: Kind, is_call: bool) {
        let Features { lines, terms, places, words, .. } = &mut self.features;
        let term = Term::new(form_hash(word, kind), kind);
        let number = *self.numbers.entry(term.hash()).or_insert_with(|| {
            terms.push(term);
            self.last_lines.push(0);
            terms.len() as u32 - 1
        });
        terms[number as usize].take(kind, is_call);
        let last_line = &mut self.last_lines[number as usize];
        let this_line = lines.len() as u32 + 1;
        if *last_line != this_line {
            *last_line = this_line;
            let at = (word.as_ptr() as usize - piece.as_ptr() as usize) as u16;
            places.push(number);
            words.push(Word { at, len: word.len() as u16 });
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::compaction::fixture::tool_call;

    #[test]
    fn lines_are_ranges_of_what_is_said_and_called() {
        let call = tool_call("Edit", r#"{"path":"a/b.rs","new":"first line\nsecond line"}"#);
        let message = Message::new(Body::Assistant { content: Some("Some words".into()), calls: vec![call] });
        let features = Features::of(&message);
        let actual: Vec<(&str, bool)> =
            features.lines.iter().map(|line| (features.line(line), line.is_call)).collect();
        let expected =
            [("Some words", false), ("Edit a/b.rs", true), ("first line", true), ("second line", true)];
        assert_eq!(actual, expected);
    }
}
