//! The changes to files, the last check, and the unresolved errors: read from structured calls alone.

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::{HashMap, HashSet};

use super::passage::is_omission;
use super::record::{OpenError, Record};
use super::root::{Root, in_folder, is_in, out_of_folder};
use super::work_files::{WorkFiles, is_end, outputs_named};
use crate::compaction::answered_call::answered_call;
use crate::compaction::envelope::{output, within};
use crate::compaction::findings::{
    CHANGE, Check, Deed, FileState, Outcome, ShellChange, ShellStep, Touch, identity, is_absolute,
    is_marked_failed, is_refused, join, only_says_status, told_changes,
};
use crate::compaction::short_text::SHORTEST;
use crate::compaction::stub::is_stub;
use crate::{Context, ContextMessage, Message, Role};

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
    line: String,
    label: Option<String>,
    /// The check that failed, if it was one.
    check: Option<&'a Check>,
    /// The number of exchanges when it failed.
    since: usize,
}

/// The first words of aider's lines about a file that it changed, a commit, and one that the user undid.
const APPLIED: &str = "Applied edit to ";
pub(super) const COMMITTED: &str = "Commit ";
pub(super) const UNDONE: &str = "Removed: ";
/// Most characters of an error.
const MAX_LINE: usize = 160;
/// Most errors that are kept.
const MAX_ERRORS: usize = 8;
/// Most failures that are remembered: beyond them, an older one would be told only once nearly all newer ones
/// are resolved.
const MOST_OPEN: usize = 20 * MAX_ERRORS;
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
            line: error.line.clone(),
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
            // A decision of the user is no error, and nothing ran.
            if is_refused(asked.call, result.message()) {
                self.n_exchanges += 1;
                continue;
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
        // Collected once, and only if an output was deleted.
        let said = LazyCell::new(|| {
            let said = sources.iter().filter(|source| source.message().role() != Role::Tool);
            let named = said.flat_map(|source| {
                let text = source.message().text();
                outputs_named(&text).map(str::to_owned).collect::<Vec<_>>()
            });
            named.collect::<HashSet<_>>()
        });
        self.files.drop_outputs(|output| said.contains(output));
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
        if deed.failure(result).is_some() {
            self.take_shell_changes(deed.shell_changes.iter().filter(|step| step.is_sure), deed, result);
        } else {
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
        if deed.runs && !deed.only_looks {
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
        self.files.root().place(self.folder(folder).as_deref())
    }

    /// Returns a command or its key with the folder in which it runs.
    fn told(&self, what: &str, folder: Option<&str>) -> String {
        in_folder(what, self.told_folder(folder).as_deref())
    }

    /// Returns the key of a call with the folder in which it runs: that of the change of a file names the
    /// file by its one path.
    fn key(&self, key: &str, folder: Option<&str>) -> String {
        match file_of_key(key) {
            Some(file) => {
                let path = self.files.root().path(file, self.folder(folder).as_deref());
                format!("{CHANGE} {path}")
            }
            None => self.told(key, folder),
        }
    }

    /// Returns the keys of the changes of files that a call made, by whatever tool: once a file is changed,
    /// it does not matter that a change of it was not accepted before.
    fn keys_of_changes(&self, deed: &Deed) -> Vec<String> {
        let by_command = deed.shell_changes.iter().filter_map(|step| match &step.change {
            ShellChange::Edits(file) | ShellChange::Writes(file) | ShellChange::Removes(file) => {
                Some((file.as_str(), step.folder.as_deref()))
            }
            _ => None,
        });
        let by_tool = deed.changes().map(|(file, _)| (file, None));
        by_tool
            .chain(by_command)
            .map(|(file, folder)| self.key(&format!("{CHANGE} {file}"), folder))
            .collect()
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
                self.resolve_errors(deed.checks_with(Outcome::Passed, result));
            }
        }
        let mut keys: Vec<String> =
            deed.keys.iter().map(|(key, folder)| self.key(key, folder.as_deref())).collect();
        let is_rooted = self.files.root().root.is_some();
        let is_same = |key: &str, open: &Open<'_>| is_same_key(key, &open.key, is_rooted);
        let failure = deed.failure(result);
        // What a command outside says of its failure stands, in whatever words.
        let said = || last_line(&result.message().text()).filter(|_| deed.acts_outside());
        match failure.map(|failure| failure.into_owned().line.or_else(said)) {
            // What did not end has not succeeded yet.
            None if deed.unfinished(result).is_some()
                || deed.ran_nothing(result)
                || deed.hides_failures(result) => {}
            None => {
                keys.extend(self.keys_of_changes(deed));
                let passed = deed.checks_with(Outcome::Passed, result);
                let is_another =
                    |failed: &Check, line: &str| !passed.iter().any(|check| check.covers(failed, line));
                let is_of_another = |open: &Open<'_>| {
                    !passed.is_empty() && open.check.is_some_and(|failed| is_another(failed, &open.line))
                };
                let is_fixed = |open: &Open<'_>| keys.iter().any(|key| is_same(key, open));
                self.open.retain(|open| !is_fixed(open) || is_of_another(open));
            }
            Some(Some(line)) if deed.may_stand(result, &line) => {
                let Some(key) = keys.pop() else { return };
                // If a command fails with another error, it got past the earlier one.
                self.open.retain(|open| !is_same(&key, open) && open.line != line);
                let label = result.id().map(|id| id.to_string());
                let check = deed.failed_check(result);
                let since = self.n_exchanges;
                self.open.push(Open { key, line, label, check, since });
                self.open.drain(..self.open.len().saturating_sub(MOST_OPEN));
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
                    && open.check.map_or(!check.is_narrow, |failed| check.covers(failed, &open.line))
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
        record.files = self.files.into_list(record.folder.as_deref());
        (record.last_test, record.last_check) = (self.last_test, self.last_check);
        // Work that is done without it does not wait for it to be mended.
        let last = self.n_exchanges;
        self.open.retain(|open| open.check.is_some() || last - open.since <= MOST_WITHOUT);
        // Where nothing was done since, the errors of earlier records stay as they were.
        let most = if self.n_exchanges == 0 { self.open.len() } else { MAX_ERRORS };
        let newest = self.open.len().saturating_sub(most);
        let errors = self.open.into_iter().skip(newest).map(|Open { key, line, label, .. }| OpenError {
            label,
            mended_by: (key != line).then_some(key),
            line,
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

/// Returns the file whose change a key stands for.
fn file_of_key(key: &str) -> Option<&str> {
    key.strip_prefix(CHANGE)?.strip_prefix(' ')
}

/// Checks whether two keys are one. Where it is not known in which folder paths begin, a file may be named by
/// its whole path or by the end of that.
fn is_same_key(one: &str, other: &str, is_rooted: bool) -> bool {
    let files = file_of_key(one).zip(file_of_key(other)).filter(|_| !is_rooted);
    one == other || files.is_some_and(|(one, other)| is_end(one, other) || is_end(other, one))
}

/// Returns the last line of an output that says something.
fn last_line(text: &str) -> Option<String> {
    let text = output(Cow::Borrowed(text));
    let line = text.lines().rfind(|line| line.contains(char::is_alphabetic) && !only_says_status(line))?;
    Some(line.trim().chars().take(MAX_LINE).collect())
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
mod tests;
