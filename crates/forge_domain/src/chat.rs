//! What a provider streams, and the reply that the pieces add up to.

use serde_json::json;

use crate::{Body, Content, Message, ProviderError, ToolCall, ToolName, Usage};

/// One piece of a streamed reply.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChatCompletionMessage {
    /// Text that follows.
    pub content: Option<String>,
    /// Reasoning that follows, where the provider shows it.
    pub reasoning: Option<String>,
    /// Pieces of tool calls.
    pub tool_calls: Vec<ToolCallPart>,
    /// What the call consumed, once known; a later figure replaces an earlier one.
    pub usage: Option<Usage>,
    /// Why the model stopped, in the piece that ends the reply.
    pub finish_reason: Option<FinishReason>,
}

/// A piece of one tool call. Pieces of one call share their index.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolCallPart {
    /// Which call of the reply.
    pub index: usize,
    /// Its id, in the piece that opens it.
    pub id: Option<String>,
    /// The tool, in the piece that opens it.
    pub name: Option<String>,
    /// More of the arguments' text.
    pub arguments: String,
}

/// Why a model stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FinishReason {
    /// It was done.
    Stop,
    /// It wants tools run.
    ToolCalls,
    /// It reached the limit of its output.
    Length,
    /// The provider withheld the rest.
    ContentFilter,
    /// Another word of the provider's.
    Other(String),
}

/// A whole reply.
#[derive(Clone, Debug, PartialEq)]
pub struct Reply {
    /// The assistant message. Reasoning is in its metadata, under `reasoning`.
    pub message: Message,
    /// What the call consumed, where the provider said it.
    pub usage: Option<Usage>,
    /// Why the model stopped.
    pub finish_reason: FinishReason,
}

/// Adds pieces up to a reply.
#[derive(Debug, Default)]
pub struct ReplyParts {
    content: String,
    reasoning: String,
    calls: Vec<ToolCallPart>,
    usage: Option<Usage>,
    finish_reason: Option<FinishReason>,
}

impl ReplyParts {
    /// Takes in the next piece.
    pub fn push(&mut self, piece: ChatCompletionMessage) {
        self.content.push_str(piece.content.as_deref().unwrap_or_default());
        self.reasoning.push_str(piece.reasoning.as_deref().unwrap_or_default());
        for part in piece.tool_calls {
            match self.calls.iter_mut().find(|call| call.index == part.index) {
                Some(call) => {
                    call.id = call.id.take().or(part.id);
                    call.name = call.name.take().or(part.name);
                    call.arguments.push_str(&part.arguments);
                }
                None => self.calls.push(part),
            }
        }
        self.usage = piece.usage.or(self.usage);
        self.finish_reason = piece.finish_reason.or(self.finish_reason.take());
    }

    /// The whole reply.
    ///
    /// # Errors
    /// [`ProviderError::Truncated`] where no piece said that the reply ends;
    /// [`ProviderError::Malformed`] where a call names no tool.
    pub fn finish(self) -> Result<Reply, ProviderError> {
        let finish_reason = self.finish_reason.ok_or(ProviderError::Truncated)?;
        let calls = self.calls.into_iter().map(whole_call).collect::<Result<Vec<_>, _>>()?;
        let content = (!self.content.is_empty()).then_some(Content::Text(self.content));
        let mut message = Message::new(Body::Assistant { content, calls });
        if !self.reasoning.is_empty() {
            message.metadata.insert("reasoning".into(), json!(self.reasoning));
        }
        Ok(Reply { message, usage: self.usage, finish_reason })
    }
}

fn whole_call(part: ToolCallPart) -> Result<ToolCall, ProviderError> {
    let name = part.name.and_then(|name| ToolName::new(name).ok()).ok_or_else(|| {
        ProviderError::Malformed { what: format!("tool call {} names no tool", part.index) }
    })?;
    let arguments = if part.arguments.is_empty() { "{}".to_owned() } else { part.arguments };
    Ok(ToolCall { id: part.id.unwrap_or_else(|| format!("call_{}", part.index)), name, arguments })
}
