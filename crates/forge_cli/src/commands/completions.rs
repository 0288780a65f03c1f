//! `forge completions`: the commands as shells need them.

use std::process::ExitCode;

use clap::{Args, CommandFactory as _};
use clap_complete::Shell;

use super::Arguments;
use crate::output;

/// Print the completion script for your shell
///
/// For bash: `forge completions bash > ~/.local/share/bash-completion/completions/forge`.
#[derive(Debug, Args)]
pub(crate) struct CompletionsArguments {
    /// The shell
    shell: Shell,
}

impl CompletionsArguments {
    /// Prints the completion script.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut Arguments::command(), "forge", &mut script);
        output::print(&String::from_utf8(script)?)?;
        Ok(ExitCode::SUCCESS)
    }
}
