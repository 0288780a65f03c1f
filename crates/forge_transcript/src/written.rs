//! Messages that were sent as one, of which some are what a compaction or a harness wrote.

use forge_domain::compaction::{is_written_text, pieces_around_written, recognize_written};
use forge_domain::{Body, Content, Message, Part, Role};

use crate::harness::{HARNESS, mark_user_words, split_notes};

/// Splits `message` into messages: what a compaction wrote are messages of their own, marked as such, and so
/// are the notes of a harness, and the text before and after them. Usually there is one. The user's words in
/// a result are marked.
pub(crate) fn split(message: Message) -> Vec<Message> {
    split_written(mark_user_words(message))
        .into_iter()
        .flat_map(|message| split_notes(message, HARNESS))
        .collect()
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
