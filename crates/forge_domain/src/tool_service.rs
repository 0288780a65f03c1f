//! The port through which tools run.

use async_trait::async_trait;

use crate::{CallScope, Reach, ToolCall, ToolDefinition, ToolName, ToolResult};

/// An agent asks for a tool that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{name}`; known are: {known}")]
pub struct UnknownToolError {
    /// The name asked for.
    pub name: ToolName,
    /// The names there are, separated by commas.
    pub known: String,
}

/// Tools that are elsewhere cannot be had.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct ToolsUnavailable {
    /// Where they are, in words.
    pub what: String,
    /// Why not.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
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

    /// Runs one call within `scope`: what the rules deny below a folder that the call looks into is left out, and the answer says
    /// so. A service that never names a [`Subject::Below`](crate::Subject::Below) need not care.
    async fn call_within(&self, call: &ToolCall, _scope: &CallScope) -> ToolResult {
        self.call(call).await
    }

    /// Makes the tools named, which may be patterns, ready to be told of and called, before a model is asked: what is elsewhere is
    /// started or asked what it has. The number that comes back is another one where [`Self::definitions`] may have changed. Does
    /// nothing where all is at hand.
    ///
    /// # Errors
    /// [`ToolsUnavailable`] where some of them never were to be had.
    async fn prepare(&self, _names: &[ToolName]) -> Result<u64, ToolsUnavailable> {
        Ok(0)
    }

    /// Lets go of what it has started. What is needed later is made ready anew.
    async fn close(&self) {}
}
