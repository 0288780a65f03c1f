//! The observations of an environment that an agent records as user messages.

use forge_domain::{Body, Message, ToolCall};
use serde_json::Value;

use crate::harness::HARNESS;
use crate::tagged_call::{
    announced_tool, answer_tagged_call, shows_tags, take_tagged_call, without_speaking_tags,
};
use crate::written::split;

use super::written_call::{answer, holds_call, take_call};

/// The observations of an environment that its agent, such as SWE-agent or Cline, records as user messages.
/// The first user message is the task, even if it is called an observation too.
#[derive(Default)]
pub(super) struct Observations {
    /// True if the user said something.
    has_task: bool,
    /// True if the last message of the model is recorded with the action that was taken from its text.
    is_acting: bool,
    /// True if a message showed that calls are written in tags.
    has_tags: bool,
    /// The call in the text of the last message of the model.
    call: Option<ToolCall>,
    /// The call in tags in its text, whose result the next message announces.
    tagged: Option<ToolCall>,
}

impl Observations {
    /// Splits `message`, the entry at `index`, as [`split`] does. The observation after a call in the model's
    /// text is its result; another one is a note. `next` reads the first message of the entry after it: a
    /// call in tags counts only if its result is announced there.
    pub(super) fn split(
        &mut self,
        message: Message,
        index: usize,
        next: &dyn Fn() -> Option<Message>,
    ) -> Vec<Message> {
        match message.body {
            Body::Assistant { .. } => {
                self.is_acting = holds_call(&message);
                let id = format!("call_{index}");
                let (message, call) = take_call(message, &id);
                self.call = call;
                if self.call.is_some() { vec![message] } else { self.reply(message, &id, next) }
            }
            Body::User(_) => self.observe(message),
            Body::System(_) | Body::Tool(_) => self.say(message),
        }
    }

    /// Reads a reply whose call may be in tags.
    fn reply(&mut self, message: Message, id: &str, next: &dyn Fn() -> Option<Message>) -> Vec<Message> {
        let next = if message.calls().is_empty() { next() } else { None };
        let (message, call) = match next.as_ref().and_then(announced_tool) {
            Some(tool) => take_tagged_call(message, &tool, id),
            None => (message, None),
        };
        self.tagged = call;
        if self.tagged.is_some() {
            return vec![message];
        }
        self.say(if self.has_tags { without_speaking_tags(message) } else { message })
    }

    fn observe(&mut self, message: Message) -> Vec<Message> {
        if let Some(call) = self.tagged.take() {
            return answer_tagged_call(self.say(message), &call);
        }
        let kind = message.extra.get("message_type").and_then(Value::as_str);
        let is_example = message.extra.get("is_demo") == Some(&Value::Bool(true));
        let has_status = message.extra.get("extra").is_some_and(|more| more.get("returncode").is_some());
        let is_observation = kind == Some("observation") || self.is_acting || has_status;
        if is_example || kind == Some("demonstration") {
            return vec![message.noted_by(HARNESS)];
        }
        if let Some(call) = self.call.take() {
            return vec![answer(message, &call)];
        }
        if is_observation && self.has_task {
            return vec![message.noted_by(HARNESS)];
        }
        self.say(message)
    }

    fn say(&mut self, message: Message) -> Vec<Message> {
        let messages = split(message);
        self.has_task |= messages.iter().any(Message::starts_turn);
        self.has_tags = self.has_tags || messages.iter().any(shows_tags);
        messages
    }
}
