//! The commands of the binary. Each is one file: its arguments with their help, and its code.

mod acp;
mod checkpoints;
mod compact;
mod completions;
mod config;
mod continue_session;
mod doctor;
mod export;
mod fleet;
mod init;
mod inspect;
mod log;
mod man;
mod mcp;
mod models;
mod replay;
mod run;
mod sessions;
mod shorthand;
mod slice;
mod slips;
mod submit;
mod trust;
mod worker;

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::ExitCode;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use self::shorthand::Beginning;
use self::slips::TaskPlace;
use crate::arguments::PERMISSIONS;
use crate::failure::Misconfigured;
use crate::telemetry::LogFlags;

/// Run LLM agents for as long as the work takes: Forge fits the context before every call
#[derive(Debug, Parser)]
#[command(name = "forge", version, max_term_width = 100)]
#[command(override_usage = "forge [OPTIONS] [TASK]\n       forge [OPTIONS] <COMMAND>", after_help = EXAMPLES)]
pub(crate) struct Arguments {
    /// Trust the project's file for this command: it may run, read and send what it asks for
    #[arg(long, global = true, help_heading = PERMISSIONS)]
    pub(crate) trust: bool,
    #[command(flatten)]
    pub(crate) log: LogFlags,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The end of the help.
const EXAMPLES: &str = "\
Without a command:
  forge                                 chat in this folder
  forge \"TASK\"                          chat, beginning with a task
  forge -p \"TASK\"                       print the answer and end
  git diff | forge \"Review this.\"       with input from a pipe
All flags of `forge run` work here, too.";

impl Arguments {
    /// Reads the command line; without a command, it is that of `run`.
    ///
    /// # Errors
    /// Fails with [`Misconfigured`] for a misspelt command or one of other agents, or if the help cannot be
    /// written.
    pub(crate) fn of_process() -> anyhow::Result<Self> {
        let mut words: Vec<OsString> = std::env::args_os().collect();
        let mut command = Self::command();
        let names: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        let beginning = shorthand::beginning(&words, &names);
        match &beginning {
            Beginning::Command => {}
            Beginning::Run(at) => words.insert(*at, "run".into()),
            Beginning::Slip { word, meant } => {
                let what = format!(
                    "there is no command `{word}`\n  help: {meant}\n  help: a task of one word follows two dashes, \
                     as in forge -- {word}; one of several stands in quotes"
                );
                return Err(Misconfigured(what).into());
            }
        }
        let matches = match command.clone().try_get_matches_from(&words) {
            Ok(matches) => matches,
            Err(error) if error.use_stderr() => {
                slips::explained(error, task_place(&beginning, &words)).exit()
            }
            Err(help) => match help.print() {
                Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                    return Err(anyhow::Error::new(error).context("cannot write to stdout"));
                }
                _ => std::process::exit(help.exit_code()),
            },
        };
        let mut arguments =
            Self::from_arg_matches(&matches).unwrap_or_else(|error| error.format(&mut command).exit());
        if let Command::Run(run) = &mut arguments.command {
            run.is_implied = beginning != Beginning::Command;
        }
        Ok(arguments)
    }
}

/// Returns the place of the task on a command line that runs one.
fn task_place<'w>(beginning: &Beginning, words: &'w [OsString]) -> Option<TaskPlace<'w>> {
    let (run, command) = match beginning {
        Beginning::Run(at) => (*at, "forge"),
        Beginning::Command if words.get(1).is_some_and(|word| word == "run") => (1, "forge run"),
        _ => return None,
    };
    Some(TaskPlace { words: words.get(run + 1..)?, command })
}

/// Returns the short help.
fn short_help() -> String {
    Arguments::command().render_help().to_string()
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
        Sessions(sessions::SessionsArguments),
        Continue(Box<continue_session::ContinueArguments>),
        Acp(acp::AcpArguments),
        Submit(Box<submit::SubmitArguments>),
        Worker(Box<worker::WorkerArguments>),
        Fleet(fleet::FleetArguments),
        Slice(Box<slice::SliceArguments>),
        Replay(replay::ReplayArguments),
        Compact(compact::CompactArguments),
        Inspect(inspect::InspectArguments),
        Checkpoints(checkpoints::CheckpointsArguments),
        Export(export::ExportArguments),
        Log(log::LogArguments),
        Mcp(mcp::McpArguments),
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
    use super::*;

    #[test]
    fn the_arguments_are_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn the_page_about_running_names_every_command() {
        let page = include_str!("../../../../docs/run.md");
        for command in Arguments::command().get_subcommands().filter(|command| !command.is_hide_set()) {
            let name = command.get_name();
            let is_named = page.contains(&format!("`forge {name}")) || page.contains(&format!("`{name}`"));
            assert!(is_named, "docs/run.md does not name `forge {name}`");
        }
    }

    #[test]
    fn a_negative_budget_is_an_invalid_value_and_no_flag() {
        for words in ["run --budget-tokens -5 x", "run --budget-cost -1 x"] {
            let given = std::iter::once("forge").chain(words.split(' '));
            let error = Arguments::command().try_get_matches_from(given).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::ValueValidation, "{words}");
        }
    }

    #[test]
    fn a_command_accepts_only_flags_that_it_uses() {
        for words in [
            "worker --agent a",
            "worker --record r.json",
            "worker --report r.json",
            "worker --image a.png",
            "worker --budget-tokens 1",
            "acp --image a.png",
            "acp --report r.json",
            "submit x --mode plan",
            "submit x --sandbox off",
            "submit x --budget-cost 1",
            "submit x --record r.json",
            "submit x --report r.json",
            "slice --store none --agent a",
        ] {
            let given = std::iter::once("forge").chain(words.split(' '));
            let error = Arguments::command().try_get_matches_from(given).unwrap_err();
            assert_eq!(error.kind(), clap::error::ErrorKind::UnknownArgument, "{words}");
        }
    }
}
