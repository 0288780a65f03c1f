//! The changes to files, the last check, and the unresolved errors: read from structured calls alone.

use std::collections::{HashMap, HashSet};

use super::passage::is_omission;
use super::record::{OpenError, Record};
use super::work_files::{Root, WorkFiles, in_folder, is_in, out_of_folder};
use crate::compaction::answered_call::answered_call;
use crate::compaction::envelope::within;
use crate::compaction::findings::{
    Check, Deed, Failure, FileState, Outcome, ShellChange, ShellStep, Touch, identity, is_absolute,
    is_marked_failed, is_refused, join, told_changes,
};
use crate::compaction::short_text::SHORTEST;
use crate::compaction::stub::is_stub;
use crate::{Context, ContextMessage, Message};

/// The effects of the exchanges of a span.
#[derive(Debug, Default)]
pub(super) struct Ledger<'a> {
    files: WorkFiles,
    /// The folder that a call entered and did nothing else.
    here: Option<String>,
    /// The last run of tests and the last other check after it, and how they ended.
    last_test: Option<(String, Outcome)>,
    last_check: Option<(String, Outcome)>,
    /// The failures.
    open: Vec<Open<'a>>,
    n_exchanges: usize,
}

/// A failure.
#[derive(Debug)]
struct Open<'a> {
    /// The key of what would fix it, with the folder in which that runs.
    key: String,
    /// The line that names the error, and the label of the result that has it.
    line: &'a str,
    label: Option<String>,
    /// The check that failed, if it was one.
    check: Option<&'a Check>,
    /// The number of exchanges when it failed.
    since: usize,
}

/// The first words of aider's lines about a file that it changed, a commit, and one that the person undid.
const APPLIED: &str = "Applied edit to ";
pub(super) const COMMITTED: &str = "Commit ";
pub(super) const UNDONE: &str = "Removed: ";
/// Most errors that are kept.
const MAX_ERRORS: usize = 8;
/// An error of what checks nothing, that the agent did not return to in more exchanges, stands no more.
const MOST_WITHOUT: usize = 40;
/// Most bytes of a path: what is longer names no file, and would push the others out of the record.
const MAX_PATH: usize = 1_024;

impl<'a> Ledger<'a> {
    pub(super) fn new(root: Root) -> Self {
        Self { files: WorkFiles::new(root), ..Self::default() }
    }

    /// Adds the content of an earlier record.
    pub(super) fn take_record(&mut self, earlier: &'a Record) {
        earlier.files.iter().for_each(|(told, state)| self.files.take(told, *state));
        self.last_test = earlier.last_test.clone().or_else(|| self.last_test.take());
        self.last_check = earlier.last_check.clone().or_else(|| self.last_check.take());
        self.open.extend(earlier.errors.iter().map(|error| Open {
            key: match error.mended_by.as_deref() {
                Some(key) => key.to_owned(),
                None => earlier.command_of(error).map_or_else(|| error.line.clone(), key_told),
            },
            line: &error.line,
            label: error.label.clone(),
            check: None,
            since: self.n_exchanges,
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
        sources.iter().for_each(|source| self.take_noted(source.message()));
        let mut reports = sources
            .iter()
            .enumerate()
            .filter_map(|(at, note)| Some((at, Report::of(note.message())?)))
            .peekable();
        let mut running: HashMap<String, &Deed> = HashMap::new();
        let mut logged: Option<(&str, &Deed)> = None;
        for (asked, result) in answers {
            while let Some((_, report)) = reports.next_if(|(at, _)| *at < asked.place.message) {
                self.take_report(&report, &mut running);
            }
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
            // So does one that looks at the file into which it writes.
            if let Some((_, command)) = logged.filter(|(log, _)| deed.looks_at(log)) {
                self.take_end(command, result, false);
                continue;
            }
            self.take(deed, result, marks_failures);
            logged = deed.log().map(|log| (log, deed)).or(logged.filter(|_| deed.checks.is_empty()));
            let unfinished = deed.unfinished(result);
            running.extend(unfinished.and_then(|unfinished| unfinished.id.clone()).map(|id| (id, deed)));
        }
        reports.for_each(|(_, report)| self.take_report(&report, &mut running));
    }

    /// Takes in what a harness reports of the end of one of the commands that are `running`.
    fn take_report(&mut self, report: &Report, running: &mut HashMap<String, &'a Deed>) {
        let Some(deed) = running.remove(&report.id) else { return };
        for check in deed.checks_that(report.outcome) {
            self.take_check(check, report.outcome);
        }
        if report.outcome == Outcome::Passed {
            self.resolve_errors(deed.checks_that(Outcome::Passed));
        }
    }

    /// Takes in the edits that a harness makes of what the agent writes as text, and notes.
    fn take_noted(&mut self, note: &Message) {
        if note.note_by().is_some() {
            for line in note.text().lines() {
                if let Some(path) = line.strip_prefix(APPLIED) {
                    self.files.touch(path.trim(), None, Touch::Leaves(FileState::Modified), true);
                } else if line.starts_with(COMMITTED) {
                    self.files.take_change(&ShellChange::Commits { all: true }, None, "");
                } else if line.starts_with(UNDONE) {
                    self.files.take_change(&ShellChange::Resets { n_commits: 1 }, None, "");
                }
            }
        }
    }

    fn take(&mut self, deed: &'a Deed, result: &'a ContextMessage, marks_failures: bool) {
        self.n_exchanges += 1;
        let is_refused = is_refused(result.message());
        if deed.failure(result).is_some() && !is_refused {
            self.take_shell_changes(deed.shell_changes.iter().filter(|step| step.is_sure), deed, result);
        }
        if deed.failure(result).is_none() && !is_refused {
            // Of a path that was shortened, no file is known.
            let is_whole = |path: &str| path.len() <= MAX_PATH && !path.lines().any(is_omission);
            let folder = self.folder(deed.folder());
            let says_it_was = || says_that_there_was_one(&result.message().text());
            for (path, touch) in deed.touches.iter().filter(|(path, _)| is_whole(path)) {
                self.files.touch(path, folder.as_deref(), *touch, *touch == Touch::Writes && says_it_was());
            }
            if let Some((path, touch)) = deed.named_change(result) {
                self.files.touch_named(&path, touch);
            }
            self.take_shell_changes(deed.shell_changes.iter(), deed, result);
            if deed.enters().is_some() {
                self.here = self.folder(deed.enters());
            }
        }
        if deed.runs && !deed.only_looks && !is_refused {
            let folder = self.folder(deed.folder());
            for change in told_changes(&result.message().text()) {
                self.files.take_change(&change, folder.as_deref(), "");
            }
        }
        self.take_end(deed, result, marks_failures);
    }

    /// Takes in changes of files by a command, unless one of its steps reports that it could not.
    fn take_shell_changes<'s>(
        &mut self,
        changes: impl Iterator<Item = &'s ShellStep>,
        deed: &Deed,
        result: &ContextMessage,
    ) {
        if deed.changed_as_told(result) {
            let text = result.message().text();
            for step in changes {
                let folder = self.folder(step.folder.as_deref());
                self.files.take_change(&step.change, folder.as_deref(), &text);
            }
        }
    }

    /// Returns the folder of a command, which may be relative to the one that an earlier call entered.
    fn folder(&self, folder: Option<&str>) -> Option<String> {
        match (folder, &self.here) {
            (Some(folder), Some(here)) if !is_absolute(folder) => Some(join(Some(here), folder)),
            (folder, here) => folder.map(str::to_owned).or_else(|| here.clone()),
        }
    }

    /// Returns the folder of a command as it is told.
    fn told_folder(&self, folder: Option<&str>) -> Option<String> {
        self.files.root().of_command(self.folder(folder).as_deref())
    }

    /// Returns a command or its key with the folder in which it runs.
    fn told(&self, what: &str, folder: Option<&str>) -> String {
        in_folder(what, self.told_folder(folder).as_deref())
    }

    /// Takes in how a call ended: what that says of checks and errors. `marks_failures` is true if its tool
    /// marks results that failed.
    fn take_end(&mut self, deed: &'a Deed, result: &'a ContextMessage, marks_failures: bool) {
        // Somebody's decision is no error, and nothing ran.
        if is_refused(result.message()) {
            return;
        }
        if !deed.checks.is_empty() {
            let outcome = deed.outcome(result, marks_failures);
            for check in deed.checks_with(outcome, result) {
                self.take_check(check, outcome);
            }
            // Whatever failed in the work before, what checks it shows no failure now. A test that failed is
            // told as the last one.
            if outcome == Outcome::Passed || deed.ends_without_failure(result) {
                self.resolve_errors(deed.checks_with(Outcome::Passed, result));
            }
        }
        let keys: Vec<String> =
            deed.keys.iter().map(|(key, folder)| self.told(key, folder.as_deref())).collect();
        let Some(key) = keys.last() else { return };
        match deed.failure(result) {
            // What did not end has not succeeded yet.
            None if deed.unfinished(result).is_some() || deed.ran_nothing(result) => {}
            None => {
                let passed = deed.checks_with(Outcome::Passed, result);
                let is_another =
                    |failed: &Check, line: &str| !passed.iter().any(|check| check.covers(failed, line));
                let is_of_another = |open: &Open<'_>| {
                    !passed.is_empty() && open.check.is_some_and(|failed| is_another(failed, open.line))
                };
                self.open.retain(|open| !keys.contains(&open.key) || is_of_another(open));
            }
            Some(Failure { line: Some(line), .. }) if deed.may_stand(result, line) => {
                // If a command fails with another error, it got past the earlier one.
                self.open.retain(|open| open.key != *key && open.line != line);
                let label = result.id().map(|id| id.to_string());
                let check = deed.checks_with(Outcome::Failed, result).first();
                let since = self.n_exchanges;
                self.open.push(Open { key: key.clone(), line, label, check, since });
            }
            Some(_) => {}
        }
    }

    /// Drops the errors of which the checks that passed show that they are mended.
    fn resolve_errors(&mut self, passed: &[Check]) {
        let ran = passed.iter().map(|check| (self.told_folder(check.folder.as_deref()), check));
        let ran: Vec<(Option<String>, &Check)> = ran.collect();
        let is_covered = |open: &Open<'_>| {
            let (_, place) = out_of_folder(&open.key);
            let covers_it = |(folder, check): &(Option<String>, &Check)| {
                covers(folder.as_deref(), place)
                    && open.check.is_none_or(|failed| check.covers(failed, open.line))
            };
            ran.iter().any(covers_it)
        };
        self.open.retain(|open| is_outside(&open.key) || !is_covered(open));
    }

    fn take_check(&mut self, check: &'a Check, outcome: Outcome) {
        let run = Some((self.told(&check.command, check.folder.as_deref()), outcome));
        if check.is_test {
            (self.last_test, self.last_check) = (run, None);
        } else {
            self.last_check = run;
        }
    }

    /// Writes the files in the order in which they were last touched, the last check, and the newest
    /// unresolved errors, oldest first.
    pub(super) fn write_into(mut self, record: &mut Record) {
        record.files = self.files.into_list();
        (record.last_test, record.last_check) = (self.last_test, self.last_check);
        // Work that is done without it does not wait for it to be mended.
        let last = self.n_exchanges;
        self.open.retain(|open| open.check.is_some() || last - open.since <= MOST_WITHOUT);
        // Where nothing was done since, the errors of earlier records stay as they were.
        let most = if self.n_exchanges == 0 { self.open.len() } else { MAX_ERRORS };
        let newest = self.open.len().saturating_sub(most);
        let errors = self.open.into_iter().skip(newest).map(|Open { key, line, label, .. }| OpenError {
            label,
            line: line.to_owned(),
            mended_by: (key != line).then_some(key),
        });
        record.errors = errors.collect();
    }
}

/// A report of a harness that a command in the background has ended.
struct Report {
    id: String,
    outcome: Outcome,
}

impl Report {
    /// Reads it from a note, in the form of Claude Code.
    fn of(note: &Message) -> Option<Self> {
        note.note_by()?;
        let text = note.text();
        let rest = text.trim_start().strip_prefix("<task-notification>")?;
        let within = |tag: &str| within(rest, tag);
        let code =
            within("summary").and_then(|summary| summary.rsplit_once("exit code ")).map(|(_, code)| code);
        let outcome = match (within("status")?, code.map(|code| code.starts_with("0)"))) {
            ("completed", None | Some(true)) => Outcome::Passed,
            ("completed" | "failed", _) => Outcome::Failed,
            _ => Outcome::Unclear,
        };
        Some(Self { id: within("task-id")?.to_owned(), outcome })
    }
}

/// Returns the key of a command that a record tells of, with its folder.
fn key_told(command: &str) -> String {
    let (command, folder) = out_of_folder(command);
    in_folder(&identity(command), folder)
}

/// Checks whether a check in one folder shows what is in another one: that may be below it, or not be known.
fn covers(checked: Option<&str>, folder: Option<&str>) -> bool {
    let (Some(checked), Some(folder)) = (checked, folder) else { return true };
    is_in(folder, checked)
}

/// Checks whether the first line of a result says that the file that was written was there before.
fn says_that_there_was_one(text: &str) -> bool {
    let first = text.lines().next().unwrap_or_default().to_ascii_lowercase();
    ["overwr", "updated", "modified"].iter().any(|word| first.contains(word))
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
    fn ledger(calls: &[Call<'_>]) -> Record {
        ledger_after(&Record::default(), calls)
    }

    /// Returns the record of calls after an earlier record.
    fn ledger_after(earlier: &Record, calls: &[Call<'_>]) -> Record {
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
        let view = log.view();
        let mut ledger = Ledger::new(Root::of(view.messages(), None));
        ledger.take_record(earlier);
        ledger.take_all(&view, view.messages());
        let mut record = Record::default();
        ledger.write_into(&mut record);
        record
    }

    /// Returns the outcome of the last test or, without one, of the last other check.
    fn last_outcome(record: &Record) -> Option<Outcome> {
        record.last_test.as_ref().or(record.last_check.as_ref()).map(|(_, outcome)| *outcome)
    }

    /// Returns the arguments that name a file.
    fn path(path: &str) -> Value {
        json!({"file_path": path})
    }

    /// Returns a call of a command that wrote nothing.
    fn run(command: &str) -> Call<'static> {
        ("Bash", json!({"command": command}), "")
    }

    /// A tool, its arguments and its result.
    type Call<'a> = (&'a str, Value, &'a str);

    /// Checks, for calls, the files of their record, in a line each.
    fn check_files(table: &[(Vec<Call<'_>>, Vec<&str>)]) {
        for (calls, expected) in table {
            assert_eq!(&files(calls), expected, "{calls:?}");
        }
    }

    /// Returns the files of the record of calls, in a line each.
    fn files(calls: &[Call<'_>]) -> Vec<String> {
        let files = ledger(calls).files.into_iter();
        files.map(|(path, state)| format!("{} {path}", state.word())).collect()
    }

    #[test]
    fn files_keep_their_last_state() {
        let patch = |lines: &str| json!({"input": format!("*** Begin Patch\n{lines}")});
        check_files(&[
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
                    "deleted /w/a.py",
                    "deleted /w/b/c.py",
                    "deleted /w/b/d.py",
                    "deleted /w/b/e.py",
                    "deleted /w/da.py",
                ],
            ),
            (
                vec![
                    ("Write", path("/w/a/mod.rs"), "ok"),
                    ("Write", path("/w/b/mod.rs"), "ok"),
                    run("cd b && rm mod.rs"),
                ],
                vec!["deleted /w/b/mod.rs", "created /w/a/mod.rs"],
            ),
            (
                vec![("edit", path("a"), "ok"), ("write", path("b"), "ok"), run("git stash")],
                vec!["created b"],
            ),
        ]);
    }

    #[test]
    fn what_git_takes_back_is_as_it_was_committed() {
        check_files(&[
            (
                vec![
                    ("edit", path("a"), "ok"),
                    ("Bash", json!({"command": "git stash"}), "No local changes to save"),
                ],
                vec!["modified a"],
            ),
            (
                vec![
                    ("edit", path("a"), "ok"),
                    ("write", path("b"), "ok"),
                    run("git commit -am one"),
                    ("edit", path("c"), "ok"),
                    run("git checkout -- ."),
                ],
                vec!["modified a", "created b"],
            ),
            (
                vec![
                    ("edit", path("a"), "ok"),
                    run("git commit -am one"),
                    ("write", path("b"), "ok"),
                    ("write", path("c"), "ok"),
                    run("git add b && git commit -m two"),
                    run("git reset --hard HEAD~1"),
                ],
                vec!["modified a", "created c"],
            ),
            (
                vec![
                    ("edit", path("a"), "ok"),
                    run("git stash"),
                    ("edit", path("b"), "ok"),
                    run("git stash"),
                    run("git stash pop stash@{1}"),
                    run("git stash drop"),
                    run("git stash pop"),
                ],
                vec!["modified a"],
            ),
        ]);
    }

    #[test]
    fn what_commands_and_servers_do_to_files_is_known() {
        check_files(&[
            (
                vec![
                    ("write", path("/w/src/one.py"), "ok"),
                    ("write", path("/w/src/tmp1.py"), "ok"),
                    ("write", path("/w/src/two.py"), "ok"),
                    run("cd /w && rm -f src/tmp*.py"),
                    ("Bash", json!({"command": "cd /w && git clean -fd"}), "Removing src/two.py"),
                ],
                vec!["deleted /w/src/tmp1.py", "deleted /w/src/two.py", "created /w/src/one.py"],
            ),
            (
                vec![
                    ("mcp__s__replace_symbol_body", json!({"relative_path": "a", "body": "x"}), "ok"),
                    ("mcp__fs__write_files", json!({"files": [{"path": "b", "content": "x"}]}), "ok"),
                    ("mcp__o__save_document", json!({"document": "d1"}), "Document saved to /w/c.docx"),
                    ("mcp__fs__read_files", json!({"files": [{"path": "e"}]}), "text"),
                ],
                vec!["modified a", "created b", "created /w/c.docx"],
            ),
            (
                vec![("mcp__fs__write_file", path("a"), "ok"), ("mcp__fs__delete_file", path("a"), "ok")],
                vec!["deleted a"],
            ),
            (
                vec![
                    ("Read", path("/w/a.py"), "text"),
                    run("cd /w && sed s/x/y/ a.py > a.py.new && mv a.py.new a.py"),
                    run("cd /w; sed s/x/y/ b.py > /tmp/b; mv /tmp/b b.py; mv c.txt d.txt; mv e.c.tmp e.c"),
                ],
                vec!["modified /w/a.py", "created b.py", "modified e.c"],
            ),
            (
                vec![
                    ("Bash", json!({"command": "cat > t.py <<'E'\nx\nE\npytest t.py"}), "1 failed"),
                    ("Bash", json!({"command": "pytest && sed -i s/x/y/ u.py"}), "1 failed"),
                    ("Bash", json!({"command": "git stash && pytest; git stash pop"}), "1 failed"),
                    (
                        "Bash",
                        json!({"command": "mkdir z; echo x > z/a.py; rm t.py && make"}),
                        "make: *** [x] Error 2",
                    ),
                ],
                vec!["deleted t.py", "created z/a.py"],
            ),
        ]);
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
        for refused in [
            "The user denied this operation.",
            "Permission to use Bash has been denied.",
            "exec command rejected by user",
        ] {
            let record = ledger(&[
                ("write", json!({"path": "a.py"}), "ok"),
                ("Bash", json!({"command": "rm a.py"}), refused),
            ]);
            assert_eq!(
                (record.files.len(), record.files[0].1, record.errors.len()),
                (1, FileState::Created, 0),
                "{refused}"
            );
        }
        let path = json!({"path": "a.py"});
        for kept in ["rm: cannot remove 'a.py': Permission denied", "Error: Exit code 1"] {
            let removes = ("Bash", json!({"command": "rm -f a.py"}), kept);
            assert_eq!(files(&[("write", path.clone(), "ok"), removes]), ["created a.py"], "{kept}");
        }
    }

    #[test]
    fn the_edits_that_aider_notes_are_known() {
        let mut log = Conversation::new();
        let note = "Applied edit to src/a.rs\nApplied edit to b.md\nCommit 6d6f57d feat: doors";
        let undone = "Applied edit to c.md\nCommit 6d6f57e feat: gates\nRemoved: 6d6f57e feat: gates";
        for message in [
            Message::user("Add a door."),
            Message::assistant("Here."),
            Message::user(note).noted_by("aider"),
            Message::user(undone).noted_by("aider"),
        ] {
            log.append(ContextMessage::count(message, &Characters));
        }
        let view = log.view();
        let mut ledger = Ledger::default();
        ledger.take_all(&view, view.messages());
        let mut record = Record::default();
        ledger.write_into(&mut record);
        let modified = ["src/a.rs", "b.md"].map(|path| (path.to_owned(), FileState::Modified));
        assert_eq!(record.files, modified);
    }

    #[test]
    fn a_report_of_a_harness_ends_a_check_in_the_background() {
        let command = json!({"command": "npm test", "run_in_background": true}).to_string();
        let call = |id: &str| ToolCall {
            id: id.into(),
            name: ToolName::new("Bash").unwrap(),
            arguments: command.clone(),
        };
        for (told, outcome) in [
            ("<status>completed</status>\n<summary>It completed (exit code 0)</summary>", Outcome::Passed),
            ("<status>completed</status>\n<summary>It completed (exit code 1)</summary>", Outcome::Failed),
            ("<status>failed</status>", Outcome::Failed),
            ("<status>killed</status>", Outcome::Unclear),
        ] {
            let mut log = Conversation::new();
            let started = ToolResult::answer(&call("b"), "Command running in background with ID: b3f2.");
            let note = format!("<task-notification>\n<task-id>b3f2</task-id>\n{told}\n</task-notification>");
            for message in [
                Message::calling(vec![call("a")]),
                Message::tool(ToolResult::answer(&call("a"), "Tests: 2 failed, 5 total")),
                Message::calling(vec![call("b")]),
                Message::tool(started),
                Message::user(note).noted_by("harness"),
            ] {
                log.append(ContextMessage::count(message, &Characters));
            }
            let view = log.view();
            let mut ledger = Ledger::default();
            ledger.take_all(&view, view.messages());
            let mut record = Record::default();
            ledger.write_into(&mut record);
            assert_eq!(record.last_test.map(|(_, outcome)| outcome), Some(outcome), "{told}");
            assert_eq!(record.errors.is_empty(), outcome == Outcome::Passed, "{told}");
        }
    }

    #[test]
    fn an_error_that_the_work_does_not_wait_for_stands_no_more() {
        let failed = ("Bash", json!({"command": "bd sync"}), "Error: no remote");
        let tested = ("Bash", json!({"command": "pytest"}), "FAILED tests/a.py::test_a\n1 failed");
        let others = |n: usize| vec![("Bash", json!({"command": "true"}), "ok"); n];
        for (first, n_others, stands) in [(&failed, 30, true), (&failed, 60, false), (&tested, 60, true)] {
            let record = ledger(&[vec![first.clone()], others(n_others)].concat());
            assert_eq!(record.errors.len(), usize::from(stands), "{first:?}, {n_others}");
        }
        for (command, result) in [
            ("bd unlink --help", "Error: unknown command \"unlink\""),
            ("bd unlink a", "Error: unknown command \"unlink\""),
            ("sudo grep FAILED a.log", "FAILED: import"),
        ] {
            assert_eq!(ledger(&[("Bash", json!({"command": command}), result)]).errors, [], "{command}");
        }
        let path = json!({"file_path": "a.py"});
        let fails = ("Edit", path.clone(), "<tool_use_error>String to replace not found</tool_use_error>");
        assert_eq!(ledger(&[fails, ("Write", path, "ok")]).errors, []);
    }

    #[test]
    fn a_changed_file_may_be_named_by_the_result_alone() {
        let text = || json!({"text": "a"});
        check_files(&[
            (
                vec![("edit", text(), "Text replaced.\n[File: /w/a.py (90 lines total)]\n1:b")],
                vec!["modified /w/a.py"],
            ),
            (
                vec![
                    ("bash", json!({"command": "create a.py"}), "[File: /w/a.py (1 lines total)]"),
                    (
                        "bash",
                        json!({"command": "edit 3:4\nb = 1\nend_of_edit"}),
                        "[File: /w/c.py (90 lines total)]",
                    ),
                    (
                        "bash",
                        json!({"command": "edit 3:4\nb = (\nend_of_edit"}),
                        "Your proposed edit has introduced new syntax error(s).\n[File: /w/d.py (90 lines total)]",
                    ),
                ],
                vec!["created /w/a.py", "modified /w/c.py"],
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
        ]);
    }

    #[test]
    fn what_a_shell_does_to_files_is_known() {
        use FileState::{Created, Deleted, Modified};
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
                [Some("cargo test --all (in a) passed"), None],
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
    fn a_check_of_something_else_mends_no_error() {
        for (failed, passed, stands) in [
            ("cargo test -p api", "cargo test -p web", true),
            ("cargo test -p api", "cargo test", false),
            ("cargo test", "cargo test -p web", false),
            ("go test ./api/...", "go test ./web/...", true),
            ("go test ./api/...", "go test ./...", false),
            ("pytest -q tests/test_a.py::test_x", "pytest tests/test_a.py", false),
            ("npm --prefix api test", "npm --prefix web test", true),
            ("make -C api test", "make -C web test", true),
            ("npm run lint", "npm test", false),
            ("pytest tests/a.py", "ruff check src", false),
            ("cd api && npm test", "cd web && npm test", true),
            ("cd api && npm test", "cd api/src && npm test", true),
            ("cd api && npm test", "npm test", false),
        ] {
            let run = |command: &str, result| ("Bash", json!({"command": command}), result);
            let record = ledger(&[run(failed, "error: it broke\nExit code 1"), run(passed, "3 passed")]);
            assert_eq!(!record.errors.is_empty(), stands, "{failed}, {passed}");
        }
        // A filter that no test passes shows nothing.
        let run = |command: &str, result| ("Bash", json!({"command": command}), result);
        let record = ledger(&[
            run("cargo test", "error: it broke\nExit code 101"),
            run("cargo test typo", "test result: ok. 0 passed; 0 failed; 34 filtered out"),
        ]);
        assert_eq!((last_outcome(&record), record.errors.len()), (Some(Outcome::Unclear), 1));
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
