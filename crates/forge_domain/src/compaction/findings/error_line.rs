//! The line of a failed result that says best what the error is. Apart because it is sought in what failed
//! alone, and decides nothing.

use std::sync::LazyLock;

use serde_json::Value;

use super::MAX_CHARS;
use super::answer::{begins_as_failed, why};
use super::counts::count;
use super::failure_forms::{BREAKS, ONLY_ERROR, STOPS, names_failure, place, says_none};
use super::pattern::{Pattern, any_of, matches};
use super::powershell::{reason, without_places};
use super::refusal::{first_line, is_of_the_user};
use super::status::code_in_fields;
use crate::compaction::envelope::within;

/// Returns the line of a failed result that says best what the error is.
pub(super) fn error_line(text: &str) -> Option<String> {
    if code_in_fields(text).is_some() {
        return None;
    }
    let line = failed_test_of_go(text).or_else(|| reason(text)).or_else(|| invalid_input(text));
    let line = line.map(|line| line.chars().take(MAX_CHARS).collect::<String>());
    line.or_else(|| named_error(without_places(text).as_deref().unwrap_or(text)))
}

/// Returns the error of a call whose arguments Claude Code refused, with the first of the messages that it
/// lists in JSON.
fn invalid_input(text: &str) -> Option<String> {
    let said = within(text, "tool_use_error")?;
    let name = &said[..said.find(['[', '{'])?];
    let messages: Value = serde_json::from_str(&said[name.len()..]).ok()?;
    let why = why(&messages).filter(|_| name.trim_end().ends_with(':') && !name.contains('\n'))?;
    Some(format!("{name}{}", first_line(&why)))
}

/// The beginnings of lines that name an error, and words in them.
const STARTS: &[&str] = &[
    "fatal",
    "panic",
    "FAIL",
    "--- FAIL",
    "Traceback",
    "E   ",
    "✗",
    "✘",
    "✖",
    "× ",
    "● ",
    "ERROR while calling tool",
];
const WORDS: &[&str] = &[
    "No such file or directory",
    "not found",
    "is not recognized as ",
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

/// Returns the first line of a failed result that names the error.
fn named_error(text: &str) -> Option<String> {
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

/// Checks whether a text is a line that was drawn with marks.
fn is_ruler(text: &str) -> bool {
    !text.trim().is_empty() && !text.contains(char::is_alphanumeric)
}

/// Fewer characters name no error.
const LEAST_CHARS: usize = 8;

/// Returns the first line of what says why something failed.
pub(super) fn shown(why: &str) -> Option<String> {
    Some(first_line(why).chars().take(MAX_CHARS).collect()).filter(|line: &String| !line.is_empty())
}

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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert!(NAMED_TEST.is_some());
    }

    #[test]
    fn the_line_of_an_error_says_what_it_is() {
        for (text, expected) in [
            (
                "Traceback (most recent call last):\n  File \"a.py\", line 3\n    run()\nsubprocess.TimeoutExpired: late",
                Some("subprocess.TimeoutExpired: late"),
            ),
            (
                "<tool_use_error>InputValidationError: [\n  {\n    \"code\": \"small\",\n    \"message\": \"Too few items\"\n  }\n]</tool_use_error>",
                Some("InputValidationError: Too few items"),
            ),
            (
                "<tool_use_error>String not found.\nString: {}</tool_use_error>",
                Some("<tool_use_error>String not found."),
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
            ("<task_id>b1</task_id>\n<status>failed</status>\n<exit_code>1</exit_code>", None),
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
                "Exit code: 1\nmill : It can't grind.\nAt line:1 char:1\n+ mill\n+ ~~~~\n    + CategoryInfo : \
                 NotSpecified: (:) [Write-Error], WriteErrorException\n    + FullyQualifiedErrorId : WriteErrorException",
                Some("mill : It can't grind."),
            ),
            (
                "cc :    Compiling\nAt line:1 char:1\n+ cc\n+ ~~\n    + CategoryInfo : NotSpecified: (:String) [], \
                 RemoteException\n    + FullyQualifiedErrorId : NativeCommandError\nerror: no such crate",
                Some("error: no such crate"),
            ),
            (
                "ERROR while calling tool: No such place.\nPlease check your input and try again.",
                Some("ERROR while calling tool: No such place."),
            ),
            (
                "Looking for a port\n=== [FAILED] Took 3.05 seconds ===",
                Some("=== [FAILED] Took 3.05 seconds ==="),
            ),
            (
                "[ERROR] COMPILATION ERROR : \n[ERROR] /work/A.java:[4,29] no such package\n[ERROR] [Help 1] x",
                Some("[ERROR] /work/A.java:[4,29] no such package"),
            ),
        ] {
            assert_eq!(error_line(text).as_deref(), expected, "{text}");
        }
    }
}
