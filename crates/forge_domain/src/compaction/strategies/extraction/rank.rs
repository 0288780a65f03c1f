//! Which source lines later work is most likely to need: a greedy cover of the terms that matter, per token.

use std::sync::LazyLock;

use indexmap::IndexMap;

use super::candidate::{Candidate, Candidates, Chosen};
use super::fading::{FocusTerm, fading};
use super::queue::{Queue, Ranked};
use super::source::{Sources, Voices};
use crate::compaction::features::{Features, Kind, LINE_BYTES, TermHasher};
use crate::{ContextMessage, Tokens};

/// A name by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    /// Message and line of its last occurrence.
    pub(super) place: (u32, u32),
}

/// The occurrences of a term over the whole context.
#[derive(Clone, Copy, Debug, Default)]
struct Standing {
    /// The number of messages that have it: in any voice, in the agent's calls, and in text of the agent or a
    /// user.
    n_messages: u32,
    n_calls: u32,
    n_says: u32,
    /// The last message that has it, counted from one.
    last: u32,
}

impl Standing {
    fn take(&mut self, voices: Voices, mark: u32) {
        if voices != Voices::default() {
            self.last = mark;
            self.n_messages += 1;
            self.n_calls += u32::from(voices.calls);
            self.n_says += u32::from(voices.says);
        }
    }
}

/// The worth of a context's terms, and which of them are covered already.
pub(super) struct Ranking<'a> {
    messages: &'a [ContextMessage],
    /// All facts about each term, by its hash. Their positions are the numbers of the terms, in the order of
    /// their first occurrence: terms of the same time are close together, which suits the processor's cache.
    standings: IndexMap<u64, Standing, TermHasher>,
    kinds: Vec<Kind>,
    /// The numbers of each message's terms, one message after the other, and the start of each; last, the end
    /// of all.
    by_message: Vec<u32>,
    begins: Vec<usize>,
    /// The worth of each term; zero once it is covered.
    weights: Vec<f32>,
    /// Terms of the focus.
    favoured: Vec<u32>,
}

impl<'a> Ranking<'a> {
    pub(super) fn of(messages: &'a [ContextMessage], sources: &Sources) -> Self {
        let n_terms = messages.iter().map(|message| message.features().terms.len()).sum();
        let mut standings: IndexMap<u64, Standing, _> =
            IndexMap::with_capacity_and_hasher(n_terms / ABOUT_REPEATED, Default::default());
        let mut kinds = Vec::with_capacity(n_terms / ABOUT_REPEATED);
        let mut by_message = Vec::with_capacity(n_terms);
        let mut begins = Vec::with_capacity(messages.len() + 1);
        for (position, message) in messages.iter().enumerate() {
            let mark = u32::try_from(position).unwrap_or(u32::MAX).saturating_add(1);
            begins.push(by_message.len());
            let mut of_record = sources.voices_of_record(messages, position).map(Vec::into_iter);
            let role = message.message().role();
            for term in &message.features().terms {
                let entry = standings.entry(term.hash());
                by_message.push(entry.index() as u32);
                let standing = entry.or_insert_with(|| {
                    kinds.push(term.kind());
                    Standing::default()
                });
                let voices = match &mut of_record {
                    Some(voices) => voices.next().unwrap_or_default(),
                    None => Voices::of(*term, role),
                };
                standing.take(voices, mark);
            }
        }
        begins.push(by_message.len());
        let logarithms: Vec<f64> = (0..=messages.len()).map(|n| (n as f64).ln_1p()).collect();
        let weights = standings.values().zip(&kinds);
        let weights = weights.map(|(standing, kind)| weight(standing, *kind, &logarithms) as f32).collect();
        Self { messages, standings, kinds, by_message, begins, weights, favoured: Vec::new() }
    }

    /// Counts the terms of a text as covered: it stays in the context.
    pub(super) fn cover(&mut self, features: &Features) {
        for term in &features.terms {
            if let Some(number) = self.standings.get_index_of(&term.hash()) {
                self.weights[number] = 0.0;
            }
        }
    }

    /// Covers the terms of the message at `position`.
    pub(super) fn cover_message(&mut self, position: usize) {
        for number in &self.by_message[self.begins[position]..self.begins[position + 1]] {
            self.weights[*number as usize] = 0.0;
        }
    }

    /// Makes lines with any of `terms` worth more than the best, whatever else contains them.
    pub(super) fn favour(&mut self, terms: &[u64]) {
        let best = self.weights.iter().copied().fold(1.0, f32::max);
        let numbers = terms.iter().filter_map(|term| self.standings.get_index_of(term));
        self.favoured.extend(numbers.map(|number| number as u32));
        for number in &self.favoured {
            self.weights[*number as usize] = FAVOUR * best;
        }
    }

    /// Returns the numbers of the terms of the message at `position`.
    pub(super) fn numbers(&self, position: usize) -> &[u32] {
        &self.by_message[self.begins[position]..self.begins[position + 1]]
    }

    /// Chooses candidates, except those in `without`, in the order in which they are worth their tokens,
    /// until `room` is full; `count` returns the cost of a chosen one. Each is worth what it adds to those
    /// before it.
    pub(super) fn choose(
        &mut self,
        lines: &Candidates,
        without: &[Chosen],
        room: Tokens,
        count: &mut dyn FnMut(&Candidate) -> Tokens,
    ) -> Vec<Chosen> {
        let mut is_open = vec![true; lines.lines().len()];
        without.iter().for_each(|chosen| is_open[chosen.index] = false);
        let open = || lines.lines().iter().enumerate().filter(|(index, _)| is_open[*index]);
        let fading = fading(self.focus_terms(lines, open()), room);
        let ranked = open().map(|(index, line)| Ranked {
            gain: self.gain(lines.terms(index), line.n_bytes()),
            index: index as u32,
            n_bytes: line.n_bytes() as u32,
        });
        let mut worth_something = Vec::with_capacity(lines.lines().len());
        worth_something.extend(ranked.filter(|ranked| ranked.gain > 0.0));
        let mut queue = Queue::of(worth_something);
        let mut chosen = Vec::new();
        let mut left = room;
        let mut n_too_long = 0;
        while left >= LEAST_LINE
            && n_too_long < MOST_TOO_LONG
            && let Some(top) = queue.pop()
        {
            if about_tokens(top.n_bytes as usize) > left.as_u64() as f64 * 1.5 {
                n_too_long += 1;
                continue;
            }
            let terms = lines.terms(top.index as usize);
            let now = self.gain(terms, top.n_bytes as usize);
            if now <= 0.0 {
                continue;
            }
            if queue.best().is_some_and(|next| now < next.gain) {
                queue.push(Ranked { gain: now, ..top });
                continue;
            }
            let line = lines.lines()[top.index as usize];
            if line.is_barred(self.messages) {
                continue;
            }
            let tokens = count(&line);
            if tokens > left {
                n_too_long += 1;
                continue;
            }
            left = left - tokens;
            for number in terms {
                let left = fading.iter().find(|(asked, _)| asked == number).map_or(0.0, |(_, left)| *left);
                self.weights[*number as usize] *= left;
            }
            chosen.push(Chosen { line, index: top.index as usize, tokens });
        }
        chosen
    }

    /// Returns the terms of the focus, with the approximate cost of their open lines.
    fn focus_terms<'c>(
        &self,
        lines: &Candidates,
        open: impl Iterator<Item = (usize, &'c Candidate)>,
    ) -> Vec<FocusTerm> {
        let mut asked: Vec<_> =
            self.favoured.iter().map(|number| FocusTerm { tokens: 0, number: *number }).collect();
        // Without a focus, as usual, no line is looked at for it.
        for (index, line) in open.take_while(|_| !self.favoured.is_empty()) {
            let tokens = about_tokens(line.n_bytes()) as u64;
            let has = |asked: &&mut FocusTerm| lines.terms(index).contains(&asked.number);
            asked.iter_mut().filter(has).for_each(|asked| asked.tokens += tokens);
        }
        asked
    }

    /// Returns a line's worth beside the chosen ones, per a power of its tokens.
    fn gain(&self, terms: &[u32], n_bytes: usize) -> f64 {
        let mut sum = 0.0;
        let mut top: f64 = 0.0;
        for number in terms {
            let weight = f64::from(self.weights[*number as usize]);
            sum += weight;
            top = top.max(weight);
        }
        (top + OTHERS * (sum - top)) / COSTS[n_bytes]
    }

    /// Chooses the names in `parts` that nothing covers, in the order in which they are worth their tokens,
    /// until `room` is full; `count` returns the cost of one. Each is placed where the last of the lines has
    /// it.
    pub(super) fn names(
        &self,
        parts: &[&Candidates],
        room: Tokens,
        count: &mut dyn FnMut(&str) -> Tokens,
    ) -> Vec<(Name<'a>, Tokens)> {
        let open = self.kinds.iter().zip(&self.weights);
        let mut is_open: Vec<bool> =
            open.map(|(kind, weight)| *weight > 0.0 && kind.is_a_name_given()).collect();
        let mut names: Vec<(Candidate, usize)> = Vec::new();
        let mut ranked: Vec<Ranked> = Vec::new();
        for lines in parts.iter().rev() {
            for (index, line) in lines.lines().iter().enumerate().rev() {
                for (nth, number) in lines.terms(index).iter().enumerate() {
                    let number = *number as usize;
                    if is_open[number] && !line.is_barred(self.messages) {
                        is_open[number] = false;
                        let (features, at) = line.features(self.messages);
                        let n_bytes = features.word_len(at, nth);
                        let gain = f64::from(self.weights[number]) / NAME_COSTS[n_bytes];
                        ranked.push(Ranked { gain, index: names.len() as u32, n_bytes: n_bytes as u32 });
                        names.push((*line, nth));
                    }
                }
            }
        }
        let mut queue = Queue::of(ranked);
        let mut left = room;
        let mut n_too_long = 0;
        let mut chosen = Vec::new();
        while left >= LEAST_NAME
            && n_too_long < MOST_TOO_LONG
            && let Some(Ranked { index, .. }) = queue.pop()
        {
            let (line, nth) = names[index as usize];
            let (features, at) = line.features(self.messages);
            let text = features.word(at, nth);
            let tokens = count(text);
            if tokens <= left {
                left = left - tokens;
                chosen.push((Name { text, place: (line.message, line.nth) }, tokens));
            } else {
                n_too_long += 1;
            }
        }
        chosen
    }
}

/// The weight of a line's other terms beside its best one: a line is chosen for one thing, and the rest is a
/// bonus.
const OTHERS: f64 = 0.3;
/// The factor by which a term of the focus is worth more than the best of the others.
const FAVOUR: f32 = 3.0;
/// The exponent by which the length of a line reduces its worth.
const COST: f64 = 0.4;
/// The exponent by which the length of a name reduces its worth.
const NAME_COST: f64 = 0.3;
/// The number of lines or names that may turn out too long for the rest before the search ends: there is
/// nearly always some space left that none of thousands fills.
const MOST_TOO_LONG: usize = 200;
/// Fewer tokens hold hardly a line.
const LEAST_LINE: Tokens = Tokens::new(10);
/// Fewer tokens hold few names: it does not pay to look for one that is short enough.
const LEAST_NAME: Tokens = Tokens::new(6);

/// The approximate number of occurrences of a term in a context, to reserve memory.
const ABOUT_REPEATED: usize = 2;

/// The relative cost of a line of so many bytes.
static COSTS: LazyLock<Vec<f64>> = LazyLock::new(|| by_length(|n_bytes| about_tokens(n_bytes).powf(COST)));
/// The relative cost of a name of so many bytes.
static NAME_COSTS: LazyLock<Vec<f64>> =
    LazyLock::new(|| by_length(|n_bytes| (n_bytes as f64 / 3.2 + 1.0).powf(NAME_COST)));

fn by_length(cost: fn(usize) -> f64) -> Vec<f64> {
    (0..=LINE_BYTES).map(cost).collect()
}

/// Returns the approximate tokens of a line of so many bytes: it is counted once it is chosen.
fn about_tokens(n_bytes: usize) -> f64 {
    n_bytes as f64 / 3.3 + 3.0
}

/// Returns the worth of a term: by how often the agent itself wrote it, how often it was seen, and how
/// recently; zero if it has no author. `logarithms` has the logarithm of one more than each number of
/// messages.
fn weight(standing: &Standing, kind: Kind, logarithms: &[f64]) -> f64 {
    if standing.n_messages == 0 {
        return 0.0;
    }
    let logarithm = |n: u32| logarithms[n as usize];
    let n_messages = (logarithms.len() - 1) as f64;
    let age = (n_messages - f64::from(standing.last)) / n_messages;
    let used = 3.0 * logarithm(standing.n_calls) + 1.5 * logarithm(standing.n_says);
    let seen = logarithm(standing.n_messages);
    let lately = 1.0 - age;
    let kind = match kind {
        Kind::Address | Kind::Symbol => 1.0,
        Kind::Name => 0.03,
        Kind::Word => 0.003,
    };
    kind * (used + seen + lately)
}
