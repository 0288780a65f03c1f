//! Reasoning that is bound to the view in which it was made.
//!
//! The newest models sign their reasoning together with everything before it: system prompt, tools and messages.
//! They refuse it when any of that has changed. So a reply's reasoning keeps a mark of its view ([`MADE_IN`]),
//! and a message whose view has changed since is sent without it. This is decided here, once for all protocols.
//!
//! A codec declares what is bound by its key: it keeps that part of a reply in [`Message::extra`] under one of
//! [`BOUND_REASONING`]. What else it keeps of the reply, such as the original blocks in the metadata, it sends
//! without reasoning if the key is missing. Readable reasoning without a signature is not bound.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::token_counter::extra_tokens;
use crate::{
    Body, ContextMessage, Message, ModelId, ModelRef, Role, THINKING_BLOCKS, TokenCounter, Tokens,
    ToolDefinition,
};

/// The key of [`Message::extra`] for reasoning as OpenRouter returns it in OpenAI's form: signed or encrypted
/// details.
pub const REASONING_DETAILS: &str = "reasoning_details";
/// The key of [`Message::extra`] for the reasoning items of OpenAI's responses, encrypted content included.
pub const REASONING_ITEMS: &str = "reasoning_items";
/// The key of [`Message::extra`] for the thought signatures of Gemini's parts.
pub const THOUGHT_SIGNATURES: &str = "thought_signatures";

/// The keys of [`Message::extra`] for reasoning that is bound to the view in which it was made.
pub const BOUND_REASONING: [&str; 4] =
    [THINKING_BLOCKS, REASONING_DETAILS, REASONING_ITEMS, THOUGHT_SIGNATURES];

/// The key of [`Message::metadata`] for the view in which a message's reasoning was made.
pub(crate) const MADE_IN: &str = "made_in";

/// The lowest version of Claude that checks the whole view before its reasoning.
const CHECKED_SINCE: (u64, u64) = (5, 1);
/// A number of a model's name from which on it is a date, not a version.
const DATES: u64 = 100;

/// The part of a reply's view that stands before its messages: the model and its tools.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    mark: ViewMark,
    model: Arc<str>,
    check: ReasoningCheck,
}

/// A fingerprint of a view: of the model, the tools and the messages, as they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewMark(u64);

/// The check to which a model puts reasoning that it gets back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningCheck {
    /// The view before it is unchanged.
    View,
    /// It is the model's own. An exchange that the model has not continued yet may need it.
    Own,
}

/// The view in which a message's reasoning was made, and its tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct MadeIn {
    /// The model, as `provider:model`.
    model: String,
    /// The [`ViewMark`], in hexadecimal digits.
    view: String,
    /// The tokens of the reasoning, by our count.
    tokens: Tokens,
}

/// The reasoning of a message that is bound to its view.
#[derive(Clone, Debug)]
pub(super) struct Bound {
    /// The view, if it is known.
    made_in: Option<MadeIn>,
    /// Its tokens; zero if they are unknown.
    pub(super) tokens: Tokens,
}

impl ReasoningCheck {
    /// Returns the check of `model`, by the version in its name: Claude 5.1 and all later ones check the view,
    /// whatever the family is called and whoever serves them.
    pub fn of(model: &ModelId) -> Self {
        let Some((_, version)) = model.as_str().split_once("claude-") else { return Self::Own };
        let words = version.split(|c: char| !c.is_ascii_alphanumeric());
        let mut numbers = words
            .skip_while(|word| word.parse::<u64>().is_err())
            .map_while(|word| word.parse().ok().filter(|number| *number < DATES));
        let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
        if version >= CHECKED_SINCE { Self::View } else { Self::Own }
    }
}

impl ViewMark {
    /// Returns the mark of nothing (FNV-1a): it is written into logs, so it has to be the same in every version.
    const EMPTY: Self = Self(0xcbf2_9ce4_8422_2325);

    fn and(self, bytes: &[u8]) -> Self {
        let mixed = |mark: u64, byte: &u8| (mark ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3);
        Self(bytes.iter().fold(self.0, mixed))
    }

    /// Returns the mark of the view with one more message, as it is sent.
    fn and_message(self, message: &ContextMessage, sent: Sent) -> Self {
        // Ids are unique within a log, and what they name never changes.
        let id = message.id().map_or(u64::MAX, |id| id.as_u64());
        self.and(&id.to_le_bytes()).and(&[sent as u8])
    }

    fn to_text(self) -> String {
        format!("{:016x}", self.0)
    }
}

/// The form in which a message is sent.
#[derive(Clone, Copy)]
enum Sent {
    Whole,
    Bare,
}

impl Frame {
    /// Returns the frame of prompts that ask `model` with `tools`.
    pub fn of(model: &ModelRef, tools: &[ToolDefinition]) -> Self {
        let name = model.to_string();
        let list = serde_json::to_vec(tools).unwrap_or_default();
        Self {
            mark: ViewMark::EMPTY.and(name.as_bytes()).and(&[0]).and(&list),
            model: name.into(),
            check: ReasoningCheck::of(&model.model),
        }
    }

    /// Returns the positions of the messages whose reasoning is stale, and the mark of the view as it is sent
    /// without that.
    pub(super) fn examine(&self, messages: &[ContextMessage]) -> (Vec<usize>, ViewMark) {
        let needed = self.needed(messages);
        let mut stale = Vec::new();
        let mut mark = self.mark;
        for (position, message) in messages.iter().enumerate() {
            let bound = message.bound_reasoning();
            let is_stale = bound.is_some_and(|bound| needed != Some(position) && !self.made(bound, mark));
            if is_stale {
                stale.push(position);
            }
            let is_bare = is_stale || message.is_bare();
            if !(is_bare && message.says_only_reasoning()) {
                mark = mark.and_message(message, if is_bare { Sent::Bare } else { Sent::Whole });
            }
        }
        (stale, mark)
    }

    /// Checks whether reasoning was made in the view of that mark.
    fn made(&self, bound: &Bound, view: ViewMark) -> bool {
        bound
            .made_in
            .as_ref()
            .is_some_and(|made_in| *made_in.model == *self.model && made_in.view == view.to_text())
    }

    /// Returns the position of the exchange that the model has yet to continue, if it may need its reasoning
    /// whatever has changed.
    pub(super) fn needed(&self, messages: &[ContextMessage]) -> Option<usize> {
        let last = messages.iter().rposition(|message| message.role() == Role::Assistant)?;
        let bound = messages[last].bound_reasoning()?;
        let is_own = bound.made_in.as_ref().is_none_or(|made_in| *made_in.model == *self.model);
        let is_open = !messages[last].message().calls().is_empty();
        (self.check == ReasoningCheck::Own && is_own && is_open).then_some(last)
    }

    /// Returns the mark of the view that `messages` make, as they are sent.
    pub(super) fn mark(&self, messages: &[ContextMessage]) -> ViewMark {
        self.examine(messages).1
    }

    /// Checks whether `message`, after `before`, is sent with reasoning of another view.
    pub(super) fn is_stale(
        &self,
        before: &[ContextMessage],
        message: &ContextMessage,
        is_needed: bool,
    ) -> bool {
        let sent = |message: &ContextMessage| if message.is_bare() { Sent::Bare } else { Sent::Whole };
        let mark = before.iter().fold(self.mark, |mark, message| mark.and_message(message, sent(message)));
        message.bound_reasoning().is_some_and(|bound| !is_needed && !self.made(bound, mark))
    }

    /// Returns `reply` with the mark of `view`, in which it was made, if it has reasoning that is bound to it.
    pub(crate) fn bind(&self, view: ViewMark, mut reply: Message, counter: &dyn TokenCounter) -> Message {
        if reply.has_bound_reasoning() {
            let tokens = reply.reasoning_tokens(counter);
            let made_in = MadeIn { model: self.model.to_string(), view: view.to_text(), tokens };
            let made_in = serde_json::to_value(made_in).unwrap_or_default();
            reply.metadata.insert(MADE_IN.to_owned(), made_in);
        }
        reply
    }
}

impl Bound {
    /// Returns the bound reasoning of a message, with the tokens that its mark tells.
    pub(super) fn of(message: &Message) -> Option<Self> {
        message.has_bound_reasoning().then(|| {
            let made_in = message.metadata.get(MADE_IN).and_then(|made_in| MadeIn::deserialize(made_in).ok());
            let tokens = made_in.as_ref().map_or(Tokens::ZERO, |made_in| made_in.tokens);
            Self { made_in, tokens }
        })
    }

    /// Returns the bound reasoning of a message, counted.
    pub(super) fn counted(message: &Message, counter: &dyn TokenCounter) -> Option<Self> {
        Self::of(message).map(|bound| Self { tokens: message.reasoning_tokens(counter), ..bound })
    }
}

impl Message {
    /// Checks whether it has reasoning that is bound to the view in which it was made.
    pub fn has_bound_reasoning(&self) -> bool {
        let is_some = |value: &Value| match value {
            Value::Null => false,
            Value::Array(items) => !items.is_empty(),
            Value::Object(fields) => !fields.is_empty(),
            _ => true,
        };
        self.role() == Role::Assistant
            && BOUND_REASONING.iter().any(|key| self.extra.get(*key).is_some_and(is_some))
    }

    /// Returns the message without the reasoning that is bound to its view: all blocks of it leave together.
    #[must_use]
    pub fn without_bound_reasoning(&self) -> Self {
        let mut bare = self.clone();
        bare.extra.retain(|key, _| !BOUND_REASONING.contains(&key.as_str()));
        bare
    }

    /// Checks whether nothing would be left of it without its bound reasoning.
    pub(super) fn says_only_reasoning(&self) -> bool {
        let Body::Assistant { content, calls } = &self.body else { return false };
        calls.is_empty()
            && content.as_ref().is_none_or(crate::Content::is_empty)
            && self.extra.keys().all(|key| BOUND_REASONING.contains(&key.as_str()))
    }

    fn reasoning_tokens(&self, counter: &dyn TokenCounter) -> Tokens {
        let bound = self.extra.iter().filter(|(key, _)| BOUND_REASONING.contains(&key.as_str()));
        bound.map(|(key, value)| extra_tokens(key, value, counter)).sum()
    }
}
