//! The order in which strategies are tried if it depends on the context and on earlier results.

use super::named_strategy::NamedStrategy;
use super::{ClearToolResults, CompactionRules, Extraction, StrategyStatistics};
use crate::{Context, TokenCounter};

/// The number of failures, without a success, after which a strategy is tried after the others.
const PATIENCE: usize = 2;

/// Returns `strategies` in the order that `context` and `record` suggest. The last one stays last.
///
/// A strategy that failed whenever it was tried waits until the others were tried, so that a model that is
/// down is not asked at every compaction. Results are cleared before a record is made only if superseded ones
/// are enough: a record preserves more of merely old results than stubs would.
pub(super) fn adapt(
    strategies: &[NamedStrategy],
    rules: &CompactionRules,
    context: &Context,
    counter: &dyn TokenCounter,
    record: &StrategyStatistics,
) -> Vec<NamedStrategy> {
    let Some((last, rungs)) = strategies.split_last() else { return Vec::new() };
    let fails = |named: &NamedStrategy| {
        let record = record.of(named.id.as_str());
        record.failed >= PATIENCE && record.failed == record.tried
    };
    let mut order: Vec<NamedStrategy> = rungs.to_vec();
    let at = |order: &[NamedStrategy], id: &str| order.iter().position(|named| named.id.as_str() == id);
    if let (Some(clear), Some(fold)) = (at(&order, ClearToolResults::ID), at(&order, Extraction::ID))
        && clear < fold
        && !ClearToolResults::superseded_suffice(rules, context, counter)
    {
        order[clear..=fold].rotate_left(1);
    }
    order.sort_by_key(fails);
    order.into_iter().chain([last.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pretty_assertions::assert_eq;

    use super::super::fixture::{Characters, Script, conversation, fit_again, settings};
    use super::super::{CompactionStrategy, SlidingWindow, Summarization, Truncation};
    use super::*;
    use crate::Conversation;

    /// Returns the order for a context in a room of which it may use half.
    fn order(
        fold: Arc<dyn CompactionStrategy>,
        log: &Conversation,
        room: u64,
        record: &StrategyStatistics,
    ) -> Vec<String> {
        let rules = settings("{}", room).rules;
        let strategies: Vec<Arc<dyn CompactionStrategy>> = vec![
            Arc::new(ClearToolResults::default()),
            fold,
            Arc::new(SlidingWindow::default()),
            Arc::new(Truncation::default()),
        ];
        let named: Vec<NamedStrategy> = strategies.into_iter().filter_map(NamedStrategy::new).collect();
        let order = adapt(&named, &rules, &log.view(), &Characters, record);
        order.into_iter().map(|named| named.id.to_string()).collect()
    }

    #[test]
    fn results_are_cleared_first_where_what_is_superseded_is_enough() {
        let order = |log: &Conversation| {
            let order = order(Arc::new(Extraction::default()), log, 10_000, &StrategyStatistics::default());
            order[..2].to_vec()
        };
        // Every result of this notation answers the same call.
        let repeated = conversation("sutRtRtRtRtRtRtRtRtRtrtr");
        assert_eq!(order(&repeated), ["clear_tool_results", "extraction"]);
        assert_eq!(order(&conversation("sutrAAAAAAAAAtrtrtr")), ["extraction", "clear_tool_results"]);
    }

    #[test]
    fn what_only_ever_failed_waits_behind_the_others() {
        let order = |record: &StrategyStatistics| {
            order(Arc::new(Summarization::default()), &conversation("sua"), 10_000, record)
        };
        const AS_WRITTEN: [&str; 4] = ["clear_tool_results", "summarization", "sliding_window", "truncation"];
        let mut record = StrategyStatistics::default();
        assert_eq!(order(&record), AS_WRITTEN);
        let fail = |record: &mut StrategyStatistics, script: &Script| {
            let mut log = conversation("suaaaaaaaa");
            record.take(&fit_again("{ model: m, token_threshold: 600 }", 100_000, &mut log, script).report);
        };
        fail(&mut record, &Script::new(Vec::new()));
        assert_eq!(order(&record), AS_WRITTEN, "once is no record");
        fail(&mut record, &Script::new(Vec::new()));
        assert_eq!(order(&record), ["clear_tool_results", "sliding_window", "summarization", "truncation"]);
        fail(&mut record, &Script::summarizing());
        assert_eq!(order(&record), AS_WRITTEN, "it came back");
    }
}
