//! The order in which strategies are tried where that is left to the context and to what became of them before.

use super::StrategyStatistics;
use super::ladder::Named;

/// How often a strategy has to fail, and never come to its end, before it waits behind the others.
const PATIENCE: usize = 2;

/// `strategies` in the order that `record` suggests: one that failed whenever it was tried waits until the others were, so
/// that a model that is down is not asked at every compaction. The last one stays the last.
pub(super) fn adapted(strategies: &[Named], record: &StrategyStatistics) -> Vec<Named> {
    let Some((last, rungs)) = strategies.split_last() else { return Vec::new() };
    let fails = |named: &&Named| {
        let record = record.of(named.id.as_str());
        record.failed >= PATIENCE && record.failed == record.tried
    };
    let (failing, working): (Vec<&Named>, Vec<&Named>) = rungs.iter().partition(fails);
    working.into_iter().chain(failing).chain([last]).cloned().collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use pretty_assertions::assert_eq;

    use super::super::fixture::{Script, conversation, fit_again};
    use super::super::{ClearToolResults, CompactionStrategy, SlidingWindow, Summarization, Truncation};
    use super::*;

    fn order(record: &StrategyStatistics) -> Vec<String> {
        let strategies: Vec<Arc<dyn CompactionStrategy>> = vec![
            Arc::new(ClearToolResults::default()),
            Arc::new(Summarization::default()),
            Arc::new(SlidingWindow::default()),
            Arc::new(Truncation::default()),
        ];
        let named: Vec<Named> = strategies.into_iter().filter_map(Named::new).collect();
        adapted(&named, record).into_iter().map(|named| named.id.to_string()).collect()
    }

    #[test]
    fn what_only_ever_failed_waits_behind_the_others() {
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
