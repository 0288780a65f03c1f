//! A `compact:` block for one budget: the rules for the strategies, and which strategies are tried how.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CompactionRules, Rung};
use crate::{Budget, Scale, Tokens};

/// A [`crate::Compact`] block for one budget, every default filled in.
#[derive(Clone, Debug, PartialEq)]
pub struct CompactionSettings {
    /// The rules that every strategy gets.
    pub rules: CompactionRules,
    /// The strategies, in order.
    pub strategies: Vec<Rung>,
    /// Method of choosing among them.
    pub selection: Selection,
    /// False to never compact.
    pub auto_compact: bool,
    /// True if a summary that the next call is likely to need is requested while tools run.
    pub background: bool,
}

/// The method of choosing among the strategies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// The strategies one after the other, each continuing from what the ones before it reached, until the
    /// target is reached.
    #[default]
    Ladder,
    /// A ladder from each of the strategies on, all at once: of those that reach the target, the one that
    /// loses least wins.
    Best,
}

impl CompactionSettings {
    /// Returns the settings, made for `budget`, for a provider that counts by `scale`: its limits in tokens
    /// are what the provider counts. None exceeds the room, which `budget` has by our counts. A surplus,
    /// which no longer counts after a compaction, moves the trigger alone, and to the target at most.
    #[must_use]
    pub fn measured(&self, scale: Scale, budget: &Budget) -> Self {
        let (tools, room) = (budget.tools_tokens(), budget.measured(scale).room());
        let ours = |scale: Scale, theirs: Tokens| (scale.ours(theirs + tools) - tools).min(room);
        let target = ours(scale.lasting(), self.rules.target.tokens);
        let trigger = ours(scale, self.rules.trigger.tokens).max(target);
        Self { rules: self.rules.clone().with_token_limits(trigger, target), ..self.clone() }
    }

    /// Checks whether summaries are requested ahead of the compactions that need them.
    pub fn prepares_in_background(&self) -> bool {
        self.background && self.rules.summary.model.is_some() && self.auto_compact
    }
}
