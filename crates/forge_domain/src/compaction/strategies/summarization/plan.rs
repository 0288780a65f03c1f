//! The choice of what a model summarizes: as little as the target demands, oldest first.

use std::ops::Range;

use super::quotes::share_of_quotes;
use crate::compaction::CompactionRules;
use crate::compaction::standing::Standing;
use crate::{Context, ContextMessage, Group, Role, Size, Tokens};

/// The least that a summary is asked for.
const LEAST: Tokens = Tokens::new(200);

/// A contiguous range of groups that becomes one summary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// The numbers of its groups.
    pub(super) groups: Range<usize>,
    /// Its tokens.
    pub(super) tokens: Tokens,
}

/// The groups of a context, and which of them may be summed up.
struct Choice<'a> {
    rules: &'a CompactionRules,
    context: &'a Context,
    groups: Vec<Group>,
    /// The groups that may be summed up by themselves.
    may_go: Vec<bool>,
    /// Those that may be summed up together with the user's words.
    may_go_with_turns: Vec<bool>,
}

/// Returns the runs to sum up, oldest first: runs of two or more assistant and tool groups between user
/// messages, as many as the target demands; if all of them are not enough, the oldest turns as well.
pub(super) fn decide(rules: &CompactionRules, context: &Context) -> Vec<Run> {
    let standing = Standing::of(context, rules, rules.retention_window);
    let indices = 0..standing.groups.len();
    let choice = Choice {
        rules,
        context,
        groups: standing.groups.iter().cloned().collect(),
        may_go: indices.clone().map(|index| standing.may_be_summed_up(context, index)).collect(),
        may_go_with_turns: indices
            .map(|index| standing.may_be_folded_with_its_turn(context, index))
            .collect(),
    };
    choice.runs()
}

/// Returns the tokens that each summary of `runs` is asked for: its share of what the target leaves, by the
/// tokens of its run.
pub(super) fn shares(rules: &CompactionRules, context: &Context, runs: &[Run]) -> Vec<Tokens> {
    let all: Tokens = runs.iter().map(|run| run.tokens).sum();
    let quotes: Tokens = runs.iter().map(|run| quotes(rules, context, &run.groups)).sum();
    // A model counts by its own vocabulary, which makes up to about a quarter more or fewer tokens of a text.
    let free = (rules.target.tokens - (foreseeable_size(rules, context).tokens - all) - quotes).share(4, 5);
    let share = |run: &Run| free.share(run.tokens.as_u64(), all.as_u64().max(1));
    runs.iter().map(|run| share(run).max(LEAST).min(rules.summary.max_tokens)).collect()
}

/// Returns the size of `context`, with the results of its last group rounded up: a summary that was
/// requested while tools still ran, for results of about that size, should be the one that is wanted then.
fn foreseeable_size(rules: &CompactionRules, context: &Context) -> Size {
    let last = context.groups().iter().last().map_or(0..0, Group::range);
    let results = context.messages()[last].iter().filter(|message| message.role() == Role::Tool);
    let (mut size, results) = (context.size(), results.map(ContextMessage::tokens).sum::<Tokens>());
    if results > Tokens::ZERO {
        let step = rules.target.tokens.share(1, RESULTS).as_u64().max(1);
        let rounded = Tokens::new(results.as_u64().div_ceil(step) * step);
        size.tokens = size.tokens - results + rounded;
    }
    size
}

/// The step by which the newest results are rounded: a part of the target, one of so many.
const RESULTS: u64 = 8;

/// Returns the tokens of the user's words in `groups` that are quoted.
fn quotes(rules: &CompactionRules, context: &Context, groups: &Range<usize>) -> Tokens {
    let messages = &context.messages()[context.groups().span(groups.clone()).range()];
    let said = messages.iter().filter(|message| message.starts_turn());
    said.map(ContextMessage::tokens).sum::<Tokens>().min(share_of_quotes(rules))
}

impl Choice<'_> {
    fn runs(&self) -> Vec<Run> {
        let n_groups = self.groups.len();
        let all = self.whole_runs(0..n_groups);
        // A context within its target is summarized only if just that was asked for.
        if self.rules.is_satisfied_by(self.context.size()) {
            return all;
        }
        if self.suffice(&all) {
            let ends: Vec<usize> = (0..=n_groups).collect();
            let enough = ends.partition_point(|end| !self.suffice(&self.whole_runs(0..*end)));
            return self.whole_runs(0..enough.min(n_groups));
        }
        let is_turn = |index: &usize| {
            self.groups.get(*index).is_none_or(|group| {
                !self.may_go_with_turns[*index] || self.context.messages()[group.range().start].starts_turn()
            })
        };
        let ends: Vec<usize> = (0..=n_groups).filter(is_turn).collect();
        let enough = ends.partition_point(|end| !self.suffice(&self.with_turns(*end)));
        self.with_turns(ends.get(enough).copied().unwrap_or(n_groups))
    }

    /// Returns the runs of two or more assistant and tool groups among `within`.
    fn whole_runs(&self, within: Range<usize>) -> Vec<Run> {
        stretches(within, &self.may_go)
            .filter(|run| run.clone().filter(|index| self.groups[*index].is_assistants()).count() >= 2)
            .filter(|run| self.is_fresh(run))
            .map(|run| self.run(run))
            .collect()
    }

    /// Returns the turns before `end`, and the runs after it.
    fn with_turns(&self, end: usize) -> Vec<Run> {
        let is_worth_it = |run: &Range<usize>| {
            run.len() >= 2
                && run.clone().any(|index| self.groups[index].is_assistants())
                && self.is_fresh(run)
        };
        let turns = stretches(0..end, &self.may_go_with_turns).filter(is_worth_it);
        turns.map(|run| self.run(run)).chain(self.whole_runs(end..self.groups.len())).collect()
    }

    fn run(&self, groups: Range<usize>) -> Run {
        let tokens = self.messages(&groups).iter().map(ContextMessage::tokens).sum();
        Run { groups, tokens }
    }

    fn messages(&self, groups: &Range<usize>) -> &[ContextMessage] {
        &self.context.messages()[self.context.groups().span(groups.clone()).range()]
    }

    /// Checks whether any part of a run is not a summary yet.
    fn is_fresh(&self, groups: &Range<usize>) -> bool {
        self.messages(groups).iter().any(|message| !message.message().is_compacted)
    }

    /// Checks whether the targets will hold once `runs` are summed up.
    fn suffice(&self, runs: &[Run]) -> bool {
        let mut size = foreseeable_size(self.rules, self.context);
        for run in runs {
            let gone = self.messages(&run.groups).iter().map(Size::of);
            for gone in gone {
                size.messages -= gone.messages;
                size.turns -= gone.turns;
            }
            let summary = run.tokens.share(1, 4).max(LEAST).min(self.rules.summary.max_tokens);
            let made = summary + quotes(self.rules, self.context, &run.groups);
            size.messages += 1;
            size.tokens = size.tokens - run.tokens + made.min(run.tokens);
        }
        self.rules.is_satisfied_by(size)
    }
}

/// Returns the longest ranges of indices in `within` that may go.
fn stretches<'a>(within: Range<usize>, may_go: &'a [bool]) -> impl Iterator<Item = Range<usize>> + 'a {
    let mut index = within.start;
    std::iter::from_fn(move || {
        while index < within.end && !may_go[index] {
            index += 1;
        }
        let start = index;
        while index < within.end && may_go[index] {
            index += 1;
        }
        (start < index).then_some(start..index)
    })
}
