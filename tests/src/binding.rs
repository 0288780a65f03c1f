//! A server of Anthropic's protocol that binds thinking to what stands before it.
//!
//! Its rules are those of the provider's page on preserved thinking (platform.claude.com, build-with-claude/preserved-thinking,
//! read in November 2026), not of our code: the prefix of a block is the top-level system prompt, the set of tools, and all
//! content before the block; thinking itself and cache marks are no part of it. A block whose prefix differs is refused, and
//! so is one whose preceding block is missing. A block of another model is dropped without an error.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Value, json};

use crate::{ScriptedServer, Step};

/// A server that hands out bound thinking and checks what comes back.
pub struct BindingServer {
    server: ScriptedServer,
    books: Arc<Mutex<Books>>,
}

/// The behaviour of a [`BindingServer`].
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// False for replies without thinking, to compare with.
    pub thinks: bool,
    /// The number of replies of a turn, the last of which calls no tool.
    pub per_turn: usize,
}

/// The account of the requests that came in.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// Requests, the refused ones included.
    pub requests: usize,
    /// The words of each refusal.
    pub refusals: Vec<String>,
    /// Blocks that came back in their place.
    pub kept: usize,
    /// Blocks that another model was sent.
    pub unreadable: usize,
    /// Blocks that would have been accepted, and did not come back.
    pub missed: usize,
    /// Messages that came back without their thinking, because their prefix had changed.
    pub stripped: usize,
    /// Requests that do not begin with the one before: what was compacted, undone or switched.
    pub changes: usize,
    /// All bytes of the prompts.
    pub sent: Share,
    /// The bytes that are no thinking, in the prompts as they were sent: a byte after changed thinking is lost.
    pub content: Share,
    /// The bytes that are no thinking, in prompts without any: the most that a cache can have of them.
    pub content_alone: Share,
    model: Value,
    last: Vec<Piece>,
    issued: HashMap<String, Seal>,
}

/// The share of prompts that begins as the prompt before, so that a cache can have it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    bytes: usize,
    same: usize,
}

/// A part of a prompt: a block, or what stands before all of them.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    text: String,
    is_thinking: bool,
}

/// The contents of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seal {
    prefix: u64,
    /// The signature of the block before, wherever it was; empty if there was none.
    before: u64,
    model: String,
}

impl BindingServer {
    /// Starts a server on a free port.
    pub fn start(behaviour: Behaviour) -> Self {
        let books = Arc::new(Mutex::new(Books::default()));
        let own = Arc::clone(&books);
        let server = ScriptedServer::answering(move |body| lock(&own).answer(body, behaviour));
        Self { server, books }
    }

    /// Returns the address for a provider.
    pub fn base_url(&self) -> String {
        self.server.base_url()
    }

    /// Returns the account so far.
    pub fn books(&self) -> Books {
        lock(&self.books).clone()
    }
}

fn lock(books: &Mutex<Books>) -> MutexGuard<'_, Books> {
    books.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Share {
    /// Returns the share of the bytes that are the beginning of the prompt before.
    pub fn of_all(&self) -> f64 {
        self.same as f64 / self.bytes.max(1) as f64
    }

    /// Adds a prompt after `last`, of which only the pieces that `counts` names are counted.
    fn add<'a>(
        &mut self,
        last: impl Iterator<Item = &'a Piece>,
        prompt: impl Iterator<Item = &'a Piece>,
        counts: impl Fn(&Piece) -> bool,
    ) {
        let mut last = last;
        let mut is_same = true;
        for piece in prompt {
            let bytes = if counts(piece) { piece.text.len() } else { 0 };
            is_same = is_same && last.next() == Some(piece);
            self.bytes += bytes;
            self.same += if is_same { bytes } else { 0 };
        }
    }
}

impl Books {
    fn answer(&mut self, body: &Value, behaviour: Behaviour) -> Step {
        self.requests += 1;
        self.measure(body);
        if let Err(refusal) = self.check(body) {
            self.refusals.push(refusal.clone());
            let error =
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": refusal}});
            return Step::status(400, error.to_string());
        }
        Step::status(200, self.reply(body, behaviour).to_string())
    }

    /// Compares the prompt with the one before, in the order in which a cache reads it.
    fn measure(&mut self, body: &Value) {
        let prompt = pieces(body);
        // Each model has a cache of its own.
        let last = if self.model == body["model"] { std::mem::take(&mut self.last) } else { Vec::new() };
        self.model = body["model"].clone();
        let is_content = |piece: &Piece| !piece.is_thinking;
        self.sent.add(last.iter(), prompt.iter(), |_| true);
        self.content.add(last.iter(), prompt.iter(), is_content);
        let (alone, bare) = (last.iter().filter(|piece| is_content(piece)), prompt.iter());
        self.content_alone.add(alone, bare.filter(|piece| is_content(piece)), is_content);
        self.changes += usize::from(!prompt.starts_with(&last));
        self.last = prompt;
    }

    /// Checks each block of thinking against what stands before it.
    fn check(&mut self, body: &Value) -> Result<(), String> {
        let model = body["model"].as_str().unwrap_or_default();
        let mut before = 0;
        for (at, message) in messages(body).iter().enumerate() {
            let mut thinks = false;
            for (nth, block) in blocks(message).iter().enumerate() {
                let Some(signature) = signature(block) else { continue };
                thinks = true;
                let seal = Seal::read(signature).ok_or_else(|| {
                    format!("messages.{at}.content.{nth}: Invalid `signature` in `thinking` block")
                })?;
                if seal.model != model {
                    self.unreadable += 1;
                    continue;
                }
                let bound = |what: &str| {
                    format!(
                        "messages.{at}.content.{nth}: Invalid `signature` in `thinking` block: the block is bound to a \
                         different conversation.{what}"
                    )
                };
                if seal.prefix != prefix(body, at, nth) {
                    return Err(bound(""));
                }
                if seal.before != before {
                    return Err(bound(
                        " The `thinking` block that preceded this one is missing from this request.",
                    ));
                }
                self.kept += 1;
                before = hash(&signature);
            }
            if !thinks && let Some(seal) = own_id(message).and_then(|id| self.issued.get(&id)) {
                let is_valid = *seal == Seal { prefix: prefix(body, at, 0), before, model: model.to_owned() };
                self.missed += usize::from(is_valid);
                self.stripped += usize::from(!is_valid);
            }
        }
        Ok(())
    }

    /// Returns the next reply: a tool call, or the end of the turn. Its blocks are of every kind in turn.
    fn reply(&mut self, body: &Value, behaviour: Behaviour) -> Value {
        let n = self.requests;
        let is_last = n.is_multiple_of(behaviour.per_turn);
        let text = json!({"type": "text", "text": format!("Step {n}: I look at the next part.")});
        let call =
            json!({"type": "tool_use", "id": format!("toolu_{n}"), "name": "look", "input": {"part": n}});
        let shown = json!({"type": "thinking", "thinking": format!("The part {n} is next, because the others are done.")});
        let hidden = json!({"type": "thinking", "thinking": ""});
        let redacted = json!({"type": "redacted_thinking"});
        let mut content = match n % 4 {
            // Some replies do not think, some only sign, and some think again between text and call.
            0 => vec![text],
            1 => vec![shown, text],
            2 => vec![hidden, redacted, text],
            _ => vec![shown, text, hidden],
        };
        if !is_last {
            content.push(call);
        } else if content.last().is_some_and(is_thinking) {
            content.pop();
        }
        content.retain(|block| behaviour.thinks || !is_thinking(block));
        self.seal(body, &mut content, n);
        let usage = json!({"input_tokens": body.to_string().len() / 4, "output_tokens": 20});
        let stop_reason = if is_last { "end_turn" } else { "tool_use" };
        json!({"type": "message", "id": format!("msg_{n}"), "role": "assistant", "model": body["model"],
            "content": content, "stop_reason": stop_reason, "usage": usage})
    }

    /// Signs the blocks of reply `n`.
    fn seal(&mut self, body: &Value, content: &mut [Value], n: usize) {
        let mut whole = body.clone();
        let at = messages(body).len();
        let list = whole["messages"].as_array_mut().expect("a request has messages");
        list.push(json!({"role": "assistant", "content": content}));
        let mut before = last_signature(body).map_or(0, |signature| hash(&signature));
        for (nth, block) in content.iter_mut().enumerate() {
            if !is_thinking(block) {
                continue;
            }
            let model = body["model"].as_str().unwrap_or_default().to_owned();
            let seal = Seal { prefix: prefix(&whole, at, nth), before, model };
            let signature = seal.write();
            before = hash(&signature.as_str());
            let key = if block["type"] == "thinking" { "signature" } else { "data" };
            block[key] = json!(signature);
            // The first block stands for all: they come back together.
            self.issued.entry(format!("Step {n}")).or_insert(seal);
        }
    }
}

impl Seal {
    fn write(&self) -> String {
        format!("{:x}.{:x}.{}", self.prefix, self.before, self.model)
    }

    fn read(signature: &str) -> Option<Self> {
        let mut parts = signature.splitn(3, '.');
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        Some(Self { prefix: number()?, before: number()?, model: parts.next()?.to_owned() })
    }
}

/// Returns the prompt in the order in which a cache reads it.
fn pieces(body: &Value) -> Vec<Piece> {
    let head = format!("{}{}", plain(&body["tools"]), plain(&body["system"]));
    let mut pieces = vec![Piece { text: head, is_thinking: false }];
    for message in messages(body) {
        for block in blocks(message) {
            let text = format!("{}{}", message["role"], plain(block));
            pieces.push(Piece { text, is_thinking: is_thinking(block) });
        }
    }
    pieces
}

/// Returns the fingerprint of all that stands before block `nth` of message `at`.
fn prefix(body: &Value, at: usize, nth: usize) -> u64 {
    let mut tools: Vec<String> =
        body["tools"].as_array().into_iter().flatten().map(|tool| plain(tool).to_string()).collect();
    tools.sort();
    let mut said: Vec<Value> = messages(body)[..at].iter().map(without_thinking).collect();
    if let Some(message) = messages(body).get(at) {
        let begun = json!({"role": message["role"], "content": &blocks(message)[..nth]});
        said.push(without_thinking(&begun));
    }
    hash(&(tools, plain(&body["system"]).to_string(), Value::Array(said).to_string()))
}

fn without_thinking(message: &Value) -> Value {
    let content: Vec<Value> = blocks(message).iter().filter(|block| !is_thinking(block)).map(plain).collect();
    json!({"role": message["role"], "content": content})
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

fn messages(body: &Value) -> &[Value] {
    body["messages"].as_array().map_or(&[], Vec::as_slice)
}

fn blocks(message: &Value) -> &[Value] {
    message["content"].as_array().map_or(&[], Vec::as_slice)
}

fn is_thinking(block: &Value) -> bool {
    matches!(block["type"].as_str(), Some("thinking" | "redacted_thinking"))
}

fn signature(block: &Value) -> Option<&str> {
    match block["type"].as_str()? {
        "thinking" => Some(block["signature"].as_str().unwrap_or_default()),
        "redacted_thinking" => Some(block["data"].as_str().unwrap_or_default()),
        _ => None,
    }
}

/// Returns the signature of the last block that this model can read.
fn last_signature(body: &Value) -> Option<&str> {
    let model = body["model"].as_str().unwrap_or_default();
    let all = messages(body).iter().flat_map(blocks).filter_map(signature);
    let mut readable = all.filter(|signature| Seal::read(signature).is_some_and(|seal| seal.model == model));
    readable.next_back()
}

/// Returns the name of the reply that a message was.
fn own_id(message: &Value) -> Option<String> {
    let text = blocks(message).iter().find_map(|block| block["text"].as_str())?;
    let is_own = message["role"] == "assistant" && text.starts_with("Step ");
    text.split_once(':').filter(|_| is_own).map(|(name, _)| name.to_owned())
}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.hash(&mut hasher);
    hasher.finish()
}
