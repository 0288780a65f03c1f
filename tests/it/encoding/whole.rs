//! The bodies of requests, each built as one value.

use forge_domain::{
    Body, Budget, ContextMessage, Conversation, Message, ModelLimits, Prompt, Role, Tokens, ToolDefinition,
};
use forge_wire::{Delivery, anthropic, gemini, ollama, openai, responses};
use serde_json::{Map, Value, json};

use super::Characters;

fn messages(prompt: &Prompt) -> Vec<&Message> {
    prompt.messages().iter().map(ContextMessage::message).collect()
}

pub(super) fn openai(prompt: &Prompt, delivery: Delivery) -> Value {
    let options = prompt.options();
    let model = options.model.model.as_str();
    let mut body = Map::new();
    body.insert("model".into(), json!(model));
    body.insert("messages".into(), Value::Array(openai::messages_json(messages(prompt), model)));
    if !prompt.tools().is_empty() {
        body.insert("tools".into(), json!(prompt.tools()));
    }
    if let Some(temperature) = options.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    if let Some(top_p) = options.top_p {
        body.insert("top_p".into(), json!(top_p));
    }
    if let Some(limit) = options.max_output_tokens {
        let key = if model == "o3-mini" { "max_completion_tokens" } else { "max_tokens" };
        body.insert(key.into(), json!(limit.as_u64()));
    }
    if delivery == Delivery::Stream {
        body.insert("stream".into(), json!(true));
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    Value::Object(body)
}

/// The body of the same messages, each as if it had never been sent.
pub(super) fn responses(prompt: &Prompt, delivery: Delivery) -> Value {
    let mut conversation = Conversation::new();
    for message in messages(prompt) {
        conversation.append(ContextMessage::count(message.clone(), &Characters));
    }
    let limits = ModelLimits { window: prompt.window(), max_output: None };
    let budget = Budget::new(limits, prompt.options().clone(), prompt.tools().to_vec(), &Characters);
    json!(responses::request(&budget.admit(conversation.view()).unwrap(), delivery))
}

pub(super) fn ollama(prompt: &Prompt, window: Tokens, delivery: Delivery) -> Value {
    let options = prompt.options();
    let mut set = Map::new();
    set.insert("num_ctx".into(), json!(window.as_u64()));
    if let Some(limit) = options.max_output_tokens {
        set.insert("num_predict".into(), json!(limit.as_u64()));
    }
    if let Some(temperature) = options.temperature {
        set.insert("temperature".into(), json!(temperature));
    }
    if let Some(top_p) = options.top_p {
        set.insert("top_p".into(), json!(top_p));
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(options.model.model));
    body.insert("messages".into(), Value::Array(ollama::messages_json(messages(prompt))));
    if !prompt.tools().is_empty() {
        body.insert("tools".into(), json!(prompt.tools()));
    }
    body.insert("stream".into(), json!(delivery == Delivery::Stream));
    body.insert("options".into(), Value::Object(set));
    Value::Object(body)
}

pub(super) fn anthropic(prompt: &Prompt, delivery: Delivery) -> Value {
    let options = prompt.options();
    let messages = messages(prompt);
    let n_system = messages.iter().take_while(|message| message.role() == Role::System).count();
    let texts = messages[..n_system].iter().map(|message| message.to_text());
    let mut system: Vec<Value> =
        texts.filter(|text| !text.trim().is_empty()).map(|text| text_block(&text)).collect();
    let mut entries = entries(&messages[n_system..]);
    let mut tools: Vec<Value> = prompt.tools().iter().map(tool).collect();
    if !entries.iter().any(|(_, blocks)| is_marked(blocks)) {
        let standing = system.last_mut().or(tools.last_mut());
        let users = entries.iter_mut().rev().filter(|(role, _)| *role == "user").take(2);
        standing.into_iter().chain(users.filter_map(|(_, blocks)| blocks.last_mut())).for_each(mark);
    }
    let mut body = Map::new();
    body.insert("model".into(), json!(options.model.model));
    body.insert("max_tokens".into(), json!(prompt.answer_tokens().max(Tokens::new(1)).as_u64()));
    if !tools.is_empty() {
        body.insert("tools".into(), Value::Array(tools));
    }
    if !system.is_empty() {
        body.insert("system".into(), Value::Array(system));
    }
    let entry = |(role, blocks): (&str, Vec<Value>)| json!({"role": role, "content": blocks});
    body.insert("messages".into(), entries.into_iter().map(entry).collect());
    if let Some(temperature) = options.temperature {
        body.insert("temperature".into(), json!(temperature.min(1.0)));
    }
    if let Some(top_p) = options.top_p {
        body.insert("top_p".into(), json!(top_p));
    }
    if delivery == Delivery::Stream {
        body.insert("stream".into(), json!(true));
    }
    Value::Object(body)
}

fn entries(messages: &[&Message]) -> Vec<(&'static str, Vec<Value>)> {
    let mut entries: Vec<(&'static str, Vec<Value>)> = Vec::new();
    for message in messages {
        let (role, blocks) = said(message);
        match entries.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.0 == role => last.1.extend(blocks),
            _ => entries.push((role, blocks)),
        }
    }
    entries.iter_mut().for_each(|(_, blocks)| anthropic::with_legal_ids(blocks));
    entries
}

fn said(message: &Message) -> (&'static str, Vec<Value>) {
    if let Ok(said) = anthropic::entry_blocks(message) {
        return said;
    }
    let text = message.to_text();
    let role = if message.role() == Role::Assistant { "assistant" } else { "user" };
    let words = match message.role() {
        Role::System if text.trim().is_empty() => return (role, Vec::new()),
        Role::System => format!("<system>\n{text}\n</system>"),
        Role::User | Role::Assistant | Role::Tool => {
            format!("{text}\n[a part was left out: this provider cannot read it]").trim_start().to_owned()
        }
    };
    let blocks = anthropic::entry_blocks(&message.with_content(words.as_str()));
    (role, blocks.map_or_else(|_| vec![text_block(&words)], |said| said.1))
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool(tool: &ToolDefinition) -> Value {
    let mut schema = tool.parameters.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| json!("object"));
    json!({"name": tool.name, "description": tool.description, "input_schema": schema})
}

fn is_marked(blocks: &[Value]) -> bool {
    blocks.iter().any(|block| block.get("cache_control").is_some_and(|mark| !mark.is_null()))
}

fn mark(block: &mut Value) {
    let Some(block) = block.as_object_mut() else { return };
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    if !["thinking", "redacted_thinking"].contains(&kind) {
        block.insert("cache_control".to_owned(), json!({"type": "ephemeral"}));
    }
}

pub(super) fn gemini(prompt: &Prompt) -> Value {
    let options = prompt.options();
    let messages = messages(prompt);
    let n_system = messages.iter().take_while(|message| message.role() == Role::System).count();
    let texts = messages[..n_system].iter().map(|message| message.to_text());
    let system: Vec<Value> =
        texts.filter(|text| !text.trim().is_empty()).map(|text| json!({"text": text})).collect();
    let mut body = Map::new();
    if !system.is_empty() {
        body.insert("systemInstruction".into(), json!({"parts": system}));
    }
    if !prompt.tools().is_empty() {
        let declaration = |tool: &ToolDefinition| {
            let mut spelt = json!({"name": tool.name, "description": tool.description});
            if tool.parameters["properties"].as_object().is_some_and(|properties| !properties.is_empty()) {
                spelt["parametersJsonSchema"] = tool.parameters.clone();
            }
            spelt
        };
        let declarations: Vec<Value> = prompt.tools().iter().map(declaration).collect();
        body.insert("tools".into(), json!([{"functionDeclarations": declarations}]));
    }
    let signs = options.model.model.as_str() == "gemini-3.5-flash";
    body.insert("contents".into(), Value::Array(contents(&messages[n_system..], signs)));
    let mut set = Map::new();
    if let Some(limit) = options.max_output_tokens {
        set.insert("maxOutputTokens".into(), json!(limit.as_u64()));
    }
    if let Some(temperature) = options.temperature {
        set.insert("temperature".into(), json!(temperature));
    }
    if let Some(top_p) = options.top_p {
        set.insert("topP".into(), json!(top_p));
    }
    if !set.is_empty() {
        body.insert("generationConfig".into(), Value::Object(set));
    }
    Value::Object(body)
}

fn contents(messages: &[&Message], signs: bool) -> Vec<Value> {
    let mut contents: Vec<(&'static str, Vec<Value>)> = Vec::new();
    // What came with the results of the run so far.
    let mut media: Vec<Value> = Vec::new();
    for (at, message) in messages.iter().enumerate() {
        let (role, mut parts) = said_to_gemini(&with_name(message, &messages[..at]));
        if parts.is_empty() {
            continue;
        }
        if signs
            && let Some(call) = parts.iter_mut().find(|part| part.get("functionCall").is_some())
            && call.get("thoughtSignature").is_none()
        {
            call["thoughtSignature"] = json!("skip_thought_signature_validator");
        }
        let is_result = message.role() == Role::Tool;
        if !is_result && let Some(last) = contents.last_mut() {
            last.1.append(&mut media);
        }
        let behind = if is_result { parts.split_off(1) } else { Vec::new() };
        match contents.last_mut() {
            Some(last) if last.0 == role => last.1.extend(parts),
            _ => contents.push((role, parts)),
        }
        media.extend(behind);
    }
    if let Some(last) = contents.last_mut() {
        last.1.append(&mut media);
    }
    contents.into_iter().map(|(role, parts)| json!({"role": role, "parts": parts})).collect()
}

/// A result with the name of its tool, by the last call before it that has its id.
fn with_name(message: &Message, before: &[&Message]) -> Message {
    let mut named = message.clone();
    if let Body::Tool(result) = &mut named.body
        && result.name.is_none()
    {
        let mut calls = before.iter().flat_map(|message| message.calls());
        result.name = calls.rfind(|call| call.id == result.call_id).map(|call| call.name.clone());
    }
    named
}

fn said_to_gemini(message: &Message) -> (&'static str, Vec<Value>) {
    let text = message.to_text();
    let part = |text: &str| vec![json!({"text": text})];
    match message.role() {
        Role::System if text.trim().is_empty() => ("user", Vec::new()),
        Role::System => ("user", part(&format!("<system>\n{text}\n</system>"))),
        Role::User | Role::Assistant | Role::Tool => gemini::content_parts(message).unwrap_or_else(|_| {
            let words = format!("{text}\n[a part was left out: this provider cannot read it]");
            gemini::content_parts(&message.with_content(words.trim_start())).unwrap()
        }),
    }
}
