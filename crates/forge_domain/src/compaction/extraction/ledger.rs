//! What was done to files, which check ran last, and which errors stand: read from structured calls alone.

use std::collections::BTreeMap;

use serde_json::Value;

use super::record::Record;
use crate::{Body, ContextMessage, ToolCall, ToolResult};

/// What the exchanges of a span did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ledger {
    /// Files by path with their last state, in the order in which they were last touched.
    pub(crate) files: Vec<(String, FileState)>,
    /// The last test, build or check, and whether it passed.
    pub(crate) last_check: Option<(String, bool)>,
    /// The first line of each error that nothing has mended since, oldest first.
    pub(crate) errors: Vec<String>,
    known: BTreeMap<String, bool>,
    open: Vec<(String, String)>,
}

/// The last state of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FileState {
    Created,
    Modified,
    Deleted,
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

/// Most errors that are kept.
const MAX_ERRORS: usize = 8;
/// Most characters of a command or an error line that are kept.
const MAX_CHARS: usize = 160;

impl Ledger {
    /// Takes in a call and its result.
    pub(crate) fn take(&mut self, call: &ToolCall, result: Option<&ToolResult>) {
        let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
        let argument = |names: &[&str]| names.iter().find_map(|name| arguments.get(name)?.as_str());
        let name = call.name.as_str().rsplit('.').next().unwrap_or_default().to_lowercase();
        let text = result.map(|result| result.content.to_text()).unwrap_or_default();
        let failed = result.is_some_and(|result| result.is_error) || looks_failed(&text);
        let path = argument(&["file_path", "path", "notebook_path", "filePath", "file", "filename"]);
        let command = argument(&["command", "cmd", "script", "input"]).filter(|_| path.is_none());
        let patch = [command, argument(&["input", "patch"])]
            .into_iter()
            .flatten()
            .find(|text| text.contains("*** Begin Patch"));
        let verb = argument(&["command"]).filter(|_| path.is_some()).unwrap_or(&name).to_lowercase();
        if !failed {
            match (patch, path) {
                (Some(patch), _) => self.take_patch(patch),
                (None, Some(path)) => self.take_path(path, &verb),
                (None, None) => {}
            }
        }
        if let Some(check) = command.and_then(check_in) {
            self.last_check = Some((check, !failed));
        }
        let is_read = path.is_some() && changes(&verb).is_none();
        let key = path.map(|path| format!("{name} {path}")).or_else(|| command.map(head));
        if let Some(key) = key {
            match (failed, error_line(&text)) {
                (true, Some(line)) if !is_read && !command.is_some_and(only_looks) => {
                    self.open.retain(|(_, known)| *known != line);
                    self.open.push((key, line));
                }
                (false, _) => self.open.retain(|(open, _)| *open != key),
                _ => {}
            }
        }
        let newest = self.open.len().saturating_sub(MAX_ERRORS);
        self.errors = self.open[newest..].iter().map(|(_, line)| line.clone()).collect();
    }

    /// Takes in what an earlier record said; nothing says what would mend an error in it.
    pub(super) fn take_record(&mut self, earlier: &Record) {
        for (path, state) in &earlier.files {
            self.set(path, *state);
        }
        if earlier.last_check.is_some() {
            self.last_check.clone_from(&earlier.last_check);
        }
        for line in &earlier.errors {
            self.open.push((line.clone(), line.clone()));
            self.errors.push(line.clone());
        }
    }

    fn take_patch(&mut self, patch: &str) {
        for line in patch.lines() {
            for (mark, state) in [
                ("*** Add File: ", FileState::Created),
                ("*** Update File: ", FileState::Modified),
                ("*** Delete File: ", FileState::Deleted),
            ] {
                if let Some(path) = line.strip_prefix(mark) {
                    self.set(path.trim(), state);
                }
            }
        }
    }

    fn take_path(&mut self, path: &str, verb: &str) {
        match changes(verb) {
            Some(FileState::Created) if self.known.contains_key(path) && !verb.contains("create") => {
                self.set(path, FileState::Modified);
            }
            Some(state) => self.set(path, state),
            None => drop(self.known.insert(path.to_owned(), true)),
        }
    }

    fn set(&mut self, path: &str, state: FileState) {
        let earlier =
            self.files.iter().position(|(known, _)| known == path).map(|at| self.files.remove(at).1);
        let state = match (earlier, state) {
            // A file that was made here and then changed is still a new one.
            (Some(FileState::Created), FileState::Modified) => FileState::Created,
            (_, state) => state,
        };
        self.known.insert(path.to_owned(), true);
        self.files.push((path.to_owned(), state));
    }
}

/// What a tool of that name does to a file; `None` where it only looks.
fn changes(verb: &str) -> Option<FileState> {
    let has = |words: &[&str]| words.iter().any(|word| verb.contains(word));
    match () {
        () if has(&["delete", "remove", "unlink"]) => Some(FileState::Deleted),
        () if has(&["write", "create"]) => Some(FileState::Created),
        () if has(&["edit", "replace", "patch", "insert", "append", "update"]) => Some(FileState::Modified),
        () => None,
    }
}

/// Runners of tests, builds and checks.
const RUNNERS: &[&str] = &[
    "cargo",
    "go",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "make",
    "just",
    "mvn",
    "gradle",
    "./gradlew",
    "dotnet",
    "deno",
    "mix",
    "swift",
    "mise",
    "npx",
    "uv",
    "poetry",
    "python",
    "python3",
];
/// Runners that do nothing else.
const CHECKERS: &[&str] =
    &["pytest", "tox", "tsc", "golangci-lint", "ruff", "mypy", "jest", "vitest", "eslint"];
/// What they are told to do.
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
    "pytest",
    "unittest",
    "mypy",
    "ruff",
    "fmt",
    "e2e",
    "validate",
    "ci",
];

/// The last test, build or check of a command line.
fn check_in(command: &str) -> Option<String> {
    let mut steps = command.split(['\n', ';', '|', '&']).map(str::trim);
    let is_check = |step: &&str| {
        let mut words =
            step.split_whitespace().skip_while(|word| word.contains('=') && !word.starts_with('-'));
        let Some(runner) = words.next() else { return false };
        if CHECKERS.contains(&runner) {
            return true;
        }
        let told =
            |word: &str| CHECKS.iter().any(|check| word == *check || word.starts_with(&format!("{check}:")));
        RUNNERS.contains(&runner) && words.take(4).any(told)
    };
    let step = steps.rfind(is_check)?;
    let step = step.trim_end_matches(['>', '1', '2']).trim_end();
    Some(step.chars().take(MAX_CHARS).collect())
}

/// The beginning of a command, a change of folder before it left out: what makes two runs the same.
fn head(command: &str) -> String {
    let command = match command.strip_prefix("cd ").and_then(|rest| rest.split_once("&&")) {
        Some((_, rest)) => rest.trim_start(),
        None => command,
    };
    command.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(40).collect()
}

/// Whether a command only looks: what it does not find is no open error.
fn only_looks(command: &str) -> bool {
    const LOOKS: &[&str] = &[
        "rg", "grep", "ls", "cat", "sed", "find", "head", "tail", "which", "test", "wc", "jq", "echo", "ps",
    ];
    let head = head(command);
    let mut words = head.split_whitespace();
    let first = words.next().unwrap_or_default();
    LOOKS.contains(&first)
        || (first == "git"
            && words.next().is_some_and(|word| ["show", "log", "diff", "grep", "status"].contains(&word)))
}

/// Whether a result reads like a failure: by its beginning and its end.
fn looks_failed(text: &str) -> bool {
    let beginning = text.char_indices().nth(4_000).map_or(text, |(at, _)| &text[..at]);
    let end = text.char_indices().rev().nth(2_000).map_or("", |(at, _)| &text[at..]);
    [beginning, end].iter().any(|part| {
        part.lines().any(|line| {
            const STARTS: &[&str] =
                &["FAIL", "--- FAIL", "error:", "error[E", "Traceback (most recent", "fatal:", "panic:"];
            STARTS.iter().any(|start| line.starts_with(start)) || says_failed(line)
        })
    })
}

fn says_failed(line: &str) -> bool {
    let code = |mark: &str| {
        line.find(mark)
            .is_some_and(|at| line[at + mark.len()..].starts_with(|c: char| ('1'..='9').contains(&c)))
    };
    let count = |mark: &str| {
        line.find(mark).is_some_and(|at| {
            let number = line[..at].rsplit(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
            number.starts_with(|c: char| ('1'..='9').contains(&c))
        })
    };
    line.contains("<tool_use_error>")
        || code("xit code ")
        || code("exited with code ")
        || count(" failed")
        || count(" failing")
}

/// The first line of a failed result that names the error.
fn error_line(text: &str) -> Option<String> {
    const STARTS: &[&str] = &["fatal", "panic", "FAIL", "--- FAIL", "Traceback", "E   ", "✗", "✘"];
    const WORDS: &[&str] = &[
        "No such file or directory",
        "not found",
        "annot ",
        "ould not ",
        "ermission denied",
        "undefined reference",
        "undefined:",
        "parse error",
        "unknown command",
        "unknown option",
        "unknown flag",
        "tool_use_error",
    ];
    let names_error = |line: &&str| {
        let line = line.trim_start();
        let noise =
            ["Process exited", "Command exited", "Chunk ID", "doesn't want to proceed", "Sibling tool call"];
        let says = STARTS.iter().any(|start| line.starts_with(start))
            || WORDS.iter().any(|word| line.contains(word))
            || ["rror:", "RROR:", "xception:", "rror[", "rror TS"].iter().any(|word| line.contains(word));
        says && !noise.iter().any(|word| line.contains(word))
    };
    let line = text.lines().find(names_error)?.trim();
    (line.chars().count() >= 8).then(|| line.chars().take(MAX_CHARS).collect())
}

/// Takes in the exchanges of a run of messages, results paired by position.
pub(crate) fn take_all(ledger: &mut Ledger, messages: &[ContextMessage]) {
    for (position, message) in messages.iter().enumerate() {
        for call in message.message().calls() {
            let result = messages[position + 1..].iter().find_map(|later| match &later.message().body {
                Body::Tool(result) if result.call_id == call.id => Some(result),
                _ => None,
            });
            ledger.take(call, result);
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::ToolName;

    /// The ledger of calls, each a tool, its arguments and its result.
    fn ledger(calls: &[(&str, Value, &str)]) -> Ledger {
        let mut ledger = Ledger::default();
        for (name, arguments, result) in calls {
            let call = ToolCall {
                id: "c".into(),
                name: ToolName::new(*name).unwrap(),
                arguments: arguments.to_string(),
            };
            ledger.take(&call, Some(&ToolResult::answer(&call, *result)));
        }
        ledger
    }

    #[test]
    fn files_keep_their_last_state() {
        use FileState::{Created, Deleted, Modified};
        let path = |path: &str| json!({"file_path": path});
        for (calls, expected) in [
            (vec![("Write", path("a"), "ok")], vec![("a", Created)]),
            (vec![("Write", path("a"), "ok"), ("Edit", path("a"), "ok")], vec![("a", Created)]),
            (vec![("Read", path("a"), "text"), ("Write", path("a"), "ok")], vec![("a", Modified)]),
            (vec![("Edit", path("a"), "Error: Exit code 1")], vec![]),
            (
                vec![("Edit", path("a"), "ok"), ("Edit", path("b"), "ok"), ("Edit", path("a"), "ok")],
                vec![("b", Modified), ("a", Modified)],
            ),
            (
                vec![(
                    "apply_patch",
                    json!({"input": "*** Begin Patch\n*** Add File: n\n*** Delete File: o\n"}),
                    "ok",
                )],
                vec![("n", Created), ("o", Deleted)],
            ),
        ] {
            let actual = ledger(&calls).files;
            let expected: Vec<_> =
                expected.into_iter().map(|(path, state)| (path.to_owned(), state)).collect();
            assert_eq!(actual, expected, "{calls:?}");
        }
    }

    #[test]
    fn the_last_check_and_its_outcome_are_kept() {
        let run = |command: &str| json!({"command": command});
        for (command, result, expected) in [
            ("cd a && cargo test --all | tail -3", "test result: ok", Some(("cargo test --all", true))),
            ("go vet ./... && go test ./...", "--- FAIL: TestX", Some(("go test ./...", false))),
            ("npm run lint", "Exit code 2", Some(("npm run lint", false))),
            ("CI=1 pytest -q", "3 passed", Some(("pytest -q", true))),
            ("ls target/test", "a", None),
            ("git commit -m 'cargo test'", "ok", None),
        ] {
            let actual = ledger(&[("Bash", run(command), result)]).last_check;
            let expected = expected.map(|(command, passed)| (command.to_owned(), passed));
            assert_eq!(actual.is_some(), expected.is_some(), "{command}: {actual:?}");
            assert_eq!(actual.map(|(_, passed)| passed), expected.map(|(_, passed)| passed), "{command}");
        }
    }

    #[test]
    fn an_error_stands_until_the_same_thing_succeeds() {
        let run = |command: &str| json!({"command": command});
        let failed = ("Bash", run("make all"), "main.c:3: error: missing ;\nExit code 2");
        assert_eq!(ledger(std::slice::from_ref(&failed)).errors, ["main.c:3: error: missing ;"]);
        assert_eq!(ledger(&[failed.clone(), ("Bash", run("make all"), "done")]).errors, Vec::<String>::new());
        assert_eq!(ledger(&[failed, ("Bash", run("ls"), "a")]).errors.len(), 1);
        assert_eq!(
            ledger(&[("Bash", run("grep x y"), "grep: y: No such file or directory\nExit code 2")]).errors,
            Vec::<String>::new()
        );
    }
}
