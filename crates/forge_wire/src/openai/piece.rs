//! The parts that a complete reply and the pieces of a stream have in common.

use forge_domain::{ChatCompletionMessage, FinishReason, Tokens, ToolCallPart, Usage};
use serde_json::Value;

use super::message::arguments_text;

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
        dropped_reasoning: 0,
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
