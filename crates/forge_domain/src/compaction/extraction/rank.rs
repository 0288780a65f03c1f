//! Which source lines later work is most likely to need: a greedy cover of the terms that matter, per token.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use super::source::{Sources, Voice};
use crate::features::{Features, Kind, Line};
use crate::{ContextMessage, Tokens};

/// A line of a message that may stand in the record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Candidate<'a> {
    /// Position of its message.
    pub(super) message: usize,
    /// Its number among the lines of its message.
    pub(super) nth: usize,
    pub(super) features: &'a Line,
}

impl<'a> Candidate<'a> {
    pub(super) fn text(&self, messages: &'a [ContextMessage]) -> &'a str {
        messages[self.message].features().line(self.features)
    }

    /// What it costs, about: it is counted where it is chosen.
    fn about_tokens(&self) -> f64 {
        f64::from(self.features.end - self.features.start) / 3.3 + 3.0
    }
}

/// A name by itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Name<'a> {
    pub(super) text: &'a str,
    /// Message and line where it stood last.
    pub(super) place: (usize, usize),
}

/// Hashes are hashes already.
#[derive(Default)]
struct Taken(u64);

impl Hasher for Taken {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }
    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

type ByTerm<T> = HashMap<u64, T, BuildHasherDefault<Taken>>;

/// What is known of a term over the whole context.
#[derive(Clone, Copy, Debug)]
struct Standing {
    kind: Kind,
    /// How many messages of each voice have it, and the last one of each that did, counted from one.
    by_voice: [(u32, u32); 3],
    /// Messages that have it, in any voice.
    n_messages: u32,
    /// The last message that has it, counted from one.
    last: u32,
}

impl Standing {
    const fn new(kind: Kind) -> Self {
        Self { kind, by_voice: [(0, 0); 3], n_messages: 0, last: 0 }
    }

    fn take(&mut self, kind: Kind, voice: Voice, mark: u32) {
        if kind as u8 > self.kind as u8 {
            self.kind = kind;
        }
        if self.last != mark {
            self.last = mark;
            self.n_messages += 1;
        }
        let (n, last) = &mut self.by_voice[voice as usize];
        if *last != mark {
            *last = mark;
            *n += 1;
        }
    }

    /// How many messages have it in `voice`.
    fn in_voice(&self, voice: Voice) -> f64 {
        f64::from(self.by_voice[voice as usize].0)
    }
}

/// The weights of the terms that nothing covers yet.
pub(super) struct Ranking {
    weights: ByTerm<f64>,
    /// Terms that are asked for: saying one once does not cover it.
    favoured: Vec<u64>,
}

impl Ranking {
    /// Weighs the terms of `messages`.
    pub(super) fn of(messages: &[ContextMessage], sources: &Sources) -> Self {
        let mut standings: ByTerm<Standing> = ByTerm::default();
        for (position, message) in messages.iter().enumerate() {
            let mark = position as u32 + 1;
            for (nth, line) in message.features().lines.iter().enumerate() {
                let Some(voice) = sources.voice(messages, position, nth, line) else { continue };
                for term in &line.terms {
                    let standing = standings.entry(term.hash).or_insert(Standing::new(term.kind));
                    standing.take(term.kind, voice, mark);
                }
            }
        }
        let n = messages.len().max(1) as f64;
        let weights = standings.into_iter().map(|(hash, standing)| (hash, weight(&standing, n))).collect();
        Self { weights, favoured: Vec::new() }
    }

    /// Counts the terms of a text as covered: it stays in the context.
    pub(super) fn cover(&mut self, features: &Features) {
        for term in features.lines.iter().flat_map(|line| &line.terms) {
            self.weights.remove(&term.hash);
        }
    }

    /// Makes lines with any of `terms` worth more than the best, whatever else says them.
    pub(super) fn favour(&mut self, terms: &[u64]) {
        let best = self.weights.values().copied().fold(1.0, f64::max);
        self.favoured.extend(terms);
        self.weights.extend(terms.iter().map(|term| (*term, FAVOUR * best)));
    }

    /// The candidates in the order in which they are worth their tokens, until `room` is full; `count` says what one
    /// costs that is chosen. Each is worth what it says that those before it do not.
    pub(super) fn choose<'a>(
        &mut self,
        candidates: &[Candidate<'a>],
        room: Tokens,
        count: &mut dyn FnMut(&Candidate<'a>) -> Tokens,
    ) -> Vec<(Candidate<'a>, Tokens)> {
        let mut heap: BinaryHeap<Ranked> = candidates
            .iter()
            .enumerate()
            .map(|(index, candidate)| Ranked { gain: self.gain(candidate), index })
            .filter(|ranked| ranked.gain > 0.0)
            .collect();
        let mut chosen = Vec::new();
        let mut left = room;
        while let Some(top) = heap.pop()
            && left >= LEAST_LINE
        {
            let candidate = candidates[top.index];
            if candidate.about_tokens() > left.as_u64() as f64 * 1.5 {
                continue;
            }
            let now = self.gain(&candidate);
            if now <= 0.0 {
                continue;
            }
            if heap.peek().is_some_and(|next| now < next.gain) {
                heap.push(Ranked { gain: now, index: top.index });
                continue;
            }
            let tokens = count(&candidate);
            if tokens > left {
                continue;
            }
            left = left - tokens;
            for term in &candidate.features.terms {
                if !self.favoured.contains(&term.hash) {
                    self.weights.remove(&term.hash);
                } else if let Some(weight) = self.weights.get_mut(&term.hash) {
                    *weight *= SAID_AGAIN;
                }
            }
            chosen.push((candidate, tokens));
        }
        chosen
    }

    /// What a line is worth beside those that are chosen, per a root of its tokens.
    fn gain(&self, candidate: &Candidate<'_>) -> f64 {
        let mut sum = 0.0;
        let mut top: f64 = 0.0;
        for weight in candidate.features.terms.iter().filter_map(|term| self.weights.get(&term.hash)) {
            sum += weight;
            top = top.max(*weight);
        }
        (top + OTHERS * (sum - top)) / candidate.about_tokens().powf(COST)
    }

    /// The names in `lines` that nothing covers, in the order in which they are worth their tokens, until `room` is
    /// full; `count` says what one costs.
    pub(super) fn names<'a, 'c>(
        &self,
        lines: impl Iterator<Item = &'c Candidate<'a>>,
        messages: &'a [ContextMessage],
        room: Tokens,
        count: &mut dyn FnMut(&str) -> Tokens,
    ) -> Vec<(Name<'a>, Tokens)>
    where
        'a: 'c,
    {
        let mut last: ByTerm<(f64, Name<'a>)> = ByTerm::default();
        for line in lines {
            let names = line.features.terms.iter().filter(|term| term.kind.is_a_name_given());
            for term in names {
                let Some(weight) = self.weights.get(&term.hash) else { continue };
                let text = messages[line.message].features().term(line.features, term);
                let worth = weight / (text.len() as f64 / 3.2 + 1.0).powf(NAME_COST);
                last.insert(term.hash, (worth, Name { text, place: (line.message, line.nth) }));
            }
        }
        let mut names: Vec<_> = last.into_values().collect();
        names.sort_unstable_by(|(worth, name), (other, than)| {
            other.total_cmp(worth).then_with(|| name.text.cmp(than.text))
        });
        let mut left = room;
        let mut chosen = Vec::new();
        for (_, name) in names {
            if left < LEAST_NAME {
                break;
            }
            let tokens = count(name.text);
            if tokens <= left {
                left = left - tokens;
                chosen.push((name, tokens));
            }
        }
        chosen
    }
}

/// How much the terms beside a line's best one count: a line is chosen for one thing, and the rest is welcome.
const OTHERS: f64 = 0.3;
/// How much more a term that is asked for is worth than the best of the others.
const FAVOUR: f64 = 3.0;
/// What a term that is asked for is worth the next time.
const SAID_AGAIN: f64 = 0.8;
/// How much the length of a line counts against it.
const COST: f64 = 0.4;
/// How much the length of a name counts against it.
const NAME_COST: f64 = 0.3;
/// Fewer tokens hold no line.
const LEAST_LINE: Tokens = Tokens::new(6);
/// Fewer tokens hold no name.
const LEAST_NAME: Tokens = Tokens::new(3);

/// What a term is worth: how often the agent itself wrote it, how often it was seen, and how lately.
fn weight(standing: &Standing, n_messages: f64) -> f64 {
    let age = (n_messages - f64::from(standing.last)) / n_messages;
    let used = 3.0 * standing.in_voice(Voice::Calls).ln_1p() + 1.5 * standing.in_voice(Voice::Says).ln_1p();
    let seen = f64::from(standing.n_messages).ln_1p();
    let lately = 1.0 - age;
    let kind = match standing.kind {
        Kind::Address | Kind::Symbol => 1.0,
        Kind::Name => 0.03,
        Kind::Word => 0.003,
    };
    kind * (used + seen + lately)
}

/// A candidate by its gain; ties go to the later one, so that the order is the same in every run.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Ranked {
    gain: f64,
    index: usize,
}

impl Eq for Ranked {}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> Ordering {
        self.gain.total_cmp(&other.gain).then(self.index.cmp(&other.index))
    }
}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
