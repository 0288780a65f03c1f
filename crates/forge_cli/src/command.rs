//! The commands that there are.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::arguments::{
    CompactArguments, ConfigArguments, DoctorArguments, InitArguments, InspectArguments, LogArguments,
    ModelsArguments, ReplayArguments, RunArguments, TrustArguments,
};
use crate::checkpoints_arguments::CheckpointsArguments;
use crate::logging::LogFlags;

/// Runs LLM agents for as long as the work takes: before every call the context is made to fit.
#[derive(Debug, Parser)]
#[command(name = "forge", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) log: LogFlags,
    /// Trust the project's file this once: what it would run, read and send is allowed
    #[arg(long, global = true)]
    pub(crate) trust: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent on a task, or chat with it
    ///
    /// The answer goes to standard output; tool calls, compactions and usage go to standard error. At a terminal, without a task
    /// or with --chat, it is a chat: /help lists its commands and keys. Ctrl-C stops what goes on, twice it ends the run.
    Run(RunArguments),
    /// Live a recorded session through again and show what compaction does to it; no key and no server needed
    ///
    /// Reads OpenAI chat messages (`{"messages": [...]}`), tau-bench JSON and Claude Code JSONL.
    Replay(ReplayArguments),
    /// Make a recorded session fit: what does not have to go stays byte for byte
    ///
    /// Reads and writes OpenAI chat messages, Anthropic request bodies, Claude Code JSONL and tau-bench JSON.
    Compact(CompactArguments),
    /// Show what fills the window of a recorded session
    Inspect(InspectArguments),
    /// Look at what runs left, go back to it, carry it elsewhere
    ///
    /// An ID is a run, a checkpoint's label such as researcher-iteration-6 or RUN/LABEL, its number, or `last`.
    Checkpoints(CheckpointsArguments),
    /// Show what a run did: its tasks or, with --actions, every command, file, address and server
    ///
    /// Each action is kept before it begins, with who consented and by which rule; one without an outcome was begun by a run that
    /// did not live to see its end.
    Log(LogArguments),
    /// List the models that the providers offer, with their windows
    ///
    /// A window in forge.yaml counts before what a server tells; `-` is one that neither knows.
    Models(ModelsArguments),
    /// Look at all that a run needs and say what to do: configuration, keys, servers, models, prices, checkpoints
    ///
    /// Servers that an agent uses are asked for their models; keys are never printed. Exit code 1 where something is broken.
    Doctor(DoctorArguments),
    /// Look at the configuration
    Config(ConfigArguments),
    /// Trust what a project's forge.yaml would run, read and send, until it changes
    ///
    /// Shows all of it. Until it is trusted, a forge.yaml can only narrow what your own configuration says; `forge run` asks at a
    /// terminal, and ends with exit code 10 elsewhere.
    Trust(TrustArguments),
    /// Write a forge.yaml that runs, with comments
    ///
    /// Asks on a terminal for what no flag says. Elsewhere the provider is the one whose key the environment holds.
    Init(InitArguments),
    /// Print the script that completes these commands in your shell
    ///
    /// For bash: `forge completions bash > ~/.local/share/bash-completion/completions/forge`.
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the manual page: `forge man | man -l -`
    Man {
        /// Write a page for every command into this folder instead
        #[arg(short, long, value_name = "FOLDER")]
        output: Option<PathBuf>,
    },
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }
}
