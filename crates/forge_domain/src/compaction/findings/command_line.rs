//! The parts of a command line.

use std::borrow::Cow;
use std::collections::VecDeque;

/// Returns a command line without the contents and the marks of its here-documents.
pub(super) fn without_documents(command: &str) -> Cow<'_, str> {
    if !command.contains("<<") && !command.contains("@'") && !command.contains("@\"") {
        return command.into();
    }
    let mut kept = String::new();
    let mut ends: VecDeque<&str> = VecDeque::new();
    // The mark that ends a here-string of PowerShell; the command continues after it.
    let mut text_end: Option<&str> = None;
    for line in command.split_inclusive('\n') {
        if let Some(end) = text_end {
            if let Some(rest) = line.strip_prefix(end) {
                text_end = None;
                kept.push_str(rest);
            }
            continue;
        }
        let begins = [("@'", "'@"), ("@\"", "\"@")];
        let begun = begins.iter().find_map(|(begin, end)| Some((line.trim_end().strip_suffix(begin)?, *end)));
        if let Some((before, end)) = begun.filter(|_| ends.is_empty()) {
            kept.push_str(before);
            text_end = Some(end);
            continue;
        }
        if let Some(end) = ends.front() {
            if line.trim() == *end {
                ends.pop_front();
            }
            continue;
        }
        let mut rest = line;
        while let Some((before, after)) = rest.split_once("<<") {
            kept.push_str(before);
            let mark = after.trim_start_matches(['-', '~', ' ']);
            let quote = mark.chars().next().filter(|c| matches!(c, '\'' | '"'));
            let mark = mark.trim_start_matches(['\'', '"', '\\']);
            let is_of_mark = |c: char| c.is_alphanumeric() || c == '_';
            let length = mark.find(|c: char| !is_of_mark(c)).unwrap_or(mark.len());
            // A shift of a number, or a string in place of a document.
            if after.starts_with('<') || !mark.starts_with(|c: char| c.is_alphabetic() || c == '_') {
                kept.push_str("<<");
                rest = after;
                continue;
            }
            ends.push_back(&mark[..length]);
            rest = &mark[length..];
            rest = quote.and_then(|quote| rest.strip_prefix(quote)).unwrap_or(rest);
        }
        kept.push_str(rest);
    }
    kept.into()
}

/// A step of a command line, and the folder in which it runs, if the line tells: relative to where the line
/// runs, or absolute.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Step<'a> {
    pub(super) command: &'a str,
    pub(super) folder: Option<String>,
    /// True if it runs however the steps before it end.
    pub(super) runs_anyway: bool,
    /// True if it reads what the step before it writes.
    pub(super) is_piped: bool,
}

/// Most bytes of a folder's path: that of a longer one, which each step would keep, is not known.
const MOST_BYTES: usize = 1_024;
/// Most brackets whose folders are remembered.
const MOST_BRACKETS: usize = 64;

/// The steps of a command line without its changes of folder, and the folder that it ends in.
#[derive(Debug, Default)]
pub(super) struct Walk<'a> {
    pub(super) steps: Vec<Step<'a>>,
    pub(super) end: Option<String>,
}

impl<'a> Walk<'a> {
    /// Follows a command line without here-documents that begins in `folder`.
    pub(super) fn of(line: &'a str, folder: Option<&str>) -> Self {
        let is_short = |folder: &String| folder.len() <= MOST_BYTES;
        let folder = folder.map(|folder| join(None, folder)).filter(|folder| !folder.is_empty());
        let folder = folder.filter(is_short);
        let mut walk = Self { steps: Vec::new(), end: folder };
        // A change of folder in brackets ends with them.
        let mut outer: Vec<Option<String>> = Vec::new();
        for step in steps(line).into_iter().filter(|step| !step.is_empty()) {
            let inner = step.trim_start_matches(['(', ' ']);
            let opened = step[..step.len() - inner.len()].matches('(');
            let n_opened = opened.take(MOST_BRACKETS.saturating_sub(outer.len())).count();
            outer.extend(std::iter::repeat_n(walk.end.clone(), n_opened));
            let command = if outer.is_empty() { inner } else { inner.trim_end_matches([')', ' ']) };
            match folder_entered(command) {
                Some(Some(folder)) => {
                    walk.end = Some(join(walk.end.as_deref(), &folder)).filter(is_short);
                }
                // Somewhere, by a variable.
                Some(None) => walk.end = None,
                None => {
                    let before = before(line, step);
                    walk.steps.push(Step {
                        command,
                        folder: walk.end.clone(),
                        runs_anyway: before.is_empty() || before.ends_with([';', '\n']),
                        is_piped: before.ends_with('|') && !before.ends_with("||"),
                    });
                }
            }
            for _ in 0..inner[command.len()..].matches(')').count() {
                walk.end = outer.pop().unwrap_or_default();
            }
        }
        walk
    }
}

/// Returns what stands before a step of a command line, without the blanks.
fn before<'a>(line: &'a str, step: &str) -> &'a str {
    let at = step.as_ptr() as usize - line.as_ptr() as usize;
    line[..at].trim_end_matches([' ', '\t'])
}

/// Returns the folder that a step enters; `None` if it enters none, and nothing in it if that is not known.
fn folder_entered(step: &str) -> Option<Option<String>> {
    let rest = ["cd ", "pushd ", "Set-Location "].iter().find_map(|enter| step.strip_prefix(enter));
    let rest = rest.or_else(|| (step == "popd" || step == "cd").then_some(""))?;
    let words = words_of(rest);
    let folder = words.iter().find(|word| !matches!(word.as_str(), "--" | "/d" | "-Path"));
    let is_plain =
        |folder: &&String| !folder.starts_with(['$', '~', '-']) && !folder.contains(['$', '`', '*']);
    Some(folder.filter(is_plain).cloned())
}

/// Returns the words of a step, without their quotes. Behind the letter of a drive or a name, a backslash is
/// that of a path of Windows.
pub(super) fn words_of(step: &str) -> Vec<String> {
    if !is_of_windows(step) {
        return shlex::split(step).unwrap_or_default();
    }
    let (mut words, mut word, mut quote) = (Vec::new(), String::new(), None);
    for c in step.chars() {
        match quote {
            Some(open) if open == c => quote = None,
            None if matches!(c, '"' | '\'') => quote = Some(c),
            None if c.is_whitespace() => {
                words.extend(Some(std::mem::take(&mut word)).filter(|word| !word.is_empty()));
            }
            _ => word.push(c),
        }
    }
    words.extend(Some(word).filter(|word| !word.is_empty()));
    words
}

/// Checks whether a backslash stands between two parts of a path.
fn is_of_windows(step: &str) -> bool {
    let is_of_name = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | ':'));
    step.match_indices('\\').any(|(at, slash)| {
        is_of_name(step[..at].chars().next_back()) && is_of_name(step[at + slash.len()..].chars().next())
    })
}

/// Returns the path of a name that is relative to a folder, or absolute, with the parts that mean no more
/// than others do.
pub(crate) fn join(folder: Option<&str>, name: &str) -> String {
    let whole = match folder {
        Some(folder) if !is_absolute(name) => format!("{folder}/{name}"),
        _ => name.to_owned(),
    };
    let slashes = if is_of_windows(&whole) { whole.replace('\\', "/") } else { whole };
    let mut parts: Vec<&str> = Vec::new();
    for part in slashes.split('/').filter(|part| !matches!(*part, "" | ".")) {
        match parts.last() {
            Some(last) if part == ".." && *last != ".." => drop(parts.pop()),
            _ => parts.push(part),
        }
    }
    let root = if slashes.starts_with('/') { "/" } else { "" };
    format!("{root}{}", parts.join("/"))
}

/// Checks whether a path begins at a root, a home or a drive.
pub(crate) fn is_absolute(path: &str) -> bool {
    path.starts_with(['/', '~']) || has_drive(path)
}

/// Checks whether a path begins at a drive of Windows.
pub(crate) fn has_drive(path: &str) -> bool {
    path.get(1..3).is_some_and(|drive| matches!(drive, ":\\" | ":/"))
}

/// Commands that run the one behind their options: with the options that have a value, and true if an operand
/// of their own comes first.
const WRAPPERS: &[(&str, &[&str], bool)] = &[
    ("command", &[], false),
    ("env", &["-u", "-C"], false),
    ("exec", &[], false),
    ("ionice", &["-c", "-n"], false),
    ("nice", &["-n"], false),
    ("nohup", &[], false),
    ("setsid", &[], false),
    ("stdbuf", &["-i", "-o", "-e"], false),
    ("sudo", &["-C", "-D", "-g", "-h", "-p", "-u"], false),
    ("time", &["-f", "-o"], false),
    ("timeout", &["-k", "-s"], true),
    ("xargs", &["-d", "-I", "-L", "-n", "-P", "-s"], false),
    ("xvfb-run", &["-e", "-n", "-s"], false),
];
/// Words of a shell before a command of a loop or a condition.
const BEFORE: &[&str] = &["do", "else", "if", "then", "until", "while", "!"];

/// Returns the words of a step from its program on: without the variables that it sets, and without what only
/// runs the rest.
pub(super) fn from_program<'w, 's>(words: &'w [&'s str]) -> &'w [&'s str] {
    let mut rest = words;
    while let Some((first, after)) = rest.split_first() {
        let wrapper = WRAPPERS.iter().find(|(name, ..)| *name == without_folder(first));
        rest = match wrapper {
            Some((_, valued, has_operand)) => {
                let mut after = after;
                while let Some((option, values)) =
                    after.split_first().filter(|(word, _)| word.starts_with('-'))
                {
                    let n_values = usize::from(valued.contains(option));
                    after = values.get(n_values..).unwrap_or_default();
                }
                after.get(usize::from(*has_operand)..).unwrap_or_default()
            }
            None if sets(first) || BEFORE.contains(first) => after,
            None => return rest,
        };
    }
    rest
}

/// Checks whether a word sets a variable.
pub(super) fn sets(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(is_of_name)
}

/// Checks whether a word begins a redirection of output.
pub(super) fn is_redirection(word: &str) -> bool {
    word.trim_start_matches(['1', '2', '&']).starts_with('>')
}

/// Redirections that write no file.
const QUIET: [&str; 6] = ["2>&1", "2>/dev/null", "2> /dev/null", "&>/dev/null", ">/dev/null", "> /dev/null"];

/// Returns a command without the redirections that write no file.
pub(super) fn without_quiet(command: &str) -> String {
    QUIET.iter().fold(command.to_owned(), |command, quiet| command.replace(quiet, " "))
}

/// Returns the steps of a command line without here-documents, split outside quotes.
pub(super) fn steps(command: &str) -> Vec<&str> {
    let (mut steps, mut start) = (Vec::new(), 0);
    // The sign of the background, not a part of a redirection such as `2>&1`.
    let redirects = |at: usize| command[..at].ends_with(['>', '<']) || command[at + 1..].starts_with('>');
    let splits = |(at, c): &(usize, char)| match c {
        '&' => !redirects(*at),
        // The end of what `find` is to run.
        ';' => !command[..*at].ends_with('\\'),
        c => matches!(c, '\n' | ';' | '|'),
    };
    for (at, _) in outside_quotes(command).filter(splits) {
        steps.push(command[start..at].trim());
        start = at + 1;
    }
    steps.push(command[start..].trim());
    steps
}

/// Iterates over the characters of a command line that are not in quotes, with their positions.
pub(super) fn outside_quotes(command: &str) -> impl Iterator<Item = (usize, char)> {
    let mut quote = None;
    command.char_indices().filter(move |(_, c)| {
        let is_outside = quote.is_none() && !matches!(c, '\'' | '"');
        quote = match quote {
            Some(open) => Some(open).filter(|open| open != c),
            None => (!is_outside).then_some(*c),
        };
        is_outside
    })
}

/// Checks whether a program is a shell: `bash`, `/bin/sh`.
pub(super) fn is_shell(program: &str) -> bool {
    matches!(
        without_folder(program),
        "sh" | "ash" | "bash" | "csh" | "dash" | "fish" | "ksh" | "pwsh" | "tcsh" | "zsh"
    )
}

/// The programs that pass on all lines of what they read.
pub(super) const PASS_ALL: [&str; 4] = ["cat", "less", "more", "tee"];

/// Returns the name of a program without the folder that it is in.
pub(super) fn without_folder(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Returns the name of a program without a version: `python3.12` runs what `python` does.
pub(super) fn without_version(program: &str) -> &str {
    program.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit())
}

/// Returns one name for a file of the working folder.
pub(super) fn without_dot(path: &str) -> &str {
    path.strip_prefix("./").unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn folders_and_brackets_are_limited() {
        let deep = format!("ls; {}ls", "cd a; ".repeat(MOST_BYTES));
        assert!(
            Walk::of(&deep, None).steps.iter().flat_map(|step| &step.folder).all(|at| at.len() < MOST_BYTES)
        );
        let long = format!("cd {}; ls", "a/".repeat(MOST_BYTES));
        assert_eq!(Walk::of(&long, Some("/w")).end, None);
        let nested = format!("{}cd a; ls{}; ls", "(".repeat(100_000), ")".repeat(100_000));
        assert_eq!(Walk::of(&nested, Some("/w")).steps.len(), 2);
    }

    #[test]
    fn each_step_runs_in_the_folder_that_was_entered_last() {
        for (command, folder, expected, end) in [
            (
                "cd /w/api && make; ls",
                None,
                vec![("make", Some("/w/api")), ("ls", Some("/w/api"))],
                Some("/w/api"),
            ),
            (
                "cd api; rm a; cd ../web && rm b",
                Some("/w"),
                vec![("rm a", Some("/w/api")), ("rm b", Some("/w/web"))],
                Some("/w/web"),
            ),
            ("(cd api && make) && ls", None, vec![("make", Some("api")), ("ls", None)], None),
            ("cd \"$X\" && make", Some("/w"), vec![("make", None)], None),
            ("cd 'my notes'", None, vec![], Some("my notes")),
            ("cd C:\\proj\\src", None, vec![], Some("C:/proj/src")),
            ("ls", Some("C:\\proj"), vec![("ls", Some("C:/proj"))], Some("C:/proj")),
            ("ls", Some("."), vec![("ls", None)], None),
        ] {
            let walk = Walk::of(command, folder);
            let steps: Vec<_> =
                walk.steps.iter().map(|step| (step.command, step.folder.as_deref())).collect();
            assert_eq!((steps, walk.end.as_deref()), (expected, end), "{command}");
        }
    }

    #[test]
    fn a_text_of_several_lines_is_no_command() {
        for (command, expected) in [
            ("@'\nrm a\n'@ | Set-Content b.txt\nls", " | Set-Content b.txt\nls"),
            ("cat <<E\nrm a\nE\nls", "cat \nls"),
            ("ls @('a')", "ls @('a')"),
        ] {
            assert_eq!(without_documents(command), expected);
        }
    }

    #[test]
    fn a_path_has_one_form() {
        for (folder, name, expected) in [
            (None, "./a/../b.rs", "b.rs"),
            (Some("/w/api"), "../web/b.rs", "/w/web/b.rs"),
            (Some("/w"), "/a.rs", "/a.rs"),
            (Some("api"), "../../b.rs", "../b.rs"),
            (None, "C:\\proj\\a.cs", "C:/proj/a.cs"),
            (Some("C:/proj"), "src\\a.cs", "C:/proj/src/a.cs"),
            (Some("/w"), ".", "/w"),
        ] {
            assert_eq!(join(folder, name), expected, "{name}");
        }
    }
}
