//! The identities of commands: runs of the same are attempts at the same, so that the success of one resolves
//! the error of another. Apart because that of a command is needed without a [`Deed`](super::Deed), too.

use super::command_line::{Step, Walk, from_program, without_version};
use super::looks::only_looks;

/// The identity of all calls that change a file, before its path.
pub(crate) const CHANGE: &str = "change";

/// Returns the identities of the steps of a command that was followed by `walk`: those that do more than
/// look, or the last if none does. What reads from a pipe is a part of the step before it.
pub(super) fn keys_of(command: Option<&str>, walk: &Walk<'_>) -> Vec<(String, Option<String>)> {
    let Some(command) = command else { return Vec::new() };
    let key = |step: &Step<'_>| (identity(step.command), step.folder.clone());
    let heads = || walk.steps.iter().filter(|step| !step.is_piped);
    let does = |step: &&Step<'_>| !only_looks(step.command);
    let mut keys: Vec<_> = heads().filter(does).map(key).collect();
    if keys.is_empty() {
        keys.extend(heads().next_back().map(key));
    }
    if keys.is_empty() {
        keys.push((identity(command), None));
    }
    keys
}

/// Returns the word of a command of SWE-agent that changes the file that is open, which its result names.
pub(super) fn edit_of_open_file(command: &str) -> Option<&str> {
    let mut words = command.split_whitespace();
    let program = words.next().filter(|word| ["edit", "insert", "create"].contains(word))?;
    let lines = words.next()?;
    let is_range = lines.contains(':') && lines.chars().all(|c| c.is_ascii_digit() || c == ':');
    (program == "create" || is_range || lines.parse::<u32>().is_ok()).then_some(program)
}

/// Words after which the next one tells what a program does.
const RUNS: [&str; 6] = ["run", "exec", "compose", "tool", "task", "x"];

/// Returns the first words of a command that are no options and set no variable: runs of it with others are
/// attempts at the same.
pub(crate) fn identity(command: &str) -> String {
    let head = head(command);
    let words: Vec<&str> = head.split_whitespace().collect();
    let mut words = from_program(&words).iter().copied().filter(|word| !word.starts_with('-'));
    let program = words.next().map(without_version);
    let task = words.next();
    let told = words.next().filter(|_| task.is_some_and(|task| RUNS.contains(&task)));
    program.into_iter().chain(task).chain(told).collect::<Vec<_>>().join(" ")
}

/// Returns the beginning of a command, without a change of folder before it, by which two runs are the same.
fn head(command: &str) -> String {
    in_its_folder(command.trim_start())
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .chars()
        .take(40)
        .collect()
}

/// Returns a command without the comments and the change of folder before it.
pub(super) fn in_its_folder(command: &str) -> &str {
    let mut rest = command.trim_start();
    while let Some((_, after)) = rest.split_once('\n').filter(|(line, _)| line.starts_with('#')) {
        rest = after.trim_start();
    }
    if let Some(folder) = rest.strip_prefix("cd ") {
        let end = folder.find("&&").map(|at| at + 2).or_else(|| folder.find(['\n', ';']).map(|at| at + 1));
        rest = end.map_or(rest, |end| folder[end..].trim_start());
    }
    if rest.is_empty() { command } else { rest }
}
