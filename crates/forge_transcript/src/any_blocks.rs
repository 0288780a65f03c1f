//! Contents in the forms of many agents: their texts, images, calls and results, told apart by their keys.

use forge_domain::{Body, Content, HIDDEN_TOKENS, Message, Part, Role, ToolCall, ToolName, ToolResult};
use forge_wire::anthropic::media_part;
use serde_json::{Value, json};

use crate::arguments::object_fields;
use crate::flat_text::{flat_value, is_image};

/// One block of a content.
enum Block {
    Text(String),
    Media(Value),
    Call(ToolCall),
    Answer(ToolResult),
    /// Reasoning, or another part that is no text, with its estimated tokens.
    Hidden(usize),
}

/// The places of the parts of a call or a result. Of several places the first that is there counts.
struct Form {
    /// The block's `type`, or the key that its object is under.
    kind: &'static str,
    id: &'static [&'static str],
    name: &'static [&'static str],
    /// The arguments of the call, or what the result says.
    said: &'static [&'static str],
}

const fn form(
    kind: &'static str,
    id: &'static [&'static str],
    name: &'static [&'static str],
    said: &'static [&'static str],
) -> Form {
    Form { kind, id, name, said }
}

const CALLS: &[Form] = &[
    form("tool_use", &["/id", "/tool_id"], &["/name", "/tool_name"], &["/input", "/arguments"]),
    form("server_tool_use", &["/id"], &["/name"], &["/input"]),
    form("mcp_tool_use", &["/id"], &["/name"], &["/input"]),
    form("toolCall", &["/id"], &["/name"], &["/arguments"]),
    form("tool_call", &["/id"], &["/name"], &["/arguments", "/args"]),
    form("tool-call", &["/toolCallId"], &["/toolName"], &["/input", "/args"]),
    form("toolRequest", &["/id"], &["/toolCall/value/name"], &["/toolCall/value/arguments"]),
    form("frontendToolRequest", &["/id"], &["/toolCall/value/name"], &["/toolCall/value/arguments"]),
    form("function_call", &["/call_id", "/id"], &["/name"], &["/arguments"]),
    form("custom_tool_call", &["/call_id"], &["/name"], &["/input"]),
    form("local_shell_call", &["/call_id", "/id"], &["/type"], &["/action"]),
    form("tool_search_call", &["/call_id", "/id"], &["/type"], &["/arguments", "/action"]),
    form("functionCall", &["/functionCall/id"], &["/functionCall/name"], &["/functionCall/args"]),
];

const ANSWERS: &[Form] = &[
    form("tool_result", &["/tool_use_id", "/tool_id"], &[], &["/content", "/output"]),
    form("mcp_tool_result", &["/tool_use_id"], &[], &["/content"]),
    form("web_search_tool_result", &["/tool_use_id"], &[], &["/content"]),
    form("web_fetch_tool_result", &["/tool_use_id"], &[], &["/content"]),
    form("code_execution_tool_result", &["/tool_use_id"], &[], &["/content"]),
    form("bash_code_execution_tool_result", &["/tool_use_id"], &[], &["/content"]),
    form("text_editor_code_execution_tool_result", &["/tool_use_id"], &[], &["/content"]),
    form("tool-result", &["/toolCallId"], &["/toolName"], &["/output", "/result"]),
    form("tool-error", &["/toolCallId"], &["/toolName"], &["/error"]),
    form("toolResponse", &["/id"], &[], &["/toolResult/value", "/toolResult/error", "/toolResult"]),
    form("tool_call_response", &["/id"], &[], &["/response", "/result"]),
    form("function_call_output", &["/call_id"], &[], &["/output"]),
    form("custom_tool_call_output", &["/call_id"], &[], &["/output"]),
    form("local_shell_call_output", &["/call_id", "/id"], &[], &["/output"]),
    form("tool_search_output", &["/call_id"], &[], &["/output", "/tools"]),
    form("mcp_tool_call_output", &["/call_id"], &[], &["/output"]),
    form(
        "functionResponse",
        &["/functionResponse/id"],
        &["/functionResponse/name"],
        &["/functionResponse/response"],
    ),
];

/// Returns the messages that a content of `role` holds: one for each result, and one for the rest.
pub(crate) fn messages_of(role: Role, content: &Value) -> Vec<Message> {
    let mut messages = Vec::new();
    let (mut parts, mut calls, mut hidden) = (Vec::new(), Vec::new(), 0);
    for block in blocks(content) {
        match block {
            Block::Text(text) if text.is_empty() => {}
            Block::Text(text) => parts.push(Part::Text(text)),
            Block::Media(media) => parts.push(Part::Media(media)),
            Block::Call(call) => calls.push(call),
            Block::Answer(result) => messages.push(Message::tool(result)),
            Block::Hidden(tokens) => hidden += tokens,
        }
    }
    let content = one_content(parts);
    let rest = match role {
        _ if !calls.is_empty() => reply(content, calls, hidden),
        Role::Assistant => reply(content, calls, hidden),
        _ if content.is_empty() => None,
        Role::System => Some(Message::system(content)),
        Role::User | Role::Tool => Some(Message::user(content)),
    };
    // The results of tools that a server ran are in the reply that called them.
    let at = if role == Role::Assistant { 0 } else { messages.len() };
    messages.splice(at..at, rest);
    messages
}

/// Returns the messages of an entry in the form of chat messages: a role, a content, and the calls beside it
/// or the id of the call that it answers. Many frameworks write this form, each with keys of its own.
pub(crate) fn chat_messages(entry: &Value) -> Vec<Message> {
    let said = entry.get("content").unwrap_or(&Value::Null);
    let Some(role) = role_of(word(entry, &["/role", "/type"])) else { return Vec::new() };
    if role == Role::Tool {
        let has_blocks = said.as_array().is_some_and(|blocks| blocks.iter().any(is_answer));
        if has_blocks {
            return messages_of(role, said);
        }
        let id = word(entry, &["/tool_call_id", "/toolCallId", "/call_id", "/tool_call_ids/0"]);
        let error = entry.get("error").filter(|error| !error.is_null());
        let is_error = error.is_some() || is_error(entry) || text_at(entry, "/status") == "error";
        let is_silent = matches!(said, Value::Null) || said == "";
        return vec![answer(id, error.filter(|_| is_silent).unwrap_or(said), is_error)];
    }
    let mut messages = messages_of(role, said);
    let calls: Vec<ToolCall> =
        entry.get("tool_calls").and_then(Value::as_array).into_iter().flatten().map(chat_call).collect();
    if calls.is_empty() {
        return messages;
    }
    match messages.iter_mut().find(|message| message.role() == Role::Assistant).map(|said| &mut said.body) {
        // A framework may write each call twice, as a block and beside the content.
        Some(Body::Assistant { calls: own, .. }) if own.is_empty() => *own = calls,
        Some(_) => {}
        None => messages.extend(reply(Content::Text(String::new()), calls, 0)),
    }
    messages
}

/// Returns a call in the list beside a content.
fn chat_call(value: &Value) -> ToolCall {
    let name = word(value, &["/function/name", "/name", "/function", "/tool_name"]);
    let arguments = first(value, &["/function/arguments", "/arguments", "/args", "/input", "/function/args"]);
    call(word(value, &["/id", "/call_id", "/tool_call_id"]), name, arguments.unwrap_or(&Value::Null))
}

fn is_answer(block: &Value) -> bool {
    let kind = text_at(block, "/type");
    ANSWERS.iter().any(|form| form.kind == kind)
}

/// Returns a reply; `None` if it says and calls nothing. `hidden` are the tokens of its reasoning.
pub(crate) fn reply(content: Content, calls: Vec<ToolCall>, hidden: usize) -> Option<Message> {
    if content.is_empty() && calls.is_empty() {
        return None;
    }
    let content = (!content.is_empty()).then(|| match content {
        Content::Parts(parts) if parts.iter().all(|part| matches!(part, Part::Text(_))) => {
            Content::Text(Content::Parts(parts).to_text())
        }
        content => content,
    });
    let mut message = Message::new(Body::Assistant { content, calls });
    if hidden > 0 {
        message.metadata.insert(HIDDEN_TOKENS.into(), json!(hidden));
    }
    Some(message)
}

/// Returns a content of any agent's form, without calls, results and reasoning.
pub(crate) fn content_of(value: &Value) -> Content {
    let part = |block| match block {
        Block::Text(text) => Some(Part::Text(text)),
        Block::Media(media) => Some(Part::Media(media)),
        Block::Call(_) | Block::Answer(_) | Block::Hidden(_) => None,
    };
    one_content(blocks(value).into_iter().filter_map(part).collect())
}

/// Returns a call. Arguments that are not an object are put under `input`.
pub(crate) fn call(id: &str, name: &str, arguments: &Value) -> ToolCall {
    let plain = || ToolName::new("tool").expect("it is a legal name");
    let arguments = match arguments {
        Value::Null => "{}".to_owned(),
        Value::Object(_) => arguments.to_string(),
        Value::String(text) if text.trim().is_empty() => "{}".to_owned(),
        // A call that was interrupted has half of its arguments.
        Value::String(text) if object_fields(text).is_ok() => text.clone(),
        other => json!({"input": other}).to_string(),
    };
    ToolCall { id: id.to_owned(), name: ToolName::new(name).unwrap_or_else(|_| plain()), arguments }
}

/// Returns the message of a result.
pub(crate) fn answer(call_id: &str, said: &Value, is_error: bool) -> Message {
    Message::tool(ToolResult {
        call_id: call_id.to_owned(),
        name: None,
        content: answer_content(said),
        is_error,
    })
}

/// Returns the text at `pointer`; an empty one if there is none.
pub(crate) fn text_at<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// Returns the items of the list under `key`; none if it is anything else.
pub(crate) fn items<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Returns the role of that name, of any agent; `None` if it is no speaker's.
pub(crate) fn role_of(name: &str) -> Option<Role> {
    match name.to_lowercase().as_str() {
        "system" | "developer" => Some(Role::System),
        "user" | "human" => Some(Role::User),
        "assistant" | "model" | "ai" | "agent" | "gemini" => Some(Role::Assistant),
        "tool" | "toolresult" | "function" => Some(Role::Tool),
        _ => None,
    }
}

fn one_content(mut parts: Vec<Part>) -> Content {
    match (parts.len(), parts.pop()) {
        (1, Some(Part::Text(text))) => Content::Text(text),
        (_, None) => Content::Text(String::new()),
        (_, Some(last)) => {
            parts.push(last);
            Content::Parts(parts)
        }
    }
}

fn blocks(content: &Value) -> Vec<Block> {
    match content {
        Value::Null => Vec::new(),
        Value::Array(items) => items.iter().map(block).collect(),
        one => vec![block(one)],
    }
}

fn block(value: &Value) -> Block {
    let Some(fields) = value.as_object() else { return Block::Text(flat_value(value)) };
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    let is = |form: &&Form| form.kind == kind || (kind.is_empty() && fields.contains_key(form.kind));
    if let Some(form) = CALLS.iter().find(is) {
        let arguments = first(value, form.said).unwrap_or(&Value::Null);
        return Block::Call(call(word(value, form.id), word(value, form.name), arguments));
    }
    if let Some(form) = ANSWERS.iter().find(is) {
        return Block::Answer(ToolResult {
            call_id: word(value, form.id).to_owned(),
            name: ToolName::new(word(value, form.name)).ok(),
            content: answer_content(first(value, form.said).unwrap_or(&Value::Null)),
            is_error: kind == "tool-error" || is_error(value),
        });
    }
    let is_thought = fields.get("thought") == Some(&Value::Bool(true));
    if is_thought || matches!(kind, "thinking" | "redacted_thinking" | "reasoning" | "redacted-reasoning") {
        return Block::Hidden(hidden_tokens(value));
    }
    match fields.get("text").or_else(|| fields.get("refusal")) {
        Some(Value::String(text)) if !is_image(fields) => Block::Text(text.clone()),
        _ if kind == "file" && fields.get("content").is_some_and(Value::is_string) => {
            Block::Text(attached_file(value))
        }
        _ if is_media(kind, value) => Block::Media(openai_media(value)),
        _ if matches!(kind, "step-start" | "step-finish" | "snapshot") => Block::Text(String::new()),
        _ if kind == "text" && !fields.contains_key("content") => Block::Text(String::new()),
        _ => Block::Text(flat_value(value)),
    }
}

/// Estimates the tokens of reasoning: one for four bytes of its text, or for six of what seals it.
pub(crate) fn hidden_tokens(value: &Value) -> usize {
    let shown: usize = ["thinking", "text", "reasoning", "content", "summary"]
        .map(|key| length(value.get(key)))
        .iter()
        .sum();
    if shown > 0 {
        return shown.div_ceil(4);
    }
    let sealed: usize = ["signature", "data", "encrypted_content", "encrypted", "thinkingSignature"]
        .map(|key| length(value.get(key)))
        .iter()
        .sum();
    sealed.div_ceil(6)
}

fn length(value: Option<&Value>) -> usize {
    value.map(flat_value).map_or(0, |text| text.len())
}

fn first<'v>(value: &'v Value, places: &[&str]) -> Option<&'v Value> {
    places.iter().filter_map(|place| value.pointer(place)).find(|found| !found.is_null())
}

/// Returns the text at the first of `places` that is there; an empty one if none is.
pub(crate) fn word<'v>(value: &'v Value, places: &[&str]) -> &'v str {
    first(value, places).and_then(Value::as_str).unwrap_or_default()
}

fn is_error(value: &Value) -> bool {
    let is_true = |place: &&str| value.pointer(place) == Some(&Value::Bool(true));
    ["/is_error", "/isError", "/toolResult/value/isError"].iter().any(is_true)
        || text_at(value, "/toolResult/status") == "error"
        || text_at(value, "/output/type").starts_with("error")
        || value.pointer("/output/success") == Some(&Value::Bool(false))
}

/// Returns what a result says, which may be a list of blocks, or be wrapped once more.
fn answer_content(said: &Value) -> Content {
    match said {
        Value::Array(_) => {
            let content = content_of(said);
            if content.is_empty() { Content::Text(flat_value(said)) } else { content }
        }
        Value::Object(fields) => match ["content", "value"].iter().find_map(|key| fields.get(*key)) {
            Some(inner @ Value::Array(_)) => answer_content(inner),
            _ => Content::Text(flat_value(said)),
        },
        other => Content::Text(flat_value(other)),
    }
}

fn is_media(kind: &str, value: &Value) -> bool {
    const KEYS: [&str; 4] = ["inlineData", "fileData", "inline_data", "file_data"];
    matches!(kind, "image" | "image_url" | "input_image" | "document" | "file" | "input_file" | "input_audio")
        || KEYS.iter().any(|key| value.get(key).is_some())
}

/// Returns a file that was attached as text, between the tags that Cline writes around one.
fn attached_file(value: &Value) -> String {
    let [path, content] = ["/path", "/content"].map(|key| word(value, &[key]));
    format!("<file_content path={}>\n{content}\n</file_content>", json!(path))
}

/// Returns an image in the form of OpenAI's messages; anything else as it is.
fn openai_media(value: &Value) -> Value {
    let address = |url: &str| json!({"type": "image_url", "image_url": {"url": url}});
    if let Some(url) =
        first(value, &["/image_url/url", "/image_url", "/image_urls/0", "/image_url/image_url"])
            .and_then(Value::as_str)
    {
        return address(url);
    }
    let kinds = ["/mimeType", "/mediaType", "/mime_type", "/inlineData/mimeType", "/source/mediaType"];
    let data = ["/data", "/inlineData/data", "/image", "/url", "/source/base64"];
    match (word(value, &kinds), word(value, &data)) {
        (_, url) if url.starts_with("http") || url.starts_with("data:") => address(url),
        (kind, data) if kind.starts_with("image/") && !data.is_empty() => {
            address(&format!("data:{kind};base64,{data}"))
        }
        _ => media_part(value).unwrap_or_else(|_| value.clone()),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns the messages in short: role, text, calls and the ids of results.
    fn short(role: Role, content: &Value) -> String {
        let line = |message: &Message| match &message.body {
            Body::Tool(result) => format!("tool {}={}", result.call_id, message.to_text()),
            _ => {
                let calls = message.calls().iter();
                let calls: String =
                    calls.map(|call| format!(" {}:{}{}", call.id, call.name, call.arguments)).collect();
                format!("{} {}{calls}", message.role().as_str(), message.to_text())
            }
        };
        messages_of(role, content).iter().map(line).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn calls_and_results_of_every_agent_are_found() {
        for (block, expected) in [
            (
                json!({"type": "tool_use", "id": "c", "name": "f", "input": {"a": 1}}),
                "assistant  c:f{\"a\":1}",
            ),
            (json!({"type": "toolCall", "id": "c", "name": "f", "arguments": {}}), "assistant  c:f{}"),
            (
                json!({"type": "tool-call", "toolCallId": "c", "toolName": "f", "args": {}}),
                "assistant  c:f{}",
            ),
            (
                json!({"type": "toolRequest", "id": "c", "toolCall": {"status": "success", "value": {"name": "f", "arguments": {}}}}),
                "assistant  c:f{}",
            ),
            (json!({"functionCall": {"name": "f", "args": {}}}), "assistant  :f{}"),
            (
                json!({"type": "custom_tool_call", "call_id": "c", "name": "f", "input": "x"}),
                "assistant  c:f{\"input\":\"x\"}",
            ),
        ] {
            assert_eq!(short(Role::Assistant, &json!([block])), expected, "{block}");
        }
        for (block, expected) in [
            (
                json!({"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": "out"}]}),
                "tool c=out",
            ),
            (
                json!({"type": "tool-result", "toolCallId": "c", "output": {"type": "text", "value": "out"}}),
                "tool c=out",
            ),
            (
                json!({"type": "toolResponse", "id": "c", "toolResult": {"status": "success", "value": [{"type": "text", "text": "out"}]}}),
                "tool c=out",
            ),
            (
                json!({"functionResponse": {"id": "c", "name": "f", "response": {"output": "out"}}}),
                "tool c=out",
            ),
            (json!({"type": "function_call_output", "call_id": "c", "output": "out"}), "tool c=out"),
            (json!({"type": "input_text", "text": "out"}), "user out"),
            (json!("out"), "user out"),
            (json!({"type": "thinking", "thinking": "hm"}), ""),
        ] {
            assert_eq!(short(Role::User, &json!([block])), expected, "{block}");
        }
    }

    #[test]
    fn images_get_the_form_of_openais() {
        let url = "data:image/png;base64,AA==";
        for image in [
            json!({"type": "image", "data": "AA==", "mimeType": "image/png"}),
            json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}),
            json!({"type": "input_image", "image_url": url}),
            json!({"inlineData": {"mimeType": "image/png", "data": "AA=="}}),
            json!({"type": "image", "image_urls": [url]}),
            json!({"type": "image", "image": url, "mediaType": "image/png"}),
        ] {
            let expected = Part::Media(json!({"type": "image_url", "image_url": {"url": url}}));
            assert_eq!(content_of(&json!([image])), Content::Parts(vec![expected]), "{image}");
        }
    }
}
