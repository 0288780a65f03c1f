//! The end of a tool call: with a result, or not yet.

use forge_domain::{AgentId, AwaitedRequest, Question, Subject, ToolName, ToolResult};

/// The end of a call in this process.
pub(super) enum CallEnd {
    /// It has a result.
    Done(ToolResult),
    /// It was not made, because someone decides on it later; `None` if the agent that it calls waits.
    Waits(Option<AwaitedRequest>),
}

impl From<ToolResult> for CallEnd {
    fn from(result: ToolResult) -> Self {
        Self::Done(result)
    }
}

/// Returns the notice that `agent` waits for a person.
pub(super) fn wait_notice(agent: &AgentId, request: &AwaitedRequest) -> String {
    match request {
        AwaitedRequest::Consent { tool, about, .. } => consent_notice(agent, tool, about),
        AwaitedRequest::Answer(question) => question_notice(agent, question),
    }
}

/// Returns the notice that a call of `agent` needs consent.
pub(super) fn consent_notice(agent: &AgentId, tool: &ToolName, about: &[Subject]) -> String {
    let about: Vec<String> = about.iter().map(ToString::to_string).collect();
    let what = if about.is_empty() { String::new() } else { format!(" ({})", about.join(", ")) };
    format!("{agent} needs consent to call {tool}{what}")
}

/// Returns the notice that `agent` asks the user something.
pub(super) fn question_notice(agent: &AgentId, question: &Question) -> String {
    format!("{agent} asks: {}", question.text)
}
