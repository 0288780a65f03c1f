//! Which tool results say nothing that a later one does not say again, or better.

use std::collections::{HashMap, HashSet};

use super::asked::Asked;
use super::stub::is_stub;
use crate::findings::{Deed, Extent};
use crate::{ContextMessage, Role, ToolCall};

/// How a later result supersedes an earlier one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Superseded {
    /// The file was read again, or changed since.
    File,
    /// The same call was made again.
    Repeated,
    /// Nearly the same was answered again.
    Again,
}

/// Results of fewer distinct terms are not compared: short answers look alike and mean different things.
const LEAST_TERMS: usize = 8;
/// How many of a result's terms are looked up: two results that are nearly the same share one of these all but
/// certainly.
const N_SAMPLES: u64 = 3;

/// For each message how a later result supersedes it, if it is a result and one does. A call that failed supersedes
/// nothing. Takes time in proportion to what the results say.
pub(super) fn superseded(
    messages: &[ContextMessage],
    asked: &[Option<Asked<'_>>],
) -> Vec<Option<Superseded>> {
    let mut later = Later::default();
    let mut found = vec![None; messages.len()];
    for (position, message) in messages.iter().enumerate().rev() {
        if message.message().role() != Role::Tool {
            continue;
        }
        let called = asked[position].map(|asked| (asked.call, asked.deed));
        let says = if is_stub(&message.message().text()) { Says::Nothing } else { Says::This };
        let terms = distinct_terms(message);
        let by_call = called.and_then(|(call, deed)| later.supersedes(call, deed));
        found[position] = by_call.or_else(|| later.says_again(&terms).then_some(Superseded::Again));
        if message.findings().failure.is_none() {
            if let Some((call, deed)) = called {
                later.take_call(call, deed, says);
            }
            later.take_terms(terms);
        }
    }
    found
}

/// Whether what a call answered is still there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Says {
    This,
    /// It was cleared: what it did counts, what it said does not.
    Nothing,
}

/// What later calls did and later results said.
#[derive(Default)]
struct Later<'a> {
    calls: HashSet<(&'a str, &'a str)>,
    /// Files that were changed.
    changed: HashSet<&'a str>,
    /// Files read as a whole, by the tool that read them: another tool may have said something else of the same path.
    read: HashSet<(&'a str, &'a str)>,
    terms: Vec<Vec<u64>>,
    /// The newest result of each sampled term, by which sample it was.
    samples: HashMap<(u64, u64), usize>,
}

impl<'a> Later<'a> {
    fn supersedes(&self, call: &ToolCall, deed: &Deed) -> Option<Superseded> {
        if let Some((path, _)) = deed.read()
            && (self.changed.contains(path) || self.read.contains(&(call.name.as_str(), path)))
        {
            return Some(Superseded::File);
        }
        let is_repeated = self.calls.contains(&(call.name.as_str(), call.arguments.as_str()));
        is_repeated.then_some(Superseded::Repeated)
    }

    fn take_call(&mut self, call: &'a ToolCall, deed: &'a Deed, says: Says) {
        self.changed.extend(deed.changed());
        if says == Says::This {
            let whole = deed.read().filter(|(_, extent)| *extent == Extent::Whole);
            self.read.extend(whole.map(|(path, _)| (call.name.as_str(), path)));
            self.calls.insert((call.name.as_str(), call.arguments.as_str()));
        }
    }

    fn says_again(&self, terms: &[u64]) -> bool {
        let found = samples(terms).filter_map(|sample| self.samples.get(&sample));
        found.into_iter().any(|at| is_nearly_the_same(terms, &self.terms[*at]))
    }

    fn take_terms(&mut self, terms: Vec<u64>) {
        for sample in samples(&terms) {
            self.samples.entry(sample).or_insert(self.terms.len());
        }
        self.terms.push(terms);
    }
}

/// The least of the terms in a few orders: what two sets have in common, they likely have in common here.
fn samples(terms: &[u64]) -> impl Iterator<Item = (u64, u64)> {
    let is_told = terms.len() >= LEAST_TERMS;
    let samples = (0..N_SAMPLES).filter(move |_| is_told);
    samples.filter_map(|nth| {
        let order = |term: &u64| {
            (term ^ (nth + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)).wrapping_mul(0xD6E8_FEB8_6659_FD93)
        };
        terms.iter().copied().min_by_key(order).map(|term| (nth, term))
    })
}

/// Whether nine tenths of what either says is said by both; both are sorted.
fn is_nearly_the_same(one: &[u64], other: &[u64]) -> bool {
    let (mut at, mut shared) = (0, 0);
    for term in one {
        at += other[at..].partition_point(|known| known < term);
        shared += usize::from(other.get(at) == Some(term));
    }
    shared * 10 >= (one.len() + other.len() - shared) * 9
}

/// The distinct terms of a message, sorted.
fn distinct_terms(message: &ContextMessage) -> Vec<u64> {
    let mut terms: Vec<u64> = message.features().terms.iter().map(|term| term.hash()).collect();
    terms.sort_unstable();
    terms
}
