//! Tools of other programs, in the Model Context Protocol: servers that are started or reached by HTTP.
//!
//! A server (`server.rs`) is started when an agent that names its tools begins, and again, a few times, where it has
//! ended by itself. What it says is data of a stranger: bounded, without control characters, and marked for the model.

mod connection;
mod content;
mod error;
mod listing;
mod server;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{
    ActionRecorder, MCP_SEPARATOR, McpServerConfig, McpServerId, Reach, ToolCall, ToolDefinition, ToolName,
    ToolResult, ToolService, ToolsUnavailable, UnknownToolError,
};
use futures::future::join_all;

pub use error::McpError;

use self::server::Server;
use crate::CommandSandbox;

/// What happens with MCP servers, for those who watch.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub enum McpNews<'a> {
    /// A call makes progress.
    Progress {
        /// The tool.
        tool: &'a ToolName,
        /// How far it is.
        done: f64,
        /// How far it goes, where that is known.
        of: Option<f64>,
        /// What it does, in the server's words.
        message: Option<&'a str>,
    },
    /// Something that the person should know.
    Notice(&'a str),
}

/// Watches MCP servers.
pub type McpWatcher = Arc<dyn Fn(McpNews<'_>) + Send + Sync>;

/// What a server turned out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct McpServerReport {
    /// Its name and version, as it gives them.
    pub software: String,
    /// The tools that it offers, under the names by which models call them.
    pub tools: Vec<ToolName>,
    /// What cannot be offered, and why.
    pub refused: Vec<String>,
}

/// The tools of the MCP servers of a workflow, named `server__tool`.
///
/// Nothing is started before [`ToolService::prepare`] asks for it. Until then every name of a configured server counts as known, and
/// nothing is told of it. Dropping it ends the servers that it has started, with all that they started.
pub struct McpTools {
    servers: BTreeMap<McpServerId, Arc<Server>>,
}

impl McpTools {
    /// The tools of `servers`, whose variables come from `environment`; `watcher` is told what happens.
    pub fn new(
        servers: &BTreeMap<McpServerId, McpServerConfig>,
        environment: &BTreeMap<String, String>,
        watcher: &McpWatcher,
    ) -> Self {
        Self::within(servers, environment, watcher, None)
    }

    /// The same, where servers that are programs run in this sandbox; in none if there is none.
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

    /// The same, which keeps the starts of its servers with `recorder`.
    #[must_use]
    pub fn recorded_by(self, recorder: &Arc<dyn ActionRecorder>) -> Self {
        for server in self.servers.values() {
            server.record_with(recorder);
        }
        self
    }

    /// Starts or reaches every server, at once, and says what it found; what it has started goes on until [`ToolService::close`].
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

    /// What a stranger's tool does is not known: it may write and tell as any other that has to be asked for.
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

    async fn close(&self) {
        join_all(self.servers.values().map(|server| server.close())).await;
    }
}
