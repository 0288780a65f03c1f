//! The rules of one compaction, as every strategy gets them: each default filled in, each limit absolute.

use std::num::NonZeroUsize;

use super::pin::Pins;
use super::{Focus, Pin, SummaryTag, Trigger};
use crate::{ContextMessage, MessageId, ModelId, Percent, Size, TokenCounter, Tokens};

/// The rules of a compaction for one budget: when it is due, how far it goes, and what it spares.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionRules {
    /// The limits beyond which a compaction is due.
    pub trigger: SizeLimits,
    /// The limits within which its result should be.
    pub target: SizeLimits,
    /// True if the target in tokens is the default one: it then is above what must stay in any case.
    pub is_default_target: bool,
    /// Least saving: an attempt that saves less than this share of both messages and tokens is left out,
    /// unless it reaches the target.
    pub min_reduction: Percent,
    /// Share of the target for the user's words, which stay verbatim.
    pub user_share: Percent,
    /// Number of newest messages that stay verbatim, rounded outwards to whole groups.
    pub retention_window: usize,
    /// True if system messages in mid-conversation stay.
    pub preserve_system_messages: bool,
    /// Patterns of user text that stays verbatim.
    pub pin: Vec<Pin>,
    /// Messages that stay as pinned ones do, by their id.
    pub keep: Vec<MessageId>,
    /// Focus of records and summaries.
    pub focus: Option<Focus>,
    /// The rules of summaries.
    pub summary: SummaryRules,
}

/// Limits of a context's size. Messages and turns are unlimited if unset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SizeLimits {
    /// In tokens.
    pub tokens: Tokens,
    /// In messages.
    pub messages: Option<NonZeroUsize>,
    /// In turns.
    pub turns: Option<NonZeroUsize>,
}

/// The rules of summaries that a model writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SummaryRules {
    /// Model that writes them. Unset: nothing is summarized by a model.
    pub model: Option<ModelId>,
    /// Template of the request. Unset: the shipped one.
    pub prompt: Option<String>,
    /// Tag that encloses a summary.
    pub tag: SummaryTag,
    /// Most tokens of one summary.
    pub max_tokens: Tokens,
}

impl SizeLimits {
    /// Returns the first of these limits, taken as triggers, that a context of `size` exceeds: more tokens or
    /// messages than the limit, or as many turns.
    pub fn exceeded_by(&self, size: Size) -> Option<Trigger> {
        if size.tokens > self.tokens {
            Some(Trigger::Tokens)
        } else if self.messages.is_some_and(|limit| size.messages > limit.get()) {
            Some(Trigger::Messages)
        } else if self.turns.is_some_and(|limit| size.turns >= limit.get()) {
            Some(Trigger::Turns)
        } else {
            None
        }
    }

    /// Checks whether a context of `size` is within all of these limits, taken as targets.
    pub fn hold(&self, size: Size) -> bool {
        size.tokens <= self.tokens
            && self.messages.is_none_or(|limit| size.messages <= limit.get())
            && self.turns.is_none_or(|limit| size.turns <= limit.get())
    }
}

impl CompactionRules {
    /// Returns the first trigger that a context of `size` exceeds.
    pub fn should_compact(&self, size: Size) -> Option<Trigger> {
        self.trigger.exceeded_by(size)
    }

    /// Checks whether a context of `size` is done: no trigger is exceeded and every target holds.
    pub fn is_satisfied_by(&self, size: Size) -> bool {
        self.should_compact(size).is_none() && self.target.hold(size)
    }

    /// Returns the rules with these token limits.
    #[must_use]
    pub(crate) fn with_token_limits(mut self, trigger: Tokens, target: Tokens) -> Self {
        self.trigger.tokens = trigger;
        self.target.tokens = target;
        self
    }

    /// Returns all that is pinned.
    pub(crate) fn pins(&self) -> Pins {
        Pins::new(&self.pin, &self.keep)
    }

    /// Returns the tokens of `message` that must stay because they are pinned; zero if none are.
    pub fn pinned_tokens(&self, message: &ContextMessage, counter: &dyn TokenCounter) -> Tokens {
        let pins = self.pins();
        if !pins.hold(message) {
            return Tokens::ZERO;
        }
        pins.least(message, counter).map_or(message.tokens(), |least| least.tokens())
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_trigger_fires_at_its_own_boundary() {
        let size = |tokens: u64, messages: usize, turns: usize| Size {
            tokens: Tokens::new(tokens),
            messages,
            turns,
        };
        let none = SizeLimits { tokens: Tokens::MAX, messages: None, turns: None };
        let of_tokens = SizeLimits { tokens: Tokens::new(100), ..none };
        let of_messages = SizeLimits { messages: NonZeroUsize::new(10), ..none };
        let of_turns = SizeLimits { turns: NonZeroUsize::new(3), ..none };
        for (limits, size, expected) in [
            // None set: nothing ever triggers.
            (none, size(u64::MAX, usize::MAX, usize::MAX), None),
            // Tokens and messages: more than the threshold.
            (of_tokens, size(100, 9, 9), None),
            (of_tokens, size(101, 9, 9), Some(Trigger::Tokens)),
            (of_messages, size(9, 10, 9), None),
            (of_messages, size(9, 11, 9), Some(Trigger::Messages)),
            // Turns: as many as the threshold, or more.
            (of_turns, size(9, 9, 2), None),
            (of_turns, size(9, 9, 3), Some(Trigger::Turns)),
            (SizeLimits { turns: of_turns.turns, ..of_tokens }, size(99, 9, 4), Some(Trigger::Turns)),
        ] {
            assert_eq!(limits.exceeded_by(size), expected, "{limits:?} {size:?}");
        }
    }
}
