//! The port through which tools run.

use async_trait::async_trait;

use crate::{Reach, ToolCall, ToolDefinition, ToolName, ToolResult};

/// An agent asks for a tool that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{name}`; known are: {known}")]
pub struct UnknownToolError {
    /// The name asked for.
    pub name: ToolName,
    /// The names there are, separated by commas.
    pub known: String,
}

/// Runs tools. A tool that fails is a result that says so: the model reads it and goes on.
#[async_trait]
pub trait ToolService: Send + Sync {
    /// What the model is told of the tools named.
    ///
    /// # Errors
    /// [`UnknownToolError`] for the first name that is not there.
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError>;

    /// What `call` would touch, which decides by the rules whether it may be made. Nothing is done yet. A service that says
    /// nothing of it leaves every call free.
    async fn reach(&self, _call: &ToolCall) -> Reach {
        Reach::free()
    }

    /// Runs one call and answers it.
    async fn call(&self, call: &ToolCall) -> ToolResult;
}
