//! The state of a run in its workflow: the input of one history, and what it hands to the next.
//!
//! It is written into Temporal's history. A field more is safe if it has a default; renaming one is not,
//! since the histories of open runs have the old name.

use std::time::Duration;

use forge_app::{OutcomeEnd, RunDetails, RunState, SliceOrder, SliceOutcome, Word};
use forge_domain::{CheckpointKey, Dollars, FencingToken, RunId};
use serde::{Deserialize, Serialize};

/// The heartbeat timeout unless a run's input names another.
pub(crate) const HEARTBEAT: Duration = Duration::from_secs(5);
/// The slices after which a history is closed, unless a run's input names another number.
pub(crate) const SLICES_PER_HISTORY: u32 = 500;

/// The state of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunInput {
    pub(crate) run: RunId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint: Option<CheckpointKey>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) token: Option<FencingToken>,
    #[serde(default)]
    pub(crate) calls: usize,
    #[serde(default)]
    pub(crate) cost: Dollars,
    /// The words that no slice has heard yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) words: Vec<Word>,
    /// The pieces of advice until now, by which each has its number.
    #[serde(default)]
    pub(crate) n_steers: u64,
    /// The heartbeat timeout in milliseconds. It is part of the input because a workflow must decide the same
    /// again when its history is replayed, so that it may not ask how its worker is configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) heartbeat_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) slices_per_history: Option<u32>,
}

impl RunInput {
    /// Returns the input of a new run.
    pub(crate) fn new(run: RunId) -> Self {
        Self {
            run,
            checkpoint: None,
            token: None,
            calls: 0,
            cost: Dollars::ZERO,
            words: Vec::new(),
            n_steers: 0,
            heartbeat_ms: None,
            slices_per_history: None,
        }
    }

    /// Takes the next slice, which hears all words until now.
    pub(crate) fn next_order(&mut self) -> SliceOrder {
        SliceOrder {
            run: self.run.clone(),
            checkpoint: self.checkpoint,
            token: self.token,
            words: std::mem::take(&mut self.words),
        }
    }

    /// Takes in the outcome of a slice.
    pub(crate) fn absorb(&mut self, outcome: &SliceOutcome) {
        self.checkpoint = outcome.checkpoint.or(self.checkpoint);
        self.token = outcome.token.or(self.token);
        self.calls = outcome.calls;
        self.cost = outcome.cost;
    }

    /// Takes back the words of a slice that has heard none.
    pub(crate) fn give_back(&mut self, words: Vec<Word>) {
        self.words.splice(0..0, words);
    }

    /// Adds a piece of advice.
    pub(crate) fn steer(&mut self, text: String) {
        self.n_steers += 1;
        self.words.push(Word::Steer { number: self.n_steers, text });
    }

    /// Returns the details of the run.
    pub(crate) fn details(&self) -> RunDetails {
        RunDetails {
            checkpoint: self.checkpoint,
            calls: self.calls,
            cost: self.cost,
            ..RunDetails::default()
        }
    }
}

/// The answer to the query `where`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Place {
    pub(crate) state: RunState,
    pub(crate) details: RunDetails,
}

/// The result of a workflow that ended, which is also in the details of its failure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RunResult {
    /// The reason.
    pub(crate) why: String,
    pub(crate) details: RunDetails,
}

/// Returns the names that a run waits for after a slice; none if it does not wait.
pub(crate) fn waits_for(end: &OutcomeEnd) -> Vec<String> {
    match end {
        OutcomeEnd::Waiting(names) => names.clone(),
        OutcomeEnd::Paused | OutcomeEnd::Done(_) => Vec::new(),
    }
}
