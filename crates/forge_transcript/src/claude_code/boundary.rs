//! The compactions that Claude Code recorded: boundaries, with the old messages still in the file.

use serde_json::Value;

use crate::codec::Window;
use crate::json_text::parse;
use crate::{Record, RecordedCompaction};

/// Returns the compactions of a session, oldest first.
pub(super) fn compactions(records: &[Record]) -> Vec<RecordedCompaction> {
    let records = records.iter().enumerate();
    records.filter_map(|(record, read)| compaction(record, read.raw())).collect()
}

/// Returns what the model would see: all from the last boundary on, and the messages that were kept from
/// before it.
pub(super) fn window(records: &[Record]) -> Window {
    let compactions = compactions(records);
    let last = compactions.iter().rev().find(|compaction| {
        let after = &records[compaction.record..];
        after.iter().any(|record| record.messages().iter().any(|message| message.is_compacted))
    });
    let Some(last) = last else { return Window::default() };
    let (earlier, later) = records.split_at(last.record);
    let Some(kept) = last.kept_from.as_ref().and_then(|uuid| place_of(earlier, uuid)) else {
        return Window::from(last.record);
    };
    let summary = anchor(later[0].raw()).and_then(|uuid| place_of(later, &uuid));
    let summaries = later.iter().take(summary.map_or(0, |summary| summary + 1)).enumerate();
    let lead = summaries.filter(|(_, record)| is_summary(record.raw())).map(|(at, _)| last.record + at);
    Window { lead: lead.collect(), ..Window::from(kept) }
}

fn place_of(records: &[Record], uuid: &str) -> Option<usize> {
    let named = format!("\"uuid\":\"{uuid}\"");
    records.iter().position(|record| record.raw().replace(' ', "").contains(&named))
}

/// Returns the id of the record that the kept messages follow: the summary, or else the boundary, if they are
/// to come before the summary.
fn anchor(boundary: &str) -> Option<String> {
    let line: Value = parse(boundary).ok()?;
    let at = |segment: &str| line.pointer(&format!("/compactMetadata/{segment}/anchorUuid"));
    at("preservedSegment").or_else(|| at("preservedMessages"))?.as_str().map(str::to_owned)
}

/// Checks whether a record holds the summary that follows a boundary. Without a role, it is no message.
pub(super) fn is_summary(raw: &str) -> bool {
    let is_it = |line: &Value| {
        line.get("isCompactSummary") == Some(&Value::Bool(true)) && line.pointer("/message/role").is_some()
    };
    raw.contains("isCompactSummary") && parse::<Value>(raw).is_ok_and(|line| is_it(&line))
}

/// Returns the compaction that a record holds; `None` if it holds none.
pub(super) fn compaction(record: usize, raw: &str) -> Option<RecordedCompaction> {
    if !raw.contains("compact_boundary") {
        return None;
    }
    let line: Value = parse(raw).ok()?;
    if line.get("subtype")?.as_str()? != "compact_boundary" || line.get("type")?.as_str()? != "system" {
        return None;
    }
    let said = line.get("compactMetadata").unwrap_or(&Value::Null);
    let text = |at: &str| said.pointer(at).and_then(Value::as_str).map(str::to_owned);
    Some(RecordedCompaction {
        record,
        trigger: text("/trigger"),
        pre_tokens: said.get("preTokens").and_then(Value::as_u64),
        post_tokens: said.get("postTokens").and_then(Value::as_u64),
        kept_from: text("/preservedSegment/headUuid").or_else(|| text("/preservedMessages/uuids/0")),
        kept_record: None,
    })
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use crate::read::read;

    #[test]
    fn what_a_model_would_see_begins_with_the_last_compaction() {
        let line = |uuid: &str, parent: &str, more: &str| {
            format!(
                "{{\"type\":\"user\",\"uuid\":\"{uuid}\",\"parentUuid\":{parent}{more},\"message\":{{\"role\":\"user\",\"content\":\"hi\"}}}}"
            )
        };
        let boundary = |kept: &str| {
            format!(
                "{{\"type\":\"system\",\"subtype\":\"compact_boundary\",\"uuid\":\"b\",\"parentUuid\":null,\"logicalParentUuid\":\"u2\",\"compactMetadata\":{{\"trigger\":\"auto\",\"preTokens\":99{kept}}}}}"
            )
        };
        let kept = |anchor: &str| {
            format!(",\"preservedSegment\":{{\"headUuid\":\"u2\",\"anchorUuid\":\"{anchor}\"}}")
        };
        for (kept, lead, start) in [
            (String::new(), vec![], 2),
            (",\"preservedSegment\":{\"headUuid\":\"u2\"}".to_owned(), vec![], 1),
            (kept("b"), vec![], 1),
            (kept("s"), vec![3], 1),
        ] {
            let text = [
                line("u1", "null", ""),
                line("u2", "\"u1\"", ""),
                boundary(&kept),
                line("s", "\"b\"", ",\"isCompactSummary\":true"),
                line("u3", "\"s\"", ""),
            ];
            let session = read(text.join("\n").as_bytes(), "f").unwrap().remove(0);
            let compactions = session.compactions();
            assert_eq!(compactions.len(), 1);
            assert_eq!(
                (compactions[0].trigger.as_deref(), compactions[0].pre_tokens),
                (Some("auto"), Some(99))
            );
            let window = session.window();
            assert_eq!((window.lead, window.start), (lead, start), "{kept}");
        }
    }
}
