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

/// Joins another piece of a reply to the `first`, in its place: a reply may have thousands of pieces. Texts
/// without visible characters are left out.
pub(crate) fn join(first: &mut Message, second: &Message) {
    let continues = [&*first, second].iter().all(|piece| piece.metadata.contains_key(CONTINUES));
    let is_told = |text: &String| continues || !is_blank(text);
    let body = std::mem::replace(&mut first.body, Body::Assistant { content: None, calls: Vec::new() });
    let (said, mut calls) = match body {
        Body::Assistant { content, calls } => (content, calls),
        Body::System(content) | Body::User(content) => (Some(content), Vec::new()),
        Body::Tool(result) => (Some(result.content), Vec::new()),
    };
    let said = said.map(|content| match content {
        Content::Text(text) => text,
        parts @ Content::Parts(_) => parts.to_text(),
    });
    let more = second.content().map(Content::to_text).filter(is_told);
    let text = match (said.filter(is_told), more) {
        (Some(mut text), Some(more)) => {
            text.push_str(if continues { "" } else { "\n\n" });
            text.push_str(&more);
            Some(text)
        }
        (said, more) => said.or(more),
    };
    calls.extend_from_slice(second.calls());
    let content = text.filter(|text| !text.is_empty()).map(Content::Text);
    first.body = Body::Assistant { content, calls };
    first.extra.extend(second.extra.clone());
    let hidden = |piece: &Message| piece.metadata.get(HIDDEN_TOKENS).and_then(Value::as_u64);
    if let Some(more) = hidden(second) {
        let sum = hidden(first).unwrap_or(0) + more;
        first.metadata.insert(HIDDEN_TOKENS.into(), json!(sum));
    }
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
                join(first, &message);
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

#[cfg(test)]
mod tests {
    use forge_domain::{ToolCall, ToolName};
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn pieces_are_joined_in_place() {
        let call = |id: &str| ToolCall {
            id: id.to_owned(),
            name: ToolName::new("ls").unwrap(),
            arguments: "{}".to_owned(),
        };
        let said = |text: &str| {
            let content = Some(Content::Text(text.to_owned()));
            Message { body: Body::Assistant { content, calls: Vec::new() }, ..Message::user("") }
        };
        let mut joined = said("One.");
        for piece in [said(" \n"), said("Two."), Message::calling(vec![call("a"), call("b")])] {
            join(&mut joined, &piece);
        }
        assert_eq!(joined.to_text(), "One.\n\nTwo.");
        assert_eq!(joined.calls().iter().map(|call| call.id.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        let mut cut = continuing(said("wi"));
        join(&mut cut, &continuing(said("thout end")));
        assert_eq!(cut.to_text(), "without end");
        let mut blank = said("\n");
        join(&mut blank, &said(""));
        assert_eq!(blank.content(), None);
        // The first piece stays where it is: only the second is copied.
        let place = |message: &Message| message.calls().as_ptr();
        let mut calling = Message::calling(Vec::with_capacity(2));
        join(&mut calling, &Message::calling(vec![call("a")]));
        let before = place(&calling);
        join(&mut calling, &Message::calling(vec![call("b")]));
        assert_eq!(place(&calling), before);
    }
}
