//! The conversion of prompts and replies to and from the types of the crate `genai`.

use forge_domain::{
    Body, ContextMessage, FinishReason, Message, Prompt, Role, Tokens, ToolCallPart, ToolDefinition, Usage,
};
use genai::chat::{
    ChatMessage, ChatRequest, ContentPart, MessageContent, StopReason, StreamEnd, Tool, ToolCall,
    ToolResponse,
};
use serde_json::{Map, Value, json};

/// The key of a message's metadata that holds its content as the crate gave it, with the signatures of
/// thoughts.
const KEPT: &str = "genai";

/// Converts the prompt to a request. Content that the crate cannot carry, such as an image, is replaced by
/// its name.
pub(super) fn request(prompt: &Prompt) -> ChatRequest {
    let messages: Vec<&Message> = prompt.messages().iter().map(ContextMessage::message).collect();
    let mut calls: Vec<&forge_domain::ToolCall> = Vec::new();
    let mut said = Vec::with_capacity(messages.len());
    for message in messages {
        if message.role() == Role::Assistant {
            calls = message.calls().iter().collect();
        }
        said.push(chat_message(message, &calls));
    }
    let request = ChatRequest::from_messages(said);
    match prompt.tools() {
        [] => request,
        tools => request.with_tools(tools.iter().map(tool)),
    }
}

fn tool(tool: &ToolDefinition) -> Tool {
    Tool::new(tool.name.as_str())
        .with_description(tool.description.clone())
        .with_schema(tool.parameters.clone())
}

/// Converts a message. A result names its tool, as given in `calls`, because some providers need it.
fn chat_message(message: &Message, calls: &[&forge_domain::ToolCall]) -> ChatMessage {
    let text = message.to_text();
    match &message.body {
        Body::System(_) => ChatMessage::system(text),
        Body::User(_) => ChatMessage::user(text),
        Body::Assistant { .. } => ChatMessage::assistant(kept_content(message).unwrap_or_else(|| {
            let text = (!text.is_empty()).then(|| ContentPart::from_text(text));
            let calls = message.calls().iter().map(|call| ContentPart::ToolCall(tool_call(call)));
            text.into_iter().chain(calls).collect()
        })),
        Body::Tool(result) => {
            let named = calls.iter().find(|call| call.id == result.call_id);
            let name = result.name.as_ref().or(named.map(|call| &call.name));
            let response = ToolResponse::new(result.call_id.clone(), text);
            ChatMessage::tool(match name {
                Some(name) => response.with_fn_name(name.as_str()),
                None => response,
            })
        }
    }
}

fn tool_call(call: &forge_domain::ToolCall) -> ToolCall {
    let arguments = serde_json::from_str(&call.arguments).ok().filter(Value::is_object);
    ToolCall {
        call_id: call.id.clone(),
        fn_name: call.name.to_string(),
        fn_arguments: arguments.unwrap_or_else(|| json!({"input": call.arguments})),
        thought_signatures: None,
    }
}

/// Returns the content that was kept for `message`, if it still agrees with the message.
fn kept_content(message: &Message) -> Option<MessageContent> {
    let content: MessageContent = serde_json::from_value(message.metadata.get(KEPT)?.clone()).ok()?;
    let same_text = content.texts().concat() == message.to_text();
    let calls = content.tool_calls();
    let same_calls = calls.len() == message.calls().len()
        && calls.iter().zip(message.calls()).all(|(kept, call)| {
            kept.call_id == call.id && arguments_text(&kept.fn_arguments) == call.arguments
        });
    (same_text && same_calls).then_some(content)
}

/// Returns the metadata of a reply whose content holds what the provider wants back.
pub(super) fn kept_metadata(end: &StreamEnd) -> Map<String, Value> {
    let signed = end.captured_content.as_ref().filter(|content| content.contains_thought_signature());
    let kept = signed.and_then(|content| serde_json::to_value(content).ok());
    kept.map(|content| (KEPT.to_owned(), content)).into_iter().collect()
}

/// Returns the calls of a reply.
pub(super) fn calls(end: &StreamEnd) -> Vec<ToolCallPart> {
    let calls = end.captured_tool_calls().unwrap_or_default().into_iter().enumerate();
    calls
        .map(|(index, call)| ToolCallPart {
            index,
            id: (!call.call_id.is_empty()).then(|| call.call_id.clone()),
            name: Some(call.fn_name.clone()),
            arguments: arguments_text(&call.fn_arguments),
        })
        .collect()
}

fn arguments_text(arguments: &Value) -> String {
    match arguments {
        Value::String(text) => text.clone(),
        Value::Null => "{}".to_owned(),
        arguments => arguments.to_string(),
    }
}

pub(super) fn finish_reason(reason: &StopReason) -> FinishReason {
    match reason {
        StopReason::Completed(_) | StopReason::StopSequence(_) => FinishReason::Stop,
        StopReason::ToolCall(_) => FinishReason::ToolCalls,
        StopReason::MaxTokens(_) => FinishReason::Length,
        StopReason::ContentFilter(_) => FinishReason::ContentFilter,
        StopReason::Other(word) if word == "model_context_window_exceeded" => FinishReason::Window,
        StopReason::Other(word) => FinishReason::Other(word.clone()),
    }
}

/// Returns the usage of a call, if the provider reported it.
pub(super) fn usage(usage: &genai::chat::Usage) -> Option<Usage> {
    let tokens = |n: Option<i32>| n.and_then(|n| u64::try_from(n).ok()).map(Tokens::new);
    let details = usage.prompt_tokens_details.as_ref();
    Some(Usage {
        prompt_tokens: tokens(usage.prompt_tokens)?,
        completion_tokens: tokens(usage.completion_tokens).unwrap_or(Tokens::ZERO),
        cached_tokens: tokens(details.and_then(|details| details.cached_tokens)).unwrap_or(Tokens::ZERO),
        cache_written_tokens: tokens(details.and_then(|details| details.cache_creation_tokens))
            .unwrap_or(Tokens::ZERO),
        dropped_reasoning: 0,
    })
}
