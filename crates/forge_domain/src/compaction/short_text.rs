//! Texts cut to head and tail, and texts of messages made safe to quote.

use crate::Message;

/// Returns the text as it may be between `<tag>` and `</tag>`: tags of that name in it neither open nor close
/// anything.
pub(crate) fn within_tag(text: &str, tag: &str) -> String {
    text.replace(&format!("<{tag}>"), &format!("&lt;{tag}>"))
        .replace(&format!("</{tag}>"), &format!("&lt;/{tag}>"))
}

/// Shortens a text to its head and tail. At most `keep` of its characters stay, and no part of a word, which
/// would read as a name that nothing has; the rest is named in between.
pub(crate) fn head_and_tail(text: &str, keep: usize) -> String {
    let n_chars = text.chars().count();
    if keep >= n_chars {
        return text.to_owned();
    }
    let head = &text[..byte_of_char(text, keep - keep / 2)];
    let tail = &text[byte_of_char(text, n_chars - keep / 2)..];
    let head =
        if text[head.len()..].starts_with(char::is_whitespace) { head } else { without_last_word(head) };
    let tail = match text[..text.len() - tail.len()].ends_with(char::is_whitespace) {
        true => tail,
        false => without_first_word(tail),
    };
    let n_cut = text[head.len()..text.len() - tail.len()].chars().count();
    format!("{head}\n[... {n_cut} characters omitted ...]\n{tail}")
}

/// The most bytes of a part of a word that is left out of a head or tail. What is longer is no word, but a
/// text without blanks.
const WORD_BYTES: usize = 40;

/// Returns `head` without the word at its end, unless that is long or all there is.
fn without_last_word(head: &str) -> &str {
    match head.rfind(char::is_whitespace) {
        Some(at) if head.len() - at <= WORD_BYTES && !head[..at].trim().is_empty() => &head[..at],
        _ => head,
    }
}

/// Returns `tail` without the word at its start, unless that is long or all there is.
fn without_first_word(tail: &str) -> &str {
    match tail.find(char::is_whitespace) {
        Some(at) if at <= WORD_BYTES && !tail[at..].trim().is_empty() => tail[at..].trim_start(),
        _ => tail,
    }
}

/// Returns the message with every text of more than `keep` characters in the arguments of its calls shortened
/// to head and tail, and the arguments still valid JSON; `None` if nothing in them is longer, or if they are
/// not JSON.
pub(crate) fn with_short_arguments(message: &Message, keep: usize) -> Option<Message> {
    let mut short = message.clone();
    let crate::Body::Assistant { calls, .. } = &mut short.body else { return None };
    let mut is_shorter = false;
    for call in calls {
        let Ok(mut arguments) = serde_json::from_str(&call.arguments) else { continue };
        if shorten_texts(&mut arguments, keep) {
            let arguments = arguments.to_string();
            if arguments.len() < call.arguments.len() {
                call.arguments = arguments;
                is_shorter = true;
            }
        }
    }
    is_shorter.then_some(short)
}

/// Shortens every longer text in `value`; returns false if there was none.
fn shorten_texts(value: &mut serde_json::Value, keep: usize) -> bool {
    use serde_json::Value;
    match value {
        Value::String(text) if text.chars().nth(keep).is_some() => {
            let short = if keep == 0 { SHORTEST.to_owned() } else { head_and_tail(text, keep) };
            let is_shorter = short.len() < text.len();
            if is_shorter {
                *text = short;
            }
            is_shorter
        }
        Value::Array(values) => {
            let mut is_shorter = false;
            for value in values {
                is_shorter |= shorten_texts(value, keep);
            }
            is_shorter
        }
        Value::Object(fields) => {
            let mut is_shorter = false;
            for value in fields.values_mut() {
                is_shorter |= shorten_texts(value, keep);
            }
            is_shorter
        }
        _ => false,
    }
}

/// The text in place of one that was cut to the shortest.
pub(crate) const SHORTEST: &str = "[cut]";

fn byte_of_char(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(byte, _)| byte)
}

/// Returns every text of a message, with a word in place of each part that is not text.
pub(crate) fn readable_text(message: &Message) -> String {
    match message.content() {
        Some(crate::Content::Parts(parts)) => parts
            .iter()
            .map(|part| match part {
                crate::Part::Text(text) => text.as_str(),
                crate::Part::Media(_) => "[attachment left out]",
            })
            .collect::<Vec<_>>()
            .join("\n"),
        _ => message.to_text(),
    }
}
