//! The pieces of a reply, which some formats keep in several records.

use std::collections::VecDeque;
use std::sync::Arc;

use forge_domain::{Body, Content, HIDDEN_TOKENS, Message};
use serde_json::{Value, json};

use crate::Record;
use crate::flat_text::is_blank;

/// The number of entries back in which the other pieces of a reply are searched.
pub(crate) const REPLY_REACH: usize = 80;

/// The mark of a piece that continues the text before it, wherever that was cut.
const CONTINUES: &str = "continues";

/// Returns the piece of a reply marked as one that continues the text of the one before it.
pub(crate) fn continuing(mut piece: Message) -> Message {
    piece.metadata.insert(CONTINUES.into(), json!(true));
    piece
}

/// Joins two pieces of a reply to one message. Texts without visible characters are left out.
pub(crate) fn join(first: &Message, second: &Message) -> Message {
    let continues = [first, second].iter().all(|piece| piece.metadata.contains_key(CONTINUES));
    let texts = [first, second]
        .map(|piece| piece.content().map(Content::to_text).filter(|text| continues || !is_blank(text)));
    let text = texts.into_iter().flatten().collect::<Vec<_>>().join(if continues { "" } else { "\n\n" });
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

/// A joiner of the pieces of replies, which may be some records apart.
pub(crate) struct Joiner<'v> {
    waiting: VecDeque<(Option<Arc<str>>, Message)>,
    visit: &'v mut dyn FnMut(&Message),
}

impl<'v> Joiner<'v> {
    /// Creates a joiner that passes each message to `visit`.
    pub(crate) fn new(visit: &'v mut dyn FnMut(&Message)) -> Self {
        Self { waiting: VecDeque::new(), visit }
    }

    /// Adds the messages of the next record.
    pub(crate) fn push(&mut self, record: Record) {
        let of_reply = record.reply.clone();
        for message in record.into_messages() {
            let reply = of_reply.as_ref().filter(|_| matches!(message.body, Body::Assistant { .. }));
            let piece = self.waiting.iter_mut().rev().find(|(of, _)| reply.is_some() && of.as_ref() == reply);
            if let Some((_, first)) = piece {
                *first = join(first, &message);
                continue;
            }
            self.waiting.push_back((reply.cloned(), message));
            if self.waiting.len() > REPLY_REACH
                && let Some((_, message)) = self.waiting.pop_front()
            {
                (self.visit)(&message);
            }
        }
    }

    /// Passes on the messages that still waited for pieces.
    pub(crate) fn finish(self) {
        self.waiting.iter().for_each(|(_, message)| (self.visit)(message));
    }
}
