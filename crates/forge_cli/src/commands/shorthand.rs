//! The short form of the command line: `forge` and `forge "TASK"` are `forge run` without the word.

use std::ffi::{OsStr, OsString};

use forge_services::workflow::nearest;

/// Flags that any command has, which may come before it; true if a value follows.
const GLOBAL: [(&str, bool); 3] = [("--trust", false), ("--log", true), ("--log-file", true)];

/// Words that belong to the program itself.
const OWN: [&str; 5] = ["-h", "--help", "-V", "--version", "help"];

/// The beginning of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Beginning {
    /// A command, or a flag of the program itself.
    Command,
    /// Neither: `run` is left out at this place.
    Run(usize),
    /// A single word near a command's name: a slip, not a task.
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
    let is_one_word = !first.starts_with('-') && !first.contains(char::is_whitespace);
    match nearest(first, commands.iter().copied()).filter(|_| is_one_word) {
        Some(meant) => Beginning::Slip { word: first.to_owned(), meant: meant.to_owned() },
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
            (&["rnu"], Err("run")),
            (&["checkpoint", "list"], Err("checkpoints")),
            (&["--trust", "confg", "show"], Err("config")),
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
