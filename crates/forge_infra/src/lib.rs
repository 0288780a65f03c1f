//! The adapters to the outside world: providers, recorded sessions, tools, files and clock.
#![allow(clippy::disallowed_methods, reason = "files and the clock are this crate's very task")]

mod agent_database;
mod anthropic;
mod checkpoint_store;
mod file_session_sink;
mod gemini;
mod git_workspace;
mod http;
mod json_schema;
mod kept_copy;
#[cfg(feature = "mcp")]
mod mcp;
mod ollama;
mod openai;
mod owner;
mod process;
mod process_holder;
mod recorded;
mod responses;
mod sandbox;
mod session_places;
mod shell_hook;
#[cfg(unix)]
mod supervisor;
mod system_clock;
mod system_pause;
mod tools;
mod open_file;
mod whole_file;

pub use agent_database::{AgentDatabase, AgentDatabaseError, DatabaseSession};
pub use anthropic::AnthropicProvider;
pub use checkpoint_store::{
    Access, MemoryCheckpointStore, OpeningCheckpointStore, SqliteCheckpointStore, SqlitePlace, StoreUrl,
    StoreUrlError, open_checkpoint_store,
};
#[cfg(feature = "postgres")]
pub use checkpoint_store::{PostgresCheckpointStore, PostgresPlace};
pub use file_session_sink::{FileSessionSink, RecordPathError};
pub use gemini::GeminiProvider;
pub use git_workspace::{
    BegunTree, GitError, Left, TravellingWorkspace, WorkspaceNotice, begin_git_tree, sweep_workspaces,
};
pub use http::{Key, ProviderSetupError, Secret, fetch_text, install_tls_provider};
pub use json_schema::{InvalidJsonSchema, JsonSchema};
pub use kept_copy::keep_copy;
#[cfg(feature = "mcp")]
pub use mcp::{McpError, McpNews, McpServerReport, McpTokens, McpTools, McpWatcher};
#[cfg(feature = "mcp-oauth")]
pub use mcp::{McpLogin, McpLoginError};
pub use ollama::OllamaProvider;
pub use open_file::process_writing;
pub use openai::OpenAiProvider;
pub use owner::is_of_user;
pub use process::examine_sandbox;
pub use process_holder::ProcessHolder;
pub use recorded::{Exchange, Playback};
pub use responses::ResponsesProvider;
pub use sandbox::{CommandSandbox, SandboxNotice, SandboxSurroundings};
pub use session_places::{
    FileEnds, FoundSessions, KnownAgent, agent_folder, find_sessions, is_kept_in_folder, known_agents,
    read_ends, visit_lines,
};
pub use shell_hook::ShellHook;
#[cfg(unix)]
pub use supervisor::supervise_commands;
pub use system_clock::SystemClock;
pub use system_pause::SystemPause;
pub use tools::{ToolsError, WorkspaceTools};
pub use whole_file::{FilePlace, replace_if, write_whole};
