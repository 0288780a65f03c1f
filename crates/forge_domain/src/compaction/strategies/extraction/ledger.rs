//! The changes to files, the last check, and the unresolved errors: read from structured calls alone.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use super::passage::is_omission;
use super::record::{OpenError, Record};
use crate::compaction::answered_call::answered_call;
use crate::compaction::findings::{
    Check, Deed, Failure, FileState, Outcome, ShellChange, Touch, identity, is_marked_failed, is_refused,
};
use crate::compaction::short_text::SHORTEST;
use crate::compaction::stub::is_stub;
use crate::{Context, ContextMessage, Message};

/// The effects of the exchanges of a span.
#[derive(Debug, Default)]
pub(super) struct Ledger<'a> {
    /// The last state of each file that was changed, and when it was last touched.
    files: HashMap<Cow<'a, str>, (FileState, usize)>,
    /// Files that existed before they were written.
    known: HashSet<Cow<'a, str>>,
    /// The last run of tests and the last other check after it, and how they ended.
    last_test: Option<(&'a str, Outcome)>,
    last_check: Option<(&'a str, Outcome)>,
    /// The failures.
    open: Vec<Open<'a>>,
    n_touches: usize,
    n_exchanges: usize,
}

/// A failure.
#[derive(Debug)]
struct Open<'a> {
    /// The key of what would fix it.
    key: Cow<'a, str>,
    /// The line that names the error, and the label of the result that has it.
    line: &'a str,
    label: Option<String>,
}

/// Most errors that are kept.
const MAX_ERRORS: usize = 8;
/// Most bytes of a path: what is longer names no file, and would push the others out of the record.
const MAX_PATH: usize = 1_024;

impl<'a> Ledger<'a> {
    /// Adds the content of an earlier record.
    pub(super) fn take_record(&mut self, earlier: &'a Record) {
        for (path, state) in &earlier.files {
            self.set(path.as_str().into(), *state);
        }
        let known = |last: &'a Option<(String, Outcome)>| {
            last.as_ref().map(|(run, outcome)| (run.as_str(), *outcome))
        };
        self.last_test = known(&earlier.last_test).or(self.last_test);
        self.last_check = known(&earlier.last_check).or(self.last_check);
        self.open.extend(earlier.errors.iter().map(|error| Open {
            key: match error.mended_by.as_deref() {
                Some(key) => key.into(),
                None => {
                    earlier.command_of(error).map_or(error.line.as_str().into(), |it| identity(it).into())
                }
            },
            line: &error.line,
            label: error.label.clone(),
        }));
    }

    /// Takes in the exchanges of a context, in the order of their calls; `sources` are its messages as they
    /// were at first.
    pub(super) fn take_all(&mut self, context: &'a Context, sources: &'a [ContextMessage]) {
        let results = sources.iter().enumerate();
        let answers = results.filter_map(|(at, result)| Some((answered_call(context, at)?, result)));
        // A call without an answer, or whose answer is gone, tells nothing.
        let mut answers: Vec<_> = answers.filter(|(_, result)| !is_gone(result.message())).collect();
        answers.sort_unstable_by_key(|(asked, _)| asked.place);
        let marked = answers.iter().filter(|(_, result)| is_marked_failed(result.message()));
        let marking: HashSet<&str> = marked.map(|(asked, _)| asked.call.name.as_str()).collect();
        let mut running: HashMap<String, &Deed> = HashMap::new();
        for (asked, result) in answers {
            // An argument may have been shortened since.
            let deed =
                sources[asked.place.message].findings().deeds.get(asked.place.nth).unwrap_or(asked.deed);
            let marks_failures = marking.contains(asked.call.name.as_str());
            let ids = if running.is_empty() { Vec::new() } else { deed.ids_asked_about(asked.call) };
            let id = ids.into_iter().find(|id| running.contains_key(id));
            // A call that asks about a running command tells how that command ended.
            if let Some((id, command)) = id.and_then(|id| running.remove_entry(&id)) {
                self.take_end(command, result, marks_failures);
                if command.unfinished(result).is_some() {
                    running.insert(id, command);
                }
                continue;
            }
            self.take(deed, result, marks_failures);
            let unfinished = deed.unfinished(result);
            running.extend(unfinished.and_then(|unfinished| unfinished.id.clone()).map(|id| (id, deed)));
        }
    }

    fn take(&mut self, deed: &'a Deed, result: &'a ContextMessage, marks_failures: bool) {
        self.n_exchanges += 1;
        if deed.failure(result).is_none() && !is_refused(result.message()) {
            // Of a path that was shortened, no file is known.
            let is_whole = |path: &str| path.len() <= MAX_PATH && !path.lines().any(is_omission);
            for (path, touch) in deed.touches.iter().filter(|(path, _)| is_whole(path)) {
                self.touch(path.into(), *touch);
            }
            if let Some((path, touch)) = deed.named_change(result) {
                self.touch(self.file_at(path), touch);
            }
            if deed.changed_as_told(result) {
                deed.shell_changes.iter().for_each(|change| self.take_change(change));
            }
        }
        self.take_end(deed, result, marks_failures);
    }

    /// Takes in how a call ended: what that says of checks and errors. `marks_failures` is true if its tool
    /// marks results that failed.
    fn take_end(&mut self, deed: &'a Deed, result: &'a ContextMessage, marks_failures: bool) {
        if !deed.checks.is_empty() {
            let outcome = deed.outcome(result, marks_failures);
            for check in deed.checks_with(outcome, result) {
                self.take_check(check, outcome);
            }
            // Whatever failed in the work before, what checks it shows no failure now. A test that failed is
            // told as the last one.
            if outcome == Outcome::Passed || deed.ends_without_failure(result) {
                self.open.retain(|open| is_outside(&open.key));
            }
        }
        let Some(key) = deed.keys.last() else { return };
        match deed.failure(result) {
            // What did not end has not succeeded yet.
            None if deed.unfinished(result).is_some() => {}
            None => self.open.retain(|open| deed.keys.iter().all(|key| *key != open.key)),
            Some(Failure { line: Some(line), .. }) if deed.may_stand(result) => {
                // If a command fails with another error, it got past the earlier one.
                self.open.retain(|open| open.key != *key && open.line != line);
                self.open.push(Open { key: key.into(), line, label: result.id().map(|id| id.to_string()) });
            }
            Some(_) => {}
        }
    }

    fn take_check(&mut self, check: &'a Check, outcome: Outcome) {
        let run = Some((check.command.as_str(), outcome));
        if check.is_test {
            (self.last_test, self.last_check) = (run, None);
        } else {
            self.last_check = run;
        }
    }

    fn touch(&mut self, path: Cow<'a, str>, touch: Touch) {
        match touch {
            Touch::Leaves(state) => self.set(path, state),
            // What was removed may have been made here.
            Touch::Writes if matches!(self.files.get(&path), Some((FileState::Deleted, _))) => {
                self.set(path, FileState::Created);
            }
            Touch::Writes if self.known.contains(&path) => self.set(path, FileState::Modified),
            Touch::Writes => self.set(path, FileState::Created),
            Touch::Looks => drop(self.known.insert(path)),
        }
    }

    /// Returns the file of a path, which may have been known by a part of it.
    fn file_at(&self, path: String) -> Cow<'a, str> {
        let mut found = self.known.iter().filter(|known| is_end(&path, known));
        let known = found.next().filter(|_| found.next().is_none()).cloned();
        known.unwrap_or_else(|| path.into())
    }

    /// Takes in what a command did to files.
    fn take_change(&mut self, change: &'a ShellChange) {
        match change {
            ShellChange::Removes(removed) => {
                for path in self.changed_files(removed) {
                    self.set(path, FileState::Deleted);
                }
            }
            ShellChange::Moves { from, to } => self.take_move(from, to),
            ShellChange::Edits(path) => self.set(self.known_file(path), FileState::Modified),
            ShellChange::Writes(path) => {
                let path = self.known_file(path);
                let is_known = self.known.contains(&path);
                self.set(path, if is_known { FileState::Modified } else { FileState::Created });
            }
            // A new file was never committed.
            ShellChange::Restores(restored) if restored == "." => {
                self.files.retain(|_, (state, _)| *state == FileState::Created);
            }
            ShellChange::Restores(restored) => {
                for path in self.changed_files(restored) {
                    self.files.remove(&path);
                }
            }
        }
    }

    /// Notes that changed files have another name, alone or with their folder: the one that the command says,
    /// as no other may stand anywhere.
    fn take_move(&mut self, from: &str, to: &'a str) {
        for path in self.changed_files(from) {
            // A file that was made here was never known by its first name.
            if matches!(self.files.get(&path), Some((FileState::Created, _))) {
                self.files.remove(&path);
            } else {
                self.set(path, FileState::Deleted);
            }
            self.set(self.known_file(to), FileState::Created);
        }
    }

    /// Returns the known file that a command names, which may be relative to where it ran, or that name.
    fn known_file(&self, name: &'a str) -> Cow<'a, str> {
        let mut found = self.known.iter().filter(|path| is_end(path, name));
        match (found.next(), found.next()) {
            (Some(path), None) => path.clone(),
            _ => name.into(),
        }
    }

    /// Returns the changed files of a name, or in the folder of that name. Others are no part of the work:
    /// the output of a build, temporary files. The name may be relative to where the command ran.
    fn changed_files(&self, name: &str) -> Vec<Cow<'a, str>> {
        let is_in =
            |path: &str| path.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let ends_so = |path: &str| is_end(path, name);
        let found = |is_it: &dyn Fn(&str) -> bool| -> Vec<Cow<'a, str>> {
            self.files.keys().filter(|path| is_it(path)).cloned().collect()
        };
        let mut files = found(&is_in);
        if files.is_empty() {
            // Of two files of that name, it may be either.
            files = Some(found(&ends_so)).filter(|found| found.len() == 1).unwrap_or_default();
        }
        // In an order that is always the same.
        files.sort_unstable();
        files
    }

    fn set(&mut self, path: Cow<'a, str>, state: FileState) {
        let state = match (self.files.get(&path), state) {
            // A file that was made here and then changed is still a new one.
            (Some((FileState::Created, _)), FileState::Modified) => FileState::Created,
            (_, state) => state,
        };
        self.n_touches += 1;
        self.files.insert(path.clone(), (state, self.n_touches));
        self.known.insert(path);
    }

    /// Writes the files in the order in which they were last touched, the last check, and the newest
    /// unresolved errors, oldest first.
    pub(super) fn write_into(self, record: &mut Record) {
        let mut files: Vec<_> = self.files.into_iter().collect();
        files.sort_unstable_by_key(|(_, (_, touched))| *touched);
        record.files = files.into_iter().map(|(path, (state, _))| (path.into_owned(), state)).collect();
        let owned = |(run, outcome): (&str, Outcome)| (run.to_owned(), outcome);
        (record.last_test, record.last_check) = (self.last_test.map(owned), self.last_check.map(owned));
        // Where nothing was done since, the errors of earlier records stay as they were.
        let most = if self.n_exchanges == 0 { self.open.len() } else { MAX_ERRORS };
        let newest = self.open.len().saturating_sub(most);
        let errors = self.open.into_iter().skip(newest).map(|Open { key, line, label }| OpenError {
            label,
            line: line.to_owned(),
            mended_by: (key != line).then(|| key.into_owned()),
        });
        record.errors = errors.collect();
    }
}

/// Checks whether a path ends in the names of another one, or is that.
fn is_end(path: &str, end: &str) -> bool {
    path.strip_suffix(end).is_some_and(|folder| folder.is_empty() || folder.ends_with('/'))
}

/// Checks whether a key is of a command that does something outside of the work: no check of the work shows
/// that it is mended.
fn is_outside(key: &str) -> bool {
    const OUTSIDE: &[&str] = &[
        "apt",
        "apt-get",
        "aws",
        "az",
        "brew",
        "curl",
        "docker",
        "gcloud",
        "gh",
        "git",
        "helm",
        "kubectl",
        "mysql",
        "podman",
        "psql",
        "rsync",
        "scp",
        "service",
        "ssh",
        "systemctl",
        "terraform",
        "wget",
    ];
    key.split_whitespace().next().is_some_and(|program| OUTSIDE.contains(&program))
}

/// Checks whether compaction cleared or cut a result, so that it no longer tells whether it failed.
fn is_gone(message: &Message) -> bool {
    let text = message.text();
    text == SHORTEST || is_stub(&text)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::{Value, json};

    use super::*;
    use crate::compaction::fixture::Characters;
    use crate::{Conversation, ToolCall, ToolName, ToolResult};

    /// Returns the record of calls, each a tool, its arguments and its result.
    fn ledger(calls: &[(&str, Value, &str)]) -> Record {
        ledger_after(&Record::default(), calls)
    }

    /// Returns the record of calls after an earlier record.
    fn ledger_after(earlier: &Record, calls: &[(&str, Value, &str)]) -> Record {
        let answered = calls.iter().map(|(name, arguments, result)| {
            let call = ToolCall {
                id: "c".into(),
                name: ToolName::new(*name).unwrap(),
                arguments: arguments.to_string(),
            };
            let result = ToolResult::answer(&call, *result);
            (call, result)
        });
        ledger_of(earlier, answered)
    }

    /// Returns the record of answered calls after an earlier record.
    fn ledger_of(earlier: &Record, answered: impl IntoIterator<Item = (ToolCall, ToolResult)>) -> Record {
        let mut log = Conversation::new();
        for (call, result) in answered {
            for message in [Message::calling(vec![call]), Message::tool(result)] {
                log.append(ContextMessage::count(message, &Characters));
            }
        }
        let mut ledger = Ledger::default();
        ledger.take_record(earlier);
        let view = log.view();
        ledger.take_all(&view, view.messages());
        let mut record = Record::default();
        ledger.write_into(&mut record);
        record
    }

    /// Returns the outcome of the last test or, without one, of the last other check.
    fn last_outcome(record: &Record) -> Option<Outcome> {
        record.last_test.as_ref().or(record.last_check.as_ref()).map(|(_, outcome)| *outcome)
    }

    /// Returns the files of the record of calls, in a line each.
    fn files(calls: &[(&str, Value, &str)]) -> Vec<String> {
        let files = ledger(calls).files.into_iter();
        files.map(|(path, state)| format!("{} {path}", state.word())).collect()
    }

    #[test]
    fn files_keep_their_last_state() {
        let path = |path: &str| json!({"file_path": path});
        let run = |command: &str| ("Bash", json!({"command": command}), "");
        let patch = |lines: &str| json!({"input": format!("*** Begin Patch\n{lines}")});
        for (calls, expected) in [
            (vec![("Write", path("a"), "ok")], vec!["created a"]),
            (vec![("Write", path("a"), "ok"), ("Edit", path("a"), "ok")], vec!["created a"]),
            (vec![("Read", path("a"), "text"), ("Write", path("a"), "ok")], vec!["modified a"]),
            (vec![("view", path("a"), "text"), ("create", path("a"), "ok")], vec!["modified a"]),
            (vec![("delete_lines", path("a"), "ok")], vec!["modified a"]),
            (vec![("create", path("a"), "ok"), run("rm a"), ("create", path("a"), "ok")], vec!["created a"]),
            (vec![("create_directory", path("a"), "ok")], vec![]),
            (vec![("edit_file", json!({"target_file": "a"}), "The changes were made.")], vec!["modified a"]),
            (
                vec![("Edit", path("a"), "ok"), ("Edit", path("b"), "ok"), ("Edit", path("a"), "ok")],
                vec!["modified b", "modified a"],
            ),
            (
                vec![
                    ("edit", path("a.py"), "ok"),
                    ("move_file", json!({"source": "a.py", "destination": "b.py"}), "ok"),
                ],
                vec!["deleted a.py", "created b.py"],
            ),
            (
                vec![("apply_patch", patch("*** Add File: n\n*** Delete File: o\n"), "ok")],
                vec!["created n", "deleted o"],
            ),
            (
                vec![("apply_patch", patch("*** Update File: o\n*** Move to: n\n"), "ok")],
                vec!["deleted o", "created n"],
            ),
            (
                vec![
                    ("Write", path("/w/a.py"), "ok"),
                    ("Write", path("/w/b/c.py"), "ok"),
                    ("Write", path("/w/b/e.py"), "ok"),
                    ("Write", path("/w/b/d.py"), "ok"),
                    ("Write", path("/w/da.py"), "ok"),
                    run("cd /w && python a.py > out; rm -f a.py out 2>/dev/null; rm *.py"),
                    run("git rm -r /w/b/"),
                ],
                vec![
                    "created /w/da.py",
                    "deleted /w/a.py",
                    "deleted /w/b/c.py",
                    "deleted /w/b/d.py",
                    "deleted /w/b/e.py",
                ],
            ),
            (
                vec![
                    ("Write", path("/w/a/mod.rs"), "ok"),
                    ("Write", path("/w/b/mod.rs"), "ok"),
                    run("cd b && rm mod.rs"),
                ],
                vec!["created /w/a/mod.rs", "created /w/b/mod.rs"],
            ),
            (
                vec![("edit", path("a"), "ok"), ("write", path("b"), "ok"), run("git stash")],
                vec!["created b"],
            ),
        ] {
            assert_eq!(files(&calls), expected, "{calls:?}");
        }
    }

    #[test]
    fn a_change_that_was_refused_is_none() {
        let path = json!({"path": "a"});
        for (tool, arguments, result, is_made) in [
            ("Edit", &path, "Error: Exit code 1", false),
            ("create", &path, "Ran into [Errno 2] No such file or directory: 'a'", false),
            ("edit", &path, "Your proposed edit has introduced new syntax error(s).\nRetry.", false),
            ("edit", &path, "No replacement was performed: not there.", false),
            ("edit", &path, "File has been modified since it was read.", false),
            ("edit", &path, "Found 3 occurrences of the text; it must be unique.", false),
            ("edit", &path, r#"{"status": "error", "message": "no"}"#, false),
            ("apply", &path, "apply_patch verification failed: Failed to find the lines", false),
            ("edit", &json!({"path": "a", "dryRun": true}), "-a\n+b", false),
            ("Bash", &json!({"command": "sed -i s/x/y/ a"}), "sed: can't read a: No such file", false),
            ("edit", &path, "Updated a, which could not be formatted.", true),
            ("edit", &path, "// It does not move.\nfn a() {}", true),
            ("edit", &path, "if not found: return", true),
            ("edit", &path, "The file /w/access-denied/a.tsx has been updated.", true),
            ("edit", &path, "[File: /w/errors/failed.py (90 lines total)]", true),
            ("edit", &path, "The file was written.\n1: error: Something went wrong\n2: 2 failed", true),
        ] {
            let files = files(&[(tool, arguments.clone(), result)]);
            assert_eq!(files, ["modified a"][usize::from(!is_made)..], "{tool}: {result}");
        }
        let path = json!({"path": "a.py"});
        for kept in ["rm: cannot remove 'a.py': Permission denied", "Error: Exit code 1"] {
            let removes = ("Bash", json!({"command": "rm -f a.py"}), kept);
            assert_eq!(files(&[("write", path.clone(), "ok"), removes]), ["created a.py"], "{kept}");
        }
    }

    #[test]
    fn a_changed_file_may_be_named_by_the_result_alone() {
        let text = || json!({"text": "a"});
        for (calls, expected) in [
            (
                vec![("edit", text(), "Text replaced.\n[File: /w/a.py (90 lines total)]\n1:b")],
                vec!["modified /w/a.py"],
            ),
            (vec![("insert", text(), "14 lines")], vec![]),
            (vec![("create_branch", text(), "Created branch feature/login.")], vec![]),
            (
                vec![("write_note", text(), "The note was written to 'notes/a.md'.")],
                vec!["created notes/a.md"],
            ),
            (
                vec![
                    ("create", json!({"path": "a.py"}), "ok"),
                    ("insert", text(), "[File: /w/a.py (9 lines total)]"),
                    ("Bash", json!({"command": "rm a.py"}), ""),
                ],
                vec!["deleted a.py"],
            ),
        ] {
            assert_eq!(files(&calls), expected, "{calls:?}");
        }
    }

    #[test]
    fn what_a_shell_does_to_files_is_known() {
        use FileState::{Created, Deleted, Modified};
        let path = |path: &str| json!({"path": path});
        let run = |command: &str| ("Bash", json!({"command": command}), "");
        for (calls, expected) in [
            (
                vec![
                    ("Write", path("/w/src/a.py"), "ok"),
                    ("Read", path("/w/src/b.py"), "text"),
                    ("Edit", path("/w/src/c.py"), "ok"),
                    run("cd /w && git mv src/a.py lib/a.py && mv src/c.py lib/"),
                    run("sed -i 's/x/y/' src/b.py"),
                    run("cat > d.py <<E\nx\nE"),
                ],
                vec![
                    ("lib/a.py", Created),
                    ("/w/src/c.py", Deleted),
                    ("lib/c.py", Created),
                    ("/w/src/b.py", Modified),
                    ("d.py", Created),
                ],
            ),
            (
                vec![("Edit", path("a.py"), "ok"), ("Edit", path("b.py"), "ok"), run("git checkout -- a.py")],
                vec![("b.py", Modified)],
            ),
        ] {
            let actual = ledger(&calls).files;
            let expected: Vec<_> =
                expected.into_iter().map(|(path, state)| (path.to_owned(), state)).collect();
            assert_eq!(actual, expected, "{calls:?}");
        }
    }

    #[test]
    fn the_last_test_and_check_and_their_outcomes_are_kept() {
        let run = |command: &'static str, result: &'static str| ("Bash", json!({"command": command}), result);
        let test = run("cargo test", "error: 3 tests");
        let told =
            |last: Option<(String, Outcome)>| last.map(|(run, outcome)| format!("{run} {}", outcome.word()));
        for (calls, expected) in [
            (
                vec![run("cd a && cargo test --all | tail -3", "test result: ok")],
                [Some("cargo test --all passed"), None],
            ),
            (
                vec![run("go vet ./... && go test ./...", "--- FAIL: TestX")],
                [Some("go test ./... failed"), None],
            ),
            (vec![run("npm run lint", "Exit code 2")], [None, Some("npm run lint failed")]),
            (vec![run("CI=1 pytest -q", "3 passed")], [Some("CI=1 pytest -q passed"), None]),
            (vec![run("ls target/test", "a")], [None, None]),
            (
                vec![run("cd /w && Q=1 timeout 300 /w/.venv/bin/python3.12 -m pytest -q", "3 passed")],
                [Some("Q=1 timeout 300 /w/.venv/bin/python3.12 -m pytest -q passed"), None],
            ),
            (vec![run("uv pip install pytest", "done"), run("npm i -D vitest", "done")], [None, None]),
            (
                vec![run(
                    "npm run build",
                    "Output: built\nError: (none)\nExit Code: 0\nSignal: (none)\nPIDs: (none)\nPGID: 9",
                )],
                [None, Some("npm run build passed")],
            ),
            (vec![run("git commit -m 'cargo test'", "ok")], [None, None]),
            (
                vec![run("npm test", "Done successfully\n<returncode>1</returncode>")],
                [Some("npm test failed"), None],
            ),
            (vec![run("npm test", "Done successfully\n[exit 1]")], [Some("npm test failed"), None]),
            // Behind a pipe, the status is that of another command.
            (
                vec![run(
                    "npm run build 2>&1 | tail",
                    "exit code: 0\na.ts(3,1): error TS2304: Cannot find x",
                )],
                [None, Some("npm run build failed")],
            ),
            (
                vec![run("npm run build", "exit code: 0\nwarning: error: was renamed")],
                [None, Some("npm run build passed")],
            ),
            // A build says nothing about a failed test.
            (
                vec![test.clone(), run("cargo clippy", "ok")],
                [Some("cargo test failed"), Some("cargo clippy passed")],
            ),
            (
                vec![run("cargo clippy", "ok"), test.clone(), run("cargo test", "ok")],
                [Some("cargo test passed"), None],
            ),
        ] {
            let record = ledger(&calls);
            let actual = [told(record.last_test), told(record.last_check)];
            assert_eq!(actual, expected.map(|last| last.map(str::to_owned)), "{calls:?}");
        }
        assert_eq!(ledger(std::slice::from_ref(&test)).errors.len(), 1);
        assert_eq!(ledger(&[test, run("cargo build", "ok")]).errors, []);
    }

    /// Checks, for each command with its result, the outcome in the record, and that an error stands if it
    /// failed.
    fn check_outcomes(table: &[(&str, &str, bool)]) {
        for (command, result, passed) in table {
            let record = ledger(&[("Bash", json!({"command": command}), *result)]);
            let last = last_outcome(&record);
            let expected = if *passed { Outcome::Passed } else { Outcome::Failed };
            assert_eq!(last, Some(expected), "{command}: {result}");
            assert_eq!(record.errors.is_empty(), *passed, "{command}: {result}");
        }
    }

    #[test]
    fn a_check_that_fails_is_known_whoever_runs_it() {
        check_outcomes(&[
            ("npx tsc", "src/app.ts(3,5): error TS2304: Cannot find name 'open'.\n\nFound 2 errors.", false),
            ("mypy src", "src/a.py:3: error: Incompatible return value type", false),
            ("ruff check .", "src/a.py:1:8: F401 [*] `os` imported but unused\nFound 3 errors.", false),
            (
                "npm run lint",
                "  12:5  error  'open' is never used\n\n✖ 1 problem (1 error, 0 warnings)",
                false,
            ),
            ("pytest -q", "ERROR tests/test_a.py\n1 error in 0.12s", false),
            ("mvn -q test", "[ERROR] Tests run: 3, Failures: 1, Errors: 0\n[INFO] BUILD FAILURE", false),
            ("go build ./...", "# example.org/a\n./main.go:5:2: undefined: readTable", false),
            ("make build", "main.c:3:5: error: expected ';'\nmake: *** [Makefile:4: main.o] Error 1", false),
            ("dotnet build", "Build FAILED.\n    0 Warning(s)\n    1 Error(s)", false),
            ("mix test", "3 tests, 1 failure", false),
            ("npm test 2>&1 | tail -5", "# tests 34\n# pass 33\n# fail 1", false),
            ("npm test", "ℹ tests 34\nℹ pass 34\nℹ fail 0", true),
            ("npm test", "✖ fills the cache (1.2ms)\nℹ tests 34\nℹ pass 33\nℹ fail 1", false),
            ("npx mocha", "  33 passing (20ms)\n  1 failing", false),
            ("dotnet test", "Failed!  - Failed:     1, Passed:    33, Total:    34", false),
            ("dotnet test", "Passed!  - Failed:     0, Passed:    34, Total:    34", true),
            ("vendor/bin/phpunit", "Tests: 34, Assertions: 60, Failures: 1.", false),
            ("bundle exec rspec", "34 examples, 1 failure", false),
            ("bin/rails test", "34 runs, 60 assertions, 0 failures, 0 errors, 0 skips", true),
            ("ctest", "97% tests passed, 1 tests failed out of 34", false),
            ("bats test/", " ✗ b\n34 tests, 1 failure", false),
            ("swift build", "/a/main.swift:3:5: error: cannot find 'open' in scope", false),
            ("npm test", "Error: Not implemented: navigation\n Tests  12 passed (12)", true),
            ("cargo test", "test result: ok. 8 passed; 0 failed; 0 ignored", true),
            ("make check", "main.c:3:5: warning: unused variable 'x'\n3 tests, 0 failures", true),
            ("go test ./...", "ok  \texample.org/a\t0.012s", true),
            ("go test ./...", r#"{"output":"ok  \texample.org/a","metadata":{"exit_code":0}}"#, true),
            ("go test ./...", r#"{"output":"error: it stopped","metadata":{"exit_code":1}}"#, false),
            ("go test ./...", "failed in sandbox: go: downloading go1.25.3", false),
            ("npm test", r#"{"success": false, "error": "no such script"}"#, false),
            ("make -j 4", "cc -c a.c\nmake: *** [Makefile:4: a.o] Error 2", false),
            (
                "npm test",
                "<status>failed</status>\n<exit_code>1</exit_code>\n<stderr>error: it broke</stderr>",
                false,
            ),
            ("npm test", "<status>completed</status>\n<exit_code>0</exit_code>\n<stdout>fine</stdout>", true),
            ("npx mocha", "> mocha --timeout 5000\n  3 passing (20ms)", true),
            ("pytest -q", "FAIL Required test coverage of 80% not reached.\n12 passed in 1.20s", false),
            (
                "make all; echo \"exit code: $?\"",
                "Exit code: 0\nOutput:\nld: error: no -lz\nexit code: 1",
                false,
            ),
            ("make test", "8 passed in 0.12s\nmake: *** [test_b] Error 1", false),
            ("npm test", " Tests  12 passed (12)\nsrc/a.ts(3,5): error TS2304: Cannot find name 'x'.", false),
        ]);
    }

    #[test]
    fn counts_of_what_went_well_hide_nothing_that_broke() {
        check_outcomes(&[
            ("npm run lint", "Not all checks passed", false),
            ("(npm test >/tmp/o) && echo OK || echo 'tests NOT OK'", "tests NOT OK", false),
            ("tox", "8 passed in 0.12s\n  lint: FAIL code 1 (0.5s)", false),
            ("pytest -q", "8 passed in 0.12s\nFAIL Required test coverage of 80% not reached", false),
            (
                "cargo test",
                "test result: ok. 8 passed; 0 failed\nerror: test failed, to rerun pass `-p a`",
                false,
            ),
            ("pytest -q", "!!!!!!!! KeyboardInterrupt !!!!!!!!\n4 passed in 2.1s", false),
            ("npm run build", "✓ Compiled successfully\nFailed to compile.\n./a.tsx:3:5", false),
            ("npm test", "  ✓ shows 2 errors when both fields are empty\n  33 passing", true),
            ("node --test", "✔ retries after 3 failed attempts (1ms)\nℹ pass 3\nℹ fail 0", true),
            ("python -m unittest", "Ran 3 tests in 0.1s\n\nOK (expected failures=1)", true),
            ("npm test", "it ran\n[took 3.4s | tokens left 82296 | exit 0]", true),
            ("pytest -q", "/bin/sh: 1: pytest: not found", false),
            ("ctest", "Segmentation fault (core dumped)", false),
            ("mvn -q test", "", true),
            ("go build ./... 2>&1 | head -20", "(Bash completed with no output)", true),
            ("gradle build", "BUILD SUCCESSFUL in 3s", true),
            ("npx vite build && npm run build", "dist/a.js  3 kB\n✓ built in 1.2s", true),
            ("ruff check .", "All checks passed!", true),
            ("python -m unittest", "Ran 12 tests in 0.1s\n\nOK", true),
        ]);
    }

    #[test]
    fn a_check_whose_end_is_not_shown_has_not_passed() {
        for (command, result) in [
            ("cargo test", "   Compiling a v0.1.0\nProcess running with session ID 4711"),
            ("npm test", "Command running in background with ID: b41"),
            ("npm test", "Successfully linked\nthe command timed out after 120 s"),
            ("cargo test", "aborted by user after 3.2s"),
            (
                "cargo test",
                "test result: ok. 8 passed; 0 failed\nRunning tests/b.rs\nProcess running with session ID 4711",
            ),
            ("npm test", "<status>running</status>\n<stdout>\nall good\n</stdout>"),
            ("npm test", "Successfully killed shell: bash_1"),
            ("npm test", "3 passing\nEnded due to a signal"),
            ("pytest -q", "8 passed in 0.12s\nCommand timed out after 120000ms"),
            (
                "npm test",
                r#"{"output": "Background process started", "session_id": "proc_1", "exit_code": 0}"#,
            ),
            ("go test ./... | grep ok", "ok  \texample.org/a\t0.012s"),
            ("go test ./... 2>&1 | head -3", "ok  \texample.org/a\t0.012s"),
            ("cargo test | grep 'test result' | head -2", "test result: ok. 8 passed; 0 failed"),
            (
                "cargo nextest run",
                "  5 passed, 0 skipped\nwarning: 29/34 tests were not run due to interrupt",
            ),
            ("cargo test 2>&1 | grep -c error", "Exit code: 0\n3"),
            ("cargo clippy 2>&1 | grep warning", ""),
            ("pytest -q > log.txt 2>&1", ""),
        ] {
            let failed = ("Bash", json!({"command": "deploy now"}), "error: no such target\nExit code 2");
            let record = ledger(&[failed, ("Bash", json!({"command": command}), result)]);
            let last = last_outcome(&record);
            assert_eq!(last, Some(Outcome::Unclear), "{command}: {result}");
            assert_eq!(record.errors.len(), 1, "{command}: {result}");
        }
        // Where the end of the output shows no failure, no error is known to stand.
        for (command, result) in [
            ("npm run build 2>&1 | tail -4", "> app@1.0.0 build\n> vite build"),
            ("make -j4", "cc -c a.c"),
            ("make check", "main.c:3:5: warning: unused variable 'x'"),
        ] {
            let failed = ("Bash", json!({"command": "python a.py"}), "error: no such target\nExit code 2");
            let record = ledger(&[failed, ("Bash", json!({"command": command}), result)]);
            let last = last_outcome(&record);
            assert_eq!((last, record.errors.len()), (Some(Outcome::Unclear), 0), "{command}: {result}");
        }
        let passed = ("Bash", json!({"command": "cargo test | grep result"}), "test result: ok. 3 passed");
        let failed = ("Bash", json!({"command": "deploy now"}), "error: no such target\nExit code 2");
        assert_eq!(ledger(&[failed, passed]).errors, []);
        // Its own error stands as well, as long as it runs.
        let test = |result| ("Bash", json!({"command": "cargo test"}), result);
        let failed = test("error[E0308]: mismatched types\nExit code 101");
        assert_eq!(ledger(&[failed, test("Process running with session ID 4711")]).errors.len(), 1);
    }

    #[test]
    fn what_asks_how_a_check_goes_on_tells_how_it_ended() {
        let test = ("exec", json!({"cmd": "cargo test"}), "Process running with session ID 4711");
        let poll = |id: u32, result| ("write_stdin", json!({"session_id": id, "chars": ""}), result);
        let ended = "Process exited with code 101\nerror: test failed";
        for (polls, outcome) in [
            (vec![poll(4711, "still running"), poll(4711, "test result: ok. 3 passed")], Outcome::Passed),
            (vec![poll(4711, ended)], Outcome::Failed),
            (vec![poll(47, ended)], Outcome::Unclear),
            (vec![poll(4711, ended), poll(4711, "test result: ok. 3 passed")], Outcome::Failed),
        ] {
            let calls: Vec<_> = std::iter::once(test.clone()).chain(polls).collect();
            assert_eq!(ledger(&calls).last_test, Some(("cargo test".to_owned(), outcome)), "{calls:?}");
        }
    }

    #[test]
    fn what_a_running_command_did_is_done_once() {
        let path = json!({"file_path": "a.rs"});
        let started = "Command running in background with ID: b41";
        let calls = [
            ("Write", path.clone(), "ok"),
            ("Bash", json!({"command": "rm a.rs && cargo test"}), started),
            ("Write", path, "ok"),
            ("TaskOutput", json!({"task_id": "b41"}), "<status>completed</status>\n<exit_code>0</exit_code>"),
        ];
        let record = ledger(&calls);
        assert_eq!(record.files, [("a.rs".to_owned(), FileState::Created)]);
        assert_eq!(record.last_test, Some(("cargo test".to_owned(), Outcome::Passed)));
    }

    #[test]
    fn where_failures_are_marked_no_mark_is_a_success() {
        let run = |command: &str| ToolCall {
            id: "c".into(),
            name: ToolName::new("Bash").unwrap(),
            arguments: json!({"command": command}).to_string(),
        };
        let (looks, builds) = (run("cat missing"), run("make"));
        for (first, outcome) in [
            (ToolResult::error(&looks, "No such file"), Outcome::Passed),
            (ToolResult::answer(&looks, "No such file"), Outcome::Unclear),
        ] {
            let record = ledger_of(
                &Record::default(),
                [(looks.clone(), first), (builds.clone(), ToolResult::answer(&builds, "cc a.c"))],
            );
            assert_eq!(record.last_check, Some(("make".to_owned(), outcome)));
        }
    }

    #[test]
    fn an_error_stands_until_the_same_thing_succeeds() {
        let run = |command: &str| json!({"command": command});
        let failed = ("Bash", run("make all"), "main.c:3: error: missing ;\nExit code 2");
        let lines =
            |record: &Record| record.errors.iter().map(|error| error.line.clone()).collect::<Vec<_>>();
        let mended = ("Bash", run("make all"), "done");
        let earlier = ledger(std::slice::from_ref(&failed));
        assert_eq!(lines(&earlier), ["main.c:3: error: missing ;"]);
        // No check of the work shows that something outside of it is mended.
        let pushed = ("Bash", run("git push"), "error: failed to push some refs\nExit code 1");
        assert_eq!(ledger(&[pushed, ("Bash", run("cargo test"), "3 passed")]).errors.len(), 1);
        // The command goes on in another way if it fails.
        let expected =
            ("Bash", run("./a --bad || echo 'refused as it should'"), "error: bad option\nrefused");
        assert_eq!(ledger(&[expected]).errors, []);
        let installed = "ERROR: pip's resolver does not look at everything.\nSuccessfully installed a-1.0";
        assert_eq!(ledger(&[("Bash", run("pip install a"), installed)]).errors, []);
        let put_aside = ("Bash", run("grep -n error a.log > /tmp/e; head -2 /tmp/e"), "12:error: db down");
        assert_eq!(ledger(&[put_aside]).errors, []);
        let run_it = |python: &str, result| ("Bash", run(&format!("{python} a.py")), result);
        let versions =
            [run_it("python", "python: command not found\nExit code 127"), run_it("python3", "ok")];
        assert_eq!(ledger(&versions).errors, []);
        assert_eq!(ledger(&[failed.clone(), mended.clone()]).errors, []);
        assert_eq!(ledger(&[failed, ("Bash", run("ls"), "a")]).errors.len(), 1);
        let missing = "grep: y: No such file or directory\nExit code 2";
        assert_eq!(ledger(&[("Bash", run("grep x y"), missing)]).errors, []);
        let rebase = [
            ("Bash", run("git rebase main"), "error: could not apply 66923\nExit code 1"),
            ("Bash", run("git add a.md && GIT_EDITOR=true git rebase --continue"), "Successfully rebased"),
        ];
        assert_eq!(ledger(&rebase[..1]).errors.len(), 1);
        assert_eq!(ledger(&rebase).errors, []);
        // An error in an earlier record is resolved as well.
        assert_eq!(ledger_after(&earlier, &[("Bash", run("ls"), "a")]).errors, earlier.errors);
        assert_eq!(ledger_after(&earlier, &[mended]).errors, []);
    }
}
