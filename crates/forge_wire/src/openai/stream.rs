//! The events of a streamed answer.

use forge_domain::ChatCompletionMessage;
use serde_json::Value;

use super::answer::{finish_reason, first_choice, said, usage};
use super::error_body::refused;
use crate::WireError;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
pub enum StreamEvent {
    /// More of the reply; may be empty of everything.
    Piece(ChatCompletionMessage),
    /// The end: `[DONE]`.
    Done,
}

/// Reads the data of one server-sent event, joined where it came in several lines.
///
/// # Errors
/// [`WireError::Refused`] where the event is the server's error; [`WireError::Json`] and [`WireError::Shape`] where it
/// is no event of this protocol.
pub fn read_event(data: &str) -> Result<StreamEvent, WireError> {
    if data.trim() == "[DONE]" {
        return Ok(StreamEvent::Done);
    }
    let chunk: Value = serde_json::from_str(data).map_err(WireError::json)?;
    if !chunk.is_object() {
        return Err(WireError::shape("event", "must be an object"));
    }
    if let Some(refused) = refused(&chunk) {
        return Err(refused);
    }
    let choice = first_choice(&chunk);
    let mut piece = choice.and_then(|choice| choice.get("delta")).map(said).unwrap_or_default();
    piece.finish_reason = choice.and_then(finish_reason);
    piece.usage = usage(&chunk);
    Ok(StreamEvent::Piece(piece))
}

#[cfg(test)]
mod tests {
    use forge_domain::{FinishReason, Tokens, ToolCallPart, Usage};
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn events_are_pieces_until_done() {
        let none = ChatCompletionMessage::default();
        let piece = |piece| StreamEvent::Piece(piece);
        let more = ToolCallPart { index: 1, arguments: "{\"a\"".into(), ..ToolCallPart::default() };
        let usage = Usage {
            prompt_tokens: Tokens::new(9),
            completion_tokens: Tokens::new(2),
            cached_tokens: Tokens::ZERO,
        };
        for (data, expected) in [
            ("[DONE]", StreamEvent::Done),
            (" [DONE]\n", StreamEvent::Done),
            (r#"{"choices": []}"#, piece(none.clone())),
            (
                r#"{"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]}"#,
                piece(none.clone()),
            ),
            (r#"{"choices": [{"index": 1, "delta": {"content": "other"}}]}"#, piece(none.clone())),
            (
                r#"{"choices": [{"index": 0, "delta": {"content": "hi"}, "finish_reason": null}], "usage": null}"#,
                piece(ChatCompletionMessage { content: Some("hi".into()), ..none.clone() }),
            ),
            (
                r#"{"choices": [{"delta": {"tool_calls": [{"index": 1, "function": {"arguments": "{\"a\""}}]}}]}"#,
                piece(ChatCompletionMessage { tool_calls: vec![more], ..none.clone() }),
            ),
            (
                r#"{"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]}"#,
                piece(ChatCompletionMessage { finish_reason: Some(FinishReason::Length), ..none.clone() }),
            ),
            (
                r#"{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 2}}"#,
                piece(ChatCompletionMessage { usage: Some(usage), ..none }),
            ),
        ] {
            assert_eq!(read_event(data).unwrap(), expected, "{data}");
        }
    }

    #[test]
    fn errors_inside_a_stream_are_the_servers_words() {
        for (data, expected) in [
            (
                r#"{"error": {"code": 500, "message": "out of memory"}}"#,
                "the server answers with an error: out of memory",
            ),
            (r#"{"error": "overloaded", "choices": []}"#, "the server answers with an error: overloaded"),
            (r#"{"object": "error", "message": "too long"}"#, "the server answers with an error: too long"),
            ("[1]", "`event` must be an object"),
            ("{", "not JSON: EOF while parsing an object at line 1 column 1"),
        ] {
            assert_eq!(read_event(data).unwrap_err().to_string(), expected, "{data}");
        }
    }
}
