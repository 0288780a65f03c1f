//! A reply in the words of each protocol: as a stream of chunks, or as one piece.

use serde_json::{Value, json};

/// The protocol that a request is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    OpenAi,
    Responses,
    Anthropic,
    Ollama,
    Gemini,
}

impl Dialect {
    /// The dialect of what is posted to `line`, such as `POST /v1/messages`.
    pub(crate) fn of(line: &str) -> Option<Self> {
        let path = line.strip_prefix("POST ")?.split('?').next()?;
        let ends = [
            ("/chat/completions", Self::OpenAi),
            ("/responses", Self::Responses),
            ("/v1/messages", Self::Anthropic),
            ("/api/chat", Self::Ollama),
            (":streamGenerateContent", Self::Gemini),
        ];
        ends.into_iter().find(|(end, _)| path.ends_with(end)).map(|(_, dialect)| dialect)
    }

    /// One event of a stream, framing included.
    pub(crate) fn frame(self, event: &str) -> String {
        match self {
            // The events of Responses have a name and a number too: readers need neither.
            Self::OpenAi | Self::Responses => format!("data: {event}\n\n"),
            Self::Gemini => format!("data: {event}\r\n\r\n"),
            // The name is told twice; readers need but one of the two.
            Self::Anthropic => format!("event: ping\ndata: {{\"type\": \"ping\"}}\n\ndata: {event}\n\n"),
            Self::Ollama => format!("{event}\n"),
        }
    }

    /// What ends a stream; nothing where its last event says so.
    pub(crate) fn end(self) -> Option<String> {
        (self == Self::OpenAi).then(|| self.frame("[DONE]"))
    }

    pub(crate) const fn content_type(self) -> &'static str {
        match self {
            Self::OpenAi | Self::Responses | Self::Anthropic | Self::Gemini => "text/event-stream",
            Self::Ollama => "application/x-ndjson",
        }
    }
}

/// A reply that a model might have given.
pub(crate) struct Answer {
    text: Option<String>,
    calls: Vec<Call>,
    usage: Value,
    /// Whether it reached the limit of the output.
    is_cut: bool,
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
        let said = ["messages", "contents", "input"].iter().find_map(|key| request.get(key));
        let prompt_tokens = said.map_or(0, |said| said.to_string().chars().count() / 4);
        let completion_tokens = n_chars.div_ceil(4);
        let usage = json!({
            "prompt_tokens": prompt_tokens,
            "completion_tokens": completion_tokens,
            "total_tokens": prompt_tokens + completion_tokens,
        });
        Self { text, calls, usage, is_cut: false }
    }

    /// The same reply, which reached the limit of the output.
    pub(crate) fn cut(self) -> Self {
        Self { is_cut: true, ..self }
    }

    /// The chunks of a stream.
    pub(crate) fn chunks(&self, dialect: Dialect) -> Vec<Value> {
        match dialect {
            Dialect::OpenAi => self.openai_chunks(),
            Dialect::Responses => self.responses_events(),
            Dialect::Anthropic => self.anthropic_events(),
            Dialect::Ollama => self.ollama_lines(),
            Dialect::Gemini => self.gemini_events(),
        }
    }

    /// The events of a response: each item begins, grows and is told whole.
    fn responses_events(&self) -> Vec<Value> {
        let mut events =
            vec![json!({"type": "response.created", "response": self.response("in_progress", &[])})];
        let mut items: Vec<Value> = Vec::new();
        let mut item = |begun: Value, kind: &str, pieces: Vec<String>, done: Value| {
            let at = items.len();
            let event = |kind: &str| json!({"type": format!("response.{kind}"), "output_index": at});
            let mut added = event("output_item.added");
            added["item"] = begun;
            events.push(added);
            for piece in pieces {
                let mut delta = event(&format!("{kind}.delta"));
                delta["delta"] = json!(piece);
                events.push(delta);
            }
            let mut told = event("output_item.done");
            told["item"] = done.clone();
            events.push(told);
            items.push(done);
        };
        if let Some(text) = &self.text {
            let begun = json!({"type": "message", "id": "msg_1", "status": "in_progress", "role": "assistant",
                "content": []});
            item(begun, "output_text", split(text, 4).collect(), message_item(text));
        }
        for call in &self.calls {
            let mut begun = call_item(call);
            begun["arguments"] = json!("");
            item(begun, "function_call_arguments", split(&call.arguments, 3).collect(), call_item(call));
        }
        let status = if self.is_cut { "incomplete" } else { "completed" };
        events.push(json!({"type": format!("response.{status}"), "response": self.response(status, &items)}));
        events
    }

    fn response(&self, status: &str, output: &[Value]) -> Value {
        let reason = (status == "incomplete").then(|| json!({"reason": "max_output_tokens"}));
        let usage = (status != "in_progress").then(|| {
            json!({"input_tokens": self.usage["prompt_tokens"], "input_tokens_details": {"cached_tokens": 0},
                "output_tokens": self.usage["completion_tokens"], "output_tokens_details": {"reasoning_tokens": 0}})
        });
        json!({"id": "resp_scripted", "object": "response", "status": status, "model": "scripted", "output": output,
            "error": null, "incomplete_details": reason, "usage": usage})
    }

    fn anthropic_events(&self) -> Vec<Value> {
        let count = |key: &str| self.usage[key].clone();
        let usage = json!({"input_tokens": count("prompt_tokens"), "output_tokens": 1});
        let mut events =
            vec![json!({"type": "message_start", "message": {"id": "msg_scripted", "type": "message",
            "role": "assistant", "model": "scripted", "content": [], "stop_reason": null, "usage": usage}})];
        let mut index = 0;
        let mut block = |block: Value, deltas: Vec<Value>| {
            events.push(json!({"type": "content_block_start", "index": index, "content_block": block}));
            let deltas = deltas.into_iter();
            events.extend(
                deltas.map(|delta| json!({"type": "content_block_delta", "index": index, "delta": delta})),
            );
            events.push(json!({"type": "content_block_stop", "index": index}));
            index += 1;
        };
        if let Some(text) = &self.text {
            let deltas = split(text, 4).map(|text| json!({"type": "text_delta", "text": text}));
            block(json!({"type": "text", "text": ""}), deltas.collect());
        }
        for call in &self.calls {
            let deltas = split(&call.arguments, 3)
                .map(|more| json!({"type": "input_json_delta", "partial_json": more}));
            block(
                json!({"type": "tool_use", "id": call.id, "name": call.name, "input": {}}),
                deltas.collect(),
            );
        }
        let stop = match self.calls.is_empty() {
            _ if self.is_cut => "max_tokens",
            true => "end_turn",
            false => "tool_use",
        };
        events.push(json!({"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": null},
            "usage": {"output_tokens": count("completion_tokens")}}));
        events.push(json!({"type": "message_stop"}));
        events
    }

    fn ollama_lines(&self) -> Vec<Value> {
        let line = |message: Value| json!({"model": "scripted", "message": message, "done": false});
        let says = |text: &str| json!({"role": "assistant", "content": text});
        let text = self.text.as_deref().unwrap_or_default();
        let mut lines = vec![line(says(""))];
        lines.extend(split(text, 4).map(|text| line(says(&text))));
        for call in &self.calls {
            let arguments = serde_json::from_str::<Value>(&call.arguments);
            // The server sends calls whole, and of half a call nothing.
            if self.is_cut && arguments.is_err() {
                continue;
            }
            let mut message = says("");
            message["tool_calls"] = json!([{"id": call.id, "function": {"name": call.name,
                "arguments": arguments.unwrap_or_default()}}]);
            lines.push(line(message));
        }
        let reason = if self.is_cut { "length" } else { "stop" };
        lines.push(json!({"model": "scripted", "message": says(""), "done": true, "done_reason": reason,
            "prompt_eval_count": self.usage["prompt_tokens"], "eval_count": self.usage["completion_tokens"]}));
        lines
    }

    fn gemini_events(&self) -> Vec<Value> {
        let event = |parts: Value, reason: Option<&str>| {
            let mut candidate = json!({"content": {"role": "model", "parts": parts}, "index": 0});
            candidate["finishReason"] = json!(reason);
            json!({"candidates": [candidate], "modelVersion": "scripted", "usageMetadata": {
                "promptTokenCount": self.usage["prompt_tokens"],
                "candidatesTokenCount": self.usage["completion_tokens"],
                "totalTokenCount": self.usage["total_tokens"]}})
        };
        let text = self.text.as_deref().unwrap_or_default();
        let mut events: Vec<Value> =
            split(text, 4).map(|text| event(json!([{"text": text}]), None)).collect();
        for call in &self.calls {
            let arguments = serde_json::from_str::<Value>(&call.arguments);
            // The server sends calls whole, and of half a call nothing.
            if self.is_cut && arguments.is_err() {
                continue;
            }
            let spelt = json!({"id": call.id, "name": call.name, "args": arguments.unwrap_or_default()});
            events.push(event(json!([{"functionCall": spelt}]), None));
        }
        events.push(event(json!([{"text": ""}]), Some(if self.is_cut { "MAX_TOKENS" } else { "STOP" })));
        events
    }

    /// The chunks of a stream of OpenAI's, the last of which is the usage.
    fn openai_chunks(&self) -> Vec<Value> {
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
        match self.calls.is_empty() {
            _ if self.is_cut => "length",
            true => "stop",
            false => "tool_calls",
        }
    }
}

fn whole_call(call: &Call) -> Value {
    json!({"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}})
}

fn message_item(text: &str) -> Value {
    json!({"type": "message", "id": "msg_1", "status": "completed", "role": "assistant",
        "content": [{"type": "output_text", "text": text, "annotations": [], "logprobs": []}]})
}

fn call_item(call: &Call) -> Value {
    json!({"type": "function_call", "id": format!("fc_{}", call.id), "status": "completed", "call_id": call.id,
        "name": call.name, "arguments": call.arguments})
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

/// `text` in at most `n` pieces of about the same length, or in more if they would be longer than a server sends.
fn split(text: &str, n: usize) -> impl Iterator<Item = String> {
    /// The longest piece, in bytes.
    const LONGEST: usize = 1_024;
    let n = n.max(text.len() / LONGEST);
    let chars: Vec<char> = text.chars().collect();
    let length = chars.len().div_ceil(n).max(1);
    chars.chunks(length).map(|piece| piece.iter().collect()).collect::<Vec<_>>().into_iter()
}
