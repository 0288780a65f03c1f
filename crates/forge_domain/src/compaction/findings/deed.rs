//! The subject and effect of a call, as far as its name and arguments tell.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::LazyLock;

use serde_json::Value;

use super::acts::{acts, is_act};
use super::check::{Check, Checks, hides_carried, runs_check};
use super::command_line::{
    Step, Walk, from_program, is_shell, outside_quotes, steps, without_documents, without_dot,
    without_folder, without_quiet, without_version, words_of,
};
use super::ending::{found_nothing, tells_success_of_git};
use super::failure::{is_marked_failed, is_misused, names_failed_test};
use super::filter::Filter;
use super::looks::only_looks;
use super::missing::Missing;
use super::pattern::{Pattern, any_of, matches};
use super::script_changes::{script_changes, scripts_in};
use super::sections::{Sections, headings};
use super::shell_change::{ShellChange, ShellStep, shell_changes};
use super::{CheckReport, Evidence, Failure, Unfinished};
use crate::compaction::arguments::{
    ASIDE, COMMANDS, FOLDERS, PATCH_ADDS, PATCH_DELETES, PATCH_MOVES, PATCH_START, PATCH_UPDATES, PATHS,
    SOUGHT, SUBJECTS, text_or_number,
};
use crate::compaction::envelope::output;
use crate::compaction::features::{hash, is_line_break};
use crate::{Body, ContextMessage, ToolCall};

/// The effect of a call that succeeds, and the meaning of its failure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Deed {
    /// A hash of its tool and arguments: calls that are the same have the same.
    pub(crate) call_hash: u64,
    /// Files by path, in order.
    pub(crate) touches: Vec<(String, Touch)>,
    /// The effect on a file that only its result names.
    unnamed_change: Option<Touch>,
    /// The changes of files by its command.
    pub(crate) shell_changes: Vec<ShellStep>,
    /// The tests, builds and checks that it runs, in order.
    pub(crate) checks: Checks,
    /// The identities of a call, of each of its commands one, and the folder in which that runs: a success
    /// resolves the errors of others whose last one is among them.
    pub(crate) keys: Vec<(String, Option<String>)>,
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
    /// The facts of its command line by which its result is judged.
    command_line: CommandLine,
}

/// The facts of a command line, as far as it tells: where it runs, and by which its result is judged.
#[derive(Debug, Default, PartialEq, Eq)]
struct CommandLine {
    /// The folder in which it begins, and the one that it enters if it does nothing else.
    folder: Option<String>,
    enters: Option<String>,
    /// True if its status is not that of each of its steps, as behind a pipe.
    hides_status: bool,
    /// True if its last step is not a check and runs even if those before it fail: the status is its own.
    ends_elsewhere: bool,
    /// The text before the status of a check that its last step tells.
    echoed: Option<String>,
    /// True if something else runs when a step fails.
    has_other_way: bool,
    missing: Missing,
    /// The filter behind a check with which it ends.
    filter: Option<Filter>,
    /// The sections of what it writes, if only some are of checks.
    sections: Option<Sections>,
    /// The lines that it prints itself, each over what the next step writes.
    headings: HashSet<String>,
    /// The file that has what a check wrote.
    log: Option<String>,
    /// True if it changes something outside of the files of the work.
    acts: bool,
}

impl CommandLine {
    /// Reads the facts of a command line without here-documents, which was followed by `walk`.
    fn of(command: &str, walk: &Walk<'_>) -> Self {
        // The step before tells its status itself: `make; echo $?`.
        let is_echo = |step: &&Step<'_>| step.command.starts_with("echo ") && step.command.contains("$?");
        let echo = walk.steps.last().filter(is_echo).map(|step| step.command.as_ptr() as usize);
        let until = echo.map_or(command.len(), |echo| echo - command.as_ptr() as usize);
        let told = command[..until].trim_end_matches([' ', ';', '\n']);
        let last = walk.steps.last().filter(|_| echo.is_none());
        let echoed = walk.steps.last().filter(|_| echo.is_some()).and_then(|step| {
            let checked = walk.steps.iter().rev().nth(1)?;
            let is_of_check = runs_check(checked) && !checked.is_piped;
            is_of_check.then(|| before_status(step.command)).flatten()
        });
        Self {
            folder: walk.steps.first().and_then(|step| step.folder.clone()),
            enters: walk.end.clone().filter(|_| walk.steps.is_empty()),
            // The status of the line is that of the echo.
            hides_status: hides_status(told)
                || echo.is_some() && echoed.is_none()
                || walk.steps.iter().any(hides_carried),
            ends_elsewhere: walk.steps.len() > 1
                && last.is_some_and(|step| step.runs_anyway && !runs_check(step)),
            echoed,
            has_other_way: command.contains("||"),
            missing: Missing::of(told, walk),
            filter: Filter::of(walk),
            sections: Sections::of(walk, runs_check),
            headings: headings(walk),
            log: walk.steps.iter().find_map(|step| log_of(step.command).filter(|_| runs_check(step))),
            acts: acts(walk),
        }
    }
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum FileState {
    Created,
    Modified,
    Deleted,
}

/// The end of a check, as far as its result tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// Its result shows it.
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
        let arguments = arguments_of(call);
        let argument = |names: &[&str]| names.iter().find_map(|name| arguments.get(name)?.as_str());
        // The server's name comes before that of its tool.
        let name = call.name.as_str().rsplit('.').next().unwrap_or_default();
        let name = name.rsplit("__").next().unwrap_or_default().to_lowercase();
        let path = argument(PATHS);
        let listed = listed_command(&arguments);
        let command = argument(COMMANDS).or_else(|| argument(&["script", "input"])).or(listed.as_deref());
        let command = command.filter(|_| path.is_none());
        let without_documents = command.map(without_documents);
        let commands = without_documents.as_deref();
        let place = argument(FOLDERS).filter(|_| command.is_some());
        let walk = commands.map(|commands| Walk::of(commands, place)).unwrap_or_default();
        let told = argument(&["command"]).filter(|_| path.is_some());
        let described = argument(&["description"]).filter(|text| !text.trim().is_empty());
        let fields = || arguments.as_object().into_iter().flat_map(|fields| fields.values());
        let is_patch = |text: &&str| text.contains(PATCH_START);
        let patch = match path {
            None => fields().filter_map(Value::as_str).chain(listed.as_deref()).find(is_patch),
            Some(_) => argument(&["input", "patch"]).filter(is_patch),
        };
        let verb = told.unwrap_or(&name).to_lowercase();
        let is_rehearsal =
            ["dryRun", "dry_run"].iter().any(|name| arguments.get(name) == Some(&Value::Bool(true)));
        let shown = command.filter(|_| patch.is_none()).and_then(file_shown_by);
        let touches = match (patch, path, &shown) {
            (Some(patch), ..) => patched_files(patch),
            (None, Some(path), _) if is_rehearsal => vec![(path.to_owned(), Touch::Looks)],
            (None, Some(path), _) => vec![(path.to_owned(), touch(&verb))],
            (None, None, Some((file, _))) => vec![(file.clone(), Touch::Looks)],
            (None, None, None) => listed_files(&arguments, touch(&name)),
        };
        // A tool with a verb as an argument has that beside the path.
        let n_expected = 1 + usize::from(told.is_some());
        let extent = if fields().count() > n_expected { Extent::Part } else { Extent::Whole };
        let extent = shown.as_ref().map_or(extent, |(_, extent)| *extent);
        let reads = matches!(touches[..], [(_, Touch::Looks)]).then_some(extent);
        let is_named = patch.is_some() || path.is_some() || command.is_some();
        let edits_open_file = commands.and_then(edit_of_open_file).filter(|_| patch.is_none());
        Self {
            call_hash: hash(call.name.as_str()).rotate_left(1) ^ hash(&call.arguments),
            unnamed_change: edits_open_file
                .or_else(|| (!is_named).then_some(&*name))
                .filter(|_| !name.contains("stdin"))
                .map(touch)
                .filter(|touch| *touch != Touch::Looks),
            shell_changes: match moved_by(&verb, &|names| argument(names).map(str::to_owned)) {
                Some(change) => vec![ShellStep { change, folder: None, is_sure: false }],
                None if patch.is_some() => Vec::new(),
                None => changes_of_line(command, argument(&["code"]), &walk),
            },
            checks: Checks::of(&walk),
            keys: match (path, edits_open_file) {
                // However it is changed at last, its change has succeeded.
                (Some(path), _) if touches.iter().any(|(_, touch)| *touch != Touch::Looks) => {
                    vec![(format!("{CHANGE} {path}"), None)]
                }
                (Some(path), _) => vec![(format!("{name} {path}"), None)],
                // Each time, other lines are named.
                (None, Some(edit)) => vec![(edit.to_owned(), None)],
                (None, None) => keys_of(command, &walk),
            },
            only_looks: reads.is_some() || command.is_some_and(only_looks),
            runs: command.or_else(|| argument(&["code"])).is_some(),
            command_line: commands.map(|commands| CommandLine::of(commands, &walk)).unwrap_or_default(),
            subject: path
                .or(shown.as_ref().map(|(file, _)| file.as_str()))
                .or_else(|| described.filter(|_| command.is_some_and(is_script)))
                .or_else(|| {
                    argument(SUBJECTS).or(listed.as_deref()).filter(|_| patch.is_none()).map(in_its_folder)
                })
                .map(str::to_owned)
                .or_else(|| patch.and_then(|_| paths_of(&touches)))
                .or_else(|| questions(&arguments))
                .or_else(|| values(&arguments)),
            sought: argument(SOUGHT).filter(|_| path.is_some()).map(str::to_owned),
            touches,
            reads,
        }
    }

    /// Returns the folder in which its command begins, if that is told.
    pub(crate) fn folder(&self) -> Option<&str> {
        self.command_line.folder.as_deref()
    }

    /// Returns the folder that its command enters, if it does nothing else.
    pub(crate) fn enters(&self) -> Option<&str> {
        self.command_line.enters.as_deref()
    }

    /// Checks whether it, which is the deed of `call`, changes something outside of the files of the work.
    pub(crate) fn acts(&self, call: &ToolCall) -> bool {
        self.command_line.acts || !self.runs && self.touches.is_empty() && is_act(call.name.as_str())
    }

    /// Returns the file into which a check of its command writes.
    pub(crate) fn log(&self) -> Option<&str> {
        self.command_line.log.as_deref()
    }

    /// Checks whether it looks at a file of that name.
    pub(crate) fn looks_at(&self, file: &str) -> bool {
        let name = without_folder(file);
        let is_it = |word: &str| without_folder(word) == name;
        self.only_looks
            && (self.touches.iter().any(|(path, _)| is_it(path))
                || self.subject.iter().flat_map(|subject| subject.split_whitespace()).any(is_it))
    }

    /// Returns the file that it reads, and the extent.
    pub(crate) fn read(&self) -> Option<(&str, Extent)> {
        self.reads.zip(self.touches.first()).map(|(extent, (path, _))| (without_dot(path), extent))
    }

    /// Returns the failure that its result reports.
    pub(crate) fn failure<'a>(&self, result: &'a ContextMessage) -> Option<Cow<'a, Failure>> {
        // The status is that of the filter.
        if self.found_nothing(result) {
            return None;
        }
        let failure = if !self.checks.is_empty() {
            match self.report(result) {
                Cow::Borrowed(report) => report.failure.as_ref().map(Cow::Borrowed),
                Cow::Owned(report) => report.failure.map(Cow::Owned),
            }
        } else if self.changes_files() || self.unnamed_change.is_some() {
            result.failure_of_change().map(Cow::Borrowed)
        } else if self.runs {
            let failure = result.failure_of_command();
            failure.filter(|failure| failure.is_stated() || !self.is_done_by_git(result)).map(Cow::Borrowed)
        } else {
            result.failure_of_call().map(Cow::Borrowed)
        };
        // A file that was read may have such a field, too, and so may what a program reports.
        let is_own = |failure: &Cow<'_, Failure>| {
            !failure.is_of_data() || self.reads.is_none() && (!self.runs || failure.line.is_some())
        };
        let failure =
            failure.filter(|failure| self.command_line.hides_status || !failure.is_denied()).filter(is_own);
        // What is found in another state of the work is wanted there.
        let failure = failure.filter(|_| !self.checks.has_aside() || is_marked_failed(result.message()));
        let echoed = || self.echoed_code(result).filter(|code| *code != 0);
        failure.or_else(|| echoed().map(|_| Cow::Owned(Failure::of_status())))
    }

    /// Checks whether its command does nothing but have git do something, and git says that this is done.
    fn is_done_by_git(&self, result: &ContextMessage) -> bool {
        !self.keys.is_empty()
            && self.keys.iter().all(|(key, _)| key.starts_with("git "))
            && tells_success_of_git(&result.message().text())
    }

    /// Returns the report of its checks.
    fn report<'a>(&self, result: &'a ContextMessage) -> Cow<'a, CheckReport> {
        match &self.command_line.sections {
            Some(sections) => Cow::Owned(result.report_in(sections)),
            None => Cow::Borrowed(result.report_of_check()),
        }
    }

    /// Returns how the check ended whose result it is; `marks_failures` is true if the session marks results
    /// that failed, so that one without the mark did not.
    pub(crate) fn outcome(&self, result: &ContextMessage, marks_failures: bool) -> Outcome {
        if let Some(failure) = self.failure(result) {
            // A check that was stopped has not failed by itself.
            let is_stopped = !failure.is_read() && self.unfinished(result).is_some();
            if !failure.is_read() && self.command_line.ends_elsewhere {
                let is_shown = self.report(result).evidence == Evidence::Counted;
                return if is_shown { Outcome::Passed } else { Outcome::Unclear };
            }
            return if is_stopped { Outcome::Unclear } else { Outcome::Failed };
        }
        if self.checks.has_aside() && self.report(result).failure.is_some() {
            return Outcome::Unclear;
        }
        if self.found_nothing(result) {
            let is_shown = self.command_line.filter == Some(Filter::Failures);
            return if is_shown { Outcome::Passed } else { Outcome::Unclear };
        }
        let is_shown = match self.report(result).evidence {
            Evidence::Counted => !self.command_line.missing.end,
            Evidence::Said => self.command_line.missing == Missing::default(),
            Evidence::Status | Evidence::None if self.command_line.echoed.is_some() => {
                self.checks.passed().len() == 1 && self.echoed_code(result) == Some(0)
            }
            Evidence::Status => !self.command_line.hides_status,
            Evidence::Empty => !self.command_line.missing.some,
            Evidence::None => marks_failures && !self.command_line.hides_status,
            Evidence::Unfinished | Evidence::NothingRan => false,
        };
        if is_shown { Outcome::Passed } else { Outcome::Unclear }
    }

    /// Returns the status that its last step tells of the check before: the number behind the step's own
    /// words, if that is the last line of its output.
    fn echoed_code(&self, result: &ContextMessage) -> Option<u8> {
        let before = self.command_line.echoed.as_deref()?;
        let Body::Tool(told) = &result.message().body else { return None };
        let text = output(told.content.text());
        let last = text.trim_end().lines().next_back().filter(|_| self.unfinished(result).is_none())?;
        let code = last.trim().strip_prefix(before)?.trim_start();
        code[..code.find(|c: char| !c.is_ascii_digit()).unwrap_or(code.len())].parse().ok()
    }

    /// Checks whether its command ends in a filter behind a check, and that let nothing through.
    pub(crate) fn found_nothing(&self, result: &ContextMessage) -> bool {
        self.command_line.filter.is_some()
            && self.unfinished(result).is_none()
            && matches!(&result.message().body, Body::Tool(told) if found_nothing(told))
    }

    /// Checks whether that filter does not show all failures: they may be there still.
    pub(crate) fn hides_failures(&self, result: &ContextMessage) -> bool {
        self.command_line.filter != Some(Filter::Failures) && self.found_nothing(result)
    }

    /// Checks whether a line is a heading that its command prints itself.
    pub(crate) fn is_heading(&self, line: &str) -> bool {
        self.command_line.headings.contains(line.trim())
    }

    /// Checks whether its command changes something outside of the files of the work.
    pub(crate) fn acts_outside(&self) -> bool {
        self.command_line.acts
    }

    /// Returns the checks that have that outcome, by what their result says.
    pub(crate) fn checks_with(&self, outcome: Outcome, result: &ContextMessage) -> &[Check] {
        match (outcome, &result.message().body) {
            (Outcome::Failed | Outcome::Unclear, Body::Tool(result)) => {
                self.checks.not_passed(|| names_failed_test(result))
            }
            _ => self.checks_that(outcome),
        }
    }

    /// Returns the checks that have that outcome, if nothing else is known.
    pub(crate) fn checks_that(&self, outcome: Outcome) -> &[Check] {
        match outcome {
            Outcome::Passed => self.checks.passed(),
            Outcome::Failed | Outcome::Unclear => self.checks.not_passed(|| false),
        }
    }

    /// Checks whether the result of a check shows the end of its output, without a failure.
    pub(crate) fn ends_without_failure(&self, result: &ContextMessage) -> bool {
        self.command_line.missing == Missing::default()
            && self.failure(result).is_none()
            && self.unfinished(result).is_none()
            && !self.ran_nothing(result)
    }

    /// Checks whether the result of a check says that no test ran.
    pub(crate) fn ran_nothing(&self, result: &ContextMessage) -> bool {
        !self.checks.is_empty() && self.report(result).evidence == Evidence::NothingRan
    }

    /// Returns how far its command is, if the result says that it did not end by itself.
    pub(crate) fn unfinished<'a>(&self, result: &'a ContextMessage) -> Option<&'a Unfinished> {
        result.unfinished().filter(|_| self.runs)
    }

    /// Checks whether a failure that its result reports with such a `line` may stand as an error: not if it
    /// only looked or was a slip in a command line, nor if something else runs when it fails, unless it is a
    /// check.
    pub(crate) fn may_stand(&self, result: &ContextMessage, line: &str) -> bool {
        !self.only_looks
            && (!is_misused(line) || !self.checks.is_empty())
            && (is_marked_failed(result.message())
                || !self.command_line.has_other_way
                || !self.checks.is_empty())
    }

    /// Checks whether its command made its changes: none of its steps reports that it could not.
    pub(crate) fn changed_as_told(&self, result: &ContextMessage) -> bool {
        let could_not =
            || result.message().text().lines().any(|line| line.contains(": ") && matches(&COULD_NOT, line));
        self.shell_changes.is_empty() || !could_not()
    }

    /// Returns the ids that the call may ask about: its values, unless it does something itself.
    pub(crate) fn ids_asked_about(&self, call: &ToolCall) -> Vec<String> {
        let arguments = arguments_of(call);
        let does_something = self.runs || !self.touches.is_empty();
        let fields =
            arguments.as_object().filter(|_| !does_something).into_iter().flat_map(|fields| fields.values());
        fields.filter_map(text_or_number).collect()
    }

    /// Returns the file that its result names, if it changes one that its arguments do not, and the effect.
    pub(crate) fn named_change(&self, result: &ContextMessage) -> Option<(String, Touch)> {
        let touch = self.unnamed_change?;
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

/// Returns the arguments of a call, without those that are no part of it.
fn arguments_of(call: &ToolCall) -> Value {
    let mut arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
    if let Some(fields) = arguments.as_object_mut() {
        fields.retain(|name, _| !ASIDE.contains(&name.as_str()));
    }
    arguments
}

/// Returns the changes of a command line that was followed by `walk`, and those of the scripts in it, or of
/// `code` alone.
fn changes_of_line(command: Option<&str>, code: Option<&str>, walk: &Walk<'_>) -> Vec<ShellStep> {
    let mut changes = shell_changes(walk);
    let folder = walk.steps.last().and_then(|step| step.folder.clone());
    let scripts = match command {
        Some(command) => scripts_in(command),
        None => code.map(str::to_owned).into_iter().collect(),
    };
    let of_scripts = scripts.iter().flat_map(|script| script_changes(script));
    changes.extend(of_scripts.map(|change| ShellStep { change, folder: folder.clone(), is_sure: false }));
    changes
}

/// The identity of all calls that change a file, before its path.
const CHANGE: &str = "change";

/// Returns the identities of the steps of a command that was followed by `walk`: those that do more than
/// look, or the last if none does. What reads from a pipe is a part of the step before it.
fn keys_of(command: Option<&str>, walk: &Walk<'_>) -> Vec<(String, Option<String>)> {
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
fn edit_of_open_file(command: &str) -> Option<&str> {
    let mut words = command.split_whitespace();
    let program = words.next().filter(|word| ["edit", "insert", "create"].contains(word))?;
    let lines = words.next()?;
    let is_range = lines.contains(':') && lines.chars().all(|c| c.is_ascii_digit() || c == ':');
    (program == "create" || is_range || lines.parse::<u32>().is_ok()).then_some(program)
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

/// Returns the files of a call that changes several, each in an item of a list.
fn listed_files(arguments: &Value, touch: Touch) -> Vec<(String, Touch)> {
    let lists =
        arguments.as_object().into_iter().flat_map(|fields| fields.values()).filter_map(Value::as_array);
    let path = |item: &Value| PATHS.iter().find_map(|name| item.get(*name)?.as_str().map(str::to_owned));
    let paths = lists.flatten().filter_map(path).filter(|_| touch != Touch::Looks);
    paths.map(|path| (path, touch)).collect()
}

/// Returns the questions of a call that asks several, in a line.
fn questions(arguments: &Value) -> Option<String> {
    let list = arguments.get("questions")?.as_array()?;
    let asked: Vec<&str> = list.iter().filter_map(|item| item.get("question")?.as_str()).collect();
    (!asked.is_empty()).then(|| asked.join(" ").split_whitespace().collect::<Vec<_>>().join(" "))
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

/// Returns the move of a file by a tool.
fn moved_by(verb: &str, argument: &dyn Fn(&[&str]) -> Option<String>) -> Option<ShellChange> {
    const FROM: &[&str] = &["source", "src", "from", "old_path", "source_path"];
    const TO: &[&str] = &["destination", "dest", "dst", "to", "new_path", "destination_path", "target"];
    let moves = verb.contains("move") && !verb.contains("remove") || verb.contains("rename");
    let (from, to) = (argument(FROM), argument(TO));
    from.zip(to).filter(|_| moves).map(|(from, to)| ShellChange::Moves { from, to })
}

/// Returns the files of a patch.
fn patched_files(patch: &str) -> Vec<(String, Touch)> {
    const MARKS: [(&str, FileState); 3] = [
        (PATCH_ADDS, FileState::Created),
        (PATCH_UPDATES, FileState::Modified),
        (PATCH_DELETES, FileState::Deleted),
    ];
    let mut files: Vec<(String, Touch)> = Vec::new();
    for line in patch.lines() {
        let file = MARKS.iter().find_map(|(mark, state)| Some((line.strip_prefix(mark)?, *state)));
        if let Some((path, state)) = file {
            files.push((path.trim().to_owned(), Touch::Leaves(state)));
        } else if let Some(path) = line.strip_prefix(PATCH_MOVES) {
            if let Some((_, touch)) = files.last_mut() {
                *touch = Touch::Leaves(FileState::Deleted);
            }
            files.push((path.trim().to_owned(), Touch::Leaves(FileState::Created)));
        }
    }
    files
}

/// Words of a tool's name for things that it makes or removes and that are no files.
const NO_FILES: &[&str] = &[
    "branch", "comment", "dir", "event", "folder", "issue", "label", "memory", "plan", "pull", "release",
    "review", "task", "todo",
];

/// Returns the effect on a file of a tool of that name.
fn touch(verb: &str) -> Touch {
    let has = |words: &[&str]| words.iter().any(|word| verb.contains(word));
    let removes =
        |word: &&str| verb.strip_prefix(word).is_some_and(|rest| rest.is_empty() || rest.contains("file"));
    match () {
        () if has(NO_FILES) && !has(&["file"]) => Touch::Looks,
        () if ["list_", "get_", "read_", "show_", "view_"].iter().any(|looks| verb.starts_with(looks)) => {
            Touch::Looks
        }
        () if ["delete", "remove", "unlink"].iter().any(removes) => Touch::Leaves(FileState::Deleted),
        () if has(&["write", "create", "save"]) || verb.starts_with("put") => Touch::Writes,
        () if has(&["edit", "replace", "patch", "insert", "append", "update", "delete", "remove"]) => {
            Touch::Leaves(FileState::Modified)
        }
        () => Touch::Looks,
    }
}

/// The lines at the start and at the end of a result that may name the file that was changed.
const NAMING_LINES: usize = 8;

/// The forms in which results name a file: after a label, or in a sentence about what was done.
static NAMED_FILE: Pattern = LazyLock::new(|| {
    let forms = [
        r"^\W{0,2}(?:open |current )?(?:file|path):[ \t]+([^\s()\[\]]+)",
        r"\b(?:file|wrote|written|saved|created|updated|edited|modified|deleted|changed)\b[^/\n]{0,40}?[ '`\x22]((?:[\w.~-]*/)+[\w.-]*\w)",
    ];
    any_of("(?im)", &forms)
});

/// Returns the file that the result of a change names first.
fn file_named_in(text: &str) -> Option<&str> {
    let n_lines = text.lines().count();
    let is_edge = |nth: usize| nth < NAMING_LINES || nth + NAMING_LINES >= n_lines;
    let lines = text.lines().enumerate().filter(|(nth, _)| is_edge(*nth)).map(|(_, line)| line);
    let named = |line| {
        let found = NAMED_FILE.as_ref()?.captures(line)?;
        let range = found.get(1).or_else(|| found.get(2))?.range();
        Some(&line[range]).filter(|path| has_extension(path))
    };
    lines.filter(|line: &&str| line.len() <= NAMING_BYTES).find_map(named)
}

/// Checks whether a path ends in the extension of a file: a branch and a date have none.
fn has_extension(path: &str) -> bool {
    let extension = without_folder(path).rsplit_once('.').map(|(_, extension)| extension);
    extension.is_some_and(|extension| extension.starts_with(|c: char| c.is_ascii_alphabetic()))
}

/// The form in which a program that changes files says that it could not.
static COULD_NOT: Pattern = LazyLock::new(|| {
    any_of(
        "",
        &[
            r"^(?:rm|mv|cp|sed|tee|perl|ruby|cat|(?:/bin/)?(?:ba|z|da)?sh|fatal|error)\b.{0,200}(?i:cannot|can't|no such file|denied|not permitted|read-only|did not match)",
        ],
    )
});

/// A longer line is content.
const NAMING_BYTES: usize = 400;

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

/// Returns the file that a command line only shows, and the extent; `None` if it does anything else.
fn file_shown_by(command: &str) -> Option<(String, Extent)> {
    const SHOW: &[&str] = &["cat", "nl", "sed", "head", "tail", "gc", "get-content", "type"];
    /// Those that show all, and what reads from a pipe besides them.
    const ALL: &[&str] = &["cat", "gc", "get-content", "type"];
    const PIPED: &[&str] = &["select-object", "select-string"];
    if !only_looks(command) {
        return None;
    }
    let command = without_quiet(in_its_folder(command));
    let mut found = None;
    let steps = steps(&command);
    for (nth, step) in steps.iter().filter(|step| !step.is_empty()).enumerate() {
        let mut words = step.split_whitespace();
        let program = words.next()?.to_ascii_lowercase();
        let is_piped = nth > 0 && PIPED.contains(&program.as_str());
        if is_piped {
            found = found.map(|(file, _)| (file, Extent::Part));
            continue;
        }
        if !SHOW.contains(&program.as_str()) {
            return None;
        }
        // The value of an option and a script for `sed` begin with a digit.
        let is_operand =
            |word: &&str| !word.starts_with(|c: char| matches!(c, '-' | '$') || c.is_ascii_digit());
        let mut operands = words.map(|word| word.trim_matches(['"', '\''])).filter(is_operand);
        match (nth, operands.next()) {
            (0, Some(file)) if operands.next().is_none() && file.contains(['.', '/']) => {
                let is_all = ALL.contains(&program.as_str());
                found = Some((file.to_owned(), if is_all { Extent::Whole } else { Extent::Part }));
            }
            // Behind a pipe, a command reads from the pipe.
            (1.., None) => found = found.map(|(file, _)| (file, Extent::Part)),
            _ => return None,
        }
    }
    found
}

/// Checks whether the status of a command line is not that of each of its steps: they are in a pipe, or the
/// next one runs whatever the last one did.
fn hides_status(command: &str) -> bool {
    outside_quotes(command.trim_end()).any(|(_, c)| matches!(c, '|' | ';' | '\n'))
}

/// Returns the words that a step prints before the status of the one before it.
fn before_status(echo: &str) -> Option<String> {
    let words =
        words_of(echo).into_iter().skip(1).skip_while(|word| word.starts_with('-')).collect::<Vec<_>>();
    let told = words.join(" ").replace("${?}", "$?");
    let (before, _) = told.split_once("$?")?;
    (!before.contains(['$', '`', '\\'])).then(|| before.trim().to_owned())
}

/// Returns the file into which the output of a step goes.
fn log_of(step: &str) -> Option<String> {
    let (at, _) = outside_quotes(step).find(|(at, c)| *c == '>' && !step[at + 1..].starts_with('&'))?;
    let file = step[at..].trim_start_matches(['>', ' ']).split_whitespace().next()?;
    Some(file.trim_matches(['"', '\'']).to_owned())
        .filter(|file| !file.starts_with("/dev/") && !file.is_empty())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::ToolName;

    #[test]
    fn every_pattern_is_one() {
        assert!([&NAMED_FILE, &COULD_NOT].into_iter().all(|pattern| pattern.is_some()));
    }

    #[test]
    fn a_call_is_about_a_file_a_command_or_a_question() {
        type About<'a> = (Option<(&'a str, Extent)>, &'a [&'a str], Option<&'a str>);
        let table: [(&str, &str, About<'_>); 23] = [
            ("Read", r#"{"file_path":"a.rs"}"#, (Some(("a.rs", Extent::Whole)), &[], Some("a.rs"))),
            (
                "read_file",
                r#"{"path":"a.rs","task_progress":"- [ ] One"}"#,
                (Some(("a.rs", Extent::Whole)), &[], Some("a.rs")),
            ),
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
            (
                "view_file",
                r#"{"AbsolutePath":"a.rs","toolAction":"View it","toolSummary":"File view"}"#,
                (Some(("a.rs", Extent::Whole)), &[], Some("a.rs")),
            ),
            (
                "write_to_file",
                r#"{"CodeContent":"x","TargetFile":"a.rs","toolSummary":"New file"}"#,
                (None, &["a.rs"], Some("a.rs")),
            ),
            (
                "grep_search",
                r#"{"Query":"fn a","SearchPath":"src"}"#,
                (Some(("src", Extent::Part)), &[], Some("src")),
            ),
            ("run_command", r#"{"CommandLine":"ls -l","Cwd":"/a"}"#, (None, &[], Some("ls -l"))),
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
