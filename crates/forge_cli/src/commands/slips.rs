//! Tips for a command line that cannot be read: a task without quotes, and flags of other agents.

use std::ffi::OsString;

use clap::builder::StyledStr;
use clap::error::{ContextKind, ContextValue, ErrorKind};

use crate::run::shell_quote;

/// Flags of other agents, and what does the same here.
const FLAGS: [(&[&str], &str); 11] = [
    (
        &[
            "--yolo",
            "--dangerously-skip-permissions",
            "--dangerously-bypass-approvals-and-sandbox",
            "--full-auto",
        ],
        "`--mode auto` edits and runs without asking what the sandbox confines, and `--yes` allows every call",
    ),
    (
        &["--permission-mode", "--approval-mode", "--ask-for-approval", "-a"],
        "`--mode plan|ask|edits|auto` sets the mode",
    ),
    (&["--allowedTools", "--allowed-tools"], "`--allow 'shell:cargo *'` allows calls"),
    (&["--disallowedTools", "--disallowed-tools"], "`permissions` in forge.yaml denies calls"),
    (
        &["--max-turns", "--max-iterations", "--max-steps"],
        "`--budget-tokens N` ends a run, and so does `max_iterations` of an agent in forge.yaml",
    ),
    (
        &["-C", "--cd", "--cwd", "--dir", "--directory"],
        "a run works in the folder that it is started in: use `cd`",
    ),
    (&["--system-prompt", "--append-system-prompt"], "`system_prompt` is a key of an agent in forge.yaml"),
    (&["--mcp-config"], "MCP servers stand under `mcp_servers` in forge.yaml, or in .mcp.json"),
    (&["--verbose", "-v", "--debug", "-d"], "`--log debug` logs more"),
    (&["--json-schema"], "`--output-schema FILE` names the schema of the answer"),
    (&["-r", "-o"], "`--resume` continues a run, and the answer goes to stdout"),
];

/// Flags without a value that may stand before the task.
const BARE: [&str; 7] = ["-p", "--print", "--chat", "--json", "--yes", "-c", "--continue"];

/// The task of `forge run` on a command line.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskPlace<'w> {
    /// The words after `run`.
    pub(super) words: &'w [OsString],
    /// The command as it was written: `forge`, or `forge run`.
    pub(super) command: &'static str,
}

/// Adds tips to an error about an argument that is not there, and takes away the tip to make it the task.
pub(super) fn explained(mut error: clap::Error, place: Option<TaskPlace<'_>>) -> clap::Error {
    let unknown = match error.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(unknown)) if error.kind() == ErrorKind::UnknownArgument => unknown.clone(),
        _ => return error,
    };
    let mut tips = match error.remove(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => tips,
        _ => Vec::new(),
    };
    tips.retain(|tip| !tip.to_string().contains("as a value"));
    let own = place.and_then(|place| match unknown.starts_with('-') {
        true => twin(&unknown).map(str::to_owned),
        false => Some(quoted(place, &unknown)),
    });
    if let Some(own) = own {
        error.remove(ContextKind::SuggestedArg);
        tips.push(StyledStr::from(own));
    }
    if !tips.is_empty() {
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(tips));
    }
    error
}

/// Returns what does the same as a flag of other agents.
fn twin(flag: &str) -> Option<&'static str> {
    let name = flag.split('=').next().unwrap_or(flag);
    FLAGS.iter().find(|(names, _)| names.contains(&name)).map(|(_, twin)| *twin)
}

/// Returns the tip for a task of several words without quotes, of which `second` is the second.
fn quoted(TaskPlace { words, command }: TaskPlace<'_>, second: &str) -> String {
    let mut texts = words.iter().map_while(|word| word.to_str()).peekable();
    let mut line = vec![command];
    // Without `-p`, the task would begin a chat.
    while let Some(flag) = texts.next_if(|word| BARE.contains(word)) {
        line.push(flag);
    }
    let task: Vec<&str> = texts.take_while(|word| !word.starts_with('-')).collect();
    match task.get(1) {
        Some(word) if *word == second => {
            format!("put the task in quotes: {} {}", line.join(" "), shell_quote(&task.join(" ")))
        }
        _ => format!("put the whole task in quotes: {command} \"TASK\""),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::commands::Arguments;

    #[test]
    fn an_argument_that_is_not_there_is_explained() {
        for (line, expected) in [
            ("fix the failing test", "tip: put the task in quotes: forge 'fix the failing test'"),
            ("-p Fix the test", "tip: put the task in quotes: forge -p 'Fix the test'"),
            ("--json -p Fix it --yes", "tip: put the task in quotes: forge --json -p 'Fix it'"),
            ("-o x hi", "tip: `--resume` continues a run"),
            ("--json-schema s hi", "tip: `--output-schema FILE`"),
            ("--model m:x Fix the test", "tip: put the whole task in quotes: forge \"TASK\""),
            ("--yolo hi", "tip: `--mode auto` edits"),
            ("--max-turns=3 hi", "tip: `--budget-tokens N` ends"),
            ("--modl x hi", "tip: a similar argument exists: '--model'"),
            ("--frobnicate hi", ""),
        ] {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            let given = ["forge", "run"].into_iter().map(OsString::from).chain(words.iter().cloned());
            let error = Arguments::command().try_get_matches_from(given).unwrap_err();
            let place = TaskPlace { words: &words, command: "forge" };
            let actual = explained(error, Some(place)).to_string();
            assert!(actual.contains(expected), "{line}: {actual}");
            assert!(!actual.contains("as a value"), "{line}: {actual}");
        }
    }
}
