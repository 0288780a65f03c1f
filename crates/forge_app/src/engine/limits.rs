//! The limits that rejected prompts taught, shared by all turns of a run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forge_domain::{AgentId, ModelRef, Tokens};

use crate::learned_limit::{Evidence, LearnedLimit, LearnedLimits, Lesson};

/// The learned limits of models that accept less than their window.
#[derive(Default)]
pub(crate) struct Limits {
    learned: Mutex<LearnedLimits>,
    /// The models whose limits came with a checkpoint and were not reported yet.
    unreported: Mutex<BTreeSet<String>>,
    /// The times that a limit was lowered.
    n_lowered: AtomicUsize,
    /// Those of them that a checkpoint has.
    n_saved: AtomicUsize,
    /// The last count of each agent's model of which it is not known how much it reads.
    readings: Mutex<BTreeMap<(AgentId, String), Reading>>,
    /// The models whose server reported a figure that cannot be true: it may exaggerate others as well.
    distrusted: Mutex<BTreeSet<String>>,
}

/// The tokens that a server counted of a prompt, and of the smallest of those before it of which it counted
/// the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Reading {
    /// Our own count of that smallest prompt.
    sent: Tokens,
    read: Tokens,
    /// True if the server counted another figure before: some report the same of every prompt.
    varies: bool,
}

/// Servers that cut a prompt differ by no more than this.
const SAME_WITHIN: u64 = 2;
/// Every window is larger: a smaller figure does not count a whole prompt.
const LEAST_READ: Tokens = Tokens::new(1_000);
/// Servers make windows, and halves of windows, a multiple of this.
const WINDOW_UNIT: u64 = 256;

impl Reading {
    /// Takes in the next prompt. Returns whether the server cut it: it read as much as of one that is a
    /// quarter smaller, and that is the size of a window, or it reported other figures before.
    fn is_cut_next(&mut self, next: Self) -> bool {
        if self.read.as_u64().abs_diff(next.read.as_u64()) > SAME_WITHIN {
            *self = Self { varies: true, ..next };
            return false;
        }
        self.sent = self.sent.min(next.sent);
        let has_grown = self.sent.share(5, 4) <= next.sent;
        let is_of_window = (next.read.as_u64() + SAME_WITHIN) % WINDOW_UNIT <= 2 * SAME_WITHIN;
        let is_limit = is_of_window || (self.varies && self.read == next.read);
        has_grown && is_limit && next.read >= LEAST_READ && next.read.share(5, 4) <= next.sent
    }
}

impl Limits {
    /// Returns the most tokens to send to `model`; `None` if nothing was learned.
    pub(super) fn of(&self, model: &ModelRef) -> Option<Tokens> {
        self.limits().get(&model.to_string()).map(LearnedLimit::tokens)
    }

    /// Returns the limit of `model` once, if it came with a checkpoint.
    pub(super) fn take_restored(&self, model: &ModelRef) -> Option<LearnedLimit> {
        let model = model.to_string();
        let is_new = self.unreported.lock().unwrap_or_else(PoisonError::into_inner).remove(&model);
        self.limits().get(&model).copied().filter(|_| is_new)
    }

    /// Lowers the limit of `model` to `target` after `sent` tokens were too many.
    pub(crate) fn lower(&self, model: &ModelRef, sent: Tokens, target: Tokens, evidence: Evidence) {
        let model = model.to_string();
        let mut limits = self.limits();
        let limit = LearnedLimit::learn(limits.get(&model).copied(), sent, target, evidence);
        limits.insert(model, limit);
        self.n_lowered.fetch_add(1, Ordering::SeqCst);
    }

    /// Returns how often a limit was lowered.
    pub(super) fn n_lowered(&self) -> usize {
        self.n_lowered.load(Ordering::SeqCst)
    }

    /// Checks whether no checkpoint has a limit that was lowered. A rejection leaves no other trace.
    pub(super) fn is_any_unsaved(&self) -> bool {
        self.n_lowered() > self.n_saved.load(Ordering::SeqCst)
    }

    /// Notes that a checkpoint has the first `n_lowered` limits that were lowered.
    pub(super) fn note_saved(&self, n_lowered: usize) {
        self.n_saved.fetch_max(n_lowered, Ordering::SeqCst);
    }

    /// Counts a reply of `model` to `sent` tokens, which may raise its limit or end it. Returns whether the
    /// limit changed.
    pub(crate) fn count_reply(&self, model: &ModelRef, sent: Tokens) -> bool {
        let mut limits = self.limits();
        if limits.is_empty() {
            return false;
        }
        let model = model.to_string();
        match limits.get_mut(&model).map(|limit| limit.count_reply(sent)) {
            None | Some(Lesson::Nothing) => false,
            Some(Lesson::Raised) => true,
            Some(Lesson::Refuted) => {
                limits.remove(&model);
                true
            }
        }
    }

    /// Notes that the server of `model` counted `read` tokens of a prompt of `agent` which has `sent` by our
    /// count. Returns whether it silently cut it, as growing prompts of which it reads the same show.
    pub(crate) fn is_cut(&self, agent: &AgentId, model: &ModelRef, sent: Tokens, read: Tokens) -> bool {
        let mut readings = self.readings.lock().unwrap_or_else(PoisonError::into_inner);
        let next = Reading { sent, read, varies: false };
        readings.entry((agent.clone(), model.to_string())).or_insert(next).is_cut_next(next)
    }

    /// Notes that the server of `model` reported a figure that cannot be true.
    pub(crate) fn distrust(&self, model: &ModelRef) {
        self.distrusted.lock().unwrap_or_else(PoisonError::into_inner).insert(model.to_string());
    }

    /// Checks whether the server of `model` ever reported such a figure.
    pub(crate) fn is_distrusted(&self, model: &ModelRef) -> bool {
        self.distrusted.lock().unwrap_or_else(PoisonError::into_inner).contains(&model.to_string())
    }

    /// Returns all limits, for a checkpoint.
    pub(super) fn all(&self) -> LearnedLimits {
        self.limits().clone()
    }

    /// Adds the limits of a checkpoint.
    pub(super) fn extend(&self, limits: LearnedLimits) {
        let models = limits.keys().cloned();
        self.unreported.lock().unwrap_or_else(PoisonError::into_inner).extend(models);
        self.limits().extend(limits);
    }

    fn limits(&self) -> MutexGuard<'_, LearnedLimits> {
        self.learned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::{ModelId, ProviderId};
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn prompts_that_grow_and_are_read_alike_were_cut() {
        for (what, prompts, expected) in [
            ("as much as of a quarter less", vec![(4_300, 4_096), (5_000, 4_095), (5_400, 4_096)], "..c"),
            ("one that was resumed", vec![(80_000, 4_096), (100_000, 4_098)], ".c"),
            ("it is counted as it grows", vec![(4_000, 4_100), (6_000, 6_100), (9_000, 9_200)], "..."),
            ("the same prompt again", vec![(6_000, 4_096), (6_000, 4_096)], ".."),
            ("a smaller one after a compaction", vec![(6_000, 4_000), (3_000, 2_000), (5_000, 4_000)], "..."),
            ("a tokenizer that needs less", vec![(2_000, 4_096), (4_096, 4_096)], ".."),
            ("no count of a whole prompt", vec![(2_000, 12), (4_000, 12)], ".."),
            ("the same figure of every prompt", vec![(1_600, 1_500), (2_200, 1_500), (9_000, 1_500)], "..."),
            ("a window of another size", vec![(2_000, 1_900), (4_300, 3_000), (5_400, 3_000)], "..c"),
            ("new tokens alone, almost as many", vec![(2_000, 1_900), (4_300, 3_000), (5_400, 3_001)], "..."),
        ] {
            let limits = Limits::default();
            let agent = AgentId::new("one").unwrap();
            let model =
                ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new("m").unwrap() };
            let is_cut = |(sent, read): (u64, u64)| {
                limits.is_cut(&agent, &model, Tokens::new(sent), Tokens::new(read))
            };
            let actual: String = prompts.into_iter().map(|at| if is_cut(at) { 'c' } else { '.' }).collect();
            assert_eq!(actual, expected, "{what}");
        }
    }
}
