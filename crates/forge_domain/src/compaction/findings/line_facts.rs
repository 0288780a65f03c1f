//! The facts of a command line by which its result is judged. Apart from the [`Deed`](super::Deed) that has
//! them because they are read from the steps of the line alone, whatever tool runs it.

use std::collections::HashSet;

use super::acts::acts;
use super::check::{hides_carried, runs_check};
use super::command_line::{Step, Walk, outside_quotes, words_of};
use super::filter::Filter;
use super::missing::Missing;
use super::sections::{Sections, headings};

/// The facts of a command line, as far as it tells: where it runs, and by which its result is judged.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct CommandLine {
    /// The folder in which it begins, and the one that it enters if it does nothing else.
    pub(super) folder: Option<String>,
    pub(super) enters: Option<String>,
    /// True if its status is not that of each of its steps, as behind a pipe.
    pub(super) hides_status: bool,
    /// True if its last step is not a check and runs even if those before it fail: the status is its own.
    pub(super) ends_elsewhere: bool,
    /// The text before the status of a check that its last step tells.
    pub(super) echoed: Option<String>,
    /// True if something else runs when a step fails.
    pub(super) has_other_way: bool,
    pub(super) missing: Missing,
    /// The filter with which it ends.
    pub(super) filter: Option<Filter>,
    /// The sections of what it writes, if only some are of checks.
    pub(super) sections: Option<Sections>,
    /// The lines that it prints itself, each over what the next step writes.
    pub(super) headings: HashSet<String>,
    /// The file that has what a check wrote.
    pub(super) log: Option<String>,
    /// True if it changes something outside of the files of the work.
    pub(super) acts: bool,
}

impl CommandLine {
    /// Reads the facts of a command line without here-documents, which was followed by `walk`.
    pub(super) fn of(command: &str, walk: &Walk<'_>) -> Self {
        // The step before tells its status itself: `make; echo $?`.
        let is_echo = |step: &&Step<'_>| step.command.starts_with("echo ") && step.command.contains("$?");
        let echo = walk.steps.last().filter(is_echo).map(|step| step.command.as_ptr() as usize);
        let until = echo.map_or(command.len(), |echo| echo - command.as_ptr() as usize);
        let told = command[..until].trim_end_matches([' ', ';', '\n']);
        let last = walk.steps.last().filter(|_| echo.is_none());
        let echoed = walk.steps.last().filter(|_| echo.is_some()).and_then(|step| {
            let checked = walk.steps.iter().rev().nth(1)?;
            let is_of_check = runs_check(checked) && !checked.is_piped;
            is_of_check.then(|| before_status(step.command)).flatten()
        });
        Self {
            folder: walk.steps.first().and_then(|step| step.folder.clone()),
            enters: walk.end.clone().filter(|_| walk.steps.is_empty()),
            // The status of the line is that of the echo.
            hides_status: hides_status(told)
                || echo.is_some() && echoed.is_none()
                || walk.steps.iter().any(hides_carried),
            ends_elsewhere: walk.steps.len() > 1
                && last.is_some_and(|step| step.runs_anyway && !runs_check(step)),
            echoed,
            has_other_way: command.contains("||"),
            missing: Missing::of(told, walk),
            filter: Filter::of(walk),
            sections: Sections::of(walk, runs_check),
            headings: headings(walk),
            log: walk.steps.iter().find_map(|step| log_of(step.command).filter(|_| runs_check(step))),
            acts: acts(walk),
        }
    }
}

/// Checks whether the status of a command line is not that of each of its steps: they are in a pipe, or the
/// next one runs whatever the last one did.
fn hides_status(command: &str) -> bool {
    outside_quotes(command.trim_end()).any(|(_, c)| matches!(c, '|' | ';' | '\n'))
}

/// Returns the words that a step prints before the status of the one before it.
fn before_status(echo: &str) -> Option<String> {
    let words =
        words_of(echo).into_iter().skip(1).skip_while(|word| word.starts_with('-')).collect::<Vec<_>>();
    let told = words.join(" ").replace("${?}", "$?");
    let (before, _) = told.split_once("$?")?;
    (!before.contains(['$', '`', '\\'])).then(|| before.trim().to_owned())
}

/// Returns the file into which the output of a step goes.
fn log_of(step: &str) -> Option<String> {
    let (at, _) = outside_quotes(step).find(|(at, c)| *c == '>' && !step[at + 1..].starts_with('&'))?;
    let file = step[at..].trim_start_matches(['>', ' ']).split_whitespace().next()?;
    Some(file.trim_matches(['"', '\'']).to_owned())
        .filter(|file| !file.starts_with("/dev/") && !file.is_empty())
}
