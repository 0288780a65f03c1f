//! A session opened for compaction: its messages as the file has them, each with the place it came from.

use forge_domain::{Body, Breach, Content, HIDDEN_TOKENS, Message, breaches};
use serde_json::{Value, json};

use crate::arguments::fields;
use crate::flat_text::is_blank;
use crate::json_text::parse;
use crate::recording::REPLY_REACH;
use crate::repair::{Repair, repaired};
use crate::{Format, Session};

/// The key of a message's metadata that holds its number in the draft; a shortened message keeps it.
const NUMBER: &str = "draft";

/// A session opened for compaction.
///
/// Its messages are what a provider would get, as the file has them: foreign keys included, without
/// normalization. The pieces of a reply that the format splits are one message. For a Claude Code session it
/// is the active branch from the last compaction on. What no provider accepts was repaired, and is listed in
/// [`Draft::repairs`].
#[derive(Clone, Debug)]
pub struct Draft<'a> {
    pub(crate) session: &'a Session,
    /// The index of the session in its file, from 0.
    pub(crate) nth: usize,
    /// The first record that is part of it.
    pub(crate) start: usize,
    pub(crate) items: Vec<Item>,
    repairs: Vec<Repair>,
    breaches: Vec<Breach>,
}

/// One message of a draft.
#[derive(Clone, Debug)]
pub(crate) struct Item {
    pub(crate) message: Message,
    /// The records that it came from, and which of their messages it is; empty if repair made it or gave it
    /// its form.
    pub(crate) places: Vec<Place>,
    reply: Option<String>,
}

/// A message in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) record: usize,
    pub(crate) message: usize,
}

impl<'a> Draft<'a> {
    /// Opens the `nth` session of a file, counted from 0.
    pub fn open(session: &'a Session, nth: usize) -> Self {
        let start = session.window_start();
        let read = items(session, start);
        let breaches = breaches(&read.iter().map(|item| &item.message).collect::<Vec<_>>());
        let (mut items, mut repairs) =
            repaired(read, |item| &item.message, |message| Item { message, places: Vec::new(), reply: None });
        for item in &mut items {
            if let [Place { record, .. }] = item.places[..]
                && !session.records[record].is_literal
            {
                // A message with another form is written as if it were new.
                item.places.clear();
                repairs.push(Repair::Form { entry: record });
            }
        }
        for (number, item) in items.iter_mut().enumerate() {
            item.message.metadata.insert(NUMBER.into(), json!(number));
        }
        Self { session, nth, start, items, repairs, breaches }
    }

    /// Returns the messages of `session` unchanged, with nothing repaired: for those who only look.
    pub fn messages_of(session: &Session) -> Vec<Message> {
        items(session, session.window_start()).into_iter().map(|item| item.message).collect()
    }

    /// Returns its messages in order. The metadata of each has its number.
    pub fn messages(&self) -> impl Iterator<Item = &Message> {
        self.items.iter().map(|item| &item.message)
    }

    /// Returns what had to be repaired.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// Returns what broke the providers' rules before it was repaired.
    pub fn breaches(&self) -> &[Breach] {
        &self.breaches
    }

    /// Returns the format that it was read from.
    pub const fn format(&self) -> Format {
        self.session.format
    }
}

/// Returns the number in its draft of the message that `message` is, or is a shorter form of.
pub fn number_of(message: &Message) -> Option<usize> {
    let number = message.metadata.get(NUMBER)?.as_u64()?;
    (!message.is_compacted).then(|| usize::try_from(number).ok()).flatten()
}

fn items(session: &Session, start: usize) -> Vec<Item> {
    let mut items: Vec<Item> = Vec::new();
    for (record, read) in session.records.iter().enumerate().skip(start) {
        for (message, said) in read.messages.iter().enumerate() {
            let place = Place { record, message };
            let piece = read.reply.as_deref().filter(|_| matches!(said.body, Body::Assistant { .. }));
            match piece.and_then(|reply| piece_of(&mut items, reply)) {
                Some(item) => {
                    item.message = joined(&item.message, said);
                    item.places.push(place);
                }
                None => items.push(Item {
                    message: said.clone(),
                    places: vec![place],
                    reply: piece.map(str::to_owned),
                }),
            }
        }
    }
    items
}

/// Finds the message that holds the other pieces of `reply`.
fn piece_of<'i>(items: &'i mut [Item], reply: &str) -> Option<&'i mut Item> {
    let oldest = items.len().saturating_sub(REPLY_REACH);
    items[oldest..].iter_mut().rev().find(|item| item.reply.as_deref() == Some(reply))
}

/// Joins two pieces of a reply to one message. Texts without visible characters are left out.
pub(crate) fn joined(first: &Message, second: &Message) -> Message {
    let texts =
        [first, second].map(|piece| piece.content().map(Content::to_text).filter(|text| !is_blank(text)));
    let text = texts.into_iter().flatten().collect::<Vec<_>>().join("\n\n");
    let content = (!text.is_empty()).then_some(Content::Text(text));
    let calls = first.calls().iter().chain(second.calls()).cloned().collect();
    let mut message = Message { body: Body::Assistant { content, calls }, ..first.clone() };
    message.extra.extend(second.extra.clone());
    let hidden = |piece: &Message| piece.metadata.get(HIDDEN_TOKENS).and_then(Value::as_u64);
    if let Some(more) = hidden(second) {
        message.metadata.insert(HIDDEN_TOKENS.into(), json!(hidden(first).unwrap_or(0) + more));
    }
    message
}

/// Returns the tool schemas of a request body, as compact JSON; `None` if it has none.
pub fn request_tools(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    if !text.trim_start_matches('\u{feff}').trim_start().starts_with('{') {
        return None;
    }
    let fields = fields(text.trim_start_matches('\u{feff}'))?;
    let (_, tools) = fields.into_iter().find(|(key, _)| key == "tools")?;
    let tools: Value = parse(tools.get()).ok()?;
    tools.as_array().filter(|tools| !tools.is_empty())?;
    Some(tools.to_string())
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::read;

    #[test]
    fn the_pieces_of_a_reply_are_one_message() {
        let line = |kind: &str, uuid: &str, parent: &str, message: &str| {
            format!(
                "{{\"type\":\"{kind}\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent},\"message\":{message}}}"
            )
        };
        let piece = |block: &str| format!("{{\"role\":\"assistant\",\"id\":\"m\",\"content\":[{block}]}}");
        let call = |id: &str| {
            piece(&format!("{{\"type\":\"tool_use\",\"id\":\"{id}\",\"name\":\"t\",\"input\":{{}}}}"))
        };
        let result = |id: &str| {
            format!(
                "{{\"role\":\"user\",\"content\":[{{\"type\":\"tool_result\",\"tool_use_id\":\"{id}\",\"content\":\"out\"}}]}}"
            )
        };
        let text = [
            line("user", "1", "null", "{\"role\":\"user\",\"content\":\"hi\"}"),
            line("assistant", "2", "\"1\"", &piece("{\"type\":\"text\",\"text\":\"I look\"}")),
            line("assistant", "3", "\"2\"", &call("a")),
            line("user", "4", "\"3\"", &result("a")),
            line("assistant", "5", "\"4\"", &call("b")),
            line("user", "6", "\"5\"", &result("b")),
        ];
        let session = read(text.join("\n").as_bytes(), "f").unwrap().remove(0);
        let draft = Draft::open(&session, 0);
        let roles: Vec<&str> = draft.messages().map(|message| message.role().as_str()).collect();
        assert_eq!(roles, ["user", "assistant", "tool", "tool"]);
        assert_eq!(draft.items[1].message.calls().len(), 2);
        assert_eq!(draft.items[1].places.len(), 3);
        assert_eq!(draft.repairs(), []);
        assert_eq!(
            draft.messages().map(|message| number_of(message).unwrap()).collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
    }
}
