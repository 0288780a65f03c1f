//! One entry of a conversation: what was said, by whom, and the tool calls and results in it.

use std::borrow::Cow;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::ToolName;

/// The key of [`Message::extra`] that holds an assistant's reasoning as blocks of Anthropic's messages, signatures
/// included. They travel with the message or not at all.
pub const THINKING_BLOCKS: &str = "thinking_blocks";

/// The key of [`Message::metadata`] that says how many tokens a message has beside what can be read of it: reasoning that
/// its recording keeps to itself. An estimate by whoever read it; the only fact there that counts.
pub const HIDDEN_TOKENS: &str = "hidden_tokens";

/// The key of [`Message::metadata`] that says who, but for the person, made a user message: a hook, or the loop itself. Such a
/// message is no turn.
pub const NOTE_BY: &str = "note_by";
/// The key of [`Message::metadata`] that lists the agents' answers at the end of a user message, as `AGENT/TAG`.
pub(crate) const ANSWERS: &str = "transformed";

/// Who speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Standing instructions.
    System,
    /// The person, or whoever acts for them.
    User,
    /// The model.
    Assistant,
    /// A tool, answering one call.
    Tool,
}

impl Role {
    /// Whether a turn of it is the user's, by the protocols that have but two sides: results are. `None` for what they
    /// have apart from the turns.
    pub(crate) const fn is_users(self) -> Option<bool> {
        match self {
            Self::System => None,
            Self::User | Self::Tool => Some(true),
            Self::Assistant => Some(false),
        }
    }

    /// The role's word, as every protocol spells it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::User => "user",
            Self::Assistant => "assistant",
            Self::Tool => "tool",
        }
    }
}

/// What a message says: one text, or parts of several kinds.
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
    /// The texts in order, joined by a newline; media are left out.
    pub fn to_text(&self) -> String {
        self.text().into_owned()
    }

    /// The same without a copy, where it is one text.
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

    /// Whether there is neither a text nor any other part.
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

/// What a tool answered to one call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResult {
    /// The id of the call that this answers.
    pub call_id: String,
    /// The tool, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<ToolName>,
    /// What it answered.
    pub content: Content,
    /// Whether the tool said that it failed.
    #[serde(default)]
    pub is_error: bool,
}

impl ToolResult {
    /// A result that answers `call` with `content`.
    pub fn answer(call: &ToolCall, content: impl Into<Content>) -> Self {
        Self {
            call_id: call.id.clone(),
            name: Some(call.name.clone()),
            content: content.into(),
            is_error: false,
        }
    }

    /// A result that tells the model why `call` failed.
    pub fn error(call: &ToolCall, why: impl Into<Content>) -> Self {
        Self { is_error: true, ..Self::answer(call, why) }
    }
}

/// What a message is, by who says it. A tool result cannot be without its call's id, nor a user with calls.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Body {
    /// Standing instructions.
    System(Content),
    /// What the person says.
    User(Content),
    /// What the model says and wants run.
    Assistant {
        /// What it says; `None` where it only calls.
        content: Option<Content>,
        /// The calls, in the model's order.
        calls: Vec<ToolCall>,
    },
    /// What a tool answers.
    Tool(ToolResult),
}

/// One message: its body, and what is known about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Message {
    /// What it is.
    pub body: Body,
    /// When it was made, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Timestamp>,
    /// Facts of ours about it; never sent to a provider; only [`HIDDEN_TOKENS`] is counted.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
    /// Whether compaction made it in the place of others (a summary, a record, an omission marker).
    /// Such a message is no turn and neither first nor latest user message, and may be folded again.
    #[serde(default)]
    pub is_compacted: bool,
    /// Keys of the provider's message that are not ours (reasoning, signatures, names): sent back as they came.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub extra: Map<String, Value>,
}

impl AsRef<Self> for Message {
    fn as_ref(&self) -> &Self {
        self
    }
}

impl Message {
    /// A message with that body and nothing else known.
    pub fn new(body: Body) -> Self {
        Self { body, timestamp: None, metadata: Map::new(), is_compacted: false, extra: Map::new() }
    }

    /// A system message.
    pub fn system(content: impl Into<Content>) -> Self {
        Self::new(Body::System(content.into()))
    }

    /// A user message.
    pub fn user(content: impl Into<Content>) -> Self {
        Self::new(Body::User(content.into()))
    }

    /// A user message by which `by`, who is not the person, tells the model something: no turn, and neither first nor latest
    /// user message.
    pub fn note(by: impl Into<String>, text: impl Into<Content>) -> Self {
        let mut note = Self::user(text);
        note.metadata.insert(NOTE_BY.to_owned(), Value::String(by.into()));
        note
    }

    /// An assistant message without calls.
    pub fn assistant(content: impl Into<Content>) -> Self {
        Self::new(Body::Assistant { content: Some(content.into()), calls: Vec::new() })
    }

    /// An assistant message that calls tools and says nothing.
    pub fn calling(calls: Vec<ToolCall>) -> Self {
        Self::new(Body::Assistant { content: None, calls })
    }

    /// A tool result.
    pub fn tool(result: ToolResult) -> Self {
        Self::new(Body::Tool(result))
    }

    /// The same message, marked as made by compaction.
    #[must_use]
    pub fn compacted(self) -> Self {
        Self { is_compacted: true, ..self }
    }

    /// The same message, made at `timestamp`.
    #[must_use]
    pub fn at(self, timestamp: Timestamp) -> Self {
        Self { timestamp: Some(timestamp), ..self }
    }

    /// Who says it.
    pub const fn role(&self) -> Role {
        match self.body {
            Body::System(_) => Role::System,
            Body::User(_) => Role::User,
            Body::Assistant { .. } => Role::Assistant,
            Body::Tool(_) => Role::Tool,
        }
    }

    /// What it says, where it says anything.
    pub const fn content(&self) -> Option<&Content> {
        match &self.body {
            Body::System(content) | Body::User(content) => Some(content),
            Body::Assistant { content, .. } => content.as_ref(),
            Body::Tool(result) => Some(&result.content),
        }
    }

    /// Every text that it says; empty where it says nothing.
    pub fn to_text(&self) -> String {
        self.text().into_owned()
    }

    /// The same without a copy, where it is one text.
    pub(crate) fn text(&self) -> Cow<'_, str> {
        self.content().map(Content::text).unwrap_or_default()
    }

    /// Returns what the person said, without the answers of agents that a transform put behind it.
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

    /// The tool calls in it; empty for every role but the assistant's.
    pub fn calls(&self) -> &[ToolCall] {
        match &self.body {
            Body::Assistant { calls, .. } => calls,
            Body::System(_) | Body::User(_) | Body::Tool(_) => &[],
        }
    }

    /// Whether it starts a turn: a user message that neither compaction nor anybody else but the person made.
    pub fn starts_turn(&self) -> bool {
        matches!(self.body, Body::User(_)) && !self.is_compacted && self.note_by().is_none()
    }

    /// Who made it, where it is a [`Self::note`].
    pub fn note_by(&self) -> Option<&str> {
        self.metadata.get(NOTE_BY)?.as_str()
    }

    /// The same message saying `content` instead; calls, call id and everything known about it stay.
    #[must_use]
    pub fn with_content(&self, content: impl Into<Content>) -> Self {
        let content = content.into();
        let body = match &self.body {
            Body::System(_) => Body::System(content),
            Body::User(_) => Body::User(content),
            Body::Assistant { calls, .. } => Body::Assistant { content: Some(content), calls: calls.clone() },
            Body::Tool(result) => Body::Tool(ToolResult { content, ..result.clone() }),
        };
        Self { body, ..self.clone() }
    }
}
