//! The failure that a result reports, if any.

use std::sync::LazyLock;

use regex::Regex;

use super::MAX_CHARS;
use crate::ToolResult;

/// A result that failed.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    /// The first line that names the error.
    pub(crate) line: Option<String>,
}

impl Failure {
    /// Reads the failure; `None` if the result did not fail.
    pub(super) fn of(result: &ToolResult) -> Option<Self> {
        let text = result.content.text();
        (result.is_error || looks_failed(&text)).then(|| Self { line: error_line(&text) })
    }
}

/// Beginnings of lines that name a failure.
const STARTS: &[&str] =
    &["FAIL", "--- FAIL", "error:", "error[E", "Traceback (most recent", "fatal:", "panic:"];

/// Signs of which at least one is in every text that reads like a failure: most results have none, which one
/// quick search shows.
static SIGNS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    Regex::new("FAIL|error:|error\\[E|Traceback|fatal:|panic:|<tool_use_error>|xit code |exited with code | failed| failing")
        .ok()
});

/// Checks whether a result reads like a failure, by its beginning and its end.
fn looks_failed(text: &str) -> bool {
    let beginning = text.char_indices().nth(4_000).map_or(text, |(at, _)| &text[..at]);
    let end = text.char_indices().rev().nth(2_000).map_or("", |(at, _)| &text[at..]);
    let has_a_sign = |part: &&&str| SIGNS.as_ref().is_none_or(|signs| signs.is_match(part));
    [beginning, end].iter().filter(has_a_sign).any(|part| {
        part.lines().any(|line| STARTS.iter().any(|start| line.starts_with(start)) || says_failed(line))
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

/// Returns the first line of a failed result that names the error.
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
