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
    fn every_pattern_is_one() {
        assert!(STATUS.is_some());
    }
}
