//! A session opened for compaction: its messages as the file has them, each with the place it came from.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use forge_domain::{
    Body, Breach, BreachScan, ContextMessage, Message, MessageId, PackedMessage, Role, TokenCounter,
    ToolCall, message_tokens, outline,
};
use serde_json::json;
use smallvec::smallvec;

use crate::codec::Window;
use crate::harness::{Voice, is_announced_result, without_user};
use crate::item::{Item, Place, Said, Sources, from_sources};
use crate::repair::{Linked, repair};
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
        let (read, breaches) = open_messages(session, &window);
        let results = read.iter().filter(|item| item.answered_id().is_some()).count();
        let whole = |item: &OpenMessage| item.whole(session).into_owned();
        let (mut read, mut repairs) = repair(read, whole, OpenMessage::made);
        for place in without_user(read.iter().map(OpenMessage::voice)) {
            let message = whole(&read[place]).said_by_user();
            read[place].said = OpenSaid::Whole(Box::new(message));
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
        for item in open_messages(session, &session.window()).0 {
            visit(match item.said {
                OpenSaid::Outline(_) => from_sources(&session.records, &item.sources),
                OpenSaid::Whole(message) => *message,
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
    said: OpenSaid,
    sources: Sources,
    reply: Option<Arc<str>>,
}

enum OpenSaid {
    Whole(Box<Message>),
    /// It is held as text.
    Outline(Outline),
}

/// The facts of a message by which it is put in order. There may be a million of them.
struct Outline {
    voice: Voice,
    link: Link,
}

/// The calls of a message, or the call that it answers, by their ids.
enum Link {
    None,
    Calls(Vec<Box<str>>),
    Answer(Box<str>),
    /// A note announces it as a result.
    Announced,
}

impl Link {
    fn into_calls(self) -> Vec<Box<str>> {
        match self {
            Self::Calls(calls) => calls,
            Self::None | Self::Answer(_) | Self::Announced => Vec::new(),
        }
    }
}

impl Outline {
    fn of(message: &Message) -> Self {
        let link = match message.answered_id() {
            Some(id) => Link::Answer(id.into()),
            None if is_announced_result(message) => Link::Announced,
            None if message.calls().is_empty() => Link::None,
            None => Link::Calls(message.call_ids().map(Box::from).collect()),
        };
        Self { voice: Voice::of(message), link }
    }

    /// Joins the outline of another piece of the same reply.
    fn join(&mut self, second: Self) {
        let mut calls = std::mem::replace(&mut self.link, Link::None).into_calls();
        calls.extend(second.link.into_calls());
        if !calls.is_empty() {
            self.link = Link::Calls(calls);
        }
    }

    fn calls(&self) -> &[Box<str>] {
        match &self.link {
            Link::Calls(calls) => calls,
            Link::None | Link::Answer(_) | Link::Announced => &[],
        }
    }
}

impl OpenMessage {
    /// Makes a message that is not in the file.
    fn made(message: Message) -> Self {
        Self { said: OpenSaid::Whole(Box::new(message)), sources: Sources::new(), reply: None }
    }

    fn whole(&self, session: &Session) -> Cow<'_, Message> {
        match &self.said {
            OpenSaid::Whole(message) => Cow::Borrowed(message),
            OpenSaid::Outline(_) => Cow::Owned(from_sources(&session.records, &self.sources)),
        }
    }

    fn voice(&self) -> Voice {
        match &self.said {
            OpenSaid::Whole(message) => Voice::of(message),
            OpenSaid::Outline(outline) => outline.voice,
        }
    }

    fn role(&self) -> Role {
        self.voice().role
    }

    /// Adds the next piece of the same reply: `message`, of which only the outline is held if `is_outline`.
    fn add_piece(&mut self, message: &Message, is_outline: bool, place: Place) {
        match &mut self.said {
            OpenSaid::Whole(first) if !is_outline => join(first, message),
            OpenSaid::Whole(first) => {
                let mut outline = Outline::of(first);
                outline.join(Outline::of(message));
                self.said = OpenSaid::Outline(outline);
            }
            OpenSaid::Outline(first) => first.join(Outline::of(message)),
        }
        self.sources.push(place);
    }

    fn into_item(self) -> Item {
        let role = self.role();
        let said = match self.said {
            OpenSaid::Whole(message) => Said::Here(message),
            OpenSaid::Outline(_) => Said::InText,
        };
        Item { said, role, sources: self.sources, is_anew: false }
    }
}

impl Linked for OpenMessage {
    fn call_ids(&self) -> impl Iterator<Item = &str> {
        let (whole, outlined): (&[ToolCall], &[Box<str>]) = match &self.said {
            OpenSaid::Whole(message) => (message.calls(), &[]),
            OpenSaid::Outline(outline) => (&[], outline.calls()),
        };
        whole.iter().map(|call| call.id.as_str()).chain(outlined.iter().map(|id| &**id))
    }

    fn answered_id(&self) -> Option<&str> {
        match &self.said {
            OpenSaid::Whole(message) => message.answered_id(),
            OpenSaid::Outline(Outline { link: Link::Answer(id), .. }) => Some(id),
            OpenSaid::Outline(_) => None,
        }
    }

    fn is_announced_result(&self) -> bool {
        match &self.said {
            OpenSaid::Whole(message) => is_announced_result(message),
            OpenSaid::Outline(outline) => matches!(outline.link, Link::Announced),
        }
    }
}

/// Returns the messages of a session, and where they break the providers' rules.
fn open_messages(session: &Session, window: &Window) -> (Vec<OpenMessage>, Vec<Breach>) {
    let mut opened: Vec<OpenMessage> = Vec::new();
    let mut scan = BreachScan::default();
    // The newest messages, which may still get pieces.
    let mut newest: VecDeque<Message> = VecDeque::new();
    for record in window.places(session.records.len()) {
        let read = &session.records[record];
        for (message, said) in read.messages().iter().enumerate() {
            let place = Place { record, message };
            let is_outline = !read.is_open();
            let piece = read.reply.as_ref().filter(|_| matches!(said.body, Body::Assistant { .. }));
            if let Some(back) = piece.and_then(|reply| piece_of(&opened, reply)) {
                let at = newest.len() - back;
                join(&mut newest[at], &outline(said));
                let at = opened.len() - back;
                opened[at].add_piece(said, is_outline, place);
                continue;
            }
            let open = match is_outline {
                true => OpenSaid::Outline(Outline::of(said)),
                false => OpenSaid::Whole(Box::new(said.clone())),
            };
            opened.push(OpenMessage { said: open, sources: smallvec![place], reply: piece.cloned() });
            newest.push_back(outline(said));
            if newest.len() > REPLY_REACH {
                newest.pop_front().into_iter().for_each(|message| scan.push(message));
            }
        }
    }
    newest.into_iter().for_each(|message| scan.push(message));
    (opened, scan.finish())
}

/// Returns how many messages back the one is that holds the other pieces of `reply`.
fn piece_of(opened: &[OpenMessage], reply: &str) -> Option<usize> {
    let oldest = opened.len().saturating_sub(REPLY_REACH);
    let at = opened[oldest..].iter().rposition(|item| item.reply.as_deref() == Some(reply))?;
    Some(opened.len() - oldest - at)
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
