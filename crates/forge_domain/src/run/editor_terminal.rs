//! The port through which commands run in the terminal of an editor.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use async_trait::async_trait;

/// The terminals of an editor, in which the user sees a command run.
#[async_trait]
pub trait EditorTerminal: Send + Sync {
    /// Runs a command to its end, or to its time limit. Dropping the future ends the command.
    ///
    /// # Errors
    /// The reason, in the editor's words, if it cannot be run.
    async fn run(&self, command: &TerminalCommand) -> Result<TerminalEnd, String>;
}

/// A command for an editor's terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminalCommand {
    /// The command line, for `sh`.
    pub line: String,
    /// The folder in which it runs.
    pub folder: PathBuf,
    /// Its whole environment: that of the editor, which may hold keys, is not passed on.
    pub environment: BTreeMap<String, String>,
    /// The time limit.
    pub limit: Duration,
    /// The most bytes of output that are returned, from its end.
    pub most_bytes: usize,
}

/// The end of a command in an editor's terminal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TerminalEnd {
    /// Its output.
    pub output: String,
    /// True if the beginning of the output is missing.
    pub is_cut: bool,
    /// Its exit code; `None` if it was killed.
    pub exit_code: Option<i32>,
    /// True if it was killed at its time limit.
    pub is_timed_out: bool,
}
