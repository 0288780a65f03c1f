//! The replies of a server that binds thinking, in each protocol.

use forge_domain::ProviderKind;
use serde_json::{Value, json};

use super::Thoughts;

/// A part of a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Bit {
    /// A thought that can be read.
    Shown,
    /// A thought of which there is the signature alone.
    Hidden,
    /// A thought that is encrypted as a whole, in Anthropic's protocol.
    Redacted,
    Text,
    Call,
}

/// The number of the reply, and its place in the turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn {
    pub(super) n: usize,
    /// True if it calls no tool.
    pub(super) is_last: bool,
}

/// Returns the place of signature `nth` in a reply that is not signed yet.
pub(super) fn unsigned(nth: usize) -> String {
    format!("unsigned {nth}")
}

/// Returns the content of reply `turn`: blocks, items or parts. Thoughts of every kind come in turn.
pub(super) fn content(kind: ProviderKind, turn: Turn, thoughts: Thoughts) -> Vec<Value> {
    let mut bits = match turn.n % 4 {
        // Some replies do not think, some only sign, and some think again between text and call.
        0 => vec![Bit::Text],
        1 => vec![Bit::Shown, Bit::Text],
        2 => vec![Bit::Hidden, Bit::Redacted, Bit::Text],
        _ => vec![Bit::Shown, Bit::Text, Bit::Hidden],
    };
    if !turn.is_last {
        bits.push(Bit::Call);
    } else if bits.last() != Some(&Bit::Text) {
        bits.pop();
    }
    bits.retain(|bit| *bit != Bit::Redacted || kind == ProviderKind::Anthropic);
    let said = |bits: &[Bit], padding: usize| match kind {
        ProviderKind::Responses => items(bits, turn.n, padding),
        ProviderKind::Gemini => parts(bits, turn.n, padding),
        _ => blocks(bits, turn.n, padding),
    };
    if thoughts == Thoughts::Bound {
        return said(&bits, 0);
    }
    let silent: Vec<Bit> = bits.iter().copied().filter(|bit| matches!(bit, Bit::Text | Bit::Call)).collect();
    let size = |content: &[Value]| json!(content).to_string().len();
    let padding =
        if thoughts == Thoughts::AsText { size(&said(&bits, 0)) - size(&said(&silent, 0)) } else { 0 };
    said(&silent, padding)
}

/// Returns the reply as the server sends it.
pub(super) fn envelope(kind: ProviderKind, turn: Turn, body: &Value, content: &[Value]) -> Value {
    let (input, output, model) = (body.to_string().len() / 4, 20, &body["model"]);
    match kind {
        ProviderKind::Responses => json!({"id": format!("resp_{}", turn.n), "object": "response",
            "status": "completed", "error": null, "model": model, "output": content,
            "usage": {"input_tokens": input, "output_tokens": output}}),
        ProviderKind::Gemini => json!({"candidates": [{"index": 0, "finishReason": "STOP",
            "content": {"role": "model", "parts": content}}], "modelVersion": model,
            "usageMetadata": {"promptTokenCount": input, "candidatesTokenCount": output}}),
        _ => json!({"type": "message", "id": format!("msg_{}", turn.n), "role": "assistant", "model": model,
            "content": content, "stop_reason": if turn.is_last { "end_turn" } else { "tool_use" },
            "usage": {"input_tokens": input, "output_tokens": output}}),
    }
}

/// Returns the request with the reply at its end, as it will come back.
pub(super) fn continued(kind: ProviderKind, body: &Value, content: &[Value]) -> Value {
    let mut whole = body.clone();
    let mut push = |key: &str, more: &[Value]| {
        let list = whole[key].as_array_mut().expect("a request has messages");
        list.extend_from_slice(more);
    };
    match kind {
        ProviderKind::Responses => push("input", content),
        ProviderKind::Gemini => push("contents", &[json!({"role": "model", "parts": content})]),
        _ => push("messages", &[json!({"role": "assistant", "content": content})]),
    }
    whole
}

fn text(n: usize, padding: usize) -> String {
    // Letters that a tokenizer knows as little as those of a signature.
    let letters = (0..padding).map(|at| char::from(b"0123456789abcdef"[(n * 31 + at * at * 7 + at) % 16]));
    format!("Step {n}: I look at the next part.{}", letters.collect::<String>())
}

fn thought(n: usize) -> String {
    format!("The part {n} is next, because the others are done.")
}

/// Blocks of Anthropic's messages.
fn blocks(bits: &[Bit], n: usize, padding: usize) -> Vec<Value> {
    let block = |(nth, bit): (usize, &Bit)| match bit {
        Bit::Shown => json!({"type": "thinking", "thinking": thought(n), "signature": unsigned(nth)}),
        Bit::Hidden => json!({"type": "thinking", "thinking": "", "signature": unsigned(nth)}),
        Bit::Redacted => json!({"type": "redacted_thinking", "data": unsigned(nth)}),
        Bit::Text => json!({"type": "text", "text": text(n, padding)}),
        Bit::Call => {
            json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": "look", "input": {"part": n}})
        }
    };
    bits.iter().enumerate().map(block).collect()
}

/// Items of OpenAI's responses.
fn items(bits: &[Bit], n: usize, padding: usize) -> Vec<Value> {
    let summary = json!([{"type": "summary_text", "text": thought(n)}]);
    let reasoning = |nth: usize, summary: &Value| {
        json!({"type": "reasoning", "id": format!("rs_{n}_{nth}"), "summary": summary,
            "encrypted_content": unsigned(nth)})
    };
    let item = |(nth, bit): (usize, &Bit)| match bit {
        Bit::Shown => reasoning(nth, &summary),
        Bit::Hidden | Bit::Redacted => reasoning(nth, &json!([])),
        Bit::Text => {
            json!({"type": "message", "id": format!("msg_{n}"), "status": "completed", "role": "assistant",
            "content": [{"type": "output_text", "text": text(n, padding), "annotations": []}]})
        }
        Bit::Call => json!({"type": "function_call", "id": format!("fc_{n}"), "status": "completed",
            "call_id": format!("call_{n}"), "name": "look", "arguments": json!({"part": n}).to_string()}),
    };
    bits.iter().enumerate().map(item).collect()
}

/// Parts of Gemini's contents: a thought signs the part that follows it, and every call is signed.
fn parts(bits: &[Bit], n: usize, padding: usize) -> Vec<Value> {
    let thinks = bits.iter().any(|bit| !matches!(bit, Bit::Text | Bit::Call));
    let mut signs = false;
    let mut parts = Vec::new();
    for (nth, bit) in bits.iter().enumerate() {
        let mut part = match bit {
            Bit::Shown => {
                parts.push(json!({"text": thought(n), "thought": true}));
                signs = true;
                continue;
            }
            Bit::Hidden | Bit::Redacted => {
                signs = true;
                continue;
            }
            Bit::Text => json!({"text": text(n, padding)}),
            Bit::Call => {
                json!({"functionCall": {"id": format!("id-{n}"), "name": "look", "args": {"part": n}}})
            }
        };
        if signs || (thinks && *bit == Bit::Call) {
            part["thoughtSignature"] = json!(unsigned(nth));
        }
        signs = false;
        parts.push(part);
    }
    parts
}
