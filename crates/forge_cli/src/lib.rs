//! The command line of Forge: arguments, wiring, reading and writing files, rendering, exit codes.
#![allow(
    clippy::disallowed_methods,
    reason = "files, arguments and the environment are this crate's very task"
)]

mod arguments;
mod run;
mod chat;
mod run_checkpoints;
mod secrets;
mod replay;
mod compact;
mod init;
mod inspect;
mod proposal;
mod session_file;
mod config;
mod consent;
mod mcp;
mod migrate;
mod resolution;
mod models;
mod doctor;
mod sandbox;
mod setup;
mod store;
mod checkpoint_cells;
mod checkpoints;
mod checkpoints_arguments;
mod command;
mod table;
mod terminal;
mod provider_faults;
mod terminal_person;
mod console_watcher;
mod json_watcher;
mod manual;
mod run_view;
mod replay_view;
mod output;
mod panic_report;
mod places;
mod failure;
mod hidden_characters;
mod interruption;
mod log;
mod logged_provider;
mod logging;
mod telemetry;
mod trust;
mod wrapping;

use std::process::ExitCode;

use clap::Parser;

use crate::command::{Arguments, Command};

/// Runs [`main`], and shows every event of a run to `watch` before the user sees it.
pub fn main_watched(watch: forge_app::Watcher) -> ExitCode {
    run::watch(watch);
    main()
}

/// Reads the administrator's file from `path` instead of its usual place, for programs that embed this one.
pub fn read_system_file_from(path: std::path::PathBuf) {
    places::read_system_file_from(path);
}

/// Runs the given command and returns its exit code.
pub fn main() -> ExitCode {
    #[cfg(unix)]
    if let Some(code) = forge_infra::supervise_commands() {
        return code;
    }
    panic_report::install();
    let arguments = Arguments::parse();
    let telemetry = match logging::start(&arguments.log) {
        Ok(telemetry) => telemetry,
        Err(error) => return failure::report(&error),
    };
    consent::give_once(arguments.trust);
    let result = match arguments.command {
        Command::Run(run) => chat::run(run),
        Command::Replay(replay) => replay::replay(&replay),
        Command::Compact(arguments) => compact::compact(&arguments),
        Command::Inspect(arguments) => inspect::inspect(&arguments),
        Command::Checkpoints(arguments) => checkpoints::checkpoints(arguments),
        Command::Log(arguments) => log::log(&arguments),
        Command::Models(arguments) => models::models(&arguments),
        Command::Doctor(arguments) => doctor::doctor(&arguments),
        Command::Config(config) => config::config(&config),
        Command::Trust(arguments) => trust::trust(&arguments),
        Command::Init(arguments) => init::init(&arguments),
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { output } => manual::man(output.as_deref()),
    };
    let result = result.and_then(|code| output::finish().map(|()| code));
    let code = result.unwrap_or_else(|error| failure::report(&error));
    telemetry.end();
    code
}
