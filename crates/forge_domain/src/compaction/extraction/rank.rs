//! Which source lines later work is most likely to need: a greedy cover of the terms that matter, per token.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};
use std::hash::{BuildHasherDefault, Hasher};

use crate::features::{Features, Kind, Line};
use crate::{ContextMessage, Role};

/// A line of a message that may stand in the record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Candidate<'a> {
    pub(crate) message: usize,
    pub(crate) line: usize,
    pub(crate) features: &'a Line,
    pub(crate) tokens: f64,
}

/// Hashes are hashes already.
#[derive(Default)]
pub(crate) struct Taken(u64);

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
    /// Messages that have it, of any role.
    n_messages: u32,
    /// Messages of the agent that have it in a call.
    n_calls: u32,
    /// Messages of the agent or a person that say it.
    n_said: u32,
    /// The last message that has it.
    last: u32,
    seen_in: u32,
    seen_called: u32,
    seen_said: u32,
}

/// The weights of the terms that nothing covers yet.
#[derive(Clone)]
pub(crate) struct Ranking {
    weights: ByTerm<f64>,
}

impl Ranking {
    /// Weighs the terms of `messages`.
    pub(crate) fn of(messages: &[ContextMessage]) -> Self {
        let mut standings: ByTerm<Standing> = ByTerm::default();
        for (position, message) in messages.iter().enumerate() {
            let role = message.message().role();
            let mark = position as u32 + 1;
            for line in &message.features().lines {
                for term in &line.terms {
                    let standing = standings.entry(term.hash).or_insert(Standing {
                        kind: term.kind,
                        n_messages: 0,
                        n_calls: 0,
                        n_said: 0,
                        last: 0,
                        seen_in: 0,
                        seen_called: 0,
                        seen_said: 0,
                    });
                    if term.kind as u8 > standing.kind as u8 {
                        standing.kind = term.kind;
                    }
                    standing.last = mark;
                    if standing.seen_in != mark {
                        standing.seen_in = mark;
                        standing.n_messages += 1;
                    }
                    if line.is_call && standing.seen_called != mark {
                        standing.seen_called = mark;
                        standing.n_calls += 1;
                    }
                    if !line.is_call && role != Role::Tool && standing.seen_said != mark {
                        standing.seen_said = mark;
                        standing.n_said += 1;
                    }
                }
            }
        }
        let n = messages.len().max(1) as f64;
        let weights = standings.into_iter().map(|(hash, standing)| (hash, weight(&standing, n))).collect();
        Self { weights }
    }

    /// Counts the terms of a text as covered: it stays in the context.
    pub(crate) fn cover(&mut self, features: &Features) {
        for term in features.lines.iter().flat_map(|line| &line.terms) {
            self.weights.remove(&term.hash);
        }
    }

    /// The candidates in the order in which they are worth their tokens, until `budget` tokens are spent. Each is
    /// worth what it says that those before it do not.
    pub(crate) fn choose<'a>(mut self, candidates: &[Candidate<'a>], budget: f64) -> Vec<Candidate<'a>> {
        let gain = |weights: &ByTerm<f64>, candidate: &Candidate<'_>| {
            let mut sum = 0.0;
            let mut top: f64 = 0.0;
            for weight in candidate.features.terms.iter().filter_map(|term| weights.get(&term.hash)) {
                sum += weight;
                top = top.max(*weight);
            }
            (top + OTHERS * (sum - top)) / candidate.tokens.powf(COST)
        };
        let mut heap: BinaryHeap<Ranked> = candidates
            .iter()
            .enumerate()
            .map(|(index, candidate)| Ranked { gain: gain(&self.weights, candidate), index })
            .filter(|ranked| ranked.gain > 0.0)
            .collect();
        let mut chosen = Vec::new();
        let mut left = budget;
        while let Some(top) = heap.pop() {
            let candidate = candidates[top.index];
            if candidate.tokens > left {
                if left < 8.0 {
                    break;
                }
                continue;
            }
            let now = gain(&self.weights, &candidate);
            if now <= 0.0 {
                continue;
            }
            if heap.peek().is_some_and(|next| now < next.gain) {
                heap.push(Ranked { gain: now, index: top.index });
                continue;
            }
            left -= candidate.tokens;
            for term in &candidate.features.terms {
                self.weights.remove(&term.hash);
            }
            chosen.push(candidate);
        }
        chosen
    }
}

/// How much the terms beside a line's best one count: a line is chosen for one thing, and the rest is welcome.
const OTHERS: f64 = 0.3;
/// How much the length of a line counts against it.
const COST: f64 = 0.4;

/// What a term is worth: how often the agent itself wrote it, how often it was seen, and how lately.
fn weight(standing: &Standing, n_messages: f64) -> f64 {
    let age = (n_messages - f64::from(standing.last)) / n_messages;
    let used = 3.0 * f64::from(standing.n_calls).ln_1p() + 1.5 * f64::from(standing.n_said).ln_1p();
    let seen = f64::from(standing.n_messages).ln_1p();
    let lately = 2.0 * (1.0 - age);
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
