//! A model's reply: a complete message, or the events of a stream that form one.

use std::collections::BTreeMap;

use forge_domain::{ChatCompletionMessage, FinishReason, ToolCallPart, Usage};
use serde_json::{Map, Value, json};

use super::content::THINKING;
use super::form;
use super::message_body::{dropped_thinking, usage_of};
use crate::error_body::refused;
use crate::{Protocol, StreamEvent, WireError};

/// Reads a complete, unstreamed reply as one piece.
///
/// # Errors
/// [`WireError::Refused`] if the body is an error under a good status; [`WireError::Json`] and
/// [`WireError::Shape`] if it is not a message.
pub fn read_answer(body: &[u8]) -> Result<ChatCompletionMessage, WireError> {
    let answer: Value = serde_json::from_slice(body).map_err(WireError::json)?;
    if let Some(refused) = refused(&answer) {
        return Err(WireError::refused(refused));
    }
    WireError::foreign(&answer, Protocol::Anthropic)?;
    let blocks = answer.get("content").and_then(Value::as_array);
    let blocks = blocks.ok_or_else(|| WireError::shape("content", "must be a list of blocks"))?;
    let mut reader = AnthropicReplyReader::default();
    let mut whole = ChatCompletionMessage::default();
    let (mut content, mut reasoning) = (String::new(), String::new());
    for (index, block) in blocks.iter().enumerate() {
        for piece in [reader.start(index as u64, block.clone()), reader.stop(index as u64)] {
            content.push_str(piece.content.as_deref().unwrap_or_default());
            reasoning.push_str(piece.reasoning.as_deref().unwrap_or_default());
            for part in piece.tool_calls {
                match whole.tool_calls.iter_mut().find(|call| call.index == part.index) {
                    Some(call) => call.arguments.push_str(&part.arguments),
                    None => whole.tool_calls.push(part),
                }
            }
            whole.extra.extend(piece.extra);
        }
    }
    whole.content = text(content);
    whole.reasoning = text(reasoning);
    whole.metadata = reader.metadata();
    let dropped_reasoning = dropped_thinking(&answer).unwrap_or_default();
    let usage = answer.get("usage").and_then(usage_of);
    whole.usage = usage.map(|usage| Usage { dropped_reasoning, ..usage });
    // A complete reply has ended, whether or not the server reports it.
    whole.finish_reason = Some(finish_reason(answer.get("stop_reason")).unwrap_or(FinishReason::Stop));
    Ok(whole)
}

/// A reader of the events of one stream, in order. It collects the blocks that the provider wants back.
#[derive(Debug, Default)]
pub struct AnthropicReplyReader {
    blocks: BTreeMap<u64, Gathered>,
    n_calls: usize,
    /// The latest figure for each key: those of the end repeat or complete those of the beginning.
    usage: Map<String, Value>,
    /// The number of thinking blocks that the server dropped from the prompt.
    dropped: u64,
}

/// A block on its way.
#[derive(Debug)]
struct Gathered {
    block: Value,
    /// The index of the call in the reply.
    call: Option<usize>,
    /// The text of its input so far.
    input: String,
}

impl AnthropicReplyReader {
    /// Reads the data of one server-sent event. Its own `type` decides; the event's name is not needed.
    ///
    /// # Errors
    /// [`WireError::Refused`] if the event is the server's error; [`WireError::Json`] and
    /// [`WireError::Shape`] if it is not an event of this protocol.
    pub fn read(&mut self, data: &str) -> Result<StreamEvent, WireError> {
        // Servers of OpenAI's protocol that speak this one as well may end their streams in that one's way.
        if data.trim() == "[DONE]" {
            return Ok(StreamEvent::Done);
        }
        let event: Value = serde_json::from_str(data).map_err(WireError::json)?;
        if !event.is_object() {
            return Err(WireError::shape("event", "must be an object"));
        }
        if let Some(refused) = refused(&event) {
            return Err(WireError::refused(refused));
        }
        WireError::foreign(&event, Protocol::Anthropic)?;
        let index = event.get("index").and_then(Value::as_u64).unwrap_or_default();
        let piece = match event.get("type").and_then(Value::as_str).unwrap_or_default() {
            "message_start" => self.begin(event.get("message").unwrap_or(&Value::Null)),
            "content_block_start" => {
                self.start(index, event.get("content_block").cloned().unwrap_or_default())
            }
            "content_block_delta" => self.delta(index, event.get("delta").unwrap_or(&Value::Null)),
            "content_block_stop" => self.stop(index),
            "message_delta" => self.end(&event),
            "message_stop" => return Ok(StreamEvent::Done),
            // `ping`, and anything added to the protocol, which asks its readers to skip unknown events.
            _ => ChatCompletionMessage::default(),
        };
        Ok(StreamEvent::Piece(piece))
    }

    fn begin(&mut self, message: &Value) -> ChatCompletionMessage {
        self.dropped = dropped_thinking(message).unwrap_or(self.dropped);
        let model = message.get("model").and_then(Value::as_str).map(str::to_owned);
        ChatCompletionMessage {
            usage: self.count(message.get("usage")),
            model,
            ..ChatCompletionMessage::default()
        }
    }

    fn start(&mut self, index: u64, block: Value) -> ChatCompletionMessage {
        let said = |key: &str| block.get(key).and_then(Value::as_str).map(str::to_owned);
        let mut piece = ChatCompletionMessage::default();
        let mut call = None;
        match said("type").as_deref() {
            Some("text") => piece.content = said("text").and_then(text),
            Some("thinking") => piece.reasoning = said("thinking").and_then(text),
            Some("tool_use") => {
                call = Some(self.n_calls);
                let part = ToolCallPart {
                    index: self.n_calls,
                    id: said("id"),
                    name: said("name"),
                    ..ToolCallPart::default()
                };
                piece.tool_calls.push(part);
                self.n_calls += 1;
            }
            _ => {}
        }
        self.blocks.insert(index, Gathered { block, call, input: String::new() });
        piece
    }

    fn delta(&mut self, index: u64, delta: &Value) -> ChatCompletionMessage {
        let mut piece = ChatCompletionMessage::default();
        let Some(gathered) = self.blocks.get_mut(&index) else { return piece };
        let said = |key: &str| delta.get(key).and_then(Value::as_str).unwrap_or_default();
        match said("type") {
            "text_delta" => {
                gathered.append("text", said("text"));
                piece.content = text(said("text").to_owned());
            }
            "thinking_delta" => {
                gathered.append("thinking", said("thinking"));
                piece.reasoning = text(said("thinking").to_owned());
            }
            "signature_delta" => gathered.append("signature", said("signature")),
            "input_json_delta" => {
                gathered.input.push_str(said("partial_json"));
                piece.tool_calls.extend(gathered.call.filter(|_| !said("partial_json").is_empty()).map(
                    |index| ToolCallPart {
                        index,
                        arguments: said("partial_json").to_owned(),
                        ..ToolCallPart::default()
                    },
                ));
            }
            "compaction_delta" => gathered.append("content", said("content")),
            "citations_delta" => gathered.cite(delta.get("citation")),
            _ => {}
        }
        piece
    }

    fn stop(&mut self, index: u64) -> ChatCompletionMessage {
        let mut piece = ChatCompletionMessage::default();
        let Some(gathered) = self.blocks.get_mut(&index) else { return piece };
        // Some servers send the whole input at once, at the start of the block.
        let at_once = gathered.block.get("input").filter(|_| gathered.input.is_empty()).cloned();
        match (gathered.call, at_once) {
            (Some(index), Some(input)) => {
                let arguments = match input {
                    Value::String(text) => text,
                    input => input.to_string(),
                };
                piece.tool_calls.push(ToolCallPart { index, arguments, ..ToolCallPart::default() });
            }
            _ if !gathered.input.is_empty() => {
                // An input that broke off is kept as text, in the call; as a block it cannot be sent.
                let input = serde_json::from_str(&gathered.input).unwrap_or_else(|_| json!({}));
                gathered.block["input"] = input;
            }
            _ => {}
        }
        if is_reasoning(&gathered.block) {
            let thinking =
                self.blocks.values().map(|gathered| &gathered.block).filter(|block| is_reasoning(block));
            piece.extra.insert(THINKING.to_owned(), thinking.cloned().collect());
        }
        piece
    }

    fn end(&mut self, event: &Value) -> ChatCompletionMessage {
        // The server repeats the list if another model has taken the reply over.
        self.dropped = dropped_thinking(event).unwrap_or(self.dropped);
        let finish_reason = finish_reason(event.pointer("/delta/stop_reason"));
        let metadata = if finish_reason.is_some() { self.metadata() } else { Map::new() };
        ChatCompletionMessage {
            usage: self.count(event.get("usage")),
            finish_reason,
            metadata,
            ..ChatCompletionMessage::default()
        }
    }

    /// Returns the blocks for the message's metadata, if the domain cannot express them.
    fn metadata(&self) -> Map<String, Value> {
        let blocks: Vec<Value> = self.blocks.values().map(|gathered| gathered.block.clone()).collect();
        form::metadata(&blocks)
    }

    /// Adds the reported usage, and returns what is known by now.
    fn count(&mut self, usage: Option<&Value>) -> Option<Usage> {
        for (key, value) in usage?.as_object()? {
            // Some servers report zeros at one end of the stream and the figures at the other.
            let is_told = value.as_u64() != Some(0) && !value.is_null();
            if is_told || !self.usage.contains_key(key) {
                self.usage.insert(key.clone(), value.clone());
            }
        }
        let usage = usage_of(&Value::Object(self.usage.clone()));
        usage.map(|usage| Usage { dropped_reasoning: self.dropped, ..usage })
    }
}

impl Gathered {
    fn append(&mut self, key: &str, more: &str) {
        match self.block.get_mut(key) {
            Some(Value::String(text)) => text.push_str(more),
            _ => {
                if let Some(block) = self.block.as_object_mut() {
                    block.insert(key.to_owned(), json!(more));
                }
            }
        }
    }

    fn cite(&mut self, citation: Option<&Value>) {
        let Some((block, citation)) = self.block.as_object_mut().zip(citation.cloned()) else { return };
        match block.get_mut("citations") {
            Some(Value::Array(citations)) => citations.push(citation),
            _ => drop(block.insert("citations".to_owned(), json!([citation]))),
        }
    }
}

/// Checks whether the provider wants `block` back: reasoning that it signed or encrypted.
fn is_reasoning(block: &Value) -> bool {
    match block.get("type").and_then(Value::as_str) {
        Some("thinking") => {
            block.get("signature").and_then(Value::as_str).is_some_and(|signature| !signature.is_empty())
        }
        Some("redacted_thinking") => true,
        _ => false,
    }
}

fn finish_reason(reason: Option<&Value>) -> Option<FinishReason> {
    let word = reason?.as_str()?;
    Some(match word {
        "end_turn" | "stop_sequence" => FinishReason::Stop,
        "tool_use" => FinishReason::ToolCalls,
        "max_tokens" => FinishReason::Length,
        "model_context_window_exceeded" => FinishReason::Window,
        "refusal" => FinishReason::ContentFilter,
        other => FinishReason::Other(other.to_owned()),
    })
}

/// Returns a text that is not empty.
fn text(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

#[cfg(test)]
mod tests {
    use forge_domain::{Reply, ReplyParts, Tokens};
    use pretty_assertions::assert_eq;

    use super::super::message::entry_blocks;
    use super::*;

    fn read_stream(events: &[Value]) -> Reply {
        let (mut reader, mut parts) = (AnthropicReplyReader::default(), ReplyParts::default());
        for event in events {
            match reader.read(&event.to_string()).unwrap() {
                StreamEvent::Piece(piece) => parts.push(piece),
                StreamEvent::Done => assert_eq!(event, events.last().unwrap()),
            }
        }
        parts.finish().unwrap()
    }

    fn start(index: u64, block: &Value) -> Value {
        json!({"type": "content_block_start", "index": index, "content_block": block})
    }

    fn delta(index: u64, kind: &str, key: &str, text: &str) -> Value {
        json!({"type": "content_block_delta", "index": index, "delta": {"type": kind, key: text}})
    }

    fn stop(index: u64) -> Value {
        json!({"type": "content_block_stop", "index": index})
    }

    fn whole_body() -> Value {
        json!({"type": "message", "role": "assistant", "stop_reason": "tool_use",
        "usage": {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100,
            "output_tokens": 7},
        "content": [
            {"type": "thinking", "thinking": "I look", "signature": "s1"},
            {"type": "redacted_thinking", "data": "AA"},
            {"type": "text", "text": "Let me see."},
            {"type": "tool_use", "id": "t1", "name": "read", "input": {"path": "a"}},
            {"type": "thinking", "thinking": "and", "signature": "s2"},
            {"type": "tool_use", "id": "t2", "name": "list", "input": {}},
        ]})
    }

    #[test]
    fn a_stream_and_a_whole_answer_are_the_same_reply() {
        let events = [
            json!({"type": "message_start", "message": {"usage": {"input_tokens": 3, "output_tokens": 1,
                "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100}}}),
            start(0, &json!({"type": "thinking", "thinking": "", "signature": ""})),
            json!({"type": "ping"}),
            delta(0, "thinking_delta", "thinking", "I "),
            delta(0, "thinking_delta", "thinking", "look"),
            delta(0, "signature_delta", "signature", "s1"),
            stop(0),
            start(1, &json!({"type": "redacted_thinking", "data": "AA"})),
            stop(1),
            start(2, &json!({"type": "text", "text": ""})),
            delta(2, "text_delta", "text", "Let me "),
            delta(2, "text_delta", "text", "see."),
            stop(2),
            start(3, &json!({"type": "tool_use", "id": "t1", "name": "read", "input": {}})),
            delta(3, "input_json_delta", "partial_json", ""),
            delta(3, "input_json_delta", "partial_json", "{\"path\""),
            json!({"type": "ping"}),
            delta(3, "input_json_delta", "partial_json", ":\"a\"}"),
            stop(3),
            start(4, &json!({"type": "thinking", "thinking": "and", "signature": "s2"})),
            stop(4),
            start(5, &json!({"type": "tool_use", "id": "t2", "name": "list", "input": {}})),
            stop(5),
            json!({"type": "new_event", "anything": 1}),
            json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"},
                "usage": {"input_tokens": 3, "output_tokens": 7, "cache_read_input_tokens": 0}}),
            json!({"type": "message_stop"}),
        ];
        let mut parts = ReplyParts::default();
        parts.push(read_answer(whole_body().to_string().as_bytes()).unwrap());
        let whole = parts.finish().unwrap();
        assert_eq!(read_stream(&events), whole);
        let usage = whole.usage.unwrap();
        let figures =
            [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.cache_written_tokens];
        assert_eq!(figures.map(Tokens::as_u64), [113, 7, 100, 10]);
        assert_eq!(whole.finish_reason, FinishReason::ToolCalls);
        // Everything is sent back as it came, including the order of reasoning and calls.
        assert_eq!(json!(entry_blocks(&whole.message).unwrap().1), whole_body()["content"]);
    }

    #[test]
    fn a_shortened_message_is_sent_as_what_it_says_now() {
        let mut parts = ReplyParts::default();
        parts.push(read_answer(whole_body().to_string().as_bytes()).unwrap());
        let message = parts.finish().unwrap().message.with_content("stub");
        let kinds: Vec<Value> =
            entry_blocks(&message).unwrap().1.iter().map(|block| block["type"].clone()).collect();
        assert_eq!(
            json!(kinds),
            json!(["thinking", "redacted_thinking", "thinking", "text", "tool_use", "tool_use"])
        );
    }

    #[test]
    fn reasons_and_errors_are_told_apart() {
        for (word, expected) in [
            ("end_turn", FinishReason::Stop),
            ("stop_sequence", FinishReason::Stop),
            ("max_tokens", FinishReason::Length),
            ("model_context_window_exceeded", FinishReason::Window),
            ("refusal", FinishReason::ContentFilter),
            ("pause_turn", FinishReason::Other("pause_turn".into())),
        ] {
            let body = json!({"content": [], "stop_reason": word}).to_string();
            assert_eq!(read_answer(body.as_bytes()).unwrap().finish_reason, Some(expected));
        }
        for (data, expected) in [
            (
                r#"{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}  }"#,
                "the server answers with an error: Overloaded",
            ),
            ("[1]", "`event` must be an object"),
            ("{", "not JSON: EOF while parsing an object at line 1 column 1"),
        ] {
            assert_eq!(AnthropicReplyReader::default().read(data).unwrap_err().to_string(), expected);
        }
        assert_eq!(read_answer(b"{}").unwrap_err().to_string(), "`content` must be a list of blocks");
    }
}
