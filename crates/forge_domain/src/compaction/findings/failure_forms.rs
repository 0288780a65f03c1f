//! The forms of lines by which programs name a failure. Apart because both a failure and the line that says
//! what it is are known by them.

use std::sync::LazyLock;

use super::pattern::{Pattern, any_of, matches};

/// Checks whether a line at the start or the end of a result names a failure.
pub(super) fn is_named(edges: &[&str; 2]) -> bool {
    matches(&ONLY_ERROR, edges[0]) || edges.iter().any(|edge| matches(&SIGNS, edge) && names_failure(edge))
}

/// Checks whether a text has a line that names a failure. Some tools report `Error: (none)`.
pub(super) fn names_failure(text: &str) -> bool {
    let Some(failures) = FAILURES.as_ref() else { return false };
    failures.find_iter(text).any(|found| !says_none(text[found.end()..].lines().next().unwrap_or_default()))
}

/// Checks whether a text may name a failure, wherever in it.
pub(crate) fn has_sign_of_failure(text: &str) -> bool {
    matches(&SIGNS, text)
}

/// Checks whether the value of a field stands for no value.
pub(super) fn says_none(value: &str) -> bool {
    const NONE: [&str; 4] = ["(none)", "none", "null", "false"];
    NONE.iter().any(|none| value.trim().eq_ignore_ascii_case(none))
}

/// Returns the first line that tells the place of an error in a file.
pub(super) fn place(text: &str) -> Option<&str> {
    let mut places = PLACE.as_ref()?.find_iter(text).map(|found| found.as_str());
    places.find(|line| !matches(&LESS, line))
}

/// Texts of which at least one is in every text that names a failure: most results have none, which one quick
/// search shows.
pub(super) static SIGNS: Pattern = LazyLock::new(|| {
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
        r"^(?:--- FAIL|not ok |Traceback \(most recent|fatal:|panic:|npm ERR!|npm error |ERROR[:!] |%Error)",
        // Of a harness, and of builders that frame their verdict.
        r"^ERROR while calling tool: |^=+ \[FAILED\]|^\*\* [A-Z ]+ FAILED \*\*",
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

/// A text that begins like this is nothing but an error.
pub(super) static ONLY_ERROR: Pattern =
    LazyLock::new(|| any_of("(?i)", &[r"\A\s*(?:error|execution error|failed in sandbox)\s*(?::|!|\n)"]));

/// The forms by which shells and `make` say that a command could not run or broke off.
pub(super) static BREAKS: Pattern = LazyLock::new(|| {
    let forms = [
        r"\bcommand not found\b|: not found\r?$",
        r"is not recognized as an internal or external command",
        r"\bcore dumped\b|^Segmentation fault|^Bus error|^Killed\b",
        r"(?i:\bnot (?:all\b.{0,30}\bpass(?:ed)?|ok|successful|passed)\b|\bunsuccessful\b|\bdid(?:n't| not) (?:pass|succeed)\b)",
        r"^\[ERROR\] (?:COMPILATION ERROR|Failed to execute goal|Failures:|Errors:)",
        r"^[ \t]*(?:Failed to compile|Failed:[ \t]+[^\s\d]|Type error:|error Command failed)",
        r"\b(?i:style issues (?:were )?found)\b|^would reformat \S",
        r"^ninja: (?:build stopped|error)|^error during build\b|^failed to solve:|^== \[.+\] FAIL\r?$",
        r"^[^\w✓✔√]{0,12}(?:ERROR\W{1,2})?(?:\w+ ){0,2}(?i:build|compilation|generation) failed\b",
        r"\b[Tt]est suite (?:\S+ )?failed\b|^\S+: (?:line )?\d+: .{0,80}\b[Ss]yntax error\b",
    ];
    any_of("(?m)", &forms)
});
/// The forms by which runners say that they stopped, whatever else they count.
pub(super) static STOPS: Pattern = LazyLock::new(|| {
    any_of(
        "(?m)",
        &[
            r"^\d+:\d+ \+\d+(?: ~\d+)? -[1-9]\d*:",
            r"^make(?:\[\d+\])?: \*\*\* |^!+ (?:KeyboardInterrupt|Interrupted)\b|^KeyboardInterrupt\r?$|^(?:FAIL|ERROR:?) .{0,40}\b[Cc]overage\b|\bcoverage threshold\b.{0,80}\bnot met\b",
        ],
    )
});

/// A line that begins with its place in a file, as most compilers and linters write.
static PLACE: Pattern = LazyLock::new(|| {
    let forms = [
        r"^(?:\[ERROR\] |e: )?\S+\.\w+:\[?\d+(?:[:,]\d+)?\]?:? \S.*$",
        r"^\S+\.\w+\(\d+(?:, ?\d+)?\):? [Ee]rror\b.*$",
    ];
    any_of("(?m)", &forms)
});
/// Words for less than an error.
static LESS: Pattern = LazyLock::new(|| any_of("(?i)", &[r"warning|note|info|remark|hint"]));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_a_failure() {
        for (line, expected) in [
            ("==== [FAILED] Took 3.05 seconds ====", true),
            ("==== [SUCCESS] Took 3.05 seconds ====", false),
            ("ERROR while calling tool: No such place.", true),
            ("** TEST FAILED **", true),
            ("** TEST SUCCEEDED **", false),
            ("ERROR! Syntax Error while loading YAML.", true),
            ("%Error: gate.v:3:1: syntax error", true),
            ("No more ERROR while calling tools", false),
        ] {
            assert_eq!(is_named(&[line, ""]), expected, "{line}");
        }
    }

    #[test]
    fn every_pattern_is_one() {
        assert!(
            [&SIGNS, &FAILURES, &ONLY_ERROR, &BREAKS, &STOPS, &PLACE, &LESS]
                .into_iter()
                .all(|pattern| pattern.is_some())
        );
    }
}
