//! The command line of Forge: arguments, wiring, reading and writing files, rendering, exit codes.
#![allow(
    clippy::disallowed_methods,
    reason = "files, arguments and the environment are this crate's very task"
)]

mod acp;
mod arguments;
mod attached_images;
mod chat;
mod commands;
mod consent;
mod failure;
mod fleet;
mod mentions;
mod output;
mod places;
mod redaction;
mod run;
mod session_file;
mod sessions;
mod setup;
mod telemetry;
mod terminal;

use std::process::ExitCode;

use crate::commands::Arguments;

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
    failure::report_panics();
    let Arguments { log, trust, command } = match Arguments::of_process() {
        Ok(arguments) => arguments,
        Err(error) => return failure::report(&error),
    };
    let telemetry = match telemetry::start(&log) {
        Ok(telemetry) => telemetry,
        Err(error) => return failure::report(&error),
    };
    consent::give_once(trust);
    let result = command.run().and_then(|code| output::finish().map(|()| code));
    let code = result.unwrap_or_else(|error| failure::report(&error));
    telemetry.end();
    code
}
