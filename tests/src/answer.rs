//! The JSON of an OpenAI-compatible server: a reply as a stream of chunks, or as one piece.

use serde_json::{Value, json};

/// A reply that a model might have given.
pub(crate) struct Answer {
    text: Option<String>,
    calls: Vec<Call>,
    usage: Value,
}

struct Call {
    id: String,
    name: String,
    arguments: String,
}

impl Answer {
    /// The reply to `request`. Call ids go on from `n_calls`: `call_1`, `call_2`, …
    pub(crate) fn new(
        request: &Value,
        text: Option<String>,
        calls: Vec<(String, String)>,
        n_calls: usize,
    ) -> Self {
        let calls: Vec<_> = calls
            .into_iter()
            .enumerate()
            .map(|(index, (name, arguments))| Call {
                id: format!("call_{}", n_calls + index + 1),
                name,
                arguments,
            })
            .collect();
        let n_chars = text.as_deref().map_or(0, |text| text.chars().count())
            + calls
                .iter()
                .map(|call| call.name.chars().count() + call.arguments.chars().count())
                .sum::<usize>();
        let prompt_tokens = request["messages"].to_string().chars().count() / 4;
        let completion_tokens = n_chars.div_ceil(4);
        let usage = json!({
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        });
        Self { text, calls, usage }
    }

    /// The chunks of a stream, the last of which is the usage.
    pub(crate) fn chunks(&self) -> Vec<Value> {
        let mut deltas = vec![json!({"role": "assistant", "content": null})];
        deltas
            .extend(split(self.text.as_deref().unwrap_or_default(), 4).map(|text| json!({"content": text})));
        for (index, call) in self.calls.iter().enumerate() {
            let opening = json!({"name": call.name, "arguments": ""});
            deltas.push(json!({"tool_calls":
                [{"index": index, "id": call.id, "type": "function", "function": opening}]}));
            deltas.extend(
                split(&call.arguments, 3)
                    .map(|more| json!({"tool_calls": [{"index": index, "function": {"arguments": more}}]})),
            );
        }
        let mut chunks: Vec<_> = deltas
            .into_iter()
            .map(|delta| chunk(&json!([choice("delta", &delta, None)]), &Value::Null))
            .collect();
        chunks.push(chunk(&json!([choice("delta", &json!({}), Some(self.finish_reason()))]), &Value::Null));
        chunks.push(chunk(&json!([]), &self.usage));
        chunks
    }

    /// The answer in one piece.
    pub(crate) fn whole(&self) -> Value {
        let mut message = json!({"role": "assistant", "content": self.text});
        if !self.calls.is_empty() {
            message["tool_calls"] = self.calls.iter().map(whole_call).collect();
        }
        json!({
            "id": "chatcmpl-scripted", "object": "chat.completion", "created": 0, "model": "scripted",
            "choices": [choice("message", &message, Some(self.finish_reason()))],
            "usage": self.usage,
        })
    }

    fn finish_reason(&self) -> &'static str {
        if self.calls.is_empty() { "stop" } else { "tool_calls" }
    }
}

fn whole_call(call: &Call) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn choice(key: &str, says: &Value, finish_reason: Option<&str>) -> Value {
    let mut choice = json!({"index": 0, "finish_reason": finish_reason});
    choice[key] = says.clone();
    choice
}

fn chunk(choices: &Value, usage: &Value) -> Value {
    json!({
        "id": "chatcmpl-scripted", "object": "chat.completion.chunk", "created": 0, "model": "scripted",
        "choices": choices,
        "usage": usage,
    })
}

/// `text` in at most `n` pieces of about the same length.
fn split(text: &str, n: usize) -> impl Iterator<Item = String> {
    let chars: Vec<char> = text.chars().collect();
    let length = chars.len().div_ceil(n).max(1);
    chars.chunks(length).map(|piece| piece.iter().collect()).collect::<Vec<_>>().into_iter()
}
