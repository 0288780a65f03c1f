//! A compaction appended as pi records its own: a summary, and the first entry that stays.

use std::collections::HashSet;

use forge_domain::{Body, Message, ToolResult};
use serde_json::{Map, Value, json};

use crate::any_blocks::text_at;
use crate::codec::{Addition, Fields, Line};
use crate::item::Place;
use crate::json_text::parse;
use crate::{Record, RewriteError};

/// Returns the lines: if the messages that stay are the end of the file, the compaction alone. Else those
/// that stay follow it as entries of their own.
pub(super) fn lines(addition: &Addition<'_>) -> Result<Vec<String>, RewriteError> {
    let revision = &addition.revision;
    if revision.from() != revision.to {
        return Err(RewriteError::OtherFile);
    }
    let (record, rest) = addition.record_and_rest();
    let mut file = File::of(&revision.session.records);
    let kept = kept_from(addition, &rest);
    let id = file.new_id(&addition.uuid(0));
    let mut line = file.entry("compaction", &id, file.leaf.as_deref(), &addition.timestamp(0));
    line.insert("summary".into(), json!(record));
    match kept {
        _ if !file.is_tree => {
            let end = revision.session.records.len();
            line.insert("firstKeptEntryIndex".into(), json!(kept.unwrap_or(end)));
        }
        Some(kept) => {
            let first: Value = parse(revision.raw(kept)).unwrap_or_default();
            line.insert("firstKeptEntryId".into(), first["id"].clone());
        }
        // Its own id: nothing before it stays.
        None => {
            line.insert("firstKeptEntryId".into(), json!(id));
        }
    }
    line.insert("tokensBefore".into(), json!(addition.pre_tokens));
    let mut lines = vec![Value::Object(line).to_string()];
    if kept.is_none() {
        let mut parent = id;
        for (n, line) in rest.iter().enumerate() {
            let id = file.new_id(&addition.uuid(n + 1));
            let is_noted = line.message().note_by().is_some();
            let (kind, said) = match recorded(addition, line) {
                note if is_noted && text_at(&note, "/type") == NOTE => (NOTE, note_fields(note, line)),
                entry => {
                    ("message", Map::from_iter([("message".into(), message_json(addition, &entry, line))]))
                }
            };
            let mut entry = file.entry(kind, &id, Some(&parent), &addition.timestamp(n + 1));
            entry.extend(said);
            lines.push(Value::Object(entry).to_string());
            parent = id;
        }
    }
    Ok(lines)
}

/// The facts of the file that its new entries need.
struct File {
    /// True if its entries name their parents.
    is_tree: bool,
    /// The id of its last entry.
    leaf: Option<String>,
    /// The ids of its entries.
    ids: HashSet<Box<str>>,
}

impl File {
    fn of(records: &[Record]) -> Self {
        let mut file = Self { is_tree: false, leaf: None, ids: HashSet::new() };
        for record in records {
            let entry = Fields::of(record.raw());
            let id = entry.text("id");
            if entry.contains("parentId") {
                file.is_tree = true;
                file.leaf = if id.is_empty() { file.leaf } else { Some(id.clone()) };
            }
            file.ids.insert(id.into());
        }
        file
    }

    /// Returns an id that no entry has: the first digits of `uuid`, or those of a number after it.
    fn new_id(&mut self, uuid: &str) -> String {
        let mut number = u32::from_str_radix(&uuid[..8], 16).unwrap_or_default();
        loop {
            let id = format!("{number:08x}");
            if self.ids.insert(id.as_str().into()) {
                return id;
            }
            number = number.wrapping_add(1);
        }
    }

    fn entry(&self, kind: &str, id: &str, parent: Option<&str>, at: &str) -> Map<String, Value> {
        let mut entry = Map::new();
        entry.insert("type".into(), json!(kind));
        if self.is_tree {
            entry.insert("id".into(), json!(id));
            entry.insert("parentId".into(), json!(parent));
        }
        entry.insert("timestamp".into(), json!(at));
        entry
    }
}

/// Returns the first entry that stays, if the messages that stay are all messages of the file from it on.
fn kept_from(addition: &Addition<'_>, rest: &[&Line<'_>]) -> Option<usize> {
    let revision = &addition.revision;
    let mut places = Vec::new();
    for line in rest {
        let item = line.item().filter(|_| line.is_same())?;
        places.extend(item.places().iter().map(|place| (place.record, place.message)));
    }
    let (first, _) = *places.first()?;
    let records = revision.session.records.iter().enumerate().skip(first);
    let all = records.flat_map(|(record, read)| (0..read.n_messages()).map(move |message| (record, message)));
    let is_compaction =
        |record: usize| text_at(&parse(revision.raw(record)).unwrap_or_default(), "/type") == "compaction";
    (all.eq(places.iter().copied()) && !places.iter().any(|(record, _)| is_compaction(*record)))
        .then_some(first)
}

/// The type of an entry that an extension of pi added.
const NOTE: &str = "custom_message";

/// Returns the first entry that `line` was read from; null for what is new.
fn recorded(addition: &Addition<'_>, line: &Line<'_>) -> Value {
    let first = line.item().and_then(|item| item.places().first());
    first.and_then(|place| parse(addition.revision.raw(place.record)).ok()).unwrap_or_default()
}

/// Returns the fields of a note other than its place in the file, with its content as it is now.
fn note_fields(entry: Value, line: &Line<'_>) -> Map<String, Value> {
    let Value::Object(mut fields) = entry else { return Map::new() };
    for key in ["type", "id", "parentId", "timestamp"] {
        fields.remove(key);
    }
    if !line.is_same() {
        fields.insert("content".into(), json!(line.message().to_text()));
    }
    fields
}

/// Returns a message in pi's form. What it reported as usage is of the larger context.
fn message_json(addition: &Addition<'_>, entry: &Value, line: &Line<'_>) -> Value {
    let message = line.message();
    let said = entry.get("message").and_then(Value::as_object).cloned().unwrap_or_default();
    let timestamp = said.get("timestamp").cloned().unwrap_or_else(|| json!(addition.now.as_millisecond()));
    let said = with_facts(said, &message, timestamp);
    // An entry with the text of several messages, or of half a one, is not this message.
    let records = &addition.revision.session.records;
    let is_alone = |place: &Place| records[place.record].n_messages() == 1;
    let is_whole = line.item().is_some_and(|item| matches!(item.places(), [place] if is_alone(place)));
    if said.contains_key("role") && line.is_same() && is_whole {
        return Value::Object(said);
    }
    with_content(said, &message)
}

/// Returns a message that is new in a session, with these `fields` and at the time `timestamp`.
pub(crate) fn message_of(message: &Message, fields: Map<String, Value>, timestamp: Value) -> Value {
    with_content(with_facts(fields, message, timestamp), message)
}

/// Returns the fields of a message with what pi expects beside its content.
fn with_facts(mut said: Map<String, Value>, message: &Message, timestamp: Value) -> Map<String, Value> {
    if matches!(message.body, Body::Assistant { .. }) {
        let zero = json!({ "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0 });
        let mut usage = zero.clone();
        usage["totalTokens"] = json!(0);
        usage["cost"] = zero;
        said.insert("usage".into(), usage);
        for (key, value) in [("api", "forge"), ("provider", "forge"), ("model", "forge")] {
            said.entry(key).or_insert_with(|| json!(value));
        }
        let reason = if message.calls().is_empty() { "stop" } else { "toolUse" };
        said.entry("stopReason").or_insert_with(|| json!(reason));
    }
    said.insert("timestamp".into(), timestamp);
    said
}

fn with_content(mut said: Map<String, Value>, message: &Message) -> Value {
    replace_content(&mut said, message);
    Value::Object(said)
}

fn replace_content(said: &mut Map<String, Value>, message: &Message) {
    let text = message.to_text();
    let block = |text: &str| json!({ "type": "text", "text": text });
    match &message.body {
        Body::Assistant { content, calls } => {
            let text = content.as_ref().map(forge_domain::Content::to_text).filter(|text| !text.is_empty());
            let mut blocks: Vec<Value> = text.iter().map(|text| block(text)).collect();
            blocks.extend(calls.iter().map(|call| {
                let fields: Map<String, Value> = parse(&call.arguments).unwrap_or_default();
                json!({ "type": "toolCall", "id": call.id, "name": call.name, "arguments": fields })
            }));
            said.insert("role".into(), json!("assistant"));
            said.insert("content".into(), Value::Array(blocks));
        }
        Body::Tool(ToolResult { call_id, name, content, is_error }) => {
            said.insert("role".into(), json!("toolResult"));
            said.insert("toolCallId".into(), json!(call_id));
            said.insert("toolName".into(), json!(name.as_ref().map_or("tool", |name| name.as_str())));
            said.insert("content".into(), json!([block(&content.to_text())]));
            said.insert("isError".into(), json!(is_error));
        }
        Body::User(_) | Body::System(_) => {
            said.insert("role".into(), json!("user"));
            said.insert("content".into(), json!([block(&text)]));
        }
    }
}
