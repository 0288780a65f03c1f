//! Sessions written as the body of a request to Anthropic's messages.

use forge_domain::Role;
use forge_wire::anthropic::{entry_blocks, system_json, with_legal_ids};
use serde_json::Value;

use super::blocks::{Fate, assistant_blocks, content_json, raw_blocks, said_blocks, user_blocks};
use crate::RewriteError;
use crate::author_mark::{are_several_people, with_author, with_name, without_system_role};
use crate::codec::{Line, Revision, Says};
use crate::parts::are_blocks;
use crate::splice::{field, list, with_field};
use crate::tools::anthropic_tools;

/// An entry of `messages` in the making.
struct Entry {
    role: &'static str,
    blocks: Vec<String>,
    /// The record that it is, untouched.
    record: Option<usize>,
}

/// Writes the request body or the bare list with the messages of `revision`; everything else stays.
pub(super) fn write(revision: &Revision<'_>) -> Result<String, RewriteError> {
    let n_system = revision.lines.iter().take_while(|line| line.role() == Role::System).count();
    let (system, rest) = revision.lines.split_at(n_system);
    if revision.from() != revision.to {
        return convert(revision, system, rest);
    }
    let entries = merge_entries(same_entries(revision, rest)?);
    let raw = |record: usize| revision.raw(record).to_owned();
    let entries: Vec<String> =
        entries.iter().map(|entry| entry.record.map_or_else(|| entry.json(), raw)).collect();
    let text = revision.text();
    if text.trim_start().starts_with('[') {
        return Ok(list(&entries) + "\n");
    }
    with_field(&text, "messages", &list(&entries)).ok_or(RewriteError::OtherFile)
}

fn convert(revision: &Revision<'_>, system: &[Line<'_>], rest: &[Line<'_>]) -> Result<String, RewriteError> {
    let mut entries = Vec::with_capacity(rest.len());
    // Those whose words left count: a record may name them.
    let are_named = are_several_people(revision.session.messages());
    for line in rest {
        let message = if are_named { with_name(line.message()) } else { line.message() };
        let message = with_author(without_system_role(message));
        let (role, mut blocks) = entry_blocks(&message).map_err(|source| revision.refuse(line, source))?;
        are_blocks(&blocks, "content").map_err(|source| revision.refuse(line, source))?;
        with_legal_ids(&mut blocks);
        entries.push(Entry::new(role, &blocks));
    }
    let entries = merge_entries(entries);
    if entries.first().is_some_and(|entry| entry.role != "user") {
        let why = "the first message is the assistant's, but Anthropic's format starts with the user's";
        return Err(revision.refuse_conversion(why));
    }
    let system: Vec<_> = system.iter().map(Line::message).collect();
    let system: Vec<_> = system.iter().map(AsRef::as_ref).collect();
    let mut fields: Vec<String> =
        system_json(&system).map(|system| format!("\"system\":{system}")).into_iter().collect();
    fields.push(format!("\"messages\":{}", list(&entries.iter().map(Entry::json).collect::<Vec<_>>())));
    let tools = revision.tools();
    fields.extend(tools.map(|tools| format!("\"tools\":{}", anthropic_tools(&tools))));
    Ok(format!("{{{}}}\n", fields.join(",")))
}

fn new_entry(revision: &Revision<'_>, line: &Line<'_>) -> Result<Entry, RewriteError> {
    let (role, blocks) = entry_blocks(&line.message()).map_err(|source| revision.refuse(line, source))?;
    Ok(Entry::new(role, &blocks))
}

/// Writes the entries of a session of the same format: a record whose messages are all unchanged stays whole.
fn same_entries(revision: &Revision<'_>, lines: &[Line<'_>]) -> Result<Vec<Entry>, RewriteError> {
    let record =
        |line: &Line<'_>| line.item().and_then(|item| item.places().first()).map(|place| place.record);
    let of_one_record =
        |line: &Line<'_>, next: &Line<'_>| record(line).is_some() && record(line) == record(next);
    let mut entries = Vec::new();
    for run in lines.chunk_by(of_one_record) {
        match (run.first(), run.first().and_then(record)) {
            (Some(_), Some(record)) => entries.push(record_entry(revision, record, run)?),
            (Some(line), None) => entries.push(new_entry(revision, line)?),
            (None, _) => {}
        }
    }
    Ok(entries)
}

/// Writes the entry of a record of which `run` is left.
fn record_entry(revision: &Revision<'_>, record: usize, run: &[Line<'_>]) -> Result<Entry, RewriteError> {
    let read = &revision.session.records[record];
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
    let blocks = blocks.map_err(|source| revision.refuse(&run[0], source))?;
    Ok(Entry { role, blocks, record: None })
}

/// Merges entries of one role, except those that the file had apart already.
fn merge_entries(entries: Vec<Entry>) -> Vec<Entry> {
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
    fn new(role: &'static str, blocks: &[Value]) -> Self {
        Self { role, blocks: blocks.iter().map(Value::to_string).collect(), record: None }
    }

    fn json(&self) -> String {
        format!("{{\"role\":\"{}\",\"content\":{}}}", self.role, content_json(&self.blocks))
    }
}
