//! The words of the user to a run in mid-work.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

/// The user's words for the agent at work, by their numbers: each is heard once, just before the next call to
/// the model, even if it is said again because a process was lost.
#[derive(Debug, Default)]
pub struct Words(Mutex<BTreeMap<u64, String>>);

impl Words {
    /// Says `text`. The number, from one on, tells it apart from all other words of the run.
    pub fn say(&self, number: u64, text: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(number, text);
    }

    /// Takes all of them.
    pub(crate) fn take(&self) -> BTreeMap<u64, String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
