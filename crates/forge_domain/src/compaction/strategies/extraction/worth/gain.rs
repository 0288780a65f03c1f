//! The worth of a passage beside the chosen ones, for its length. Apart from the worth of the terms in it,
//! which is known before any passage is.

use std::sync::OnceLock;

use super::super::candidates::{AskedTerm, Candidates};
use super::super::passage::{Origin, Passage};
use super::super::question_mark::{ends_a_sentence, without_question_mark};
use super::{Purpose, Worth};
use crate::Role;

impl Worth<'_> {
    /// Returns the worth of a candidate beside the chosen ones.
    pub(super) fn gain(&self, candidates: &Candidates, index: usize, purpose: Purpose) -> f64 {
        let passage = &candidates.passages[index];
        let terms = || candidates.terms(index).iter().map(|number| self.worth[*number as usize]);
        let (sum, cost): (f32, &Cost) = match purpose {
            Purpose::Answer => {
                // One line that names all that is asked answers better than words spread over several lines.
                let terms = candidates.asked_terms(index);
                let wanted = |term: &AskedTerm| self.answering.wanted[term.number as usize];
                let lines = terms.chunk_by(|one, next| one.line == next.line);
                let of_lines = lines.map(|line| line.iter().map(wanted).sum()).fold(0.0, f32::max);
                let of_all: f32 = terms.iter().filter(|term| term.is_first).map(wanted).sum();
                (of_lines + of_all, &ANSWER_COST)
            }
            Purpose::Statement | Purpose::Newest => {
                // A term counts most where the agent says it last: that is what holds.
                let is_agents = passage.origin == Origin::Agent;
                let holds = |number: u32| match self.numbers[number as usize].said_last > passage.message {
                    true if is_agents => SAID_LATER,
                    _ => 1.0,
                };
                let says = candidates.terms(index).iter().map(|number| {
                    let term = self.worth[*number as usize];
                    term.open * term.says * holds(*number)
                });
                let says: f32 = says.sum();
                let tells = match purpose {
                    Purpose::Statement => self.tells(passage.text(self.messages)),
                    // The newest questions may still be open.
                    _ => 1.0,
                };
                let worth = if self.is_talk {
                    tells * says + terms().map(|term| term.asks).sum::<f32>()
                } else {
                    let asked: f32 = terms().map(|term| term.open * term.asks).sum();
                    tells * says / (1.0 + says / SAYS_MUCH) + asked
                };
                (worth, &STATEMENT_COST)
            }
            Purpose::Work | Purpose::Written => {
                let works: f32 = terms().map(|term| term.open * term.works).sum();
                (works * (1.0 + self.subjects[passage.message as usize]), &WORK_COST)
            }
        };
        let is_note =
            passage.origin == Origin::Work && self.messages[passage.message as usize].role() == Role::User;
        let sum = f64::from(sum) * if is_note { NOTED } else { 1.0 };
        // A question may be about an earlier state of the file.
        let sum = match purpose {
            Purpose::Answer | Purpose::Newest => sum,
            Purpose::Work | Purpose::Written if passage.only_names => 0.0,
            _ if passage.tells_little() => sum * TELLS_LITTLE,
            _ => sum,
        };
        let n_told = match purpose {
            Purpose::Statement => candidates.n_told[passage.message as usize],
            _ => 0,
        };
        sum * TOLD_OF.powi(n_told.into()) * self.lateness(passage, purpose)
            / cost.of(candidates.n_bytes(index))
    }

    /// Returns the share of its worth that a statement has: less if it ends with a question. In talk, who
    /// asks leaves it to the other to tell; at work, the agent tells first, and then asks what to do.
    fn tells(&self, text: &str) -> f32 {
        match without_question_mark(text) {
            Some(question) if !ends_a_sentence(question) => ASKS_BACK,
            Some(_) if self.is_talk => ASKS_IN_THE_END,
            _ => 1.0,
        }
    }

    /// Returns the share of its worth that a passage has at its age. What was concluded early may be as true
    /// as what was concluded late; of two that say the same, the later one is valid.
    fn lateness(&self, passage: &Passage, purpose: Purpose) -> f64 {
        let age = f64::from(passage.message + 1) / self.messages.len().max(1) as f64;
        match purpose {
            Purpose::Statement if self.is_talk => 1.0,
            Purpose::Statement => OLD_STATEMENT + (1.0 - OLD_STATEMENT) * age,
            Purpose::Written => age.powi(NEWNESS),
            Purpose::Answer => OLD_ANSWER + (1.0 - OLD_ANSWER) * age,
            Purpose::Newest | Purpose::Work => OLD + (1.0 - OLD) * age,
        }
    }
}

/// The share of its worth that a term has in a statement if the agent says it again later: what it says of it
/// then may correct what it said before.
const SAID_LATER: f32 = 0.6;
/// The share of its worth that a question has: it tells less than its answer.
const ASKS_BACK: f32 = 0.3;
/// The factor of a statement for each that was chosen of the same message: of a long plan, some is enough.
const TOLD_OF: f64 = 0.85;
/// The share of its worth that a text which ends with a question has in talk.
const ASKS_IN_THE_END: f32 = 0.7;
/// The share of its worth that a note of a harness has: it tells how to work, not what was found.
const NOTED: f64 = 0.5;
/// The share of its worth that a part of a file has as it is not, or no longer, or that names what it uses.
const TELLS_LITTLE: f64 = 0.25;
/// The share of its worth that the oldest passage has beside the newest; of an answer, more: what says
/// nearly the same later may be the valid value, but what says less is none.
const OLD: f64 = 0.5;
const OLD_ANSWER: f64 = 0.8;
const OLD_STATEMENT: f64 = 0.9;
/// The power of a passage's position, from 0 to 1 for the newest, by which its worth falls where the newest
/// is wanted.
const NEWNESS: i32 = 8;
/// The exponents by which the length of a passage reduces its worth. Of work, less than in proportion: whole
/// passages say more than their best words.
static WORK_COST: Cost = Cost::with(0.6);
static STATEMENT_COST: Cost = Cost::with(0.9);
static ANSWER_COST: Cost = Cost::with(0.2);
/// A statement that says this much counts half: a page of plans is not worth many conclusions.
const SAYS_MUCH: f32 = 80.0;

/// The cost of a passage by its length: its tokens to the power of an exponent. Those of common lengths are
/// computed once, as every passage is asked about several times.
struct Cost {
    exponent: f64,
    of_common: OnceLock<Vec<f64>>,
}

/// Hardly a passage has more bytes.
const MOST_COMMON_BYTES: usize = 1_200;

impl Cost {
    const fn with(exponent: f64) -> Self {
        Self { exponent, of_common: OnceLock::new() }
    }

    fn of(&self, n_bytes: u32) -> f64 {
        let compute = |n_bytes| about_tokens(n_bytes).powf(self.exponent);
        let of_common = self.of_common.get_or_init(|| (0..MOST_COMMON_BYTES).map(compute).collect());
        let n_bytes = n_bytes as usize;
        of_common.get(n_bytes).copied().unwrap_or_else(|| compute(n_bytes))
    }
}

/// Returns the approximate tokens of a passage of so many bytes: it is counted once it is chosen.
pub(super) fn about_tokens(n_bytes: usize) -> f64 {
    n_bytes as f64 / 3.3 + 6.0
}
