//! A model's reply: a complete message, or the events of a stream that form one.

use forge_domain::{ChatCompletionMessage, FinishReason, ToolCallPart};
use serde_json::{Map, Value, json};

use super::form;
use super::piece::{finish_reason, first_choice, read_content, usage};
use crate::end_tokens::EndTokens;
use crate::error_body::refused;
use crate::leading_thoughts::LeadingThoughts;
use crate::{Protocol, StreamEvent, WireError};

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
    let mut reader = OpenAiReplyReader::default();
    let mut piece = reader.message(message, Stage::Last);
    piece.usage = usage(&answer);
    // A complete reply has ended, whether or not the server reports it.
    piece.finish_reason = Some(finish_reason(choice).unwrap_or(FinishReason::Stop));
    reader.thoughts.take_from(&mut piece);
    reader.ends.take_from(&mut piece);
    Ok(piece)
}

/// A position in a message: more follows, or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// It may.
    More,
    /// It does not.
    Last,
}

/// A reader of the events of one stream, in order. It collects what the server wants back with the message:
/// signed reasoning details of routers, the reasoning that led to calls, and signatures on calls.
#[derive(Debug, Default)]
pub struct OpenAiReplyReader {
    /// `reasoning_content` so far.
    reasoning: String,
    /// `reasoning` so far: the same by another name.
    named_reasoning: String,
    /// `reasoning_details` so far.
    details: Vec<Value>,
    calls: Vec<ToolCallPart>,
    /// The special parts of each call.
    extras: Vec<Map<String, Value>>,
    /// Thoughts in the text, from a server that does not tell them apart. They are not sent back.
    thoughts: LeadingThoughts,
    ends: EndTokens,
}

impl OpenAiReplyReader {
    /// Reads the data of one server-sent event, joined if it came in several lines.
    ///
    /// # Errors
    /// [`WireError::Refused`] if the event is the server's error; [`WireError::Json`] and
    /// [`WireError::Shape`] if it is not an event of this protocol.
    pub fn read(&mut self, data: &str) -> Result<StreamEvent, WireError> {
        if data.trim() == "[DONE]" {
            return Ok(StreamEvent::Done);
        }
        let chunk: Value = serde_json::from_str(data).map_err(WireError::json)?;
        if !chunk.is_object() {
            return Err(WireError::shape("event", "must be an object"));
        }
        if let Some(refused) = refused(&chunk) {
            return Err(WireError::refused(refused));
        }
        WireError::foreign(&chunk, Protocol::OpenAi)?;
        let choice = first_choice(&chunk);
        let finish_reason = choice.and_then(finish_reason);
        let stage = if finish_reason.is_some() { Stage::Last } else { Stage::More };
        let delta = choice.and_then(|choice| choice.get("delta")).unwrap_or(&Value::Null);
        let mut piece = self.message(delta, stage);
        // Once is enough, and speed does not matter for the last piece.
        piece.model = finish_reason.as_ref().and_then(|_| chunk.get("model")?.as_str().map(str::to_owned));
        piece.finish_reason = finish_reason;
        piece.usage = usage(&chunk);
        self.thoughts.take_from(&mut piece);
        self.ends.take_from(&mut piece);
        Ok(StreamEvent::Piece(piece))
    }

    /// Reads a message, or the delta of one.
    fn message(&mut self, message: &Value, stage: Stage) -> ChatCompletionMessage {
        let mut piece = read_content(message);
        self.gather(message, &piece.tool_calls);
        let has_calls = !piece.tool_calls.is_empty();
        let is_some = |value: &Value| !value.is_null() && value.as_str() != Some("");
        let has = |key: &str| message.get(key).is_some_and(is_some);
        let has_reasoning = has("reasoning_content") || has("reasoning") || has("reasoning_details");
        // A stream that breaks off after a call has reported it by then. Repeating all of it with each piece
        // of the arguments would take time that grows with the square of their length.
        let opens_call = piece.tool_calls.iter().any(|call| call.name.is_some());
        if opens_call || (has_calls && has_reasoning) || stage == Stage::Last {
            if !self.details.is_empty() {
                piece.extra.insert("reasoning_details".into(), json!(self.details));
            }
            // Without calls, no server wants it back, and some refuse it. Each reads it by its own name.
            let (key, text) = match self.reasoning.is_empty() {
                true => ("reasoning", &self.named_reasoning),
                false => ("reasoning_content", &self.reasoning),
            };
            let is_in_details = key == "reasoning" && !self.details.is_empty();
            if !self.calls.is_empty() && !text.is_empty() && !is_in_details {
                piece.extra.insert(key.into(), json!(text));
            }
        }
        if has_calls && self.extras.iter().any(|extra| !extra.is_empty()) {
            let calls = self.extras.iter().map(form::call).collect();
            piece.metadata.extend(form::of_calls(calls));
        }
        piece
    }

    fn gather(&mut self, message: &Value, calls: &[ToolCallPart]) {
        let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
        self.reasoning.push_str(text("reasoning_content"));
        self.named_reasoning.push_str(text("reasoning"));
        for detail in message.get("reasoning_details").and_then(Value::as_array).into_iter().flatten() {
            match self.details.last_mut().filter(|last| is_continued(last, detail)) {
                Some(last) => append(last, detail),
                None => self.details.push(detail.clone()),
            }
        }
        let raw = message.get("tool_calls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        for (at, call) in calls.iter().enumerate() {
            self.gather_call(call, raw.get(at).and_then(Value::as_object));
        }
    }

    /// Adds a piece of a call to those so far, by the same rule as the reply that it is part of.
    fn gather_call(&mut self, call: &ToolCallPart, raw: Option<&Map<String, Value>>) {
        let at = match call.continues(&self.calls) {
            Some(at) => {
                self.calls[at].append(call.clone());
                at
            }
            None => {
                self.calls.push(call.clone());
                self.extras.push(Map::new());
                self.calls.len() - 1
            }
        };
        let own = ["id", "type", "index", "function", "custom"];
        let foreign = raw.into_iter().flatten().filter(|(key, _)| !own.contains(&key.as_str()));
        self.extras[at].extend(foreign.map(|(key, value)| (key.clone(), value.clone())));
    }
}

/// Checks whether `detail` continues `last`: routers send one reasoning detail in many pieces.
fn is_continued(last: &Value, detail: &Value) -> bool {
    let is_same = |key: &str| last.get(key) == detail.get(key);
    let has_index = detail.get("index").is_some_and(Value::is_u64);
    let has_id = |value: &Value| value.get("id").is_some_and(Value::is_string);
    has_index && is_same("index") && is_same("type") && !(has_id(last) && has_id(detail) && !is_same("id"))
}

/// Adds a piece: its texts are appended, and its other values replace earlier ones.
fn append(last: &mut Value, detail: &Value) {
    for (key, value) in detail.as_object().into_iter().flatten() {
        match (last.get_mut(key), value) {
            (Some(Value::String(known)), Value::String(more))
                if matches!(key.as_str(), "text" | "summary" | "data") =>
            {
                known.push_str(more);
            }
            (_, Value::Null) => {}
            _ => last[key] = value.clone(),
        }
    }
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
            cache_written_tokens: Tokens::ZERO,
            dropped_reasoning: 0,
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
            assert_eq!(OpenAiReplyReader::default().read(data).unwrap(), expected, "{data}");
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
            assert_eq!(OpenAiReplyReader::default().read(data).unwrap_err().to_string(), expected, "{data}");
        }
    }

    #[test]
    fn what_the_server_wants_back_is_gathered() {
        let mut reader = OpenAiReplyReader::default();
        let mut parts = forge_domain::ReplyParts::default();
        for delta in [
            json!({"reasoning_content": "I ", "reasoning_details":
                [{"type": "reasoning.text", "text": "I ", "index": 0, "signature": null}]}),
            json!({"reasoning_content": "look", "reasoning_details":
                [{"type": "reasoning.text", "text": "look", "index": 0, "signature": "s"}]}),
            json!({"reasoning_details": [{"type": "reasoning.encrypted", "data": "AA", "index": 1}]}),
            json!({"tool_calls": [{"index": 1, "id": "a", "type": "function",
                "function": {"name": "read", "arguments": "{}"}}]}),
            json!({"tool_calls": [{"index": 2, "id": "b", "type": "function",
                "function": {"name": "list", "arguments": "{"}, "extra_content": {"google": {"thought_signature": "t"}}}]}),
            json!({"tool_calls": [{"index": 2, "function": {"arguments": "}"}}]}),
        ] {
            let chunk = json!({"choices": [{"index": 0, "delta": delta}]}).to_string();
            let StreamEvent::Piece(piece) = reader.read(&chunk).unwrap() else { panic!("{chunk}") };
            parts.push(piece);
        }
        let end = r#"{"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}"#;
        let StreamEvent::Piece(piece) = reader.read(end).unwrap() else { panic!("{end}") };
        parts.push(piece);
        let actual = super::super::message_json(&parts.finish().unwrap().message);
        let expected = json!({
            "role": "assistant", "content": null,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "list", "arguments": "{}"},
                    "extra_content": {"google": {"thought_signature": "t"}}},
            ],
            "reasoning_details": [
                {"type": "reasoning.text", "text": "I look", "index": 0, "signature": "s"},
                {"type": "reasoning.encrypted", "data": "AA", "index": 1},
            ],
            "reasoning_content": "I look",
        });
        assert_eq!(actual, expected);
    }

    #[test]
    fn reasoning_is_sent_back_by_the_name_that_it_came_with() {
        let details = json!([{"type": "reasoning.text", "text": "I look", "index": 0}]);
        for (thoughts, expected) in [
            (json!({"reasoning": "I look"}), json!({"reasoning": "I look"})),
            (
                json!({"reasoning": "I look", "reasoning_content": "I look"}),
                json!({"reasoning_content": "I look"}),
            ),
            (
                json!({"reasoning": "I look", "reasoning_details": details}),
                json!({"reasoning_details": details}),
            ),
        ] {
            let call =
                json!({"id": "a", "type": "function", "function": {"name": "read", "arguments": "{}"}});
            let mut message = thoughts.clone();
            message["tool_calls"] = json!([call]);
            let answer =
                json!({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).to_string();
            let piece = read_answer(answer.as_bytes()).unwrap();
            assert_eq!(json!(piece.extra), expected, "{thoughts}");
        }
    }

    #[test]
    fn reasoning_that_led_to_no_call_is_not_sent_back() {
        let chunk = r#"{"choices": [{"delta": {"reasoning_content": "hm"}, "finish_reason": "stop"}]}"#;
        let StreamEvent::Piece(piece) = OpenAiReplyReader::default().read(chunk).unwrap() else {
            panic!("done")
        };
        assert_eq!((piece.reasoning.as_deref(), piece.extra.len()), (Some("hm"), 0));
    }

    fn with_stop(piece: ChatCompletionMessage) -> ChatCompletionMessage {
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
                "tags",
                json!({"content": "<think>hm</think>\nhi"}),
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
            assert_eq!(actual, with_stop(expected), "{name}");
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
                dropped_reasoning: 0,
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
