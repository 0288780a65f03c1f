//! The tools of a run: the built-in ones and those of MCP servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use forge_app::{ActionLog, Watcher};
#[cfg(feature = "mcp")]
use forge_app::{Check, Health, RunEvent};
#[cfg(feature = "mcp")]
use forge_domain::ActionRecorder;
#[cfg(feature = "mcp")]
use forge_domain::McpServerConfig;
use forge_domain::{Person, ToolService, Workflow, quantity};
use forge_infra::CommandSandbox;
#[cfg(feature = "mcp")]
use forge_infra::{McpNews, McpTokens, McpTools, McpWatcher};
use forge_services::JoinedTools;

#[cfg(feature = "mcp")]
use crate::places;

/// Joins the `built_in` tools and those of the workflow's servers. Servers get their variables from
/// `environment`, report to `watcher` and may ask `person`; none is started yet.
pub(crate) fn join_tools(
    workflow: &Workflow,
    built_in: Arc<dyn ToolService>,
    environment: &BTreeMap<String, String>,
    watcher: &Watcher,
    person: &Arc<dyn Person>,
    sandbox: Option<&Arc<CommandSandbox>>,
    actions: &ActionLog,
) -> Arc<dyn ToolService> {
    match of_servers(workflow, environment, watcher, person, sandbox, actions) {
        Some(servers) => Arc::new(JoinedTools::new([built_in, servers])),
        None => built_in,
    }
}

#[cfg(feature = "mcp")]
fn of_servers(
    workflow: &Workflow,
    environment: &BTreeMap<String, String>,
    watcher: &Watcher,
    person: &Arc<dyn Person>,
    sandbox: Option<&Arc<CommandSandbox>>,
    actions: &ActionLog,
) -> Option<Arc<dyn ToolService>> {
    let recorder: Arc<dyn ActionRecorder> = Arc::new(actions.clone());
    let servers = &workflow.mcp_servers;
    let watcher = Arc::clone(watcher);
    let told: McpWatcher = Arc::new(move |news| match news {
        McpNews::Progress { tool, done, of, message } => {
            watcher(&RunEvent::ToolProgress { tool, done, of, message });
        }
        McpNews::Notice(notice) => watcher(&RunEvent::Notice(notice)),
        _ => {}
    });
    if servers.is_empty() {
        return None;
    }
    let tools = McpTools::within(servers, environment, &told, sandbox).recorded_by(&recorder).asking(person);
    Some(Arc::new(logged_in(tools, environment)))
}

/// Returns the tokens of the user's logins; `None` without a home folder.
#[cfg(feature = "mcp")]
pub(crate) fn tokens(environment: &BTreeMap<String, String>) -> Option<McpTokens> {
    places::state_folder(environment).map(|folder| McpTokens::in_folder(folder.join("mcp")))
}

/// Returns the servers with the user's logins.
#[cfg(feature = "mcp")]
fn logged_in(servers: McpTools, environment: &BTreeMap<String, String>) -> McpTools {
    match tokens(environment) {
        Some(tokens) => servers.logging_in_with(&tokens),
        None => servers,
    }
}

/// Returns no tools: this Forge was built without the feature `mcp`, so names of servers' tools are unknown.
#[cfg(not(feature = "mcp"))]
fn of_servers(
    _: &Workflow,
    _: &BTreeMap<String, String>,
    _: &Watcher,
    _: &Arc<dyn Person>,
    _: Option<&Arc<CommandSandbox>>,
    _: &ActionLog,
) -> Option<Arc<dyn ToolService>> {
    None
}

/// Checks the MCP servers of the workflow: each is started, asked for its tools, and ended.
#[cfg(feature = "mcp")]
pub(crate) async fn checks(
    workflow: &Workflow,
    environment: &BTreeMap<String, String>,
    sandbox: Option<&Arc<CommandSandbox>>,
) -> Vec<Check> {
    let unwatched: McpWatcher = Arc::new(|_: McpNews<'_>| {});
    let servers = McpTools::within(&workflow.mcp_servers, environment, &unwatched, sandbox);
    let servers = logged_in(servers, environment);
    let mut checks = Vec::new();
    for (id, examined) in servers.examine().await {
        let about = format!("MCP server {id}");
        checks.push(match examined {
            Ok(report) => {
                let found = Check::well(about, format!("{}: {}", report.software, some(&report.tools)));
                match report.refused.as_slice() {
                    [] => found,
                    refused => found.but(Health::Warning, format!("left out: {}", refused.join("; "))),
                }
            }
            Err(error) => {
                let is_used =
                    workflow.agents.iter().any(|agent| agent.tools.iter().flatten().any(|name| id.has(name)));
                let is_required = workflow.mcp_servers.get(&id).is_some_and(McpServerConfig::is_required);
                let health = if is_used && is_required { Health::Fault } else { Health::Warning };
                Check::well(about, error.to_string())
                    .but(health, format!("see `mcp_servers: {{ {id}: ... }}`; run its command by hand"))
            }
        });
    }
    servers.close().await;
    checks
}

#[cfg(feature = "mcp")]
fn some(tools: &[forge_domain::ToolName]) -> String {
    match tools {
        [] => "no tools".to_owned(),
        tools => {
            let first: Vec<&str> = tools.iter().take(3).map(forge_domain::ToolName::as_str).collect();
            format!("{}, such as {}", quantity(tools.len(), "tool"), first.join(", "))
        }
    }
}

/// Reports that the MCP servers of the workflow cannot be used by this build.
#[cfg(not(feature = "mcp"))]
pub(crate) async fn checks(
    workflow: &Workflow,
    _: &BTreeMap<String, String>,
    _: Option<&Arc<CommandSandbox>>,
) -> Vec<forge_app::Check> {
    let fault = |id: &forge_domain::McpServerId| {
        forge_app::Check::well(format!("MCP server {id}"), "this Forge was built without the feature `mcp`")
            .but(forge_app::Health::Warning, "install it with its default features")
    };
    workflow.mcp_servers.keys().map(fault).collect()
}
