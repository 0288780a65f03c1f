//! One entry of a conversation: its text, its author, and the tool calls and results in it.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ToolName;

/// The key of [`Message::extra`] that holds an assistant's reasoning as blocks of Anthropic's messages,
/// signatures included. They travel with the message or not at all.
pub const THINKING_BLOCKS: &str = "thinking_blocks";

/// The key of [`Message::metadata`] for the tokens that a message has beside its readable text: reasoning
/// that its recording hides. An estimate by its reader; the only entry there that counts.
pub const HIDDEN_TOKENS: &str = "hidden_tokens";

/// The key of [`Message::metadata`] for the author of a user message that the user did not write: a hook, the
/// loop itself, or the harness that recorded the session. Such a message is not a turn.
pub const NOTE_BY: &str = "note_by";
/// The metadata key of a note that its author will send again.
const RENEWED: &str = "renewed";
/// The key of [`Message::metadata`] that lists the agents' answers at the end of a user message, as
/// `AGENT/TAG`.
pub(crate) const ANSWERS: &str = "transformed";

/// The author's role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Standing instructions.
    System,
    /// The user, or someone who acts for them.
    User,
    /// The model.
    Assistant,
    /// A tool, answering one call.
    Tool,
}

impl Role {
    /// Checks whether a turn of it is the user's, by the protocols that have but two sides: results are.
    /// `None` for what they keep apart from the turns.
    pub(crate) const fn is_users(self) -> Option<bool> {
        match self {
            Self::System => None,
            Self::User | Self::Tool => Some(true),
            Self::Assistant => Some(false),
        }
    }

    /// Returns the role's word, as every protocol spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// A message's content: one text, or parts of several kinds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// One text.
    Text(String),
    /// Text and other parts in order.
    Parts(Vec<Part>),
}

/// One part of a content.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// A text.
    Text(String),
    /// Anything that is not text (an image, a sound, a file), in the JSON it arrived in.
    Media(Value),
}

impl Content {
    /// Returns the texts in order, joined by a newline; media are left out.
    pub fn to_text(&self) -> String {
        self.text().into_owned()
    }

    /// Returns the texts without a copy, if there is only one.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        match self {
            Self::Text(text) => Cow::Borrowed(text),
            Self::Parts(parts) => parts
                .iter()
                .filter_map(|part| match part {
                    Part::Text(text) => Some(text.as_str()),
                    Part::Media(_) => None,
                })
                .collect::<Vec<_>>()
                .join("\n")
                .into(),
        }
    }

    /// Checks whether there is neither a text nor any other part.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Text(text) => text.is_empty(),
            Self::Parts(parts) => {
                parts.iter().all(|part| matches!(part, Part::Text(text) if text.is_empty()))
            }
        }
    }
}

impl From<&str> for Content {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<String> for Content {
    fn from(text: String) -> Self {
        Self::Text(text)
    }
}

/// A model's wish to have a tool run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolCall {
    /// The provider's id of the call; unique within its message, not within a conversation.
    pub id: String,
    /// The tool.
    pub name: ToolName,
    /// The arguments as the model wrote them: JSON in the good case, but kept literally in any case.
    pub arguments: String,
}

/// A tool's answer to one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call that this answers.
    pub call_id: String,
    /// The tool, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ToolName>,
    /// The answer.
    pub content: Content,
    /// True if the tool reported that it failed.
    #[serde(default)]
    pub is_error: bool,
}

impl ToolResult {
    /// Creates a result that answers `call` with `content`.
    pub fn answer(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self {
            call_id: call.id.clone(),
            name: Some(call.name.clone()),
            content: content.into(),
            is_error: false,
        }
    }

    /// Creates a result that tells the model why `call` failed.
    pub fn error(call: &ToolCall, why: impl Into<Content>) -> Self {
        Self { is_error: true, ..Self::answer(call, why) }
    }
}

/// A message's body, by its role. A tool result cannot lack its call's id, and a user message cannot have
/// calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// Standing instructions.
    System(Content),
    /// A user's text.
    User(Content),
    /// A model's text and calls.
    Assistant {
        /// The text; `None` if it only calls.
        content: Option<Content>,
        /// The calls, in the model's order.
        calls: Vec<ToolCall>,
    },
    /// A tool's answer.
    Tool(ToolResult),
}

/// One message: its body, and what is known about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// The body.
    pub body: Body,
    /// The time of the message, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Facts of ours about it; never sent to a provider; only [`HIDDEN_TOKENS`] is counted.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// True if compaction made it in place of others (a summary, a record, an omission marker). Such a
    /// message is not a turn, is neither first nor latest user message, and may be summarized again.
    #[serde(default)]
    pub is_compacted: bool,
    /// Keys of the provider's message that are not ours (reasoning, signatures, names): sent back as they
    /// came.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl AsRef<Self> for Message {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Message {
    /// Creates a message with that body and nothing else.
    pub fn new(body: Body) -> Self {
        Self { body, timestamp: None, metadata: Map::new(), is_compacted: false, extra: Map::new() }
    }

    /// Creates a system message.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::new(Body::System(content.into()))
    }

    /// Creates a user message.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Body::User(content.into()))
    }

    /// Creates a user message by which `by`, who is not the user, tells the model something: not a turn, and
    /// neither first nor latest user message.
    pub fn note(by: impl Into<String>, text: impl Into<Content>) -> Self {
        Self::user(text).noted_by(by)
    }

    /// Creates an assistant message without calls.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Body::Assistant { content: Some(content.into()), calls: Vec::new() })
    }

    /// Creates an assistant message that calls tools, without text.
    pub fn calling(calls: Vec<ToolCall>) -> Self {
        Self::new(Body::Assistant { content: None, calls })
    }

    /// Creates a tool result.
    pub fn tool(result: ToolResult) -> Self {
        Self::new(Body::Tool(result))
    }

    /// Returns the message marked as made by compaction.
    #[must_use]
    pub fn compacted(self) -> Self {
        Self { is_compacted: true, ..self }
    }

    /// Returns the user message marked as written by `by`, who is not the user.
    #[must_use]
    pub fn noted_by(mut self, by: impl Into<String>) -> Self {
        self.metadata.insert(NOTE_BY.to_owned(), Value::String(by.into()));
        self
    }

    /// Returns the note marked as one that its author will send again, such as a list of tools: no work rests
    /// on this copy of it.
    #[must_use]
    pub fn renewed(mut self) -> Self {
        self.metadata.insert(RENEWED.to_owned(), Value::Bool(true));
        self
    }

    /// Checks whether it is a note that its author will send again.
    pub fn is_renewed(&self) -> bool {
        self.note_by().is_some() && self.metadata.contains_key(RENEWED)
    }

    /// Returns the message without the mark of [`Self::noted_by`].
    #[must_use]
    pub fn said_by_user(mut self) -> Self {
        self.metadata.shift_remove(NOTE_BY);
        self
    }

    /// Returns the message with the time `timestamp`.
    #[must_use]
    pub fn at(self, timestamp: Timestamp) -> Self {
        Self { timestamp: Some(timestamp), ..self }
    }

    /// Returns the author's role.
    pub const fn role(&self) -> Role {
        match self.body {
            Body::System(_) => Role::System,
            Body::User(_) => Role::User,
            Body::Assistant { .. } => Role::Assistant,
            Body::Tool(_) => Role::Tool,
        }
    }

    /// Frees the room that its texts reserved while they grew: a log keeps them for long.
    pub(super) fn shrink_to_fit(&mut self) {
        let content = match &mut self.body {
            Body::System(content) | Body::User(content) => Some(content),
            Body::Assistant { content, calls } => {
                calls.iter_mut().for_each(|call| call.arguments.shrink_to_fit());
                content.as_mut()
            }
            Body::Tool(result) => Some(&mut result.content),
        };
        if let Some(Content::Text(text)) = content {
            text.shrink_to_fit();
        }
    }

    /// Returns its content, if it has any.
    pub const fn content(&self) -> Option<&Content> {
        match &self.body {
            Body::System(content) | Body::User(content) => Some(content),
            Body::Assistant { content, .. } => content.as_ref(),
            Body::Tool(result) => Some(&result.content),
        }
    }

    /// Returns its whole text; empty if it has none.
    pub fn to_text(&self) -> String {
        self.text().into_owned()
    }

    /// Returns its text without a copy, if there is only one.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        self.content().map(Content::text).unwrap_or_default()
    }

    /// Returns the user's text, without the answers of agents that a transform added.
    pub(crate) fn text_without_answers(&self) -> String {
        let mut text = self.to_text();
        let answers = self.metadata.get(ANSWERS).and_then(Value::as_array).into_iter().flatten();
        for label in answers.rev().filter_map(Value::as_str) {
            let tag = label.rsplit_once('/').map_or(label, |(_, tag)| tag);
            let is_last = text.trim_end().ends_with(&format!("</{tag}>"));
            if let Some(at) = text.rfind(&format!("\n<{tag}>\n")).filter(|_| is_last) {
                text.truncate(at);
            }
        }
        text
    }

    /// Returns its tool calls; empty for every role but the assistant's.
    pub fn calls(&self) -> &[ToolCall] {
        match &self.body {
            Body::Assistant { calls, .. } => calls,
            Body::System(_) | Body::User(_) | Body::Tool(_) => &[],
        }
    }

    /// Checks whether it starts a turn: a user message that the user made, rather than compaction or another
    /// author.
    pub fn starts_turn(&self) -> bool {
        matches!(self.body, Body::User(_)) && !self.is_compacted && self.note_by().is_none()
    }

    /// Returns its author, if it is a [`Self::note`].
    pub fn note_by(&self) -> Option<&str> {
        self.metadata.get(NOTE_BY)?.as_str()
    }

    /// Returns the message with `content` instead; calls, call id and everything known about it stay.
    #[must_use]
    pub fn with_content(&self, content: impl Into<Content>) -> Self {
        let content = content.into();
        let body = match &self.body {
            Body::System(_) => Body::System(content),
            Body::User(_) => Body::User(content),
            Body::Assistant { calls, .. } => Body::Assistant { content: Some(content), calls: calls.clone() },
            Body::Tool(ToolResult { call_id, name, content: _, is_error }) => Body::Tool(ToolResult {
                call_id: call_id.clone(),
                name: name.clone(),
                content,
                is_error: *is_error,
            }),
        };
        // The text that goes may be long, so it is not copied first.
        let Self { body: _, timestamp, metadata, is_compacted, extra } = self;
        Self {
            body,
            timestamp: *timestamp,
            metadata: metadata.clone(),
            is_compacted: *is_compacted,
            extra: extra.clone(),
        }
    }
}
