//! Chooses what a record holds, in its order, for as many tokens as there are.

use std::collections::HashSet;
use std::iter::Peekable;

use super::Material;
use super::answered::{Asked, Picked};
use super::candidates::{Candidates, Interview};
use super::contents::{Contents, LEAST_CONTENT, entries, keys_in};
use super::excerpt::{answer, short_label, source_of};
use super::filling::{Filling, Placed, line_hash};
use super::leaving::Leaving;
use super::order::{Calls, Highlights, Take, Which, order};
use super::passage::{Origin, Passage};
use super::record::{Entry, Section};
use super::shortening::{beginnings_of, ends_of};
use super::story::{Effect, Step, newest_steps};
use super::worth::{Purpose, Worth};
use crate::compaction::features::hash;
use crate::{TokenCounter, Tokens};

/// The number of calls of which those that did more than look are told before what was written.
const N_NEWEST_STEPS: usize = 12;
/// The most passages of what the user answered in a few words.
const ASKED_PASSAGES: usize = 5;
/// The most lines of a list that were meant, and that stand around those.
const MOST_ITEMS: usize = 24;
/// The tokens that calls which changed something outside have at least, if that is no more than a third of
/// what is left: about two of them.
const LEAST_ACTS: Tokens = Tokens::new(50);
/// Those that what the user answered has at least, within the same bounds: a question with its answer.
const LEAST_ASKED: Tokens = Tokens::new(50);
/// The approximate cost of a line's indentation and end, and of the mark of a gap.
const LINE_TOKENS: u64 = 1;
const GAP_TOKENS: u64 = 3;
/// That of the mark between a question and the user's answer.
const ANSWER_TOKENS: u64 = 2;

/// Returns the approximate tokens of the label of a text of such an origin: the user's words have a dash.
const fn label_tokens(origin: Origin) -> u64 {
    match origin {
        Origin::User => 2,
        Origin::Agent | Origin::Code => 5,
        Origin::Work => 7,
        Origin::Record(_) => 0,
    }
}

/// The choice of what a record holds, and the tokens that are left for it.
pub(super) struct Choice<'c, 'm> {
    leaving: &'c Leaving<'c>,
    worth: &'c mut Worth<'m>,
    candidates: Candidates,
    contents: Contents<'c>,
    /// The calls that were not taken as any special kind.
    steps: Peekable<Box<dyn Iterator<Item = Step> + 'c>>,
    filling: Filling,
    interview: &'c Interview,
    /// The tokens at first, and those that are left.
    room: Tokens,
    left: Tokens,
    counter: &'c dyn TokenCounter,
}

impl<'c, 'm> Choice<'c, 'm> {
    /// Returns a choice among `candidates` for `room` tokens, beside what a `filling` knows; the questions of
    /// an `interview` stand with their answers.
    pub(super) fn new(
        leaving: &'c Leaving<'c>,
        worth: &'c mut Worth<'m>,
        candidates: Candidates,
        filling: Filling,
        interview: &'c Interview,
        room: Tokens,
        counter: &'c dyn TokenCounter,
    ) -> Self {
        let Material { context, sources, state, .. } = *leaving.material;
        let contents = Contents::of(context, sources, leaving.leaves, &state.folder);
        let steps: Box<dyn Iterator<Item = Step> + 'c> = Box::new(steps(leaving));
        let steps = steps.peekable();
        Self { leaving, worth, candidates, contents, steps, filling, interview, room, left: room, counter }
    }

    /// Takes everything in its order, and returns it.
    pub(super) fn carry_out(mut self, highlights: &Highlights<'_>) -> Filling {
        for take in order(self.leaving.material.is_talk) {
            let is = |which: Which| move |passage: &Passage| highlights.is(which, passage);
            match take {
                Take::Answers(percent) => self.take_answers(percent, &is(Which::NotSaid)),
                Take::SaidInSummaries(percent) => self.take_said(&self.leaving.said_in_summaries(), percent),
                Take::Passages(percent, purpose, which) => self.pick(percent, purpose, &is(which)),
                Take::InTurn(percent, kinds) => {
                    let mut room = self.left.share(percent, 100);
                    for which in kinds {
                        room = room - self.fill(room, Purpose::Statement, &is(*which));
                    }
                }
                Take::Picks(percent) => self.take_picked(highlights.answered.picks.iter(), percent),
                Take::Picked(percent) => self.take_picked(highlights.answered.picked.iter(), percent),
                Take::PickedItems(percent) => {
                    drop(self.take_picked_items(highlights.answered.picked.iter(), percent));
                }
                Take::Answered(percent) => self.take_ends(&highlights.answered.asked, percent),
                Take::Calls(percent, calls) => self.take_calls(calls, percent),
                Take::Contents { tables, others } => self.take_contents(tables, others),
            }
        }
        self.filling
    }

    /// Picks passages for a share of what is left, in percent.
    fn pick(&mut self, percent: u64, purpose: Purpose, which: &dyn Fn(&Passage) -> bool) {
        self.fill(self.left.share(percent, 100), purpose, which);
    }

    /// Picks answers to what is asked. Each question has most of what those before it left, so that none
    /// takes all of it.
    fn take_answers(&mut self, percent: u64, which: &dyn Fn(&Passage) -> bool) {
        let mut room = self.left.share(percent, 100);
        for (nth, asked) in self.leaving.material.question.asked().enumerate() {
            self.worth.take_up(nth, asked, &self.candidates);
            room = room - self.fill(room.share(3, 5), Purpose::Answer, which);
        }
    }

    /// Picks passages for at most `room` tokens, and returns what they take.
    fn fill(&mut self, room: Tokens, purpose: Purpose, which: &dyn Fn(&Passage) -> bool) -> Tokens {
        let Self { leaving, worth, candidates, filling, left, counter, interview, .. } = self;
        let Material { context, sources, changes, state, team, .. } = *leaving.material;
        let unused = worth.choose(candidates, purpose, room, which, &mut |passage, room| {
            let text = passage.text(sources);
            let label = match passage.origin {
                // An answer must not fail for its label.
                Origin::Work if purpose != Purpose::Answer => {
                    let source = &sources[passage.message as usize];
                    let label = source_of(context, passage, source, &state.folder);
                    let is_further = filling.quoted.contains(&passage.message);
                    let label = if is_further { short_label(&label) } else { label };
                    let mark = changes.outdate(passage, context, source).mark();
                    counter.count(&format!("{label}{mark}")) + Tokens::new(LINE_TOKENS)
                }
                // All that is told of one message has one label.
                Origin::Agent if filling.said.contains(&passage.message) => Tokens::new(GAP_TOKENS),
                Origin::User => {
                    let name = team.person(&sources[passage.message as usize]);
                    let name = name.map_or(Tokens::ZERO, |name| counter.count(&name) + Tokens::new(1));
                    name + Tokens::new(label_tokens(Origin::User))
                }
                origin => Tokens::new(label_tokens(origin)),
            };
            let told = counter.count(text);
            let n_lines = text.matches('\n').count() as u64;
            let tokens = told + label + Tokens::new(n_lines * LINE_TOKENS);
            // The user's answer says little without the question.
            let is_stated = passage.origin == Origin::User && purpose == Purpose::Statement;
            let question = interview.get(&passage.message).filter(|_| is_stated);
            let above = question.map(|question| counter.count(question.text(sources)));
            let above = above.map_or(Tokens::ZERO, |above| above + Tokens::new(ANSWER_TOKENS));
            // A passage that is shorter than its label is not worth it, unless somebody asks for it.
            if tokens + above > room || (purpose == Purpose::Work && told < label) {
                return None;
            }
            // A text that stays or was chosen before costs nothing. Somebody's words count as an answer even
            // so: the question may quote them.
            let place = || hash(&format!("{} {}", passage.message, passage.start));
            let is_new_answer =
                purpose == Purpose::Answer && passage.origin != Origin::Work && filling.known.insert(place());
            let is_new = match passage.origin {
                Origin::User | Origin::Agent => filling.learn_said(text),
                Origin::Code | Origin::Work | Origin::Record(_) => filling.learn(text),
            };
            // The same answer to another question is another statement.
            let is_new_question = question.is_some_and(|question| filling.learn_said(question.text(sources)));
            if !is_new && !is_new_answer && !is_new_question {
                return Some(Tokens::ZERO);
            }
            filling.interview.extend(question.map(|question| (passage.message, *question)));
            Some(filling.push(*passage, tokens + above))
        });
        *left = *left - (room - unused);
        room - unused
    }

    /// Takes the lists from which the user `picked`: of all first the items that they meant, then what stands
    /// around those.
    fn take_picked<'p>(&mut self, picked: impl Iterator<Item = &'p Picked>, percent: u64) {
        let (mut room, around) = self.take_picked_items(picked, percent);
        for passage in around {
            room = room - self.fill(room, Purpose::Newest, &|other| *other == passage);
        }
    }

    /// Takes the items that the user meant, with what the agent said last below them. Returns the room that
    /// is left, and what stands around them.
    fn take_picked_items<'p>(
        &mut self,
        picked: impl Iterator<Item = &'p Picked>,
        percent: u64,
    ) -> (Tokens, Vec<Passage>) {
        let sources = self.leaving.material.sources;
        let mut room = self.room_of_asked(percent);
        let mut around: Vec<Passage> = Vec::new();
        for Picked { position, answer: answered_at, items, is_repeated } in picked {
            let features = sources[*position].features();
            let of_text = self.candidates.passages.iter().filter(|passage| passage.is_said_at(*position));
            let has_item = |passage: &Passage| items.iter().any(|item| passage.holds(*item));
            let (meant, mut others): (Vec<Passage>, Vec<Passage>) = of_text.copied().partition(has_item);
            let room_before = room;
            for passage in meant.iter().take(MOST_ITEMS) {
                room = room - self.take_any_of(beginnings_of(*passage, features), room);
            }
            let is_below = |last: &Passage| meant.iter().all(|passage| passage.start < last.start);
            if let Some(last) = others.last().copied().filter(is_below) {
                others.pop();
                room = room - self.take_any_of(ends_of(last, features), room);
            }
            if *is_repeated && room < room_before {
                room = room - self.reserve_answer(*answered_at);
            }
            around.extend(others.into_iter().take(MOST_ITEMS));
        }
        (room, around)
    }

    /// Returns the room for what the user answered, with its share of what is left in percent.
    fn room_of_asked(&self, percent: u64) -> Tokens {
        self.left.share(percent, 100).max(LEAST_ASKED.min(self.left.share(1, 3)))
    }

    /// Takes a passage, the first of `parts`, or else the first of its parts that fits `room`, and returns
    /// what it takes.
    fn take_any_of(&mut self, parts: Vec<Passage>, room: Tokens) -> Tokens {
        let Some(whole) = parts.first().copied() else { return Tokens::ZERO };
        let taken = self.fill(room, Purpose::Newest, &|passage| *passage == whole);
        let sources = self.leaving.material.sources;
        // It may have been taken before, as an answer to what is asked.
        let is_told = |(told, _): &(Passage, Tokens)| {
            told.message == whole.message && told.start <= whole.start && whole.end <= told.end
        };
        if taken > Tokens::ZERO || self.filling.passages.iter().any(is_told) {
            return taken;
        }
        let is_further = self.filling.said.contains(&whole.message);
        let label = if is_further { GAP_TOKENS } else { label_tokens(Origin::Agent) };
        for part in parts {
            let text = part.text(sources);
            let n_lines = text.matches('\n').count() as u64;
            let tokens = self.counter.count(text) + Tokens::new(label + n_lines * LINE_TOKENS);
            if tokens <= room && self.filling.learn_said(text) {
                self.left = self.left - tokens;
                return self.filling.push(part, tokens);
            }
        }
        Tokens::ZERO
    }

    /// Counts an entry with the end of its line.
    fn tokens_of(&self, entry: &Entry) -> Tokens {
        self.counter.count(entry.as_str()) + Tokens::new(LINE_TOKENS)
    }

    /// Reserves room for the user's answer below what it answers, and returns its tokens.
    fn reserve_answer(&mut self, position: usize) -> Tokens {
        let Material { sources, team, .. } = *self.leaving.material;
        let tokens = self.tokens_of(&answer(&sources[position], team));
        self.left = self.left - tokens;
        tokens
    }

    /// Takes the ends of the agent's texts that were `asked`: each ends with what it asks, and what that is
    /// about stands before it. All have their last passage, or as many of its last sentences as fit, before
    /// any has a further one.
    fn take_ends(&mut self, asked: &[Asked], percent: u64) {
        let sources = self.leaving.material.sources;
        let mut room = self.room_of_asked(percent);
        let passages = &self.candidates.passages;
        let said_at = |position: usize| -> Vec<Passage> {
            passages.iter().filter(|passage| passage.is_said_at(position)).copied().collect()
        };
        let mut ends: Vec<(&Asked, Vec<Passage>)> =
            asked.iter().map(|asked| (asked, said_at(asked.position))).collect();
        for nth in 0..ASKED_PASSAGES {
            for (asked, passages) in &mut ends {
                let Some(last) = passages.pop() else { continue };
                let taken = if nth == 0 {
                    self.take_any_of(ends_of(last, sources[asked.position].features()), room)
                } else {
                    self.fill(room, Purpose::Newest, &|passage| *passage == last)
                };
                room = room - taken;
                // It may have been taken before, as an answer to what is asked.
                let of_message = |(told, _): &&(Passage, Tokens)| told.message == last.message;
                let told = || self.filling.passages.iter().filter(of_message).map(|(told, _)| told);
                let is_whole = told().any(|told| told.start == last.start);
                let has_end = told().any(|told| told.end == last.end);
                if nth == 0 && has_end {
                    room = room - self.reserve_answer(asked.answer);
                }
                if !is_whole {
                    // The passages before it make no sense without it.
                    passages.clear();
                }
            }
        }
    }

    /// Takes calls of a kind until their share of what is left is full.
    fn take_calls(&mut self, calls: Calls, percent: u64) {
        let room = self.left.share(percent, 100);
        let leaving = self.leaving;
        match calls {
            Calls::Acting => {
                let mut room = room.max(LEAST_ACTS.min(self.left.share(1, 3)));
                // One with a long outcome hides none of those before it.
                for step in steps(leaving).filter(|step| step.effect == Effect::Outside) {
                    room = self.take_steps(&mut std::iter::once(step).peekable(), room);
                }
            }
            Calls::Asking => {
                self.take_steps(&mut steps(leaving).filter(|step| step.asks).peekable(), room);
            }
            Calls::NewestDone => {
                let done = steps(leaving).take(N_NEWEST_STEPS).filter(|step| step.effect != Effect::Looks);
                self.take_steps(&mut done.peekable(), room);
            }
            Calls::All => {
                let nothing: Box<dyn Iterator<Item = Step> + 'c> = Box::new(std::iter::empty());
                let mut all = std::mem::replace(&mut self.steps, nothing.peekable());
                self.take_steps(&mut all, room);
                self.steps = all;
            }
        }
    }

    /// Takes the next steps until `room` is full, and returns what is left of it.
    fn take_steps(&mut self, steps: &mut Peekable<impl Iterator<Item = Step>>, mut room: Tokens) -> Tokens {
        while let Some(step) = steps.peek_mut() {
            step.tell_names(self.leaving.material.sources, self.worth);
            let entry = &step.entry;
            let told = hash(entry.as_str());
            let tokens = self.tokens_of(entry);
            if tokens > room && !self.filling.known.contains(&told) {
                break;
            }
            if let Some(Step { position, entry, quotes, .. }) = steps.next()
                && self.filling.known.insert(told)
            {
                self.filling.known.extend(quotes.iter().map(|line| line_hash(line)));
                room = room - tokens;
                self.take(Section::Story, position, entry, tokens);
            }
        }
        room
    }

    /// Takes the newest of what the user says in summaries until a share of what is left is full.
    fn take_said(&mut self, said: &[(u64, usize, String)], percent: u64) {
        let mut room = self.left.share(percent, 100);
        for (number, position, text) in said.iter().rev() {
            let entry = Entry::quote(text);
            let tokens = self.tokens_of(&entry);
            if tokens <= room && self.filling.learn_said(text) {
                room = room - tokens;
                self.take_at((*number, *position), Section::Said, entry, tokens);
            }
        }
    }

    /// Takes what can be asked for again, for shares of what is left: the tables, also those that an earlier
    /// record tells of, and some of the other contents.
    fn take_contents(&mut self, tables: u64, others: u64) {
        let most_others = (self.room.share(others, 100).as_u64() / LEAST_CONTENT.as_u64()) as usize;
        let new = entries(self.contents.tables(), self.left.share(tables, 100), self.counter);
        let listed: HashSet<String> =
            new.iter().filter_map(|(_, entry, _)| Some(keys_in(entry.as_str())?.to_owned())).collect();
        self.take_entries(new);
        // The tables of an earlier record can be asked for as long as their keys are told.
        let sources = self.leaving.material.sources;
        self.pick(tables, Purpose::Work, &|passage| {
            let is_new = |keys: &str| !listed.contains(keys);
            passage.origin == Origin::Record(Section::LeftOut)
                && keys_in(passage.text(sources)).is_some_and(is_new)
        });
        let rest = self.contents.others(self.worth).take(most_others);
        let rest = entries(rest, self.left.share(others, 100), self.counter);
        self.take_entries(rest);
    }

    fn take_entries(&mut self, contents: Vec<(usize, Entry, Tokens)>) {
        for (position, entry, tokens) in contents {
            self.take(Section::LeftOut, position, entry, tokens);
        }
    }

    fn take(&mut self, section: Section, position: usize, entry: Entry, tokens: Tokens) {
        self.take_at((entry.number(), position), section, entry, tokens);
    }

    fn take_at(&mut self, place: (u64, usize), section: Section, entry: Entry, tokens: Tokens) {
        self.left = self.left - tokens;
        self.filling.entries.push((section, Placed { place, entry }, tokens));
    }
}

/// Iterates over the calls that leave, the newest first.
fn steps<'c>(leaving: &'c Leaving<'c>) -> impl Iterator<Item = Step> + 'c {
    newest_steps(leaving.material, leaving.leaves, &leaving.material.state.folder)
}
