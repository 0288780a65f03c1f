//! Formats of messages with a role and a content of blocks, which differ in their containers and blocks.

use forge_domain::{Message, Role};
use serde_json::Value;

use super::codex_item::item_messages;
use crate::RecordedCompaction;
use crate::any_blocks::{chat_messages, messages_of, role_of, text_at};
use crate::codec::{EntryFormat, Evidence, Fields, Listing, Trace};
use crate::flat_text::flat_value;
use crate::format::FormatFacts;
use crate::tagged_call::read_tags;

/// Returns the items of the list that a document is, or has under one of `keys`.
fn items<'e, 'a>(evidence: &'e Evidence<'a>, keys: &[&str]) -> Vec<Fields<'a>>
where
    'a: 'e,
{
    let of_key = |document: &Fields<'a>| {
        let key = keys.iter().find(|key| document.has_list(key)).copied().unwrap_or_default();
        document.items(key).into_iter().take(60).map(|item| Fields::of(item.get())).collect()
    };
    match evidence.document() {
        Some(document) => of_key(document),
        None => evidence.list().iter().map(Fields::clone).collect(),
    }
}

/// Lists the items of the list that a document is, or has under `keys`.
fn listing<'a>(text: &'a str, keys: &[&str]) -> Result<Vec<Listing<'a>>, serde_json::Error> {
    if text.trim_start().starts_with('[') {
        return Ok(vec![Listing::of_list(text)?]);
    }
    Ok(vec![Listing::of_keys(&Fields::of(text), keys)])
}

/// Checks whether the content of a message has a block of one of `kinds`.
fn has_block(message: &Fields<'_>, key: &str, kinds: &[&str]) -> bool {
    message.items(key).iter().any(|block| {
        let block = Fields::of(block.get());
        kinds
            .iter()
            .any(|kind| block.text("type") == *kind || block.contains(kind) && block.get("type").is_empty())
    })
}

/// Tasks of Cline and Roo.
pub(super) struct Cline;

impl EntryFormat for Cline {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "cline",
        name: "Cline and Roo tasks",
        description: "api_conversation_history.json, or {\"messages\", \"system_prompt\"}",
        protocol: None,
    };
    const IS_LINES: bool = false;
    const COMPACTION: &'static str = "\"condenseId\"";
    const FOLDS: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        const OWN: [&str; 6] =
            ["modelInfo", "metrics", "condenseParent", "condenseId", "truncationParent", "isSummary"];
        let is_own = |message: &Fields<'_>| {
            message.has(&["role", "ts"])
                && (OWN.iter().any(|key| message.has(&[key])) || message.has_list("content"))
        };
        items(evidence, &["messages"]).iter().any(is_own)
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        listing(text, &["system_prompt", "systemPrompt", "messages"])
    }

    fn compaction(entry: &Value) -> Option<RecordedCompaction> {
        // Old summaries name no messages that they stand for: those are no longer in the file.
        let is_made = is_true(entry, "isSummary") && entry.get("condenseId").is_some_and(Value::is_string);
        is_made.then(RecordedCompaction::default)
    }

    fn messages(entry: &Value) -> Vec<Message> {
        if entry.is_string() {
            return messages_of(Role::System, entry);
        }
        let Some(role) = role_of(text_at(entry, "/role")) else { return Vec::new() };
        let messages = messages_of(role, entry.get("content").unwrap_or(&Value::Null));
        let is_made = is_true(entry, "isSummary");
        // Older versions have no other form for calls.
        let read = |message: Message| if is_made { message.compacted() } else { read_tags(message) };
        messages.into_iter().map(read).collect()
    }

    /// Returns the mark of a summary or a truncation, which hides the messages that name it.
    fn trace(entry: &Value) -> Trace {
        let id = |keys: [&str; 2]| keys.iter().find_map(|key| entry.get(*key)?.as_str()).map(Box::from);
        let is_mark = is_true(entry, "isTruncationMarker") || is_true(entry, "isSummary");
        Trace {
            id: id(["condenseId", "truncationId"]).filter(|_| is_mark),
            hidden_by: id(["condenseParent", "truncationParent"]),
            ..Trace::default()
        }
    }
}

fn is_true(entry: &Value, key: &str) -> bool {
    entry.get(key) == Some(&Value::Bool(true))
}

/// The list of turns that Claude Code prints as JSON.
pub(super) struct ClaudeTurns;

impl EntryFormat for ClaudeTurns {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "claude-turns",
        name: "printed turns of Claude Code",
        description: "[{\"type\": \"system\", \"subtype\"}, {\"type\": \"assistant\", \"message\"}]",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        evidence.list().iter().any(|turn| {
            matches!(turn.text("type").as_str(), "user" | "assistant") && turn.get("message").starts_with('{')
        })
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        listing(text, &[])
    }

    fn messages(turn: &Value) -> Vec<Message> {
        // A sub-agent's turns name the call that started it.
        if turn.get("parent_tool_use_id").is_some_and(Value::is_string) {
            return Vec::new();
        }
        turn.get("message").map(chat_messages).unwrap_or_default()
    }

    fn reply(turn: &Value) -> Option<String> {
        Some(text_at(turn, "/message/id").to_owned()).filter(|id| !id.is_empty())
    }
}

/// Conversations of Forge Code.
pub(super) struct ForgeCode;

impl EntryFormat for ForgeCode {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "forge-code",
        name: "Forge Code conversations",
        description: "{\"context\": {\"messages\": [{\"text\"}, {\"tool\"}]}}",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let Some(document) = evidence.document() else { return false };
        let context = Fields::of(document.get("context"));
        let messages =
            if context.has_list("messages") { context.items("messages") } else { document.items("messages") };
        messages.iter().take(10).any(|message| {
            let message = Fields::of(message.get());
            ["text", "tool", "message"].iter().any(|key| message.get(key).starts_with('{'))
                && !message.has(&["role"])
        })
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let context = Fields::of(Fields::of(text).get("context"));
        let own = context.has_list("messages");
        Ok(vec![Listing::of_keys(&if own { context } else { Fields::of(text) }, &["messages"])])
    }

    fn messages(entry: &Value) -> Vec<Message> {
        let entry = entry.get("message").unwrap_or(entry);
        if let Some(said) = entry.get("text") {
            return chat_messages(said);
        }
        let Some(tool) = entry.get("tool") else { return Vec::new() };
        let output = tool.pointer("/output/values").or_else(|| tool.get("output")).unwrap_or(&Value::Null);
        let is_error = tool.pointer("/output/is_error") == Some(&Value::Bool(true));
        vec![crate::any_blocks::answer(text_at(tool, "/call_id"), output, is_error)]
    }
}

/// Items of OpenAI's Responses API.
pub(super) struct Responses;

const ITEM_BLOCKS: [&str; 5] = ["input_text", "output_text", "input_image", "input_file", "summary_text"];

impl EntryFormat for Responses {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "responses",
        name: "OpenAI Responses items",
        description: "{\"instructions\", \"input\": [...]}, or the bare list of items",
        protocol: None,
    };
    const IS_LINES: bool = false;
    const JOINS_REPLIES: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_item = |item: &Fields<'_>| {
            let kind = item.text("type");
            (kind.ends_with("_call") || kind.ends_with("_call_output")) && item.has(&["call_id"])
                || (kind == "reasoning" && item.has_list("summary"))
                || has_block(item, "content", &ITEM_BLOCKS)
        };
        let is_request = |request: &Fields<'_>| {
            request.has(&["input"]) && (request.has(&["model"]) || request.has(&["instructions"]))
        };
        evidence.document().is_some_and(is_request)
            || items(evidence, &["input", "items", "messages"]).iter().any(is_item)
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        listing(text, &["instructions", "input", "items", "messages", "output"])
    }

    fn messages(item: &Value) -> Vec<Message> {
        match item {
            Value::String(text) => messages_of(Role::System, &Value::String(text.clone())),
            item => item_messages(item),
        }
    }
}

/// Contents of Gemini's API.
pub(super) struct Gemini;

impl EntryFormat for Gemini {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "gemini",
        name: "Gemini contents",
        description: "{\"contents\": [{\"role\", \"parts\"}]}, or the bare list",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        const PARTS: [&str; 8] = [
            "text",
            "functionCall",
            "functionResponse",
            "inlineData",
            "fileData",
            "inline_data",
            "executableCode",
            "function_call",
        ];
        let is_content = |content: &Fields<'_>| {
            let part = content.items("parts").first().map(|part| Fields::of(part.get()));
            let is_part =
                |part: Fields<'_>| !part.contains("type") && PARTS.iter().any(|key| part.contains(key));
            !content.contains("info") && !content.contains("kind") && part.is_some_and(is_part)
        };
        items(evidence, &["contents", "history"]).iter().any(is_content)
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let keys = ["systemInstruction", "system_instruction", "contents", "history"];
        listing(text, &keys)
    }

    fn messages(content: &Value) -> Vec<Message> {
        let parts = content.get("parts").unwrap_or(content);
        let role = match content.get("role").and_then(Value::as_str) {
            None if content.get("parts").is_some() || content.is_string() => Some(Role::System),
            role => role_of(role.unwrap_or("user")),
        };
        role.map(|role| messages_of(role, parts)).unwrap_or_default()
    }
}

/// Messages of the Vercel AI SDK, of both kinds.
pub(super) struct Vercel;

impl EntryFormat for Vercel {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "vercel",
        name: "messages of the Vercel AI SDK",
        description: "ModelMessage or UIMessage, a list or {\"messages\": [...]}",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |message: &Fields<'_>| {
            has_block(message, "content", &["tool-call", "tool-result"])
                || message.has_list("toolInvocations")
                || (message.has_list("parts") && message.has(&["role"]) && has_typed_parts(message))
        };
        items(evidence, &["messages"]).iter().any(is_own)
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        listing(text, &["system", "messages"])
    }

    fn messages(entry: &Value) -> Vec<Message> {
        if entry.is_string() {
            return messages_of(Role::System, entry);
        }
        let Some(role) = role_of(text_at(entry, "/role")) else { return Vec::new() };
        let Some(parts) = entry.get("parts").and_then(Value::as_array) else {
            let mut blocks = block_list(entry.get("content").unwrap_or(&Value::Null));
            let invocations = entry.get("toolInvocations").and_then(Value::as_array);
            blocks.extend(invocations.into_iter().flatten().flat_map(invocation_blocks));
            return messages_of(role, &Value::Array(blocks));
        };
        // A reply has several steps in one message: each ends with its results.
        let mut messages = Vec::new();
        for step in parts.split(|part| text_at(part, "/type") == "step-start") {
            let blocks = step.iter().flat_map(part_blocks).collect();
            messages.extend(messages_of(role, &Value::Array(blocks)));
        }
        messages
    }
}

fn has_typed_parts(message: &Fields<'_>) -> bool {
    let part = message.items("parts").first().map(|part| Fields::of(part.get()));
    part.is_some_and(|part| part.contains("type")) && !message.contains("info")
}

fn block_list(content: &Value) -> Vec<Value> {
    match content {
        Value::Array(blocks) => blocks.clone(),
        Value::Null => Vec::new(),
        one => vec![one.clone()],
    }
}

/// Returns a part of a UI message as blocks: a tool's part is its call and its result.
fn part_blocks(part: &Value) -> Vec<Value> {
    let kind = text_at(part, "/type");
    match kind {
        "tool-invocation" => part.get("toolInvocation").map(invocation_blocks).unwrap_or_default(),
        "dynamic-tool" => tool_blocks(part, text_at(part, "/toolName")),
        _ if kind.starts_with("tool-") && part.get("state").is_some() => {
            tool_blocks(part, &kind["tool-".len()..])
        }
        "source-url" | "source-document" => Vec::new(),
        _ if kind.starts_with("data-") => Vec::new(),
        _ => vec![part.clone()],
    }
}

fn invocation_blocks(invocation: &Value) -> Vec<Value> {
    tool_blocks(invocation, text_at(invocation, "/toolName"))
}

fn tool_blocks(part: &Value, name: &str) -> Vec<Value> {
    let first = |keys: [&str; 2]| keys.iter().find_map(|key| part.get(*key)).cloned();
    let id = part.get("toolCallId");
    let input = first(["input", "args"]).unwrap_or_default();
    let call = serde_json::json!({"type": "tool-call", "toolCallId": id, "toolName": name, "input": input});
    let output = first(["output", "result"]).map(|output| {
        serde_json::json!({"type": "tool-result", "toolCallId": id, "toolName": name, "output": output})
    });
    let failed = part.get("errorText").map(
        |error| serde_json::json!({"type": "tool-error", "toolCallId": id, "toolName": name, "error": error}),
    );
    std::iter::once(call).chain(output.or(failed)).collect()
}

/// Messages of LangChain, as LangChain and LangGraph dump them.
pub(super) struct LangChain;

impl EntryFormat for LangChain {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "langchain",
        name: "LangChain messages",
        description: "[{\"type\": \"human\", \"content\" or \"data\"}], also under \"messages\" or \"values\"",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |message: &Fields<'_>| {
            let kind = message.text("type");
            let is_kind = matches!(kind.as_str(), "human" | "ai" | "tool" | "system" | "function")
                || kind.ends_with("MessageChunk");
            (is_kind && !message.contains("role") && (message.has(&["content"]) || message.has(&["data"])))
                || message.has(&["lc", "kwargs"])
        };
        let values = evidence.document().map(|state| Fields::of(state.get("values")));
        let of_values = values.map(|values| values.items("messages")).unwrap_or_default();
        let of_values: Vec<Fields<'_>> = of_values.into_iter().map(|item| Fields::of(item.get())).collect();
        items(evidence, &["messages"]).iter().chain(&of_values).any(is_own)
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let values = Fields::of(Fields::of(text).get("values"));
        match values.has_list("messages") {
            true => Ok(vec![Listing::of_keys(&values, &["messages"])]),
            false => listing(text, &["messages"]),
        }
    }

    fn messages(entry: &Value) -> Vec<Message> {
        let said = entry.get("kwargs").or_else(|| entry.get("data")).unwrap_or(entry);
        // The class is the last part of the name: `HumanMessage`, `AIMessageChunk`.
        let class =
            entry.pointer("/id").and_then(Value::as_array).and_then(|path| path.last()).map(flat_value);
        let kind = class.unwrap_or_else(|| text_at(entry, "/type").to_owned());
        let kind = kind.trim_end_matches("Chunk").trim_end_matches("Message").to_lowercase();
        let mut message = said.clone();
        if let Some(fields) = message.as_object_mut() {
            if !kind.is_empty() {
                fields.insert("role".into(), Value::String(kind));
            }
            fields.shift_remove("id");
            let beside = fields.get("additional_kwargs").and_then(|more| more.get("tool_calls")).cloned();
            let is_empty = fields.get("tool_calls").and_then(Value::as_array).is_none_or(Vec::is_empty);
            if let Some(calls) = beside.filter(|_| is_empty) {
                fields.insert("tool_calls".into(), calls);
            }
        }
        chat_messages(&message)
    }
}
