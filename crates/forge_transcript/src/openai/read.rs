//! Messages as recordings of chat completions have them, which are less strict than the protocol.

use std::sync::Arc;

use forge_domain::{Body, Content, Message, Role, said_by};
use forge_wire::WireError;
use forge_wire::openai::read_message;
use serde_json::value::RawValue;
use serde_json::{Map, Value, json};

use crate::codec::Input;
use crate::flat_text::{flat_text, flat_value};
use crate::foreign::{ROLES, is_role, named_role};
use crate::harness::{HARNESS, RESULT};
use crate::json_text::parse;
use crate::session::Names;
use crate::written::{split, take_thoughts};
use crate::{Record, TranscriptError, foreign, parts};

use super::observations::Observations;

/// Reads the records of `entries`, which are in `list`.
pub(crate) fn read_records(
    entries: &[&RawValue],
    list: &str,
    input: &Input<'_>,
) -> Result<Arc<Vec<Record>>, TranscriptError> {
    let mut reader = Entries::new(input.origin, list);
    let mut records = Vec::with_capacity(entries.len());
    for (n, entry) in entries.iter().enumerate() {
        let next = entries.get(n + 1).map(|next| next.get());
        records.push(input.shelf.put(entry.get(), reader.read(entry.get(), next)?, read_again));
    }
    Ok(Arc::new(records))
}

/// Reads the messages of an entry that was read before, without what the entries before it say.
fn read_again(text: &str) -> Vec<Message> {
    let read = parse(text).map_err(|source| WireError::Json { source });
    let message = read.and_then(|value| read_recorded(value, 0, &mut OlderCalls::default()));
    message.map(|(message, _)| Observations::default().split(message, 0, &|| None)).unwrap_or_default()
}

/// A reader of the entries of a list, one by one.
pub(super) struct Entries<'o> {
    origin: &'o str,
    list: &'o str,
    n_read: usize,
    older: OlderCalls,
    observations: Observations,
    names: Names,
}

impl<'o> Entries<'o> {
    /// Creates a reader of the entries of `list` in the file `origin`.
    pub(super) fn new(origin: &'o str, list: &'o str) -> Self {
        Self {
            origin,
            list,
            n_read: 0,
            older: OlderCalls::default(),
            observations: Observations::default(),
            names: Names::default(),
        }
    }

    /// Reads the next entry, which is `text`; `next` is the one after it.
    pub(super) fn read(&mut self, text: &str, next: Option<&str>) -> Result<Record, TranscriptError> {
        let index = self.n_read;
        self.n_read += 1;
        let value = parse(text).map_err(|source| WireError::Json { source });
        if value.as_ref().is_ok_and(|value: &Value| value.get("role").is_some_and(|role| role == EXIT)) {
            return Ok(Record::new(text, Vec::new()));
        }
        let (message, is_literal) = value
            .and_then(|value| read_recorded(value, index, &mut self.older))
            .map_err(|source| TranscriptError::entry(self.origin, self.list, index, text, source))?;
        let mut messages = self.observations.split(message, index, &|| next.and_then(announced_result_in));
        self.names.name(&mut messages);
        Ok(Record::new(text, messages).literal(is_literal))
    }
}

/// Returns the first message of an entry that may announce a result.
fn announced_result_in(text: &str) -> Option<Message> {
    // Few do, so few are read twice.
    if !text.contains(RESULT) {
        return None;
    }
    let value = parse(text).ok()?;
    let (message, _) = read_recorded(value, 0, &mut OlderCalls::default()).ok()?;
    split(message).into_iter().next()
}

/// Reads a message as recordings have it, which are less strict than the protocol, and reports whether this
/// one was strict. `index` is its place in the list, and `older` are the calls in the protocol's older form
/// that nothing has answered yet.
fn read_recorded(
    mut value: Value,
    index: usize,
    older: &mut OlderCalls,
) -> Result<(Message, bool), WireError> {
    let mut error = String::new();
    let mut is_literal = true;
    let mut named = None;
    if let Some(fields) = value.as_object_mut() {
        named = NamedRole::take(fields);
        is_literal = !plain_parts(fields);
        reasoning_beside(fields);
        is_message(fields)?;
        match fields.get("role").and_then(Value::as_str) {
            Some("assistant") => is_literal &= !plain_calls(fields) & !older.modernize_call(fields, index),
            Some("function") => {
                older.modernize_result(fields);
                is_literal = false;
            }
            Some("tool") => {
                error = fields
                    .get("error")
                    .filter(|error| says_something(error))
                    .map(flat_value)
                    .unwrap_or_default();
                is_literal &= !plain_result(fields);
            }
            _ => (),
        }
    }
    let mut message = thoughts_beside(read_message(value)?);
    if let (Body::Tool(result), false) = (&mut message.body, error.is_empty()) {
        result.is_error = true;
        if flat_text(&result.content).is_empty() {
            result.content = Content::Text(error);
            is_literal = false;
        }
    }
    let message = match named {
        Some(named) => named.mark(message),
        None => message,
    };
    Ok((message, is_literal))
}

/// The key of a message's metadata for the word that is its role in the file, if that also names the author.
pub(super) const NAMED_ROLE: &str = "named_role";

/// A role whose word also names the author, as recorders write down the messages of a sub-agent.
struct NamedRole {
    word: String,
    author: String,
    /// True if it is what another agent asks of the author.
    is_order: bool,
}

impl NamedRole {
    /// Puts the plain role in its place. A recorder may keep that role beside it; else a message that names a
    /// call, and makes none, is a result.
    fn take(fields: &mut Map<String, Value>) -> Option<Self> {
        let word = fields.get("role")?.as_str()?.to_owned();
        let (begun, author) = named_role(&word)?;
        let answers = fields.contains_key("tool_call_id") && !says_something_at(fields, "tool_calls");
        let kept = fields.get("_metadata").and_then(|more| more.get("original_role")?.as_str());
        let role = match (kept.filter(|kept| is_role(kept)), begun) {
            (Some(kept), _) => kept,
            (None, "assistant" | "function") if answers => "tool",
            (None, "tool" | "function") if !answers => return None,
            (None, begun) => begun,
        };
        let (author, is_order) = (author.to_owned(), role == "user" && begun != role);
        let role = json!(role);
        fields.insert("role".into(), role);
        Some(Self { word, author, is_order })
    }

    /// Marks a message with its author, and with the word.
    fn mark(self, message: Message) -> Message {
        let mut message = match message.role() {
            Role::User if self.is_order => message.noted_by(HARNESS),
            Role::User | Role::Assistant => said_by(message, &self.author),
            Role::System | Role::Tool => message,
        };
        message.metadata.insert(NAMED_ROLE.to_owned(), json!(self.word));
        message
    }
}

/// Checks whether an error is one: recorders also write `false`, 0 or something empty if there was none.
fn says_something(error: &Value) -> bool {
    match error {
        Value::Null => false,
        Value::Bool(flag) => *flag,
        Value::Number(number) => number.as_f64() != Some(0.0),
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        Value::Object(fields) => !fields.is_empty(),
    }
}

/// The role under which mini-swe-agent writes down what came of a run: no model sees it.
const EXIT: &str = "exit";
/// Refuses anything that is not a message of this protocol, and would be read as empty or as another author's
/// text.
fn is_message(fields: &Map<String, Value>) -> Result<(), WireError> {
    /// The keys that an assistant may have in place of a content.
    const SAID: [&str; 9] = [
        "content",
        "tool_calls",
        "function_call",
        "refusal",
        "audio",
        "reasoning",
        "reasoning_content",
        "reasoning_details",
        "thinking_blocks",
    ];
    let shape = |at: &str, what: String| Err(WireError::Shape { at: at.to_owned(), what });
    let Some(role) = fields.get("role").and_then(Value::as_str) else { return Ok(()) };
    if !is_role(role) {
        return shape("role", format!("is `{role}`; the roles are {}", ROLES.join(", ")));
    }
    if let Some((key, _)) = foreign::telling_key(fields) {
        return shape(key, "is not a key of an OpenAI message, and holds its content".to_owned());
    }
    let says = if role == "assistant" { &SAID[..] } else { &SAID[..1] };
    if !says.iter().any(|key| fields.contains_key(*key)) {
        let what = if role == "assistant" { "is missing, and so is `tool_calls`" } else { "is missing" };
        return shape("content", what.to_owned());
    }
    parts::are_openai(fields.get("content"), "content")
}

/// The calls in the protocol's older form, `function_call`, which have no ids: results name the function.
#[derive(Default)]
struct OlderCalls {
    /// Name and made-up id of each call that is not answered, oldest first.
    open: Vec<(String, String)>,
}

impl OlderCalls {
    /// Gives a call in the older form today's. Returns whether there was one.
    fn modernize_call(&mut self, fields: &mut Map<String, Value>, index: usize) -> bool {
        if !fields.get("function_call").is_some_and(Value::is_object)
            || says_something_at(fields, "tool_calls")
        {
            return false;
        }
        let Some(function) = fields.shift_remove("function_call") else { return false };
        let id = format!("call_{index}");
        let name = function.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
        self.open.push((name, id.clone()));
        fields.insert("tool_calls".into(), json!([{"id": id, "type": "function", "function": function}]));
        plain_calls(fields);
        true
    }

    /// Gives a result in the older form today's: it answers the newest open call of its function.
    fn modernize_result(&mut self, fields: &mut Map<String, Value>) {
        let name = fields.get("name").and_then(Value::as_str).unwrap_or_default();
        let of_name = self.open.iter().rposition(|(called, _)| called == name);
        // A result without a name can only answer the newest.
        let at = of_name.or_else(|| name.is_empty().then(|| self.open.len().checked_sub(1)).flatten());
        let id = at.map(|at| self.open.remove(at).1).unwrap_or_default();
        fields.insert("role".into(), json!("tool"));
        fields.insert("tool_call_id".into(), json!(id));
    }
}

fn says_something_at(fields: &Map<String, Value>, key: &str) -> bool {
    fields.get(key).is_some_and(says_something)
}

/// Kinds of parts with a text that some converters make of reasoning.
const REASONING: [&str; 2] = ["reasoning", "thinking"];

/// Gives the parts of a content the form of the protocol: some converters repeat each call as a part, and put
/// what a result says, or what the agent thought, into one. Returns whether any had another.
fn plain_parts(fields: &mut Map<String, Value>) -> bool {
    let has_calls = says_something_at(fields, "tool_calls");
    let is_agents = fields.get("role").is_some_and(|role| role == "assistant");
    let Some(parts) = fields.get_mut("content").and_then(Value::as_array_mut) else { return false };
    let is = |part: &Value, kind: &str| part.get("type").and_then(Value::as_str) == Some(kind);
    let n_parts = parts.len();
    parts.retain(|part| !(has_calls && is(part, "tool_call") && part.get("tool_call_id").is_some()));
    let mut is_changed = parts.len() < n_parts;
    for part in parts.iter_mut().filter(|part| is(part, "tool_output")) {
        let text = flat_value(part.get("text").unwrap_or(&Value::Null));
        *part = json!({"type": "text", "text": text});
        is_changed = true;
    }
    let is_reasoning = |part: &Value| REASONING.iter().any(|kind| is(part, kind)) && part["text"].is_string();
    for part in parts.iter_mut().filter(|part| is_agents && is_reasoning(part)) {
        *part = json!({"type": "think", "think": part["text"]});
        is_changed = true;
    }
    if is_changed && parts.is_empty() {
        fields.insert("content".into(), Value::Null);
    }
    is_changed
}

/// Puts reasoning that is a part of the content under a key beside it. Kimi CLI sends it in this form; in its
/// file the other has to stay.
fn reasoning_beside(fields: &mut Map<String, Value>) {
    let Some(parts) = fields.get_mut("content").and_then(Value::as_array_mut) else { return };
    let thoughts: Vec<String> =
        parts.iter().filter(|part| is_thought(part)).map(|part| flat_value(&part["think"])).collect();
    if thoughts.is_empty() {
        return;
    }
    parts.retain(|part| !is_thought(part));
    if parts.is_empty() {
        fields.insert("content".into(), Value::Null);
    }
    fields.entry("reasoning_content").or_insert_with(|| json!(thoughts.join("\n")));
}

/// Puts the thoughts in the text of a reply under the key for reasoning, as other servers send it. The entry
/// itself stays as it is.
fn thoughts_beside(message: Message) -> Message {
    const KEY: &str = "reasoning_content";
    let (mut message, thoughts) = take_thoughts(message);
    let is_told = message.extra.get(KEY).is_some_and(says_something);
    if let Some(thoughts) = thoughts.filter(|thoughts| !thoughts.is_empty() && !is_told) {
        message.extra.insert(KEY.to_owned(), json!(thoughts));
    }
    message
}

fn is_thought(part: &Value) -> bool {
    part.get("type").is_some_and(|kind| kind == "think") && part.get("think").is_some()
}

/// Checks whether the content in the text of an entry has parts that only its agent's file may have.
pub(super) fn has_own_parts(text: &str) -> bool {
    let entry = || parse::<Value>(text).unwrap_or_default();
    let has = |entry: &Value| entry["content"].as_array().is_some_and(|parts| parts.iter().any(is_thought));
    text.contains("\"think\"") && has(&entry())
}

/// Gives the calls the form of the protocol: a call may be flat, its arguments any value, its id a number.
/// Returns whether any had another.
fn plain_calls(fields: &mut Map<String, Value>) -> bool {
    let Some(calls) = fields.get_mut("tool_calls").and_then(Value::as_array_mut) else { return false };
    let mut is_changed = false;
    for call in calls.iter_mut().filter_map(Value::as_object_mut) {
        is_changed |= plain_id(call, "id");
        if call.contains_key("custom") {
            continue;
        }
        if !call.get("function").is_some_and(Value::is_object) {
            let name =
                call.shift_remove("function").or_else(|| call.shift_remove("name")).unwrap_or_default();
            let arguments = call.shift_remove("arguments").filter(|arguments| !arguments.is_null());
            let arguments = arguments.or_else(|| call.shift_remove("args")).unwrap_or_default();
            call.insert("function".into(), json!({"name": name, "arguments": arguments}));
            call.insert("type".into(), json!("function"));
            is_changed = true;
        }
        let function = &mut call["function"];
        if function["name"].as_str().is_none_or(|name| name.trim().is_empty()) {
            function["name"] = json!("tool");
            is_changed = true;
        }
        let arguments = &mut function["arguments"];
        is_changed |= !arguments.is_string();
        if !arguments.is_string() && !arguments.is_object() && !arguments.is_null() {
            *arguments = json!({"input": arguments});
        }
    }
    is_changed
}

/// Gives a result the form of the protocol: the call's id may be in a list, be a number, or be missing.
/// Returns whether it had another.
fn plain_result(fields: &mut Map<String, Value>) -> bool {
    let is_missing = fields.get("tool_call_id").is_none_or(Value::is_null);
    if is_missing {
        let first = fields.get("tool_call_ids").and_then(|ids| ids.get(0)).cloned();
        fields.insert("tool_call_id".into(), first.unwrap_or_else(|| json!("")));
    }
    plain_id(fields, "tool_call_id") || is_missing
}

fn plain_id(fields: &mut Map<String, Value>, key: &str) -> bool {
    match fields.get_mut(key) {
        Some(id @ Value::Number(_)) => *id = json!(id.to_string()),
        Some(id @ Value::Null) => *id = json!(""),
        _ => return false,
    }
    true
}
