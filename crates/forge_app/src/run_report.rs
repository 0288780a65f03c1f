//! The report of a run, and the errors of one that failed.

use std::fmt;

use forge_domain::compaction::{CompactError, CompactionReport, StrategyStatistics};
use forge_domain::{
    AgentId, Cost, ModelError, Overspend, Progress, ProviderError, RecordError, Spent, StillOver, StoreError,
    TemplateError, ToolName, ToolsUnavailable, UnknownToolError, UnsupportedReasoning, Usage, quantity,
};
use serde::Serialize;

use crate::CheckpointTally;
use crate::checkpointing::HoldError;

/// The report of a run.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunReport {
    /// The agent's last answer.
    pub response: String,
    /// The last answer of each agent that an event started, in the order in which they began.
    pub responses: Vec<AgentResponse>,
    /// The tool calls that were not made because they were not allowed, sub-agents' included.
    pub denials: Vec<DeniedCall>,
    /// Calls to the model.
    pub iterations: usize,
    /// Every compaction that was due, in order.
    pub outcomes: Vec<CompactionReport>,
    /// The statistics of each strategy.
    pub strategies: StrategyStatistics,
    /// The usage that the provider reported for all calls, without those for summaries.
    pub usage: Usage,
    /// The cost of these calls, including those that broke off.
    pub cost: Cost,
    /// Requests sent to summarizers.
    pub summary_calls: usize,
    /// The usage of the requests to summarizers, including failed attempts.
    pub summary_usage: Usage,
    /// The cost of the requests to summarizers.
    pub summary_cost: Cost,
    /// The counters of the last agent since its work began, over all processes.
    pub progress: Progress,
    /// The consumption of all agents since the run began, over all processes.
    pub totals: RunTotals,
    /// The tally of the checkpoints in this process; `None` if none are saved.
    pub checkpoints: Option<CheckpointTally>,
    /// The reason why it ended.
    pub stop: StopReason,
}

impl RunReport {
    /// Creates an empty report, which ends for `stop`.
    pub(crate) fn empty(stop: StopReason) -> Self {
        Self {
            response: String::new(),
            responses: Vec::new(),
            denials: Vec::new(),
            iterations: 0,
            outcomes: Vec::new(),
            strategies: StrategyStatistics::default(),
            usage: Usage::default(),
            cost: Cost::default(),
            summary_calls: 0,
            summary_usage: Usage::default(),
            summary_cost: Cost::default(),
            progress: Progress::default(),
            totals: RunTotals::default(),
            checkpoints: None,
            stop,
        }
    }

    /// Counts the fit of a context.
    pub(crate) fn count_fit(&mut self, fit: CompactionReport) {
        if fit.trigger.is_none() {
            return;
        }
        self.summary_calls += fit.model_calls();
        self.summary_usage += fit.usage();
        self.summary_cost += fit.cost();
        self.strategies.take(&fit);
        self.outcomes.push(fit);
    }

    /// Adds the report of a later agent or turn, which has the last word.
    #[must_use]
    pub fn then(mut self, later: Self) -> Self {
        self.outcomes.extend(later.outcomes);
        self.denials.extend(later.denials);
        for response in later.responses {
            match self.responses.iter_mut().find(|known| known.agent == response.agent) {
                Some(known) => *known = response,
                None => self.responses.push(response),
            }
        }
        self.usage += later.usage;
        self.summary_usage += later.summary_usage;
        self.cost += later.cost;
        self.summary_cost += later.summary_cost;
        Self {
            response: later.response,
            iterations: self.iterations + later.iterations,
            strategies: self.strategies.and(later.strategies),
            summary_calls: self.summary_calls + later.summary_calls,
            progress: later.progress,
            totals: later.totals,
            checkpoints: later.checkpoints,
            stop: later.stop,
            ..self
        }
    }
}

impl RunReport {
    /// Adds the report of an agent that ran later on the same event. The run is done only if both are.
    #[must_use]
    pub(crate) fn beside(self, later: Self) -> Self {
        let is_later = self.stop == StopReason::Done || later.stop.is_pause();
        let stop = if is_later { &later.stop } else { &self.stop };
        let stop = stop.clone();
        Self { stop, ..self.then(later) }
    }
}

/// The consumption of all agents of a run since it began.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunTotals {
    /// Calls to models, without those for summaries.
    pub calls: usize,
    /// The usage that the provider reported for these calls.
    pub usage: Usage,
    /// The tokens and the cost of all calls, of those for summaries and of those that broke off.
    pub spent: Spent,
}

/// A tool call that was not made because it was not allowed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeniedCall {
    /// The agent that wanted to make it.
    pub agent: AgentId,
    /// The tool.
    pub tool: ToolName,
    /// The call's id, unique within its message.
    pub call_id: String,
    /// Its arguments, as JSON; they are not in the report, which may go further than the conversation.
    #[serde(skip)]
    pub arguments: String,
    /// The subjects that were denied; empty for a tool without any.
    pub about: Vec<String>,
    /// The reason.
    pub by: DeniedBy,
    /// The flags that would have allowed it.
    #[serde(skip)]
    pub remedy: Remedy,
}

/// The flags of the command line that would have allowed a call in advance.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remedy {
    /// True if the mode `edits` would have.
    pub edits: bool,
    /// The rule that would have, as the command line writes it.
    pub rule: Option<String>,
    /// True if the consent to everything would have.
    pub everything: bool,
}

/// The reason why a call was denied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum DeniedBy {
    /// A rule.
    Rule,
    /// The mode `plan`.
    Mode,
    /// The user, when they were asked.
    User,
    /// It needs consent, and no one could answer.
    Nobody,
    /// A hook.
    Hook,
}

impl DeniedBy {
    /// Checks whether it leaves a run incomplete: the user neither decided it nor asked for it.
    pub const fn leaves_work(self) -> bool {
        matches!(self, Self::Rule | Self::Nobody)
    }
}

/// The answer of one agent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct AgentResponse {
    /// The agent.
    pub agent: AgentId,
    /// Its last answer.
    pub response: String,
}

/// A reason why a turn ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// The model called no tool.
    Done,
    /// The model called no tool because its reply was cut at the limit of its output.
    Cut,
    /// The provider withheld the rest of the reply.
    Withheld,
    /// The model gave no answer and called no tool, even when it was asked again.
    NoAnswer,
    /// The agent's `max_iterations` was reached.
    MaxIterations(usize),
    /// The agent's `max_turns` was reached.
    MaxTurns(usize),
    /// The agents emitted that many events for one another, and some are left.
    MaxEvents(usize),
    /// The next call would have exceeded the agent's budget, or that of the whole run. It was not made.
    BudgetSpent(Overspend),
    /// The agent's `max_repetitions` was reached: the same calls had the same results.
    Repeating {
        /// The number of repetitions.
        times: usize,
        /// The tools, separated by commas.
        tools: String,
        /// True if the results differed in numbers, which five times as many repetitions may do.
        do_numbers_differ: bool,
    },
    /// A hook denied the call of the model, or the whole run.
    Denied {
        /// The hook.
        hook: String,
        /// Its reason; may be empty.
        reason: String,
    },
    /// The limits of the slice were reached: the turn is resumed from here.
    Paused,
    /// Tool calls wait for what a person will say later: the turn is resumed with the answers.
    Waiting,
}

impl StopReason {
    /// Checks whether the turn is not over: it is resumed where it stopped.
    pub const fn is_pause(&self) -> bool {
        matches!(self, Self::Paused | Self::Waiting)
    }

    /// Returns the word for it, as in JSON.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Cut => "cut",
            Self::Withheld => "withheld",
            Self::NoAnswer => "no_answer",
            Self::MaxIterations(_) => "max_iterations",
            Self::MaxTurns(_) => "max_turns",
            Self::MaxEvents(_) => "max_events",
            Self::BudgetSpent(_) => "budget_spent",
            Self::Repeating { .. } => "repeating",
            Self::Denied { .. } => "denied",
            Self::Paused => "paused",
            Self::Waiting => "waiting",
        }
    }
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::Cut => f.write_str("stopped: the reply reached its output limit (max_output_tokens)"),
            Self::Withheld => f.write_str("stopped: the provider withheld the rest of the reply"),
            Self::NoAnswer => {
                f.write_str("stopped: the model gave no answer: several replies in a row were empty, or had a call as text")
            }
            Self::MaxIterations(limit) => write!(f, "stopped: max_iterations ({limit}) is reached"),
            Self::MaxTurns(limit) => write!(f, "stopped: max_turns ({limit}) is reached"),
            Self::MaxEvents(limit) => write!(
                f,
                "stopped: agents emitted {} for one another, the most in one run; the rest waits",
                quantity(limit, "event")
            ),
            Self::BudgetSpent(over) => write!(f, "stopped: {over}"),
            Self::Repeating { times, tools, do_numbers_differ } => write!(
                f,
                "stopped: the same calls ({tools}) had the same results{} {} (max_repetitions)",
                if *do_numbers_differ { ", apart from numbers," } else { "" },
                quantity(times, "time")
            ),
            Self::Paused => f.write_str("paused: the slice is over"),
            Self::Waiting => {
                f.write_str("waiting: someone has to consent to a call, or to answer a question")
            }
            Self::Denied { hook, reason } => {
                write!(f, "stopped: denied by the hook `{}`{}", first_line(hook), in_parentheses(reason))
            }
        }
    }
}

/// An error that ended a run. The conversation is as it was after the last step that succeeded.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no agent of that name.
    #[error("there is no agent `{agent}` (expected one of {known})")]
    UnknownAgent {
        /// The name asked for.
        agent: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// Another process has taken the run over. Nothing more is asked, called or saved here.
    #[error("{source}")]
    Fenced {
        /// [`StoreError::Fenced`].
        #[source]
        source: StoreError,
    },
    /// The run is not saved, and nothing may be done that is not saved before.
    #[error("the run stops, because it cannot be saved: {why}")]
    Unsaved {
        /// The reason.
        why: String,
    },
    /// No agent subscribes to the event.
    #[error(
        "no agent subscribes to the event `{event}`: name the agent that is to start ({known}), or add \
         `subscribe: [{event}]` to it"
    )]
    NobodyListens {
        /// The event's name.
        event: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// The agent has no model.
    #[error("agent `{agent}` has no model: set its `model`")]
    NoModel {
        /// The agent.
        agent: String,
    },
    /// The model leads to no provider.
    #[error("agent `{agent}`: {source}")]
    Model {
        /// The agent.
        agent: String,
        /// The reason.
        #[source]
        source: ModelError,
    },
    /// The model does not have what the agent sets of its reasoning.
    #[error("agent `{agent}`: {source}")]
    Reasoning {
        /// The agent.
        agent: String,
        /// The reason.
        #[source]
        source: UnsupportedReasoning,
    },
    /// The model reads no images, and the conversation has some.
    #[error(
        "agent `{agent}`: the model `{model}` reads no images: leave them out, or use another model. If it does read \
         them, set `models: {{ '{model}': {{ images: true }} }}`"
    )]
    NoImages {
        /// The agent.
        agent: String,
        /// The model, as `provider:model`.
        model: String,
    },
    /// The agent asks for a tool that is not there.
    #[error("agent `{agent}`: {source}")]
    Tools {
        /// The agent.
        agent: String,
        /// The tool.
        #[source]
        source: UnknownToolError,
    },
    /// Tools that the agent names are not available.
    #[error("agent `{agent}`: {source}")]
    ToolsUnavailable {
        /// The agent.
        agent: String,
        /// The place of the tools, and the reason.
        #[source]
        source: ToolsUnavailable,
    },
    /// The agent's `compact:` block contradicts itself.
    #[error("agent `{agent}`, compact: {source}")]
    Compact {
        /// The agent.
        agent: String,
        /// The contradiction.
        #[source]
        source: CompactError,
    },
    /// A budget in money applies to a model whose price is not known.
    #[error(
        "agent `{agent}` has a budget in money, but the price of `{model}` is unknown: set `models: {{ '{model}': {{ \
         price: {{ input: N, output: N }} }} }}` in dollars per million tokens, or a budget in tokens"
    )]
    Unpriced {
        /// The agent.
        agent: String,
        /// The model, as `provider:model`.
        model: String,
    },
    /// A prompt could not be rendered.
    #[error(transparent)]
    Template(TemplateError),
    /// The context cannot be made to fit. Nothing was sent.
    #[error(transparent)]
    StillOver(StillOver),
    /// The context exceeds the window and a hook denied to compact it. Nothing was sent.
    #[error(
        "the hook `{}` denied a compaction that the window demands{}: {over}",
        first_line(hook),
        in_parentheses(reason)
    )]
    Denied {
        /// The hook.
        hook: String,
        /// Its reason; may be empty.
        reason: String,
        /// The tokens that the context needs, and those that are available.
        over: StillOver,
    },
    /// The context exceeds the window and the agent's `auto_compact: false` forbids to compact it. Nothing
    /// was sent.
    #[error("`auto_compact: false` of agent `{agent}` forbids a compaction that the window demands: {over}")]
    SwitchedOff {
        /// The agent.
        agent: String,
        /// The tokens that the context needs, and those that are available.
        over: StillOver,
    },
    /// The model gave no reply.
    #[error(transparent)]
    Provider(ProviderError),
    /// A compaction did not belong to its conversation.
    #[error(transparent)]
    Record(RecordError),
    /// There is no state to resume from.
    #[error("there is nothing to resume: no run was restored")]
    NothingToResume,
}

impl From<HoldError> for RunError {
    fn from(error: HoldError) -> Self {
        match error {
            HoldError::Fenced(source) => Self::Fenced { source },
            HoldError::Unsaved(why) => Self::Unsaved { why },
        }
    }
}

impl RunError {
    /// Returns the error's name in traces and metrics. It never changes and contains no message.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::UnknownAgent { .. } => "unknown_agent",
            Self::Fenced { .. } => "fenced",
            Self::Unsaved { .. } => "unsaved",
            Self::NobodyListens { .. } => "nobody_listens",
            Self::NoModel { .. } | Self::Model { .. } | Self::Reasoning { .. } | Self::NoImages { .. } => {
                "model"
            }
            Self::Tools { .. } => "unknown_tool",
            Self::ToolsUnavailable { .. } => "tools_unavailable",
            Self::Compact { .. } => "compact",
            Self::Unpriced { .. } => "unpriced",
            Self::Template(_) => "template",
            Self::StillOver(_) => "still_over",
            Self::Denied { .. } => "denied",
            Self::SwitchedOff { .. } => "switched_off",
            Self::Provider(error) => error.name(),
            Self::Record(_) => "record",
            Self::NothingToResume => "nothing_to_resume",
        }
    }

    /// Returns the need and the available tokens if the context exceeded the window, for any reason.
    pub const fn still_over(&self) -> Option<&StillOver> {
        match self {
            Self::StillOver(over) | Self::Denied { over, .. } | Self::SwitchedOff { over, .. } => Some(over),
            _ => None,
        }
    }
}

fn in_parentheses(reason: &str) -> String {
    if reason.trim().is_empty() { String::new() } else { format!(" ({})", reason.trim()) }
}

/// Returns the first line of a hook's command, marked if others follow.
fn first_line(hook: &str) -> String {
    let mut lines = hook.trim().lines();
    let first = lines.next().unwrap_or_default().to_owned();
    if lines.next().is_some() { first + " …" } else { first }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_hook_is_named_by_the_first_line_of_its_command() {
        for (hook, reason, expected) in [
            ("./check.sh", "", "stopped: denied by the hook `./check.sh`"),
            ("./check.sh\n", " busy\n", "stopped: denied by the hook `./check.sh` (busy)"),
            ("cat >> log\nexit 1\n", "", "stopped: denied by the hook `cat >> log …`"),
        ] {
            let stop = StopReason::Denied { hook: hook.to_owned(), reason: reason.to_owned() };
            assert_eq!(stop.to_string(), expected);
        }
    }
}
