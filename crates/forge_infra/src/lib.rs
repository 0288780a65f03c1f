//! The world: provider adapters, recorded sessions, tools, files and clock.
#![allow(clippy::disallowed_methods, reason = "files and the clock are this crate's very task")]

mod file_session_sink;
mod openai;
mod recorded;
mod shell_hook;
mod system_clock;
mod tools;
mod whole_file;

pub use file_session_sink::{FileSessionSink, RecordPathError};
pub use openai::{Key, OpenAiProvider, OpenAiSetupError, Secret, without_secrets};
pub use recorded::{Exchange, Playback};
pub use shell_hook::ShellHook;
pub use system_clock::SystemClock;
pub use tools::{ToolsError, WorkspaceTools};
pub use whole_file::write_whole;
