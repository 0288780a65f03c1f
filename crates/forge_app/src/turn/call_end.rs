//! The end of a tool call: with a result, or not yet.

use forge_domain::{AwaitedRequest, ToolResult};

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
