//! The shape of a session: which lines are records, and their places in the tree.

use forge_wire::WireError;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::branch::{Branch, Kind, Node, Parent, active_branch};
use super::queue::{Queue, queued};
use crate::arguments::fields;
use crate::codec::{file_name, value_of};
use crate::id_digest::IdDigest;
use crate::json_text::parse;
use crate::{TranscriptError, foreign};

/// The facts that have to be known of all lines before the first can be read: the active branch.
#[derive(Default)]
pub(super) struct Shape {
    /// The place of each record in the tree.
    pub(super) nodes: Vec<Node>,
    /// The name of the session: that of the last message, as a file may begin with records of another.
    pub(super) id: Option<String>,
    /// Lines that are no record.
    pub(super) skipped_lines: usize,
    /// The words that the user typed while the agent worked.
    pub(super) queue: Queue,
    /// True if any record is one that only Claude Code writes.
    pub(super) is_own: bool,
}

impl Shape {
    /// Looks at a value on line `n` of the file, counted from one. Returns whether it is a record.
    pub(super) fn look(&mut self, line: &str, n: usize, origin: &str) -> Result<bool, TranscriptError> {
        let Ok(fields) = parse::<Map<String, Value>>(line) else {
            self.skipped_lines += 1;
            return Ok(false);
        };
        is_readable(&fields).map_err(|source| unreadable(n, &fields, origin, source))?;
        self.is_own |= is_own(&fields);
        let node = node(&fields);
        self.name(&fields, node.kind);
        self.queue.look(&fields, self.nodes.len());
        self.nodes.push(node);
        Ok(true)
    }

    /// Returns the active branch, with what was typed during its turns.
    pub(super) fn branch(&self) -> Branch {
        let mut branch = active_branch(&self.nodes);
        self.queue.heard().for_each(|heard| branch.hear(heard, &self.nodes));
        branch
    }

    /// Takes the name of the session from a record of `kind`, if it knows better.
    fn name(&mut self, fields: &Map<String, Value>, kind: Kind) {
        let is_message = matches!(kind, Kind::User | Kind::Assistant);
        let id = fields.get("sessionId").and_then(Value::as_str);
        if let Some(id) = id.filter(|_| is_message || self.id.is_none())
            && self.id.as_deref() != Some(id)
        {
            self.id = Some(id.to_owned());
        }
    }
}

/// Checks whether a record of type `kind` is one of Claude Code's.
fn is_own_record(kind: &str, has_message: bool, has_session: bool, has_leaf: bool) -> bool {
    match kind {
        "user" | "assistant" => has_message,
        "summary" => has_leaf || has_session,
        "system"
        | "attachment"
        | "progress"
        | "queue-operation"
        | "mode"
        | "permission-mode"
        | "last-prompt"
        | "pr-link"
        | "custom-title"
        | "ai-title"
        | "agent-name"
        | "agent-color"
        | "agent-setting"
        | "tag"
        | "task-summary"
        | "continued-in"
        | "worktree-state"
        | "content-replacement"
        | "file-history-snapshot"
        | "file-history-delta" => has_session,
        _ => false,
    }
}

fn is_own(fields: &Map<String, Value>) -> bool {
    let has = |key: &str| fields.contains_key(key);
    let has_message = fields.get("message").is_some_and(Value::is_object);
    let kind = fields.get("type").and_then(Value::as_str);
    kind.is_some_and(|kind| is_own_record(kind, has_message, has("sessionId"), has("leafUuid")))
}

/// Checks whether a file that is one JSON object is a record of Claude Code's, and no request.
pub(super) fn is_own_object(fields: &[(String, &RawValue)]) -> bool {
    let value = |key: &str| value_of(fields, key);
    let kind = value("type").and_then(|kind| serde_json::from_str::<&str>(kind).ok());
    let has_message = value("message").is_some_and(|message| message.starts_with('{'));
    value("messages").is_none()
        && kind.is_some_and(|kind| {
            is_own_record(kind, has_message, value("sessionId").is_some(), value("leafUuid").is_some())
        })
}

/// Checks whether a line is a record of Claude Code's.
pub(super) fn is_own_line(line: &str) -> bool {
    fields(line).is_some_and(|fields| is_own_object(&fields))
}

/// Refuses a record that claims to be a message and has another form: its texts would be lost silently.
fn is_readable(fields: &Map<String, Value>) -> Result<(), WireError> {
    let shape = |at: &str, what: &str| Err(WireError::Shape { at: at.to_owned(), what: what.to_owned() });
    if !matches!(fields.get("type").and_then(Value::as_str), Some("user" | "assistant")) {
        return Ok(());
    }
    match fields.get("message") {
        Some(Value::Object(message)) => match message.get("content") {
            Some(Value::String(_) | Value::Array(_) | Value::Null) => Ok(()),
            Some(_) => shape("message.content", "must be a string or a list of blocks"),
            None => shape("message.content", "is missing"),
        },
        Some(_) => shape("message", "must be an object"),
        None => shape("message", "is missing"),
    }
}

fn unreadable(n: usize, fields: &Map<String, Value>, origin: &str, source: WireError) -> TranscriptError {
    let message = fields.get("message").and_then(Value::as_object);
    match message.and_then(foreign::of_record) {
        Some(foreign) => TranscriptError::foreign(origin, foreign, format!("line {n}: {source}")),
        None => TranscriptError::Record { origin: origin.to_owned(), agent: "Claude Code", line: n, source },
    }
}

/// Returns the name of a session whose records have none.
pub(super) fn file_stem(origin: &str) -> &str {
    let name = file_name(origin);
    name.strip_suffix(".jsonl").unwrap_or(name)
}

/// Returns a record's place in the tree.
pub(super) fn node(fields: &Map<String, Value>) -> Node {
    let message = fields.get("message").filter(|message| message.is_object());
    let kind = match (fields.get("type").and_then(Value::as_str), message) {
        (Some("user"), Some(_)) => Kind::User,
        (Some("assistant"), Some(_)) => Kind::Assistant,
        (Some("attachment"), _) if fields.get("attachment").is_some_and(Value::is_object) => Kind::Attachment,
        (Some("progress"), _) => Kind::Progress,
        _ if queued(fields).is_some() => Kind::Queued,
        _ => Kind::Other,
    };
    // A compaction starts a new tree; a separate field names the record that it continues.
    let boundary = fields.get("subtype").and_then(Value::as_str) == Some("compact_boundary");
    let parent = match fields.get(if boundary { "logicalParentUuid" } else { "parentUuid" }) {
        Some(Value::String(uuid)) => Parent::Named(IdDigest::of(uuid)),
        Some(Value::Null) if !boundary => Parent::Root,
        _ => Parent::Unknown,
    };
    let blocks = message.and_then(|message| message.get("content")?.as_array()).map(Vec::as_slice);
    let is_result = |block: &Value| block.get("type").and_then(Value::as_str).is_some_and(is_result_kind);
    Node {
        kind,
        uuid: fields.get("uuid").and_then(Value::as_str).map(IdDigest::of),
        parent,
        is_sidechain: fields.get("isSidechain") == Some(&Value::Bool(true)),
        reply: reply_id(fields).map(IdDigest::of),
        has_results: blocks.unwrap_or_default().iter().any(is_result),
    }
}

/// Returns the id of the provider's reply that a record is a piece of.
pub(super) fn reply_id(fields: &Map<String, Value>) -> Option<&str> {
    fields.get("message")?.get("id")?.as_str()
}

/// Checks whether blocks of this kind answer a call.
pub(super) fn is_result_kind(kind: &str) -> bool {
    kind.ends_with("tool_result")
}
