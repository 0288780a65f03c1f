//! The protocols in which models are asked.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The protocol that a provider speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProviderKind {
    /// OpenAI's responses at OpenAI's own address, and its chat completions everywhere else.
    OpenAi,
    /// OpenAI's chat completions at any address; most servers offer them.
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    /// OpenAI's responses at any address.
    Responses,
    /// Anthropic's messages.
    Anthropic,
    /// Ollama's own chat, in which the window can be read and set.
    Ollama,
    /// Gemini's own, of the Gemini API and of Vertex AI.
    Gemini,
}

impl fmt::Display for ProviderKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OpenAi => "openai",
            Self::OpenAiChat => "openai-chat",
            Self::Responses => "responses",
            Self::Anthropic => "anthropic",
            Self::Ollama => "ollama",
            Self::Gemini => "gemini",
        })
    }
}
