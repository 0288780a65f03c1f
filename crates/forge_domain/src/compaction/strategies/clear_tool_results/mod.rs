//! Replaces old tool results by stubs that say what was there: what a later result supersedes first, then the
//! largest and oldest. Images of the user's leave as results do; the text with them stays. So do notes that a
//! harness repeated later.

mod clearing;

#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::HashSet;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::clearing::{Clearing, ShorterCall, edits, name_contents};
use crate::compaction::answered_call::{AnsweredCall, answered_call};
use crate::compaction::features::Term;
use crate::compaction::names::table_keys;
use crate::compaction::question::Question;
use crate::compaction::standing::{Hold, Standing};
use crate::compaction::stub::{Stub, cleared_arguments, is_stub};
use crate::compaction::superseded::{Superseded, superseded_results};
use crate::compaction::{
    CompactionImpact, CompactionRules, CompactionServices, CompactionStrategy, Focus, StrategyError,
};
use crate::{Body, Context, Role, TokenCounter, Tokens, ToolName, user_words};

/// A strategy that replaces old tool results by stubs that name what was there, until the target holds. So
/// leave old images of the user's. Calls, and results within the retention window, stay unchanged.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClearToolResults {
    /// Number of newest results that stay, besides those of the retention window. Default 3.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = 3, "examples" = [3]))]
    pub keep: Option<usize>,
    /// Least tokens to clear at once, since every clearing costs the provider's prompt cache from there on.
    /// Default: what the target demands, which is a batch as large as the target is below its trigger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("examples" = [10_000]))]
    pub clear_at_least: Option<Tokens>,
    /// Tools whose results stay. Unset: none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("examples" = [["list"]]))]
    pub exclude_tools: Vec<ToolName>,
    /// True if only superseded results leave: a file read again or changed, a call repeated, nearly the same
    /// answer. Merely old results then stay for a strategy that preserves the best of them. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub only_superseded: Option<bool>,
    /// True if long texts in a call's arguments leave with its result. Default false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = false, "examples" = [true]))]
    pub clear_tool_inputs: Option<bool>,
}

/// The share of the target that names of what was cleared may take, in percent.
const NAMES_PERCENT: u64 = 10;

/// A merely old result of fewer tokens says more than the tokens that its stub would save.
const LEAST_OLD: Tokens = Tokens::new(64);

/// The number of times that a token of the oldest message counts beside one of the newest.
const OLDEST: u64 = 4;

/// The number of times that a table counts as smaller: nothing but its keys tells what is in it, and they are
/// so large a part of it that a stub has no space for them.
const TABLE: u64 = 4;

/// The reason why a result is cleared; weaker reasons come first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Reason {
    Superseded(Superseded),
    Old,
}

impl ClearToolResults {
    /// The word for it in YAML.
    pub const ID: &str = "clear_tool_results";
    const KEEP: usize = 3;

    /// Returns the results that may be cleared and why, in the order in which they leave. Those that answer
    /// the question or that the focus names are left to strategies that preserve what is asked for.
    fn order(&self, rules: &CompactionRules, context: &Context) -> Vec<(Reason, usize)> {
        let superseded = superseded_results(context);
        let answers = Question::of(context, rules.focus.as_ref()).answers(context);
        let reason = |position: usize| match superseded[position] {
            Some(superseded) => Reason::Superseded(superseded),
            None => Reason::Old,
        };
        let standing = Standing::of(context, rules, rules.retention_window);
        let repeated = free_notes(&standing, context).filter(|position| superseded[*position].is_some());
        let positions = self.clearable(rules, context, &standing).chain(repeated);
        let only_superseded = self.only_superseded.unwrap_or(false);
        let focus: HashSet<u64> = rules.focus.iter().flat_map(Focus::terms).map(Term::hash).collect();
        let is_asked = |position: usize| {
            let terms = || context.messages()[position].features().terms.iter();
            answers[position] || (!focus.is_empty() && terms().any(|term| focus.contains(&term.hash())))
        };
        let mut order: Vec<_> = positions
            .filter(|position| superseded[*position].is_some() || !is_asked(*position))
            .map(|position| (reason(position), position))
            .filter(|(reason, _)| !only_superseded || matches!(reason, Reason::Superseded(_)))
            .collect();
        order.sort_by_cached_key(|(reason, position)| {
            let value = match reason {
                Reason::Superseded(_) => 0,
                Reason::Old => value_of_clearing(context, *position),
            };
            (*reason, Reverse(value), *position)
        });
        order
    }

    /// Returns the results to clear: in order, until the target holds and the batch is large enough; none if
    /// it would not be.
    fn decide(
        &self,
        rules: &CompactionRules,
        context: &Context,
        counter: &dyn TokenCounter,
    ) -> Vec<Clearing> {
        let excess = context.size().tokens - rules.target.tokens;
        let batch = self.clear_at_least.unwrap_or_default();
        if excess == Tokens::ZERO {
            return Vec::new();
        }
        let mut clearings = Vec::new();
        let mut saved = Tokens::ZERO;
        for (reason, position) in self.order(rules, context) {
            if saved >= excess.max(batch) {
                break;
            }
            let message = &context.messages()[position];
            if reason == Reason::Old && message.tokens() < LEAST_OLD {
                continue;
            }
            let call = answered_call(context, position);
            let with = match &message.message().body {
                Body::Tool(result) => {
                    let stub = Stub::of(message, result, call);
                    // A table leaves its keys behind, or is left to a strategy that reads it.
                    let keys = if reason == Reason::Old { table_keys(message) } else { None };
                    let stub = match keys {
                        Some(keys) => stub.with_names(keys),
                        None => stub,
                    };
                    Some(stub.in_place_of(message, counter))
                }
                _ if message.message().note_by().is_some() => {
                    Some(Stub::of_note(message).in_place_of(message, counter))
                }
                _ => Stub::for_images_of(message, counter),
            };
            let Some(with) = with else { continue };
            // A stub that is hardly smaller loses text for nothing.
            if with.tokens() + with.tokens() <= message.tokens() {
                let (call, spared) = self.shorter_call(call, counter);
                saved += message.tokens() - with.tokens() + spared;
                clearings.push(Clearing { position, with, call });
            }
        }
        if saved < batch {
            return Vec::new();
        }
        // Names only use tokens that clearing freed beyond the target. If clearing is not enough, the next
        // strategy says more than names would.
        if saved > excess {
            let for_names = rules.target.tokens.share(NAMES_PERCENT, 100);
            name_contents(context, &mut clearings, for_names.min(saved - excess), counter);
        }
        clearings
    }

    /// Positions of the results, and of the user's images, that may be cleared, oldest first. The newest of
    /// both stay.
    fn clearable(
        &self,
        rules: &CompactionRules,
        context: &Context,
        standing: &Standing,
    ) -> impl Iterator<Item = usize> {
        let retained_from = standing.groups.retained_from(rules.retention_window);
        let is_clearable = |position: &usize| {
            let message = context.messages()[*position].message();
            (message.role() == Role::Tool && user_words(message).is_none()) || message.has_images()
        };
        let n_results = (0..context.messages().len()).filter(is_clearable).count();
        let n_old = n_results.saturating_sub(self.keep.unwrap_or(Self::KEEP));
        let held = standing.groups.iter().zip(&standing.holds).enumerate();
        let positions = held.flat_map(|(index, (group, hold))| {
            // The user's words may stay at any age, and their images leave at the age of results.
            let is_free = *hold == Hold::Free || (*hold == Hold::User && index < retained_from);
            group.range().map(move |position| (position, is_free))
        });
        let old: Vec<_> = positions.filter(|(position, _)| is_clearable(position)).take(n_old).collect();
        let free = old.into_iter().filter(|(_, is_free)| *is_free).map(|(position, _)| position);
        free.filter(|position| self.may_clear(context, *position))
    }

    fn may_clear(&self, context: &Context, position: usize) -> bool {
        let message = context.messages()[position].message();
        let Body::Tool(result) = &message.body else { return message.has_images() };
        let is_excluded = || {
            let named = result.name.as_ref();
            let tool = named.or_else(|| answered_call(context, position).map(|asked| &asked.call.name));
            tool.is_some_and(|tool| self.exclude_tools.contains(tool))
        };
        !result.content.is_empty()
            && !is_stub(&result.content.text())
            && (self.exclude_tools.is_empty() || !is_excluded())
    }

    /// Returns the call with shorter arguments, if that is wanted and shorter, and the tokens that it saves.
    fn shorter_call(
        &self,
        asked: Option<AnsweredCall<'_>>,
        counter: &dyn TokenCounter,
    ) -> (Option<ShorterCall>, Tokens) {
        let asked = asked.filter(|_| self.clear_tool_inputs.unwrap_or(false));
        let Some(AnsweredCall { place, call, .. }) = asked else { return (None, Tokens::ZERO) };
        let Some(arguments) = cleared_arguments(&call.arguments) else { return (None, Tokens::ZERO) };
        let (was, is) = (counter.count(&call.arguments), counter.count(&arguments));
        if is < was { (Some(ShorterCall { place, arguments }), was - is) } else { (None, Tokens::ZERO) }
    }
}

/// Iterates over the positions of the notes of a harness that nothing holds, and that were not cleared.
fn free_notes(standing: &Standing, context: &Context) -> impl Iterator<Item = usize> {
    let held = standing.groups.iter().zip(&standing.holds);
    let free = held.filter(|(_, hold)| **hold == Hold::Free).flat_map(|(group, _)| group.range());
    free.filter(|position| {
        let message = context.messages()[*position].message();
        message.note_by().is_some() && !is_stub(&message.text())
    })
}

/// Returns what clearing a merely old result is worth: its tokens, which count more the older it is. Small
/// results say much for their size, so that they stay longer, and so do tables.
fn value_of_clearing(context: &Context, position: usize) -> u64 {
    let message = &context.messages()[position];
    let n_messages = context.messages().len() as u64;
    let age = OLDEST * n_messages - (OLDEST - 1) * position as u64;
    let value = message.tokens().as_u64() * age;
    if table_keys(message).is_some() { value / TABLE } else { value }
}

#[async_trait]
impl CompactionStrategy for ClearToolResults {
    fn id(&self) -> &str {
        Self::ID
    }

    fn description(&self) -> &str {
        "replaces old tool results by stubs that name the removed content"
    }

    fn heeds_focus(&self) -> bool {
        true
    }

    fn is_applicable(&self, rules: &CompactionRules, context: &Context) -> bool {
        let standing = Standing::of(context, rules, rules.retention_window);
        context.size().tokens > rules.target.tokens
            && (self.clearable(rules, context, &standing).next().is_some()
                || free_notes(&standing, context).next().is_some())
    }

    async fn compact(
        &self,
        rules: &CompactionRules,
        context: Context,
        services: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError> {
        let clearings = self.decide(rules, &context, services.counter());
        let after = context.edit(edits(&context, clearings, services.counter()));
        let impact = CompactionImpact::new(context.size(), after.size(), Vec::new());
        Ok((after, impact))
    }
}
