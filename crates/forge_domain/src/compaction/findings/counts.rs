//! The counts of what went well or badly in the summaries of checks. Apart because a count decides, whatever
//! other lines read like.

use std::sync::LazyLock;

use super::pattern::{Pattern, any_of, matches};

/// Checks whether a line counts what went well or badly.
pub(super) fn counts(line: &str) -> bool {
    matches(&GOOD_COUNTS, line) || matches(&BAD_COUNTS, line) || failed_of_dotnet(line).is_some()
}

/// Returns the first line that counts errors.
pub(super) fn count(text: &str) -> Option<&str> {
    let by_words = text.lines().find(|line| matches(&BAD_COUNTS, line) || passed_all(line) == Some(false));
    by_words.or_else(|| by_position(text).find(|(failed, _)| *failed).map(|(_, line)| line))
}

/// Iterates over the counts that .NET writes in the language of the system: whether each is of failures, and
/// its line.
fn by_position(text: &str) -> impl Iterator<Item = (bool, &str)> {
    let mut before = [""; 2];
    text.lines().filter(|line| !line.trim().is_empty()).filter_map(move |line| {
        let of_tests = failed_of_dotnet(line).map(|failed| (failed, line));
        let counted = of_tests.or_else(|| Some((failed_of_build(before, line)?, before[1])));
        before = [before[1], line];
        counted
    })
}

/// Checks whether tests failed, by a line of `dotnet test` with the numbers of those that failed, passed,
/// were left out, and of all, and then the time and the library: `… - App.Tests.dll (net8.0)`. `None` for
/// others.
fn failed_of_dotnet(line: &str) -> Option<bool> {
    let (counts, library) = line.contains(".dll").then(|| line.rsplit_once(" - ")).flatten()?;
    library.split_whitespace().next().filter(|name| name.ends_with(".dll"))?;
    let number =
        |part: &str| part.trim_start().split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok();
    let mut numbers = counts.split([':', '：']).skip(1).filter_map(number);
    let (failed, passed) = (numbers.next()?, numbers.next()?);
    let (left_out, all) = (numbers.next()?, numbers.next()?);
    let sum = failed.checked_add(passed)?.checked_add(left_out)?;
    (all > 0 && sum == all).then_some(failed > 0)
}

/// Checks whether a build of MSBuild had errors, by the two lines before the one with its time: they are
/// indented and count its warnings and its errors. `None` for other lines.
fn failed_of_build(before: [&str; 2], line: &str) -> Option<bool> {
    let line = line.trim_end();
    let (words, time) = line.split_at_checked(line.len().checked_sub(TIME.len())?)?;
    let is_time = time.bytes().zip(TIME.bytes()).all(|(byte, form)| match form {
        b'0' => byte.is_ascii_digit(),
        form => byte == form,
    });
    if !is_time || !words.starts_with(|c: char| !c.is_whitespace()) {
        return None;
    }
    let [warnings, errors] = before.map(only_number);
    warnings.and(errors).map(|n| n > 0)
}

/// The form of a time.
const TIME: &str = "00:00:00.00";

/// Returns the only number of an indented line that has words as well.
fn only_number(line: &str) -> Option<u32> {
    let mut numbers = line.split(|c: char| !c.is_ascii_digit()).filter(|part| !part.is_empty());
    let number = numbers.next()?;
    let is_only = numbers.next().is_none() && line.contains(char::is_alphabetic);
    number.parse().ok().filter(|_| is_only && line.starts_with([' ', '\t']))
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
        || by_position(text).any(|(failed, _)| failed)
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
        let by_words = GOOD_COUNTS.as_ref().and_then(|counts| Some(counts.find_iter(text).last()?.end()));
        let well = by_position(text).filter(|(failed, _)| !failed).last();
        let by_position = well.map(|(_, line)| line.as_ptr() as usize - text.as_ptr() as usize + line.len());
        Some(&text[by_words.max(by_position)?..])
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
    fn dotnet_is_read_in_any_language() {
        let build = |warnings: &str, errors: &str, time: &str| {
            format!("App -> /w/App.dll\n\n    {warnings}\n    {errors}\n\n{time} 00:00:01.23\n")
        };
        for (text, expected) in [
            (
                "Fehler!      : Fehler:     2, erfolgreich:    10, übersprungen:     0, gesamt:    12, Dauer: 80 ms - A.dll (net8.0)"
                    .to_owned(),
                Some(true),
            ),
            ("已通过! - 失败:     0，通过:     3，已跳过:     1，总计:     4，持续时间: 8 ms - A.dll".to_owned(), Some(false)),
            ("- 失敗:     0、合格:     3、合計:     4、期間: 8 ms - A.dll".to_owned(), None),
            ("a: 1, b: 2, c: 3, d: 6 - copied to A.dll".to_owned(), None),
            (build("0 个警告", "1 个错误", "已用时间"), Some(true)),
            (build("경고 2개", "오류 0개", "경과 시간:"), Some(false)),
            (build("Предупреждений: 0", "Ошибок: 3", "Прошло времени"), Some(true)),
            (build("0 Warnung(en)", "keine Fehler", "Verstrichene Zeit"), None),
            (build("2 von 3 Warnungen", "1 Fehler", "Verstrichene Zeit"), None),
            ("    0 a\n    1 b\n    c 00:00:01.23".to_owned(), None),
        ] {
            let fails = counts_failures(&text);
            let passes = after_last_count(&[&text, ""]).is_some() && !fails;
            assert_eq!((fails, passes), (expected == Some(true), expected == Some(false)), "{text}");
        }
        let text = build("0 个警告", "1 个错误", "已用时间");
        assert_eq!(count(&text), Some("    1 个错误"));
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
