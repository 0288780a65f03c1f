//! The subject and effect of a call, as far as its name and arguments tell.

use std::sync::LazyLock;

use regex::Regex;
use serde_json::Value;

use super::command_line::{outside_quotes, steps, without_dot, without_folder};
use super::failure::{Evidence, id_while_running};
use super::shell_change::{ShellChange, shell_changes};
use super::{Failure, MAX_CHARS};
use crate::compaction::arguments::{PATCH_START, PATHS, SOUGHT, SUBJECTS};
use crate::compaction::features::{hash, is_line_break};
use crate::{ContextMessage, ToolCall};

/// The effect of a call that succeeds, and the meaning of its failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    /// A hash of its tool and arguments: calls that are the same have the same.
    pub(crate) call_hash: u64,
    /// Files by path, in order.
    pub(crate) touches: Vec<(String, Touch)>,
    /// The effect on a file that only its result names.
    changes: Option<Touch>,
    /// The changes of files by its command.
    pub(crate) shell_changes: Vec<ShellChange>,
    /// The test, build or check that it runs.
    pub(crate) check: Option<Check>,
    /// The identities of a call, of each of its commands one: a success resolves the errors of others whose
    /// last one is among them.
    pub(crate) keys: Vec<String>,
    /// True if it only looks: something that it does not find is not an unresolved error.
    pub(crate) only_looks: bool,
    /// The extent of the file that it reads; `None` if it reads none.
    pub(crate) reads: Option<Extent>,
    /// The most telling argument: a path, a command, a question.
    pub(crate) subject: Option<String>,
    /// The text that it looks for in its subject, if that is a path.
    pub(crate) sought: Option<String>,
    /// True if it runs a command or code, which tells last what came of it.
    pub(crate) runs: bool,
    /// True if the status of its command is not that of each of its steps, as behind a pipe.
    hides_status: bool,
    /// How much of what its command writes its result has.
    shown: Shown,
}

/// The part of what a command writes that its result has; nothing more is known of the later ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Shown {
    All,
    End,
    Start,
    Unknown,
}

/// A test, build or check.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Check {
    pub(crate) command: String,
    /// True if it runs tests: what only builds or reads the code shows less.
    pub(crate) is_test: bool,
}

/// The extent of a file that a call reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// All of it: the call names nothing but the file.
    Whole,
    /// The part that its other arguments describe.
    Part,
}

/// The effect on a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Touch {
    /// It is in that state afterwards.
    Leaves(FileState),
    /// It is written as a whole: modified if it was known before, else created.
    Writes,
    /// It is looked at.
    Looks,
}

/// The last state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    Created,
    Modified,
    Deleted,
}

/// How a check ended, as far as its result tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Something shows it.
    Passed,
    Failed,
    /// It still ran, it was stopped, or what it wrote does not tell.
    Unclear,
}

impl Outcome {
    pub(crate) const ALL: [Self; 3] = [Self::Passed, Self::Failed, Self::Unclear];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Unclear => "unclear",
        }
    }
}

impl FileState {
    pub(crate) const ALL: [Self; 3] = [Self::Created, Self::Modified, Self::Deleted];

    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Created => "created",
            Self::Modified => "modified",
            Self::Deleted => "deleted",
        }
    }
}

impl Deed {
    pub(super) fn of(call: &ToolCall) -> Self {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
        let argument = |names: &[&str]| names.iter().find_map(|name| arguments.get(name)?.as_str());
        let name = call.name.as_str().rsplit('.').next().unwrap_or_default().to_lowercase();
        let path = argument(PATHS);
        let listed = listed_command(&arguments);
        let command = argument(&["command", "cmd", "script", "input"]).or(listed.as_deref());
        let command = command.filter(|_| path.is_none());
        let told = argument(&["command"]).filter(|_| path.is_some());
        let described = argument(&["description"]).filter(|text| !text.trim().is_empty());
        let fields = || arguments.as_object().into_iter().flat_map(|fields| fields.values());
        let is_patch = |text: &&str| text.contains(PATCH_START);
        let patch = match path {
            None => fields().filter_map(Value::as_str).chain(listed.as_deref()).find(is_patch),
            Some(_) => argument(&["input", "patch"]).filter(is_patch),
        };
        let verb = told.unwrap_or(&name).to_lowercase();
        let shown = command.filter(|_| patch.is_none()).and_then(file_shown_by);
        let touches = match (patch, path, &shown) {
            (Some(patch), ..) => patched_files(patch),
            (None, Some(path), _) => vec![(path.to_owned(), touch(&verb))],
            (None, None, Some((file, _))) => vec![(file.clone(), Touch::Looks)],
            (None, None, None) => Vec::new(),
        };
        // A tool with a verb as an argument has that beside the path.
        let n_expected = 1 + usize::from(told.is_some());
        let extent = if fields().count() > n_expected { Extent::Part } else { Extent::Whole };
        let extent = shown.as_ref().map_or(extent, |(_, extent)| *extent);
        let reads = matches!(touches[..], [(_, Touch::Looks)]).then_some(extent);
        let is_named = patch.is_some() || path.is_some() || command.is_some();
        Self {
            call_hash: hash(call.name.as_str()).rotate_left(1) ^ hash(&call.arguments),
            changes: Some(touch(&name)).filter(|touch| !is_named && *touch != Touch::Looks),
            shell_changes: command.filter(|_| patch.is_none()).map(shell_changes).unwrap_or_default(),
            check: command.and_then(check_in),
            keys: match path {
                Some(path) => vec![format!("{name} {path}")],
                None => command.into_iter().flat_map(|command| command.split("&&")).map(identity).collect(),
            },
            only_looks: reads.is_some() || command.is_some_and(only_looks),
            runs: command.or_else(|| argument(&["code"])).is_some(),
            hides_status: command.is_some_and(hides_status),
            shown: command.map_or(Shown::All, shown_by),
            subject: path
                .or(shown.as_ref().map(|(file, _)| file.as_str()))
                .or_else(|| described.filter(|_| command.is_some_and(is_script)))
                .or_else(|| {
                    argument(SUBJECTS).or(listed.as_deref()).filter(|_| patch.is_none()).map(in_its_folder)
                })
                .map(str::to_owned)
                .or_else(|| patch.and_then(|_| paths_of(&touches)))
                .or_else(|| values(&arguments)),
            sought: argument(SOUGHT).filter(|_| path.is_some()).map(str::to_owned),
            touches,
            reads,
        }
    }

    /// Returns the file that it reads, and the extent.
    pub(crate) fn read(&self) -> Option<(&str, Extent)> {
        self.reads.zip(self.touches.first()).map(|(extent, (path, _))| (without_dot(path), extent))
    }

    /// Returns the failure that its result reports.
    pub(crate) fn failure<'a>(&self, result: &'a ContextMessage) -> Option<&'a Failure> {
        let failure = match self.check {
            Some(_) => result.report_of_check().failure.as_ref(),
            None if self.changes_files() || self.changes.is_some() => result.failure_of_change(),
            None => result.findings().failure.as_ref(),
        };
        failure.filter(|failure| self.hides_status || !failure.is_denied)
    }

    /// Returns how the check ended whose result it is; `marks_failures` is true if the session marks results
    /// that failed, so that one without the mark did not.
    pub(crate) fn outcome(&self, result: &ContextMessage, marks_failures: bool) -> Outcome {
        if self.failure(result).is_some() {
            return Outcome::Failed;
        }
        let is_shown = match result.report_of_check().evidence {
            Evidence::Said => true,
            Evidence::Status => !self.hides_status,
            Evidence::Empty => self.shown != Shown::Unknown,
            Evidence::None => marks_failures && !self.hides_status,
            Evidence::Unfinished => false,
        };
        if is_shown { Outcome::Passed } else { Outcome::Unclear }
    }

    /// Checks whether the result of a check has the end of what it wrote, and no failure there.
    pub(crate) fn ends_without_failure(&self, result: &ContextMessage) -> bool {
        let has_end = matches!(self.shown, Shown::All | Shown::End);
        has_end && self.failure(result).is_none() && !self.is_unfinished(result)
    }

    /// Checks whether the result says that the call did not end by itself.
    pub(crate) fn is_unfinished(&self, result: &ContextMessage) -> bool {
        self.runs && result.report_of_check().evidence == Evidence::Unfinished
    }

    /// Returns the id by which later calls ask what the command wrote since, if it did not end yet.
    pub(crate) fn id_while_running(&self, result: &ContextMessage) -> Option<String> {
        let text = result.message().text();
        id_while_running(&text).filter(|_| self.is_unfinished(result)).map(str::to_owned)
    }

    /// Checks whether it may be a question about the command that runs under an id.
    pub(crate) fn asks_about(&self, call: &ToolCall, id: &str) -> bool {
        let is_end = |c: Option<char>| c.is_none_or(|c| !c.is_alphanumeric());
        let is_alone = |(at, _): (usize, &str)| {
            let (before, rest) = call.arguments.split_at(at);
            is_end(before.chars().next_back()) && is_end(rest[id.len()..].chars().next())
        };
        !self.runs && self.touches.is_empty() && call.arguments.match_indices(id).any(is_alone)
    }

    /// Returns the file that its result names, if it changes one that its arguments do not, and the effect.
    pub(crate) fn named_change(&self, result: &ContextMessage) -> Option<(String, Touch)> {
        let touch = self.changes?;
        Some((file_named_in(&result.message().text())?.to_owned(), touch))
    }

    /// Checks whether it changes any file.
    pub(crate) fn changes_files(&self) -> bool {
        self.changes().next().is_some()
    }

    /// Iterates over the files that it changes, each with what becomes of it.
    pub(crate) fn changes(&self) -> impl Iterator<Item = (&str, Touch)> {
        let changed = self.touches.iter().filter(|(_, touch)| *touch != Touch::Looks);
        changed.map(|(path, touch)| (without_dot(path), *touch))
    }
}

/// Checks whether a command takes several lines: its first one hardly tells what it does.
fn is_script(command: &str) -> bool {
    in_its_folder(command).trim().contains('\n')
}

/// Returns a command that is a list of words; what it gives a shell to run is the command.
fn listed_command(arguments: &Value) -> Option<String> {
    let words = ["command", "cmd"].iter().find_map(|name| arguments.get(name)?.as_array())?;
    let words: Vec<&str> = words.iter().map(Value::as_str).collect::<Option<_>>()?;
    match words[..] {
        [shell, option, script] if is_shell(shell) && option.starts_with('-') && option.ends_with('c') => {
            Some(script.to_owned())
        }
        _ => Some(words.join(" ")),
    }
}

fn is_shell(program: &str) -> bool {
    without_folder(program).ends_with("sh")
}

/// Returns the paths of a patch's files in a line.
fn paths_of(touches: &[(String, Touch)]) -> Option<String> {
    let paths: Vec<&str> = touches.iter().map(|(path, _)| path.as_str()).collect();
    (!paths.is_empty()).then(|| paths.join(", "))
}

/// Characters of a value that is short, the most of any, and the most of such values.
const VALUE_CHARS: usize = 80;
const MOST_CHARS: usize = 400;
const VALUES: usize = 3;

/// Returns the short values of a call's arguments: an order's number, a name, a question.
fn values(arguments: &Value) -> Option<String> {
    let shown = |value: &Value| match value {
        Value::String(text) if text.contains(char::is_alphanumeric) && !text.contains(is_line_break) => {
            Some(text.trim().chars().take(MOST_CHARS).collect())
        }
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    };
    let mut shown: Vec<String> = arguments.as_object()?.values().filter_map(shown).collect();
    // A long text is told only if there is nothing else.
    if shown.iter().any(|value| value.chars().count() <= VALUE_CHARS) {
        shown.retain(|value| value.chars().count() <= VALUE_CHARS);
    }
    shown.truncate(VALUES);
    (!shown.is_empty()).then(|| shown.join(", "))
}

/// Returns a command without the comments and the change of folder before it.
fn in_its_folder(command: &str) -> &str {
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

/// Returns the files of a patch.
fn patched_files(patch: &str) -> Vec<(String, Touch)> {
    const MARKS: [(&str, FileState); 3] = [
        ("*** Add File: ", FileState::Created),
        ("*** Update File: ", FileState::Modified),
        ("*** Delete File: ", FileState::Deleted),
    ];
    let file = |line: &str| {
        let (path, state) =
            MARKS.iter().find_map(|(mark, state)| Some((line.strip_prefix(mark)?, *state)))?;
        Some((path.trim().to_owned(), Touch::Leaves(state)))
    };
    patch.lines().filter_map(file).collect()
}

/// Returns the effect on a file of a tool of that name.
fn touch(verb: &str) -> Touch {
    let has = |words: &[&str]| words.iter().any(|word| verb.contains(word));
    match () {
        () if has(&["delete", "remove", "unlink"]) => Touch::Leaves(FileState::Deleted),
        () if has(&["create"]) => Touch::Leaves(FileState::Created),
        () if has(&["write"]) => Touch::Writes,
        () if has(&["edit", "replace", "patch", "insert", "append", "update"]) => {
            Touch::Leaves(FileState::Modified)
        }
        () => Touch::Looks,
    }
}

/// The lines at the start and at the end of a result that may name the file that was changed.
const NAMING_LINES: usize = 8;

/// The forms in which results name a file: after a label, or in a sentence about what was done.
static NAMED_FILE: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let forms = [
        r"^\W{0,2}(?:open |current )?(?:file|path):[ \t]+([^\s()\[\]]+)",
        r"\b(?:file|wrote|written|saved|created|updated|edited|modified|deleted|changed)\b[^/\n]{0,40}?[ '`\x22]((?:[\w.~-]*/)+[\w.-]*\w)",
    ];
    Regex::new(&format!("(?im){}", forms.join("|"))).ok()
});

/// Returns the file that the result of a change names first.
fn file_named_in(text: &str) -> Option<&str> {
    let n_lines = text.lines().count();
    let is_edge = |nth: usize| nth < NAMING_LINES || nth + NAMING_LINES >= n_lines;
    let lines = text.lines().enumerate().filter(|(nth, _)| is_edge(*nth)).map(|(_, line)| line);
    let named = |line| {
        let found = NAMED_FILE.as_ref()?.captures(line)?;
        let range = found.get(1).or_else(|| found.get(2))?.range();
        Some(&line[range]).filter(|path| path.contains(['/', '.']))
    };
    lines.filter(|line: &&str| line.len() <= NAMING_BYTES).find_map(named)
}

/// A longer line is content.
const NAMING_BYTES: usize = 400;

/// Runners of tests, builds and checks.
const RUNNERS: &[&str] = &[
    "cargo", "go", "npm", "pnpm", "yarn", "bun", "make", "just", "mvn", "gradle", "gradlew", "dotnet",
    "deno", "mix", "swift", "mise", "npx", "uv", "poetry", "python", "bundle", "rails", "rake", "composer",
    "php", "bazel", "sbt", "dart", "flutter", "zig",
];
/// Runners that do nothing else.
const CHECKERS: &[&str] = &[
    "pytest",
    "tox",
    "tsc",
    "golangci-lint",
    "ruff",
    "mypy",
    "jest",
    "vitest",
    "eslint",
    "mocha",
    "ava",
    "phpunit",
    "rspec",
    "ctest",
    "bats",
];
/// The tasks of a runner that count as a check.
const CHECKS: &[&str] = &[
    "test",
    "tests",
    "build",
    "check",
    "clippy",
    "vet",
    "lint",
    "typecheck",
    "type-check",
    "tsc",
    "jest",
    "vitest",
    "mocha",
    "ava",
    "pytest",
    "unittest",
    "rspec",
    "spec",
    "phpunit",
    "mypy",
    "ruff",
    "fmt",
    "e2e",
    "validate",
    "ci",
];

/// The tasks of a runner that only change what is installed, such as `pytest` itself.
const INSTALLS: &[&str] = &["add", "i", "install", "remove", "uninstall", "upgrade"];

/// Options by which a check only tells what it would do.
const LISTS: &[&str] = &["--collect-only", "--dry-run", "--just-print", "--list", "--listTests", "--co"];

/// Commands that run the one after them.
const WRAPPERS: &[&str] = &["env", "nice", "sudo", "time", "timeout", "xvfb-run"];

/// Of the checkers and the checks, those that run tests.
const TESTS: &[&str] = &[
    "test", "tests", "jest", "vitest", "mocha", "ava", "pytest", "unittest", "tox", "rspec", "spec",
    "phpunit", "ctest", "bats", "e2e",
];

/// Returns the last test, build or check of a command line.
fn check_in(command: &str) -> Option<Check> {
    // Assignments, and what runs the command; only behind that may an option or a number come first.
    let is_before = |word: &&str| {
        word.contains('=')
            || WRAPPERS.contains(word)
            || word.starts_with(|c: char| c == '-' || c.is_ascii_digit())
    };
    let names = |word: &str, task: &str| {
        word.strip_prefix(task).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'))
    };
    let is_one_of = |tasks: &[&str], word: &str| tasks.iter().any(|task| names(word, task));
    let found = steps(command).into_iter().rev().find_map(|step| {
        let mut words: Vec<&str> = step.split_whitespace().skip_while(is_before).take(5).collect();
        let (runner, told) = words.split_first_mut()?;
        *runner = without_folder(runner);
        let mut tasks = told.iter().take_while(|word| !INSTALLS.contains(word));
        let only_lists = told.iter().any(|word| LISTS.contains(word) || *runner == "make" && *word == "-n");
        let builds_all =
            *runner == "make" && told.iter().all(|word| word.starts_with('-') || word.contains(['=', '>']));
        let is_check = CHECKERS.contains(runner)
            || builds_all
            || is_runner(runner) && tasks.any(|word| is_one_of(CHECKS, word));
        let is_test = words.iter().any(|word| is_one_of(TESTS, word));
        (is_check && !only_lists).then_some((step, is_test))
    });
    let (step, is_test) = found?;
    // What is left of `2>&1`.
    let step = [" 2>", " 1>", ">"].iter().find_map(|end| step.strip_suffix(end)).unwrap_or(step).trim_end();
    Some(Check { command: step.chars().take(MAX_CHARS).collect(), is_test })
}

/// Checks for a runner, whatever its version: `python3.12` runs what `python` does.
fn is_runner(program: &str) -> bool {
    RUNNERS.contains(&program.trim_end_matches(|c: char| c == '.' || c.is_ascii_digit()))
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

/// Returns the first two words of a command that are no options and set no variable: runs of it with others
/// are attempts at the same.
fn identity(command: &str) -> String {
    let head = head(command);
    let sets = |word: &&str| word.contains('=') && !word.contains('/');
    let words = head.split_whitespace().skip_while(sets).filter(|word| !word.starts_with('-'));
    words.take(2).collect::<Vec<_>>().join(" ")
}

/// Checks whether a command only looks, in each of its steps: something that it does not find is not an
/// unresolved error.
fn only_looks(command: &str) -> bool {
    const LOOKS: &[&str] = &[
        "cd", "rg", "grep", "ls", "cat", "sed", "find", "head", "tail", "which", "test", "wc", "jq", "echo",
        "ps", "sort", "uniq", "cut", "true", "nl",
    ];
    const LOOKS_OF_GIT: &[&str] = &["show", "log", "diff", "grep", "status", "branch", "blame"];
    let looks = |step: &str| {
        let mut words = step.split_whitespace();
        let first = words.next().unwrap_or_default();
        let writes = words.clone().any(|word| word == "-i" || word == "-delete");
        LOOKS.contains(&first) && !writes
            || first == "git" && words.next().is_some_and(|word| LOOKS_OF_GIT.contains(&word))
    };
    let command = without_quiet(command);
    let steps = steps(&command);
    !command.contains(['>', '<']) && steps.iter().filter(|step| !step.is_empty()).all(|step| looks(step))
}

/// Returns the file that a command line only shows, and the extent; `None` if it does anything else.
fn file_shown_by(command: &str) -> Option<(String, Extent)> {
    const SHOW: &[&str] = &["cat", "nl", "sed", "head", "tail"];
    if !only_looks(command) {
        return None;
    }
    let command = without_quiet(in_its_folder(command));
    let mut found = None;
    let steps = steps(&command);
    for (nth, step) in steps.iter().filter(|step| !step.is_empty()).enumerate() {
        let mut words = step.split_whitespace();
        let program = words.next().filter(|program| SHOW.contains(program))?;
        // The value of an option and a script for `sed` begin with a digit.
        let is_operand =
            |word: &&str| !word.starts_with(|c: char| matches!(c, '-' | '$') || c.is_ascii_digit());
        let mut operands = words.map(|word| word.trim_matches(['"', '\''])).filter(is_operand);
        match (nth, operands.next()) {
            (0, Some(file)) if operands.next().is_none() && file.contains(['.', '/']) => {
                found = Some((file.to_owned(), if program == "cat" { Extent::Whole } else { Extent::Part }));
            }
            // Behind a pipe, a command reads from the pipe.
            (1.., None) => found = found.map(|(file, _)| (file, Extent::Part)),
            _ => return None,
        }
    }
    found
}

/// Redirections that write no file.
const QUIET: [&str; 5] = ["2>&1", "2>/dev/null", "2> /dev/null", ">/dev/null", "> /dev/null"];

/// Returns a command without the redirections that write no file.
fn without_quiet(command: &str) -> String {
    QUIET.iter().fold(command.to_owned(), |command, quiet| command.replace(quiet, " "))
}

/// Checks whether the status of a command line is not that of each of its steps: they are in a pipe, or the
/// next one runs whatever the last one did.
fn hides_status(command: &str) -> bool {
    outside_quotes(command.trim_end()).any(|(_, c)| matches!(c, '|' | ';' | '\n'))
}

/// Returns how much of what a command line writes its result has.
fn shown_by(command: &str) -> Shown {
    let command = command.replace("2>&1", "").replace("&&", ";").replace("||", ";");
    let marks = outside_quotes(command.trim_end()).filter(|(_, c)| matches!(c, '|' | '>' | '&'));
    let readers = marks.map(|(at, _)| {
        let reader = command[at..].strip_prefix('|').and_then(|rest| rest.split_whitespace().next());
        match reader.map(without_folder) {
            Some("cat" | "less" | "more" | "tee") => Shown::All,
            Some("tail") => Shown::End,
            Some("head") => Shown::Start,
            // A file, a filter, the background.
            _ => Shown::Unknown,
        }
    });
    readers.max().unwrap_or(Shown::All)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ToolName;

    #[test]
    fn a_call_is_about_a_file_a_command_or_a_question() {
        type About<'a> = (Option<(&'a str, Extent)>, &'a [&'a str], Option<&'a str>);
        let table: [(&str, &str, About<'_>); 18] = [
            ("Read", r#"{"file_path":"a.rs"}"#, (Some(("a.rs", Extent::Whole)), &[], Some("a.rs"))),
            ("Read", r#"{"file_path":"a.rs","limit":9}"#, (Some(("a.rs", Extent::Part)), &[], Some("a.rs"))),
            (
                "editor",
                r#"{"command":"view","path":"a.rs"}"#,
                (Some(("a.rs", Extent::Whole)), &[], Some("a.rs")),
            ),
            ("editor", r#"{"command":"create","path":"a.rs"}"#, (None, &["a.rs"], Some("a.rs"))),
            ("Write", r#"{"path":"./a.rs","text":"x"}"#, (None, &["a.rs"], Some("./a.rs"))),
            ("Bash", r#"{"command":"ls -l"}"#, (None, &[], Some("ls -l"))),
            ("Bash", r##"{"command":"# look\ncd /a\nls -l"}"##, (None, &[], Some("ls -l"))),
            ("Bash", r#"{"command":"cd /a; ls -l"}"#, (None, &[], Some("ls -l"))),
            ("Bash", r#"{"command":"cd /a"}"#, (None, &[], Some("cd /a"))),
            ("Bash", r#"{"command":"cat a.rs"}"#, (Some(("a.rs", Extent::Whole)), &[], Some("a.rs"))),
            (
                "shell",
                r#"{"command":["bash","-lc","cd /a && sed -n '1,40p' src/a.rs 2>/dev/null"]}"#,
                (Some(("src/a.rs", Extent::Part)), &[], Some("src/a.rs")),
            ),
            (
                "Bash",
                r#"{"command":"nl -ba a.rs | sed -n 1,40p"}"#,
                (Some(("a.rs", Extent::Part)), &[], Some("a.rs")),
            ),
            ("Bash", r#"{"command":"cat a.rs b.rs"}"#, (None, &[], Some("cat a.rs b.rs"))),
            ("Bash", r#"{"command":"cat a.rs && make"}"#, (None, &[], Some("cat a.rs && make"))),
            ("Bash", r#"{"command":"cat > a.rs"}"#, (None, &[], Some("cat > a.rs"))),
            (
                "apply_patch",
                r#"{"input":"*** Begin Patch\n*** Add File: n\n*** Update File: o\n"}"#,
                (None, &["n", "o"], Some("n, o")),
            ),
            ("now", "{}", (None, &[], None)),
            ("broken", "{", (None, &[], None)),
        ];
        for (name, arguments, expected) in table {
            let call =
                ToolCall { id: "c".into(), name: ToolName::new(name).unwrap(), arguments: arguments.into() };
            let deed = Deed::of(&call);
            let changed: Vec<&str> = deed.changes().map(|(path, _)| path).collect();
            let actual = (deed.read(), changed.as_slice(), deed.subject.as_deref());
            assert_eq!(actual, expected, "{name} {arguments}");
        }
    }
}
