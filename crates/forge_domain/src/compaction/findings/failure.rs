//! The failure that a result reports, if any.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::MAX_CHARS;
use super::answer::{FailedAnswer, begins_as_failed};
use super::counts::{after_last_count, counts_failures};
use super::error_line::{error_line, shown};
use super::failure_forms::{BREAKS, SIGNS, STOPS, is_named, place};
use super::pattern::{Pattern, any_of, matches};
use super::powershell::has_error;
use super::refusal::{CONDITIONS, REFUSALS, SUCCESSES, first_line, refusal};
use super::sections::Sections;
use super::status::{Status, stated_status};
use crate::compaction::envelope::{output, without_command};
use crate::{Body, Message, ToolResult};

/// A result that failed, or that reads so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The first line that names the error.
    pub(crate) line: Option<String>,
    ground: Ground,
}

/// The ground on which a result counts as a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ground {
    /// The result states that its command or call failed.
    Stated {
        /// True if it is an object in JSON that tells so in a field, and no mark of the session does.
        in_data: bool,
        /// True if it reads so as well.
        reads_so: bool,
    },
    /// The result only reads so.
    Read {
        /// True if it states that its command succeeded.
        is_denied: bool,
    },
}

impl Failure {
    /// Checks whether the result states that its command or call failed.
    pub(crate) const fn is_stated(&self) -> bool {
        matches!(self.ground, Ground::Stated { .. })
    }

    /// Checks whether the result states that its command succeeded although it reads like a failure. Such a
    /// result is a success, unless the status belongs to another command, as behind a pipe.
    pub(super) const fn is_denied(&self) -> bool {
        matches!(self.ground, Ground::Read { is_denied: true })
    }

    /// Checks whether the result reads like a failure, whatever it states.
    pub(super) const fn is_read(&self) -> bool {
        matches!(self.ground, Ground::Read { .. } | Ground::Stated { reads_so: true, .. })
    }

    /// Checks whether only the result's own data tell of the failure, in a field of an object in JSON.
    pub(super) const fn is_of_data(&self) -> bool {
        matches!(self.ground, Ground::Stated { in_data: true, .. })
    }

    /// Returns the failure of a command of which only the status is known.
    pub(super) const fn of_status() -> Self {
        Self { line: None, ground: Ground::Stated { in_data: false, reads_so: true } }
    }

    /// Reads the failure of a command; `None` if the result did not fail and does not read so.
    pub(super) fn of(result: &ToolResult) -> Option<Self> {
        Self::read(result, None, |edges| {
            let names_it = || is_named(edges) || matches(&OPENINGS, first_line(edges[0]));
            !ends_well(edges) && (names_it() || edges.iter().any(|edge| has_error(edge)))
        })
    }

    /// Reads the failure of a call that runs no command: what it found or was sent may speak of failures, so
    /// only its first line counts.
    pub(super) fn of_call(result: &ToolResult) -> Option<Self> {
        Self::read(result, None, |edges| is_named(&[first_line(edges[0]), ""]) || begins_as_failed(edges[0]))
    }

    /// Reads the failure of a test, a build or another check, which is known by more: a summary with counts
    /// decides, unless something broke after it, and places in files are what is wrong there. Where a command
    /// line has `sections`, those of its checks count.
    pub(super) fn of_check(result: &ToolResult, sections: Option<&Sections>) -> Option<Self> {
        Self::read(result, sections, |edges| {
            let any = |pattern: &Pattern, edges: &[&str; 2]| edges.iter().any(|edge| matches(pattern, edge));
            let breaks = |edges: &[&str; 2]| {
                is_named(edges) || any(&BREAKS, edges) || edges.iter().any(|edge| has_error(edge))
            };
            let has_place = || edges.iter().any(|edge| place(edge).is_some());
            if ends_as_go_does(edges) {
                return false;
            }
            edges.iter().any(|edge| counts_failures(edge))
                || any(&STOPS, edges)
                || match after_last_count(edges) {
                    Some(rest) => breaks(&rest),
                    None => breaks(edges) || has_place(),
                }
        })
    }

    /// Reads the failure of a change of a file. A tool may refuse one in a sentence, and answer a change with
    /// what the file has now.
    pub(super) fn of_change(result: &ToolResult) -> Option<Self> {
        let failure = Self::read(result, None, |edges| {
            let first = first_line(edges[0]);
            if matches(&SUCCESSES, first) {
                return matches(&CONDITIONS, first);
            }
            is_named(&[first, ""]) || begins_as_failed(edges[0]) || refusal(first).is_some()
        })?;
        let line = failure.line.or_else(|| {
            let whole = result.content.text();
            refusal(&whole).map(|line| line.chars().take(MAX_CHARS).collect())
        });
        Some(Self { line, ..failure })
    }

    /// Reads the failure of a result whose start and end read so by `reads_failed`.
    fn read(
        result: &ToolResult,
        sections: Option<&Sections>,
        reads_failed: impl Fn(&[&str; 2]) -> bool,
    ) -> Option<Self> {
        let whole = result.content.text();
        let status = stated_status(without_command(&whole));
        let answer = FailedAnswer::of(&whole);
        let text = told_in(sections, output(whole));
        let is_stated = result.is_error || status == Some(Status::Failed) || answer.is_some();
        let reads_so = reads_failed(&edges(&text));
        let ground = if is_stated {
            Ground::Stated { in_data: answer.is_some() && !result.is_error, reads_so }
        } else if reads_so {
            Ground::Read { is_denied: status == Some(Status::Passed) }
        } else {
            return None;
        };
        let why = answer.and_then(|answer| answer.why.as_deref().and_then(shown));
        Some(Self { line: why.or_else(|| error_line(&text)), ground })
    }
}

/// Returns the part of an output that the checks in `sections` of it wrote, or all of it.
pub(super) fn told_in<'a>(sections: Option<&Sections>, output: Cow<'a, str>) -> Cow<'a, str> {
    sections.and_then(|sections| sections.of_checks(&output)).map_or(output, Cow::Owned)
}

/// Checks whether a message is a result that its session marks as failed.
pub(crate) fn is_marked_failed(message: &Message) -> bool {
    matches!(&message.body, Body::Tool(result) if result.is_error)
}

/// Checks whether the last line of a result says that it was a success: an attempt before it may have failed.
fn ends_well(edges: &[&str; 2]) -> bool {
    let last = end_of(edges).trim_end().lines().next_back().unwrap_or_default();
    matches(&ENDS_WELL, last) && !matches(&REFUSALS, last) && !matches(&SIGNS, last)
}

/// Checks whether the tests of Go passed: they count nothing, and what they log counts anything.
fn ends_as_go_does(edges: &[&str; 2]) -> bool {
    let last = end_of(edges).trim_end().lines().next_back().unwrap_or_default();
    matches(&OK_OF_GO, last) && !edges.iter().any(|edge| matches(&FAIL_OF_GO, edge))
}

/// Checks whether a result tells of tests that failed.
pub(super) fn names_failed_test(result: &ToolResult) -> bool {
    let text = output(result.content.text());
    edges(&text).iter().any(|edge| matches(&FAILED_TEST, edge))
}

/// Checks whether a result tells of an error in the code that was built or read.
pub(super) fn names_error_of_build(result: &ToolResult) -> bool {
    let text = output(result.content.text());
    let is_place = |line: &str| !line.contains("runtime error");
    edges(&text).iter().any(|edge| place(edge).is_some_and(is_place) || matches(&OF_BUILD, edge))
}

/// Checks whether a line says that the command line was wrong, or that a look at something found nothing.
pub(super) fn is_misused(line: &str) -> bool {
    matches(&MISUSED, line)
}

/// Checks whether a line is about a test that failed.
pub(super) fn names_test(line: &str) -> bool {
    matches(&FAILED_TEST, line)
}

/// Returns the start and the end of a text, as far as they are read.
pub(super) fn edges(text: &str) -> [&str; 2] {
    [
        text.char_indices().nth(START_CHARS).map_or(text, |(at, _)| &text[..at]),
        text.char_indices().rev().nth(END_CHARS).map_or("", |(at, _)| &text[at..]),
    ]
}

/// Returns the last part of a text that is read.
pub(super) fn end_of<'a>(edges: &[&'a str; 2]) -> &'a str {
    if edges[1].is_empty() { edges[0] } else { edges[1] }
}

/// Most characters at the start and at the end of a result that are read.
const START_CHARS: usize = 4_000;
const END_CHARS: usize = 2_000;

/// The last line of what went well.
static ENDS_WELL: Pattern = LazyLock::new(|| {
    let forms = [
        r"^\W{0,3}(?:success\w*|completed|deployed|published|released|uploaded|installed|saved|wrote|created|updated)\b",
        r"\bfound first bad commit$|^\W{0,3}(?:done|finished|ok)\W*$|\bsuccessfully\b|\b(?:is|are) (?:now )?(?:ready|up|healthy)\b",
        r"\b[1-9]\d* \w+ (?:applied|created|deployed|imported|installed|migrated|saved|updated|uploaded|written)\W*$",
    ];
    any_of("(?i)", &forms)
});
/// The first line of a command that could not do what it should.
static OPENINGS: Pattern = LazyLock::new(|| {
    any_of("", &[r"^(?:Cannot|Could not|Unable to|Failed to) \w|\bintroduced new syntax error"])
});
static FAILED_TEST: Pattern = LazyLock::new(|| {
    any_of(
        "(?m)",
        &[
            r"^\d+:\d+ \+\d+(?: ~\d+)? -[1-9]|\bFailed:? +[1-9]",
            r"\bFAIL(?:ED)?\b|^not ok |\b[1-9]\d* (?:\w+ )?(?:failed|failing|failures?)\b|^\S{0,3}[ \t]*fail[ \t]+[1-9]",
        ],
    )
});
/// The forms by which compilers and linkers name an error, beside its place at the start of a line.
static OF_BUILD: Pattern = LazyLock::new(|| {
    let forms = [
        r"^[ \t]*--> \S+:\d+:\d+|\bundefined reference to\b|\bld returned \d|\blinker command failed\b",
        r"\bfailed to solve\b|\b(?:[Ss]yntax [Ee]rror|SyntaxError)\b",
    ];
    any_of("(?m)", &forms)
});
/// The lines by which the tests of Go tell of a package, and of what failed.
static OK_OF_GO: Pattern = LazyLock::new(|| any_of("", &[r"^ok[ \t]+\S+[ \t]+(?:[\d.]+s|\(cached\))"]));
static FAIL_OF_GO: Pattern =
    LazyLock::new(|| any_of("(?m)", &[r"^[ \t]*--- FAIL|^FAIL\b|^panic:|^make(?:\[\d+\])?: \*\*\*"]));
/// The forms by which programs say that their command line is wrong: nothing came of it.
static MISUSED: Pattern = LazyLock::new(|| {
    let forms = [
        r"\b(?:unknown|unrecognized|unrecognised|invalid|no such) (?:sub-?)?(?:command|option|flag|argument)s?\b",
        r"\bunexpected argument\b|^usage: ",
        // What was looked for is not there.
        r"^(?:\S+: line \d+: )?(?:cat|du|file|find|grep|head|ls|stat|tail|wc): ",
    ];
    any_of("(?i)", &forms)
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert!(
            [&OPENINGS, &ENDS_WELL, &FAILED_TEST, &OF_BUILD, &OK_OF_GO, &FAIL_OF_GO, &MISUSED]
                .into_iter()
                .all(|pattern| pattern.is_some())
        );
    }
}
