//! The protocol of a reply: an address that is configured as of another kind replies well, but without
//! content.

use serde_json::Value;

/// A protocol that model servers answer in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// OpenAI's chat completions.
    OpenAi,
    /// Anthropic's messages.
    Anthropic,
    /// Ollama's chat.
    Ollama,
    /// OpenAI's completions of plain text, which came before the chat.
    Completions,
    /// OpenAI's responses.
    Responses,
    /// Gemini's own.
    Gemini,
}

impl Protocol {
    /// Returns the protocol's name as the `kind` of a provider, if it can be one.
    pub const fn kind(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("openai-chat"),
            Self::Anthropic => Some("anthropic"),
            Self::Ollama => Some("ollama"),
            Self::Responses => Some("responses"),
            Self::Gemini => Some("gemini"),
            Self::Completions => None,
        }
    }

    /// Returns the protocol's name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::OpenAi => "OpenAI's chat protocol",
            Self::Anthropic => "Anthropic's messages protocol",
            Self::Ollama => "Ollama's own protocol",
            Self::Completions => "OpenAI's protocol for plain completions",
            Self::Responses => "OpenAI's responses protocol",
            Self::Gemini => "Gemini's own protocol",
        }
    }

    /// Recognizes the protocol of `value`, a reply or an event; `None` if it could be of several.
    pub(crate) fn of(value: &Value) -> Option<Self> {
        let word = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default();
        let has = |key: &str, is: fn(&Value) -> bool| value.get(key).is_some_and(is);
        if has("choices", Value::is_array) {
            let is_text = |choice: &Value| {
                choice.get("text").is_some_and(Value::is_string)
                    && choice.get("delta").is_none()
                    && choice.get("message").is_none()
            };
            let is_plain = value["choices"].as_array().into_iter().flatten().any(is_text);
            return Some(if is_plain { Self::Completions } else { Self::OpenAi });
        }
        match word("type") {
            "message_start"
            | "message_delta"
            | "message_stop"
            | "content_block_start"
            | "content_block_delta"
            | "content_block_stop" => return Some(Self::Anthropic),
            "message" if has("content", Value::is_array) => return Some(Self::Anthropic),
            kind if kind.starts_with("response.") => return Some(Self::Responses),
            _ => {}
        }
        if word("object") == "response" {
            return Some(Self::Responses);
        }
        if has("message", Value::is_object) && has("done", Value::is_boolean) {
            return Some(Self::Ollama);
        }
        let is_gemini = has("candidates", Value::is_array)
            || has("usageMetadata", Value::is_object)
            || has("promptFeedback", Value::is_object);
        is_gemini.then_some(Self::Gemini)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::{StreamEvent, WireError, anthropic, gemini, ollama, openai, responses};

    #[test]
    fn an_answer_of_another_protocol_is_known_for_what_it_is() {
        let chunk =
            json!({"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": "hi"}}]});
        let usage = json!({"choices": [], "usage": {"prompt_tokens": 1}});
        let completion = json!({"object": "text_completion", "choices": [{"index": 0, "text": "hi"}]});
        let start = json!({"type": "message_start", "message": {"usage": {}}});
        let delta =
            json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "hi"}});
        let message =
            json!({"type": "message", "role": "assistant", "content": [{"type": "text", "text": "hi"}]});
        let line = json!({"model": "m", "message": {"role": "assistant", "content": "hi"}, "done": false});
        let created = json!({"type": "response.created", "response": {}});
        let response = json!({"object": "response", "output": []});
        let candidates = json!({"candidates": [{"content": {"parts": [{"text": "hi"}]}}]});
        for (value, expected) in [
            (&chunk, Some(Protocol::OpenAi)),
            (&usage, Some(Protocol::OpenAi)),
            (&completion, Some(Protocol::Completions)),
            (&start, Some(Protocol::Anthropic)),
            (&delta, Some(Protocol::Anthropic)),
            (&message, Some(Protocol::Anthropic)),
            (&line, Some(Protocol::Ollama)),
            (&created, Some(Protocol::Responses)),
            (&response, Some(Protocol::Responses)),
            (&candidates, Some(Protocol::Gemini)),
            (&json!({"promptFeedback": {"blockReason": "SAFETY"}}), Some(Protocol::Gemini)),
            (&json!({"usageMetadata": {"promptTokenCount": 1}}), Some(Protocol::Gemini)),
            // Of any protocol, or of what is added to one.
            (&json!({"type": "ping"}), None),
            (&json!({"type": "never_seen", "index": 3}), None),
            (&json!({"status": "pulling"}), None),
            (&json!({}), None),
        ] {
            assert_eq!(Protocol::of(value), expected, "{value}");
            // Each reader accepts its own, and refuses the others by name: as an event and as a complete
            // reply.
            let text = value.to_string();
            for (own, streamed, whole) in [
                (
                    Protocol::OpenAi,
                    openai::OpenAiReplyReader::default().read(&text).map(drop),
                    openai::read_answer(text.as_bytes()).map(drop),
                ),
                (
                    Protocol::Anthropic,
                    anthropic::AnthropicReplyReader::default().read(&text).map(drop),
                    anthropic::read_answer(text.as_bytes()).map(drop),
                ),
                (
                    Protocol::Responses,
                    responses::ResponsesReplyReader::default().read(&text).map(drop),
                    responses::read_answer(text.as_bytes()).map(drop),
                ),
                (
                    Protocol::Ollama,
                    ollama::OllamaReplyReader::default().read(&text).map(drop),
                    ollama::read_answer(text.as_bytes()).map(drop),
                ),
                (
                    Protocol::Gemini,
                    gemini::GeminiReplyReader::default().read(&text).map(drop),
                    gemini::read_answer(text.as_bytes()).map(drop),
                ),
            ] {
                let foreign = |read: Result<(), WireError>| match read {
                    Err(WireError::Foreign { protocol }) => Some(protocol),
                    _ => None,
                };
                let other = expected.filter(|spoken| *spoken != own);
                assert_eq!((foreign(streamed), foreign(whole)), (other, other), "{own:?} reads {value}");
            }
        }
    }

    #[test]
    fn lines_in_another_framing_are_read_by_what_they_say() {
        let read = |line: &str| ollama::OllamaReplyReader::default().read(line);
        for silent in ["event: message_start", ": waiting", "retry: 3000"] {
            assert!(
                matches!(read(silent), Ok(StreamEvent::Piece(piece)) if piece.content.is_none()),
                "{silent}"
            );
        }
        let own = read(r#"data: {"message": {"content": "hi"}, "done": false}"#).unwrap();
        assert!(matches!(own, StreamEvent::Piece(piece) if piece.content.as_deref() == Some("hi")));
        assert_eq!(read("data: [DONE]").unwrap(), StreamEvent::Done);
        let foreign = read(r#"data: {"choices": []}"#).unwrap_err();
        assert_eq!(foreign.to_string(), "it is an answer in OpenAI's chat protocol");
    }
}
