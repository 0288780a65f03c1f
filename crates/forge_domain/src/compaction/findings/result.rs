//! The result of a call, judged by its deed: the failure that it reports, the end of its checks, what it
//! changed after all. Apart because a [`Deed`] is read from the call alone, and all of this from its result.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::check::Check;
use super::command_line::without_folder;
use super::deed::Deed;
use super::ending::{found_nothing, tells_success_of_git};
use super::failure::{is_marked_failed, is_misused, names_error_of_build, names_failed_test};
use super::filter::Filter;
use super::missing::Missing;
use super::pattern::{Pattern, any_of, matches};
use super::touch::Touch;
use super::{CheckReport, Evidence, Failure, Unfinished};
use crate::compaction::envelope::output;
use crate::{Body, ContextMessage};

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

impl Deed {
    /// Returns the failure that its result reports.
    pub(crate) fn failure<'a>(&self, result: &'a ContextMessage) -> Option<Cow<'a, Failure>> {
        // The status is that of the filter.
        if self.found_nothing(result) {
            return None;
        }
        let failure = if !self.checks.is_empty() && !self.checks.runs_after() {
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
            if self.failed_after_its_checks(result) {
                return Outcome::Unclear;
            }
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

    /// Checks whether its command ends in a filter, and that let nothing through.
    pub(crate) fn found_nothing(&self, result: &ContextMessage) -> bool {
        self.command_line.filter.is_some()
            && self.unfinished(result).is_none()
            && matches!(&result.message().body, Body::Tool(told) if found_nothing(told))
    }

    /// Checks whether that filter does not show all failures: they may be there still.
    pub(crate) fn hides_failures(&self, result: &ContextMessage) -> bool {
        self.command_line.filter != Some(Filter::Failures) && self.found_nothing(result)
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

    /// Returns the check that failed, if it was one of them.
    pub(crate) fn failed_check(&self, result: &ContextMessage) -> Option<&Check> {
        let is_of_checks = !self.failed_after_its_checks(result);
        self.checks_with(Outcome::Failed, result).first().filter(|_| is_of_checks)
    }

    /// Checks whether something else runs after its checks, and no error of theirs is shown.
    fn failed_after_its_checks(&self, result: &ContextMessage) -> bool {
        let Body::Tool(told) = &result.message().body else { return false };
        self.checks.runs_after() && !names_error_of_build(told)
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

    /// Returns the file that its result names, if it changes one that its arguments do not, and the effect.
    pub(crate) fn named_change(&self, result: &ContextMessage) -> Option<(String, Touch)> {
        let touch = self.unnamed_change?;
        Some((file_named_in(&result.message().text())?.to_owned(), touch))
    }
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

/// The lines at the start and at the end of a result that may name the file that was changed.
const NAMING_LINES: usize = 8;

/// A longer line is content.
const NAMING_BYTES: usize = 400;

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert!([&NAMED_FILE, &COULD_NOT].into_iter().all(|pattern| pattern.is_some()));
    }
}
