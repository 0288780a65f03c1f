//! The short form of the command line: `forge` and `forge "TASK"` are `forge run` without the word.

use std::ffi::{OsStr, OsString};

use forge_services::workflow::nearest;

/// Flags that any command has, which may come before it; true if a value follows.
const GLOBAL: [(&str, bool); 3] = [("--trust", false), ("--log", true), ("--log-file", true)];

/// Words that belong to the program itself.
const OWN: [&str; 5] = ["-h", "--help", "-V", "--version", "help"];

/// Commands of other agents, and what does the same here.
const TWINS: [(&[&str], &str); 12] = [
    (&["resume"], "did you mean `forge --resume`, or `forge -c` for the last run of this folder?"),
    (&["exec", "ask", "print", "prompt", "query"], "did you mean `forge -p \"TASK\"`?"),
    (&["chat", "repl", "tui", "interactive"], "did you mean `forge`, without a command?"),
    (&["version", "ver"], "did you mean `forge --version`?"),
    (
        &["login", "logout", "signin", "auth", "configure", "setup", "onboard"],
        "there is no login: a key stands in the environment, such as OPENAI_API_KEY, `forge init` writes a \
         forge.yaml, and `forge doctor` checks both",
    ),
    (
        &["update", "upgrade", "self-update", "install", "uninstall"],
        "it is cargo that installs and updates Forge",
    ),
    (
        &["list", "ls", "history", "runs"],
        "did you mean `forge sessions`, or `forge checkpoints list` for the runs of Forge alone?",
    ),
    (&["undo", "rewind"], "did you mean `forge checkpoints undo`?"),
    (&["fork", "show", "prune", "delete"], "did you mean that command of `forge checkpoints`?"),
    (&["status", "info", "usage"], "did you mean `forge doctor`?"),
    (&["settings", "permissions"], "did you mean `forge config show`?"),
    (&["review"], "did you mean `git diff | forge -p \"Review this.\"`?"),
];

/// The beginning of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// A command, or a flag of the program itself.
    Command,
    /// Neither: `run` is left out at this place.
    Run(usize),
    /// A single word near a command's name, or a command of other agents: a slip, not a task. What was
    /// probably meant is a sentence without its full stop.
    Slip { word: String, meant: String },
}

/// Returns how the line of `words` begins, of which the first is the program's name.
pub(super) fn beginning(words: &[OsString], commands: &[&str]) -> Beginning {
    let mut at = 1;
    while let Some((_, has_value)) = GLOBAL.iter().find(|(flag, _)| is_flag(words.get(at), flag)) {
        let is_apart = words[at].to_str().is_some_and(|word| !word.contains('='));
        at += if *has_value && is_apart { 2 } else { 1 };
    }
    let Some(first) = words.get(at).map(OsString::as_os_str).and_then(OsStr::to_str) else {
        return Beginning::Run(at.min(words.len()));
    };
    if OWN.contains(&first) || commands.contains(&first) {
        return Beginning::Command;
    }
    if first.starts_with('-') || first.contains(char::is_whitespace) {
        return Beginning::Run(at);
    }
    // Of three words and more, the first may well be that of a task without quotes.
    let n_more = words[at + 1..].iter().filter(|word| !word.as_encoded_bytes().starts_with(b"-")).count();
    let twin = TWINS.iter().find(|(names, _)| n_more <= 1 && names.contains(&first));
    let near = || nearest(first, commands.iter().copied()).map(|near| format!("did you mean `{near}`?"));
    match twin.map(|(_, meant)| (*meant).to_owned()).or_else(near) {
        Some(meant) => Beginning::Slip { word: first.to_owned(), meant },
        None => Beginning::Run(at),
    }
}

/// Checks whether `word` is `flag`, alone or with its value.
fn is_flag(word: Option<&OsString>, flag: &str) -> bool {
    let rest = word.and_then(|word| word.to_str()).and_then(|word| word.strip_prefix(flag));
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_task_is_told_from_a_command_and_from_a_slip() {
        const COMMANDS: [&str; 6] = ["run", "replay", "log", "models", "config", "checkpoints"];
        for (line, expected) in [
            (&[][..], Ok(1)),
            (&["fix the test"], Ok(1)),
            (&["hello"], Ok(1)),
            (&["-p", "run"], Ok(1)),
            (&["--resume"], Ok(1)),
            (&["--", "rnu"], Ok(1)),
            (&["--trust"], Ok(2)),
            (&["--trust", "--log", "debug", "run it"], Ok(4)),
            (&["--log=debug", "--log-file"], Ok(3)),
            (&["run the tests"], Ok(1)),
            (&["run"], Err("")),
            (&["--log", "x", "models"], Err("")),
            (&["rnu"], Err("did you mean `run`?")),
            (&["checkpoint", "list"], Err("did you mean `checkpoints`?")),
            (&["--trust", "confg", "show"], Err("did you mean `config`?")),
            (&["version"], Err("did you mean `forge --version`?")),
            (&["exec", "fix it"], Err("did you mean `forge -p \"TASK\"`?")),
            (&["undo", "--trust"], Err("did you mean `forge checkpoints undo`?")),
            (&["list", "all", "files"], Ok(1)),
            (&["--", "resume"], Ok(1)),
            (&["resume the work"], Ok(1)),
            (&["--help"], Err("")),
            (&["help", "run"], Err("")),
            (&["-V"], Err("")),
        ] {
            let words: Vec<OsString> = ["forge"].iter().chain(line).map(OsString::from).collect();
            let actual = match beginning(&words, &COMMANDS) {
                Beginning::Run(at) => Ok(at),
                Beginning::Command => Err(String::new()),
                Beginning::Slip { meant, .. } => Err(meant),
            };
            assert_eq!(actual, expected.map_err(str::to_owned), "{line:?}");
        }
    }
}
