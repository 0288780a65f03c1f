//! The worth of a passage: the terms in it, by how rare they are, how much the agent worked with them, and
//! how strongly somebody asks about them.

use std::collections::HashSet;
use std::sync::OnceLock;

use indexmap::IndexMap;

use super::candidates::{AskedTerm, Candidates, Questions, Said, set_of};
use super::frames::Frames;
use super::introductions::says_nothing_alone;
use super::passage::{Origin, Passage, WORK_LINES};
use super::queue::{Queue, Ranked};
use crate::compaction::answered_call::{AnsweredCall, answered_call};
use crate::compaction::features::{Features, Kind, Line, SENTENCE_ENDS, TermHasher};
use crate::compaction::question::{Asked, Question, rarity};
use crate::{Context, ContextMessage, Message, Role, Tokens};

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
            let n_lines = candidates.lines_with[number] as usize;
            let kind = asked.kind(term);
            let rarity = rarity(candidates.n_lines, n_lines);
            let wanted = rarity * if kind == Some(Kind::Symbol) { SYMBOL } else { 1.0 };
            answering.wanted[number] = wanted;
            answering.given[number] = kind.is_some_and(Kind::is_a_name_given);
            if n_lines > 0 {
                answering.all += wanted;
                answering.all_sharply += wanted.powi(2);
            }
        }
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
            |term: &AskedTerm| (1..=RARE_LINES).contains(&candidates.lines_with[term.number as usize]);
        // The square tells the one word that is asked about from those that ask.
        let is_sharp = |term: &AskedTerm| wanted(term).powi(2) >= asked.all_sharply * ANSWERED_BY_ONE;
        let terms = || candidates.asked_terms(index).iter();
        let told = || terms().filter(|term| term.is_first && wanted(term) > 0.0);
        let are_several = || told().nth(1).is_some() || told().any(is_given);
        let is_most = || told().map(wanted).sum::<f32>() >= asked.all * ANSWERED;
        are_several() && is_most() || told().any(|term| is_rare(term) && (is_given(term) || is_sharp(term)))
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

    /// Returns `passages` as candidates.
    pub(super) fn candidates(&self, passages: Vec<Passage>) -> Candidates {
        let n_passages = passages.len();
        let mut candidates = Candidates {
            passages,
            terms: Vec::with_capacity(self.by_message.len()),
            ends: Vec::with_capacity(n_passages),
            asked_by: Vec::with_capacity(n_passages),
            asked_terms: Vec::with_capacity(n_passages),
            asked_ends: Vec::with_capacity(n_passages),
            n_lines: 0,
            lines_with: vec![0; self.numbers.len()],
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
            candidates.n_lines += passage.n_lines();
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
                        candidates.lines_with[number as usize] += 1;
                        asked_by |= by;
                    }
                }
            }
            candidates.asked_by.push(asked_by);
            candidates.asked_ends.push(candidates.asked_terms.len() as u32);
            candidates.ends.push(candidates.terms.len() as u32);
        }
        candidates
    }

    /// Notes what stays of the message at `position`: it answers as well as a passage does.
    pub(super) fn note_shown(&self, candidates: &mut Candidates, position: usize, text: &str) {
        let terms = Features::of(&Message::user(text)).terms;
        let numbers = terms.iter().filter_map(|term| self.numbers.get_index_of(&term.hash()));
        let numbers = numbers.map(|number| number as u32).collect();
        candidates.answers.push(Said::of(position as u32, numbers));
    }

    /// Returns the worth of a candidate beside the chosen ones.
    fn gain(&self, candidates: &Candidates, index: usize, purpose: Purpose) -> f64 {
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
        sum * TOLD_OF.powi(n_told.into()) * self.lateness(passage, purpose) / cost.of(passage.n_bytes())
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
        let ranked = ranked.map(|(index, passage)| Ranked {
            gain: self.gain(candidates, index, purpose),
            index: index as u32,
            n_bytes: passage.n_bytes(),
        });
        let mut ranked: Vec<Ranked> = ranked.filter(|ranked| ranked.gain > 0.0).collect();
        if is_answer {
            // An answer is what says nearly as much of what was asked as the best does.
            let best = ranked.iter().map(|ranked| ranked.gain).fold(0.0, f64::max);
            ranked.retain(|ranked| ranked.gain >= best * ANSWERS);
        }
        ranked
    }

    /// Chooses of the candidates that `is_open`, in the order in which they are worth their tokens, until
    /// `room` is full; `take` returns the cost of one, or `None` if it cannot be taken. Each is worth what it
    /// adds to those before it. Returns what is left of the room.
    pub(super) fn choose(
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
            // Its author may correct this later. In talk, each turn of the agent's adds to the others.
            if (passage.origin == Origin::User || is_agents && !self.is_talk)
                && purpose == Purpose::Statement
                && due.insert(top.index)
                && let Some(later) = candidates.said_later(top.index as usize, &is_open, says)
                && preferred.insert(later as u32)
            {
                let n_bytes = candidates.passages[later].n_bytes();
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
                None => self.best_line(&passage, terms).filter(|(_, terms)| !is_answered(terms)).and_then(
                    |(line, terms)| {
                        let below = self.with_what_is_below(&line).and_then(|lines| take(&lines, room));
                        let is_told = line.origin != Origin::Agent
                            || !says_nothing_alone(line.text(self.messages).trim());
                        let alone = || is_told.then(|| take(&line, room)).flatten();
                        Some((below.or_else(alone)?, terms))
                    },
                ),
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
}

/// The weight of a call with a term, where a text with it counts one.
const CALLED: f32 = 1.5;
/// The worth of a term for being there at all, beside that of being used and asked about.
const SEEN: f32 = 0.25;
const USED: f32 = 0.5;
const ASKED: f32 = 2.0;
/// In talk, the factor of a term that the question names, if hardly any other turn has it.
const ASKED_IN_TALK: f32 = 5.0;
/// The share of its worth that a term has in a statement if the agent says it again later: what it says of it
/// then may correct what it said before.
const SAID_LATER: f32 = 0.6;
/// The share of its worth that a question has: it tells less than its answer.
const ASKS_BACK: f32 = 0.3;
/// The factor of a statement for each that was chosen of the same message: of a long plan, some is enough.
const TOLD_OF: f64 = 0.85;
/// The share of its worth that a text which ends with a question has in talk.
const ASKS_IN_THE_END: f32 = 0.7;
const QUESTION_MARKS: [char; 3] = ['?', '？', '؟'];
/// Marks that may close a text after its last sentence.
const CLOSING: [char; 6] = ['*', '_', ')', '"', '”', '」'];
/// The share of its worth that a note of a harness has: it tells how to work, not what was found.
const NOTED: f64 = 0.5;
/// The share of its worth that a part of a file has as it is not, or no longer, or that names what it uses.
const TELLS_LITTLE: f64 = 0.25;
/// The share of a term's worth that is left once a passage with it was chosen.
const SAID_AGAIN: f32 = 0.3;
/// The share of its worth that the oldest passage has beside the newest; of an answer, more: what says
/// nearly the same later may be the valid value, but what says less is none.
const OLD: f64 = 0.5;
const OLD_ANSWER: f64 = 0.8;
const OLD_STATEMENT: f64 = 0.9;
/// The power of a passage's position, from 0 to 1 for the newest, by which its worth falls where the newest
/// is wanted.
const NEWNESS: i32 = 8;
/// The weight of a symbol or a code in a question, where a word counts one: who asks for a value by its name
/// asks for nothing else. A path only tells where it is.
const SYMBOL: f32 = 2.0;
/// The most that the subject of a call counts for being asked about.
const MOST_ASKED: f32 = 2.0;
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
/// The exponents by which the length of a passage reduces its worth. Of work, less than in proportion: whole
/// passages say more than their best words.
static WORK_COST: Cost = Cost::with(0.6);
static STATEMENT_COST: Cost = Cost::with(0.9);
static ANSWER_COST: Cost = Cost::with(0.2);
/// A statement that says this much counts half: a page of plans is not worth many conclusions.
const SAYS_MUCH: f32 = 80.0;
/// The number of passages that may turn out too long for the rest before the search ends.
const MOST_TOO_LONG: usize = 200;
/// Fewer tokens hold hardly a line.
const LEAST_PASSAGE: Tokens = Tokens::new(12);
/// The approximate number of occurrences of a term in a context, to reserve memory.
const ABOUT_REPEATED: usize = 2;
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
fn about_tokens(n_bytes: usize) -> f64 {
    n_bytes as f64 / 3.3 + 6.0
}

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

/// Returns a text without the question mark at its end; `None` if it has none.
fn without_question_mark(text: &str) -> Option<&str> {
    text.trim_end_matches(|mark: char| mark.is_whitespace() || CLOSING.contains(&mark))
        .strip_suffix(QUESTION_MARKS)
}

/// Checks whether a text ends with a question.
pub(super) fn asks(text: &str) -> bool {
    without_question_mark(text).is_some()
}

/// Checks whether a sentence ends within a text: at a mark before a blank, or at a mark of a script that has
/// no blanks.
fn ends_a_sentence(text: &str) -> bool {
    text.match_indices(SENTENCE_ENDS).any(|(at, mark)| {
        let after = text[at + mark.len()..].chars().next();
        !mark.is_ascii() || after.is_some_and(char::is_whitespace)
    })
}
