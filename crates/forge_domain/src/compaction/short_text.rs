//! Texts cut to head and tail, and texts of messages made safe to quote.

use serde_json::Value;

use crate::{Message, MessageId};

/// Returns the text as it may be between `<tag>` and `</tag>`: tags of that name in it neither open nor close
/// anything.
pub(crate) fn within_tag(text: &str, tag: &str) -> String {
    text.replace(&format!("<{tag}>"), &format!("&lt;{tag}>"))
        .replace(&format!("</{tag}>"), &format!("&lt;/{tag}>"))
}

/// Shortens a text to its head and tail, and says in between how much was left out. At most `keep` characters
/// stay. Words stay whole: part of a word would look like a name that does not exist.
pub(crate) fn head_and_tail(text: &str, keep: usize) -> String {
    head_and_tail_of(None, text, keep)
}

/// Shortens as [`head_and_tail`] does the text of a message with a label, under which the whole can be asked
/// for.
pub(crate) fn head_and_tail_of(label: Option<MessageId>, text: &str, keep: usize) -> String {
    let n_chars = text.chars().count();
    if keep >= n_chars {
        return text.to_owned();
    }
    let head = &text[..byte_of_char(text, keep - keep / 2)];
    let tail = &text[byte_of_char(text, n_chars - keep / 2)..];
    let is_whole = text[head.len()..].starts_with(char::is_whitespace);
    let head = if is_whole { head } else { without_last_word(head) };
    let is_whole = text[..text.len() - tail.len()].ends_with(char::is_whitespace);
    let tail = if is_whole { tail } else { without_first_word(tail) };
    format!("{head}\n{}\n{tail}", omission(label, &text[head.len()..text.len() - tail.len()]))
}

/// Returns the line that stands for a part that was left out, of the message with such a label.
pub(crate) fn omission(label: Option<MessageId>, part: &str) -> String {
    let of = label.map_or_else(String::new, |label| format!(" of {label}"));
    format!("[... {} characters{of} omitted ...]", part.chars().count())
}

/// The longest word, in bytes, that is dropped because the cut goes through it. Anything longer is text
/// without spaces, and is cut anywhere.
const WORD_BYTES: usize = 40;

/// Returns `head` without the word at its end, unless that is long or all there is. Of a long one, such as a
/// path, the last part is a word.
fn without_last_word(head: &str) -> &str {
    let is_near = |at: &usize| head.len() - at <= WORD_BYTES && !head[..*at].trim().is_empty();
    let blank = head.rfind(char::is_whitespace).filter(is_near);
    let mark = || head.rfind(is_between_words).filter(is_near);
    blank.or_else(mark).map_or(head, |at| &head[..at])
}

fn is_between_words(c: char) -> bool {
    !c.is_alphanumeric() && c != '_'
}

/// Returns `tail` without the word at its start, unless that is long or all there is.
fn without_first_word(tail: &str) -> &str {
    let is_near = |at: &usize| *at <= WORD_BYTES && !tail[*at..].trim().is_empty();
    let blank = tail.find(char::is_whitespace).filter(is_near);
    let mark = || tail.find(is_between_words).filter(is_near);
    blank.or_else(mark).map_or(tail, |at| tail[at..].trim_start())
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
        if change_texts(&mut arguments, &|text| shorten_text(text, keep)) {
            let arguments = arguments.to_string();
            if arguments.len() < call.arguments.len() {
                call.arguments = arguments;
                is_shorter = true;
            }
        }
    }
    is_shorter.then_some(short)
}

/// Shortens a text of more than `keep` characters; returns false if that makes it no shorter.
fn shorten_text(text: &mut String, keep: usize) -> bool {
    if text.chars().nth(keep).is_none() {
        return false;
    }
    let short = if keep == 0 { SHORTEST.to_owned() } else { head_and_tail(text, keep) };
    let is_shorter = short.len() < text.len();
    if is_shorter {
        *text = short;
    }
    is_shorter
}

/// Applies `change` to every text in `value`, and returns whether it changed any. `change` returns whether it
/// changed its text.
pub(crate) fn change_texts(value: &mut Value, change: &impl Fn(&mut String) -> bool) -> bool {
    let mut is_changed = false;
    match value {
        Value::String(text) => is_changed = change(text),
        Value::Array(values) => {
            for value in values {
                is_changed |= change_texts(value, change);
            }
        }
        Value::Object(fields) => {
            for value in fields.values_mut() {
                is_changed |= change_texts(value, change);
            }
        }
        Value::Number(_) | Value::Bool(_) | Value::Null => {}
    }
    is_changed
}

/// The text in place of one that was cut to the shortest.
pub(crate) const SHORTEST: &str = "[cut]";

pub(crate) fn byte_of_char(text: &str, n: usize) -> usize {
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
