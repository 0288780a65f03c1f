//! Messages that were sent as one, of which some are what a compaction or a harness wrote.

use forge_domain::compaction::{is_written_text, pieces_around_written, recognize_written};
use forge_domain::{Body, Content, HIDDEN_TOKENS, Message, Part, Role, split_thoughts};
use serde_json::{Value, json};

use crate::harness::{HARNESS, mark_user_words, split_notes};

/// Splits `message` into messages: what a compaction wrote are messages of their own, marked as such, and so
/// are the notes of a harness, and the text before and after them. Usually there is one. The user's words in
/// a result are marked. Thoughts in the text of a reply are hidden.
pub(crate) fn split(message: Message) -> Vec<Message> {
    split_written(hide_thoughts(mark_user_words(message)))
        .into_iter()
        .flat_map(|message| split_notes(message, HARNESS))
        .collect()
}

/// Takes the thoughts out of the text of a reply, where some models write them. Returns the reply and its
/// thoughts; `None` if it has none, or consists of nothing else.
pub(crate) fn take_thoughts(mut message: Message) -> (Message, Option<String>) {
    let Body::Assistant { content: Some(content), calls } = &mut message.body else { return (message, None) };
    let text = match content {
        Content::Text(text) => text,
        Content::Parts(parts) => match parts.first_mut() {
            Some(Part::Text(text)) => text,
            _ => return (message, None),
        },
    };
    let found = split_thoughts(text).filter(|(_, said)| !said.is_empty() || !calls.is_empty());
    let Some((thoughts, said)) = found.map(|(thoughts, said)| (thoughts.to_owned(), said.to_owned())) else {
        return (message, None);
    };
    *text = said;
    (message, Some(thoughts))
}

/// Leaves the thoughts in the text of a reply out, and counts them as reasoning that its recording hides.
fn hide_thoughts(message: Message) -> Message {
    let (mut message, thoughts) = take_thoughts(message);
    if let Some(thoughts) = thoughts.filter(|thoughts| !thoughts.is_empty()) {
        let known = message.metadata.get(HIDDEN_TOKENS).and_then(Value::as_u64).unwrap_or_default();
        let hidden = known + thoughts.len().div_ceil(4) as u64;
        message.metadata.insert(HIDDEN_TOKENS.to_owned(), json!(hidden));
    }
    message
}

fn split_written(message: Message) -> Vec<Message> {
    let role = message.role();
    let Some(content) = message.content().filter(|_| matches!(role, Role::User | Role::Assistant)) else {
        return vec![message];
    };
    let contents = match content {
        Content::Text(text) => match pieces_around_written(role, text).as_slice() {
            // What a compaction wrote calls nothing: the calls were sent as one with it.
            [piece] if !message.calls().is_empty() && is_written_text(role, piece) => vec![content.clone()],
            [_] => Vec::new(),
            pieces => pieces.iter().map(|piece| Content::Text((*piece).to_owned())).collect(),
        },
        Content::Parts(parts) => split_parts(role, parts),
    };
    if contents.is_empty() {
        return vec![recognize_written(message)];
    }
    let mut messages: Vec<Message> = contents.into_iter().map(|said| of_content(role, said)).collect();
    if let (Body::Assistant { calls, .. }, Some(last)) = (&message.body, messages.last()) {
        let calls = calls.clone();
        if last.is_compacted && !calls.is_empty() {
            messages.push(Message::calling(calls));
        } else if let Some(Body::Assistant { calls: own, .. }) =
            messages.last_mut().map(|last| &mut last.body)
        {
            *own = calls;
        }
    }
    // Reasoning belongs to the reply, which comes last.
    if let Some(last) = messages.last_mut().filter(|last| !last.is_compacted) {
        (last.extra, last.metadata, last.timestamp) =
            (message.extra.clone(), message.metadata.clone(), message.timestamp);
    }
    messages
}

fn of_content(role: Role, content: Content) -> Message {
    recognize_written(match role {
        Role::Assistant => Message::assistant(content),
        _ => Message::user(content),
    })
}

/// Returns the contents of the messages that `parts` form; none if they form one.
fn split_parts(role: Role, parts: &[Part]) -> Vec<Content> {
    let is_written = |part: &Part| matches!(part, Part::Text(text) if is_written_text(role, text));
    let runs: Vec<&[Part]> = parts.chunk_by(|one, next| !is_written(one) && !is_written(next)).collect();
    if runs.len() < 2 {
        return Vec::new();
    }
    let content = |run: &[Part]| match run {
        [Part::Text(text)] => Content::Text(text.clone()),
        run => Content::Parts(run.to_vec()),
    };
    runs.into_iter().map(content).collect()
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn thoughts_in_the_text_of_a_reply_are_hidden() {
        let parts = |text: &str| Content::Parts(vec![Part::Text(text.to_owned())]);
        for (message, text, hidden) in [
            (Message::assistant("<think>hm hm</think>\nHere."), "Here.", Some(2)),
            (Message::assistant("hm hm\n</think>\n\nHere."), "Here.", Some(2)),
            (Message::assistant(parts("<think>hm hm</think>Here.")), "Here.", Some(2)),
            (Message::assistant("<think></think>Here."), "Here.", None),
            // Nothing would be left.
            (Message::assistant("<think>hm hm"), "<think>hm hm", None),
            (Message::user("<think>hm</think>Here."), "<think>hm</think>Here.", None),
        ] {
            let split = split(message);
            assert_eq!(split.len(), 1, "{text}");
            let actual = split[0].metadata.get(HIDDEN_TOKENS).and_then(Value::as_u64);
            assert_eq!((split[0].to_text().as_str(), actual), (text, hidden));
        }
    }
}
