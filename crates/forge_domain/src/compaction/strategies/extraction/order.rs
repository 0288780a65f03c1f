//! The order in which a record is filled, as data: one thing after the other, with its share of the room.

use super::Material;
use super::answered::Answered;
use super::excerpt::{is_statement, said_in, tells_act};
use super::passage::{Origin, Passage, ends_at, is_said_whole};
use super::record::Section;
use super::worth::Purpose;

/// A part of a record that is taken at once. The numbers are shares, in percent, of what is left by all that
/// was taken before; what is not used is left to the rest.
#[derive(Clone, Copy, Debug)]
pub(super) enum Take {
    /// Answers to what is asked.
    Answers(u64),
    /// The user's words in the quotes of summaries, of which no message is left.
    SaidInSummaries(u64),
    /// Passages for a purpose.
    Passages(u64, Purpose, Which),
    /// Statements: those of each kind after those of the kinds before it.
    InTurn(u64, &'static [Which]),
    /// The list of the agent's from which the user's latest request picks, and those from which they picked
    /// before.
    Picks(u64),
    Picked(u64),
    /// Of the lists from which they picked before, only what they meant.
    PickedItems(u64),
    /// The ends of what the agent said before answers of the user's in a few words.
    Answered(u64),
    /// Calls, each with how it ended.
    Calls(u64, Calls),
    /// The contents of what left: of tables, whose keys tell everything that can be asked for, and of others.
    Contents {
        tables: u64,
        others: u64,
    },
}

/// A kind of passages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Which {
    /// Everything but the user's words.
    NotSaid,
    /// The user's words.
    Said,
    /// A whole message of theirs, and the beginning or the end of one: what was pasted is mostly between
    /// them.
    SaidWhole,
    SaidAtAnEnd,
    /// The agent's words, and those of them that are its newest.
    Told,
    Newest,
    /// The words of both, and their whole messages with whatever the agent says.
    Stated,
    StatedWhole,
    /// The agent's words, with the calls of an earlier record.
    Story,
    /// The calls in an earlier record that changed something outside of the files of the work.
    ActInRecord,
    /// The entries of an earlier record that the user answered in a few words.
    AnsweredInRecord,
    /// The newest of what the agent wrote into files.
    Written,
    /// Passages of results and of what the agent wrote.
    Work,
    /// The contents of which an earlier record tells.
    LeftOutInRecord,
}

/// A kind of calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    /// Those that changed something outside of the files of the work, which nothing else tells.
    Acting,
    /// Those that the user answered.
    Asking,
    /// The newest ones that did more than look.
    NewestDone,
    /// All that were not taken yet, the newest first.
    All,
}

/// The user's words: short messages before pieces of long ones.
const SAID: &[Which] = &[Which::SaidWhole, Which::SaidAtAnEnd, Which::Said];

/// The first part where an agent works.
const FIRST_AT_WORK: &[Take] = &[
    Take::Answers(30),
    Take::Picks(25),
    Take::SaidInSummaries(80),
    Take::Calls(15, Calls::Acting),
    Take::Passages(15, Purpose::Newest, Which::ActInRecord),
];

/// The first part in talk. A question is often a remark there, and what the agent says is as much of it as
/// what the user says. What was done meanwhile, such as aider's commits, comes before most of it: the rest of
/// the talk takes all that is left.
const FIRST_IN_TALK: &[Take] = &[
    Take::Answers(15),
    Take::Picks(25),
    Take::SaidInSummaries(80),
    Take::Calls(15, Calls::Acting),
    Take::Passages(15, Purpose::Newest, Which::ActInRecord),
    Take::InTurn(45, SAID),
    Take::Passages(10, Purpose::Newest, Which::Newest),
    Take::Calls(15, Calls::NewestDone),
    Take::Picked(25),
    Take::InTurn(100, &[Which::StatedWhole, Which::Stated]),
];

/// The part after that. What is left of the user's words comes after what the agent says, before its
/// calls; what an earlier record tells of calls waits as the new ones do.
const THEN: &[Take] = &[
    Take::InTurn(65, SAID),
    Take::Calls(30, Calls::Asking),
    Take::PickedItems(15),
    Take::Answered(12),
    Take::Passages(12, Purpose::Newest, Which::AnsweredInRecord),
    Take::Passages(42, Purpose::Newest, Which::Newest),
    Take::Picked(15),
    Take::Contents { tables: 35, others: 10 },
    Take::Calls(10, Calls::NewestDone),
    Take::Passages(42, Purpose::Written, Which::Written),
    Take::Passages(72, Purpose::Statement, Which::Told),
    Take::Passages(100, Purpose::Statement, Which::SaidWhole),
    Take::Calls(35, Calls::All),
    Take::Passages(35, Purpose::Statement, Which::Story),
    Take::Passages(10, Purpose::Work, Which::LeftOutInRecord),
    Take::Passages(72, Purpose::Statement, Which::Told),
    Take::Passages(100, Purpose::Work, Which::Work),
    Take::Passages(100, Purpose::Statement, Which::Said),
    Take::Passages(100, Purpose::Statement, Which::Story),
    Take::Calls(100, Calls::All),
];

/// Iterates over what a record is filled with.
pub(super) fn order(is_talk: bool) -> impl Iterator<Item = Take> {
    let first = if is_talk { FIRST_IN_TALK } else { FIRST_AT_WORK };
    first.iter().chain(THEN).copied()
}

/// The passages that are told apart by more than their origin.
pub(super) struct Highlights<'a> {
    pub(super) material: &'a Material<'a>,
    /// The positions of the agent's newest texts.
    pub(super) newest: Vec<usize>,
    /// The number of the message that the latest request answers, if only a record quotes it.
    pub(super) antecedent: Option<u64>,
    pub(super) answered: &'a Answered,
}

impl Highlights<'_> {
    /// Checks whether a passage is one of a kind.
    pub(super) fn is(&self, which: Which, passage: &Passage) -> bool {
        let sources = self.material.sources;
        let text = || passage.text(sources);
        let origin = passage.origin;
        let is_told = || match origin {
            Origin::Record(Section::Story) => is_statement(text()),
            _ => origin == Origin::Agent && !passage.is_code,
        };
        let is_said = matches!(origin, Origin::User | Origin::Record(Section::Said | Section::Interview));
        match which {
            Which::NotSaid => !is_said,
            Which::Said => is_said,
            Which::SaidWhole => is_said_whole(passage, sources),
            Which::SaidAtAnEnd => origin == Origin::User && ends_at(passage, sources) != [false; 2],
            Which::Told => is_told(),
            Which::Newest => match origin {
                Origin::Agent => self.newest.contains(&(passage.message as usize)),
                Origin::Record(Section::Story) => {
                    self.antecedent.is_some() && said_in(text()) == self.antecedent
                }
                _ => false,
            },
            Which::Stated => is_said || is_told(),
            Which::StatedWhole => is_told() || is_said_whole(passage, sources),
            Which::Story => {
                origin == Origin::Record(Section::Story) || origin == Origin::Agent && !passage.is_code
            }
            Which::ActInRecord => origin == Origin::Record(Section::Story) && tells_act(text()),
            Which::AnsweredInRecord => {
                let is_it =
                    |asked: &Passage| (asked.message, asked.start) == (passage.message, passage.start);
                self.answered.carried.iter().any(|[asked, _]| is_it(asked))
            }
            Which::Written => self.material.is_written(passage),
            Which::Work => {
                passage.is_code
                    || matches!(origin, Origin::Work | Origin::Code | Origin::Record(Section::Excerpts))
            }
            Which::LeftOutInRecord => origin == Origin::Record(Section::LeftOut),
        }
    }
}
