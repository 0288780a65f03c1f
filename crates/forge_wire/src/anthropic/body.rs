//! The body of a request for a message.

use forge_domain::{ContextMessage, Message, Prompt, Role, Tokens, ToolDefinition};
use serde_json::{Map, Value, json};

use super::entry_blocks;
use crate::Delivery;

/// The key of a mark for the prompt cache.
const MARK: &str = "cache_control";

/// Builds the body of `POST /v1/messages` for `prompt`. Unset options are left out, except `max_tokens`,
/// which the protocol demands. A temperature above 1, which it does not know, is sent as 1.
///
/// Marks for the prompt cache are set after the system prompt (else the tools), and on the last two user
/// entries: the later one is where this prompt is written to the cache, the earlier one where the previous
/// call wrote it. The bytes before a mark stay the same until the next compaction.
pub fn request(prompt: &Prompt, delivery: Delivery) -> Value {
    let options = prompt.options();
    let messages: Vec<&Message> = prompt.messages().iter().map(ContextMessage::message).collect();
    let n_system = messages.iter().take_while(|message| message.role() == Role::System).count();
    let mut system = system_blocks(&messages[..n_system]);
    let mut entries = entries(&messages[n_system..]);
    let mut tools: Vec<Value> = prompt.tools().iter().map(tool).collect();
    if !entries.iter().any(|entry| is_marked(&entry.blocks)) {
        let standing = system.last_mut().or(tools.last_mut());
        let users = entries.iter_mut().rev().filter(|entry| entry.role == "user").take(2);
        standing.into_iter().chain(users.filter_map(|entry| entry.blocks.last_mut())).for_each(mark);
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
    body.insert("messages".into(), entries.into_iter().map(Entry::json).collect());
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

/// An entry of `messages`.
struct Entry {
    role: &'static str,
    blocks: Vec<Value>,
}

impl Entry {
    fn json(self) -> Value {
        json!({"role": self.role, "content": self.blocks})
    }
}

/// Turns the messages into entries. Adjacent messages of one role become one entry, as the results of
/// parallel calls must.
fn entries(messages: &[&Message]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for message in messages {
        let (role, blocks) = said(message);
        match entries.last_mut() {
            _ if blocks.is_empty() => {}
            Some(last) if last.role == role => last.blocks.extend(blocks),
            _ => entries.push(Entry { role, blocks }),
        }
    }
    entries.iter_mut().for_each(|entry| with_legal_ids(&mut entry.blocks));
    entries
}

/// Gives calls and results ids in the characters that the protocol accepts; those of other providers may have
/// others.
pub fn with_legal_ids(blocks: &mut [Value]) {
    for id in blocks.iter_mut().filter_map(call_id) {
        *id = json!(legal_id(id.as_str().unwrap_or_default()));
    }
}

/// Returns a message's role and blocks. Content without a block in the protocol is named in words instead:
/// the run continues, and the model knows of it.
fn said(message: &Message) -> (&'static str, Vec<Value>) {
    if let Ok(said) = entry_blocks(message) {
        return said;
    }
    let text = message.to_text();
    let role = if message.role() == Role::Assistant { "assistant" } else { "user" };
    // Standing instructions in mid-conversation have no role of their own here.
    let words = match message.role() {
        Role::System if text.trim().is_empty() => return (role, Vec::new()),
        Role::System => format!("<system>\n{text}\n</system>"),
        Role::User | Role::Assistant | Role::Tool => {
            format!("{text}\n[a part was left out: this provider cannot read it]").trim_start().to_owned()
        }
    };
    (
        role,
        entry_blocks(&message.with_content(words.as_str()))
            .map_or_else(|_| vec![text_block(&words)], |said| said.1),
    )
}

fn system_blocks(messages: &[&Message]) -> Vec<Value> {
    let texts = messages.iter().map(|message| message.to_text());
    texts.filter(|text| !text.trim().is_empty()).map(|text| text_block(&text)).collect()
}

fn text_block(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn tool(tool: &ToolDefinition) -> Value {
    let mut schema = tool.parameters.as_object().cloned().unwrap_or_default();
    schema.entry("type").or_insert_with(|| json!("object"));
    json!({"name": tool.name, "description": tool.description, "input_schema": schema})
}

/// Checks whether the author of the blocks has set cache marks: at most four are allowed, and theirs win.
fn is_marked(blocks: &[Value]) -> bool {
    blocks.iter().any(|block| block.get(MARK).is_some_and(|mark| !mark.is_null()))
}

/// Sets a mark, if the block accepts one.
fn mark(block: &mut Value) {
    const TAKES_NONE: [&str; 2] = ["thinking", "redacted_thinking"];
    let Some(block) = block.as_object_mut() else { return };
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    if !TAKES_NONE.contains(&kind) {
        block.insert(MARK.to_owned(), json!({"type": "ephemeral"}));
    }
}

/// Returns the place where a block holds the id of the call that it makes or answers.
fn call_id(block: &mut Value) -> Option<&mut Value> {
    let key = match block.get("type").and_then(Value::as_str)? {
        "tool_use" => "id",
        "tool_result" => "tool_use_id",
        _ => return None,
    };
    block.get_mut(key)
}

/// Returns an id in the characters that the protocol accepts.
fn legal_id(id: &str) -> String {
    let legal = |c: char| if c.is_ascii_alphanumeric() || c == '-' { c } else { '_' };
    if id.is_empty() { "call".to_owned() } else { id.chars().map(legal).collect() }
}
