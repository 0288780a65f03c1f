//! The body of a request for a reply.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use forge_domain::{
    Body as MessageBody, ContextMessage, Effort, Message, Prompt, ResponseFormat, ResponseKind, Tokens,
    ToolDefinition, ToolName,
};
use serde::Serialize;
use serde_json::{Value, json};

use super::message::message_json;
use crate::Delivery;
use crate::encoded::{Encoded, Entry, Piece, push_merged};
use crate::sent::Sent;
use crate::turns::merge_neighbours;

/// Builds the body of `POST /api/chat` for `prompt`, for a server that is to read prompts of up to `window`
/// tokens. Without that, it would choose a window of its own and cut the prompt silently. Messages that were
/// sent before are not turned into JSON again.
pub fn request(prompt: &Prompt, window: Tokens, delivery: Delivery) -> impl Serialize {
    let options = prompt.options();
    let wanted = &options.request;
    let model = options.model.model.as_str();
    let body = Body {
        model,
        messages: entries(prompt.messages()),
        tools: prompt.tools(),
        stream: delivery == Delivery::Stream,
        options: Options {
            num_ctx: window.as_u64(),
            num_predict: options.max_output_tokens.map(Tokens::as_u64),
            temperature: options.temperature,
            top_p: options.top_p,
            seed: wanted.seed,
            stop: wanted.stop.as_deref(),
        },
        think: wanted.reasoning.effort.map(|effort| think(effort, model)),
        format: wanted.response_format.as_ref().and_then(format),
    };
    Sent { body, extra: wanted.extra_body.as_ref(), refusal: None }
}

/// Returns the field `think`. Only gpt-oss accepts levels, and it cannot be turned off; any other model
/// refuses them.
fn think(effort: Effort, model: &str) -> Value {
    let has_levels = model.contains("gpt-oss");
    match effort {
        Effort::None if !has_levels => json!(false),
        _ if !has_levels => json!(true),
        Effort::None | Effort::Minimal | Effort::Low => json!("low"),
        Effort::Medium => json!("medium"),
        Effort::High | Effort::Max => json!("high"),
    }
}

/// Returns the field `format`, which text does not need.
fn format(format: &ResponseFormat) -> Option<Value> {
    match (format.kind, &format.json_schema) {
        (ResponseKind::JsonSchema, Some(schema)) => Some(json!(schema.schema)),
        (ResponseKind::JsonObject, _) => Some(json!("json")),
        (ResponseKind::Text | ResponseKind::JsonSchema, _) => None,
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<Piece<'a>>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    tools: &'a [ToolDefinition],
    /// Unset it is true.
    stream: bool,
    options: Options<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    think: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    format: Option<Value>,
}

#[derive(Serialize)]
struct Options<'a> {
    num_ctx: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    num_predict: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    top_p: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    seed: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    stop: Option<&'a [String]>,
}

/// Returns the `messages` of a request: results with the names of their tools, and adjacent messages of one
/// role as one.
pub fn messages_json<'a>(messages: impl IntoIterator<Item = &'a Message>) -> Vec<Value> {
    let mut called = Called::default();
    let mut entries = Vec::new();
    for message in messages {
        called.note(message);
        let entry = message_json(message);
        entries.push(match called.name_missing_in(&entry, message) {
            Some(name) => with_tool_name(entry, name),
            None => entry,
        });
    }
    merge_neighbours(entries)
}

/// The names of the tools that were called, by the ids of the calls. The protocol has no ids by which to find
/// the call, so results name the tool.
#[derive(Default)]
struct Called<'a>(BTreeMap<&'a str, &'a ToolName>);

impl<'a> Called<'a> {
    fn note(&mut self, message: &'a Message) {
        self.0.extend(message.calls().iter().map(|call| (call.id.as_str(), &call.name)));
    }

    /// Returns the name of the tool that `message` is a result of.
    fn name(&self, message: &Message) -> Option<&'a ToolName> {
        let MessageBody::Tool(result) = &message.body else { return None };
        self.0.get(result.call_id.as_str()).copied()
    }

    fn name_missing_in(&self, entry: &Value, message: &Message) -> Option<&'a ToolName> {
        self.name(message).filter(|_| is_nameless(entry))
    }
}

fn is_nameless(entry: &Value) -> bool {
    entry.get("tool_name").is_none()
}

fn with_tool_name(mut entry: Value, name: &ToolName) -> Value {
    entry["tool_name"] = json!(name);
    entry
}

/// A message's entry. A result that does not name its tool has a second one: with the name by which the tool
/// was called when it was first sent.
struct Form {
    entry: Entry,
    is_nameless: bool,
    named: OnceLock<Box<(ToolName, Encoded)>>,
}

impl Form {
    fn of(message: &Message) -> Self {
        let entry = message_json(message);
        let is_nameless = matches!(message.body, MessageBody::Tool(_)) && is_nameless(&entry);
        Self { is_nameless, entry: entry.into(), named: OnceLock::new() }
    }

    /// Returns the entry with the name of its tool.
    fn name_result(&self, message: &Message, name: &ToolName) -> Piece<'_> {
        let entry = || with_tool_name(message_json(message), name);
        let known = self.named.get_or_init(|| Box::new((name.clone(), entry().into())));
        if known.0 == *name { Piece::Kept(&known.1) } else { Piece::Made(entry()) }
    }
}

/// Returns the entries that [`messages_json`] returns, as pieces that the messages keep.
fn entries(messages: &[ContextMessage]) -> Vec<Piece<'_>> {
    // The messages themselves are read only if something depends on their neighbours.
    let placed: Vec<(&ContextMessage, &Form)> =
        messages.iter().map(|message| (message, message.form(Form::of))).collect();
    let looks_up = placed.iter().any(|(_, form)| form.is_nameless);
    let mut called = Called::default();
    let mut pieces = Vec::with_capacity(placed.len());
    for run in placed.chunk_by(|(_, last), (_, next)| last.entry.may_be_joined_by(&next.entry)) {
        if looks_up {
            run.iter().for_each(|(message, _)| called.note(message.message()));
        }
        if let [(message, form)] = run
            && form.is_nameless
            && let Some(name) = called.name(message.message())
        {
            pieces.push(form.name_result(message.message(), name));
            continue;
        }
        push_merged(
            &mut pieces,
            run,
            |(_, form)| &form.entry.json,
            |(message, _)| message_json(message.message()),
        );
    }
    pieces
}
