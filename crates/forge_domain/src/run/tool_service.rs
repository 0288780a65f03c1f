//! The port through which tools run.

use async_trait::async_trait;

use crate::{CallScope, FileChange, Reach, ToolCall, ToolDefinition, ToolName, ToolResult};

/// An agent asks for a tool that is not there.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool `{name}` (expected one of {known})")]
pub struct UnknownToolError {
    /// The requested name.
    pub name: ToolName,
    /// The names there are, separated by commas.
    pub known: String,
}

/// The reason why remote tools are not available.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {source}")]
pub struct ToolsUnavailable {
    /// The place of the tools, in words.
    pub what: String,
    /// The cause.
    #[source]
    pub source: Box<dyn std::error::Error + Send + Sync>,
}

/// A runner of tools. A tool that fails returns a result that tells so: the model reads it and continues.
#[async_trait]
pub trait ToolService: Send + Sync {
    /// Returns the descriptions of the named tools for the model.
    ///
    /// # Errors
    /// [`UnknownToolError`] for the first name that is not there.
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError>;

    /// Returns what `call` would touch, by which the rules decide whether it may be made. Nothing is done
    /// yet. The default leaves every call free.
    async fn reach(&self, _call: &ToolCall) -> Reach {
        Reach::free()
    }

    /// Returns the change that `call` would make to a file now, for the user who is asked for it. Nothing is
    /// done yet. The default knows of none.
    async fn preview(&self, _call: &ToolCall) -> Option<FileChange> {
        None
    }

    /// Runs one call and answers it. The engine gives the result the id and the name of the call, whatever
    /// it holds.
    ///
    /// The run waits for the future however long it takes, so a tool limits its time itself; dropping the
    /// future cancels the call. A panic in it becomes an error result, and the run continues.
    async fn call(&self, call: &ToolCall) -> ToolResult;

    /// Runs one call within `scope`: what the rules deny below a folder that the call searches is left out,
    /// and the answer reports it. A service that never names a [`Subject::Below`](crate::Subject::Below) can
    /// ignore it.
    async fn call_within(&self, call: &ToolCall, _scope: &CallScope) -> ToolResult {
        self.call(call).await
    }

    /// Prepares the named tools, which may be patterns, before a model is asked: remote ones are started or
    /// asked for their list. The returned number changes when [`Self::definitions`] may have changed. Does
    /// nothing if all are local.
    ///
    /// # Errors
    /// [`ToolsUnavailable`] if some of them never were to be had.
    async fn prepare(&self, _names: &[ToolName]) -> Result<u64, ToolsUnavailable> {
        Ok(0)
    }

    /// Returns the text of the resource `uri` of the server named `server`, or why it is missing. `None` if
    /// there is no such server.
    async fn resource(&self, _server: &str, _uri: &str) -> Option<Result<String, String>> {
        None
    }

    /// Returns the text of the prompt `name` of the server named `server`, or why it is missing. `None` if
    /// there is no such server.
    async fn prompt(&self, _server: &str, _name: &str, _arguments: &str) -> Option<Result<String, String>> {
        None
    }

    /// Releases what it has started. What is needed later is prepared again.
    async fn close(&self) {}
}
