//! The facts about the words in a message that only the other messages tell, whatever leaves.

use std::collections::HashSet;
use std::ops::Range;

use super::drafts::drafts;
use super::final_words::FinalWords;
use crate::{Context, ContextMessage};

/// The messages whose words are not what they seem to be by themselves, by their positions.
pub(super) struct Speech {
    /// The messages that agents which were given a task sent before their last words.
    drafts: HashSet<usize>,
    final_words: FinalWords,
}

impl Speech {
    /// Reads `context`, whose messages were `sources` at first.
    pub(super) fn of(context: &Context, sources: &[ContextMessage]) -> Self {
        Self { drafts: drafts(context, sources), final_words: FinalWords::of(context, sources) }
    }

    /// Checks whether the message at `position` is a draft of an agent that was given a task.
    pub(super) fn is_draft(&self, position: usize) -> bool {
        self.drafts.contains(&position)
    }

    /// Returns the part of the text of the message at `position` that the agent says to the user in a call.
    pub(super) fn final_words(&self, position: usize) -> Option<&Range<usize>> {
        self.final_words.at(position)
    }

    /// Checks whether the result at `position` tells no more than the agent says in its call.
    pub(super) fn tells_result(&self, position: usize) -> bool {
        self.final_words.tell(position)
    }
}
