//! The commands of the binary. Each is one file: its arguments with their help, and its code.

mod checkpoints;
mod compact;
mod completions;
mod config;
mod doctor;
mod init;
mod inspect;
mod log;
mod man;
mod models;
mod replay;
mod run;
mod trust;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::telemetry::LogFlags;

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

/// Declares commands, in the order of the help: the name of each, and its arguments, which have a `run`.
macro_rules! commands {
    ($commands:ident { $($name:ident($arguments:ty),)* }) => {
        #[derive(Debug, Subcommand)]
        pub(crate) enum $commands {
            $($name($arguments),)*
        }

        impl $commands {
            /// Runs the command and returns its exit code.
            pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
                match self {
                    $(Self::$name(arguments) => arguments.run(),)*
                }
            }
        }
    };
}
use commands;

commands! {
    Command {
        Run(run::RunArguments),
        Replay(replay::ReplayArguments),
        Compact(compact::CompactArguments),
        Inspect(inspect::InspectArguments),
        Checkpoints(checkpoints::CheckpointsArguments),
        Log(log::LogArguments),
        Models(models::ModelsArguments),
        Doctor(doctor::DoctorArguments),
        Config(config::ConfigArguments),
        Trust(trust::TrustArguments),
        Init(init::InitArguments),
        Completions(completions::CompletionsArguments),
        Man(man::ManArguments),
    }
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
