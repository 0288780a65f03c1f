//! Texts cut to head and tail, and texts of messages made safe to quote.

use std::iter::once;
use std::sync::LazyLock;

use regex::Regex;
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
    let head = &text[..end_of_head(text, byte_of_char(text, keep - keep / 2))];
    let tail = &text[start_of_tail(text, byte_of_char(text, n_chars - keep / 2))..];
    format!("{head}\n{}\n{tail}", omission(label, &text[head.len()..text.len() - tail.len()]))
}

/// Returns the line that stands for a part that was left out, of the message with such a label.
pub(crate) fn omission(label: Option<MessageId>, part: &str) -> String {
    let of = label.map_or_else(String::new, |label| format!(" of {label}"));
    format!("[... {} characters{of} omitted ...]", part.chars().count())
}

/// Most characters of a word that is dropped because the cut goes through it. Anything longer is text without
/// spaces, and is cut anywhere.
const WORD_CHARS: usize = 40;

/// Returns the end of the head of a text that is cut at `at`: before the word there, unless that is long or
/// all there is. Of a long one, such as a path, the last part is a word.
pub(crate) fn end_of_head(text: &str, at: usize) -> usize {
    if at == text.len() || text[at..].starts_with(char::is_whitespace) {
        return at;
    }
    let near = text[..at].char_indices().rev().take(WORD_CHARS);
    let is_end = |(end, _): &(usize, char)| !text[..*end].trim().is_empty();
    let blank = near.clone().find(|(_, c)| c.is_whitespace()).filter(is_end);
    let is_mark = |(end, c): &(usize, char)| is_between_words(*c) && !is_in_character(text, *end);
    let end = blank.or_else(|| near.clone().find(is_mark).filter(is_end)).map(|(end, _)| end);
    let starts = near.map(|(start, _)| start);
    end.or_else(|| once(at).chain(starts).find(|end| !is_in_character(text, *end))).unwrap_or(at)
}

/// Returns the start of the tail of a text that is cut at `at`: behind the word there, unless that is long or
/// all there is.
pub(crate) fn start_of_tail(text: &str, at: usize) -> usize {
    if at == 0 || text[..at].ends_with(char::is_whitespace) {
        return at;
    }
    let near = text[at..].char_indices().take(WORD_CHARS + 1).map(move |(start, c)| (at + start, c));
    let is_start = |(start, _): &(usize, char)| !text[*start..].trim().is_empty();
    let blank = near.clone().find(|(_, c)| c.is_whitespace()).filter(is_start);
    let is_mark = |(start, c): &(usize, char)| is_between_words(*c) && !is_in_character(text, *start);
    let start = blank.or_else(|| near.clone().find(is_mark).filter(is_start)).map(|(start, _)| start);
    let start = start.map(|start| text.len() - text[start..].trim_start().len());
    let mut starts = near.map(|(start, _)| start);
    start.or_else(|| starts.find(|start| !is_in_character(text, *start))).unwrap_or(at)
}

fn is_between_words(c: char) -> bool {
    !c.is_alphanumeric() && c != '_'
}

/// Checks whether `at` is within what is shown as one character: before a mark of the letter there, or in
/// pictures that are joined.
fn is_in_character(text: &str, at: usize) -> bool {
    let Some(next) = text[at..].chars().next().filter(|_| at > 0) else { return false };
    let next = &text[at..at + next.len_utf8()];
    let is_mark = || CONTINUES.as_ref().is_some_and(|continues| continues.is_match(next));
    text[..at].ends_with(JOINER) || !next.is_ascii() && is_mark()
}

/// The character between pictures that are shown as one.
const JOINER: char = '\u{200d}';
/// The characters that belong to the one before them: marks, joiners and the tones of skin.
static CONTINUES: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"[\p{M}\x{200D}\x{1F3FB}-\x{1F3FF}]").ok());

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

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn no_cut_is_in_a_word_or_a_character_of_any_script() {
        assert!(CONTINUES.is_some());
        let long = "я".repeat(30);
        let words = format!("ab {long} cd {long} ef");
        let (accents, families) = ("e\u{301}".repeat(40), "👩\u{200d}👧".repeat(20));
        for (text, keep, expected) in [
            (words.as_str(), 56, "ab\n[... 66 characters omitted ...]\nef"),
            (&accents, 9, "e\u{301}e\u{301}\n[... 72 characters omitted ...]\ne\u{301}e\u{301}"),
            (&families, 8, "👩\u{200d}👧\n[... 54 characters omitted ...]\n👩\u{200d}👧"),
            ("यय\u{94d}य य\u{94d}यय", 6, "यय\u{94d}\n[... 4 characters omitted ...]\nयय"),
        ] {
            assert_eq!(head_and_tail(text, keep), expected, "{text}");
        }
    }
}
