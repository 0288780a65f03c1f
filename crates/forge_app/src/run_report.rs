//! What came of a run, and why it failed where it did.

use std::fmt;

use forge_domain::compaction::{CompactError, CompactionReport};
use forge_domain::{
    ModelError, ProviderError, RecordError, SinkError, StillOver, TemplateError, UnknownToolError, Usage,
};

/// What came of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct RunReport {
    /// What the agent said last.
    pub response: String,
    /// Calls to the model.
    pub iterations: usize,
    /// Every compaction that was due, in order.
    pub outcomes: Vec<CompactionReport>,
    /// What the provider says all calls consumed, those for summaries apart.
    pub usage: Usage,
    /// Why it ended.
    pub stop: StopReason,
}

/// Why a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// The model called no tool.
    Done,
    /// The agent's `max_iterations` was reached.
    MaxIterations(usize),
    /// The agent's `max_turns` was reached.
    MaxTurns(usize),
}

impl fmt::Display for StopReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Done => f.write_str("done"),
            Self::MaxIterations(limit) => write!(f, "stopped: max_iterations ({limit}) is reached"),
            Self::MaxTurns(limit) => write!(f, "stopped: max_turns ({limit}) is reached"),
        }
    }
}

/// Why a run failed. The conversation is as it was after the last step that succeeded.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// There is no agent of that name.
    #[error("there is no agent `{agent}`; known are: {known}")]
    UnknownAgent {
        /// The name asked for.
        agent: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// No agent subscribes to the event.
    #[error(
        "no agent subscribes to the event `{event}`: name one with --agent, or add `subscribe: [{event}]` to one"
    )]
    NobodyListens {
        /// The event's name.
        event: String,
    },
    /// The agent has no model.
    #[error("agent `{agent}` has no model: set `model` in forge.yaml, FORGE_MODEL or --model")]
    NoModel {
        /// The agent.
        agent: String,
    },
    /// The model leads to no provider.
    #[error("agent `{agent}`: {source}")]
    Model {
        /// The agent.
        agent: String,
        /// Why not.
        #[source]
        source: ModelError,
    },
    /// The agent asks for a tool that is not there.
    #[error("agent `{agent}`: {source}")]
    Tools {
        /// The agent.
        agent: String,
        /// Which.
        #[source]
        source: UnknownToolError,
    },
    /// The agent's `compact:` block contradicts itself.
    #[error("agent `{agent}`, compact: {source}")]
    Compact {
        /// The agent.
        agent: String,
        /// How.
        #[source]
        source: CompactError,
    },
    /// A prompt could not be rendered.
    #[error(transparent)]
    Template(TemplateError),
    /// The context cannot be made to fit; nothing was sent.
    #[error(transparent)]
    StillOver(StillOver),
    /// The model gave no reply.
    #[error(transparent)]
    Provider(ProviderError),
    /// A compaction did not belong to its conversation.
    #[error(transparent)]
    Record(RecordError),
    /// The session could not be written.
    #[error(transparent)]
    Sink(SinkError),
}
