//! A request as a server that binds thinking reads it: the blocks of its prompt in their order, whatever the protocol.

use std::hash::{DefaultHasher, Hash, Hasher};

use forge_domain::ProviderKind;
use serde_json::{Value, json};

/// The value that Gemini's documentation provides for calls whose thoughts are gone.
const UNSIGNED: &str = "skip_thought_signature_validator";

/// A request.
pub(super) struct Asked {
    pub(super) model: String,
    /// The tools, in any order, and the system prompt.
    head: (Vec<String>, String),
    pub(super) blocks: Vec<Block>,
    /// What the protocol refuses whoever thought it.
    pub(super) faults: Vec<String>,
}

/// A part of a prompt: a text, a call, a result, or a thought.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Block {
    /// The message to which it belongs.
    pub(super) message: usize,
    /// What a cache reads.
    pub(super) text: String,
    pub(super) is_thinking: bool,
    pub(super) signature: Option<String>,
    /// The name of the reply that begins here.
    pub(super) reply: Option<String>,
    /// The item's id, in the Responses protocol.
    pub(super) id: Option<String>,
}

impl Asked {
    pub(super) fn read(kind: ProviderKind, body: &Value) -> Self {
        match kind {
            ProviderKind::Responses => Self::of_responses(body),
            ProviderKind::Gemini => Self::of_gemini(body),
            _ => Self::of_messages(body),
        }
    }

    fn new(body: &Value, tools: &Value, system: &Value) -> Self {
        let mut tools: Vec<String> = list(tools).iter().map(|tool| plain(tool).to_string()).collect();
        tools.sort();
        let model = body["model"].as_str().unwrap_or_default().to_owned();
        Self { model, head: (tools, plain(system).to_string()), blocks: Vec::new(), faults: Vec::new() }
    }

    fn of_messages(body: &Value) -> Self {
        let mut asked = Self::new(body, &body["tools"], &body["system"]);
        for (at, message) in list(&body["messages"]).iter().enumerate() {
            for block in list(&message["content"]) {
                let signature = match block["type"].as_str() {
                    Some("thinking") => Some(&block["signature"]),
                    Some("redacted_thinking") => Some(&block["data"]),
                    _ => None,
                };
                asked.blocks.push(Block {
                    message: at,
                    text: format!("{}{}", message["role"], plain(block)),
                    is_thinking: signature.is_some(),
                    signature: signature.map(|signature| signature.as_str().unwrap_or_default().to_owned()),
                    reply: reply_name(message["role"] == "assistant", &block["text"]),
                    id: None,
                });
            }
        }
        asked
    }

    /// Reads items. What the model says between others is one message.
    fn of_responses(body: &Value) -> Self {
        let mut asked = Self::new(body, &body["tools"], &body["instructions"]);
        let is_models = |item: &Value| {
            matches!(item["type"].as_str(), Some("reasoning" | "function_call"))
                || item["role"] == "assistant"
        };
        let items = list(&body["input"]);
        let mut message = 0;
        for (at, item) in items.iter().enumerate() {
            message += usize::from(at > 0 && !(is_models(item) && is_models(&items[at - 1])));
            let is_thinking = item["type"] == "reasoning";
            let id = item["id"].as_str().map(str::to_owned);
            if is_thinking && !items.get(at + 1).is_some_and(is_models) {
                let id = id.as_deref().unwrap_or_default();
                asked.faults.push(format!(
                    "Item '{id}' of type 'reasoning' was provided without its required following item."
                ));
            }
            let content = &item["content"];
            let said = content.as_str().map(str::to_owned);
            let said = said
                .unwrap_or_else(|| list(content).iter().filter_map(|part| part["text"].as_str()).collect());
            let text = match item["type"].as_str() {
                Some("reasoning") => item.to_string(),
                Some("function_call") => {
                    json!([item["call_id"], item["name"], item["arguments"]]).to_string()
                }
                Some("function_call_output") => json!([item["call_id"], item["output"]]).to_string(),
                _ => format!("{}{said}", item["role"]),
            };
            let signature = item["encrypted_content"].as_str().filter(|_| is_thinking).map(str::to_owned);
            let reply = reply_name(item["role"] == "assistant", &json!(said));
            asked.blocks.push(Block { message, text, is_thinking, signature, reply, id });
        }
        asked
    }

    /// Reads contents. A signature stands before the part that carries it.
    fn of_gemini(body: &Value) -> Self {
        let tools = body.pointer("/tools/0/functionDeclarations").unwrap_or(&Value::Null);
        let mut asked = Self::new(body, tools, &body["systemInstruction"]);
        let contents = list(&body["contents"]);
        let is_question = |content: &Value| {
            content["role"] == "user" && list(&content["parts"]).iter().any(|part| part.get("text").is_some())
        };
        let turn = contents.iter().rposition(is_question).unwrap_or(0);
        for (message, content) in contents.iter().enumerate() {
            let is_models = content["role"] == "model";
            let parts = list(&content["parts"]);
            let first_call = parts.iter().find(|part| part.get("functionCall").is_some());
            if is_models
                && message > turn
                && first_call.is_some_and(|call| call.get("thoughtSignature").is_none())
            {
                asked
                    .faults
                    .push("Function call is missing a thought_signature in functionCall parts.".into());
            }
            for part in parts {
                let mut bare = part.clone();
                let signature =
                    bare.as_object_mut().and_then(|fields| fields.shift_remove("thoughtSignature"));
                let signature = signature.and_then(|signature| signature.as_str().map(str::to_owned));
                let signature = signature.filter(|signature| signature != UNSIGNED);
                let is_thought = part["thought"] == true;
                let block =
                    |text: String, is_thinking| Block { message, text, is_thinking, ..Block::default() };
                if let Some(signature) = signature.filter(|_| !is_thought) {
                    asked.blocks.push(Block { signature: Some(signature.clone()), ..block(signature, true) });
                }
                if bare != json!({"text": ""}) {
                    let text = format!("{}{bare}", content["role"]);
                    let reply = reply_name(is_models && !is_thought, &bare["text"]);
                    asked.blocks.push(Block { reply, ..block(text, is_thought) });
                }
            }
        }
        asked
    }

    /// Returns the fingerprint of all that stands before block `at`. Thinking is no part of it.
    pub(super) fn prefix(&self, at: usize) -> u64 {
        let said = self.blocks[..at].iter().filter(|block| !block.is_thinking);
        hash(&(&self.head, said.map(|block| block.text.as_str()).collect::<Vec<_>>()))
    }

    /// Returns the prompt in the order in which a cache reads it.
    pub(super) fn pieces(&self) -> Vec<Block> {
        let head = Block { text: format!("{:?}", self.head), ..Block::default() };
        // The place of a message does not count for a cache, nor does the id of an item.
        let bare = |block: &Block| Block { message: 0, id: None, ..block.clone() };
        [head].into_iter().chain(self.blocks.iter().map(bare)).collect()
    }
}

/// Returns the name of the reply that begins with this text, if it is the model's own.
fn reply_name(is_models: bool, text: &Value) -> Option<String> {
    let text = text.as_str().filter(|text| is_models && text.starts_with("Step "))?;
    text.split_once(':').map(|(name, _)| name.to_owned())
}

/// Returns the value without the marks for the cache.
fn plain(value: &Value) -> Value {
    match value {
        Value::Array(items) => items.iter().map(plain).collect(),
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(key, _)| *key != "cache_control");
            kept.map(|(key, value)| (key.clone(), plain(value))).collect()
        }
        value => value.clone(),
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

pub(super) fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
