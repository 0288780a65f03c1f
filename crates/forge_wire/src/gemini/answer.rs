//! A model's reply: a complete body, or the events of a stream that form one.

use forge_domain::{ChatCompletionMessage, FinishReason, THOUGHT_SIGNATURES, Tokens, ToolCallPart, Usage};
use serde_json::{Map, Value};

use super::form::{self, SIGNATURE};
use super::part::{arguments, is_thought, made_up_id};
use crate::error_body::refused;
use crate::{Protocol, StreamEvent, WireError};

/// Reads a complete reply as one piece: an answer, or the list of answers that is a stream without framing.
/// Of several candidates, it reads the first.
///
/// # Errors
/// [`WireError::Refused`] if the body is an error under a good status; [`WireError::Json`] and
/// [`WireError::Shape`] if it is not an answer of this protocol.
pub fn read_answer(body: &[u8]) -> Result<ChatCompletionMessage, WireError> {
    let answer: Value = serde_json::from_slice(body).map_err(WireError::json)?;
    let answers = match answer {
        Value::Array(answers) => answers,
        answer => vec![answer],
    };
    let mut reader = GeminiReplyReader::default();
    let mut whole = ChatCompletionMessage::default();
    for answer in &answers {
        let piece = reader.answer(answer)?;
        append(&mut whole.content, piece.content);
        append(&mut whole.reasoning, piece.reasoning);
        whole.tool_calls.extend(piece.tool_calls);
        whole.usage = piece.usage.or(whole.usage);
        whole.finish_reason = piece.finish_reason.or(whole.finish_reason);
        whole.model = piece.model.or(whole.model);
        whole.extra.extend(piece.extra);
        whole.metadata.extend(piece.metadata);
    }
    let is_answer = answers.iter().any(|answer| Protocol::of(answer).is_some());
    if !is_answer {
        return Err(WireError::shape("candidates", "must be a list"));
    }
    if whole.finish_reason.is_none() {
        // A complete reply has ended, whether or not the server reports it.
        let ended = reader.finish(FinishReason::Stop);
        whole.extra.extend(ended.extra);
        whole.metadata.extend(ended.metadata);
        whole.finish_reason = ended.finish_reason;
    }
    Ok(whole)
}

fn append(text: &mut Option<String>, more: Option<String>) {
    match (text.as_mut(), more) {
        (Some(text), Some(more)) => text.push_str(&more),
        (None, more) => *text = more,
        (Some(_), None) => {}
    }
}

/// A reader of the events of one stream, in order. It collects the parts, which the provider wants back as
/// they came.
#[derive(Debug, Default)]
pub struct GeminiReplyReader {
    parts: Vec<Value>,
    n_calls: usize,
    /// The calls that were found malformed, for which there is no part.
    n_malformed: usize,
}

impl GeminiReplyReader {
    /// Reads the data of one server-sent event: an answer with the parts that follow.
    ///
    /// # Errors
    /// [`WireError::Refused`] if the event is the server's error; [`WireError::Json`] and
    /// [`WireError::Shape`] if it is not an event of this protocol.
    pub fn read(&mut self, data: &str) -> Result<StreamEvent, WireError> {
        // Routers that speak OpenAI's protocol as well may end their streams in that one's way.
        if data.trim() == "[DONE]" {
            return Ok(StreamEvent::Done);
        }
        let event: Value = serde_json::from_str(data).map_err(WireError::json)?;
        self.answer(&event).map(StreamEvent::Piece)
    }

    fn answer(&mut self, answer: &Value) -> Result<ChatCompletionMessage, WireError> {
        if let Some(refused) = refused(answer) {
            return Err(WireError::refused(refused));
        }
        if !answer.is_object() {
            return Err(WireError::shape("event", "must be an object"));
        }
        WireError::foreign(answer, Protocol::Gemini)?;
        let candidate = answer.pointer("/candidates/0").unwrap_or(&Value::Null);
        let mut piece = ChatCompletionMessage::default();
        let parts = candidate.pointer("/content/parts").and_then(Value::as_array);
        for part in parts.into_iter().flatten() {
            self.take(part, &mut piece);
        }
        let reason = candidate.get("finishReason").and_then(Value::as_str);
        if let Some(reason) = reason.filter(|reason| *reason != "FINISH_REASON_UNSPECIFIED") {
            self.end(reason, candidate, &mut piece);
        } else if is_blocked(answer) {
            piece.finish_reason = Some(FinishReason::ContentFilter);
        } else if !piece.tool_calls.is_empty() {
            // A stream that breaks off after a call has reported what belongs to the call.
            self.keep(&mut piece);
        }
        piece.usage = answer.get("usageMetadata").and_then(usage);
        piece.model = answer.get("modelVersion").and_then(Value::as_str).map(str::to_owned);
        Ok(piece)
    }

    /// Takes in a part, and adds what it says to `piece`.
    fn take(&mut self, part: &Value, piece: &mut ChatCompletionMessage) {
        let text = part.get("text").and_then(Value::as_str);
        if let Some(call) = part.get("functionCall") {
            let said = |key: &str| call.get(key).and_then(Value::as_str).map(str::to_owned);
            let id = said("id").filter(|id| !id.is_empty());
            piece.tool_calls.push(ToolCallPart {
                index: self.n_calls,
                // The ids that are made up for the parts when they are sent back.
                id: Some(id.unwrap_or_else(|| made_up_id(self.n_calls))),
                name: said("name"),
                arguments: arguments(call),
            });
            self.n_calls += 1;
        } else if let Some(text) = text.filter(|text| !text.is_empty()) {
            let said = if is_thought(part) { &mut piece.reasoning } else { &mut piece.content };
            append(said, Some(text.to_owned()));
        }
        let is_empty =
            part.as_object().is_none_or(Map::is_empty) || (text == Some("") && part.get(SIGNATURE).is_none());
        if is_empty {
            return;
        }
        match self.parts.last_mut().zip(text) {
            Some((last, more)) if continues(last, part) => {
                if let Some(Value::String(text)) = last.get_mut("text") {
                    text.push_str(more);
                }
            }
            _ => self.parts.push(part.clone()),
        }
    }

    /// Adds the end of the reply to `piece`.
    fn end(&mut self, reason: &str, candidate: &Value, piece: &mut ChatCompletionMessage) {
        let reason = match reason {
            "STOP" | "FUNCTION_CALL" if self.n_calls > 0 => FinishReason::ToolCalls,
            "STOP" => FinishReason::Stop,
            "MAX_TOKENS" => FinishReason::Length,
            "SAFETY"
            | "RECITATION"
            | "LANGUAGE"
            | "BLOCKLIST"
            | "PROHIBITED_CONTENT"
            | "SPII"
            | "IMAGE_SAFETY"
            | "IMAGE_PROHIBITED_CONTENT"
            | "IMAGE_RECITATION" => FinishReason::ContentFilter,
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" | "MALFORMED_TOOL_CALL" => {
                let words = candidate.get("finishMessage").and_then(Value::as_str).unwrap_or(reason);
                piece.tool_calls.push(self.malformed(words));
                FinishReason::ToolCalls
            }
            other => FinishReason::Other(other.to_lowercase()),
        };
        let ended = self.finish(reason);
        piece.extra.extend(ended.extra);
        piece.metadata.extend(ended.metadata);
        piece.finish_reason = ended.finish_reason;
    }

    fn finish(&self, reason: FinishReason) -> ChatCompletionMessage {
        let mut piece =
            ChatCompletionMessage { finish_reason: Some(reason), ..ChatCompletionMessage::default() };
        self.keep(&mut piece);
        piece
    }

    /// Adds what the domain cannot express of the parts so far.
    fn keep(&self, piece: &mut ChatCompletionMessage) {
        let (plain, mut thoughts) = form::split(&self.parts);
        if !thoughts.is_empty() {
            thoughts.extend(std::iter::repeat_n(Value::Null, self.n_malformed));
            piece.extra.insert(THOUGHT_SIGNATURES.to_owned(), Value::Array(thoughts));
        }
        piece.metadata.extend(form::metadata(&plain, &form::as_streamed(&plain)));
    }

    /// Returns the call that the server could not read, in its `words`. The model is answered that its
    /// arguments are not valid.
    fn malformed(&mut self, words: &str) -> ToolCallPart {
        let code = words.split_once("default_api.").map(|(_, code)| code);
        let name = code.and_then(|code| code.split_once('(')).map(|(name, _)| name.trim().to_owned());
        let index = self.n_calls;
        self.n_calls += 1;
        self.n_malformed += 1;
        ToolCallPart { index, id: Some(made_up_id(index)), name, arguments: words.to_owned() }
    }
}

/// Checks whether `part` continues the text or the thought `last`. A part with a signature stays by itself.
fn continues(last: &Value, part: &Value) -> bool {
    let keys = |part: &Value| {
        let fields = part.as_object().into_iter().flatten();
        fields
            .filter(|(key, _)| key.as_str() != "text")
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect::<Vec<_>>()
    };
    let is_text =
        |part: &Value| part.get("text").is_some_and(Value::is_string) && part.get(SIGNATURE).is_none();
    is_text(last) && is_text(part) && keys(last) == keys(part)
}

/// Checks whether the server refused the prompt for its content.
fn is_blocked(answer: &Value) -> bool {
    let reason = answer.pointer("/promptFeedback/blockReason").and_then(Value::as_str);
    reason.is_some_and(|reason| reason != "BLOCK_REASON_UNSPECIFIED")
}

/// Reads the usage of a call. Thoughts are part of the reply, and what the cache had is part of the prompt.
fn usage(usage: &Value) -> Option<Usage> {
    let tokens = |key: &str| usage.get(key).and_then(Value::as_u64).map(Tokens::new);
    let some = |key: &str| tokens(key).unwrap_or(Tokens::ZERO);
    Some(Usage {
        prompt_tokens: tokens("promptTokenCount")? + some("toolUsePromptTokenCount"),
        completion_tokens: some("candidatesTokenCount") + some("thoughtsTokenCount"),
        cached_tokens: some("cachedContentTokenCount"),
        cache_written_tokens: Tokens::ZERO,
        dropped_reasoning: 0,
    })
}

#[cfg(test)]
mod tests {
    use forge_domain::{Reply, ReplyParts};
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::super::message::content_parts;
    use super::*;

    fn read_stream(events: &[Value]) -> Reply {
        let (mut reader, mut parts) = (GeminiReplyReader::default(), ReplyParts::default());
        for event in events {
            match reader.read(&event.to_string()).unwrap() {
                StreamEvent::Piece(piece) => parts.push(piece),
                StreamEvent::Done => panic!("no end mark"),
            }
        }
        parts.finish().unwrap()
    }

    fn whole(body: &Value) -> Reply {
        let mut parts = ReplyParts::default();
        parts.push(read_answer(body.to_string().as_bytes()).unwrap());
        parts.finish().unwrap()
    }

    fn event(parts: &Value) -> Value {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}],
            "usageMetadata": {"promptTokenCount": 9, "totalTokenCount": 9}, "modelVersion": "m"})
    }

    fn last(parts: &Value, reason: &str) -> Value {
        json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": reason, "index": 0}],
            "usageMetadata": {"promptTokenCount": 9, "cachedContentTokenCount": 4, "candidatesTokenCount": 5,
                "thoughtsTokenCount": 7, "toolUsePromptTokenCount": 1, "totalTokenCount": 22}, "modelVersion": "m"})
    }

    fn call(name: &str, signature: Option<&str>) -> Value {
        let mut part =
            json!({"functionCall": {"id": format!("id-{name}"), "name": name, "args": {"n": 1.0}}});
        if let Some(signature) = signature {
            part["thoughtSignature"] = json!(signature);
        }
        part
    }

    #[test]
    fn a_stream_and_a_whole_answer_are_the_same_reply() {
        let events = [
            event(&json!([{"text": "I ", "thought": true}])),
            event(&json!([{"text": "look", "thought": true}, {"text": "Let me "}])),
            event(&json!([{"text": "see."}, {"text": ""}])),
            event(&json!([call("read", Some("S1"))])),
            last(&json!([call("list", None)]), "STOP"),
        ];
        let parts = json!([{"text": "I look", "thought": true}, {"text": "Let me see."},
            call("read", Some("S1")), call("list", None)]);
        let reply = read_stream(&events);
        assert_eq!(reply, whole(&last(&parts, "STOP")));
        assert_eq!(reply, whole(&json!(events)));
        assert_eq!(reply.message.to_text(), "Let me see.");
        assert_eq!(reply.message.metadata["reasoning"], "I look");
        let calls: Vec<_> =
            reply.message.calls().iter().map(|call| (call.id.as_str(), call.arguments.as_str())).collect();
        assert_eq!(calls, [("id-read", "{\"n\":1.0}"), ("id-list", "{\"n\":1.0}")]);
        assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
        let usage = reply.usage.unwrap();
        let counts = [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens].map(Tokens::as_u64);
        assert_eq!(counts, [10, 12, 4]);
        assert_eq!(content_parts(&reply.message).unwrap(), ("model", parts.as_array().unwrap().clone()));
        // Nothing is kept beside the message but what binds it.
        assert!(!reply.message.metadata.contains_key("gemini"), "{:?}", reply.message.metadata);
    }

    #[test]
    fn every_part_goes_back_as_it_came() {
        for parts in [
            json!([{"text": "one"}, {"text": "", "thoughtSignature": "S"}]),
            json!([{"text": "one", "thoughtSignature": "S"}, {"text": "two"}]),
            json!([{"text": "hm", "thought": true, "thoughtSignature": "S"}, {"text": "one"}]),
            json!([{"executableCode": {"code": "1", "language": "PYTHON"}}, {"text": "one"}]),
            json!([{"inlineData": {"mimeType": "image/png", "data": "AA=="}, "thoughtSignature": "S"}]),
            json!([{"functionCall": {"name": "read", "args": {}}, "thoughtSignature": "S"}]),
        ] {
            let reply = read_stream(&[event(&parts), last(&json!([]), "STOP")]);
            assert_eq!(json!(content_parts(&reply.message).unwrap().1), parts);
        }
    }

    #[test]
    fn a_reply_ends_for_many_reasons() {
        let text = json!([{"text": "so"}]);
        for (reason, expected) in [
            ("STOP", "stop"),
            ("MAX_TOKENS", "length"),
            ("SAFETY", "content_filter"),
            ("RECITATION", "content_filter"),
            ("PROHIBITED_CONTENT", "content_filter"),
            ("OTHER", "other"),
            ("NEVER_SEEN", "never_seen"),
        ] {
            let reply = read_stream(&[last(&text, reason)]);
            assert_eq!((reply.finish_reason.as_str(), reply.message.to_text().as_str()), (expected, "so"));
        }
        let blocked = json!({"promptFeedback": {"blockReason": "SAFETY", "safetyRatings": []},
            "usageMetadata": {"promptTokenCount": 9}});
        assert_eq!(read_stream(std::slice::from_ref(&blocked)).finish_reason, FinishReason::ContentFilter);
        assert_eq!(whole(&blocked).finish_reason, FinishReason::ContentFilter);
    }

    #[test]
    fn a_call_that_the_server_could_not_read_is_a_call() {
        let malformed = |message: Value| json!({"candidates": [{"content": {}, "finishReason": "MALFORMED_FUNCTION_CALL", "finishMessage": message}]});
        let words = "Malformed function call: print(default_api.read(path='a'))";
        for (message, name, arguments) in
            [(json!(words), "read", words), (Value::Null, "unnamed_tool", "MALFORMED_FUNCTION_CALL")]
        {
            let reply = read_stream(&[event(&json!([call("list", Some("S"))])), malformed(message)]);
            let calls: Vec<_> = reply
                .message
                .calls()
                .iter()
                .map(|call| (call.name.as_str(), call.arguments.as_str()))
                .collect();
            assert_eq!(calls, [("list", "{\"n\":1.0}"), (name, arguments)]);
            assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
            // It goes back, too, and the signature in its place.
            let (_, parts) = content_parts(&reply.message).unwrap();
            assert_eq!(parts[0], call("list", Some("S")));
            assert_eq!(parts[1]["functionCall"]["args"], json!({"input": arguments}));
        }
    }

    #[test]
    fn what_is_no_event_is_refused() {
        for (data, expected) in [
            (
                r#"{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}"#,
                "the server answers with an error: overloaded",
            ),
            (r#"[{"error": {"message": "no"}}]"#, "the server answers with an error: no"),
            ("[1]", "`event` must be an object"),
            ("{", "not JSON: EOF while parsing an object at line 1 column 1"),
        ] {
            assert_eq!(GeminiReplyReader::default().read(data).unwrap_err().to_string(), expected, "{data}");
        }
        let error = read_answer(b"{\"status\": 1}").unwrap_err();
        assert_eq!(error.to_string(), "`candidates` must be a list");
        assert_eq!(GeminiReplyReader::default().read("[DONE]").unwrap(), StreamEvent::Done);
    }
}
