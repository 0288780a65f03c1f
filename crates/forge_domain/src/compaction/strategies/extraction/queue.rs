//! Lines or names, the most worth first.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// A queue that returns the most valuable items first. Only the best of many are in the heap: the rest is
/// rarely needed.
pub(super) struct Queue {
    heap: BinaryHeap<Ranked>,
    rest: Vec<Ranked>,
    /// All of the rest is worth less.
    bound: Option<Ranked>,
    /// The number of items that enter the heap next.
    n_next: usize,
}

/// The number of items in the heap at first.
const AT_FIRST: usize = 1_024;

impl Queue {
    pub(super) fn of(rest: Vec<Ranked>) -> Self {
        Self { heap: BinaryHeap::new(), rest, bound: None, n_next: AT_FIRST }
    }

    /// Returns the most valuable item without removing it.
    pub(super) fn best(&mut self) -> Option<&Ranked> {
        while !self.rest.is_empty() && (self.heap.is_empty() || self.heap.peek() < self.bound.as_ref()) {
            let from = self.rest.len().saturating_sub(self.n_next);
            self.bound = (from > 0).then(|| *self.rest.select_nth_unstable(from).1);
            self.heap.extend(self.rest.drain(from..));
            self.n_next *= 2;
        }
        self.heap.peek()
    }

    pub(super) fn pop(&mut self) -> Option<Ranked> {
        self.best()?;
        self.heap.pop()
    }

    pub(super) fn push(&mut self, ranked: Ranked) {
        self.heap.push(ranked);
    }
}

/// A line or a name by its gain; ties always have the same winner, so that the order is the same in every
/// run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Ranked {
    pub(super) gain: f64,
    pub(super) index: u32,
    /// Known here because many are skipped for it.
    pub(super) n_bytes: u32,
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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::prelude::*;

    use super::*;

    fn rank(index: usize, gain: u16) -> Ranked {
        Ranked { gain: f64::from(gain), index: index as u32, n_bytes: 0 }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Holds also if items are put back with less value, and if there are more than the heap first takes.
        #[test]
        fn what_comes_out_is_what_a_heap_of_all_gives(
            gains in prop::collection::vec(0..400_u16, 0..3 * AT_FIRST),
            less in prop::collection::vec(prop::option::of(0..400_u16), 0..200),
        ) {
            let all: Vec<Ranked> = gains.iter().enumerate().map(|(index, gain)| rank(index, *gain)).collect();
            let (mut queue, mut heap) = (Queue::of(all.clone()), BinaryHeap::from(all));
            let mut less = less.into_iter();
            loop {
                assert_eq!(queue.best(), heap.peek());
                let (actual, expected) = (queue.pop(), heap.pop());
                assert_eq!(actual, expected);
                let Some(top) = actual else { break };
                if let Some(gain) = less.next().flatten().filter(|gain| f64::from(*gain) < top.gain) {
                    let again = Ranked { gain: f64::from(gain), ..top };
                    queue.push(again);
                    heap.push(again);
                }
            }
        }
    }
}
