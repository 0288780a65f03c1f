//! The answers that a run waits for.

use serde::{Deserialize, Serialize};

use crate::{AgentId, FileChange, Question, Subject, ToolName};

/// Something that a run waits for. It is part of the checkpoint: the answer may come in days, to a process on
/// another machine.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Awaited {
    /// The name by which it is answered, such as `coder-6-1`: the agent, its calls to the model until then,
    /// and the place of the tool call in the reply.
    pub id: String,
    /// The agent that waits.
    pub agent: AgentId,
    /// The id of the tool call that waits.
    pub call: String,
    /// The wish.
    pub request: AwaitedRequest,
}

/// A wish that only a person can fulfil.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AwaitedRequest {
    /// Consent to a call.
    Consent {
        /// The tool that would be called.
        tool: ToolName,
        /// The arguments of the call, as JSON.
        arguments: String,
        /// The subjects that the rules ask about.
        about: Vec<Subject>,
        /// The change that it would make to a file. The consent is to this one alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        change: Option<FileChange>,
    },
    /// An answer to a question of the model's.
    Answer(Question),
}
