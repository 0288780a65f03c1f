//! Compactions in words.

use forge_domain::compaction::{
    Attempt, AttemptVerdict, CompactionReport, Outcome, StrategyRecord, StrategyStatistics,
};
use forge_domain::{Size, StrategyId, quantity};
use serde_json::{Value, json};

use crate::output::{visible, with_separators};

/// Describes the results of each strategy, a line for each.
pub(crate) fn strategy_lines(statistics: &StrategyStatistics) -> Vec<String> {
    let line = |(id, record): (&StrategyId, &StrategyRecord)| {
        let StrategyRecord { tried, applied, satisfied, failed, .. } = record;
        let mut line = format!("{id}: tried {}", quantity(*tried, "time"));
        if *applied == 0 {
            line += ", never used";
        } else {
            let saved = with_separators(record.tokens_saved);
            let (used, reached) = (quantity(*applied, "time"), quantity(*satisfied, "time"));
            line += &format!(", used {used}, target reached {reached}, saved {saved} tokens");
        }
        if *failed > 0 {
            line += &format!(", failed {}", quantity(*failed, "time"));
        }
        if record.model_calls > 0 {
            line += &format!(", {} to a model", quantity(record.model_calls, "request"));
        }
        line
    };
    statistics.iter().map(line).collect()
}

/// Describes what a compaction changed, from the size `before` it to the one `after` it.
pub(crate) fn change(before: Size, after: Size) -> String {
    format!(
        "{} → {}, {} → {}",
        with_separators(before.tokens),
        quantity(with_separators(after.tokens), "token"),
        before.messages,
        quantity(after.messages, "message")
    )
}

/// Describes why a compaction was due.
pub(crate) fn because(report: &CompactionReport) -> String {
    report.trigger.map(|trigger| trigger.to_string()).unwrap_or_default()
}

/// Describes which requests were shortened, by the words of what yielded, each after `separator`: who wrote
/// them should know.
pub(crate) fn shortened_requests(yielded: &Value, separator: &str) -> String {
    let yielded = yielded.as_array().into_iter().flatten().filter_map(Value::as_str);
    let words = yielded.filter_map(|what| match what {
        "first_user_text" => Some("the first message of the user was shortened"),
        "latest_user_text" => Some("the latest request was shortened"),
        _ => None,
    });
    words.map(|words| format!("{separator}{words}")).collect()
}

/// Describes the requests that were shortened, the attempts that failed before, and the parts that others
/// gave up.
pub(crate) fn failed_attempts(report: &CompactionReport) -> String {
    let mut failures = match &report.outcome {
        Outcome::Applied { impact, .. } => shortened_requests(&json!(impact.yielded), "; "),
        _ => String::new(),
    };
    for Attempt { strategy, verdict, .. } in &report.attempts {
        match verdict {
            AttemptVerdict::NotApplicable => {}
            AttemptVerdict::Failed { reason } => {
                failures += &format!("; {strategy} failed: {}", visible(reason));
            }
            AttemptVerdict::Satisfied(impact)
            | AttemptVerdict::Significant(impact)
            | AttemptVerdict::Insignificant(impact) => {
                for part in &impact.given_up {
                    failures += &format!("; {strategy} left {}", visible(part));
                }
            }
        }
    }
    failures
}
