//! The status that a result states of its command. Apart from what the output reads like, because a harness
//! writes it around the output, in forms of its own.

use std::sync::LazyLock;

use super::answer::begins_as_failed;
use super::pattern::{Pattern, any_of};

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

/// Returns the code that a result states which is nothing but fields in tags, none of which says anything:
/// `<exit_code>1</exit_code>`.
pub(crate) fn code_in_fields(text: &str) -> Option<&str> {
    const SAYING: [&str; 5] = ["error", "message", "output", "stderr", "stdout"];
    let mut code = None;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (name, value) = field(line)?;
        if !value.is_empty() && SAYING.iter().any(|part| name.contains(part)) {
            return None;
        }
        if CODES.contains(&name) {
            code = Some(value);
        }
    }
    code.filter(|code| code.parse::<i64>().is_ok())
}

/// The names of a field with the code.
const CODES: [&str; 3] = ["exit_code", "exitCode", "return_code"];

/// Returns the name and the value of a line that is a field in tags.
fn field(line: &str) -> Option<(&str, &str)> {
    let (name, rest) = line.trim().strip_prefix('<')?.split_once('>')?;
    let value = rest.strip_suffix('>')?.strip_suffix(name)?.strip_suffix("</")?;
    let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    let is_field = !name.is_empty() && name.bytes().all(is_of_name) && !value.contains('<');
    is_field.then(|| (name, value.trim()))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_code_is_read_from_fields_that_say_nothing_else() {
        for (text, expected) in [
            ("<task_id>b1</task_id>\n\n<exit_code>1</exit_code>\n", Some("1")),
            ("<exit_code> -1 </exit_code>\n<stderr></stderr>", Some("-1")),
            ("<exit_code>1</exit_code>\n<stderr>no rule</stderr>", None),
            ("<exit_code>1</exit_code>\nno rule", None),
            ("<exit_code>1</code>", None),
            ("<status>running</status>", None),
            ("<exit_code>none</exit_code>", None),
            ("", None),
        ] {
            assert_eq!(code_in_fields(text), expected, "{text}");
        }
    }

    #[test]
    fn every_pattern_is_one() {
        assert!(STATUS.is_some());
    }
}
