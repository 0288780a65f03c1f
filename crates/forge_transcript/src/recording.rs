//! The one normal form of recorded sessions, in which every prefix that ends with a whole group is a legal
//! request.

use std::collections::HashMap;

use forge_domain::compaction::{is_written_text, recognize_written};
use forge_domain::{Body, Content, Message, ToolCall, ToolName, ToolResult};

use crate::Session;
use crate::arguments::normal_arguments;
use crate::flat_text::{NO_RESULT, flat_text, is_blank};
use crate::formats::codec;
use crate::harness::{Voice, announced_result, is_announced_result, without_user};
use crate::reply_pieces::REPLY_REACH;

/// The text in place of an empty result.
const NO_OUTPUT: &str = "(no output)";

/// A session in normal form.
///
/// The pieces of a reply are one message, and so are assistant messages with no result between them. Texts
/// have no newlines around them and blank ones are gone; images are `[image]`. Results directly follow the
/// message that made the calls, in the order of the calls, each paired with the nearest earlier call of its
/// id that had none; ids are unique within a message. Arguments are JSON objects, printed one way. Reasoning,
/// summaries of messages that are still in the file, and all foreign keys are left out.
#[derive(Clone, Debug, PartialEq)]
pub struct Recording {
    /// The messages.
    pub messages: Vec<Message>,
    /// Results that answered no call; they were left out.
    pub orphans: usize,
    /// The number of calls that no result answered; each got a result that tells so.
    pub missing_results: usize,
}

impl Session {
    /// Returns the session in normal form.
    pub fn recording(&self) -> Recording {
        let mut builder = Builder::default();
        let codec = codec(self.format);
        for record in self.records.iter().filter(|record| !codec.is_repeat(record)) {
            for message in record.messages().iter().filter(|message| !self.has_originals_of(message)) {
                builder.push(message, record.reply.as_deref());
            }
        }
        let mut recording = builder.finish();
        for place in without_user(recording.messages.iter().map(Voice::of)) {
            let said = &mut recording.messages[place];
            *said = std::mem::replace(said, Message::user("")).said_by_user();
        }
        recording
    }
}

impl Session {
    /// Checks whether the session still holds the messages that `message` summarizes. Those that Forge
    /// replaced are no longer there.
    fn has_originals_of(&self, message: &Message) -> bool {
        message.is_compacted
            && codec(self.format).keeps_summarized()
            && !is_written_text(message.role(), &message.to_text())
    }
}

/// One entry of the normal form before its results are put in order.
enum Node {
    Said(Message),
    Reply(Reply),
}

/// An assistant message with what its calls were answered.
#[derive(Default)]
struct Reply {
    text: String,
    calls: Vec<ToolCall>,
    results: HashMap<usize, Answer>,
    key: Option<String>,
}

struct Answer {
    text: String,
    is_error: bool,
}

#[derive(Default)]
struct Builder {
    nodes: Vec<Node>,
    orphans: usize,
}

impl Builder {
    fn push(&mut self, message: &Message, key: Option<&str>) {
        match (&message.body, message.note_by()) {
            (Body::User(_), Some(_)) if self.answer_announced(message) => {}
            (Body::User(content), Some(by)) => self.say(content, |text| Message::note(by, text)),
            (Body::System(content), _) => self.say(content, Message::system),
            (Body::User(content), None) => self.say(content, Message::user),
            (Body::Assistant { .. }, _) if message.is_compacted => {
                self.say(message.content().unwrap_or(&Content::Text(String::new())), Message::assistant);
            }
            (Body::Assistant { content, calls }, _) => {
                self.reply(&content.as_ref().map(flat_text).unwrap_or_default(), calls, key);
            }
            (Body::Tool(result), _) => self.answer(result),
        }
    }

    fn say(&mut self, content: &Content, make: impl Fn(String) -> Message) {
        let text = flat_text(content);
        let text = text.trim_matches('\n');
        if !is_blank(text) {
            self.nodes.push(Node::Said(recognize_written(make(text.to_owned()))));
        }
    }

    fn reply(&mut self, text: &str, calls: &[ToolCall], key: Option<&str>) {
        let text = text.trim_matches('\n');
        let text = if is_blank(text) { "" } else { text };
        if text.is_empty() && calls.is_empty() {
            return;
        }
        let place = self.place(key);
        let n_nodes = self.nodes.len();
        let Node::Reply(reply) = &mut self.nodes[place] else { return };
        if !text.is_empty() {
            let between = if reply.text.is_empty() { "" } else { "\n\n" };
            reply.text = format!("{}{between}{text}", reply.text);
        }
        for call in calls {
            let mut call = call.clone();
            if call.id.is_empty() {
                call.id = format!("call_{n_nodes}_{}", reply.calls.len());
            }
            call.arguments = normal_arguments(&call.arguments);
            reply.calls.push(call);
        }
    }

    /// Returns the place for a piece of the reply `key`: with its other pieces, else with the last assistant
    /// message that is not answered yet, else in a new one.
    fn place(&mut self, key: Option<&str>) -> usize {
        let oldest = self.nodes.len().saturating_sub(REPLY_REACH);
        let of_reply = |node: &Node| matches!(node, Node::Reply(reply) if reply.key.as_deref() == key);
        let pieces = key.and_then(|_| self.nodes[oldest..].iter().rposition(of_reply));
        if let Some(place) = pieces {
            return oldest + place;
        }
        if !matches!(self.nodes.last(), Some(Node::Reply(last)) if last.results.is_empty()) {
            self.nodes.push(Node::Reply(Reply { key: key.map(str::to_owned), ..Reply::default() }));
        }
        self.nodes.len() - 1
    }

    fn answer(&mut self, result: &ToolResult) {
        let text = flat_text(&result.content);
        let text = if is_blank(&text) { NO_OUTPUT.to_owned() } else { text };
        for node in self.nodes.iter_mut().rev() {
            let Node::Reply(reply) = node else { continue };
            let open = (0..reply.calls.len())
                .find(|n| reply.calls[*n].id == result.call_id && !reply.results.contains_key(n));
            if let Some(n) = open {
                reply.results.insert(n, Answer { text, is_error: result.is_error });
                return;
            }
        }
        self.orphans += 1;
    }

    /// Answers the first open call of the last reply with a note that announces its result. Returns whether
    /// it did.
    fn answer_announced(&mut self, note: &Message) -> bool {
        let Some(Node::Reply(reply)) = self.nodes.last_mut() else { return false };
        let open = (0..reply.calls.len()).find(|n| !reply.results.contains_key(n));
        let Some(n) = open.filter(|_| is_announced_result(note)) else { return false };
        let text = flat_text(&announced_result(note));
        let text = if is_blank(&text) { NO_OUTPUT.to_owned() } else { text };
        reply.results.insert(n, Answer { text, is_error: false });
        true
    }

    fn finish(self) -> Recording {
        let mut recording = Recording { messages: Vec::new(), orphans: self.orphans, missing_results: 0 };
        for node in self.nodes {
            match node {
                Node::Said(message) => recording.messages.push(message),
                Node::Reply(reply) => recording.missing_results += reply.write(&mut recording.messages),
            }
        }
        recording
    }
}

impl Reply {
    /// Appends the message and its results; returns how many results had to be made up.
    fn write(mut self, messages: &mut Vec<Message>) -> usize {
        let mut seen: HashMap<String, usize> = HashMap::new();
        for call in &mut self.calls {
            let n = seen.entry(call.id.clone()).or_default();
            *n += 1;
            if *n > 1 {
                call.id = format!("{}_{n}", call.id);
            }
        }
        let results: Vec<Message> = (0..self.calls.len()).map(|n| self.result(n)).collect();
        let missing = self.calls.len() - self.results.len();
        let content = (!self.text.is_empty()).then_some(Content::Text(self.text));
        messages.push(Message::new(Body::Assistant { content, calls: self.calls }));
        messages.extend(results);
        missing
    }

    fn result(&self, n: usize) -> Message {
        let call = &self.calls[n];
        let (text, is_error) = match self.results.get(&n) {
            Some(answer) => (answer.text.clone(), answer.is_error),
            None => (NO_RESULT.to_owned(), false),
        };
        let name: Option<ToolName> = Some(call.name.clone());
        Message::tool(ToolResult { call_id: call.id.clone(), name, content: text.into(), is_error })
    }
}
