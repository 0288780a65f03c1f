//! What a person is told when something fails, and the exit code: decided here, once.

use std::process::ExitCode;

use console::style;

use crate::output;

/// A fault of what was typed or configured: nothing was begun.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Misconfigured(pub(crate) String);

/// Something failed while it ran.
const FAILED: u8 = 1;
/// What was typed or configured cannot work.
pub(crate) const MISCONFIGURED: u8 = 2;

/// Prints the error with its causes and returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    say(error);
    let misconfigured = error.chain().any(<dyn std::error::Error>::is::<Misconfigured>);
    ExitCode::from(if misconfigured { MISCONFIGURED } else { FAILED })
}

/// Says the error with its causes.
pub(crate) fn say(error: &anyhow::Error) {
    let said = output::visible_lines(&chain(error));
    output::say(&format!("{} {said}", style("error:").red().bold().for_stderr()));
}

/// The error and its causes, each once: some messages already end with their cause's.
fn chain(error: &anyhow::Error) -> String {
    let mut text = String::new();
    for cause in error.chain().map(ToString::to_string) {
        if text.is_empty() {
            text = cause;
        } else if !text.contains(&cause) {
            text = format!("{text}\n  because {cause}");
        }
    }
    text
}
