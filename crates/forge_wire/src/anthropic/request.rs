//! The body of a request for a message.

use forge_domain::{
    CacheLifetime, ContextMessage, Message, Prompt, ReasoningCheck, ResponseFormat, Role, Tokens, ToolChoice,
    ToolDefinition,
};
use serde::ser::SerializeStruct;
use serde::{Serialize, Serializer};
use serde_json::{Value, json};

use super::content::THINKING;
use super::message::entry_blocks;
use super::thinking::ThinkingFields;
use crate::Delivery;
use crate::encoded::Encoded;
use crate::sent::Sent;

/// The key of a mark for the prompt cache.
const MARK: &str = "cache_control";

/// The beta that the field for stale thinking needs, for the header `anthropic-beta`.
pub const THINKING_BINDING: &str = "thinking-binding-controls-2026-08-01";

/// The treatment of thinking that the server finds to be of another view.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StaleThinking {
    /// The server's own: most refuse the request.
    Refused,
    /// The server drops it and lists what it dropped, where [`binds_thinking`].
    Dropped,
}

/// Checks whether `prompt` sends thinking that its model binds to the view: the server can then be told what
/// to do with a stale block. We send none; this is for changes that we cannot see.
pub fn binds_thinking(prompt: &Prompt) -> bool {
    let is_thinking = |message: &ContextMessage| message.message().extra.contains_key(THINKING);
    ReasoningCheck::of(&prompt.options().model.model) == ReasoningCheck::View
        && prompt.messages().iter().any(is_thinking)
}

/// Builds the body of `POST /v1/messages` for `prompt`. Unset options are left out, except `max_tokens`,
/// which the protocol demands. A temperature above 1, which it does not know, is sent as 1. Messages that
/// were sent before are not turned into JSON again.
///
/// Marks for the prompt cache are set after the system prompt (else the tools), and on the last two user
/// entries: the later one is where this prompt is written to the cache, the earlier one where the previous
/// call wrote it. The bytes before a mark stay the same until the next compaction.
pub fn request(prompt: &Prompt, delivery: Delivery, stale: StaleThinking) -> impl Serialize {
    let options = prompt.options();
    let request = &options.request;
    let thinking = ThinkingFields::of(prompt);
    let mark = mark_of(request.cache);
    let messages = prompt.messages();
    let n_system = messages.iter().take_while(|message| message.role() == Role::System).count();
    let (leading, rest) = messages.split_at(n_system);
    let mut system = system_blocks(leading);
    let mut entries = Entries::of(rest);
    let mut tools: Vec<Value> = prompt.tools().iter().map(tool).collect();
    if !entries.are_marked() {
        if let Some(standing) = system.last_mut().or(tools.last_mut()) {
            set_mark(standing, &mark);
        }
        entries.mark(&mark);
    }
    let drops = stale == StaleThinking::Dropped && binds_thinking(prompt);
    let is_thinking = thinking.is_on() || drops;
    let body = Body {
        model: options.model.model.as_str(),
        max_tokens: prompt.answer_tokens().max(Tokens::new(1)).as_u64(),
        tools,
        system,
        messages: entries,
        options: Options {
            // With thinking, the protocol accepts no other temperature than its own.
            temperature: options.temperature.filter(|_| !is_thinking).map(|temperature| temperature.min(1.0)),
            top_p: options.top_p.filter(|_| !is_thinking),
            output_config: OutputConfig::of(thinking.effort, request.response_format.as_ref()),
            thinking: if drops { Some(dropping(thinking.field)) } else { thinking.field },
            tool_choice: tool_choice(prompt),
            stop_sequences: request.stop.as_deref(),
            service_tier: request.service_tier.as_deref(),
        },
        stream: (delivery == Delivery::Stream).then_some(true),
    };
    Sent { body, extra: request.extra_body.as_ref(), refusal: None }
}

/// Returns the field `thinking` with what the server is to do with stale blocks.
fn dropping(thinking: Option<Value>) -> Value {
    let mut thinking = thinking.unwrap_or_else(|| json!({"type": "adaptive"}));
    thinking["block_binding"] = json!({"prefix_mismatch_behavior": "drop_block"});
    thinking
}

/// Returns the field `tool_choice`, in which the protocol also has whether calls may be parallel.
fn tool_choice(prompt: &Prompt) -> Option<Value> {
    let parallel = prompt.options().request.parallel_tool_calls.filter(|_| !prompt.tools().is_empty());
    let mut choice = match prompt.tool_choice() {
        None if parallel.is_none() => return None,
        None | Some(ToolChoice::Auto) => json!({"type": "auto"}),
        Some(ToolChoice::None) => return Some(json!({"type": "none"})),
        Some(ToolChoice::Required) => json!({"type": "any"}),
        Some(ToolChoice::Tool(name)) => json!({"type": "tool", "name": name}),
    };
    if let Some(parallel) = parallel {
        choice["disable_parallel_tool_use"] = json!(!parallel);
    }
    Some(choice)
}

/// The field `output_config`.
#[derive(Serialize)]
struct OutputConfig {
    #[serde(skip_serializing_if = "Option::is_none")]
    effort: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Value>,
}

impl OutputConfig {
    fn of(effort: Option<&'static str>, format: Option<&ResponseFormat>) -> Option<Self> {
        let schema = format.and_then(|format| format.json_schema.as_ref());
        let format = schema.map(|schema| json!({"type": "json_schema", "schema": schema.schema}));
        (effort.is_some() || format.is_some()).then_some(Self { effort, format })
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u64,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Value>,
    messages: Entries<'a>,
    #[serde(flatten)]
    options: Options<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream: Option<bool>,
}

/// The options of a request, which are left out if they are unset.
#[derive(Serialize)]
struct Options<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thinking: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    output_config: Option<OutputConfig>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop_sequences: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
}

/// The `messages` of a request. Adjacent messages of one role are one entry, as the results of parallel calls
/// must be.
struct Entries<'a> {
    /// The messages that have blocks.
    said: Vec<Said<'a>>,
}

/// A message in its place. The message itself is read only if it gets a mark: a long conversation has very
/// many, and each is somewhere else in memory.
struct Said<'a> {
    message: &'a ContextMessage,
    form: &'a Form,
    /// Its last block with a mark, in place of the one without.
    marked: Option<Box<Value>>,
}

/// An entry: the messages that it joins.
struct Entry<'a>(&'a [Said<'a>]);

/// The blocks of a message.
struct Form {
    role: &'static str,
    blocks: Vec<Encoded>,
    is_marked: bool,
}

impl Form {
    fn of(message: &Message) -> Self {
        let (role, blocks) = legal_blocks(message);
        let is_marked = is_marked(&blocks);
        Self { role, is_marked, blocks: blocks.into_iter().map(Encoded::from).collect() }
    }
}

impl<'a> Entries<'a> {
    fn of(messages: &'a [ContextMessage]) -> Self {
        let mut said = Vec::with_capacity(messages.len());
        for message in messages {
            let form = message.form(Form::of);
            if !form.blocks.is_empty() {
                said.push(Said { message, form, marked: None });
            }
        }
        Self { said }
    }

    fn are_marked(&self) -> bool {
        self.said.iter().any(|said| said.form.is_marked)
    }

    /// Marks the ends of the last two entries of the user.
    fn mark(&mut self, mark: &Value) {
        let entries = self.said.chunk_by_mut(|last, next| last.form.role == next.form.role);
        let ends = entries.rev().filter_map(<[_]>::last_mut);
        ends.filter(|end| end.form.role == "user").take(2).for_each(|end| end.mark(mark));
    }
}

impl Said<'_> {
    fn mark(&mut self, mark: &Value) {
        self.marked = legal_blocks(self.message.message()).1.pop().map(|mut last| {
            set_mark(&mut last, mark);
            Box::new(last)
        });
    }

    fn pieces(&self) -> impl Iterator<Item = Piece<'_>> {
        let n_kept = self.form.blocks.len() - usize::from(self.marked.is_some());
        let kept = self.form.blocks.iter().take(n_kept).map(Piece::Kept);
        kept.chain(self.marked.as_deref().map(Piece::Marked))
    }
}

impl Serialize for Entries<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let entries = self.said.chunk_by(|last, next| last.form.role == next.form.role);
        serializer.collect_seq(entries.map(Entry))
    }
}

impl Serialize for Entry<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut entry = serializer.serialize_struct("Entry", 2)?;
        entry.serialize_field("role", self.0.first().map_or("user", |first| first.form.role))?;
        entry.serialize_field("content", &Blocks(self.0))?;
        entry.end()
    }
}

/// The blocks of an entry.
struct Blocks<'a>(&'a [Said<'a>]);

impl Serialize for Blocks<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().flat_map(Said::pieces))
    }
}

/// A block of a message.
#[derive(Serialize)]
#[serde(untagged)]
enum Piece<'a> {
    Kept(&'a Encoded),
    Marked(&'a Value),
}

/// Returns a message's role and blocks as they are sent.
fn legal_blocks(message: &Message) -> (&'static str, Vec<Value>) {
    let (role, mut blocks) = role_and_blocks(message);
    with_legal_ids(&mut blocks);
    (role, blocks)
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
fn role_and_blocks(message: &Message) -> (&'static str, Vec<Value>) {
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

fn system_blocks(messages: &[ContextMessage]) -> Vec<Value> {
    let texts = messages.iter().map(|message| message.message().to_text());
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

/// Returns a mark for a cache that is kept for `lifetime`.
fn mark_of(lifetime: Option<CacheLifetime>) -> Value {
    match lifetime {
        None => json!({"type": "ephemeral"}),
        Some(lifetime) => json!({"type": "ephemeral", "ttl": lifetime}),
    }
}

/// Sets a mark, if the block accepts one.
fn set_mark(block: &mut Value, mark: &Value) {
    const TAKES_NONE: [&str; 2] = ["thinking", "redacted_thinking"];
    let Some(block) = block.as_object_mut() else { return };
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    if !TAKES_NONE.contains(&kind) {
        block.insert(MARK.to_owned(), mark.clone());
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

#[cfg(test)]
mod tests {
    use forge_domain::{
        Budget, ChatOptions, Conversation, ModelId, ModelLimits, ModelRef, ProviderId, TokenCounter,
    };
    use pretty_assertions::assert_eq;

    use super::*;

    struct Nothing;
    impl TokenCounter for Nothing {
        fn count(&self, _: &str) -> Tokens {
            Tokens::ZERO
        }
    }

    /// Returns the requests after a reply with thinking between text and call, made by `model` for itself and
    /// for another.
    fn requests(model: &str, stale: StaleThinking) -> [Value; 2] {
        let budget = |model: &str| {
            let model =
                ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new(model).unwrap() };
            let limits = ModelLimits { window: Tokens::new(1_000), max_output: None };
            Budget::new(limits, ChatOptions::new(model), Vec::new(), &Nothing)
        };
        let mut log = Conversation::new();
        log.append(ContextMessage::count(Message::user("hi"), &Nothing));
        let view = budget(model).admit(log.view()).unwrap().view();
        let reply = json!({"role": "assistant", "content": [
            {"type": "text", "text": "a"}, {"type": "thinking", "thinking": "", "signature": "s"},
            {"type": "text", "text": "b"}]});
        let reply = super::super::read_entry_whole(reply).unwrap().remove(0);
        log.append(ContextMessage::count(view.bind(reply, &Nothing), &Nothing));
        log.append(ContextMessage::count(Message::user("more"), &Nothing));
        [model, "another"].map(|model| {
            let prompt = budget(model).admit(log.view()).unwrap();
            json!(request(&prompt, Delivery::Whole, stale))
        })
    }

    #[test]
    fn thinking_is_sent_and_bound_where_its_model_reads_it() {
        let binding =
            json!({"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}});
        for (model, stale, expected) in [
            ("claude-fable-5-1", StaleThinking::Dropped, Some(&binding)),
            ("claude-fable-5-1", StaleThinking::Refused, None),
            ("claude-opus-5", StaleThinking::Dropped, None),
        ] {
            let [own, other] = requests(model, stale);
            let kinds = |request: &Value| -> Vec<Value> {
                let blocks = request["messages"][1]["content"].as_array().unwrap();
                blocks.iter().map(|block| block["type"].clone()).collect()
            };
            assert_eq!(own.get("thinking"), expected, "{model}");
            assert_eq!(other.get("thinking"), None, "nothing is sent that could be stale");
            assert_eq!(kinds(&own), ["text", "thinking", "text"]);
            assert_eq!(kinds(&other), ["text", "text"]);
        }
    }
}
