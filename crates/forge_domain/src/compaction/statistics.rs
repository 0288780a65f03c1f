//! The results of each strategy over a run.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::{AttemptVerdict, CompactionImpact, CompactionReport, Outcome};
use crate::{Cost, StrategyId, Tokens, Usage};

/// The results of each strategy over a run: the sum of its [`CompactionReport`]s.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct StrategyStatistics(BTreeMap<StrategyId, StrategyRecord>);

/// The results of one strategy's attempts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StrategyRecord {
    /// Attempts, those from the result of another strategy included. There was something for it to do.
    pub tried: usize,
    /// Compactions that it was a part of.
    pub applied: usize,
    /// Attempts that saved enough to be worth it, satisfying or not.
    pub significant: usize,
    /// Attempts after which every target held.
    pub satisfied: usize,
    /// Attempts that it gave up, or that broke a rule.
    pub failed: usize,
    /// Tokens that it removed from contexts: its own part of each compaction.
    pub tokens_saved: Tokens,
    /// Requests sent to a summarizer, those of attempts that were not applied included.
    pub model_calls: usize,
    /// The usage of these requests, as far as an attempt was completed.
    pub usage: Usage,
    /// The cost of these requests.
    pub cost: Cost,
}

impl StrategyStatistics {
    /// Iterates over the record of each strategy that was tried, by id.
    pub fn iter(&self) -> impl Iterator<Item = (&StrategyId, &StrategyRecord)> {
        self.0.iter()
    }

    /// Returns the record of the strategy of that id; empty if it was never tried.
    pub fn of(&self, strategy: &str) -> StrategyRecord {
        self.0.get(strategy).copied().unwrap_or_default()
    }

    /// Checks whether no strategy was tried.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes in what became of a compaction.
    pub fn take(&mut self, report: &CompactionReport) {
        let applied: &[StrategyId] = match &report.outcome {
            Outcome::Applied { strategies, .. } => strategies,
            _ => &[],
        };
        for attempt in &report.attempts {
            let (impact, is_satisfied, is_significant) = match &attempt.verdict {
                AttemptVerdict::NotApplicable => continue,
                AttemptVerdict::Satisfied(impact) => (Some(impact), true, true),
                AttemptVerdict::Significant(impact) => (Some(impact), false, true),
                AttemptVerdict::Insignificant(impact) => (Some(impact), false, false),
                AttemptVerdict::Failed { .. } => (None, false, false),
            };
            let record = self.0.entry(attempt.strategy.clone()).or_default();
            record.tried += 1;
            record.failed += usize::from(impact.is_none());
            record.satisfied += usize::from(is_satisfied);
            record.significant += usize::from(is_significant);
            record.model_calls += attempt.model_calls;
            record.usage += attempt.usage;
            record.cost += attempt.cost;
            let Some(CompactionImpact { before, after, .. }) = impact else { continue };
            // The attempt that became a part of the winner is the one that went on from the same strategies.
            let stage = attempt.after.len();
            if applied.get(stage) == Some(&attempt.strategy) && applied[..stage] == attempt.after[..] {
                record.applied += 1;
                record.tokens_saved += before.tokens - after.tokens;
            }
        }
    }

    /// Adds the record of another run to this one.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        for (strategy, theirs) in other.0 {
            let ours = self.0.entry(strategy).or_default();
            *ours = StrategyRecord {
                tried: ours.tried + theirs.tried,
                applied: ours.applied + theirs.applied,
                significant: ours.significant + theirs.significant,
                satisfied: ours.satisfied + theirs.satisfied,
                failed: ours.failed + theirs.failed,
                tokens_saved: ours.tokens_saved + theirs.tokens_saved,
                model_calls: ours.model_calls + theirs.model_calls,
                usage: {
                    let mut usage = ours.usage;
                    usage += theirs.usage;
                    usage
                },
                cost: {
                    let mut cost = ours.cost;
                    cost += theirs.cost;
                    cost
                },
            };
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, conversation, fit_again};
    use super::*;

    #[test]
    fn attempts_are_added_up_by_strategy() {
        let mut statistics = StrategyStatistics::default();
        let mut log = conversation("suaaaaaaaa");
        // The summarizer is down; then it answers.
        let yaml = "{ model: m, strategies: [summarization, sliding_window], retention_window: 2, token_threshold: 600, max_tokens: 500 }";
        for script in [Script::new(Vec::new()), Script::summarizing()] {
            statistics.take(&fit_again(yaml, 100_000, &mut log, &script).report);
            log.add_all("aaaaaa");
        }
        let record = |tokens_saved: u64, record: StrategyRecord| StrategyRecord {
            tokens_saved: Tokens::new(tokens_saved),
            ..record
        };
        let summarization = StrategyRecord {
            tried: 2,
            applied: 1,
            significant: 1,
            failed: 1,
            model_calls: 2,
            cost: Cost { unpriced_calls: 1, ..Cost::default() },
            ..StrategyRecord::default()
        };
        let window = StrategyRecord {
            tried: 2,
            applied: 2,
            significant: 2,
            satisfied: 2,
            ..StrategyRecord::default()
        };
        let actual: Vec<_> = statistics.iter().map(|(id, record)| (id.as_str(), *record)).collect();
        let saved = |id: &str| statistics.of(id).tokens_saved.as_u64();
        assert!(saved("summarization") > 300 && saved("sliding_window") == 627, "{actual:?}");
        assert_eq!(
            actual,
            [
                ("sliding_window", record(627, window)),
                ("summarization", record(saved("summarization"), summarization))
            ]
        );
        let twice = statistics.clone().and(statistics.clone());
        assert_eq!(twice.of("summarization").tried, 4);
        assert_eq!(twice.of("sliding_window").tokens_saved, Tokens::new(1_254));
        assert_eq!(twice.of("never tried"), StrategyRecord::default());
    }
}
