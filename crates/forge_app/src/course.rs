//! The progress of an agent's work: what a checkpoint saves beside its conversation, and a resumed run
//! restores.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use forge_domain::compaction::{CompactionReport, ContextCompactor, StrategyStatistics};
use forge_domain::{
    AgentId, CheckpointKey, Configuration, ContextSnapshot, Conversation, Event, Measure, Progress, Reply,
    Spent, ToolResult,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::learned_limit::LearnedLimits;

/// The progress of an agent's work.
#[derive(Debug, Default)]
pub(crate) struct Course {
    /// The counters. The rest of what a checkpoint saves is added when it is made.
    pub(crate) progress: Progress,
    /// The statistics of each strategy since the work began.
    pub(crate) strategies: StrategyStatistics,
    /// Results of the last reply's calls that came while others still run, by the place of their call.
    pub(crate) finished: Arc<Mutex<BTreeMap<usize, ToolResult>>>,
    /// The agents that run after this one, and their event.
    pub(crate) errand: Option<Errand>,
    /// The agent whose transform or call started this one. It continues if a run is resumed.
    pub(crate) asked_by: Option<AgentId>,
    /// The number of agents above it in a chain of calls.
    pub(crate) depth: usize,
    /// The agent's configuration; `None` until its first turn.
    pub(crate) configuration: Option<Configuration>,
    /// The last checkpoint that was saved or loaded.
    pub(crate) parent: Option<CheckpointKey>,
    /// The checkpoint made while the calls run, until one is made after them.
    pub(crate) begun: Option<CheckpointKey>,
    /// The state that is saved.
    pub(crate) saved: Option<Mark>,
}

/// An event, and the agents that have yet to run on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Errand {
    pub(crate) event: Event,
    pub(crate) waiting: Vec<AgentId>,
}

/// A mark by which two states of an agent's work are known to be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    n_entries: usize,
    iterations: usize,
    pub(crate) n_finished: usize,
    /// A reply that broke off, or an unused summary, leaves no other trace.
    spent: Spent,
}

/// The names of what a checkpoint saves beside counters.
const STRATEGIES: &str = "strategies";
const FINISHED: &str = "finished";
const ERRAND: &str = "errand";
const ASKED_BY: &str = "asked_by";
const LIMITS: &str = "limits";

impl Course {
    /// Restores the work and the learned limits from `snapshot`. The conversation is as it was, its measure
    /// included.
    pub(crate) fn restore(
        snapshot: ContextSnapshot,
        key: CheckpointKey,
    ) -> (Conversation, Self, LearnedLimits) {
        let ContextSnapshot { mut conversation, mut progress, .. } = snapshot;
        // A calibration of another version of forge is ignored: the first reply gives a new one.
        let calibration = progress.calibration.take().map(serde_json::from_value::<Measure>);
        conversation.restore_measure(calibration.and_then(Result::ok).unwrap_or_default());
        let limits = take_extra(&mut progress, LIMITS).unwrap_or_default();
        let mut course = Self {
            strategies: take_extra(&mut progress, STRATEGIES)
                .and_then(|packed| unpack(&packed))
                .unwrap_or_default(),
            finished: Arc::new(Mutex::new(take_extra(&mut progress, FINISHED).unwrap_or_default())),
            errand: take_extra(&mut progress, ERRAND),
            asked_by: take_extra(&mut progress, ASKED_BY),
            progress,
            parent: Some(key),
            ..Self::default()
        };
        course.saved = Some(course.mark(&conversation));
        (conversation, course, limits)
    }

    /// Returns the state of an agent's work as a checkpoint saves it.
    pub(crate) fn snapshot(
        &self,
        agent: &AgentId,
        conversation: &Conversation,
        limits: &LearnedLimits,
    ) -> ContextSnapshot {
        let mut progress = self.progress.clone();
        let measure = conversation.measure();
        progress.calibration =
            (*measure != Measure::default()).then(|| serde_json::to_value(measure).unwrap_or_default());
        if !self.strategies.is_empty() {
            put_extra(&mut progress, STRATEGIES, pack(&self.strategies));
        }
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        if !finished.is_empty() {
            put_extra(&mut progress, FINISHED, serde_json::to_value(&*finished));
        }
        if let Some(errand) = self.errand.as_ref().filter(|errand| !errand.waiting.is_empty()) {
            put_extra(&mut progress, ERRAND, serde_json::to_value(errand));
        }
        if let Some(asker) = &self.asked_by {
            put_extra(&mut progress, ASKED_BY, serde_json::to_value(asker));
        }
        if !limits.is_empty() {
            put_extra(&mut progress, LIMITS, serde_json::to_value(limits));
        }
        ContextSnapshot {
            agent: agent.clone(),
            conversation: conversation.clone(),
            progress,
            configuration: self.configuration.clone().unwrap_or_default(),
        }
    }

    /// Returns the mark of the present state.
    pub(crate) fn mark(&self, conversation: &Conversation) -> Mark {
        Mark {
            n_entries: conversation.entries().len(),
            iterations: self.progress.iterations,
            spent: self.progress.spent,
            n_finished: self.finished.lock().unwrap_or_else(PoisonError::into_inner).len(),
        }
    }

    /// Returns the compactor, with the statistics of this agent's strategies.
    pub(crate) fn compactor(&self, compactor: &ContextCompactor) -> ContextCompactor {
        compactor.clone().informed_by(self.strategies.clone())
    }

    /// Counts a reply.
    pub(crate) fn count_reply(&mut self, reply: &Reply) {
        self.progress.iterations += 1;
        self.progress.turn_iterations += 1;
        self.progress.usage += reply.usage.unwrap_or_default();
    }

    /// Counts the fit of a context.
    pub(crate) fn count_fit(&mut self, fit: &CompactionReport) {
        if fit.trigger.is_none() {
            return;
        }
        for attempt in &fit.attempts {
            self.progress.summary_calls += attempt.model_calls;
            self.progress.summary_usage += attempt.usage;
        }
        self.strategies.take(fit);
    }
}

/// The counters in the statistics of a strategy, in the order in which they are saved.
const COUNTED: [&str; 7] =
    ["tried", "applied", "significant", "satisfied", "failed", "tokens_saved", "model_calls"];
const USAGE: [&str; 4] = ["prompt_tokens", "completion_tokens", "cached_tokens", "cache_written_tokens"];
const COST: [&str; 2] = ["dollars", "unpriced_calls"];

/// Packs the statistics of each strategy as bare numbers, without the zeros at the end: every checkpoint has
/// them.
fn pack(strategies: &StrategyStatistics) -> serde_json::Result<Value> {
    let Value::Object(records) = serde_json::to_value(strategies)? else { return Ok(Value::Null) };
    Ok(records.iter().map(|(id, record)| (id.clone(), pack_one(record))).collect())
}

/// Packs the statistics of one strategy.
fn pack_one(record: &Value) -> Value {
    let counted = COUNTED.iter().map(|name| record[name].clone());
    let usage = USAGE.iter().map(|name| record["usage"][name].clone());
    let cost = COST.iter().map(|name| record["cost"][name].clone());
    let mut all: Vec<Value> = counted.chain(usage).chain(cost).collect();
    while all.last().is_some_and(|last| last.as_f64() == Some(0.0)) {
        all.pop();
    }
    Value::Array(all)
}

/// Unpacks what [`pack`] returned; `None` if it is something else.
fn unpack(packed: &Map<String, Value>) -> Option<StrategyStatistics> {
    let records: Value = packed.iter().map(|(id, numbers)| (id.clone(), unpack_one(numbers))).collect();
    serde_json::from_value(records).ok()
}

/// Unpacks the statistics of one strategy.
fn unpack_one(numbers: &Value) -> Value {
    let mut record = name_numbers(numbers, 0, &COUNTED);
    record.insert("usage".to_owned(), name_numbers(numbers, COUNTED.len(), &USAGE).into());
    record.insert("cost".to_owned(), name_numbers(numbers, COUNTED.len() + USAGE.len(), &COST).into());
    Value::Object(record)
}

/// Returns the numbers at `start` under their names. A number that is missing is zero.
fn name_numbers(numbers: &Value, start: usize, names: &[&str]) -> Map<String, Value> {
    let mut named = Map::new();
    for (at, name) in (start..).zip(names) {
        named.insert((*name).to_owned(), numbers.get(at).cloned().unwrap_or_else(|| 0.into()));
    }
    named
}

/// Saves a value beside the counters.
fn put_extra(progress: &mut Progress, name: &str, value: serde_json::Result<Value>) {
    progress.extra.extend(value.ok().map(|value| (name.to_owned(), value)));
}

/// Takes out a value that was saved beside the counters.
fn take_extra<T: DeserializeOwned>(progress: &mut Progress, name: &str) -> Option<T> {
    serde_json::from_value(progress.extra.remove(name)?).ok()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_record_of_strategies_is_kept_in_few_bytes() {
        let record = |tried: u64, model_calls: u64, cached: u64, dollars: f64| {
            json!({"tried": tried, "applied": 1, "significant": 1, "satisfied": 1, "failed": 0, "tokens_saved": 500,
                "model_calls": model_calls, "usage": {"prompt_tokens": 7 * model_calls, "completion_tokens": 0,
                "cached_tokens": cached, "cache_written_tokens": 0}, "cost": {"dollars": dollars, "unpriced_calls": 0}})
        };
        let json = json!({"extraction": record(2, 0, 0, 0.0), "sliding_window": record(1, 2, 9, 0.0),
            "summarization": record(3, 2, 9, 0.25)});
        let statistics: StrategyStatistics = serde_json::from_value(json).unwrap();
        let Value::Object(kept) = pack(&statistics).unwrap() else { panic!("no mapping") };
        let expected = json!({"extraction": [2, 1, 1, 1, 0, 500], "sliding_window": [1, 1, 1, 1, 0, 500, 2, 14, 0, 9],
            "summarization": [3, 1, 1, 1, 0, 500, 2, 14, 0, 9, 0, 0.25]});
        assert_eq!(Value::Object(kept.clone()), expected);
        assert_eq!(unpack(&kept), Some(statistics));
        assert_eq!(unpack(&Map::new()), Some(StrategyStatistics::default()));
    }
}
