//! Sessions written as the body of a request to Anthropic's messages.

use forge_domain::Role;
use forge_wire::anthropic::{entry_blocks, system_json, with_legal_ids};
use serde_json::{Value, json};

use super::blocks::{Fate, assistant_blocks, content, raw_blocks, said_blocks, user_blocks};
use super::splice::{field, list, with_field};
use super::{Line, RewriteError, Says};
use crate::{Draft, Format};

/// An entry of `messages` in the making.
struct Entry {
    role: &'static str,
    blocks: Vec<String>,
    /// The record that it is, untouched.
    record: Option<usize>,
}

/// Writes the request body or the bare list with the messages of `lines`; everything else stays.
pub(super) fn write(draft: &Draft<'_>, lines: &[Line<'_>], text: &str) -> Result<String, RewriteError> {
    let n_system = lines.iter().take_while(|line| line.role() == Role::System).count();
    let (system, rest) = lines.split_at(n_system);
    if draft.format() != Format::Anthropic {
        return convert(draft, system, rest, text);
    }
    let entries = merged(same_entries(draft, rest)?);
    let raw = |record: usize| draft.session.records[record].raw().to_owned();
    let entries: Vec<String> =
        entries.iter().map(|entry| entry.record.map_or_else(|| entry.json(), raw)).collect();
    if text.trim_start().starts_with('[') {
        return Ok(list(&entries) + "\n");
    }
    with_field(text, "messages", &list(&entries)).ok_or(RewriteError::OtherFile)
}

fn convert(
    draft: &Draft<'_>,
    system: &[Line<'_>],
    rest: &[Line<'_>],
    text: &str,
) -> Result<String, RewriteError> {
    let mut entries = Vec::with_capacity(rest.len());
    for line in rest {
        let (role, mut blocks) = entry_blocks(&line.message()).map_err(|source| refused(line, source))?;
        with_legal_ids(&mut blocks);
        entries.push(Entry { role, blocks: blocks.iter().map(Value::to_string).collect(), record: None });
    }
    let entries = merged(entries);
    if entries.first().is_some_and(|entry| entry.role != "user") {
        let why = "the first message is the assistant's, but Anthropic's format starts with the user's";
        return Err(RewriteError::Convert { from: draft.format(), to: Format::Anthropic, why });
    }
    let system: Vec<_> = system.iter().map(Line::message).collect();
    let system: Vec<_> = system.iter().map(AsRef::as_ref).collect();
    let mut fields: Vec<String> =
        system_json(&system).map(|system| format!("\"system\":{system}")).into_iter().collect();
    fields.push(format!("\"messages\":{}", list(&entries.iter().map(Entry::json).collect::<Vec<_>>())));
    let tools = (draft.format() == Format::Openai).then(|| field(text, "tools")).flatten();
    fields.extend(tools.map(|tools| format!("\"tools\":{}", tools_json(tools))));
    Ok(format!("{{{}}}\n", fields.join(",")))
}

fn new_entry(line: &Line<'_>) -> Result<Entry, RewriteError> {
    let (role, blocks) = entry_blocks(&line.message()).map_err(|source| refused(line, source))?;
    Ok(Entry { role, blocks: blocks.iter().map(Value::to_string).collect(), record: None })
}

const fn refused(line: &Line<'_>, source: forge_wire::WireError) -> RewriteError {
    RewriteError::Message { number: line.number, to: Format::Anthropic, source }
}

/// Writes the entries of a session of the same format: a record whose messages are all unchanged stays whole.
fn same_entries(draft: &Draft<'_>, lines: &[Line<'_>]) -> Result<Vec<Entry>, RewriteError> {
    let record =
        |line: &Line<'_>| line.item().and_then(|item| item.places().first()).map(|place| place.record);
    let of_one_record =
        |line: &Line<'_>, next: &Line<'_>| record(line).is_some() && record(line) == record(next);
    let mut entries = Vec::new();
    for run in lines.chunk_by(of_one_record) {
        match (run.first(), run.first().and_then(record)) {
            (Some(_), Some(record)) => entries.push(record_entry(draft, record, run)?),
            (Some(line), None) => entries.push(new_entry(line)?),
            (None, _) => {}
        }
    }
    Ok(entries)
}

/// Writes the entry of a record of which `run` is left.
fn record_entry(draft: &Draft<'_>, record: usize, run: &[Line<'_>]) -> Result<Entry, RewriteError> {
    let read = &draft.session.records[record];
    let messages = read.messages();
    let mut fates = vec![Fate::Gone; messages.len()];
    for line in run {
        let place = line.item().and_then(|item| item.places().first());
        if let Some(fate) = place.and_then(|place| fates.get_mut(place.message)) {
            *fate = if let Says::Less(_, message) = line.says { Fate::Says(message) } else { Fate::Kept };
        }
    }
    let said = field(read.raw(), "content").unwrap_or_default();
    let is_assistants = run.iter().any(|line| line.role() == Role::Assistant);
    let role = if is_assistants { "assistant" } else { "user" };
    if fates.iter().all(|fate| matches!(fate, Fate::Kept)) {
        return Ok(Entry { role, blocks: raw_blocks(said), record: Some(record) });
    }
    let blocks = match (fates.as_slice(), run) {
        ([Fate::Says(message)], [line]) if is_assistants => {
            let was = line.item().map(|item| item.message(line.records));
            assistant_blocks(&[said], was.as_deref().unwrap_or(message), message)
        }
        _ if is_assistants => said_blocks(&messages, &fates),
        _ => user_blocks(said, &messages, &fates),
    };
    let blocks = blocks.map_err(|source| refused(&run[0], source))?;
    Ok(Entry { role, blocks, record: None })
}

/// Merges entries of one role, except those that the file had apart already.
fn merged(entries: Vec<Entry>) -> Vec<Entry> {
    let mut merged: Vec<Entry> = Vec::with_capacity(entries.len());
    for entry in entries.into_iter().filter(|entry| entry.record.is_some() || !entry.blocks.is_empty()) {
        match merged.last_mut() {
            Some(last) if last.role == entry.role && !were_apart(last, &entry) => {
                last.blocks.extend(entry.blocks);
                last.record = None;
            }
            _ => merged.push(entry),
        }
    }
    merged
}

fn were_apart(last: &Entry, next: &Entry) -> bool {
    last.record.zip(next.record).is_some_and(|(last, next)| last + 1 == next)
}

impl Entry {
    fn json(&self) -> String {
        format!("{{\"role\":\"{}\",\"content\":{}}}", self.role, content(&self.blocks))
    }
}

/// Returns OpenAI's tool schemas in Anthropic's form.
fn tools_json(tools: &str) -> Value {
    let tools: Vec<Value> = serde_json::from_str(tools).unwrap_or_default();
    let tool = |tool: &Value| {
        let function = tool.get("function").unwrap_or(tool);
        json!({"name": function["name"], "description": function.get("description").unwrap_or(&json!("")),
            "input_schema": function.get("parameters").unwrap_or(&json!({"type": "object"}))})
    };
    tools.iter().map(tool).collect()
}
