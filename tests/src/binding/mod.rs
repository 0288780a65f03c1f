//! A server that binds thinking to what stands before it.
//!
//! Its rules are those of the providers' pages, not of our code. Anthropic (platform.claude.com, build-with-claude/preserved-thinking,
//! read in November 2026): the prefix of a block is the top-level system prompt, the set of tools, and all content before the
//! block; thinking itself and cache marks are no part of it. A block whose prefix differs is refused, and so is one whose
//! preceding block is missing. A block of another model is dropped without an error.
//!
//! OpenAI (Responses, guide on reasoning): encrypted content that cannot be verified is refused, an item of reasoning
//! must be followed by the item that it led to, and an item that is sent by its id must follow its reasoning. Gemini (thought
//! signatures): the first call of every step of the current turn carries a signature, or the documented value for none.
//! Neither page binds reasoning to its prefix; this server does, so that all protocols are held to the strictest rule.

mod asked;
mod reply;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_domain::ProviderKind;
use serde_json::{Value, json};

use self::asked::{Asked, Block, hash};
use self::reply::{Turn, content, continued, envelope, unsigned};
use crate::{ScriptedServer, Step};

/// A server that hands out bound thinking and checks what comes back.
pub struct BindingServer {
    server: ScriptedServer,
    books: Arc<Mutex<Books>>,
}

/// The behaviour of a [`BindingServer`].
#[derive(Clone, Copy, Debug)]
pub struct Behaviour {
    /// The protocol: Anthropic's, Responses or Gemini's.
    pub kind: ProviderKind,
    /// The thoughts in the replies.
    pub thoughts: Thoughts,
    /// The number of replies of a turn, the last of which calls no tool.
    pub per_turn: usize,
}

/// The thoughts in a server's replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoughts {
    /// They are signed.
    Bound,
    /// There are none, and the replies are as much shorter.
    None,
    /// There are none, and each reply has as many bytes more of text.
    AsText,
}

/// The account of the requests that came in.
#[derive(Clone, Debug, Default)]
pub struct Books {
    /// Requests, the refused ones included.
    pub requests: usize,
    /// The words of each refusal.
    pub refusals: Vec<String>,
    /// Thoughts that came back in their place.
    pub kept: usize,
    /// Thoughts that another model was sent.
    pub unreadable: usize,
    /// Messages that came back without thoughts that would have been accepted.
    pub missed: usize,
    /// Messages that came back without their thoughts, because their prefix had changed.
    pub stripped: usize,
    /// Requests that do not begin with the one before: what was compacted, undone or switched.
    pub changes: usize,
    /// All bytes of the prompts.
    pub sent: Share,
    /// The bytes that are no thinking, in the prompts as they were sent: a byte after changed thinking is lost.
    pub content: Share,
    /// The bytes that are no thinking, in prompts without any: the most that a cache can have of them.
    pub content_alone: Share,
    model: String,
    last: Vec<Block>,
    /// The first seal of each reply, and the blocks of the reply that stand before it.
    issued: HashMap<String, (Seal, usize)>,
    /// The items of reasoning by the ids of the items that they led to.
    led_by: HashMap<String, String>,
}

/// The share of prompts that begins as the prompt before, so that a cache can have it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Share {
    bytes: usize,
    same: usize,
}

/// The contents of a signature.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Seal {
    prefix: u64,
    /// The signature of the block before, wherever it was; zero if there was none, or if the protocol does not care.
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

    /// Adds a prompt after `last`, of which only the blocks that `counts` names are counted.
    fn add<'a>(
        &mut self,
        last: impl Iterator<Item = &'a Block>,
        prompt: impl Iterator<Item = &'a Block>,
        counts: impl Fn(&Block) -> bool,
    ) {
        let mut last = last;
        let mut is_same = true;
        for block in prompt {
            let bytes = if counts(block) { block.text.len() } else { 0 };
            is_same = is_same && last.next() == Some(block);
            self.bytes += bytes;
            self.same += if is_same { bytes } else { 0 };
        }
    }
}

impl Books {
    fn answer(&mut self, body: &Value, behaviour: Behaviour) -> Step {
        self.requests += 1;
        let asked = Asked::read(behaviour.kind, body);
        self.measure(&asked);
        if let Err(refusal) = self.check(&asked, behaviour.kind) {
            self.refusals.push(refusal.clone());
            let error =
                json!({"type": "error", "error": {"type": "invalid_request_error", "message": refusal}});
            return Step::status(400, error.to_string());
        }
        Step::status(200, self.reply(body, behaviour).to_string())
    }

    /// Compares the prompt with the one before, in the order in which a cache reads it.
    fn measure(&mut self, asked: &Asked) {
        let prompt = asked.pieces();
        // Each model has a cache of its own.
        let last = if self.model == asked.model { std::mem::take(&mut self.last) } else { Vec::new() };
        self.model.clone_from(&asked.model);
        let is_content = |block: &Block| !block.is_thinking;
        self.sent.add(last.iter(), prompt.iter(), |_| true);
        self.content.add(last.iter(), prompt.iter(), is_content);
        let (alone, bare) = (last.iter().filter(|block| is_content(block)), prompt.iter());
        self.content_alone.add(alone, bare.filter(|block| is_content(block)), is_content);
        self.changes += usize::from(!prompt.starts_with(&last));
        self.last = prompt;
    }

    /// Checks each thought against what stands before it, and counts the messages that have none any more.
    fn check(&mut self, asked: &Asked, kind: ProviderKind) -> Result<(), String> {
        if let Some(fault) = asked.faults.first() {
            return Err(fault.clone());
        }
        self.check_ids(asked)?;
        let (mut before, mut at) = (0, 0);
        for message in asked.blocks.chunk_by(|one, next| one.message == next.message) {
            if message.iter().all(|block| block.signature.is_none())
                && let Some((seal, n_before)) =
                    message.iter().find_map(|block| self.issued.get(block.reply.as_ref()?))
            {
                let now = Seal { prefix: asked.prefix(at + n_before), before, model: asked.model.clone() };
                self.missed += usize::from(*seal == now);
                self.stripped += usize::from(*seal != now);
            }
            for (nth, block) in message.iter().enumerate() {
                let Some(signature) = &block.signature else { continue };
                let seal = Seal::read(signature).ok_or_else(|| refusal(kind, at + nth, ""))?;
                if seal.model != asked.model && kind == ProviderKind::Anthropic {
                    self.unreadable += 1;
                    continue;
                }
                if seal.model != asked.model || seal.prefix != asked.prefix(at + nth) {
                    return Err(refusal(kind, at + nth, ""));
                }
                if seal.before != before {
                    let why = " The block that preceded this one is missing from this request.";
                    return Err(refusal(kind, at + nth, why));
                }
                self.kept += 1;
                if kind == ProviderKind::Anthropic {
                    before = hash(signature);
                }
            }
            at += message.len();
        }
        Ok(())
    }

    /// Checks that the items that are sent by their ids follow their reasoning.
    fn check_ids(&self, asked: &Asked) -> Result<(), String> {
        let is_there = |id: &String| asked.blocks.iter().any(|block| block.id.as_ref() == Some(id));
        for id in asked.blocks.iter().filter_map(|block| block.id.as_ref()) {
            if let Some(reasoning) = self.led_by.get(id).filter(|reasoning| !is_there(reasoning)) {
                return Err(format!(
                    "Item '{id}' was provided without its required 'reasoning' item: '{reasoning}'."
                ));
            }
        }
        Ok(())
    }

    /// Returns the next reply: a tool call, or the end of the turn, signed.
    fn reply(&mut self, body: &Value, behaviour: Behaviour) -> Value {
        let Behaviour { kind, thoughts, per_turn } = behaviour;
        let turn = Turn { n: self.requests, is_last: self.requests.is_multiple_of(per_turn) };
        let mut content = content(kind, turn, thoughts);
        self.seal(kind, body, &mut content, turn.n);
        if kind == ProviderKind::Responses {
            self.note_ids(&content);
        }
        envelope(kind, turn, body, &content)
    }

    /// Signs the thoughts of reply `n`.
    fn seal(&mut self, kind: ProviderKind, body: &Value, content: &mut Vec<Value>, n: usize) {
        let first = Asked::read(kind, body).blocks.len();
        let whole = Asked::read(kind, &continued(kind, body, content));
        let model = &whole.model;
        let is_own = |signature: &&String| Seal::read(signature).is_some_and(|seal| seal.model == *model);
        let last =
            whole.blocks[..first].iter().rev().filter_map(|block| block.signature.as_ref()).find(is_own);
        let mut before = last.filter(|_| kind == ProviderKind::Anthropic).map_or(0, hash);
        let mut text = Value::Array(std::mem::take(content)).to_string();
        for (at, block) in whole.blocks.iter().enumerate().skip(first) {
            let Some(place) = &block.signature else { continue };
            let seal = Seal { prefix: whole.prefix(at), before, model: model.clone() };
            let signature = seal.write();
            before = if kind == ProviderKind::Anthropic { hash(&signature) } else { 0 };
            text = text.replace(&json!(place).to_string(), &json!(signature).to_string());
            // The first one stands for all: they come back together.
            let n_before = whole.blocks[first..at].iter().filter(|block| !block.is_thinking).count();
            self.issued.entry(format!("Step {n}")).or_insert((seal, n_before));
        }
        debug_assert!((0..9).all(|nth| !text.contains(&unsigned(nth))), "{text}");
        *content = serde_json::from_str(&text).expect("it is JSON");
    }

    /// Notes which items came from which reasoning.
    fn note_ids(&mut self, items: &[Value]) {
        let mut reasoning = None;
        for item in items {
            let id = item["id"].as_str().unwrap_or_default().to_owned();
            if item["type"] == "reasoning" {
                reasoning = Some(id);
            } else if let Some(reasoning) = reasoning.take() {
                self.led_by.insert(id, reasoning);
            }
        }
    }
}

/// Returns the words with which a thought at block `at` is refused.
fn refusal(kind: ProviderKind, at: usize, why: &str) -> String {
    match kind {
        ProviderKind::Responses => {
            format!(
                "The encrypted content for item {at} could not be verified. Reason: another prefix or model."
            )
        }
        ProviderKind::Gemini => format!("Thought signature is not valid: part {at}"),
        _ => format!(
            "messages: block {at}: Invalid `signature` in `thinking` block: the block is bound to a different \
             conversation.{why}"
        ),
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
