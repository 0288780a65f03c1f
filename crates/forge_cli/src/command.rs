//! The commands of the binary.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use clap_complete::Shell;

use crate::arguments::{
    CompactArguments, ConfigArguments, DoctorArguments, InitArguments, InspectArguments, LogArguments,
    ModelsArguments, ReplayArguments, RunArguments, TrustArguments,
};
use crate::checkpoints_arguments::CheckpointsArguments;
use crate::logging::LogFlags;

/// Run LLM agents for as long as the work takes: Forge fits the context before every call
#[derive(Debug, Parser)]
#[command(name = "forge", version, max_term_width = 100)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) log: LogFlags,
    /// Trust the project's file for this command: it may run, read and send what it asks for
    #[arg(long, global = true)]
    pub(crate) trust: bool,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run an agent on a task, or chat with it
    ///
    /// The answer goes to stdout; tool calls, compactions and usage go to stderr. At a terminal without a
    /// task, or with --chat, a chat starts: /help lists its commands and keys. Ctrl-C stops the current work;
    /// pressed twice, it ends the run.
    Run(RunArguments),
    /// Replay a recorded session and show what compaction does to it, without a key or a server
    ///
    /// Reads OpenAI chat messages (`{"messages": [...]}`), tau-bench JSON and Claude Code JSONL.
    Replay(ReplayArguments),
    /// Make a recorded session fit a limit: whatever can stay is kept byte for byte
    ///
    /// Reads and writes OpenAI chat messages, Anthropic request bodies, Claude Code JSONL and tau-bench JSON.
    Compact(CompactArguments),
    /// Show what fills the context window of a recorded session
    Inspect(InspectArguments),
    /// List, inspect, fork, undo, prune and move saved runs
    ///
    /// An ID is a run, a checkpoint's label such as researcher-iteration-6 or RUN/LABEL, its number, or
    /// `last`.
    Checkpoints(CheckpointsArguments),
    /// Show what a run did: its tasks or, with --actions, every command, file, address and server
    ///
    /// Each action is saved before it begins, with who consented and by which rule. An action without an
    /// outcome had begun when its run was killed.
    Log(LogArguments),
    /// List the providers' models and their context windows
    ///
    /// A window in forge.yaml overrides the server's; `-` means that neither is known.
    Models(ModelsArguments),
    /// Check everything that a run needs, and show how to fix it: configuration, keys, servers, models,
    /// prices, checkpoints
    ///
    /// Servers that an agent uses are asked for their models; keys are never printed. The exit code is 1 if
    /// something is broken.
    Doctor(DoctorArguments),
    /// Check, show or migrate the configuration
    Config(ConfigArguments),
    /// Trust what a project's forge.yaml would run, read and send, until it changes
    ///
    /// Shows everything that it asks for. Until you trust it, a forge.yaml can only narrow your own
    /// configuration; `forge run` asks at a terminal, and ends with exit code 10 elsewhere.
    Trust(TrustArguments),
    /// Write a commented forge.yaml that works
    ///
    /// At a terminal it asks for what no flag sets. Elsewhere it uses the provider whose key is in the
    /// environment.
    Init(InitArguments),
    /// Print the completion script for your shell
    ///
    /// For bash: `forge completions bash > ~/.local/share/bash-completion/completions/forge`.
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Print the man page: `forge man | man -l -`
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
