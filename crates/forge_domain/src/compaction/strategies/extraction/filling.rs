//! The parts that a record is filled with.

use std::collections::{BTreeSet, HashSet};

use super::Material;
use super::answered::{Answered, Asked, Picked};
use super::candidates::Interview;
use super::excerpt::{answer, write};
use super::label::number;
use super::passage::{Origin, Passage};
use super::record::{Entry, Record, Section};
use crate::Tokens;
use crate::compaction::features::{TermHasher, hash, is_line_break, split_number};

/// The parts of a record, the most worth first.
#[derive(Default)]
pub(super) struct Filling {
    pub(super) passages: Vec<(Passage, Tokens)>,
    pub(super) entries: Vec<(Section, Placed, Tokens)>,
    pub(super) known: HashSet<u64, TermHasher>,
    /// The messages of the passages of work, and of what the agent says.
    pub(super) quoted: HashSet<u32>,
    pub(super) said: HashSet<u32>,
    /// The questions that stand with answers of the user's, by the positions of the answers.
    pub(super) interview: Interview,
    /// The messages of the passages that were dropped after all.
    pub(super) dropped: HashSet<u32>,
}

/// An entry and its place among the others of its section.
pub(super) struct Placed {
    pub(super) place: (u64, usize),
    pub(super) entry: Entry,
}

impl Filling {
    /// Returns a filling that knows the lines of everything that stays.
    pub(super) fn beside(staying: impl Iterator<Item = impl AsRef<str>>) -> Self {
        let mut filling = Self::default();
        for text in staying {
            filling.learn(text.as_ref());
        }
        filling
    }

    /// Adds a passage, and returns its tokens.
    pub(super) fn push(&mut self, passage: Passage, tokens: Tokens) -> Tokens {
        match passage.origin {
            Origin::Work => drop(self.quoted.insert(passage.message)),
            Origin::Agent => drop(self.said.insert(passage.message)),
            _ => {}
        }
        self.passages.push((passage, tokens));
        tokens
    }

    /// Learns the lines of a text; returns false if all of them were known.
    pub(super) fn learn(&mut self, text: &str) -> bool {
        self.learn_by(text, line_hash)
    }

    /// Learns the lines of somebody's words, of which a number or a sign before them is a part; returns false
    /// if all of them were known.
    pub(super) fn learn_said(&mut self, text: &str) -> bool {
        self.learn_by(text, hash)
    }

    fn learn_by(&mut self, text: &str, known_by: impl Fn(&str) -> u64) -> bool {
        let mut is_new = false;
        for line in lines(text) {
            is_new |= self.known.insert(known_by(line));
            self.known.extend([hash(line), line_hash(line)]);
        }
        is_new
    }

    /// Checks whether it has a passage of the message at `position` that `is_of` a `text`, or all of that
    /// stands elsewhere.
    pub(super) fn has_any_of(&self, position: usize, is_of: impl Fn(&Passage) -> bool, text: &str) -> bool {
        let is_passage =
            |(passage, _): &(Passage, Tokens)| passage.message as usize == position && is_of(passage);
        let is_known = || lines(text).all(|line| self.known.contains(&hash(line)));
        self.passages.iter().any(is_passage) || !self.dropped.contains(&(position as u32)) && is_known()
    }

    /// Drops the least valuable until `excess` is saved; returns false if nothing is left.
    pub(super) fn shed(&mut self, excess: Tokens) -> bool {
        let mut saved = Tokens::ZERO;
        while saved < excess {
            let passage = self.passages.pop();
            self.dropped.extend(passage.iter().map(|(passage, _)| passage.message));
            let passage = passage.map(|(_, tokens)| tokens);
            let Some(tokens) = passage.or_else(|| self.entries.pop().map(|(_, _, tokens)| tokens)) else {
                break;
            };
            saved += tokens;
        }
        saved > Tokens::ZERO
    }

    /// Checks whether it has the end of what the agent says at `position`.
    fn has_end_of(&self, position: usize, material: &Material<'_>) -> bool {
        let said = material.said_at(position).trim_end();
        let ends_so = |passage: &Passage| said.ends_with(passage.text(material.sources).trim_end());
        let mut passages = self.passages.iter().map(|(passage, _)| passage);
        passages.any(|passage| passage.is_said_at(position) && ends_so(passage))
    }

    /// Writes everything in its section, in the order of the messages. Below each question stands its answer.
    pub(super) fn write(&self, base: &Record, material: &Material<'_>, answered: &Answered) -> Record {
        let mut record = base.clone();
        let is_told = |asked: &&Asked| self.has_end_of(asked.position, material);
        let is_there = |picked: &&Picked| {
            picked.is_repeated && self.passages.iter().any(|(passage, _)| passage.is_said_at(picked.position))
        };
        let answers = answered.asked.iter().filter(is_told).map(|asked| asked.answer);
        let answers = answers.chain(answered.picked.iter().filter(is_there).map(|picked| picked.answer));
        let answers: Vec<usize> = answers.collect();
        let passages = self.passages.iter().map(|(passage, _)| *passage);
        // An answer stands below what it answers, and not among the other words of the user's.
        let is_there = |passage: &Passage| {
            passage.origin == Origin::User && answers.contains(&(passage.message as usize))
        };
        let mut passages: Vec<Passage> = passages.filter(|passage| !is_there(passage)).collect();
        let is_told = |[asked, _]: &&[Passage; 2]| self.passages.iter().any(|(told, _)| told == asked);
        passages.extend(answered.carried.iter().filter(is_told).map(|[_, answer]| *answer));
        let is_reply = |passage: &Passage| {
            passage.origin == Origin::User && self.interview.contains_key(&passage.message)
        };
        let (replies, passages): (Vec<Passage>, Vec<Passage>) = passages.into_iter().partition(is_reply);
        // A part of one may have been chosen before all of it.
        let replies: BTreeSet<u32> = replies.iter().map(|passage| passage.message).collect();
        let mut entries: Vec<(Section, (u64, usize), Entry)> =
            write(passages, material, &material.state.folder);
        entries.extend(replies.into_iter().map(|position| {
            let source = &material.sources[position as usize];
            let question = self.interview[&position].text(material.sources);
            let entry = Entry::reply(question, source.message().text().trim());
            (Section::Interview, (number(source), 0), entry)
        }));
        entries.extend(answers.into_iter().map(|position| {
            let source = &material.sources[position];
            (Section::Story, (number(source), 0), answer(source, material.team))
        }));
        entries.extend(
            self.entries.iter().map(|(section, placed, _)| (*section, placed.place, placed.entry.clone())),
        );
        entries.sort_by_key(|(section, place, _)| (*section, *place));
        for (section, _, entry) in entries {
            record.entries_mut(section).push(entry);
        }
        record
    }
}

/// Iterates over the lines of a text that are not blank, without the blanks around them.
fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split(is_line_break).map(str::trim).filter(|line| !line.is_empty())
}

/// Returns the hash by which a line is known. It is the same behind its number, or the mark of a change.
pub(super) fn line_hash(line: &str) -> u64 {
    let has_letters = |text: &&str| text.contains(char::is_alphabetic);
    // An hour is followed by its minutes, and what stands before a bar may be a key.
    let is_line = |rest: &&str| {
        let mark = line[..line.len() - rest.len()].chars().next_back();
        mark != Some('|') && !rest.starts_with(|c: char| c.is_ascii_digit())
    };
    let numbered = split_number(line).map(|(_, rest)| rest).filter(is_line).filter(has_letters);
    let text = numbered.unwrap_or(line).trim();
    let changed = text.strip_prefix(['+', '-']).filter(|rest| !rest.starts_with(['+', '-', '>']));
    hash(changed.filter(has_letters).unwrap_or(text).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_before_somebodys_words_is_a_part_of_them() {
        for (one, other) in [("3: it is open", "4: it is open"), ("+12 euros for Ana", "-12 euros for Ana")] {
            let mut filling = Filling::beside(std::iter::once(one));
            assert!(filling.learn_said(other), "{other}");
            assert!(!filling.learn_said(one) && !filling.learn_said(other), "{one} {other}");
            assert!(!filling.learn(other), "{other}");
        }
        let mut filling = Filling::beside(std::iter::once("93: push(door);"));
        assert!(!filling.learn_said("push(door);"));
    }

    #[test]
    fn a_line_is_known_behind_its_number_and_the_mark_of_a_change() {
        for (one, other, expected) in [
            ("push(door);", "93: push(door);", true),
            ("push(door);", "93→    push(door);", true),
            ("push(door);", "+    push(door);", true),
            ("push(door);", "-push(door);", true),
            ("12\tpush(door);", "13\tpush(door);", true),
            ("14:30 wind", "15:30 wind", false),
            ("12: 40", "13: 40", false),
            ("1217|Coil", "1218|Coil", false),
            ("12 boats", "13 boats", false),
            ("-12", "12", false),
            ("--depth", "-depth", false),
        ] {
            assert_eq!(line_hash(one) == line_hash(other), expected, "{one} {other}");
        }
    }
}
