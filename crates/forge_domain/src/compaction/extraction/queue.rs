//! Candidates in the order of their gains.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A candidate by its gain; ties go to the later one, so that the order is the same in every run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranked {
    pub(super) gain: f64,
    pub(super) index: u32,
    /// Known here because most are skipped for it.
    pub(super) n_bytes: u32,
}

/// Candidates, the best first. In the end all are asked for, as there is nearly always some room left that none fills:
/// to sort them once is cheaper than to keep them in a heap.
pub(super) struct Queue {
    /// The best last.
    sorted: Vec<Ranked>,
    /// Those that came back.
    again: BinaryHeap<Ranked>,
}

impl Queue {
    pub(super) fn of(mut sorted: Vec<Ranked>) -> Self {
        sorted.sort_unstable();
        Self { sorted, again: BinaryHeap::new() }
    }

    pub(super) fn peek(&self) -> Option<&Ranked> {
        self.sorted.last().max(self.again.peek())
    }

    pub(super) fn pop(&mut self) -> Option<Ranked> {
        if self.again.peek() > self.sorted.last() { self.again.pop() } else { self.sorted.pop() }
    }

    pub(super) fn push(&mut self, ranked: Ranked) {
        self.again.push(ranked);
    }
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
