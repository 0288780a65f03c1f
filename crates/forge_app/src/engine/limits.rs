//! The limits that rejected prompts taught, shared by all turns of a run.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use forge_domain::{ModelRef, Tokens};

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
