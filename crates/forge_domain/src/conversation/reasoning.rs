//! Reasoning that is bound to the view in which it was made.
//!
//! The newest models sign their reasoning together with everything before it: system prompt, tools and
//! messages. They refuse it when any of that has changed. So a reply's reasoning keeps a mark of its view
//! ([`MADE_IN`]), and a message whose view has changed since is sent without it. This is decided here, once
//! for all protocols.
//!
//! A codec declares what is bound by its key: it keeps that part of a reply in [`Message::extra`] under one
//! of [`BOUND_REASONING`]. What else it keeps of the reply, such as the original blocks in the metadata, it
//! sends without reasoning if the key is missing. Readable reasoning without a signature is not bound.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::token_counter::extra_tokens;
use crate::{Body, Message, ModelId, Role, THINKING_BLOCKS, TokenCounter, Tokens};

/// The key of [`Message::extra`] for reasoning as OpenRouter returns it in OpenAI's form: signed or encrypted
/// details.
pub const REASONING_DETAILS: &str = "reasoning_details";
/// The key of [`Message::extra`] for the reasoning items of OpenAI's responses, encrypted content included.
/// The message's form has their places.
pub const REASONING_ITEMS: &str = "reasoning_items";
/// The key of [`Message::extra`] for the thoughts of a model of Gemini's protocol: for each part of the
/// message null, the part's signature, or a whole part.
pub const THOUGHT_SIGNATURES: &str = "thought_signatures";

/// The keys of [`Message::extra`] for reasoning that is bound to the view in which it was made.
pub const BOUND_REASONING: [&str; 4] =
    [THINKING_BLOCKS, REASONING_DETAILS, REASONING_ITEMS, THOUGHT_SIGNATURES];

/// The key of [`Message::metadata`] for the view in which a message's reasoning was made.
const MADE_IN: &str = "made_in";

/// The lowest version of Claude that checks the whole view before its reasoning.
const CHECKED_SINCE: (u32, u32) = (5, 1);
/// The least number in a model's name that is a date, not a version.
const DATES: u32 = 100;

/// The check to which a model puts reasoning that it gets back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReasoningCheck {
    /// The view before it is unchanged.
    View,
    /// It is the model's own. An exchange that the model has not continued yet may need it, unless its
    /// protocol accepts calls without.
    Own,
}

/// The view in which a message's reasoning was made, and its tokens.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct MadeIn {
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
    /// True if servers may demand it for an exchange that the model has not continued yet: those of the chat
    /// protocol and Anthropic's. The others accept calls without it.
    pub(super) may_be_demanded: bool,
}

impl ReasoningCheck {
    /// Returns the check of `model`, by the version in its name: Claude 5.1 and all later ones check the
    /// view, under any name and on any server.
    pub fn of(model: &ModelId) -> Self {
        if claude_version(model.as_str()) >= Some(CHECKED_SINCE) { Self::View } else { Self::Own }
    }
}

/// Returns the version of a Claude model by its name, major and minor: (4, 7) of `claude-opus-4-7` and of
/// `anthropic/claude-opus-4.7`, (3, 7) of `claude-3-7-sonnet-20250219`. `None` is unknown, and older.
pub fn claude_version(model: &str) -> Option<(u32, u32)> {
    let (_, name) = model.split_once("claude")?;
    let mut numbers = name
        .split(|c: char| !c.is_ascii_alphanumeric())
        .skip_while(|word| word.parse::<u32>().is_err())
        .map_while(|word| word.parse().ok().filter(|number| *number < DATES));
    Some((numbers.next()?, numbers.next().unwrap_or(0)))
}

impl Bound {
    /// Checks whether it was made by `model` in `view`.
    pub(super) fn is_of(&self, model: &str, view: &str) -> bool {
        self.made_in.as_ref().is_some_and(|made_in| made_in.model == model && made_in.view == view)
    }

    /// Checks whether `model` made it, as far as is known.
    pub(super) fn may_be_of(&self, model: &str) -> bool {
        self.made_in.as_ref().is_none_or(|made_in| made_in.model == model)
    }

    /// Returns the bound reasoning of a message, with the tokens that its mark tells.
    pub(super) fn of(message: &Message) -> Option<Self> {
        message.has_bound_reasoning().then(|| {
            let made_in = message.metadata.get(MADE_IN).and_then(|made_in| MadeIn::deserialize(made_in).ok());
            let tokens = made_in.as_ref().map_or(Tokens::ZERO, |made_in| made_in.tokens);
            let demanded = [THINKING_BLOCKS, REASONING_DETAILS];
            let may_be_demanded = demanded.iter().any(|key| message.extra.contains_key(*key));
            Self { made_in, tokens, may_be_demanded }
        })
    }

    /// Returns the bound reasoning of a message, counted.
    pub(super) fn count(message: &Message, counter: &dyn TokenCounter) -> Option<Self> {
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

    /// Returns the message with the mark of the `view` in which `model` made it, if it has reasoning that is
    /// bound to it.
    pub(super) fn made_in(mut self, model: &str, view: String, counter: &dyn TokenCounter) -> Self {
        if self.has_bound_reasoning() {
            let tokens = self.reasoning_tokens(counter);
            let made_in = MadeIn { model: model.to_owned(), view, tokens };
            self.metadata.insert(MADE_IN.to_owned(), serde_json::to_value(made_in).unwrap_or_default());
        }
        self
    }

    fn reasoning_tokens(&self, counter: &dyn TokenCounter) -> Tokens {
        let bound = self.extra.iter().filter(|(key, _)| BOUND_REASONING.contains(&key.as_str()));
        bound.map(|(key, value)| extra_tokens(key, value, counter)).sum()
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_version_is_read_off_the_name() {
        for (model, expected) in [
            ("claude-opus-4-7", Some((4, 7))),
            ("claude-opus-4-7-20260416", Some((4, 7))),
            ("anthropic/claude-opus-4.7", Some((4, 7))),
            ("claude-3-7-sonnet-20250219", Some((3, 7))),
            ("claude-sonnet-5", Some((5, 0))),
            ("claude-sonnet-4-20250514", Some((4, 0))),
            ("eu.anthropic.claude-haiku-4-5-20251001-v1:0", Some((4, 5))),
            ("claude-mythos-preview", None),
            ("glm-5.1", None),
        ] {
            assert_eq!(claude_version(model), expected, "{model}");
        }
    }

    #[test]
    fn the_version_decides_who_checks_the_view() {
        for (name, expected) in [
            ("claude-fable-5-1", ReasoningCheck::View),
            ("claude-fable-5.1", ReasoningCheck::View),
            ("anthropic/claude-sonnet-5.5", ReasoningCheck::View),
            ("eu.anthropic.claude-haiku-5-5-v1:0", ReasoningCheck::View),
            ("claude-newest-6", ReasoningCheck::View),
            ("claude-opus-10-2@20280101", ReasoningCheck::View),
            ("claude-opus-5", ReasoningCheck::Own),
            ("claude-opus-5-20260901", ReasoningCheck::Own),
            ("claude-opus-4-5-20251101", ReasoningCheck::Own),
            ("claude-3-7-sonnet-latest", ReasoningCheck::Own),
            ("gpt-5.6", ReasoningCheck::Own),
        ] {
            assert_eq!(ReasoningCheck::of(&ModelId::new(name).unwrap()), expected, "{name}");
        }
    }
}
