//! The texts of the agent's that short answers and picks of the user's are about.

use std::collections::HashSet;

use super::Material;
use super::candidates::Interview;
use super::excerpt::{is_answer, is_statement};
use super::interview::interview;
use super::passage::{Origin, Passage, passages_of_record};
use super::picks::picked;
use super::question_mark::{asks, may_ask};
use super::record::Section;
use super::worth::Worth;
use crate::compaction::record_tag::is_record;
use crate::{ContextMessage, Role};

/// Most characters of an answer of the user's that says nothing by itself, and of one to a question.
const SHORT_ANSWER_CHARS: usize = 16;
const ANSWER_CHARS: usize = 24;
/// The most such answers of which the record tells what they are about.
const MOST_ASKED: usize = 12;
/// Most characters of a message that picks from a list and is repeated below it.
const REPEATED_CHARS: usize = 120;

/// A text of the agent's that the user answered in a few words, by the positions of both.
pub(super) struct Asked {
    pub(super) position: usize,
    pub(super) answer: usize,
}

/// A list of the agent's from which the user picked.
pub(super) struct Picked {
    /// Its position and that of the user's message.
    pub(super) position: usize,
    pub(super) answer: usize,
    /// The starts of the lines with the items that were picked.
    pub(super) items: Vec<u32>,
    /// True if the record repeats the message below the list.
    pub(super) is_repeated: bool,
}

/// The words of the agent that the user answered in a few words, which say nothing by themselves.
pub(super) struct Answered {
    /// The list from which their latest request picks.
    pub(super) picks: Option<Picked>,
    /// Those from which they picked before, the newest first.
    pub(super) picked: Vec<Picked>,
    /// The texts that leave, the newest first.
    pub(super) asked: Vec<Asked>,
    /// In talk, where most answers are short, the questions without which they say little.
    pub(super) interview: Interview,
    /// The entries of earlier records, each with its answer.
    pub(super) carried: Vec<[Passage; 2]>,
}

impl Answered {
    /// Returns what the user answered in a few words.
    pub(super) fn of(material: &Material<'_>, leaves: &[bool], worth: &Worth<'_>) -> Self {
        let (mut asked, interview) = match material.is_talk {
            true => (Vec::new(), interview(material, leaves, worth)),
            false => (asked(material, leaves), Interview::default()),
        };
        let sources = material.sources;
        let latest = material.context.latest_user();
        let before = (1..latest.unwrap_or(0)).rev().filter(|position| sources[*position].starts_turn());
        let picked = before.filter_map(|answer| list(material, leaves, answer, false)).take(MOST_ASKED);
        let picked: Vec<Picked> = picked.collect();
        // The item that was picked says more than the question below it.
        asked.retain(|asked| picked.iter().all(|picked| picked.answer != asked.answer));
        let picks = latest.and_then(|latest| list(material, leaves, latest, true));
        Self { picks, picked, asked, interview, carried: in_records(material.sources, leaves) }
    }

    /// Iterates over the lists from which the user picked.
    pub(super) fn lists(&self) -> impl Iterator<Item = &Picked> {
        self.picks.iter().chain(&self.picked)
    }
}

/// Returns what the agent said before each answer of the user's in a few words, which say nothing by
/// themselves, if it leaves; the newest first.
fn asked(material: &Material<'_>, leaves: &[bool]) -> Vec<Asked> {
    let sources = material.sources;
    let asked = (1..sources.len()).rev().filter(|position| sources[*position].starts_turn());
    let asked = asked.filter_map(|answer| {
        let mut before = (0..answer).rev().take_while(|before| !sources[*before].starts_turn());
        let asked = before.find(|before| material.has_agent_text(*before))?;
        let said = sources[answer].message().text();
        let said = said.trim();
        let was_asked = asks(material.said_at(asked));
        // A question without a mark is known by its place: the agent waits for what the user says.
        let waits = || sources[asked..answer].iter().all(|at| at.message().calls().is_empty());
        let may_be_asked = was_asked || may_ask(material.said_at(asked)) && waits();
        let is_request = || said.starts_with('/') || begins_anew(sources, asked, answer);
        let is_answer = is_short_answer(said, may_be_asked)
            && (was_asked || !is_request())
            && !is_taken_back(sources, answer);
        (is_answer && leaves[asked]).then_some(Asked { position: asked, answer })
    });
    asked.take(MOST_ASKED).collect()
}

/// Checks whether the agent takes up a word of a remark that it did not say before: such a remark is a
/// request of its own, and answers nothing.
fn begins_anew(sources: &[ContextMessage], said: usize, remark: usize) -> bool {
    let terms = |at: usize| sources[at].features().terms.iter().map(|term| term.hash());
    let known: HashSet<u64> = terms(said).collect();
    let new: HashSet<u64> = terms(remark).filter(|term| !known.contains(term)).collect();
    let next = (remark + 1..sources.len()).take_while(|at| !sources[*at].starts_turn());
    let mut next = next.filter(|at| sources[*at].role() == Role::Assistant);
    next.any(|at| terms(at).any(|term| new.contains(&term)))
}

/// Checks whether the user said something else before the agent did anything upon their answer.
fn is_taken_back(sources: &[ContextMessage], answer: usize) -> bool {
    let next = sources[answer + 1..].iter().find(|next| next.message().note_by().is_none());
    next.is_some_and(ContextMessage::starts_turn)
}

/// Returns the list from which the user picks in the message at `answer`, if it leaves: it is what the
/// agent said last before that, but the latest request may mean any.
fn list(material: &Material<'_>, leaves: &[bool], answer: usize, is_latest: bool) -> Option<Picked> {
    let sources = material.sources;
    let said = sources[answer].message().text();
    let before = (0..answer).rev().take_while(|at| is_latest || !sources[*at].starts_turn());
    let told = before.filter(|at| material.has_agent_text(*at)).enumerate();
    // Of what the agent said last, a short message picks more surely.
    let told = told.map(|(nth, at)| (at, picked(material.said_at(at), &said, nth == 0)));
    let most = if is_latest { usize::MAX } else { 1 };
    let lists = told.take(most).filter(|(_, items)| !items.is_empty());
    // Of lists that have as much of what is meant, the newest.
    let (position, items) = lists.max_by_key(|(position, items)| (items.len(), *position))?;
    // One that stays is not far from the record.
    let most = if leaves[answer] { REPEATED_CHARS } else { ANSWER_CHARS };
    let is_repeated = !is_latest && said.chars().nth(most).is_none();
    leaves[position].then_some(Picked { position, answer, items, is_repeated })
}

/// Returns the entries of the records that leave which quote what the user answered, each with the
/// answer. Calls may stand between them.
fn in_records(sources: &[ContextMessage], leaves: &[bool]) -> Vec<[Passage; 2]> {
    let records = (0..sources.len()).filter(|at| leaves[*at] && is_record(sources[*at].message()));
    let mut pairs = Vec::new();
    for at in records {
        let mut asked: Option<Passage> = None;
        for entry in passages_of_record(&sources[at], at) {
            if entry.origin != Origin::Record(Section::Story) {
                continue;
            }
            let text = entry.text(sources);
            if is_answer(text) {
                pairs.extend(asked.map(|asked| [asked, entry]));
            } else if is_statement(text) {
                asked = Some(entry);
            }
        }
    }
    pairs
}

/// Checks whether a text of the user's says nothing without what it answers: where nothing was asked, a
/// word or two that are no command of the harness.
fn is_short_answer(said: &str, was_asked: bool) -> bool {
    let most = if was_asked { ANSWER_CHARS } else { SHORT_ANSWER_CHARS };
    let is_remark = || !said.starts_with('/') && said.split_whitespace().nth(2).is_none();
    said.chars().nth(most).is_none() && (was_asked || is_remark())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::record::{Entry, Record};
    use super::*;
    use crate::Message;
    use crate::compaction::fixture::Characters;

    #[test]
    fn a_remark_that_the_agent_takes_up_is_no_answer() {
        let said = "Gifts fell by 31 % in the online channel.";
        for (remark, next, expected) in [
            ("Now churn.", "Average monthly churn: 2.31 %.", true),
            ("Go ahead.", "I look at the shops.", false),
            ("Gifts, good.", "Gifts are in table 4.", false),
            ("Thanks!", "You are welcome.", false),
        ] {
            let messages = [Message::assistant(said), Message::user(remark), Message::assistant(next)];
            let mut sources: Vec<ContextMessage> =
                messages.into_iter().map(|message| ContextMessage::count(message, &Characters)).collect();
            assert_eq!(begins_anew(&sources, 0, 1), expected, "{remark}");
            // What is said after the next message of the user's counts no more.
            sources.insert(2, ContextMessage::count(Message::user("Wait."), &Characters));
            assert!(!begins_anew(&sources, 0, 1), "{remark}");
        }
    }

    #[test]
    fn in_a_record_calls_may_stand_between_a_question_and_its_answer() {
        let entry = |label: &str, text: &str| Entry::labelled(label, text, false);
        let story = vec![
            entry("m1 user", "Go on."),
            entry("m2 agent", "Shall I close it?"),
            entry("m2 read a.rs", "9 lines"),
            entry("m4 user", "Yes."),
            entry("m5 agent", "It is closed."),
        ];
        let record = Record { story, ..Record::default() };
        let sources = [ContextMessage::count(record.to_message(), &Characters)];
        let pairs = in_records(&sources, &[true]);
        let texts: Vec<[&str; 2]> = pairs.iter().map(|pair| pair.map(|entry| entry.text(&sources))).collect();
        assert_eq!(texts, [["m2 agent: Shall I close it?", "m4 user: Yes."]]);
        assert_eq!(in_records(&sources, &[false]), Vec::<[Passage; 2]>::new());
    }
}
