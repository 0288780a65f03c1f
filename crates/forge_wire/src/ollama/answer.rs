//! A model's reply: a complete message, or the lines of a stream that form one.

use forge_domain::{ChatCompletionMessage, FinishReason, Tokens, ToolCallPart, Usage};
use serde_json::{Value, json};

use super::message::THINKING;
use crate::end_tokens::EndTokens;
use crate::error_body::refused;
use crate::leading_thoughts::LeadingThoughts;
use crate::{Protocol, StreamEvent, WireError};

/// Reads a complete, unstreamed reply as one piece.
///
/// # Errors
/// [`WireError::Refused`] if the body is an error under a good status; [`WireError::Json`] and
/// [`WireError::Shape`] if it is not an answer.
pub fn read_answer(body: &[u8]) -> Result<ChatCompletionMessage, WireError> {
    let answer: Value = serde_json::from_slice(body).map_err(WireError::json)?;
    let mut reader = OllamaReplyReader::default();
    let mut piece = reader.piece(&answer)?;
    if !answer.get("message").is_some_and(Value::is_object) {
        return Err(WireError::shape("message", "must be an object"));
    }
    // A complete reply has ended, whether or not the server reports it.
    piece.finish_reason = piece.finish_reason.or(Some(FinishReason::Stop));
    reader.thoughts.take_from(&mut piece);
    reader.ends.take_from(&mut piece);
    Ok(piece)
}

/// A reader of the lines of one stream, in order. It numbers the calls, which the protocol does not, and
/// collects the reasoning that led to them, which models want back.
#[derive(Debug, Default)]
pub struct OllamaReplyReader {
    n_calls: usize,
    thinking: String,
    /// Thoughts in the text, from a server that does not tell them apart.
    thoughts: LeadingThoughts,
    ends: EndTokens,
    /// True if there was any message: other commands of the server end with `done` as well.
    has_message: bool,
}

impl OllamaReplyReader {
    /// Reads one line. The line with `done` is the last piece; the stream ends after it.
    ///
    /// # Errors
    /// [`WireError::Refused`] if the line is the server's error; [`WireError::Json`] and [`WireError::Shape`]
    /// if it is not a line of this protocol.
    pub fn read(&mut self, line: &str) -> Result<StreamEvent, WireError> {
        // Other servers with Ollama's protocol, and some without it, may frame their lines as events.
        if [":", "event:", "id:", "retry:"].iter().any(|field| line.starts_with(field)) {
            return Ok(StreamEvent::Piece(ChatCompletionMessage::default()));
        }
        let line = line.strip_prefix("data:").unwrap_or(line).trim();
        if line == "[DONE]" {
            return Ok(StreamEvent::Done);
        }
        let line: Value = serde_json::from_str(line).map_err(WireError::json)?;
        let mut piece = self.piece(&line)?;
        self.thoughts.take_from(&mut piece);
        self.ends.take_from(&mut piece);
        Ok(StreamEvent::Piece(piece))
    }

    fn piece(&mut self, line: &Value) -> Result<ChatCompletionMessage, WireError> {
        if !line.is_object() {
            return Err(WireError::shape("line", "must be an object"));
        }
        if let Some(refused) = refused(line) {
            return Err(WireError::refused(refused));
        }
        WireError::foreign(line, Protocol::Ollama)?;
        let message = line.get("message").unwrap_or(&Value::Null);
        self.has_message |= message.is_object();
        let said = |key: &str| message.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        // Other servers with Ollama's protocol use the word of OpenAI's.
        let reasoning = said("thinking").or_else(|| said("reasoning_content"));
        self.thinking.push_str(reasoning.unwrap_or_default());
        let calls = message.get("tool_calls").and_then(Value::as_array).into_iter().flatten();
        let tool_calls: Vec<_> = calls.map(|call| self.call(call)).collect();
        let is_done = line.get("done").and_then(Value::as_bool).unwrap_or(false);
        if is_done && !self.has_message {
            return Err(WireError::shape("message", "must be an object"));
        }
        let mut piece = ChatCompletionMessage {
            content: said("content").map(str::to_owned),
            reasoning: reasoning.map(str::to_owned),
            usage: usage(line),
            finish_reason: is_done.then(|| finish_reason(line.get("done_reason"), self.n_calls)),
            model: line.get("model").filter(|_| is_done).and_then(Value::as_str).map(str::to_owned),
            ..ChatCompletionMessage::default()
        };
        if self.n_calls > 0 && !self.thinking.is_empty() && (is_done || !tool_calls.is_empty()) {
            piece.extra.insert(THINKING.to_owned(), json!(self.thinking));
        }
        piece.tool_calls = tool_calls;
        Ok(piece)
    }

    /// Reads a complete call: the protocol never splits one.
    fn call(&mut self, call: &Value) -> ToolCallPart {
        let function = call.get("function").unwrap_or(&Value::Null);
        let text = |value: Option<&Value>| {
            value.and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
        };
        let arguments = match function.get("arguments") {
            None | Some(Value::Null) => "{}".to_owned(),
            Some(Value::String(text)) => text.clone(),
            Some(arguments) => arguments.to_string(),
        };
        let part = ToolCallPart {
            index: self.n_calls,
            id: text(call.get("id")),
            name: text(function.get("name")),
            arguments,
        };
        self.n_calls += 1;
        part
    }
}

fn finish_reason(word: Option<&Value>, n_calls: usize) -> FinishReason {
    match word.and_then(Value::as_str).unwrap_or("stop") {
        // The protocol has no word of its own for a reply that calls.
        "stop" | "" if n_calls > 0 => FinishReason::ToolCalls,
        "tool_calls" => FinishReason::ToolCalls,
        "stop" | "" => FinishReason::Stop,
        "length" => FinishReason::Length,
        other => FinishReason::Other(other.to_owned()),
    }
}

/// Returns the usage of the call. Counts of zero are left out, as older servers did for a prompt found in the
/// cache.
fn usage(line: &Value) -> Option<Usage> {
    let tokens = |key: &str| line.get(key).and_then(Value::as_u64).map(Tokens::new);
    let (prompt, answer) = (tokens("prompt_eval_count"), tokens("eval_count"));
    prompt.or(answer)?;
    Some(Usage {
        prompt_tokens: prompt.unwrap_or(Tokens::ZERO),
        completion_tokens: answer.unwrap_or(Tokens::ZERO),
        ..Usage::default()
    })
}

#[cfg(test)]
mod tests {
    use forge_domain::ReplyParts;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn lines_add_up_to_a_reply() {
        let (mut reader, mut parts) = (OllamaReplyReader::default(), ReplyParts::default());
        for line in [
            json!({"model": "m", "message": {"role": "assistant", "content": "", "thinking": "I "}, "done": false}),
            json!({"message": {"role": "assistant", "content": "", "thinking": "look"}, "done": false}),
            json!({"message": {"content": "So"}}),
            json!({"message": {"content": "", "tool_calls": [
                {"function": {"name": "read", "arguments": {"path": "ü"}}},
                {"id": "c7", "function": {"index": 0, "name": "list"}}]}, "done": false}),
            json!({"message": {"content": "", "tool_calls": [{"function": {"name": "read", "arguments": {}}}]}}),
            json!({"message": {"content": ""}, "done": true, "done_reason": "stop",
                "prompt_eval_count": 9, "eval_count": 4}),
        ] {
            let StreamEvent::Piece(piece) = reader.read(&line.to_string()).unwrap() else { panic!("{line}") };
            parts.push(piece);
        }
        let reply = parts.finish().unwrap();
        let calls: Vec<_> = reply
            .message
            .calls()
            .iter()
            .map(|call| (call.id.as_str(), call.name.as_str(), call.arguments.as_str()))
            .collect();
        assert_eq!(
            calls,
            [("call_0", "read", "{\"path\":\"ü\"}"), ("c7", "list", "{}"), ("call_2", "read", "{}")]
        );
        assert_eq!(reply.message.to_text(), "So");
        assert_eq!(json!(reply.message.extra), json!({"thinking": "I look"}));
        assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
        let usage = reply.usage.unwrap();
        assert_eq!((usage.prompt_tokens.as_u64(), usage.completion_tokens.as_u64()), (9, 4));
    }

    #[test]
    fn ends_and_errors_are_told_apart() {
        for (word, expected) in [
            (json!("stop"), FinishReason::Stop),
            (json!(null), FinishReason::Stop),
            (json!("length"), FinishReason::Length),
            (json!("load"), FinishReason::Other("load".into())),
        ] {
            let body = json!({"message": {"content": "hi"}, "done": true, "done_reason": word}).to_string();
            assert_eq!(read_answer(body.as_bytes()).unwrap().finish_reason, Some(expected));
        }
        for (line, expected) in [
            (r#"{"error": "out of memory"}"#, "the server answers with an error: out of memory"),
            ("{", "not JSON: EOF while parsing an object at line 1 column 1"),
            ("1", "`line` must be an object"),
        ] {
            assert_eq!(OllamaReplyReader::default().read(line).unwrap_err().to_string(), expected);
            assert_eq!(read_answer(line.as_bytes()).unwrap_err().to_string(), expected);
        }
        assert_eq!(read_answer(b"{}").unwrap_err().to_string(), "`message` must be an object");
    }
}
