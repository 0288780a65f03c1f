//! Sentences that say that something was not done or not allowed: a tool refuses a change in one, and a user
//! or a rule a call. Apart because they name no error, so that only a whole sentence counts.

use std::sync::LazyLock;

use super::pattern::{Pattern, any_of, matches};
use crate::{Body, Message, user_words};

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

/// Checks whether a line of a harness says that the user refused a call, which is not an error, or stopped
/// it before it ran.
pub(crate) fn is_of_the_user(line: &str) -> bool {
    line.contains("doesn't want to proceed") || line.contains(INTERRUPTED)
}

/// The words of Claude Code for a call that the user stopped before it ran.
const INTERRUPTED: &str = "[Request interrupted by user";

/// Returns the first line of a text if it is a sentence that says that something was not done.
pub(super) fn refusal(text: &str) -> Option<&str> {
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

/// Returns the first line of a text that is not blank.
pub(super) fn first_line(text: &str) -> &str {
    text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().trim()
}

/// A sentence of so many bytes at most says why a change was refused.
const SENTENCE_BYTES: usize = 300;
/// Conditions of a change: whatever else the sentence has, it was not made.
pub(super) static CONDITIONS: Pattern = LazyLock::new(|| {
    any_of(
        "(?i)",
        &[
            r"\b(?:must (?:be|read|first|have)|modified since|before (?:over)?writing|are identical|instead of approving|dry ?run)\b",
        ],
    )
});
pub(super) static REFUSALS: Pattern = LazyLock::new(|| {
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
pub(super) static SUCCESSES: Pattern = LazyLock::new(|| {
    let forms = [
        r"\A\W*(?:ok|done|updated|edited|created|wrote|saved|applied|replaced)\b",
        r"\b(?:ha(?:s|ve) been|was|were) (?:updated|edited|modified|created|written|saved|applied|replaced|deleted)\b",
        r"\bsuccess(?:ful(?:ly)?)?\b",
    ];
    any_of("(?i)", &forms)
});
/// Paths and quotes.
static NAMED: Pattern = LazyLock::new(|| any_of("", &[r#"`[^`]*`|"[^"]*"|'[^']*'|\S*[/\\]\S*|\S+\.\w+"#]));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pattern_is_one() {
        assert!(
            [&CONDITIONS, &REFUSALS, &REFUSED, &SUCCESSES, &NAMED]
                .into_iter()
                .all(|pattern| pattern.is_some())
        );
    }
}
