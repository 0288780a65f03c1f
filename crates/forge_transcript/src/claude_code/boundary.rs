//! The compactions that Claude Code recorded: boundaries, with the old messages still in the file.

use serde_json::Value;

use crate::json_text::parse;
use crate::{Record, RecordedCompaction};

/// Returns the compactions of a session, oldest first.
pub(super) fn compactions(records: &[Record]) -> Vec<RecordedCompaction> {
    let records = records.iter().enumerate();
    records.filter_map(|(record, read)| compaction(record, read.raw())).collect()
}

/// Returns the first record of what the model would see.
pub(super) fn window_start(records: &[Record]) -> usize {
    let compactions = compactions(records);
    let last = compactions.iter().rev().find(|compaction| {
        let after = &records[compaction.record..];
        after.iter().any(|record| record.messages().iter().any(|message| message.is_compacted))
    });
    let Some(last) = last else { return 0 };
    let of_uuid = |uuid: &String| {
        let named = format!("\"uuid\":\"{uuid}\"");
        records[..last.record].iter().position(|record| record.raw().replace(' ', "").contains(&named))
    };
    last.kept_from.as_ref().and_then(of_uuid).unwrap_or(last.record)
}

/// Checks whether a record holds the summary that follows a boundary.
pub(super) fn is_summary(raw: &str) -> bool {
    raw.contains("isCompactSummary")
        && parse::<Value>(raw).is_ok_and(|line| line.get("isCompactSummary") == Some(&Value::Bool(true)))
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
        for (kept, expected) in [("", 2), (",\"preservedSegment\":{\"headUuid\":\"u2\"}", 1)] {
            let text = [
                line("u1", "null", ""),
                line("u2", "\"u1\"", ""),
                boundary(kept),
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
            assert_eq!(session.window().start, expected, "{kept}");
        }
    }
}
