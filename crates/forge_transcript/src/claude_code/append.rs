//! A compaction appended as Claude Code records its own: a boundary, its summary, and the messages that stay.

use forge_wire::anthropic::entry_blocks;
use serde_json::{Map, Value, json};

use super::reply::reply_message;
use crate::RewriteError;
use crate::codec::{Addition, Line};
use crate::json_text::parse;

/// The fields that every line shares with the session's last message.
const SHARED: [&str; 6] = ["userType", "cwd", "sessionId", "version", "gitBranch", "slug"];

/// Returns the boundary, the summary, and each message that stays as a line of its own with a new id: their
/// old lines would bring back their arms and their usage.
pub(super) fn lines(addition: &Addition<'_>) -> Result<Vec<String>, RewriteError> {
    let revision = &addition.revision;
    if revision.from() != revision.to {
        return Err(RewriteError::OtherFile);
    }
    let records = revision.session.records.iter().rev();
    let last = records.filter_map(|record| parse::<Map<String, Value>>(record.raw()).ok());
    let last = last.filter(|fields| fields.contains_key("uuid")).find(is_message).unwrap_or_default();
    let (record, rest) = addition.record_and_rest();
    let mut chain = Chain { addition, last: &last, lines: Vec::new(), uuid: None };
    chain.boundary();
    let summary = json!({ "role": "user", "content": record });
    let facts = json!({ "isVisibleInTranscriptOnly": true, "isCompactSummary": true });
    chain.push("user", &[("message", summary)], &facts);
    for line in rest {
        chain.message(line)?;
    }
    Ok(chain.lines)
}

/// Checks whether a line is a message of the session itself.
fn is_message(fields: &Map<String, Value>) -> bool {
    matches!(fields.get("type").and_then(Value::as_str), Some("user" | "assistant"))
        && fields.get("isSidechain") != Some(&Value::Bool(true))
}

/// The lines so far, each of which hangs on the one before.
struct Chain<'a> {
    addition: &'a Addition<'a>,
    /// The last message of the file.
    last: &'a Map<String, Value>,
    lines: Vec<String>,
    uuid: Option<String>,
}

impl Chain<'_> {
    fn boundary(&mut self) {
        let facts = json!({
            "subtype": "compact_boundary",
            "content": "Conversation compacted",
            "isMeta": false,
            "level": "info",
            "logicalParentUuid": self.last.get("uuid"),
            "compactMetadata": { "trigger": "manual", "preTokens": self.addition.pre_tokens },
        });
        self.push("system", &[], &facts);
    }

    /// Adds a message. A reply gets an id of its own and no usage: what it reports is of the larger context.
    fn message(&mut self, line: &Line<'_>) -> Result<(), RewriteError> {
        let message = line.message();
        let refuse = |source| self.addition.revision.refuse(line, source);
        let (role, blocks) = entry_blocks(&message).map_err(refuse)?;
        let mut facts = json!({});
        if message.note_by().is_some() {
            facts = json!({ "isMeta": true });
        }
        let body = match role {
            "assistant" => self.reply(line, &blocks),
            _ => json!({ "role": role, "content": blocks }),
        };
        self.push(role, &[("message", body)], &facts);
        Ok(())
    }

    fn reply(&self, line: &Line<'_>, blocks: &[Value]) -> Value {
        let first = line.item().and_then(|item| item.places().first());
        let raw = first.map(|place| self.addition.revision.raw(place.record)).unwrap_or_default();
        let fields: Value = parse(raw).unwrap_or_default();
        let model = fields.pointer("/message/model").cloned();
        reply_message(model, &self.addition.uuid(self.lines.len()), blocks)
    }

    fn push(&mut self, kind: &str, said: &[(&str, Value)], facts: &Value) {
        let place = self.lines.len();
        let uuid = self.addition.uuid(place);
        let mut line = Map::new();
        line.insert("parentUuid".into(), json!(self.uuid));
        line.insert("isSidechain".into(), json!(false));
        for key in SHARED {
            line.extend(self.last.get(key).map(|value| (key.to_owned(), value.clone())));
        }
        line.insert("type".into(), json!(kind));
        line.extend(said.iter().map(|(key, value)| ((*key).to_owned(), value.clone())));
        line.extend(facts.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        line.insert("uuid".into(), json!(uuid));
        line.insert("timestamp".into(), json!(self.addition.timestamp(place)));
        self.lines.push(Value::Object(line).to_string());
        self.uuid = Some(uuid);
    }
}
