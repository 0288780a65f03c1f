//! A compaction appended as Codex records its own: the history in place of what came before.

use forge_domain::{Body, Message};
use serde_json::{Value, json};

use super::codex_item::{new_items, reply_groups};
use crate::any_blocks::text_at;
use crate::codec::{Addition, Line, Says};
use crate::item::Place;
use crate::json_text::parse;
use crate::written::split;
use crate::{Record, RewriteError};

/// Returns the one line of the compaction.
pub(super) fn lines(addition: &Addition<'_>) -> Result<Vec<String>, RewriteError> {
    let revision = &addition.revision;
    if revision.from() != revision.to {
        return Err(RewriteError::OtherFile);
    }
    let mut history: Vec<Value> = sealed_summaries(addition);
    for line in &revision.lines {
        let items = items(line);
        history.extend(items.into_iter().filter(|item| !history_has_sealed(item)));
    }
    let line = json!({
        "timestamp": addition.timestamp(0),
        "type": "compacted",
        "payload": { "message": "", "replacement_history": history },
    });
    Ok(vec![line.to_string()])
}

fn history_has_sealed(item: &Value) -> bool {
    matches!(text_at(item, "/type"), "compaction" | "compaction_summary" | "context_compaction")
}

/// Returns the summaries that only the provider can read: Forge can neither shorten nor replace them.
fn sealed_summaries(addition: &Addition<'_>) -> Vec<Value> {
    let records = &addition.revision.session.records;
    let window = addition.revision.session.window();
    let payloads = window.places(records.len()).filter_map(|place| payload(&records[place]));
    let items = payloads.flat_map(|(kind, payload)| match kind.as_str() {
        "compacted" => payload["replacement_history"].as_array().cloned().unwrap_or_default(),
        _ => vec![payload],
    });
    items.filter(history_has_sealed).collect()
}

fn payload(record: &Record) -> Option<(String, Value)> {
    let fields: Value = parse(record.raw()).ok()?;
    let kind = text_at(&fields, "/type").to_owned();
    matches!(kind.as_str(), "response_item" | "compacted").then(|| (kind, fields["payload"].clone()))
}

/// Returns the items of a message: those of the file, without the ids that belong to reasoning that is not
/// there, or new ones.
fn items(line: &Line<'_>) -> Vec<Value> {
    let message = line.message();
    let Some(item) = line.item() else { return new_items(&message) };
    let mut items = Vec::new();
    for place in item.places() {
        let record = &line.records[place.record];
        if is_instructions(record) {
            // Codex sends its instructions beside the history.
            return Vec::new();
        }
        match original(record, *place) {
            Some(found) => items.extend(found),
            None => return new_items(&message),
        }
    }
    if matches!(line.says, Says::Less(..)) {
        return shorter(items, &message);
    }
    items
}

/// Returns the items with the texts of a message that became shorter.
fn shorter(mut items: Vec<Value>, message: &Message) -> Vec<Value> {
    match (items.as_mut_slice(), &message.body) {
        ([item], Body::Tool(result)) if item.get("output").is_some() => {
            item["output"] = json!(result.content.to_text());
            items
        }
        // A call of a kind of its own has no shorter form that fits its tool.
        (several, Body::Assistant { .. })
            if several.iter().any(|item| text_at(item, "/type") == "custom_tool_call") =>
        {
            items
        }
        _ => new_items(message),
    }
}

fn is_instructions(record: &Record) -> bool {
    record.raw().contains("\"session_meta\"")
        && parse::<Value>(record.raw()).is_ok_and(|fields| text_at(&fields, "/type") == "session_meta")
}

/// Returns the items that hold the message at `place`.
fn original(record: &Record, place: Place) -> Option<Vec<Value>> {
    let (kind, payload) = payload(record)?;
    let candidates = match kind.as_str() {
        "compacted" => payload["replacement_history"].as_array().cloned().unwrap_or_default(),
        _ => vec![payload],
    };
    let mut first = 0;
    for (items, messages) in reply_groups(candidates.iter()) {
        let n_messages: usize = messages.into_iter().map(pieces).sum();
        if (first..first + n_messages).contains(&place.message) {
            let mut items: Vec<Value> = items.into_iter().cloned().collect();
            items.iter_mut().filter_map(Value::as_object_mut).for_each(|item| {
                item.shift_remove("id");
            });
            return (n_messages == 1).then_some(items);
        }
        first += n_messages;
    }
    None
}

fn pieces(message: Message) -> usize {
    if message.is_compacted || message.note_by().is_some() { 1 } else { split(message).len() }
}
