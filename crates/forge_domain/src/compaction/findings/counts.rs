//! The counts of what went well or badly in the summaries of checks. Apart because a count decides, whatever
//! other lines read like.

use std::sync::LazyLock;

use super::pattern::{Pattern, any_of, matches};

/// Checks whether a line counts what went well or badly.
pub(super) fn counts(line: &str) -> bool {
    matches(&GOOD_COUNTS, line) || matches(&BAD_COUNTS, line)
}

/// Returns the first line that counts errors.
pub(super) fn count(text: &str) -> Option<&str> {
    text.lines().find(|line| matches(&BAD_COUNTS, line) || passed_all(line) == Some(false))
}

/// Checks whether a text counts failures, other than in the name of what went well.
pub(super) fn counts_failures(text: &str) -> bool {
    let Some(counts) = BAD_COUNTS.as_ref() else { return false };
    let mut found = counts.find_iter(text).map(|found| {
        let start = text[..found.start()].rfind('\n').map_or(0, |at| at + 1);
        let line = text[start..].lines().next().unwrap_or_default();
        (line, text[found.end()..].lines().next().unwrap_or_default())
    });
    found.any(|(line, rest)| !matches(&WENT_WELL, line) && !counts_something_else(rest))
        || passed_all(text) == Some(false)
}

/// Checks whether all passed, by the last line of a text that says how many of how many did: `3 of 4 suites
/// passed`. `None` if none says so, or if some were left out.
pub(super) fn passed_all(text: &str) -> Option<bool> {
    let found = PARTS.as_ref()?.captures_iter(text).last()?;
    let whole = found.get(0)?;
    let said = whole.as_str().to_lowercase();
    // `4 of 4 tests did not pass`
    if [" not ", " never ", " cannot ", " failed to "].iter().any(|denial| said.contains(denial)) {
        return None;
    }
    let number = |nth: usize| found.get(nth)?.as_str().parse::<u32>().ok();
    let (passed, all) = (number(1)?, number(2)?);
    let line = text[whole.start()..].trim_start().lines().next().unwrap_or_default();
    let leaves_out = ["skip", "ignore", "pending"].iter().any(|word| line.to_lowercase().contains(word));
    (all > 0 && (passed == all || !leaves_out)).then_some(passed == all)
}

/// Checks whether a number counts what follows it, and not checks, as in `3 failed payments`.
fn counts_something_else(rest: &str) -> bool {
    const OF_CHECKS: [&str; 16] = [
        "after",
        "and",
        "assertions",
        "checks",
        "examples",
        "for",
        "in",
        "locally",
        "of",
        "on",
        "out",
        "remotely",
        "specs",
        "suites",
        "test",
        "tests",
    ];
    let word = rest.strip_prefix(' ').and_then(|rest| rest.split(' ').next()).unwrap_or_default();
    word.chars().count() > 2 && word.chars().all(char::is_lowercase) && !OF_CHECKS.contains(&word)
}

/// Returns the text after the last count of passed tests or checks; `None` if nothing is counted so.
pub(super) fn after_last_count<'a>(edges: &[&'a str; 2]) -> Option<[&'a str; 2]> {
    let after = |text: &'a str| {
        let last = GOOD_COUNTS.as_ref()?.find_iter(text).last()?;
        Some(&text[last.end()..])
    };
    after(edges[1]).map(|rest| ["", rest]).or_else(|| Some([after(edges[0])?, edges[1]]))
}

/// Counts in the summaries of checks.
static BAD_COUNTS: Pattern = LazyLock::new(|| {
    let forms = [
        r"\b[1-9]\d* (?:[\w()]+ )?(?:failed|failing|failures?|errors?)\b|\b[1-9]\d* fails\b",
        r"\b(?:failures?|errors?|failed)[:=][ \t]*[1-9]",
        r"\bfail(?:ed|ures?)?[ \t]+[1-9]\d*(?:[,;]|[ \t]*\||\.[ \t])",
        r"\b[1-9]\d* (?:issues?|problems?|violations?|offenses?)(?:\(s\))? (?:were )?(?:found|detected)\b",
        // A line for each count.
        r"^\S{0,3}[ \t]*fail(?:ed|ures?)?:?[ \t]+[1-9]|^[ \t]*[1-9]\d* fail\r?$",
    ];
    any_of("(?im)", &forms)
});
static GOOD_COUNTS: Pattern = LazyLock::new(|| {
    any_of(
        "(?im)",
        &[
            r"\bfail(?:ed|ures?)?[:=]?[ \t]*0(?:[,;]|[ \t]*\||\.[ \t])|\b[1-9]\d* tests? pass\b",
            r"\b0 (?:[\w()]+ )?(?:failed|failing|failures?|errors?|issues|problems)\b|\b[1-9]\d* (?:passed|passing)\b|^\S{0,3}[ \t]*fail(?:ed|ures?)?:?[ \t]+0\b|^[ \t]*0 fail\r?$",
        ],
    )
});
static PARTS: Pattern = LazyLock::new(|| {
    any_of("(?im)", &[r"(?:^|[ \t(:])(\d+)(?: of | out of |/)(\d+) (?:[\w()]+ ){0,8}pass(?:ed)?\b"])
});
/// The form of a line about what went well: its name may speak of failures.
static WENT_WELL: Pattern = LazyLock::new(|| {
    any_of(
        "",
        &[
            r"^[ \t]*(?:[✓✔√]|ok\b|PASS|--- PASS)|\.\.\. ok\r?$|\bexpected failures?\b|\b0 remaining\b|\boffenses? corrected\b",
        ],
    )
});

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn every_pattern_is_one() {
        let patterns = [&BAD_COUNTS, &GOOD_COUNTS, &PARTS, &WENT_WELL];
        assert!(patterns.into_iter().all(|pattern| pattern.is_some()));
    }

    #[test]
    fn a_count_of_some_or_all_decides() {
        for (text, fails, expected) in [
            ("2 of 2 suites (9 of 9 cases) passed.", false, Some(true)),
            ("1 of 2 suites (8 of 9 cases) passed.", true, Some(false)),
            ("8/9 checks passed", true, Some(false)),
            ("8/9 passed, 1 skipped", false, None),
            ("1/9 passed\n9/9 passed", false, Some(true)),
            ("Ran out of 9 lives", false, None),
            ("4 of 4 suites did not pass", false, None),
            ("4 of 4 tests failed to pass", true, None),
            ("[error] Failed: Total 9, Failed 2, Errors 0, Passed 7", true, None),
            ("[info] Passed: Total 9, Failed 0, Errors 0, Passed 9", false, None),
            ("[ FAIL 1 | WARN 0 | SKIP 0 | PASS 8 ]", true, None),
            ("[ FAIL 0 | WARN 0 | SKIP 0 | PASS 9 ]", false, None),
            ("2 chart(s) linted, 1 chart(s) failed", true, None),
            ("2 issues found. (ran in 3.1s)", true, None),
            ("2 offenses detected, 2 offenses corrected", false, None),
            ("Found 3 errors (2 fixed, 1 remaining).", true, None),
            ("Executed 9 out of 9 tests: 1 fails locally.", true, None),
        ] {
            assert_eq!((counts_failures(text), passed_all(text)), (fails, expected), "{text}");
        }
    }
}
