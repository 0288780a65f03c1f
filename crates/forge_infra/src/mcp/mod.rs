//! Tools of other programs, through the Model Context Protocol: servers that are started or reached by HTTP.
//!
//! A server (`server.rs`) is started when an agent that names its tools begins, and restarted a few times if
//! it ends on its own. What it sends is foreign data: it is bounded, stripped of control characters, and
//! marked for the model.

mod connection;
mod content;
mod elicitation;
mod error;
mod listing;
#[cfg(feature = "mcp-oauth")]
mod login;
mod long_answers;
mod offers;
mod server;
mod tokens;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{
    ActionRecorder, MCP_SEPARATOR, McpServerConfig, McpServerId, Person, Reach, ToolCall, ToolDefinition,
    ToolName, ToolResult, ToolService, ToolsUnavailable, UnknownToolError,
};
use futures::future::join_all;

pub use error::McpError;
#[cfg(feature = "mcp-oauth")]
pub use login::{McpLogin, McpLoginError};
pub use tokens::McpTokens;

use self::server::Server;
use crate::CommandSandbox;

/// An event of the MCP servers, for observers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum McpNews<'a> {
    /// A call makes progress.
    Progress {
        /// The tool.
        tool: &'a ToolName,
        /// The progress so far.
        done: f64,
        /// The total, if it is known.
        of: Option<f64>,
        /// The current step, in the server's words.
        message: Option<&'a str>,
    },
    /// A notice for the user.
    Notice(&'a str),
}

/// A function that observes MCP servers.
pub type McpWatcher = Arc<dyn Fn(McpNews<'_>) + Send + Sync>;

/// The findings about a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerReport {
    /// Its name and version, as it gives them.
    pub software: String,
    /// The tools that it offers, under the names by which models call them.
    pub tools: Vec<ToolName>,
    /// The tools that cannot be offered, and why.
    pub refused: Vec<String>,
}

/// The tools of the MCP servers of a workflow, named `server__tool`.
///
/// Nothing is started before [`ToolService::prepare`] asks for it. Until then every name of a configured
/// server counts as known, and has no definition. Dropping this ends the servers that it has started, with
/// all that they started.
pub struct McpTools {
    servers: BTreeMap<McpServerId, Arc<Server>>,
}

impl McpTools {
    /// Creates the tools of `servers`, whose variables come from `environment`; `watcher` is told what
    /// happens. The servers have no sandbox: [`Self::within`] gives them one.
    pub fn new(
        servers: &BTreeMap<McpServerId, McpServerConfig>,
        environment: &BTreeMap<String, String>,
        watcher: &McpWatcher,
    ) -> Self {
        Self::within(servers, environment, watcher, None)
    }

    /// Runs servers that are programs in this sandbox; without a sandbox if it is `None`.
    pub fn within(
        servers: &BTreeMap<McpServerId, McpServerConfig>,
        environment: &BTreeMap<String, String>,
        watcher: &McpWatcher,
        sandbox: Option<&Arc<CommandSandbox>>,
    ) -> Self {
        let server = |(id, config): (&McpServerId, &McpServerConfig)| {
            let server =
                Server::new(id.clone(), config.clone(), environment, Arc::clone(watcher), sandbox.cloned());
            (id.clone(), Arc::new(server))
        };
        Self { servers: servers.iter().map(server).collect() }
    }

    /// Sets the recorder that keeps the starts of the servers.
    #[must_use]
    pub fn recorded_by(self, recorder: &Arc<dyn ActionRecorder>) -> Self {
        for server in self.servers.values() {
            server.record_with(recorder);
        }
        self
    }

    /// Lets servers ask `person`. Without a user, their questions are answered as dismissed.
    #[must_use]
    pub fn asking(self, person: &Arc<dyn Person>) -> Self {
        for server in self.servers.values() {
            server.ask_with(person);
        }
        self
    }

    /// Logs in to servers that have an address with these tokens, if this crate has the feature `mcp-oauth`.
    #[must_use]
    pub fn logging_in_with(self, tokens: &McpTokens) -> Self {
        for server in self.servers.values() {
            server.log_in_with(tokens);
        }
        self
    }

    /// Starts or reaches every server at once, and reports what it found. What it has started keeps running
    /// until [`ToolService::close`].
    pub async fn examine(&self) -> Vec<(McpServerId, Result<McpServerReport, McpError>)> {
        let examined =
            self.servers.iter().map(|(id, server)| async move { (id.clone(), server.examine().await) });
        join_all(examined).await
    }

    fn server_of(&self, name: &ToolName) -> Option<&Arc<Server>> {
        self.servers.iter().find(|(id, _)| id.has(name)).map(|(_, server)| server)
    }

    fn unknown(&self, name: &ToolName) -> UnknownToolError {
        let known: Vec<String> = match self.server_of(name) {
            Some(server) => server.names().iter().map(ToString::to_string).collect(),
            None => self.servers.keys().map(|id| format!("{id}{MCP_SEPARATOR}*")).collect(),
        };
        UnknownToolError { name: name.clone(), known: known.join(", ") }
    }
}

#[async_trait]
impl ToolService for McpTools {
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        let mut definitions: Vec<ToolDefinition> = Vec::new();
        for name in names {
            let server = self.server_of(name).ok_or_else(|| self.unknown(name))?;
            let found = server.definitions(name).ok_or_else(|| self.unknown(name))?;
            definitions.extend(found);
        }
        Ok(definitions)
    }

    /// Returns the widest reach: what a foreign tool does is unknown, so it counts as one that may write and
    /// send data.
    async fn reach(&self, _call: &ToolCall) -> Reach {
        Reach::careful()
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        match self.server_of(&call.name) {
            Some(server) => server.call(call).await,
            None => ToolResult::error(call, self.unknown(&call.name).to_string()),
        }
    }

    async fn prepare(&self, names: &[ToolName]) -> Result<u64, ToolsUnavailable> {
        let needed = self.servers.iter().filter(|(id, _)| names.iter().any(|name| id.has(name)));
        let ready = join_all(needed.map(|(id, server)| async move { (id, server.ready().await) })).await;
        let mut revision = 0;
        for (id, ready) in ready {
            revision += ready.map_err(|error| ToolsUnavailable {
                what: format!("MCP server `{id}`"),
                source: Box::new(error),
            })?;
        }
        Ok(revision)
    }

    async fn resource(&self, server: &str, uri: &str) -> Option<Result<String, String>> {
        let (_, server) = self.servers.iter().find(|(id, _)| id.as_str() == server)?;
        Some(server.resource(uri).await)
    }

    async fn prompt(&self, server: &str, name: &str, arguments: &str) -> Option<Result<String, String>> {
        let (_, server) = self.servers.iter().find(|(id, _)| id.as_str() == server)?;
        Some(server.prompt(name, arguments).await)
    }

    async fn close(&self) {
        join_all(self.servers.values().map(|server| server.close())).await;
    }
}
