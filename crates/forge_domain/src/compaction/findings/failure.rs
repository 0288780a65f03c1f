//! The failure that a result reports, and the evidence that it reports none.

use std::sync::LazyLock;

use regex::Regex;

use super::MAX_CHARS;
use crate::ToolResult;
use crate::compaction::envelope::unwrapped;

/// A result that failed, or that reads so.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The first line that names the error.
    pub(crate) line: Option<String>,
    /// True if the result states that its command succeeded although it reads like a failure. Such a result
    /// is a success, unless the status belongs to another command, as behind a pipe.
    pub(crate) is_denied: bool,
}

impl Failure {
    /// Reads the failure; `None` if the result did not fail and does not read so.
    pub(super) fn of(result: &ToolResult) -> Option<Self> {
        Self::read(result, is_named)
    }

    /// Reads the failure of a test, a build or another check, which is known by more: a summary with counts
    /// decides, and places in files are what is wrong there.
    pub(super) fn of_check(result: &ToolResult) -> Option<Self> {
        Self::read(result, |edges| {
            let any = |pattern: &Pattern| edges.iter().any(|edge| matches(pattern, edge));
            any(&BAD_COUNTS)
                || !any(&GOOD_COUNTS)
                    && (is_named(edges) || any(&BREAKS) || edges.iter().any(|edge| place(edge).is_some()))
        })
    }

    /// Reads the failure of a change of a file: a tool may refuse one in a sentence.
    pub(super) fn of_change(result: &ToolResult) -> Option<Self> {
        let failure = Self::read(result, |edges| is_named(edges) || refusal(edges[0]).is_some())?;
        let line = failure.line.or_else(|| {
            let whole = result.content.text();
            refusal(&whole).map(|line| line.chars().take(MAX_CHARS).collect())
        });
        Some(Self { line, ..failure })
    }

    /// Reads the failure of a result whose start and end read so by `reads_failed`.
    fn read(result: &ToolResult, reads_failed: impl Fn(&[&str; 2]) -> bool) -> Option<Self> {
        let whole = result.content.text();
        let status = stated_status(&whole);
        let text = unwrapped(whole);
        let failed = result.is_error || status == Some(Status::Failed);
        (failed || reads_failed(&edges(&text)))
            .then(|| Self { line: error_line(&text), is_denied: !failed && status == Some(Status::Passed) })
    }
}

/// What a result that reports no failure shows of how its command ended. Silence is no success: a command may
/// still run, it may have been stopped, and a filter may hide what it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It counts or says that all is well.
    Said,
    /// It states that the command succeeded: the last one, behind a pipe.
    Status,
    /// The command wrote nothing.
    Empty,
    /// It says that the command did not end, or not by itself.
    Unfinished,
    /// It says neither.
    None,
}

impl Evidence {
    /// Reads the evidence in the result of a check that reports no failure.
    pub(super) fn of(result: &ToolResult) -> Self {
        let whole = result.content.text();
        let status = stated_status(&whole);
        let text = unwrapped(whole);
        let [start, end] = edges(&text);
        let end = if end.is_empty() { start } else { end };
        if [start, end].iter().any(|edge| matches(&GOOD_COUNTS, edge)) {
            Self::Said
        } else if status.is_none() && is_unfinished(&text) {
            Self::Unfinished
        } else if matches(&GOOD_WORDS, end) {
            Self::Said
        } else if status == Some(Status::Passed) {
            Self::Status
        } else if text.trim().is_empty() || matches(&NOTHING, &text) {
            Self::Empty
        } else {
            Self::None
        }
    }
}

/// Checks whether a result says, before or after what its command wrote, that this did not end by itself.
fn is_unfinished(text: &str) -> bool {
    let foot = text.trim_end().rsplit('\n').take(FOOT_LINES);
    text.lines().take(HEAD_LINES).chain(foot).any(|line| matches(&UNFINISHED, line))
}

/// Checks whether a line says no more than that a command ended well.
pub(crate) fn only_says_success(line: &str) -> bool {
    line.len() <= STATUS_BYTES && stated_status(line) == Some(Status::Passed)
}

/// A line of so many bytes at most says no more than the status that it states.
const STATUS_BYTES: usize = 80;

/// Returns the id under which a harness keeps a command that did not end yet.
pub(super) fn id_while_running(text: &str) -> Option<&str> {
    let found = |line: &str| Some(RUNNING_ID.as_ref()?.captures(line)?.get(1)?.range());
    let line = text.lines().find(|line| matches(&UNFINISHED, line) && found(line).is_some())?;
    found(line).map(|range| &line[range])
}

/// Returns the start and the end of a text, as far as they are read.
fn edges(text: &str) -> [&str; 2] {
    [
        text.char_indices().nth(START_CHARS).map_or(text, |(at, _)| &text[..at]),
        text.char_indices().rev().nth(END_CHARS).map_or("", |(at, _)| &text[at..]),
    ]
}

/// Most characters at the start and at the end of a result that are read.
const START_CHARS: usize = 4_000;
const END_CHARS: usize = 2_000;

/// The end of a command, as its result states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Passed,
    Failed,
}

/// Most lines at the start and at the end of a result that may state the status: those between are the
/// command's own.
const HEAD_LINES: usize = 6;
const FOOT_LINES: usize = 5;

/// Returns the status that the result states before the command's output or, without one there, after it.
fn stated_status(text: &str) -> Option<Status> {
    let status = |line: &str| {
        let code = STATUS.as_ref()?.captures(line)?.get(1)?.as_str();
        Some(if code.bytes().all(|b| b == b'0') { Status::Passed } else { Status::Failed })
    };
    let mut foot = text.trim_end().rsplit('\n').take(FOOT_LINES);
    if text.trim_start().starts_with('{') && matches(&UNSUCCESSFUL, text) {
        return Some(Status::Failed);
    }
    text.lines().take(HEAD_LINES).find_map(status).or_else(|| foot.find_map(status))
}

type Pattern = LazyLock<Option<Regex>>;

static STATUS: Pattern =
    LazyLock::new(|| Regex::new(r#"(?i)\bexit(?:ed)?[ _]?(?:with )?(?:code|status)["=: ]{1,4}(-?\d+)"#).ok());

/// The beginning of an answer in JSON that says that it has failed.
static UNSUCCESSFUL: Pattern =
    LazyLock::new(|| Regex::new(r#"\A\s*\{[^{}\[\]]{0,400}"(?:success|ok)"\s*:\s*false\b"#).ok());

/// Texts of which at least one is in every text that names a failure: most results have none, which one quick
/// search shows.
static SIGNS: Pattern = LazyLock::new(|| {
    Regex::new("FAIL|rror|ERR|xception:|Traceback|fatal:|panic:|not ok |<tool_use_error>| failed| failing")
        .ok()
});

/// The forms of lines by which runners, compilers and interpreters name a failure.
static FAILURES: Pattern = LazyLock::new(|| {
    let forms = [
        r"^(?:--- FAIL|not ok |Traceback \(most recent|fatal:|panic:|npm ERR!|npm error )",
        r"(?:^|[:=] ?)FAIL(?:ED|URES?)?\b",
        r"(?:^|[:)] ?)error(?: [A-Z]{1,6}\d+|\[\w+\])?:",
        r"^(?:Uncaught )?(?:[A-Z]\w*)?(?:Error|Exception): ",
        r"<tool_use_error>",
        r"\b[1-9]\d* (?:failed|failing)\b",
    ];
    Regex::new(&format!("(?m){}", forms.join("|"))).ok()
});

/// A text that begins like this is nothing but an error.
static ONLY_ERROR: Pattern =
    LazyLock::new(|| Regex::new(r"(?i)\A\s*(?:error|execution error|failed in sandbox)\s*(?::|!|\n)").ok());

/// Counts in the summaries of checks.
static BAD_COUNTS: Pattern = LazyLock::new(|| {
    let forms = [
        r"\b[1-9]\d* (?:\w+ )?(?:failed|failing|failures?|errors?)\b",
        r"\b(?:failures?|errors?|failed)[:=][ \t]*[1-9]",
        // A line for each count.
        r"^\S{0,3}[ \t]*fail(?:ed|ures?)?:?[ \t]+[1-9]",
    ];
    Regex::new(&format!("(?im){}", forms.join("|"))).ok()
});
static GOOD_COUNTS: Pattern = LazyLock::new(|| {
    Regex::new(r"(?im)\b0 (?:failed|failing|failures?|errors?|issues|problems)\b|\b[1-9]\d* (?:passed|passing)\b|^\S{0,3}[ \t]*fail(?:ed|ures?)?:?[ \t]+0\b").ok()
});

/// The forms by which the runners of checks and their shells say that all is well.
static GOOD_WORDS: Pattern = LazyLock::new(|| {
    let forms = [
        r"(?i:\bno (?:issues|problems|errors|warnings|vulnerabilities)\b)",
        r"(?i:\ball\b.{0,30}\bpass(?:ed|ing)?\b)",
        r"(?i:\b(?:success|successful|successfully|succeeded)\b)",
        r"^ok\b|^ok\r?$|\bOK\r?$|^OK \(|: ok\b",
        r"^[ \t]*(?:--- )?PASS(?:ED)?\b|\bPASSED?\r?$|^Passed!",
        r"^[ \t]*Finished\b",
        r"^[ \t]*[✓✔√].*\b(?:built|compiled|passed|done)\b",
    ];
    Regex::new(&format!("(?m){}", forms.join("|"))).ok()
});

/// The forms by which shells and `make` say that a command could not run or broke off.
static BREAKS: Pattern = LazyLock::new(|| {
    let forms = [
        r"^make(?:\[\d+\])?: \*\*\* ",
        r"\bcommand not found\b|: not found\r?$",
        r"is not recognized as an internal or external command",
        r"\bcore dumped\b|^Segmentation fault|^Bus error|^Killed\b",
    ];
    Regex::new(&format!("(?m){}", forms.join("|"))).ok()
});

/// The forms by which harnesses say that a command did not end by itself.
static UNFINISHED: Pattern = LazyLock::new(|| {
    let forms = [
        r"\brunning (?:in (?:the )?background|with (?:session|process|id\b|pid\b))",
        r"\b(?:still|is|process|command) running\b",
        r"\btimed[ -]?out\b|\btime ?out\b",
        r"\b(?:aborted|interrupted|cancell?ed|killed|terminated|stopped) (?:by|after|on|due)\b|^\W*(?:aborted|interrupted|terminated|killed|cancell?ed)\W*$",
    ];
    Regex::new(&format!("(?im){}", forms.join("|"))).ok()
});

static RUNNING_ID: Pattern = LazyLock::new(|| Regex::new(r"(?i)\bid\b\W{0,3}([\w-]+)").ok());

/// A sentence of so many bytes at most says why a change was refused.
const SENTENCE_BYTES: usize = 300;
static REFUSALS: Pattern = LazyLock::new(|| {
    let forms = [
        r"not (?:been )?(?:applied|found|changed|edited|modified|saved|written|unique|matched|allowed|permitted)",
        r"no (?:changes?|match(?:es)?|replacements?|edits?|such)",
        r"(?:could|did|does|do|is|was|were) ?n[o']t|cannot|can't|unable to|failed|invalid|errno",
        r"rejected|refused|denied|declined|aborted|cancell?ed|timed out",
        r"syntax errors?|(?:multiple|several|more than one) (?:matches|occurrences)",
    ];
    Regex::new(&format!(r"(?i)\b(?:{})\b", forms.join("|"))).ok()
});
static SUCCESSES: Pattern = LazyLock::new(|| {
    Regex::new(r"(?i)\A\W*(?:success\w*|ok|done|updated|edited|created|wrote|saved|applied)\b").ok()
});

/// A text by which a harness says that a command wrote nothing.
static NOTHING: Pattern = LazyLock::new(|| {
    Regex::new(r"(?i)\A.{0,60}\b(?:no output|without (?:any )?output|not produce any output)\b.{0,40}\s*\z")
        .ok()
});

/// A line that begins with its place in a file, as most compilers and linters write.
static PLACE: Pattern = LazyLock::new(|| Regex::new(r"(?m)^\S+\.\w+:\d+(?::\d+)?:? \S.*$").ok());
/// Words for less than an error.
static LESS: Pattern = LazyLock::new(|| Regex::new(r"(?i)warning|note|info|remark|hint").ok());

fn matches(pattern: &Pattern, text: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(text))
}

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

/// Returns the first line of a text if it says that something was not done.
fn refusal(text: &str) -> Option<&str> {
    let first = text.lines().find(|line| !line.trim().is_empty())?.trim();
    // Some tools answer with what the file has now.
    let is_sentence =
        first.len() <= SENTENCE_BYTES && first.starts_with(|c: char| c.is_alphanumeric() || c == '[');
    Some(first).filter(|first| is_sentence && matches(&REFUSALS, first) && !matches(&SUCCESSES, first))
}

/// Checks whether a text is a line that was drawn with marks.
fn is_ruler(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(char::is_alphanumeric)
}

/// Fewer characters name no error.
const LEAST_CHARS: usize = 8;

/// Returns the first line of a failed result that names the error.
fn error_line(text: &str) -> Option<String> {
    const STARTS: &[&str] = &["fatal", "panic", "FAIL", "--- FAIL", "Traceback", "E   ", "✗", "✘", "✖"];
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
        let is_none = line.split_once(':').is_some_and(|(_, value)| says_none(value));
        let is_ruler = line.rsplit_once(':').is_some_and(|(_, rest)| is_ruler(rest));
        says && !is_none && !is_ruler && !noise.iter().any(|word| line.contains(word))
    };
    let named = || {
        let (nth, line) = text.lines().enumerate().find(|(_, line)| names_error(line))?;
        // An exception stands below the calls that led to it.
        let is_below = |line: &&str| !line.trim().is_empty() && !line.starts_with(char::is_whitespace);
        let exception =
            line.trim_start().starts_with("Traceback").then(|| text.lines().skip(nth + 1).find(is_below));
        Some(exception.flatten().unwrap_or(line))
    };
    let is_all = matches(&ONLY_ERROR, text) || matches(&UNSUCCESSFUL, text);
    let tells = |line: &&str| line.split_once(':').is_none_or(|(_, value)| !says_none(value));
    let first = || text.lines().find(|line| is_all && !line.trim().is_empty()).filter(tells);
    let says_something = |line: &&str| line.trim().chars().nth(LEAST_CHARS - 1).is_some();
    let named = named().filter(says_something);
    let breaks = || text.lines().find(|line| matches(&BREAKS, line));
    let line = named.or_else(|| place(text)).or_else(|| count(text)).or_else(breaks).or_else(first)?;
    Some(line).filter(says_something).map(|line| line.trim().chars().take(MAX_CHARS).collect())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

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
        ] {
            assert_eq!(error_line(text).as_deref(), expected, "{text}");
        }
    }
}
