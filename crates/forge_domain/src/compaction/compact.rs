//! The `compact:` block: when a context is compacted, how far, and by which strategies.

use std::num::NonZeroUsize;

use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ClearToolResults, CompactionRules, CompactionSettings, Extraction, Focus, Pin, Rung, Selection,
    SizeLimits, SlidingWindow, Summarization, SummaryRules, SummaryTag, Trigger, Truncation,
};
use crate::{Budget, ModelId, Percent, Size, TokenLimit, Tokens};

/// The compaction settings of an agent: when, how far, and by which strategies. Unset differs from its
/// default; [`Self::resolve`] fills the defaults in for one budget.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema, Setters)]
#[serde(deny_unknown_fields)]
#[setters(strip_option, into)]
pub struct Compact {
    /// Trigger: the context has more tokens than this. Default 80% of the room.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "80%", "examples" = ["80%", 6000]))]
    pub token_threshold: Option<TokenLimit>,
    /// Trigger: the context has more messages than this. No default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [100]))]
    pub message_threshold: Option<NonZeroUsize>,
    /// Trigger: the context has this many turns or more. No default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [40]))]
    pub turn_threshold: Option<NonZeroUsize>,
    /// Target: at most this many tokens remain, and about as many if there is something worth keeping.
    /// Default a quarter of `token_threshold`, or 4000 tokens if that is more, and at most 5/8 of it; or,
    /// where what must stay takes much of that, a fifth of the rest of `token_threshold` beside it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["50%", 4000]))]
    pub max_tokens: Option<TokenLimit>,
    /// Target: at most this many messages remain. Default half of `message_threshold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [50]))]
    pub max_messages: Option<NonZeroUsize>,
    /// Target: at most this many turns remain. Default half of `turn_threshold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [20]))]
    pub max_turns: Option<NonZeroUsize>,
    /// Share of the target for user messages, which stay verbatim, the newest first; of a longer one head and
    /// tail, and what does not fit is in the record. Default 25%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "25%", "examples" = ["25%"]))]
    pub user_share: Option<Percent>,
    /// Number of newest messages that stay verbatim, rounded outwards to whole groups. Default 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 6, "examples" = [6]))]
    pub retention_window: Option<usize>,
    /// True if system messages in mid-conversation stay. The leading ones always stay. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true, "examples" = [true]))]
    pub preserve_system_messages: Option<bool>,
    /// Strategies to apply, in order, each to what those before it reached. Default: `clear_tool_results`,
    /// with a `model` `summarization`, `extraction`, `sliding_window`. `truncation` always comes last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["extraction", "sliding_window"]]))]
    pub strategies: Option<Vec<Rung>>,
    /// Method of choosing among the strategies. Default `ladder`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ladder", "examples" = ["ladder"]))]
    pub selection: Option<Selection>,
    /// Least saving: an attempt that saves less than this share of both messages and tokens is left out,
    /// unless it reaches the target. Default 20%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "20%", "examples" = ["20%"]))]
    pub min_reduction: Option<Percent>,
    /// Model that writes summaries: `provider:model`, a name under `models`, or `agent` for the agent's own.
    /// Unset: nothing is summarized by a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["gpt-4o"]))]
    pub model: Option<ModelId>,
    /// Template of the request for a summary. Default: the shipped one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["Sum up: {{#each messages}}{{text}} {{/each}}"]))]
    pub prompt: Option<String>,
    /// Tag that encloses a summary. Default `forge_context_summary`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "forge_context_summary", "examples" = ["forge_context_summary"]))]
    pub summary_tag: Option<SummaryTag>,
    /// Most tokens of one summary. Default 2000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 2000, "examples" = [2000]))]
    pub summary_max_tokens: Option<NonZeroUsize>,
    /// Focus of records and summaries: what they should preserve, in words. For the strategies
    /// `summarization` and `extraction`. Default unset.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = ["security findings"]))]
    pub focus: Option<Focus>,
    /// Patterns of user text that stays verbatim: a short message as a whole, of a longer one the lines that
    /// match. Default none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["(?i)never deploy"]]))]
    pub pin: Option<Vec<Pin>>,
    /// False to never compact; a context over the window is then refused before anything is sent. Default
    /// true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true, "examples" = [true]))]
    pub auto_compact: Option<bool>,
    /// True if a summary that the next call is likely to need is requested while tools run, and discarded if
    /// it does not fit. Default true; it needs a `model`, and has no effect with a `pre_compact` hook.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true, "examples" = [true]))]
    pub background: Option<bool>,
}

/// A target that is not below its trigger: the context would be compacted at every call.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{target} ({target_value}) must be below {trigger} ({trigger_value}): the trigger sets when to compact, \
     the target how far"
)]
pub struct CompactError {
    /// Key of the target.
    pub target: &'static str,
    /// Its effective value, and what a percentage means in tokens.
    pub target_value: String,
    /// Key of the trigger.
    pub trigger: &'static str,
    /// Its effective value, and what a percentage means in tokens.
    pub trigger_value: String,
}

impl Compact {
    /// The word for the agent's own model as [`Self::model`]. [`crate::Agent::summarize_by_own_model`] puts
    /// that model in its place, when a workflow is loaded or an orchestrator is built.
    pub const OWN_MODEL: &str = "agent";
    const TOKEN_THRESHOLD_PERCENT: u64 = 80;
    const RETENTION_WINDOW: usize = 6;
    const MIN_REDUCTION: Percent = match Percent::new(20) {
        Some(percent) => percent,
        None => panic!("20 is a percentage"),
    };
    const USER_SHARE: Percent = match Percent::new(25) {
        Some(percent) => percent,
        None => panic!("25 is a percentage"),
    };
    const SUMMARY_MAX_TOKENS: Tokens = Tokens::new(2_000);

    /// Returns the settings for one budget: every default filled in, every limit absolute.
    ///
    /// # Errors
    /// [`CompactError`] if a target is not below its trigger.
    pub fn resolve(&self, budget: &Budget) -> Result<CompactionSettings, CompactError> {
        let (trigger, target) = self.token_limits(budget.room())?;
        let max_messages =
            target_count(("max_messages", self.max_messages), ("message_threshold", self.message_threshold))?;
        let max_turns = target_count(("max_turns", self.max_turns), ("turn_threshold", self.turn_threshold))?;
        let rules = CompactionRules {
            trigger: SizeLimits {
                tokens: trigger,
                messages: self.message_threshold,
                turns: self.turn_threshold,
            },
            target: SizeLimits { tokens: target, messages: max_messages, turns: max_turns },
            is_default_target: self.max_tokens.is_none(),
            min_reduction: self.min_reduction.unwrap_or(Self::MIN_REDUCTION),
            user_share: self.user_share.unwrap_or(Self::USER_SHARE),
            retention_window: self.retention_window.unwrap_or(Self::RETENTION_WINDOW),
            preserve_system_messages: self.preserve_system_messages.unwrap_or(true),
            pin: self.pin.clone().unwrap_or_default(),
            keep: Vec::new(),
            focus: self.focus.clone(),
            summary: SummaryRules {
                model: self.model.clone(),
                prompt: self.prompt.clone(),
                tag: self.summary_tag.clone().unwrap_or_default(),
                max_tokens: self
                    .summary_max_tokens
                    .map_or(Self::SUMMARY_MAX_TOKENS, |tokens| Tokens::new(tokens.get() as u64)),
            },
        };
        let mut strategies = self.ladder();
        if !strategies.iter().any(|rung| matches!(rung, Rung::Truncation(_))) {
            strategies.push(Rung::Truncation(Truncation::default()));
        }
        Ok(CompactionSettings {
            rules,
            strategies,
            selection: self.selection.unwrap_or_default(),
            auto_compact: self.auto_compact.unwrap_or(true),
            background: self.background.unwrap_or(true),
        })
    }

    /// Returns the trigger and the target in tokens.
    fn token_limits(&self, room: Tokens) -> Result<(Tokens, Tokens), CompactError> {
        let asked = self.token_threshold.map(|limit| limit.within(room));
        let trigger = asked.unwrap_or_else(|| room.share(Self::TOKEN_THRESHOLD_PERCENT, 100));
        let target = self.max_tokens.map_or_else(|| default_target(trigger), |limit| limit.within(room));
        let both_asked = asked.is_some() && self.max_tokens.is_some();
        if both_asked || matches!(self.max_tokens, Some(TokenLimit::Percent(_))) {
            let in_words = |limit: Option<TokenLimit>, tokens: Tokens| match limit {
                Some(TokenLimit::Percent(percent)) => format!("{percent}, {tokens} tokens"),
                Some(TokenLimit::Tokens(_)) => tokens.to_string(),
                None => format!("{}%, {tokens} tokens", Self::TOKEN_THRESHOLD_PERCENT),
            };
            if target >= trigger {
                return Err(CompactError {
                    target: "max_tokens",
                    target_value: in_words(self.max_tokens, target),
                    trigger: "token_threshold",
                    trigger_value: in_words(self.token_threshold, trigger),
                });
            }
        }
        // A target set alone is final and the trigger makes way; none exceeds the room, where the window
        // triggers in any case.
        let trigger = if asked.is_none() && target >= trigger { room } else { trigger.min(room) };
        // A target set alone may also be the whole room: its author wants just that.
        let fits = target < trigger || (asked.is_none() && self.max_tokens.is_some() && target == trigger);
        Ok((trigger, if fits { target } else { default_target(trigger) }))
    }

    /// Returns the first trigger of this block that a context of `size` exceeds. A percentage means nothing
    /// before it is resolved, and triggers nothing.
    pub fn should_compact(&self, size: Size) -> Option<Trigger> {
        let tokens = match self.token_threshold {
            Some(TokenLimit::Tokens(threshold)) => threshold,
            Some(TokenLimit::Percent(_)) | None => Tokens::MAX,
        };
        let limits = SizeLimits { tokens, messages: self.message_threshold, turns: self.turn_threshold };
        limits.exceeded_by(size)
    }

    /// Checks whether one of its strategies heeds a focus.
    pub fn heeds_focus(&self) -> bool {
        self.ladder().iter().any(|rung| rung.heeds_focus(self.model.is_some()))
    }

    /// Returns the strategies to try, in order: the named ones, else the default ones.
    pub fn ladder(&self) -> Vec<Rung> {
        self.strategies.clone().unwrap_or_else(|| self.default_ladder())
    }

    fn default_ladder(&self) -> Vec<Rung> {
        let clear = Rung::ClearToolResults(ClearToolResults::default());
        let summarize = self.model.is_some().then(|| Rung::Summarization(Summarization::default()));
        let extract = Rung::Extraction(Extraction::default());
        let slide = Rung::SlidingWindow(SlidingWindow::default());
        [clear].into_iter().chain(summarize).chain([extract, slide]).collect()
    }
}

/// Fewer tokens say little about long work, so that little more than what was said last would remain.
const LEAST_TARGET: Tokens = Tokens::new(4_000);

/// Returns the target for a trigger if none is set: a quarter of it, which the curve of cost and retention
/// suggests (`plans/extraction-measured.md`), but no less than is needed to continue.
fn default_target(trigger: Tokens) -> Tokens {
    trigger.share(1, 4).max(LEAST_TARGET).min(most_default_target(trigger))
}

/// Returns the most that the target for a trigger is if none is set.
pub(super) fn most_default_target(trigger: Tokens) -> Tokens {
    trigger.share(5, 8)
}

type Count = (&'static str, Option<NonZeroUsize>);

/// Returns the target for a count: half of the trigger, at least 1, if it is unset.
fn target_count(
    (target_key, target): Count,
    (trigger_key, trigger): Count,
) -> Result<Option<NonZeroUsize>, CompactError> {
    if let (Some(target), Some(trigger)) = (target, trigger)
        && target >= trigger
    {
        return Err(CompactError {
            target: target_key,
            target_value: target.to_string(),
            trigger: trigger_key,
            trigger_value: trigger.to_string(),
        });
    }
    let half = trigger.map(|trigger| NonZeroUsize::new(trigger.get() / 2).unwrap_or(NonZeroUsize::MIN));
    Ok(target.or(half))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::budget;
    use super::*;

    fn compact(yaml: &str) -> Compact {
        serde_saphyr::from_str(yaml).unwrap()
    }

    #[test]
    fn a_trigger_fires_at_its_own_boundary() {
        let size = |tokens: u64, messages: usize, turns: usize| Size {
            tokens: Tokens::new(tokens),
            messages,
            turns,
        };
        for (yaml, size, expected) in [
            // None set: nothing ever triggers.
            ("{}", size(u64::MAX, usize::MAX, usize::MAX), None),
            // Tokens and messages: more than the threshold.
            ("{ token_threshold: 100 }", size(100, 9, 9), None),
            ("{ token_threshold: 100 }", size(101, 9, 9), Some(Trigger::Tokens)),
            ("{ message_threshold: 10 }", size(9, 10, 9), None),
            ("{ message_threshold: 10 }", size(9, 11, 9), Some(Trigger::Messages)),
            // Turns: as many as the threshold, or more.
            ("{ turn_threshold: 3 }", size(9, 9, 2), None),
            ("{ turn_threshold: 3 }", size(9, 9, 3), Some(Trigger::Turns)),
            ("{ token_threshold: 100, turn_threshold: 3 }", size(99, 9, 4), Some(Trigger::Turns)),
            // A percentage means nothing without a room.
            ("{ token_threshold: 50% }", size(u64::MAX, 9, 9), None),
        ] {
            assert_eq!(compact(yaml).should_compact(size), expected, "{yaml} {size:?}");
        }
    }

    #[test]
    fn the_effective_limits_follow_from_the_room() {
        // A room of 1,000 besides what every request costs.
        for (yaml, expected) in [
            ("{}", (802, 501, None, None)),
            ("{ token_threshold: 600 }", (600, 375, None, None)),
            ("{ token_threshold: 60% }", (601, 375, None, None)),
            ("{ token_threshold: 600, max_tokens: 400 }", (600, 400, None, None)),
            ("{ max_tokens: 400 }", (802, 400, None, None)),
            ("{ max_tokens: 900 }", (1003, 900, None, None)),
            ("{ token_threshold: 5000, max_tokens: 300 }", (1003, 300, None, None)),
            ("{ token_threshold: 5000, max_tokens: 4000 }", (1003, 626, None, None)),
            ("{ message_threshold: 30, turn_threshold: 10 }", (802, 501, Some(15), Some(5))),
            ("{ message_threshold: 30, max_messages: 20, max_turns: 3 }", (802, 501, Some(20), Some(3))),
            ("{ turn_threshold: 1 }", (802, 501, None, Some(1))),
        ] {
            let resolved = compact(yaml).resolve(&budget(1_000)).unwrap();
            let CompactionRules { trigger, target, .. } = resolved.rules;
            let count = |count: Option<NonZeroUsize>| count.map(NonZeroUsize::get);
            let actual = (
                trigger.tokens.as_u64(),
                target.tokens.as_u64(),
                count(target.messages),
                count(target.turns),
            );
            assert_eq!(actual, expected, "{yaml}");
        }
    }

    #[test]
    fn a_target_that_is_not_below_its_trigger_is_refused() {
        for (yaml, expected) in [
            (
                "{ token_threshold: 400, max_tokens: 400 }",
                "max_tokens (400) must be below token_threshold (400)",
            ),
            (
                "{ token_threshold: 50%, max_tokens: 60% }",
                "max_tokens (60%, 601 tokens) must be below token_threshold (50%, 501 tokens)",
            ),
            (
                "{ token_threshold: 400, max_tokens: 50% }",
                "max_tokens (50%, 501 tokens) must be below token_threshold (400)",
            ),
            (
                "{ max_tokens: 90% }",
                "max_tokens (90%, 902 tokens) must be below token_threshold (80%, 802 tokens)",
            ),
            (
                "{ message_threshold: 5, max_messages: 5 }",
                "max_messages (5) must be below message_threshold (5)",
            ),
            ("{ turn_threshold: 5, max_turns: 9 }", "max_turns (9) must be below turn_threshold (5)"),
        ] {
            let actual = compact(yaml).resolve(&budget(1_000)).unwrap_err().to_string();
            assert!(actual.starts_with(expected), "{yaml}: {actual}");
        }
    }

    #[test]
    fn the_default_ladder_depends_on_the_model_and_ends_with_truncation() {
        for (yaml, expected) in [
            ("{}", vec!["clear_tool_results", "extraction", "sliding_window", "truncation"]),
            (
                "{ model: m }",
                vec!["clear_tool_results", "summarization", "extraction", "sliding_window", "truncation"],
            ),
            ("{ strategies: [summarization] }", vec!["summarization", "truncation"]),
            (
                "{ strategies: [truncation, sliding_window: { keep_first: 2 }] }",
                vec!["truncation", "sliding_window"],
            ),
        ] {
            let resolved = compact(yaml).resolve(&budget(1_000)).unwrap();
            let actual: Vec<&str> = resolved.strategies.iter().map(Rung::id).collect();
            assert_eq!(actual, expected, "{yaml}");
        }
    }

    #[test]
    fn what_has_no_effect_is_refused() {
        for (yaml, expected) in [
            ("{ focus: ' ' }", "a focus must not be empty"),
            ("{ pin: ['(x'] }", "invalid pattern '(x': unclosed group"),
            ("{ keep: [1] }", "keep"),
            ("{ selection: worst }", "worst"),
            ("{ strategies: [clear_tool_results: { clear: 3 }] }", "clear"),
            ("{ strategies: [sliding_window: { keep: 3 }] }", "keep"),
            ("{ summary_tag: 'a b' }", "invalid tag name"),
            ("{ message_threshold: 0 }", "nonzero"),
            ("{ min_reduction: 0.2 }", "whole number from 1% to 100%"),
            ("{ retention_window: -1 }", "retention_window: -1"),
        ] {
            let refused = serde_saphyr::from_str::<Compact>(yaml).unwrap_err().to_string();
            assert!(refused.contains(expected), "{yaml}: {refused}");
        }
    }
}
