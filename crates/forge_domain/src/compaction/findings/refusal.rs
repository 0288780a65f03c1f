//! Sentences that say that something was not done or not allowed: a tool refuses a change in one, and a user
//! or a rule a call. Apart because they name no error, so that only a whole sentence counts.

use std::sync::LazyLock;

use serde_json::Value;

use super::acts::words_of_name;
use super::pattern::{Pattern, any_of, matches};
use crate::compaction::arguments::text_or_number;
use crate::{Body, Message, ToolCall, user_words};

/// Checks whether a message is the result of a `call` that was refused: by the user's words, or by a sentence
/// that is all of it.
pub(crate) fn is_refused(call: &ToolCall, message: &Message) -> bool {
    let Body::Tool(result) = &message.body else { return false };
    let text = result.content.text();
    let text = text.trim();
    // A word alone is the state of what was asked about.
    let is_sentence = text.chars().nth(SENTENCE_CHARS).is_none()
        && !text.contains('\n')
        && (text.contains(char::is_whitespace) || !text.is_ascii());
    user_words(message).is_some()
        || is_of_the_user(first_line(text))
        || is_sentence
            && matches(&REFUSED, text)
            && !matches(&SUCCESSES, text)
            && !tells_what_was_asked_for(call, text)
}

/// The beginnings of verbs that ask for an end, as the names and arguments of calls have them.
const ENDS: &[&str] = &["abort", "cancel", "kill", "revoke", "stop", "terminat"];

/// Checks whether a sentence that reads like a refusal tells what its `call` asked for: an order that was to
/// be cancelled is, or the state of what the call names.
fn tells_what_was_asked_for(call: &ToolCall, text: &str) -> bool {
    if matches(&NOT_DONE, text) {
        return false;
    }
    let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or(Value::Null);
    let values = arguments.as_object().into_iter().flat_map(|fields| fields.values());
    // A command or a text has several words, of which any may stand for anything.
    let values = values.filter_map(text_or_number).filter(|value| !value.contains(char::is_whitespace));
    let values: Vec<String> = values.collect();
    let tool = call.name.as_str().rsplit("__").next().unwrap_or_default();
    let asked: Vec<String> =
        words_of_name(tool).into_iter().chain(values.iter().map(|value| value.to_lowercase())).collect();
    let asks_for = |verb: &str| asked.iter().any(|word| word.starts_with(verb));
    // The name of a file stands in refusals as well.
    let is_id = |value: &str| {
        value.len() > 1 && value.contains(|c: char| c.is_ascii_digit()) && !value.contains(['/', '\\', '.'])
    };
    let is_of_end = ENDS.iter().any(|verb| asks_for(verb))
        || values.iter().any(|value| is_id(value) && text.contains(value.as_str()));
    let is_asked_for = |word: &str| {
        word.starts_with("cancel") && is_of_end
            || ["declin", "reject"].iter().any(|verb| word.starts_with(verb) && asks_for(verb))
    };
    let rest = text.split_whitespace().filter(|word| {
        let word = word.trim_start_matches(|c: char| !c.is_alphanumeric()).to_lowercase();
        !is_asked_for(&word)
    });
    !matches(&REFUSED, &rest.collect::<Vec<_>>().join(" "))
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
        || first.chars().nth(SENTENCE_CHARS).is_some()
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

/// A sentence of so many characters at most says why a change was refused.
const SENTENCE_CHARS: usize = 300;
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
        r"already exists|syntax errors?|(?:multiple|several|more than one) (?:matches|occurrences)",
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
/// Words for what was not done, and for those who refuse.
static NOT_DONE: Pattern =
    LazyLock::new(|| any_of("(?i)", &[r"\b(?:user|tool|permission|not|cannot|unable|failed|never)\b|n't\b"]));
pub(super) static SUCCESSES: Pattern = LazyLock::new(|| {
    let forms = [
        r"\A\W*(?:ok|done|updated|edited|created|wrote|saved|applied|replaced)\b",
        r"\b(?:ha(?:s|ve) been|was|were) (?:updated|edited|modified|created|written|saved|applied|replaced|deleted)\b",
        r"\bsuccess(?:ful(?:ly)?)?\b|\boverwrote\b|\b(?:been|is|was) overwritten\b|, overwriting\b",
    ];
    any_of("(?i)", &forms)
});
/// Paths and quotes.
static NAMED: Pattern = LazyLock::new(|| any_of("", &[r#"`[^`]*`|"[^"]*"|'[^']*'|\S*[/\\]\S*|\S+\.\w+"#]));

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::{ToolName, ToolResult};

    #[test]
    fn every_pattern_is_one() {
        assert!(
            [&CONDITIONS, &REFUSALS, &REFUSED, &NOT_DONE, &SUCCESSES, &NAMED]
                .into_iter()
                .all(|pattern| pattern.is_some())
        );
    }

    #[test]
    fn a_cancellation_that_was_asked_for_is_no_refusal() {
        for (tool, arguments, said, expected) in [
            ("manage_job", r#"{"Action":"kill","JobId":"j/12"}"#, "Job \"j/12\" cancelled.", false),
            ("cancelBooking", r#"{"booking":"B41"}"#, "Booking B41 was cancelled.", false),
            ("mcp__shop__stop_delivery", "{}", "The delivery is cancelled", false),
            ("update_booking", r#"{"booking":"B41","status":"cancelled"}"#, "Booking cancelled.", false),
            ("get_booking", r#"{"booking":"B41"}"#, "Booking B41 was cancelled.", false),
            ("reject_offer", r#"{"offer":7}"#, "Offer 7 was rejected.", false),
            ("get_booking", r#"{"booking":"B41"}"#, "Access to B41 was denied.", true),
            ("cancel_booking", r#"{"booking":"B41"}"#, "The user cancelled this call.", true),
            ("cancel_booking", r#"{"booking":"B41"}"#, "Permission to cancel was denied.", true),
            ("cancel_booking", r#"{"booking":"B41"}"#, "Booking B41 cannot be cancelled.", true),
            ("cancel_booking", r#"{"booking":"B41"}"#, "The cancellation was rejected.", true),
            ("write", r#"{"path":"a1.rs"}"#, "Writing a1.rs was cancelled.", true),
            ("Bash", r#"{"command":"kill 12"}"#, "This command was cancelled.", true),
            ("pay", r#"{"amount":12}"#, "The payment was declined.", true),
        ] {
            let name = ToolName::new(tool).unwrap();
            let call = ToolCall { id: "c".into(), name, arguments: arguments.into() };
            let message = Message::tool(ToolResult::answer(&call, said));
            assert_eq!(is_refused(&call, &message), expected, "{tool} {arguments}: {said}");
        }
    }
}
