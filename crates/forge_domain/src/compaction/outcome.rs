//! The outcome of a compaction and of every attempt at it.

use serde::Serialize;

use super::{CompactionImpact, Loss, Trigger};
use crate::{Context, ContextMessage, Cost, Size, StillOver, StrategyId, Usage};

/// The outcome of a compaction. It holds no time: the caller measures around it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// No trigger was exceeded.
    NotTriggered,
    /// The context is smaller now.
    Applied {
        /// The strategies that made it so, in order.
        strategies: Vec<StrategyId>,
        /// The effect of all of them together, and what yielded.
        impact: CompactionImpact,
    },
    /// It was due, but nothing worth its cost could leave.
    NothingToCut,
    /// A hook denied it; it is put off until the next call.
    Vetoed {
        /// The hook.
        by: String,
        /// The reason.
        reason: String,
    },
    /// The parts that must stay exceed the room; nothing was sent.
    StillOver(StillOver),
}

impl Outcome {
    /// Returns the word for it, in JSON and in logs.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::NotTriggered => "not_triggered",
            Self::Applied { .. } => "applied",
            Self::NothingToCut => "nothing_to_cut",
            Self::Vetoed { .. } => "vetoed",
            Self::StillOver(_) => "still_over",
        }
    }
}

/// One strategy's attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Attempt {
    /// The strategy.
    pub strategy: StrategyId,
    /// The strategies whose result it continued from, in order; empty if it started from the original.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub after: Vec<StrategyId>,
    /// The verdict.
    pub verdict: AttemptVerdict,
    /// The loss; known if the choice depends on it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Loss>,
    /// Requests that it sent to models, those that failed among them.
    pub model_calls: usize,
    /// The usage of these requests, as far as the provider reported it.
    pub usage: Usage,
    /// The cost of these requests.
    pub cost: Cost,
}

/// The result of an attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AttemptVerdict {
    /// There was nothing for it to do.
    NotApplicable,
    /// Every target holds.
    Satisfied(CompactionImpact),
    /// It saved enough to be worth it, but a target or trigger is still exceeded.
    Significant(CompactionImpact),
    /// It saved too little to be worth it.
    Insignificant(CompactionImpact),
    /// It gave up, or its result broke a rule.
    Failed {
        /// The reason.
        reason: String,
    },
}

/// A report about one compaction, for people, traces and tests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompactionReport {
    /// The reason why it was due; `None` if it was not.
    pub trigger: Option<Trigger>,
    /// The outcome.
    pub outcome: Outcome,
    /// The text of the messages that replace those that left: records, summaries and omission markers, in
    /// order. `None` if nothing was applied, or if messages left or were shortened and nothing replaces them.
    pub summary: Option<String>,
    /// Every attempt, in order.
    pub attempts: Vec<Attempt>,
    /// The context before.
    pub before: Size,
    /// The context after; as before if nothing was applied.
    pub after: Size,
}

impl CompactionReport {
    /// Returns the text that compaction wrote into `after` and that was not in `before`, as [`Self::summary`]
    /// holds it.
    pub fn summary_of(before: &Context, after: &Context) -> Option<String> {
        let known =
            |message: &ContextMessage| before.messages().iter().any(|other| other.is_same_as(message));
        let texts: Vec<String> = after
            .messages()
            .iter()
            .filter(|message| message.message().is_compacted && !known(message))
            .map(|message| message.message().to_text())
            .collect();
        (!texts.is_empty()).then(|| texts.join("\n\n"))
    }

    /// Requests that all its attempts sent to models.
    pub fn model_calls(&self) -> usize {
        self.attempts.iter().map(|attempt| attempt.model_calls).sum()
    }

    /// Returns the usage of these requests.
    pub fn usage(&self) -> Usage {
        let mut usage = Usage::default();
        self.attempts.iter().for_each(|attempt| usage += attempt.usage);
        usage
    }

    /// Returns the cost of these requests.
    pub fn cost(&self) -> Cost {
        let mut cost = Cost::default();
        self.attempts.iter().for_each(|attempt| cost += attempt.cost);
        cost
    }
}
