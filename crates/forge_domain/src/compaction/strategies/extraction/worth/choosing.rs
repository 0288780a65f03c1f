//! Chooses passages in the order in which they are worth their tokens. Apart from the worth of one passage,
//! because what each adds changes with every choice.

use std::collections::HashSet;

use super::super::candidates::{AskedTerm, Candidates, Said};
use super::super::introductions::says_nothing_alone;
use super::super::passage::{Origin, Passage, WORK_LINES};
use super::super::queue::{Queue, Ranked};
use super::super::tables::rows_beside;
use super::gain::about_tokens;
use super::{Purpose, Worth};
use crate::Tokens;
use crate::compaction::features::Line;

impl Worth<'_> {
    /// Chooses of the candidates that `is_open`, in the order in which they are worth their tokens, until
    /// `room` is full; `take` returns the cost of one, or `None` if it cannot be taken. Each is worth what it
    /// adds to those before it. Returns what is left of the room.
    pub(in super::super) fn choose(
        &mut self,
        candidates: &mut Candidates,
        purpose: Purpose,
        mut room: Tokens,
        is_open: impl Fn(&Passage) -> bool,
        take: &mut dyn FnMut(&Passage, Tokens) -> Option<Tokens>,
    ) -> Tokens {
        if room < LEAST_PASSAGE {
            return room;
        }
        let is_answer = purpose == Purpose::Answer;
        let mut queue = Queue::of(self.ranked(candidates, purpose, &is_open));
        let mut n_too_long = 0;
        // The statement that comes next since an earlier one was due, all such, and those that were due.
        let mut first: Option<Ranked> = None;
        let [mut preferred, mut due]: [HashSet<u32>; 2] = Default::default();
        while room >= LEAST_PASSAGE && n_too_long < MOST_TOO_LONG {
            let is_first = first.is_some();
            let Some(top) = first.take().or_else(|| queue.pop()) else { break };
            let may_fit = about_tokens(top.n_bytes as usize) <= room.as_u64() as f64 * 1.5;
            // Of an answer, one line may fit.
            if !may_fit && !is_answer {
                n_too_long += 1;
                continue;
            }
            let now = self.gain(candidates, top.index as usize, purpose);
            let terms = candidates.terms(top.index as usize);
            let passage = candidates.passages[top.index as usize];
            if now <= 0.0 || terms.len() < least_terms(purpose, passage.n_lines()) {
                continue;
            }
            if !is_first && queue.best().is_some_and(|next| now < next.gain) {
                queue.push(Ranked { gain: now, ..top });
                continue;
            }
            let is_answered = |terms: &[u32]| is_answer && candidates.is_answered(passage.message, terms);
            let is_agents = passage.origin == Origin::Agent;
            let says = |term: u32| self.worth[term as usize].says;
            let is_told = || is_agents && purpose == Purpose::Statement && candidates.is_told(terms, says);
            if is_answered(terms) || is_told() {
                continue;
            }
            // Its author may correct this later.
            let is_said = passage.origin == Origin::User || is_agents;
            if is_said
                && purpose == Purpose::Statement
                && due.insert(top.index)
                && let Some(later) = candidates.said_later(top.index as usize, &is_open, says)
                && (!is_agents || !self.is_talk || self.replaces(candidates, later, terms, now))
                && preferred.insert(later as u32)
            {
                let n_bytes = candidates.n_bytes(later);
                first = Some(Ranked { gain: top.gain, index: later as u32, n_bytes });
                queue.push(top);
                continue;
            }
            let moved = if is_answer { self.begun_at_best_line(&passage) } else { None };
            // Of a listing, the line that answers is enough.
            let is_part = !may_fit || is_answer && passage.only_names;
            let whole = if is_part { None } else { take(moved.as_ref().unwrap_or(&passage), room) };
            let taken = match whole {
                Some(tokens) => Some((tokens, terms.to_vec())),
                None if !is_answer => None,
                None => {
                    let line = self.best_line(&passage, terms).filter(|(_, terms)| !is_answered(terms));
                    line.and_then(|(line, terms)| Some((self.take_line(&line, room, take)?, terms)))
                }
            };
            let Some((tokens, told)) = taken else {
                n_too_long += 1;
                continue;
            };
            room = room - tokens;
            for number in terms {
                self.worth[*number as usize].open *= SAID_AGAIN;
            }
            candidates.is_chosen[top.index as usize] = whole.is_some();
            if is_agents {
                candidates.told.push(Said::of(passage.message, told.clone()));
                candidates.n_told[passage.message as usize] += 1;
            }
            if is_answer {
                candidates.answers.push(Said::of(passage.message, told));
            }
        }
        room
    }

    /// Checks whether the statement at `later` may come before an earlier one with such terms and gain. In
    /// talk, each turn of the agent's adds to the others, but what corrects one has another name or number.
    fn replaces(&self, candidates: &Candidates, later: usize, earlier: &[u32], gain: f64) -> bool {
        let is_name = |term: &u32| {
            let of = &self.numbers[*term as usize];
            of.weight > NAME_WEIGHT * of.n_messages as f32
        };
        self.gain(candidates, later, Purpose::Statement) >= gain * AS_TELLING
            && candidates.terms(later).iter().any(|term| is_name(term) && !earlier.contains(term))
    }

    /// Returns the candidates that `is_open` and that are worth anything, in no order.
    fn ranked(
        &self,
        candidates: &Candidates,
        purpose: Purpose,
        is_open: impl Fn(&Passage) -> bool,
    ) -> Vec<Ranked> {
        let is_answer = purpose == Purpose::Answer;
        let ranked = candidates.passages.iter().enumerate();
        let ranked = ranked.filter(|(index, _)| !candidates.is_chosen[*index]);
        let ranked =
            ranked.filter(|(index, _)| !is_answer || candidates.may_answer(*index, self.answering.set));
        let ranked = ranked.filter(|(_, passage)| is_open(passage));
        let ranked = ranked.filter(|(index, _)| !is_answer || self.tells_enough(candidates, *index));
        let ranked = ranked.map(|(index, _)| Ranked {
            gain: self.gain(candidates, index, purpose),
            index: index as u32,
            n_bytes: candidates.n_bytes(index),
        });
        let mut ranked: Vec<Ranked> = ranked.filter(|ranked| ranked.gain > 0.0).collect();
        if is_answer {
            // An answer is what says nearly as much of what was asked as the best does.
            let best = ranked.iter().map(|ranked| ranked.gain).fold(0.0, f64::max);
            ranked.retain(|ranked| ranked.gain >= best * ANSWERS);
        }
        ranked
    }

    /// Checks whether a candidate tells enough of the question to count as an answer. Many requests ask for
    /// nothing that was said before, so one word in common is not enough. In talk, remarks were left out
    /// already, and every word of a focus was chosen on purpose.
    fn tells_enough(&self, candidates: &Candidates, index: usize) -> bool {
        let asked = &self.answering;
        if self.is_talk || asked.is_focus {
            return true;
        }
        let wanted = |term: &AskedTerm| asked.wanted[term.number as usize];
        let is_given = |term: &AskedTerm| asked.given[term.number as usize];
        let is_rare =
            |term: &AskedTerm| (1..=RARE_LINES).contains(&candidates.n_lines.with[term.number as usize]);
        // The square tells the one word that is asked about from those that ask.
        let is_sharp = |term: &AskedTerm| wanted(term).powi(2) >= asked.all_sharply * ANSWERED_BY_ONE;
        let terms = || candidates.asked_terms(index).iter();
        let told = || terms().filter(|term| term.is_first && wanted(term) > 0.0);
        let are_several = || told().nth(1).is_some() || told().any(is_given);
        let is_most = || told().map(wanted).sum::<f32>() >= asked.all * ANSWERED;
        are_several() && is_most() || told().any(|term| is_rare(term) && (is_given(term) || is_sharp(term)))
    }

    /// Returns the passage of work that begins with the line that answers best, if it is the last or the
    /// last but one of `passage`: what is asked may be a heading or a key, and the answer stand below it.
    fn begun_at_best_line(&self, passage: &Passage) -> Option<Passage> {
        if !matches!(passage.origin, Origin::Work | Origin::Code) {
            return None;
        }
        let (best, _) = self.wanted_of_lines(passage).max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let features = self.messages[passage.message as usize].features();
        let is_near_end = best > passage.lines_from && best + 2 >= passage.lines_to;
        (is_near_end && (passage.lines_to as usize) < features.lines.len())
            .then(|| passage.moved(features, best, WORK_LINES.min(self.n_lines_from(passage, best))))
    }

    /// Returns the line of a passage that answers best, for where the passage is too long, and the numbers
    /// of its terms; `None` if the line alone answers little of it. An entry of an earlier record is carried
    /// over whole or not at all.
    fn best_line(&self, passage: &Passage, candidate: &[u32]) -> Option<(Passage, Vec<u32>)> {
        if matches!(passage.origin, Origin::Record(_)) {
            return None;
        }
        let message = passage.message as usize;
        let features = self.messages[message].features();
        let line_at = |nth: u32| &features.lines[nth as usize];
        let says_enough = |nth: u32| features.places(line_at(nth)).len() >= least_terms(Purpose::Answer, 1);
        let lines = self.wanted_of_lines(passage).filter(|(nth, _)| says_enough(*nth));
        let (nth, wanted) = lines.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
        let of_passage: f32 = candidate.iter().map(|number| self.answering.wanted[*number as usize]).sum();
        if wanted < of_passage * LEAST_OF_ANSWER {
            return None;
        }
        let (line, numbers) = (line_at(nth), self.numbers_of(message));
        let terms = features.places(line).iter().map(|place| numbers[*place as usize]).collect();
        let (start, end) = (line.start, line.end);
        Some((Passage { start, end, lines_from: nth, lines_to: nth + 1, ..*passage }, terms))
    }

    /// Takes a line that answers, with what it says little without: those below it, or the head of its table
    /// and the row of the sum. Returns the cost of what was taken.
    fn take_line(
        &self,
        line: &Passage,
        room: Tokens,
        take: &mut dyn FnMut(&Passage, Tokens) -> Option<Tokens>,
    ) -> Option<Tokens> {
        let is_agents = line.origin == Origin::Agent;
        let features = self.messages[line.message as usize].features();
        let rows = if is_agents { rows_beside(features, line.lines_from as usize) } else { Vec::new() };
        let below = self.with_what_is_below(line).filter(|_| rows.is_empty());
        let is_told = !is_agents || !says_nothing_alone(line.text(self.messages).trim());
        let below = below.and_then(|lines| take(&lines, room));
        let mut taken = below.or_else(|| is_told.then(|| take(line, room)).flatten())?;
        for nth in rows {
            let Line { start, end, .. } = features.lines[nth];
            let row = Passage { start, end, lines_from: nth as u32, lines_to: nth as u32 + 1, ..*line };
            taken += take(&row, room - taken).unwrap_or_default();
        }
        Some(taken)
    }

    /// Returns a short line of work or of the agent's with the next two: it may be a heading or a key whose
    /// answer stands below.
    fn with_what_is_below(&self, line: &Passage) -> Option<Passage> {
        let is_short = line.n_bytes() <= SHORT_BYTES
            && !line.only_names
            && matches!(line.origin, Origin::Work | Origin::Code | Origin::Agent);
        let features = self.messages[line.message as usize].features();
        let most_lines = BELOW_LINES.min(self.n_lines_from(line, line.lines_from));
        is_short.then(|| line.moved(features, line.lines_from, most_lines))
    }

    /// Returns the number of lines of a passage's message from that of such a number on, without its frame.
    fn n_lines_from(&self, passage: &Passage, nth: u32) -> u32 {
        (self.frames.content(passage.message as usize).end as u32).saturating_sub(nth)
    }

    /// Iterates over the lines of a passage, by their numbers, each with the extent to which it tells what
    /// is asked.
    fn wanted_of_lines(&self, passage: &Passage) -> impl Iterator<Item = (u32, f32)> {
        let message = passage.message as usize;
        let features = self.messages[message].features();
        let numbers = self.numbers_of(message);
        let wanted = move |line: &Line| {
            let numbers = features.places(line).iter().map(|place| numbers[*place as usize]);
            numbers.map(|number| self.answering.wanted[number as usize]).sum()
        };
        passage.lines(features).iter().zip(passage.lines_from..).map(move |(line, nth)| (nth, wanted(line)))
    }
}

/// The share of a term's worth that is left once a passage with it was chosen.
const SAID_AGAIN: f32 = 0.3;
/// In talk, a later statement of the agent's comes first only if it is worth so much of the earlier one.
const AS_TELLING: f64 = 0.5;
/// A term with more than that for each message is a name or a number: a word has less.
const NAME_WEIGHT: f32 = 0.6;
/// The share of the best answer's worth that makes another passage an answer.
const ANSWERS: f64 = 0.5;
/// The share of what is asked that an answer tells at least in several words, or in one that hardly a line
/// has: so few.
const ANSWERED: f32 = 0.4;
const ANSWERED_BY_ONE: f32 = 0.3;
const RARE_LINES: u32 = 3;
/// The least share of a passage's answer that one of its lines has to have to stand for it.
const LEAST_OF_ANSWER: f32 = 0.5;
/// Most bytes of a line that may need those below it, and the number of lines with it.
const SHORT_BYTES: u32 = 60;
const BELOW_LINES: u32 = 3;
/// The number of passages that may turn out too long for the rest before the search ends.
const MOST_TOO_LONG: usize = 200;
/// Fewer tokens hold hardly a line.
const LEAST_PASSAGE: Tokens = Tokens::new(12);

/// Returns the fewest terms of a passage of so many lines for a purpose: less is a shard, such as a word by
/// itself or one line of a function. The shortest answer is a key and its value.
const fn least_terms(purpose: Purpose, n_lines: usize) -> usize {
    match purpose {
        Purpose::Answer => 2,
        Purpose::Work | Purpose::Written if n_lines == 1 => 6,
        Purpose::Work | Purpose::Written => 3,
        Purpose::Statement | Purpose::Newest => 1,
    }
}
