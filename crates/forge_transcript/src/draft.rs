//! A session opened for compaction: its messages as the file has them, each with the place it came from.

use std::sync::Arc;

use forge_domain::{
    Body, Breach, Content, ContextMessage, Message, MessageId, PackedMessage, Part, TokenCounter, ToolCall,
    ToolResult, breaches, message_tokens,
};
use serde_json::{Value, json};
use smallvec::smallvec;

use crate::codec::Window;
use crate::harness::without_user;
use crate::item::{Item, Place, Said, Sources, from_sources};
use crate::repair::repair;
use crate::reply_pieces::{REPLY_REACH, join};
use crate::{Format, Record, Repair, Session};

/// The key of a message's metadata that holds its number in the draft; a shorten message keeps it.
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
    /// Shared with the messages that are read on demand.
    pub(crate) items: Arc<Vec<Item>>,
    repairs: Vec<Repair>,
    breaches: Vec<Breach>,
    /// The number of results that the session has.
    results: usize,
}

impl<'a> Draft<'a> {
    /// Opens the `nth` session of a file, counted from 0.
    pub fn open(session: &'a Session, nth: usize) -> Self {
        let window = session.window();
        let start = window.start;
        let read = open_messages(session, &window);
        let breaches = breaches(&read.iter().map(|item| &*item.message).collect::<Vec<_>>());
        let results = read.iter().filter(|item| matches!(item.message.body, Body::Tool(_))).count();
        let whole = |item: &OpenMessage| match item.is_outline {
            true => from_sources(&session.records, &item.sources),
            false => (*item.message).clone(),
        };
        let made = |message| OpenMessage {
            message: Box::new(message),
            is_outline: false,
            sources: Sources::new(),
            reply: None,
        };
        let (mut read, mut repairs) = repair(read, |item| &item.message, whole, made);
        if let Some(first) = without_user(read.iter().map(|item| &*item.message)) {
            let item = &mut read[first];
            *item.message = whole(item).said_by_user();
            item.is_outline = false;
        }
        let mut items: Vec<Item> = read.into_iter().map(OpenMessage::into_item).collect();
        for item in &mut items {
            if let [Place { record, .. }] = item.sources[..]
                && !session.records[record].is_literal
            {
                // A message with another form is written as if it were new.
                item.is_anew = true;
                repairs.push(Repair::Form { entry: record });
            }
        }
        for (number, item) in items.iter_mut().enumerate() {
            if let Said::Here(message) = &mut item.said {
                message.metadata.insert(NUMBER.into(), json!(number));
            }
        }
        Self { session, nth, start, items: Arc::new(items), repairs, breaches, results }
    }

    /// Returns its messages in order. The metadata of each has its number.
    pub fn messages(&self) -> impl Iterator<Item = Message> {
        let records = &self.session.records;
        self.items
            .iter()
            .enumerate()
            .map(|(number, item)| with_number(item.message(records).into_owned(), number))
    }

    /// Returns its messages in order, counted by `counter`. If the session is held as the text of its file,
    /// the messages are packed and read from there.
    pub fn counted_messages(&self, counter: &dyn TokenCounter) -> impl Iterator<Item = ContextMessage> {
        let records = &self.session.records;
        self.items.iter().enumerate().map(|(number, item)| {
            let message = with_number(item.message(records).into_owned(), number);
            if matches!(item.said, Said::Here(_)) {
                return ContextMessage::count(message, counter);
            }
            let tokens = message_tokens(&message, counter);
            let packed = InText { records: Arc::clone(records), items: Arc::clone(&self.items), number };
            let id = MessageId::new(number as u64);
            ContextMessage::packed(id, tokens, &message, packed)
        })
    }

    /// Returns the messages of `session` unchanged, with nothing repaired: for those who only look.
    pub fn messages_of(session: &Session) -> Vec<Message> {
        let mut messages = Vec::new();
        Self::visit_messages_of(session, &mut |message| messages.push(message));
        messages
    }

    /// Passes each message of [`Draft::messages_of`] to `visit`. If the session is held as the text of its
    /// file, they are in memory one after the other.
    pub fn visit_messages_of(session: &Session, visit: &mut dyn FnMut(Message)) {
        for item in open_messages(session, &session.window()) {
            visit(match item.is_outline {
                true => from_sources(&session.records, &item.sources),
                false => *item.message,
            });
        }
    }

    /// Returns what had to be repaired.
    pub fn repairs(&self) -> &[Repair] {
        &self.repairs
    }

    /// Returns the number of the session's results if it has several and none of them answers a call. Its
    /// file is then most likely of a format that was taken for another, and every result would be lost.
    pub fn results_without_calls(&self) -> Option<usize> {
        let is_orphan = |repair: &&Repair| matches!(repair, Repair::OrphanResult { .. });
        let orphans = self.repairs.iter().filter(is_orphan).count();
        (orphans > 1 && orphans == self.results).then_some(orphans)
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

/// A packed message: its place in a session that is held as the text of its file.
#[derive(Debug)]
struct InText {
    records: Arc<Vec<Record>>,
    items: Arc<Vec<Item>>,
    number: usize,
}

impl PackedMessage for InText {
    fn unpack(&self) -> Message {
        with_number(self.items[self.number].message(&self.records).into_owned(), self.number)
    }
}

fn with_number(mut message: Message, number: usize) -> Message {
    message.metadata.insert(NUMBER.into(), json!(number));
    message
}

/// A message while the session is opened.
struct OpenMessage {
    /// The message; only its outline if it is held as text. Boxed, since repair moves it around.
    message: Box<Message>,
    is_outline: bool,
    sources: Sources,
    reply: Option<String>,
}

impl OpenMessage {
    fn into_item(self) -> Item {
        let role = self.message.role();
        let said = if self.is_outline { Said::InText } else { Said::Here(self.message) };
        Item { said, role, sources: self.sources, is_anew: false }
    }
}

fn open_messages(session: &Session, window: &Window) -> Vec<OpenMessage> {
    let mut opened: Vec<OpenMessage> = Vec::new();
    for record in window.places(session.records.len()) {
        let read = &session.records[record];
        for (message, said) in read.messages().iter().enumerate() {
            let place = Place { record, message };
            let is_outline = !read.is_open();
            let said = if is_outline { outline(said) } else { said.clone() };
            let piece = read.reply.as_deref().filter(|_| matches!(said.body, Body::Assistant { .. }));
            match piece.and_then(|reply| piece_of(&mut opened, reply)) {
                Some(item) => {
                    *item.message = join(&item.message, &said);
                    item.sources.push(place);
                    item.is_outline |= is_outline;
                }
                None => opened.push(OpenMessage {
                    message: Box::new(said),
                    is_outline,
                    sources: smallvec![place],
                    reply: piece.map(str::to_owned),
                }),
            }
        }
    }
    opened
}

/// Returns the parts of `message` that decide whether it is legal: its role, the ids of its calls and
/// results, and whether it has any text. Its texts are left out.
fn outline(message: &Message) -> Message {
    let content = |content: &Content| match content {
        Content::Text(text) => Content::Text(sign(text)),
        Content::Parts(parts) => Content::Parts(
            parts
                .iter()
                .map(|part| match part {
                    Part::Text(text) => Part::Text(sign(text)),
                    Part::Media(_) => Part::Media(Value::Null),
                })
                .collect(),
        ),
    };
    let call =
        |call: &ToolCall| ToolCall { id: call.id.clone(), name: call.name.clone(), arguments: String::new() };
    let body = match &message.body {
        Body::System(said) => Body::System(content(said)),
        Body::User(said) => Body::User(content(said)),
        Body::Assistant { content: said, calls } => {
            Body::Assistant { content: said.as_ref().map(content), calls: calls.iter().map(call).collect() }
        }
        Body::Tool(result) => Body::Tool(ToolResult {
            call_id: result.call_id.clone(),
            name: result.name.clone(),
            content: content(&result.content),
            is_error: result.is_error,
        }),
    };
    let extra = message.extra.iter().map(|(key, value)| (key.clone(), shorten(value)));
    Message {
        extra: extra.collect(),
        metadata: message.metadata.clone(),
        timestamp: message.timestamp,
        is_compacted: message.is_compacted,
        ..Message::new(body)
    }
}

/// Returns a short text that is empty or blank if `text` is.
fn sign(text: &str) -> String {
    match text {
        "" => "",
        blank if blank.trim().is_empty() => " ",
        _ => "x",
    }
    .to_owned()
}

/// Cuts the texts in `value` to their beginnings: the validators only ask whether a signature is there.
fn shorten(value: &Value) -> Value {
    const MOST: usize = 32;
    match value {
        Value::String(text) => Value::String(text.chars().take(MOST).collect()),
        Value::Array(items) => items.iter().map(shorten).collect(),
        Value::Object(fields) => fields.iter().map(|(key, value)| (key.clone(), shorten(value))).collect(),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
    }
}

/// Finds the message that holds the other pieces of `reply`.
fn piece_of<'i>(opened: &'i mut [OpenMessage], reply: &str) -> Option<&'i mut OpenMessage> {
    let oldest = opened.len().saturating_sub(REPLY_REACH);
    opened[oldest..].iter_mut().rev().find(|item| item.reply.as_deref() == Some(reply))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;
    use crate::read::read;

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
        assert_eq!(draft.messages().nth(1).unwrap().calls().len(), 2);
        assert_eq!(draft.items[1].places().len(), 3);
        assert_eq!(draft.repairs(), []);
        assert_eq!(
            draft.messages().map(|message| number_of(&message).unwrap()).collect::<Vec<_>>(),
            [0, 1, 2, 3]
        );
    }
}
