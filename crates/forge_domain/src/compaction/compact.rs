//! The `compact:` block: when a context is compacted, how far, and by which strategies.

use std::fmt;
use std::num::NonZeroUsize;

use derive_setters::Setters;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClearToolResults, Extraction, Focus, Pin, Rung, SlidingWindow, Summarization, Truncation};
use crate::{Budget, MessageId, ModelId, Percent, Scale, Size, TokenLimit, Tokens};

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
    /// Target: at most this many tokens remain. Default 5/8 of `token_threshold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "50%", "examples" = ["50%", 4000]))]
    pub max_tokens: Option<TokenLimit>,
    /// Target: at most this many messages remain. Default half of `message_threshold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [50]))]
    pub max_messages: Option<NonZeroUsize>,
    /// Target: at most this many turns remain. Default half of `turn_threshold`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [20]))]
    pub max_turns: Option<NonZeroUsize>,
    /// Number of newest messages that stay verbatim, rounded outwards to whole groups. Default 6.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 6, "examples" = [6]))]
    pub retention_window: Option<usize>,
    /// True if system messages in mid-conversation stay. The leading ones always stay. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true, "examples" = [true]))]
    pub preserve_system_messages: Option<bool>,
    /// Strategies to try, in order. Default: with a `model`, `clear_tool_results`, `summarization`,
    /// `sliding_window`; without, `clear_tool_results: { only_superseded: true }`, `extraction`,
    /// `sliding_window`. `truncation` always comes last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [["extraction", "sliding_window"]]))]
    pub strategies: Option<Vec<Rung>>,
    /// Method of choosing one of the strategies. Default `ladder`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "ladder", "examples" = ["ladder"]))]
    pub selection: Option<Selection>,
    /// Share of messages or of tokens below which an attempt is not worth its cost. Default 20%.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = "20%", "examples" = ["20%"]))]
    pub min_reduction: Option<Percent>,
    /// Model that writes summaries. Unset: nothing is summarized by a model.
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
    /// Messages that stay as pinned ones do, by their id. No key of the block: a hook asks for it, for one
    /// compaction.
    #[serde(skip)]
    #[setters(skip)]
    pub keep: Vec<MessageId>,
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

/// The method of choosing one of the strategies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Selection {
    /// The first strategy, in order, that reaches the target.
    #[default]
    Ladder,
    /// All run at once, and of those that reach the target the one that loses least wins.
    Best,
    /// As `ladder`, in an order that depends on the context and on the strategies' results in this run.
    Adaptive,
}

/// The name of an XML-like tag: a letter, then letters, digits, `_` and `-`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = "^[A-Za-z][A-Za-z0-9_-]*$"))]
pub struct SummaryTag(String);

/// A text that cannot name a tag.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid tag name '{0}' (expected a letter, then letters, digits, `_` and `-`)")]
pub struct SummaryTagError(String);

impl SummaryTag {
    /// Returns the tag's name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Default for SummaryTag {
    fn default() -> Self {
        Self("forge_context_summary".to_owned())
    }
}

impl TryFrom<String> for SummaryTag {
    type Error = SummaryTagError;
    fn try_from(name: String) -> Result<Self, Self::Error> {
        let is_name = name.starts_with(|first: char| first.is_ascii_alphabetic())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        if is_name { Ok(Self(name)) } else { Err(SummaryTagError(name)) }
    }
}

impl From<SummaryTag> for String {
    fn from(tag: SummaryTag) -> Self {
        tag.0
    }
}

/// The reason why a compaction is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The context has more tokens than the room.
    Window,
    /// It has more tokens than `token_threshold`.
    Tokens,
    /// It has more tokens than the `token_limit` of a [`crate::Transform`].
    TokenLimit,
    /// It has more messages than `message_threshold`.
    Messages,
    /// It has as many turns as `turn_threshold`, or more.
    Turns,
    /// A user or a caller asked for it.
    Asked,
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Window => "over the window",
            Self::Tokens => "over token_threshold",
            Self::TokenLimit => "over token_limit",
            Self::Messages => "over message_threshold",
            Self::Turns => "turn_threshold reached",
            Self::Asked => "asked for",
        })
    }
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
    /// Its effective value.
    pub target_value: u64,
    /// Key of the trigger.
    pub trigger: &'static str,
    /// Its effective value.
    pub trigger_value: u64,
}

impl Compact {
    const TOKEN_THRESHOLD_PERCENT: u64 = 80;
    const RETENTION_WINDOW: usize = 6;
    const MIN_REDUCTION: Percent = match Percent::new(20) {
        Some(percent) => percent,
        None => panic!("20 is a percentage"),
    };
    const SUMMARY_MAX_TOKENS: u64 = 2_000;

    /// Returns the effective values for one budget: every default filled in, every limit absolute.
    ///
    /// # Errors
    /// [`CompactError`] if a target is not below its trigger.
    pub fn resolve(&self, budget: &Budget) -> Result<Self, CompactError> {
        let room = budget.room();
        let asked = self.token_threshold.map(|limit| limit.within(room));
        let trigger = asked.unwrap_or_else(|| room.share(Self::TOKEN_THRESHOLD_PERCENT, 100));
        let target = self.max_tokens.map_or_else(|| trigger.share(5, 8), |limit| limit.within(room));
        let both_asked = asked.is_some() && self.max_tokens.is_some();
        if both_asked || matches!(self.max_tokens, Some(TokenLimit::Percent(_))) {
            below(("max_tokens", target.as_u64()), ("token_threshold", trigger.as_u64()))?;
        }
        let max_messages =
            target_count(("max_messages", self.max_messages), ("message_threshold", self.message_threshold))?;
        let max_turns = target_count(("max_turns", self.max_turns), ("turn_threshold", self.turn_threshold))?;
        // A target set alone is final and the trigger makes way; none exceeds the room, where the window
        // triggers in any case.
        let trigger = if asked.is_none() && target >= trigger { room } else { trigger.min(room) };
        // A target set alone may also be the whole room: its author wants just that.
        let fits = target < trigger || (asked.is_none() && self.max_tokens.is_some() && target == trigger);
        let target = if fits { target } else { trigger.share(5, 8) };
        let mut strategies = self.ladder();
        if !strategies.iter().any(|rung| matches!(rung, Rung::Truncation(_))) {
            strategies.push(Rung::Truncation(Truncation::default()));
        }
        Ok(Self {
            token_threshold: Some(TokenLimit::Tokens(trigger)),
            message_threshold: self.message_threshold,
            turn_threshold: self.turn_threshold,
            max_tokens: Some(TokenLimit::Tokens(target)),
            max_messages,
            max_turns,
            retention_window: Some(self.n_retained()),
            preserve_system_messages: Some(self.preserves_system_messages()),
            strategies: Some(strategies),
            selection: Some(self.selection.unwrap_or_default()),
            min_reduction: Some(self.significant_share()),
            model: self.model.clone(),
            prompt: self.prompt.clone(),
            summary_tag: Some(self.summary_tag.clone().unwrap_or_default()),
            summary_max_tokens: NonZeroUsize::new(self.summary_limit().as_u64() as usize),
            focus: self.focus.clone(),
            pin: self.pin.clone(),
            keep: self.keep.clone(),
            auto_compact: Some(self.compacts_by_itself()),
            background: Some(self.background.unwrap_or(true)),
        })
    }

    /// Returns the block, resolved for `budget`, for a provider that counts by `scale`: its limits in tokens
    /// are what the provider counts. None exceeds the room, which `budget` has by our counts. A surplus,
    /// which no longer counts after a compaction, moves the trigger alone, and to the target at most.
    #[must_use]
    pub fn measured(&self, scale: Scale, budget: &Budget) -> Self {
        let (tools, room) = (budget.tools_tokens(), budget.measured(scale).room());
        let ours = |scale: Scale, theirs: Tokens| (scale.ours(theirs + tools) - tools).min(room);
        let trigger = self.token_threshold.map_or(budget.room(), |limit| limit.within(budget.room()));
        let target = ours(scale.lasting(), self.target_tokens());
        self.with_token_limits(ours(scale, trigger).max(target), target)
    }

    /// Returns the first trigger that a context of `size` exceeds. A percentage counts only once it is
    /// resolved.
    pub fn should_compact(&self, size: Size) -> Option<Trigger> {
        let tokens = match self.token_threshold {
            Some(TokenLimit::Tokens(threshold)) => size.tokens > threshold,
            Some(TokenLimit::Percent(_)) | None => false,
        };
        let messages = self.message_threshold.is_some_and(|threshold| size.messages > threshold.get());
        let turns = self.turn_threshold.is_some_and(|threshold| size.turns >= threshold.get());
        [(tokens, Trigger::Tokens), (messages, Trigger::Messages), (turns, Trigger::Turns)]
            .into_iter()
            .find_map(|(exceeded, trigger)| exceeded.then_some(trigger))
    }

    /// Checks whether a context of `size` is done: no trigger is exceeded and every target holds.
    pub fn is_satisfied_by(&self, size: Size) -> bool {
        self.should_compact(size).is_none() && self.holds(size)
    }

    /// Checks whether a context of `size` is within every target.
    pub fn holds(&self, size: Size) -> bool {
        size.tokens <= self.target_tokens()
            && self.max_messages.is_none_or(|target| size.messages <= target.get())
            && self.max_turns.is_none_or(|target| size.turns <= target.get())
    }

    /// Returns the target in tokens; no limit if it is not resolved.
    pub const fn target_tokens(&self) -> Tokens {
        match self.max_tokens {
            Some(TokenLimit::Tokens(target)) => target,
            Some(TokenLimit::Percent(_)) | None => Tokens::MAX,
        }
    }

    /// Returns the block with these token limits.
    #[must_use]
    pub(crate) fn with_token_limits(&self, trigger: Tokens, target: Tokens) -> Self {
        Self {
            token_threshold: Some(TokenLimit::Tokens(trigger)),
            max_tokens: Some(TokenLimit::Tokens(target)),
            ..self.clone()
        }
    }

    /// Returns the number of newest messages that stay verbatim.
    pub fn n_retained(&self) -> usize {
        self.retention_window.unwrap_or(Self::RETENTION_WINDOW)
    }

    /// Checks whether system messages in mid-conversation stay.
    pub fn preserves_system_messages(&self) -> bool {
        self.preserve_system_messages.unwrap_or(true)
    }

    /// Checks whether contexts are compacted automatically.
    pub fn compacts_by_itself(&self) -> bool {
        self.auto_compact.unwrap_or(true)
    }

    /// Checks whether summaries are requested ahead of the compactions that need them.
    pub fn prepares_in_background(&self) -> bool {
        self.background.unwrap_or(true) && self.model.is_some() && self.compacts_by_itself()
    }

    /// Returns the share below which an attempt is not significant.
    pub fn significant_share(&self) -> Percent {
        self.min_reduction.unwrap_or(Self::MIN_REDUCTION)
    }

    /// Returns the most tokens of one summary.
    pub fn summary_limit(&self) -> Tokens {
        Tokens::new(self.summary_max_tokens.map_or(Self::SUMMARY_MAX_TOKENS, |tokens| tokens.get() as u64))
    }

    /// Returns the strategies in order.
    pub fn rungs(&self) -> &[Rung] {
        self.strategies.as_deref().unwrap_or_default()
    }

    /// Checks whether one of its strategies heeds a focus.
    pub fn heeds_focus(&self) -> bool {
        self.ladder().iter().any(|rung| match rung {
            Rung::Summarization(_) => self.model.is_some(),
            Rung::Extraction(_) | Rung::Registered(_) => true,
            Rung::ClearToolResults(_) | Rung::SlidingWindow(_) | Rung::Truncation(_) => false,
        })
    }

    /// Returns the strategies to try, in order: the named ones, else the default ones.
    pub fn ladder(&self) -> Vec<Rung> {
        self.strategies.clone().unwrap_or_else(|| self.default_ladder())
    }

    fn default_ladder(&self) -> Vec<Rung> {
        let (clear, fold) = match &self.model {
            // What is merely old is cleared before anything is spent on a model.
            Some(_) => (ClearToolResults::default(), Rung::Summarization(Summarization::default())),
            // A record keeps more of what is merely old than its stubs would.
            None => (ClearToolResults::of_superseded(), Rung::Extraction(Extraction::default())),
        };
        vec![Rung::ClearToolResults(clear), fold, Rung::SlidingWindow(SlidingWindow::default())]
    }
}

type Count = (&'static str, Option<NonZeroUsize>);

/// Returns the target for a count: half of the trigger, at least 1, if it is unset.
fn target_count(
    (target_key, target): Count,
    (trigger_key, trigger): Count,
) -> Result<Option<NonZeroUsize>, CompactError> {
    if let (Some(target), Some(trigger)) = (target, trigger) {
        below((target_key, target.get() as u64), (trigger_key, trigger.get() as u64))?;
    }
    let half = trigger.map(|trigger| NonZeroUsize::new(trigger.get() / 2).unwrap_or(NonZeroUsize::MIN));
    Ok(target.or(half))
}

fn below(
    (target, target_value): (&'static str, u64),
    (trigger, trigger_value): (&'static str, u64),
) -> Result<(), CompactError> {
    if target_value < trigger_value {
        return Ok(());
    }
    Err(CompactError { target, target_value, trigger, trigger_value })
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
            let trigger = resolved.token_threshold.map_or(0, |limit| limit.within(Tokens::ZERO).as_u64());
            let count = |count: Option<NonZeroUsize>| count.map(NonZeroUsize::get);
            let actual = (
                trigger,
                resolved.target_tokens().as_u64(),
                count(resolved.max_messages),
                count(resolved.max_turns),
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
                "max_tokens (601) must be below token_threshold (501)",
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
            ("{ model: m }", vec!["clear_tool_results", "summarization", "sliding_window", "truncation"]),
            ("{ strategies: [summarization] }", vec!["summarization", "truncation"]),
            (
                "{ strategies: [truncation, sliding_window: { keep_first: 2 }] }",
                vec!["truncation", "sliding_window"],
            ),
        ] {
            let resolved = compact(yaml).resolve(&budget(1_000)).unwrap();
            let actual: Vec<&str> = resolved.rungs().iter().map(Rung::id).collect();
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
