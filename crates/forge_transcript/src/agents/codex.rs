//! Rollouts of Codex: a record a line, of which the response items are what the model saw.

use forge_domain::Message;
use serde_json::Value;

use super::codex_item::{item_messages, reply_groups};
use crate::any_blocks::{items, text_at};
use crate::codec::{Addition, Effect, EntryFormat, Evidence, Fields, Revision, Trace};
use crate::format::FormatFacts;
use crate::{RecordedCompaction, RewriteError};

/// The format of Codex.
pub(super) struct Codex;

impl EntryFormat for Codex {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "codex",
        name: "Codex rollouts",
        description: "JSONL or a list of {\"type\", \"payload\"}",
        protocol: None,
    };
    const COMPACTION: &'static str = "\"compacted\"";
    const JOINS_REPLIES: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        // A list of plain objects has more meanings than a file of such lines.
        evidence.lines().iter().any(is_own) || evidence.list().iter().any(is_record)
    }

    fn messages(record: &Value) -> Vec<Message> {
        let payload = record.get("payload");
        match (text_at(record, "/type"), payload) {
            ("session_meta", Some(meta)) => instructions(meta),
            ("response_item", Some(item)) => item_messages(item),
            ("compacted", Some(compacted)) => compacted_messages(compacted),
            (_, Some(_)) => Vec::new(),
            // Until August 2025 the lines were the items themselves, after one with the session's facts.
            (_, None) if record.get("instructions").is_some() => instructions(record),
            (_, None) => item_messages(record),
        }
    }

    fn session_id(record: &Value) -> Option<String> {
        let meta = record.get("payload").unwrap_or(record);
        meta.get("id").filter(|_| is_meta(record)).and_then(Value::as_str).map(str::to_owned)
    }

    fn write(revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        Err(revision.refuse_rewriting())
    }

    fn append(addition: &Addition<'_>) -> Result<Vec<String>, RewriteError> {
        super::codex_append::lines(addition)
    }

    fn trace(record: &Value) -> Trace {
        // A fork and a sub-agent write their parent's facts after their own. Only the first ones count.
        if is_meta(record) {
            let meta = record.get("payload").unwrap_or(record);
            return Trace {
                id: Some("session_meta".into()),
                hidden_by: rules_id(instruction_text(meta)),
                effect: Effect::Repeats,
                ..Trace::default()
            };
        }
        let turns = record.pointer("/payload/num_turns").and_then(Value::as_u64);
        let is_back = text_at(record, "/payload/type") == "thread_rolled_back";
        let effect = match turns.filter(|_| is_back) {
            Some(turns) => Effect::DropsTurns(usize::try_from(turns).unwrap_or(usize::MAX)),
            None => Effect::None,
        };
        let is_turn = text_at(record, "/payload/role") == "user"
            && Self::messages(record)
                .iter()
                .any(|message| crate::written::split(message.clone()).iter().any(Message::starts_turn));
        let id = told_rules(record.get("payload").unwrap_or(record)).and_then(rules_id);
        Trace { id, effect, is_turn, ..Trace::default() }
    }

    fn compaction(record: &Value) -> Option<RecordedCompaction> {
        (text_at(record, "/type") == "compacted").then(RecordedCompaction::default)
    }

    fn is_standing(record: &str) -> bool {
        record.contains("\"session_meta\"") && Fields::of(record).text("type") == "session_meta"
    }
}

/// Checks for a record in the form that Codex writes since August 2025.
fn is_record(line: &Fields<'_>) -> bool {
    const TYPES: [&str; 6] =
        ["session_meta", "response_item", "event_msg", "turn_context", "compacted", "world_state"];
    line.has(&["payload"]) && TYPES.contains(&line.text("type").as_str())
}

fn is_own(line: &Fields<'_>) -> bool {
    is_record(line)
        || (line.has(&["id", "timestamp"]) && !line.get("instructions").is_empty() && !line.has(&["type"]))
        || line.text("record_type") == "state"
}

/// Checks whether a record has the facts of a session.
fn is_meta(record: &Value) -> bool {
    text_at(record, "/type") == "session_meta" || record.get("instructions").is_some()
}

/// Returns the instructions that the model had from the start.
fn instructions(meta: &Value) -> Vec<Message> {
    let said = instruction_text(meta);
    if said.is_empty() { Vec::new() } else { vec![Message::system(said)] }
}

fn instruction_text(meta: &Value) -> &str {
    let said = ["/base_instructions/text", "/instructions"].map(|at| text_at(meta, at));
    said.into_iter().find(|said| !said.is_empty()).unwrap_or_default()
}

/// The tags around the rules of a project, which Codex sends as a message of the user.
const RULES: [[&str; 2]; 2] =
    [["<user_instructions>", "</user_instructions>"], ["<INSTRUCTIONS>", "</INSTRUCTIONS>"]];

/// Returns the rules of a project that a message tells.
fn told_rules(message: &Value) -> Option<&str> {
    let mut texts = items(message, "content").iter().map(|part| text_at(part, "/text"));
    texts.find_map(|text| RULES.iter().find_map(|tags| between(text, *tags)))
}

fn between<'t>(text: &'t str, [start, end]: [&str; 2]) -> Option<&'t str> {
    let (_, rest) = text.split_once(start)?;
    rest.rsplit_once(end).map(|(between, _)| between)
}

/// Returns the id of the message that tells these rules. Older versions of Codex keep them as the
/// instructions of the session as well, and send them once.
fn rules_id(rules: &str) -> Option<Box<str>> {
    let rules = rules.trim();
    (!rules.is_empty()).then(|| format!("rules {rules}").into_boxed_str())
}

/// Returns what a compaction put in place of the history: its items, and its summary.
fn compacted_messages(compacted: &Value) -> Vec<Message> {
    let items = compacted.get("replacement_history").and_then(Value::as_array);
    let groups = reply_groups(items.into_iter().flatten());
    let mut messages: Vec<Message> = groups.into_iter().flat_map(|(_, messages)| messages).collect();
    let summary = text_at(compacted, "/message");
    let is_said = messages.iter().any(|message| message.to_text().contains(summary));
    if !summary.is_empty() && !is_said {
        messages.push(Message::user(summary).compacted());
    }
    messages
}
