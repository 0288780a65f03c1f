//! The form in which a result states the exit code of its command, if the agent keeps that beside the output.
//! It is Codex's: the output is read without the lines above it.

use std::fmt::Display;

/// The words before the code.
pub(super) const EXIT_CODE: &str = "Exit code: ";

/// Returns the output of a command with its exit code above it.
pub(super) fn with_exit_code(code: impl Display, output: &str) -> String {
    format!("{EXIT_CODE}{code}\nOutput:\n{output}")
}
