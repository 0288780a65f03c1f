//! Texts cut to head and tail, and texts of messages made safe to quote.

use crate::Message;

/// Returns the text as it may be between `<tag>` and `</tag>`: tags of that name in it neither open nor close
/// anything.
pub(crate) fn within_tag(text: &str, tag: &str) -> String {
    text.replace(&format!("<{tag}>"), &format!("&lt;{tag}>"))
        .replace(&format!("</{tag}>"), &format!("&lt;/{tag}>"))
}

/// Shortens a text to its head and tail. `keep` is the number of its characters that stay; the rest is named
/// in between.
pub(crate) fn head_and_tail(text: &str, keep: usize) -> String {
    let n_chars = text.chars().count();
    if keep >= n_chars {
        return text.to_owned();
    }
    let head = keep - keep / 2;
    let cut_from = byte_of_char(text, head);
    let cut_to = byte_of_char(text, n_chars - keep / 2);
    let n_cut = n_chars - keep;
    format!("{}\n[... {n_cut} characters omitted ...]\n{}", &text[..cut_from], &text[cut_to..])
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

/// Shortens every longer text in `value`; whether there was one.
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
        // All of them, not just the first that is longer.
        Value::Array(values) => {
            values.iter_mut().filter_map(|value| shorten_texts(value, keep).then_some(())).count() > 0
        }
        Value::Object(fields) => {
            fields.values_mut().filter_map(|value| shorten_texts(value, keep).then_some(())).count() > 0
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
