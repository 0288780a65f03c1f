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
    text.lines().find(|line| matches(&BAD_COUNTS, line))
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
        r"\b[1-9]\d* (?:\w+ )?(?:failed|failing|failures?|errors?)\b",
        r"\b(?:failures?|errors?|failed)[:=][ \t]*[1-9]",
        // A line for each count.
        r"^\S{0,3}[ \t]*fail(?:ed|ures?)?:?[ \t]+[1-9]|^[ \t]*[1-9]\d* fail\r?$",
    ];
    any_of("(?im)", &forms)
});
static GOOD_COUNTS: Pattern = LazyLock::new(|| {
    any_of(
        "(?im)",
        &[
            r"\b0 (?:tests? )?(?:failed|failing|failures?|errors?|issues|problems)\b|\b[1-9]\d* (?:passed|passing)\b|^\S{0,3}[ \t]*fail(?:ed|ures?)?:?[ \t]+0\b|^[ \t]*0 fail\r?$",
        ],
    )
});
/// The form of a line about what went well: its name may speak of failures.
static WENT_WELL: Pattern = LazyLock::new(|| {
    any_of("", &[r"^[ \t]*(?:[✓✔√]|ok\b|PASS|--- PASS)|\.\.\. ok\r?$|\bexpected failures?\b|\b0 remaining\b"])
});

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert!([&BAD_COUNTS, &GOOD_COUNTS, &WENT_WELL].into_iter().all(|pattern| pattern.is_some()));
    }
}
