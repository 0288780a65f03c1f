//! The worth of a passage: the terms in it, by how rare they are, how much the agent worked with them, and
//! how strongly somebody asks about them.

mod choosing;
mod gain;

use indexmap::IndexMap;

use super::candidates::{AskedTerm, Candidates, Interview, LineCounts, Questions, Said, set_of};
use super::frames::Frames;
use super::passage::{Origin, Passage};
use crate::compaction::answered_call::{AnsweredCall, answered_call};
use crate::compaction::features::{Features, Kind, TermHasher};
use crate::compaction::question::{Asked, Question, rarity};
use crate::{Context, ContextMessage, Message, Role};

/// The occurrences of a term over the whole context.
#[derive(Clone, Copy, Debug, Default)]
struct Occurrences {
    /// The number of messages that have it: in any way, in the agent's calls, and in what the agent or the
    /// user says.
    n_messages: u32,
    n_calls: u32,
    n_says: u32,
    /// The sum of the weights of the kinds that it has in them.
    weight: f32,
    /// The position of the last message in which the agent says it.
    said_last: u32,
}

/// The purpose for which passages are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// An answer to what was asked last: nothing counts that it does not name.
    Answer,
    /// A statement: it counts for what it says, which is mostly what is rare in it.
    Statement,
    /// One of the newest statements: as a statement, and the newer the better.
    Newest,
    /// Work: it counts for what the agent did with it and what is asked about.
    Work,
    /// The newest of what the agent wrote: as work, and the newer the better.
    Written,
}

/// The worth of one term. All that is read together stands together.
#[derive(Clone, Copy, Debug)]
struct TermWorth {
    /// The share of it that is not covered by what was chosen.
    open: f32,
    /// The worth of saying it: its rarity, by the kinds that it has, on average.
    says: f32,
    /// The worth of it for being asked about.
    asks: f32,
    /// The worth of it in the work.
    works: f32,
}

/// The question that is answered, as [`Worth`] takes it up.
#[derive(Default)]
struct Answering {
    /// The set with it alone.
    set: Questions,
    is_focus: bool,
    /// The extent to which each term tells of it.
    wanted: Vec<f32>,
    /// The sums over the terms that any candidate has, and of their squares.
    all: f32,
    all_sharply: f32,
    /// True for each term that it has as a given name.
    given: Vec<bool>,
}

/// The worth of each term of a context.
pub(super) struct Worth<'a> {
    messages: &'a [ContextMessage],
    frames: &'a Frames,
    numbers: IndexMap<u64, Occurrences, TermHasher>,
    /// The numbers of each message's terms, one message after the other, and the start of each; last, the end
    /// of all.
    by_message: Vec<u32>,
    begins: Vec<usize>,
    /// The number of terms in all messages before each one.
    known: Vec<u32>,
    worth: Vec<TermWorth>,
    /// The questions that name each term.
    asked_by: Vec<Questions>,
    /// The question that is answered now.
    answering: Answering,
    /// The strength with which somebody asks about the subject of each result's call, such as a file.
    subjects: Vec<f32>,
    /// True if hardly any tool is used. In talk, each turn that names what is asked about may be the one that
    /// is meant; at work, what repeats the request says nothing new.
    is_talk: bool,
}

impl<'a> Worth<'a> {
    /// Weighs the terms of `messages`, which are those of `context` as they were at first.
    pub(super) fn of(
        context: &Context,
        messages: &'a [ContextMessage],
        frames: &'a Frames,
        question: &Question,
        is_talk: bool,
    ) -> Self {
        let n_terms = messages.iter().map(|message| message.features().terms.len()).sum();
        let mut numbers: IndexMap<u64, Occurrences, _> =
            IndexMap::with_capacity_and_hasher(n_terms / ABOUT_REPEATED, Default::default());
        let mut by_message = Vec::with_capacity(n_terms);
        let mut begins = Vec::with_capacity(messages.len() + 1);
        let mut known = Vec::with_capacity(messages.len());
        for (position, message) in messages.iter().enumerate() {
            begins.push(by_message.len());
            known.push(numbers.len() as u32);
            let is_said = message.message().role() != Role::Tool;
            let is_agents = message.role() == Role::Assistant;
            for term in &message.features().terms {
                let entry = numbers.entry(term.hash());
                by_message.push(entry.index() as u32);
                let occurrences = entry.or_default();
                occurrences.weight += by_kind(term.kind(), is_talk);
                occurrences.n_messages += 1;
                occurrences.n_calls += u32::from(term.is_called());
                occurrences.n_says += u32::from(is_said && term.is_said());
                if is_agents && term.is_said() {
                    occurrences.said_last = position as u32;
                }
            }
        }
        begins.push(by_message.len());
        let n_messages = messages.len() as f32;
        // Computed once for each number of messages, as many terms have the same.
        let by_count = |of: &dyn Fn(f32) -> f32| -> Vec<f32> {
            (0..=messages.len()).map(|n| of(n as f32).ln_1p()).collect()
        };
        let logarithms = by_count(&|n| n);
        let spread = by_count(&|n| n_messages / n.max(1.0));
        // In talk, a word of the question that many turns have would favour them all. The focus was set for
        // what it names.
        let sharpness = |of: &Occurrences| spread[of.n_messages as usize] / n_messages.ln_1p();
        let mut asked = vec![0.0; numbers.len()];
        for (term, strength) in question.strengths() {
            let Some((number, _, of)) = numbers.get_full(&term) else { continue };
            asked[number] = match is_talk {
                false => strength,
                true if question.is_focus(term) => strength * ASKED_IN_TALK,
                true => strength * ASKED_IN_TALK * sharpness(of),
            };
        }
        let worth = numbers.values().zip(asked).map(|(of, asked)| {
            let rarity = of.weight / of.n_messages.max(1) as f32 * spread[of.n_messages as usize];
            let used = CALLED * logarithms[of.n_calls as usize] + logarithms[of.n_says as usize];
            let works = rarity * (SEEN + USED * used + ASKED * asked);
            TermWorth { open: 1.0, says: rarity, asks: rarity * asked, works }
        });
        let worth = worth.collect();
        let mut asked_by = vec![0; numbers.len()];
        for (nth, asked) in question.asked().enumerate() {
            for number in asked.terms().filter_map(|term| numbers.get_index_of(&term)) {
                asked_by[number] |= set_of(nth);
            }
        }
        let (wanted, given) = (vec![0.0; numbers.len()], vec![false; numbers.len()]);
        let mut worth = Self {
            messages,
            frames,
            numbers,
            by_message,
            begins,
            known,
            worth,
            asked_by,
            answering: Answering { wanted, given, ..Answering::default() },
            subjects: Vec::new(),
            is_talk,
        };
        worth.subjects = (0..messages.len()).map(|nth| worth.subject_of(context, question, nth)).collect();
        worth
    }

    /// Returns how strongly somebody asks about the subject of the call that the message at `position`
    /// answers: what the first line of the call names, the more the fewer messages do.
    fn subject_of(&self, context: &Context, question: &Question, position: usize) -> f32 {
        let Some(AnsweredCall { place, .. }) = answered_call(context, position) else { return 0.0 };
        let features = self.messages[place.message].features();
        let Some(first) = features.lines.iter().filter(|line| line.begins_call).nth(place.nth) else {
            return 0.0;
        };
        let numbers = self.numbers_of(place.message);
        let strengths = features.places(first).iter().filter_map(|nth| {
            let (term, of) = self.numbers.get_index(numbers[*nth as usize] as usize)?;
            let sharpness =
                rarity(self.messages.len(), of.n_messages as usize) / rarity(self.messages.len(), 1);
            Some(question.strength_beside(place.message, *term) * sharpness)
        });
        strengths.fold(0.0, f32::max).min(MOST_ASKED)
    }

    /// Forgets what was chosen.
    pub(super) fn begin_again(&mut self) {
        self.worth.iter_mut().for_each(|term| term.open = 1.0);
    }

    /// Returns the numbers of the terms of the message at `position`.
    fn numbers_of(&self, position: usize) -> &[u32] {
        &self.by_message[self.begins[position]..self.begins[position + 1]]
    }

    /// Takes up a question, the `nth` that a passage may answer, for [`Purpose::Answer`]. What many lines
    /// have answers nothing.
    pub(super) fn take_up(&mut self, nth: usize, asked: &Asked, candidates: &Candidates) {
        let Self { answering, numbers, .. } = self;
        answering.wanted.fill(0.0);
        answering.given.fill(false);
        (answering.all, answering.all_sharply) = (0.0, 0.0);
        (answering.set, answering.is_focus) = (set_of(nth), asked.is_focus());
        for term in asked.terms() {
            let Some(number) = numbers.get_index_of(&term) else { continue };
            let n_lines = candidates.n_lines.with[number] as usize;
            let kind = asked.kind(term);
            let rarity = rarity(candidates.n_lines.all, n_lines);
            let wanted = rarity * if kind == Some(Kind::Symbol) { SYMBOL } else { 1.0 };
            answering.wanted[number] = wanted;
            answering.given[number] = kind.is_some_and(Kind::is_a_name_given);
            if n_lines > 0 {
                answering.all += wanted;
                answering.all_sharply += wanted.powi(2);
            }
        }
    }

    /// Returns the number of messages that have a term of the message at `position`, by its number there.
    pub(super) fn n_messages(&self, position: usize, place: u32) -> u32 {
        let number = self.numbers_of(position)[place as usize];
        self.numbers[number as usize].n_messages
    }

    /// Checks whether no message before the one at `position` has one of its terms, by its number there.
    pub(super) fn is_new(&self, position: usize, place: u32) -> bool {
        self.numbers_of(position)[place as usize] >= self.known[position]
    }

    /// Returns `passages` as candidates; the questions of an `interview` stand with their answers.
    pub(super) fn candidates(&self, passages: Vec<Passage>, interview: &Interview) -> Candidates {
        let n_passages = passages.len();
        let mut candidates = Candidates {
            passages,
            terms: Vec::with_capacity(self.by_message.len()),
            ends: Vec::with_capacity(n_passages),
            beside: Vec::with_capacity(n_passages),
            asked_by: Vec::with_capacity(n_passages),
            asked_terms: Vec::with_capacity(n_passages),
            asked_ends: Vec::with_capacity(n_passages),
            n_lines: LineCounts { all: 0, with: vec![0; self.numbers.len()] },
            is_chosen: vec![false; n_passages],
            answers: Vec::new(),
            told: Vec::new(),
            n_told: vec![0; self.messages.len()],
        };
        // The last passage that has each term, by one more than its index: a passage has each term once.
        let mut last_in = vec![0; self.numbers.len()];
        for (passage, stamp) in candidates.passages.iter().zip(1_u32..) {
            let message = passage.message as usize;
            let features = self.messages[message].features();
            let numbers = self.numbers_of(message);
            let mut asked_by = 0;
            candidates.n_lines.all += passage.n_lines();
            for (line, nth) in passage.lines(features).iter().zip(passage.lines_from..) {
                for place in features.places_before(line, passage.end) {
                    let number = numbers[place as usize];
                    let is_first = std::mem::replace(&mut last_in[number as usize], stamp) != stamp;
                    if is_first {
                        candidates.terms.push(number);
                    }
                    let by = self.asked_by[number as usize];
                    if by != 0 {
                        candidates.asked_terms.push(AskedTerm { line: nth, number, is_first });
                        candidates.n_lines.with[number as usize] += 1;
                        asked_by |= by;
                    }
                }
            }
            let question = interview.get(&passage.message).filter(|_| passage.origin == Origin::User);
            for number in question.map(|question| self.numbers_in(question)).into_iter().flatten() {
                if std::mem::replace(&mut last_in[number as usize], stamp) != stamp {
                    candidates.terms.push(number);
                }
            }
            candidates.beside.push(question.map_or(0, |question| question.n_bytes() + MARK_BYTES));
            candidates.asked_by.push(asked_by);
            candidates.asked_ends.push(candidates.asked_terms.len() as u32);
            candidates.ends.push(candidates.terms.len() as u32);
        }
        candidates
    }

    /// Returns the numbers of the terms of a passage.
    fn numbers_in(&self, passage: &Passage) -> Vec<u32> {
        let features = self.messages[passage.message as usize].features();
        let numbers = self.numbers_of(passage.message as usize);
        let places =
            passage.lines(features).iter().flat_map(|line| features.places_before(line, passage.end));
        places.map(|place| numbers[place as usize]).collect()
    }

    /// Notes what stays of the message at `position`: it answers as well as a passage does.
    pub(super) fn note_shown(&self, candidates: &mut Candidates, position: usize, text: &str) {
        let terms = Features::of(&Message::user(text)).terms;
        let numbers = terms.iter().filter_map(|term| self.numbers.get_index_of(&term.hash()));
        let numbers = numbers.map(|number| number as u32).collect();
        candidates.answers.push(Said::of(position as u32, numbers));
    }
}

/// The weight of a call with a term, where a text with it counts one.
const CALLED: f32 = 1.5;
/// The worth of a term for being there at all, beside that of being used and asked about.
const SEEN: f32 = 0.25;
const USED: f32 = 0.5;
const ASKED: f32 = 2.0;
/// In talk, the factor of a term that the question names, if hardly any other turn has it.
const ASKED_IN_TALK: f32 = 5.0;
/// The weight of a symbol or a code in a question, where a word counts one: who asks for a value by its name
/// asks for nothing else. A path only tells where it is.
const SYMBOL: f32 = 2.0;
/// The most that the subject of a call counts for being asked about.
const MOST_ASKED: f32 = 2.0;
/// About the bytes of the mark between a question and the user's answer.
const MARK_BYTES: u32 = 6;
/// The approximate number of occurrences of a term in a context, to reserve memory.
const ABOUT_REPEATED: usize = 2;

/// Returns the weight of a kind of term: a name tells more than a word, but a sentence consists of words. In
/// talk, somebody will ask who, where and when.
const fn by_kind(kind: Kind, is_talk: bool) -> f32 {
    match (kind, is_talk) {
        (Kind::Address | Kind::Symbol, _) | (Kind::Name, true) => 1.0,
        (Kind::Name, false) => 0.7,
        (Kind::Word, true) => 0.25,
        (Kind::Word, false) => 0.4,
    }
}
