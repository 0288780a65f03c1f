//! The failure that a result reports, if any.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::MAX_CHARS;
use super::answer::{FailedAnswer, begins_as_failed};
use super::pattern::{Pattern, any_of, matches};
use super::sections::Sections;
use crate::compaction::envelope::{output, without_command};
use crate::{Body, Message, ToolResult, user_words};

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
            !ends_well(edges) && (is_named(edges) || matches(&OPENINGS, first_line(edges[0])))
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
            let breaks = |edges: &[&str; 2]| is_named(edges) || any(&BREAKS, edges);
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

/// Checks whether a message is the result of a call that was refused: by the user's words, or by a sentence
/// that is all of it.
pub(crate) fn is_refused(message: &Message) -> bool {
    let Body::Tool(result) = &message.body else { return false };
    let text = result.content.text();
    let text = text.trim();
    // A word alone is the state of what was asked about.
    let is_sentence = text.len() <= SENTENCE_BYTES
        && !text.contains('\n')
        && (text.contains(char::is_whitespace) || !text.is_ascii());
    user_words(message).is_some()
        || is_of_the_user(first_line(text))
        || is_sentence && matches(&REFUSED, text) && !matches(&SUCCESSES, text)
}

/// The words of Claude Code for a call that the user stopped before it ran.
const INTERRUPTED: &str = "[Request interrupted by user";

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

/// Checks whether a line counts what went well or badly.
pub(super) fn counts(line: &str) -> bool {
    matches(&GOOD_COUNTS, line) || matches(&BAD_COUNTS, line)
}

/// Checks whether a text counts failures, other than in the name of what went well.
fn counts_failures(text: &str) -> bool {
    let Some(counts) = BAD_COUNTS.as_ref() else { return false };
    let mut found = counts.find_iter(text).map(|found| {
        let start = text[..found.start()].rfind('\n').map_or(0, |at| at + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        (line, text[found.end()..].lines().next().unwrap_or_default())
    });
    found.any(|(line, rest)| !matches(&WENT_WELL, line) && !counts_something_else(rest))
}

/// Checks whether a number counts what follows it, and not checks, as in `3 failed payments`.
fn counts_something_else(rest: &str) -> bool {
    const OF_CHECKS: [&str; 14] = [
        "after",
        "and",
        "assertions",
        "checks",
        "examples",
        "for",
        "in",
        "of",
        "on",
        "out",
        "specs",
        "suites",
        "test",
        "tests",
    ];
    let word = rest.strip_prefix(' ').and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    word.chars().count() > 2 && word.chars().all(char::is_lowercase) && !OF_CHECKS.contains(&word)
}

/// Checks whether a result tells of tests that failed.
pub(super) fn names_failed_test(result: &ToolResult) -> bool {
    let text = output(result.content.text());
    edges(&text).iter().any(|edge| matches(&FAILED_TEST, edge))
}

/// Checks whether a line says that the command line was wrong, or that a look at something found nothing.
pub(super) fn is_misused(line: &str) -> bool {
    matches(&MISUSED, line)
}

/// Checks whether a line is about a test that failed.
pub(super) fn names_test(line: &str) -> bool {
    matches(&FAILED_TEST, line)
}

/// Returns the text after the last count of passed tests or checks; `None` if nothing is counted so.
pub(super) fn after_last_count<'a>(edges: &[&'a str; 2]) -> Option<[&'a str; 2]> {
    let after = |text: &'a str| {
        let last = GOOD_COUNTS.as_ref()?.find_iter(text).last()?;
        Some(&text[last.end()..])
    };
    after(edges[1]).map(|rest| ["", rest]).or_else(|| Some([after(edges[0])?, edges[1]]))
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

/// The end of a command, as its result states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Status {
    Passed,
    Failed,
}

/// Most lines at the start and at the end of a result that may state the status: those between are the
/// command's own.
const HEAD_LINES: usize = 6;
const FOOT_LINES: usize = 5;

/// Iterates over the lines at the start of a result that may be the harness' own, without blank ones.
pub(super) fn head(text: &str) -> impl Iterator<Item = &str> {
    text.lines().filter(|line| !line.trim().is_empty()).take(HEAD_LINES)
}

/// Iterates over those at its end, the last first.
pub(super) fn foot(text: &str) -> impl Iterator<Item = &str> {
    text.trim_end().rsplit('\n').filter(|line| !line.trim().is_empty()).take(FOOT_LINES)
}

/// Returns the status that the result states before the command's output or, without one there, after it.
pub(super) fn stated_status(text: &str) -> Option<Status> {
    let status = |line: &str| {
        // Most lines state none.
        let may_state = ["xit", "XIT", "eturn", "<status"].iter().any(|sign| line.contains(sign))
            || ["rc", "RC", "ret"].iter().any(|sign| line.starts_with(sign));
        let stated = STATUS.as_ref().filter(|_| may_state)?.captures(line)?;
        let is_well = match stated.get(1).or(stated.get(2)).or(stated.get(3)) {
            Some(code) => code.as_str().bytes().all(|b| b == b'0'),
            None => stated.get(4).is_some_and(|word| !matches!(word.as_str(), "failed" | "error")),
        };
        Some(if is_well { Status::Passed } else { Status::Failed })
    };
    let mut foot = foot(text);
    if begins_as_failed(text) {
        return Some(Status::Failed);
    }
    match head(text).find_map(status) {
        // The call may have ended well that tells how a command failed.
        Some(Status::Passed) if head(text).filter_map(status).any(|status| status == Status::Failed) => {
            Some(Status::Failed)
        }
        // A command line may end by telling the status of a step before its last one.
        Some(Status::Passed) => foot.next().and_then(status).or(Some(Status::Passed)),
        stated => stated.or_else(|| foot.find_map(status)),
    }
}

/// Checks whether a line states that code.
pub(super) fn states_code(line: &str, code: &str) -> bool {
    let stated = STATUS.as_ref().and_then(|status| status.captures(line));
    stated
        .is_some_and(|stated| (1..=3).filter_map(|nth| stated.get(nth)).any(|stated| stated.as_str() == code))
}

/// A code, or a word in a tag.
static STATUS: Pattern = LazyLock::new(|| {
    let forms = [
        r#"\b(?:exit(?:ed)?[ _]?(?:with )?(?:code|status)|return ?code)["=: >]{1,4}(-?\d+)|^\W*(?:rc|RC|ret|exit|EXIT)[ =:]{1,3}(\d{1,3})\W*$"#,
        r"[\[|(][ \t]*exit(?: code)?[ =:]{1,2}(-?\d+)[ \t]*[\])|]",
        r"<status>\s*(completed|passed|success|failed|error)\s*</status>",
    ];
    any_of("(?i)", &forms)
});

/// Texts of which at least one is in every text that names a failure: most results have none, which one quick
/// search shows.
static SIGNS: Pattern = LazyLock::new(|| {
    let signs = [
        "FAIL|rror|ERR|xception|Traceback|fatal:|panic|not ok |<tool_use_error>| failed| failing",
        // The names of what a system could not do.
        "ENO|EACCES|EPERM|EEXIST|ECONN|EISDIR|EBUSY|EROFS|EADDR|EPIPE|EMFILE|ETIME",
    ];
    any_of("", &signs)
});

/// The forms of lines by which runners, compilers and interpreters name a failure.
static FAILURES: Pattern = LazyLock::new(|| {
    let forms = [
        r"^(?:--- FAIL|not ok |Traceback \(most recent|fatal:|panic:|npm ERR!|npm error |ERROR: )",
        r"(?:^|[:=] ?)FAIL(?:ED|URES?)?\b",
        r"(?:^|[:)] ?)error(?: [A-Z]{1,6}\d+|\[\w+\])?:",
        r"^(?:Uncaught )?(?:[A-Z]\w*)?(?:Error|Exception): ",
        r"^(?:Exception in thread |Unhandled exception|(?:PHP )?(?:Fatal|Parse) error:|\*\* \(\w+Error\)|│ +Error: )",
        r"^(?:\w+\.)+[A-Z]\w*(?:Error|Exception)\b|^\S+:\d+:in .*(?:Error|Exception)\)",
        r"\bpanicked at |:\d+: (?:ERROR|FATAL|PANIC):|\bBUILD FAIL(?:ED|URE)\b|^[ \t]+error: \w+ \w+",
        r"^E[A-Z]{3,}: \w",
        r"<tool_use_error>",
        r"\b[1-9]\d* (?:failed|failing)\b",
    ];
    any_of("(?m)", &forms)
});

/// The last line of what went well.
static ENDS_WELL: Pattern = LazyLock::new(|| {
    let forms = [
        r"^\W{0,3}(?:success\w*|completed|deployed|published|released|uploaded|installed|saved|wrote|created|updated)\b",
        r"\bfound first bad commit$|^\W{0,3}(?:done|finished|ok)\W*$|\bsuccessfully\b|\b(?:is|are) (?:now )?(?:ready|up|healthy)\b",
        r"\b[1-9]\d* \w+ (?:applied|created|deployed|imported|installed|migrated|saved|updated|uploaded|written)\W*$",
    ];
    any_of("(?i)", &forms)
});

/// A text that begins like this is nothing but an error.
static ONLY_ERROR: Pattern =
    LazyLock::new(|| any_of("(?i)", &[r"\A\s*(?:error|execution error|failed in sandbox)\s*(?::|!|\n)"]));

/// Counts in the summaries of checks.
static BAD_COUNTS: Pattern = LazyLock::new(|| {
    let forms = [
        r"\b[1-9]\d* (?:\w+ )?(?:failed|failing|failures?|errors?)\b",
        r"\b(?:failures?|errors?|failed)[:=][ \t]*[1-9]",
        // A line for each count.
        r"^\S{0,3}[ \t]*fail(?:ed|ures?)?:?[ \t]+[1-9]|^[ \t]*[1-9]\d* fail\r?$",
    ];
    any_of("(?im)", &forms)
});
pub(super) static GOOD_COUNTS: Pattern = LazyLock::new(|| {
    any_of(
        "(?im)",
        &[
            r"\b0 (?:tests? )?(?:failed|failing|failures?|errors?|issues|problems)\b|\b[1-9]\d* (?:passed|passing)\b|^\S{0,3}[ \t]*fail(?:ed|ures?)?:?[ \t]+0\b|^[ \t]*0 fail\r?$",
        ],
    )
});

/// The forms by which shells and `make` say that a command could not run or broke off.
static BREAKS: Pattern = LazyLock::new(|| {
    let forms = [
        r"\bcommand not found\b|: not found\r?$",
        r"is not recognized as an internal or external command",
        r"\bcore dumped\b|^Segmentation fault|^Bus error|^Killed\b",
        r"(?i:\bnot (?:all\b.{0,30}\bpass(?:ed)?|ok|successful|passed)\b|\bunsuccessful\b|\bdid(?:n't| not) (?:pass|succeed)\b)",
        r"^\[ERROR\] (?:COMPILATION ERROR|Failed to execute goal|Failures:|Errors:)",
        r"^[ \t]*(?:Failed to compile|Failed:[ \t]+[^\s\d]|Type error:|error Command failed)",
        r"\b(?i:style issues (?:were )?found)\b|^would reformat \S",
    ];
    any_of("(?m)", &forms)
});
/// The forms by which runners say that they stopped, whatever else they count.
static STOPS: Pattern = LazyLock::new(|| {
    any_of(
        "(?m)",
        &[
            r"^make(?:\[\d+\])?: \*\*\* |^!+ (?:KeyboardInterrupt|Interrupted)\b|^KeyboardInterrupt\r?$|^(?:FAIL|ERROR:?) .{0,40}\b[Cc]overage\b|\bcoverage threshold\b.{0,80}\bnot met\b",
        ],
    )
});

/// A sentence of so many bytes at most says why a change was refused.
const SENTENCE_BYTES: usize = 300;
/// The first line of a command that could not do what it should.
static OPENINGS: Pattern = LazyLock::new(|| {
    any_of("", &[r"^(?:Cannot|Could not|Unable to|Failed to) \w|\bintroduced new syntax error"])
});
/// Conditions of a change: whatever else the sentence has, it was not made.
static CONDITIONS: Pattern = LazyLock::new(|| {
    any_of(
        "(?i)",
        &[
            r"\b(?:must (?:be|read|first|have)|modified since|before (?:over)?writing|are identical|instead of approving|dry ?run)\b",
        ],
    )
});
static REFUSALS: Pattern = LazyLock::new(|| {
    let forms = [
        r"not (?:been )?(?:applied|found|changed|edited|modified|saved|written|unique|matched|allowed|permitted)",
        r"no (?:changes?|match(?:es)?|replacements?|edits?|such)",
        r"(?:could|did|does|do|is|was|were) ?n[o']t|cannot|can't|unable to|failed|invalid|errno",
        r"rejected|refused|denied|declined|aborted|cancell?ed|timed out",
        r"syntax errors?|(?:multiple|several|more than one) (?:matches|occurrences)",
    ];
    any_of("(?i)", &[&format!(r"\b(?:{})\b", forms.join("|"))])
});
/// Words for what the user or a rule did not allow.
static REFUSED: Pattern = LazyLock::new(|| {
    any_of(
        "(?i)",
        &[
            r"\b(?:rejected|refused|denied|declined|cancell?ed|(?:did|does|was|is)(?: not|n't) allow(?:ed)?)\b",
            // The same in other languages, as harnesses write it.
            r"abgelehnt|verweigert|refusé|rechazad|rechazó|denegad|rifiutat|negato|recusad|recusou|geweigerd|odrzucon|reddedil",
            r"отклон(?:ил|ено|ён)|отказал|запрещ(?:ено|ён)|拒否|許可(?:され|しま)|拒绝|拒絕|未授权|거부|अस्वीकार|अनुमति नहीं",
        ],
    )
});
static SUCCESSES: Pattern = LazyLock::new(|| {
    let forms = [
        r"\A\W*(?:ok|done|updated|edited|created|wrote|saved|applied|replaced)\b",
        r"\b(?:ha(?:s|ve) been|was|were) (?:updated|edited|modified|created|written|saved|applied|replaced|deleted)\b",
        r"\bsuccess(?:ful(?:ly)?)?\b",
    ];
    any_of("(?i)", &forms)
});
/// Paths and quotes.
static NAMED: Pattern = LazyLock::new(|| any_of("", &[r#"`[^`]*`|"[^"]*"|'[^']*'|\S*[/\\]\S*|\S+\.\w+"#]));

/// A line that begins with its place in a file, as most compilers and linters write.
static PLACE: Pattern =
    LazyLock::new(|| any_of("(?m)", &[r"^(?:\[ERROR\] |e: )?\S+\.\w+:\[?\d+(?:[:,]\d+)?\]?:? \S.*$"]));
static FAILED_TEST: Pattern = LazyLock::new(|| {
    any_of(
        "(?m)",
        &[
            r"\bFAIL(?:ED)?\b|^not ok |\b[1-9]\d* (?:\w+ )?(?:failed|failing|failures?)\b|^\S{0,3}[ \t]*fail[ \t]+[1-9]",
        ],
    )
});
/// The forms in which runners name a test that failed, each on a line of its own.
static NAMED_TEST: Pattern = LazyLock::new(|| {
    let forms = [
        r"^test \S+ \.\.\. FAILED\r?$",
        r"^[ \t]*\d+\) [^ \t].*\S",
        r"^[ \t]*\S.* > .*\bFAILED\r?$",
        r"^[ \t]*\d+ - \S+ \(Failed\)",
        r"^[ \t]*Failed [\w.+]+\S* \[",
    ];
    any_of("", &forms)
});
/// The form of a line about what went well: its name may speak of failures.
static WENT_WELL: Pattern = LazyLock::new(|| {
    any_of("", &[r"^[ \t]*(?:[✓✔√]|ok\b|PASS|--- PASS)|\.\.\. ok\r?$|\bexpected failures?\b|\b0 remaining\b"])
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
/// Words for less than an error.
static LESS: Pattern = LazyLock::new(|| any_of("(?i)", &[r"warning|note|info|remark|hint"]));

/// Checks whether a line at the start or the end of a result names a failure.
fn is_named(edges: &[&str; 2]) -> bool {
    matches(&ONLY_ERROR, edges[0]) || edges.iter().any(|edge| matches(&SIGNS, edge) && names_failure(edge))
}

/// Checks whether a text has a line that names a failure. Some tools report `Error: (none)`.
fn names_failure(text: &str) -> bool {
    let Some(failures) = FAILURES.as_ref() else { return false };
    failures.find_iter(text).any(|found| !says_none(text[found.end()..].lines().next().unwrap_or_default()))
}

/// Checks whether the value of a field stands for no value.
fn says_none(value: &str) -> bool {
    const NONE: [&str; 4] = ["(none)", "none", "null", "false"];
    NONE.iter().any(|none| value.trim().eq_ignore_ascii_case(none))
}

/// Returns the first line that counts errors.
fn count(text: &str) -> Option<&str> {
    text.lines().find(|line| matches(&BAD_COUNTS, line))
}

/// Returns the first line that tells the place of an error in a file.
fn place(text: &str) -> Option<&str> {
    let mut places = PLACE.as_ref()?.find_iter(text).map(|found| found.as_str());
    places.find(|line| !matches(&LESS, line))
}

/// Checks whether a line of a harness says that the user refused a call, which is not an error, or stopped
/// it before it ran.
pub(crate) fn is_of_the_user(line: &str) -> bool {
    line.contains("doesn't want to proceed") || line.contains(INTERRUPTED)
}

/// Returns the first line of a text that is not blank.
fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim()
}

/// Returns the first line of a text if it is a sentence that says that something was not done.
fn refusal(text: &str) -> Option<&str> {
    let first = first_line(text);
    // Some tools answer with what the file has now.
    let begins_so = |c: char| c.is_uppercase() || !c.is_ascii() || c == '[';
    if is_of_the_user(first)
        || first.len() > SENTENCE_BYTES
        || !(first.starts_with(begins_so) || first.contains(" failed: "))
    {
        return None;
    }
    // Names and quotes say nothing.
    let said = NAMED.as_ref()?.replace_all(first, " ");
    let is_refused = matches(&CONDITIONS, &said) || matches(&REFUSALS, &said) && !matches(&SUCCESSES, &said);
    is_refused.then_some(first)
}

/// Checks whether a text is a line that was drawn with marks.
fn is_ruler(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(char::is_alphanumeric)
}

/// Fewer characters name no error.
const LEAST_CHARS: usize = 8;

/// Returns the first line of what says why something failed.
fn shown(why: &str) -> Option<String> {
    Some(first_line(why).chars().take(MAX_CHARS).collect()).filter(|line: &String| !line.is_empty())
}

/// Returns the first test of Go that failed, with the line of the test that says why: it stands below or, of
/// tests that are told while they run, above.
fn failed_test_of_go(text: &str) -> Option<String> {
    const FAILED: &str = "--- FAIL: ";
    if !text.contains(FAILED) {
        return None;
    }
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let at = lines.iter().position(|line| line.starts_with(FAILED))?;
    let says_why = |line: &&&str| {
        let place = line.split_once("_test.go:").filter(|(file, _)| !file.contains(' '));
        let why = place.and_then(|(_, place)| place.split_once(": "));
        why.is_some_and(|(nth, _)| nth.parse::<u32>().is_ok()) || line.starts_with("panic: ")
    };
    let is_of_others =
        |line: &str| ["=== RUN", "--- PASS", "FAIL\t", "ok "].iter().any(|s| line.starts_with(s));
    let below = lines[at + 1..].iter().take_while(|line| !is_of_others(line)).find(says_why);
    let above = || lines[..at].iter().rev().take_while(|line| !is_of_others(line)).find(says_why);
    let test = lines[at];
    Some(match below.or_else(above) {
        Some(why) => format!("{}: {why}", test.split(" (").next().unwrap_or(test)),
        None => test.to_owned(),
    })
}

/// Checks whether a line is of the log of a program, which tests may check.
fn is_logged(line: &str) -> bool {
    line.contains(" level=") || line.contains("\"level\":")
}

/// Returns the line of a failed result that says best what the error is.
fn error_line(text: &str) -> Option<String> {
    let test = failed_test_of_go(text).map(|test| test.chars().take(MAX_CHARS).collect::<String>());
    test.or_else(|| named_error(text))
}

/// Returns the first line of a failed result that names the error.
fn named_error(text: &str) -> Option<String> {
    const STARTS: &[&str] =
        &["fatal", "panic", "FAIL", "--- FAIL", "Traceback", "E   ", "✗", "✘", "✖", "× ", "● "];
    const WORDS: &[&str] = &[
        "No such file or directory",
        "not found",
        "annot ",
        "an't ",
        "nable to ",
        "ould not ",
        "ermission denied",
        "fatal:",
        "fatal error",
        "undefined reference",
        "undefined:",
        "parse error",
        "panicked at ",
        "Error)",
        "unknown command",
        "unknown option",
        "unknown flag",
        "tool_use_error",
    ];
    let names_error = |line: &&str| {
        let line = line.trim_start();
        let noise = [
            "Process exited",
            "Command exited",
            "Chunk ID",
            "Sibling tool call",
            // Headlines: what failed stands elsewhere.
            "FAILURES",
            "FAILURE: Build failed",
            "error: test failed, to rerun",
            "Some tests failed",
        ];
        let says = STARTS.iter().any(|start| line.starts_with(start))
            || WORDS.iter().any(|word| line.contains(word))
            || ["rror:", "RROR:", "xception:", "rror[", "rror TS"].iter().any(|word| line.contains(word));
        let is_none = line.split_once(':').is_some_and(|(_, value)| says_none(value));
        let is_ruler = line.rsplit_once(':').is_some_and(|(_, rest)| is_ruler(rest));
        let warns = ["npm warn", "npm WARN", "warning"].iter().any(|less| line.starts_with(less));
        says && !warns
            && !is_none
            && !is_ruler
            && !is_of_the_user(line)
            && !noise.iter().any(|word| line.contains(word))
    };
    let named = || {
        let (nth, line) = text.lines().enumerate().find(|(_, line)| names_error(line))?;
        // An exception stands below the calls that led to it.
        let is_below = |line: &&str| !line.trim().is_empty() && !line.starts_with(char::is_whitespace);
        let exception =
            line.trim_start().starts_with("Traceback").then(|| text.lines().skip(nth + 1).find(is_below));
        Some(exception.flatten().unwrap_or(line))
    };
    let is_all = matches(&ONLY_ERROR, text) || begins_as_failed(text);
    let tells = |line: &&str| line.split_once(':').is_none_or(|(_, value)| !says_none(value));
    let first = || text.lines().find(|line| is_all && !line.trim().is_empty()).filter(tells);
    let says_something = |line: &&str| line.trim().chars().nth(LEAST_CHARS - 1).is_some();
    let named = named().filter(says_something);
    let fails = || text.lines().find(|line| names_failure(line));
    let breaks = || text.lines().find(|line| matches(&BREAKS, line) || matches(&STOPS, line));
    let line = named
        .or_else(|| place(text))
        .or_else(|| text.lines().find(|line| matches(&NAMED_TEST, line)))
        .or_else(|| count(text))
        .or_else(breaks)
        .or_else(first)
        .or_else(fails)
        .filter(says_something);
    let package_of_go = || text.lines().find(|line| line.starts_with("FAIL\t"));
    let line = line.filter(|line| !is_logged(line)).or_else(package_of_go).or(line)?;
    let line = line.trim_start_matches(['│', ' ', '\t']).trim_end();
    // Rust says why in the line below the place.
    let why = text.split_once(line).filter(|_| line.contains("panicked at ") && line.ends_with(':'));
    let why = why.and_then(|(_, after)| after.lines().nth(1)).map(|why| format!(" {}", why.trim()));
    Some(line.chars().chain(why.unwrap_or_default().chars()).take(MAX_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_pattern_is_one() {
        for (nth, pattern) in [
            &OPENINGS,
            &STATUS,
            &SIGNS,
            &FAILURES,
            &ONLY_ERROR,
            &BAD_COUNTS,
            &GOOD_COUNTS,
            &BREAKS,
            &STOPS,
            &CONDITIONS,
            &REFUSALS,
            &REFUSED,
            &ENDS_WELL,
            &SUCCESSES,
            &NAMED,
            &PLACE,
            &FAILED_TEST,
            &NAMED_TEST,
            &WENT_WELL,
            &OK_OF_GO,
            &FAIL_OF_GO,
            &MISUSED,
            &LESS,
        ]
        .into_iter()
        .enumerate()
        {
            assert!(pattern.is_some(), "pattern {nth}");
        }
    }

    #[test]
    fn the_line_of_an_error_says_what_it_is() {
        for (text, expected) in [
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 3\n    run()\nsubprocess.TimeoutExpired: late",
                Some("subprocess.TimeoutExpired: late"),
            ),
            ("Traceback (most recent call last):", Some("Traceback (most recent call last):")),
            (
                "sbatch: error: =======\nsbatch: error: no such account",
                Some("sbatch: error: no such account"),
            ),
            ("error: none\nall is well", None),
            (
                "thread 'main' panicked at src/a.rs:5:9:\nno rates\nnote: run with a backtrace",
                Some("thread 'main' panicked at src/a.rs:5:9: no rates"),
            ),
            ("│ Error: no such region\n│\n", Some("Error: no such region")),
            (
                "There was 1 failure:\n\n1) RateTest::testFree\nFailed asserting.\n\nFAILURES!\nTests: 3, Failures: 1.",
                Some("1) RateTest::testFree"),
            ),
            (
                "e: file:///w/a/Cart.kt:17:9 Unresolved reference 'x'\n\nFAILURE: Build failed with an exception.",
                Some("e: file:///w/a/Cart.kt:17:9 Unresolved reference 'x'"),
            ),
            (
                "test parse::quotes ... FAILED\nerror: test failed, to rerun pass `--lib`",
                Some("test parse::quotes ... FAILED"),
            ),
            (
                "=== RUN   TestA\ntime=1 level=WARN msg=\"Error: x\"\n    a_test.go:22: got 302\n--- FAIL: TestA (0.80s)",
                Some("--- FAIL: TestA: a_test.go:22: got 302"),
            ),
            (
                "--- FAIL: TestB (0.00s)\n    --- FAIL: TestB/one (0.00s)\n        b_test.go:7: got 1\nFAIL\ta\t0.1s",
                Some("--- FAIL: TestB: b_test.go:7: got 1"),
            ),
            ("    c_test.go:7: x\n--- PASS: TestC\n--- FAIL: TestD (0.00s)", Some("--- FAIL: TestD (0.00s)")),
            (
                "--- PASS: TestA\ntime=1 level=WARN msg=\"Error: x\"\nFAIL\nFAIL\tw/a\t4.7s",
                Some("FAIL\tw/a\t4.7s"),
            ),
            ("time=1 level=ERROR msg=\"Error: x\"", Some("time=1 level=ERROR msg=\"Error: x\"")),
            (
                "[ERROR] COMPILATION ERROR : \n[ERROR] /work/A.java:[4,29] no such package\n[ERROR] [Help 1] x",
                Some("[ERROR] /work/A.java:[4,29] no such package"),
            ),
        ] {
            assert_eq!(error_line(text).as_deref(), expected, "{text}");
        }
    }
}
