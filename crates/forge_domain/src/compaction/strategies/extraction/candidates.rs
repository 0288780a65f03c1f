//! The passages that may be chosen, and what was chosen of them.

use std::collections::BTreeMap;

use super::passage::Passage;

/// An answer repeats another message's if at most this share of its terms is new, in percent; and the most
/// messages that say the same: a value may have changed between them.
const NEW_PERCENT: usize = 25;
const MOST_REPEATED: usize = 2;
/// The share of what a statement says that is new, at most, if it says nearly the same as another one. Of
/// fewer terms, none does.
const MOST_NEW: f32 = 0.15;
const LEAST_TOLD: usize = 4;
/// The share of the smaller of two statements that they have in common if the later one may correct the
/// earlier.
const CORRECTS: f32 = 0.25;

/// The questions of an interview that stand with their answers, by the positions of the answers.
pub(super) type Interview = BTreeMap<u32, Passage>;

/// The passages that may be chosen, with the numbers of their terms, close together: they are read
/// repeatedly.
pub(super) struct Candidates {
    pub(super) passages: Vec<Passage>,
    pub(super) terms: Vec<u32>,
    /// The ends of each passage's terms.
    pub(super) ends: Vec<u32>,
    /// The bytes of what stands with each passage if it is chosen: in talk, the question that it answers.
    pub(super) beside: Vec<u32>,
    /// The questions that name any term of each passage.
    pub(super) asked_by: Vec<Questions>,
    /// The terms that any question names, line by line of each passage, and the ends of each passage's.
    pub(super) asked_terms: Vec<AskedTerm>,
    pub(super) asked_ends: Vec<u32>,
    pub(super) n_lines: LineCounts,
    /// True for each that was chosen: what is told once is not weighed again.
    pub(super) is_chosen: Vec<bool>,
    /// Those that were chosen as answers, to whichever question.
    pub(super) answers: Vec<Said>,
    /// The statements of the agent that were chosen.
    pub(super) told: Vec<Said>,
    /// Their number in each message, by its position.
    pub(super) n_told: Vec<u16>,
}

impl Candidates {
    pub(super) fn terms(&self, index: usize) -> &[u32] {
        part(&self.terms, &self.ends, index)
    }

    /// Returns the bytes of a passage with what stands with it.
    pub(super) fn n_bytes(&self, index: usize) -> u32 {
        self.passages[index].n_bytes() + self.beside[index]
    }

    pub(super) fn asked_terms(&self, index: usize) -> &[AskedTerm] {
        part(&self.asked_terms, &self.asked_ends, index)
    }

    /// Checks whether a candidate names anything that one of `questions` does.
    pub(super) fn may_answer(&self, index: usize, questions: Questions) -> bool {
        self.asked_by[index] & questions != 0
    }

    /// Checks whether as many other messages as needed say nearly the same as such terms of `message`, as
    /// answers to any question.
    pub(super) fn is_answered(&self, message: u32, terms: &[u32]) -> bool {
        let others = self.answers.iter().filter(|answer| answer.message != message);
        others.filter(|answer| answer.has_nearly_all(terms)).nth(MOST_REPEATED - 1).is_some()
    }

    /// Returns the statement that `is_open`, has the author of that at `index`, is later and says most of the
    /// same, by what each term `says`, if that is enough to correct it.
    pub(super) fn said_later(
        &self,
        index: usize,
        is_open: impl Fn(&Passage) -> bool,
        says: impl Fn(u32) -> f32,
    ) -> Option<usize> {
        let Passage { message, origin, .. } = self.passages[index];
        let earlier = Said::of(message, self.terms(index).to_vec());
        // Looked up once for each term of each later one: faster than a search.
        let mut is_said = vec![false; self.n_lines.with.len()];
        earlier.terms.iter().for_each(|term| is_said[*term as usize] = true);
        let sum = |terms: &mut dyn Iterator<Item = &u32>| -> f32 { terms.map(|term| says(*term)).sum() };
        let all = sum(&mut earlier.terms.iter());
        let mut best = None;
        for (later, passage) in self.passages.iter().enumerate() {
            let is_later = passage.message > earlier.message && passage.origin == origin;
            if !is_later || self.is_chosen[later] || self.terms(later).len() < LEAST_TOLD || !is_open(passage)
            {
                continue;
            }
            let terms = self.terms(later);
            let shared = sum(&mut terms.iter().filter(|term| is_said[**term as usize]));
            // Most have nothing in common.
            if shared <= 0.0 {
                continue;
            }
            let share = shared / all.min(sum(&mut terms.iter()));
            if share >= CORRECTS && best.is_none_or(|(most, _)| share > most) {
                best = Some((share, later));
            }
        }
        best.map(|(_, later)| later)
    }

    /// Checks whether the agent says nearly the same in one that was chosen, by what each term `says`: one
    /// number makes a difference if it is rare.
    pub(super) fn is_told(&self, terms: &[u32], says: impl Fn(u32) -> f32) -> bool {
        let sum = |terms: &mut dyn Iterator<Item = &u32>| -> f32 { terms.map(|term| says(*term)).sum() };
        let most_new = sum(&mut terms.iter()) * MOST_NEW;
        let is_same = |told: &Said| sum(&mut terms.iter().filter(|term| !told.has(**term))) <= most_new;
        terms.len() >= LEAST_TOLD && self.told.iter().any(is_same)
    }
}

/// The number of all lines, and of those that have each term that a question names.
pub(super) struct LineCounts {
    pub(super) all: usize,
    pub(super) with: Vec<u32>,
}

/// The occurrence of a term that a question names: the number of its line, and its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct AskedTerm {
    pub(super) line: u32,
    pub(super) number: u32,
    /// True for the first occurrence in its passage.
    pub(super) is_first: bool,
}

/// Returns the part of `all` that belongs to the passage at `index`, by the ends of the parts.
fn part<'a, T>(all: &'a [T], ends: &[u32], index: usize) -> &'a [T] {
    let begin = if index == 0 { 0 } else { ends[index - 1] };
    &all[begin as usize..ends[index] as usize]
}

/// A passage or a line that was chosen: its message, and the numbers of its terms, sorted.
pub(super) struct Said {
    message: u32,
    pub(super) terms: Vec<u32>,
    /// A bit for the last digits of each number: most terms of other texts are told apart by it.
    digits: [u64; DIGITS / 64],
}

/// The number of last digits that are told apart.
const DIGITS: usize = 256;

impl Said {
    pub(super) fn of(message: u32, mut terms: Vec<u32>) -> Self {
        terms.sort_unstable();
        let mut digits = [0; DIGITS / 64];
        for term in &terms {
            let (word, bit) = Self::digit(*term);
            digits[word] |= bit;
        }
        Self { message, terms, digits }
    }

    /// Returns the word and the bit for the last digits of a number.
    const fn digit(term: u32) -> (usize, u64) {
        let digit = term as usize % DIGITS;
        (digit / 64, 1 << (digit % 64))
    }

    fn has(&self, term: u32) -> bool {
        let (word, bit) = Self::digit(term);
        self.digits[word] & bit != 0 && self.terms.binary_search(&term).is_ok()
    }

    fn has_nearly_all(&self, terms: &[u32]) -> bool {
        let is_new = |term: &&u32| !self.has(**term);
        let most_new = terms.len() * NEW_PERCENT / 100;
        terms.iter().filter(is_new).nth(most_new).is_none()
    }
}

/// A set of questions: a bit for each; those after the last bit share it.
pub(super) type Questions = u16;

/// Returns the set of one question, by its number among those that a passage may answer.
pub(super) fn set_of(nth: usize) -> Questions {
    1 << nth.min(Questions::BITS as usize - 1)
}
