//! A model's reply: the parts that a complete reply and the pieces of a stream have in common.

use forge_domain::{ChatCompletionMessage, FinishReason, Tokens, ToolCallPart, Usage};
use serde_json::Value;

use super::OpenAiReplyReader;
use super::message::arguments_text;
use crate::error_body::refused;
use crate::{Protocol, WireError};

/// Reads the body of a complete, unstreamed reply as one piece. Of several choices, it reads the first.
///
/// # Errors
/// [`WireError::Refused`] if the body is an error under a good status; [`WireError::Json`] and
/// [`WireError::Shape`] if it is not an answer of this protocol.
pub fn read_answer(body: &[u8]) -> Result<ChatCompletionMessage, WireError> {
    let answer: Value = serde_json::from_slice(body).map_err(WireError::json)?;
    if let Some(refused) = refused(&answer) {
        return Err(WireError::refused(refused));
    }
    WireError::foreign(&answer, Protocol::OpenAi)?;
    let choice = first_choice(&answer).ok_or_else(|| WireError::shape("choices", "holds no first choice"))?;
    let message = choice
        .get("message")
        .filter(|message| message.is_object())
        .ok_or_else(|| WireError::shape("choices[0].message", "must be an object"))?;
    let mut piece = OpenAiReplyReader::default().message(message, Stage::Last);
    piece.usage = usage(&answer);
    // A complete reply has ended, whether or not the server reports it.
    piece.finish_reason = Some(finish_reason(choice).unwrap_or(FinishReason::Stop));
    Ok(piece)
}

/// A position in a message: more follows, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It may.
    More,
    /// It does not.
    Last,
}

/// Returns the first choice. Others exist only if a request asks for several, and ours do not.
pub(super) fn first_choice(answer: &Value) -> Option<&Value> {
    let first = |choice: &&Value| choice.get("index").and_then(Value::as_u64).unwrap_or(0) == 0;
    answer.get("choices")?.as_array()?.iter().find(first)
}

/// Reads the content of a message or of a delta.
pub(super) fn read_content(message: &Value) -> ChatCompletionMessage {
    let (mut content, mut reasoning) = match message.get("content") {
        Some(Value::Array(parts)) => texts(parts),
        content => (text(content), None),
    };
    // A refusal takes the place of the content.
    content = content.or_else(|| text(message.get("refusal")));
    reasoning = reasoning
        .or_else(|| text(message.get("reasoning_content")))
        .or_else(|| text(message.get("reasoning")));
    ChatCompletionMessage {
        content,
        reasoning,
        tool_calls: calls(message),
        ..ChatCompletionMessage::default()
    }
}

/// Returns the reason the model stopped, once the choice has it.
pub(super) fn finish_reason(choice: &Value) -> Option<FinishReason> {
    let word = text(choice.get("finish_reason"))?;
    Some(match word.as_str() {
        "stop" => FinishReason::Stop,
        "tool_calls" | "function_call" => FinishReason::ToolCalls,
        "length" => FinishReason::Length,
        // Mistral's word, and Anthropic's own if a gateway passes it on.
        "model_length" | "model_context_window_exceeded" => FinishReason::Window,
        "content_filter" => FinishReason::ContentFilter,
        _ => FinishReason::Other(word),
    })
}

/// Returns the usage of the call. Groq's streams report it under `x_groq`, Moonshot's in the choice, and
/// DeepSeek has its own name for cached tokens.
pub(super) fn usage(answer: &Value) -> Option<Usage> {
    let usage = ["/usage", "/x_groq/usage", "/choices/0/usage"]
        .into_iter()
        .find_map(|place| answer.pointer(place).filter(|usage| usage.is_object()))?;
    let tokens = |place: &str| usage.pointer(place).and_then(Value::as_u64).map(Tokens::new);
    Some(Usage {
        prompt_tokens: tokens("/prompt_tokens")?,
        completion_tokens: tokens("/completion_tokens").unwrap_or(Tokens::ZERO),
        cached_tokens: tokens("/prompt_tokens_details/cached_tokens")
            .or_else(|| tokens("/prompt_cache_hit_tokens"))
            .unwrap_or(Tokens::ZERO),
        cache_written_tokens: tokens("/prompt_tokens_details/cache_write_tokens")
            .or_else(|| tokens("/cache_creation_input_tokens"))
            .unwrap_or(Tokens::ZERO),
    })
}

/// Reads content and reasoning of a reply in parts, as Mistral's reasoning models send it.
fn texts(parts: &[Value]) -> (Option<String>, Option<String>) {
    let (mut content, mut reasoning) = (String::new(), String::new());
    for part in parts {
        content.push_str(part.get("text").and_then(Value::as_str).unwrap_or_default());
        for thought in part.get("thinking").and_then(Value::as_array).into_iter().flatten() {
            reasoning.push_str(thought.get("text").and_then(Value::as_str).unwrap_or_default());
        }
    }
    let some = |text: String| (!text.is_empty()).then_some(text);
    (some(content), some(reasoning))
}

fn calls(message: &Value) -> Vec<ToolCallPart> {
    if let Some(function @ Value::Object(_)) = message.get("function_call") {
        return vec![call(function, None, 0)];
    }
    let raw = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let calls = raw.iter().enumerate().map(|(position, raw)| {
        let function = raw.get("function").unwrap_or(&Value::Null);
        let index = raw.get("index").and_then(Value::as_u64).and_then(|index| usize::try_from(index).ok());
        call(function, text(raw.get("id")), index.unwrap_or(position))
    });
    calls.collect()
}

fn call(function: &Value, id: Option<String>, index: usize) -> ToolCallPart {
    // An empty string is not text yet, rather than an empty object: the rest may be in the next pieces.
    let said = function.get("arguments").filter(|arguments| !arguments.is_null());
    let arguments = said.and_then(|arguments| arguments_text(Some(arguments))).unwrap_or_default();
    ToolCallPart { index, id, name: text(function.get("name")), arguments }
}

/// Returns a text that is not empty.
fn text(value: Option<&Value>) -> Option<String> {
    value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    fn stopped(piece: ChatCompletionMessage) -> ChatCompletionMessage {
        ChatCompletionMessage { finish_reason: Some(FinishReason::Stop), ..piece }
    }

    fn content(text: &str) -> ChatCompletionMessage {
        ChatCompletionMessage { content: Some(text.into()), ..ChatCompletionMessage::default() }
    }

    fn part(index: usize, id: Option<&str>, name: &str, arguments: &str) -> ToolCallPart {
        ToolCallPart { index, id: id.map(Into::into), name: Some(name.into()), arguments: arguments.into() }
    }

    #[test]
    fn a_message_of_any_dialect_is_one_piece() {
        let none = ChatCompletionMessage::default();
        let function = json!({"name": "f", "arguments": "{}"});
        for (name, message, expected) in [
            ("text", json!({"role": "assistant", "content": "hi"}), content("hi")),
            ("null", json!({"content": null, "tool_calls": null}), none.clone()),
            ("refusal", json!({"content": null, "refusal": "no"}), content("no")),
            (
                "reasoning_content",
                json!({"content": "hi", "reasoning_content": "hm"}),
                ChatCompletionMessage { reasoning: Some("hm".into()), ..content("hi") },
            ),
            (
                "reasoning",
                json!({"content": "hi", "reasoning": "hm"}),
                ChatCompletionMessage { reasoning: Some("hm".into()), ..content("hi") },
            ),
            (
                "parts",
                json!({"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
                    {"type": "text", "text": "hi"}]}),
                ChatCompletionMessage { reasoning: Some("hm".into()), ..content("hi") },
            ),
            (
                "calls without index, id, or with an object",
                json!({"content": "", "tool_calls": [
                    {"id": "c1", "function": function},
                    {"function": {"name": "g", "arguments": {"a": 1}}},
                    {"id": "", "index": 7, "function": {"name": "h", "arguments": null}}]}),
                ChatCompletionMessage {
                    tool_calls: vec![
                        part(0, Some("c1"), "f", "{}"),
                        part(1, None, "g", "{\"a\":1}"),
                        part(7, None, "h", ""),
                    ],
                    ..none.clone()
                },
            ),
            (
                "function_call",
                json!({"content": null, "function_call": function}),
                ChatCompletionMessage { tool_calls: vec![part(0, None, "f", "{}")], ..none },
            ),
        ] {
            let body = json!({"choices": [{"index": 0, "message": message}]}).to_string();
            let actual = read_answer(body.as_bytes()).unwrap();
            assert_eq!(actual, stopped(expected), "{name}");
        }
    }

    #[test]
    fn finish_reasons_are_told_apart() {
        for (word, expected) in [
            (json!("stop"), FinishReason::Stop),
            (json!("tool_calls"), FinishReason::ToolCalls),
            (json!("function_call"), FinishReason::ToolCalls),
            (json!("length"), FinishReason::Length),
            (json!("model_length"), FinishReason::Window),
            (json!("content_filter"), FinishReason::ContentFilter),
            (json!("overloaded"), FinishReason::Other("overloaded".into())),
            (json!(null), FinishReason::Stop),
        ] {
            let body =
                json!({"choices": [{"message": {"content": "hi"}, "finish_reason": word}]}).to_string();
            let actual = read_answer(body.as_bytes()).unwrap().finish_reason;
            assert_eq!(actual, Some(expected));
        }
    }

    #[test]
    fn usage_is_found_in_every_dialect() {
        let figures = |prompt, completion, cached| {
            Some(Usage {
                prompt_tokens: Tokens::new(prompt),
                completion_tokens: Tokens::new(completion),
                cached_tokens: Tokens::new(cached),
                cache_written_tokens: Tokens::ZERO,
            })
        };
        for (answer, expected) in [
            (json!({"usage": null}), None),
            (json!({"usage": {}}), None),
            (json!({"usage": {"prompt_tokens": 9, "completion_tokens": 2}}), figures(9, 2, 0)),
            (json!({"usage": {"prompt_tokens": 9, "prompt_tokens_details": null}}), figures(9, 0, 0)),
            (
                json!({"usage": {"prompt_tokens": 9, "completion_tokens": 2,
                    "prompt_tokens_details": {"cached_tokens": 4}}}),
                figures(9, 2, 4),
            ),
            (json!({"usage": {"prompt_tokens": 9, "prompt_cache_hit_tokens": 3}}), figures(9, 0, 3)),
            (json!({"x_groq": {"usage": {"prompt_tokens": 9, "completion_tokens": 2}}}), figures(9, 2, 0)),
            (json!({"choices": [{"usage": {"prompt_tokens": 9, "completion_tokens": 2}}]}), figures(9, 2, 0)),
        ] {
            assert_eq!(usage(&answer), expected, "{answer}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        for (body, expected) in [
            ("", "not JSON: EOF while parsing a value at line 1 column 0"),
            ("{}", "`choices` holds no first choice"),
            (r#"{"choices": [{"message": "hi"}]}"#, "`choices[0].message` must be an object"),
            (r#"{"error": {"message": "busy"}}"#, "the server answers with an error: busy"),
        ] {
            let actual = read_answer(body.as_bytes()).unwrap_err().to_string();
            assert_eq!(actual, expected);
        }
    }
}
