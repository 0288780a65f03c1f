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
    /// are what the provider counts. None exceeds the room, which `budget` has by our counts. If the provider
    /// counts less than we do, only the trigger moves up, to the room at most: a target that moved as well
    /// would reach it there, and each call would compact. A surplus, which no longer counts after a
    /// compaction, only moves the trigger, and to the target at most.
    #[must_use]
    pub fn measured(&self, scale: Scale, budget: &Budget) -> Self {
        let (tools, room) = (budget.tools_tokens(), budget.measured(scale).room());
        let ours = |scale: Scale, theirs: Tokens| (scale.ours(theirs + tools) - tools).min(room);
        let target = ours(scale.lasting(), self.rules.target.tokens).min(self.rules.target.tokens);
        let trigger = ours(scale, self.rules.trigger.tokens).max(target);
        Self { rules: self.rules.clone().with_token_limits(trigger, target), ..self.clone() }
    }

    /// Checks whether summaries are requested ahead of the compactions that need them.
    pub fn prepares_in_background(&self) -> bool {
        self.background && self.rules.summary.model.is_some() && self.auto_compact
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::{budget, settings};
    use crate::{Measure, Tokens, Usage};

    #[test]
    fn the_limits_of_a_provider_that_counts_otherwise_stay_apart() {
        // A room of 1,000 besides what every request costs; the provider's count for 1,000 of ours.
        for (yaml, theirs, expected) in [
            ("{}", 1_000, (802, 501)),
            ("{}", 1_120, (716, 447)),
            ("{}", 870, (921, 501)),
            // The trigger ends at the room, and the target stays where it is.
            ("{}", 780, (1_003, 501)),
            ("{}", 710, (1_003, 501)),
            ("{}", 630, (1_003, 501)),
            ("{}", 590, (1_003, 501)),
            ("{}", 540, (1_003, 501)),
            // Not believed.
            ("{}", 430, (802, 501)),
            // A target that is set is never exceeded, by either count.
            ("{ max_tokens: 400 }", 1_120, (716, 357)),
            ("{ max_tokens: 400 }", 870, (921, 400)),
            ("{ max_tokens: 400 }", 670, (1_003, 400)),
            ("{ max_tokens: 400 }", 540, (1_003, 400)),
            ("{ max_tokens: 900 }", 540, (1_003, 900)),
            ("{ token_threshold: 600, max_tokens: 590 }", 870, (689, 590)),
            ("{ token_threshold: 5000, max_tokens: 300 }", 540, (1_003, 300)),
        ] {
            let (budget, configured) = (budget(1_000), settings(yaml, 1_000));
            let model = &budget.options().model;
            let usage = Usage { prompt_tokens: Tokens::new(theirs * 10), ..Usage::default() };
            let mut measure = Measure::default();
            measure.report(model, Tokens::new(10_000), usage, 0);
            let rules = configured.measured(measure.scale(model, 0), &budget).rules;
            let (trigger, target) = (rules.trigger.tokens, rules.target.tokens);
            assert_eq!((trigger.as_u64(), target.as_u64()), expected, "{yaml} {theirs}");
            if theirs <= 1_000 {
                let distance = configured.rules.trigger.tokens - configured.rules.target.tokens;
                assert!(trigger - target >= distance, "{yaml} {theirs}: {trigger} {target}");
            }
        }
    }
}
