//! Sessions of opencode, as it exports them: messages with parts, a tool's call and its result in one part.

use std::borrow::Cow;

use forge_domain::{Message, Role};
use serde_json::{Value, json};

use super::exit_code::with_exit_code;
use super::opencode_events::{is_event, sessions};
use crate::any_blocks::{messages_of, role_of, text_at};
use crate::codec::{Effect, EntryFormat, Evidence, Fields, Listing, Trace, Window};
use crate::format::FormatFacts;
use crate::json_text::parse;
use crate::{Record, RecordedCompaction};

/// The author of what opencode itself adds.
const BY: &str = "opencode";
/// The text that opencode sends for a result that it cleared.
const CLEARED: &str = "[Old tool result content cleared]";

/// Exported sessions of opencode, and logs of its events, which add up to such an export.
pub(super) struct OpenCode;

impl EntryFormat for OpenCode {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "opencode",
        name: "opencode sessions",
        description: "{\"info\", \"messages\": [{\"info\", \"parts\"}]}, or JSONL of its events",
        protocol: None,
    };
    const IS_LINES: bool = false;
    // A request for a compaction and its summary have no word in common.
    const COMPACTION: &'static str = "\"";
    const FOLDS: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |message: &Fields<'_>| message.has(&["info"]) && message.has_list("parts");
        let of_document = |document: &Fields<'_>| {
            let messages = document.items("messages");
            let is_first = messages.first().is_some_and(|message| is_own(&Fields::of(message.get())));
            let info = Fields::of(document.get("info"));
            let is_empty = document.has_list("messages") && messages.is_empty();
            is_first || (is_empty && info.text("id").starts_with("ses_"))
        };
        evidence.document().is_some_and(of_document)
            || evidence.list().first().is_some_and(is_own)
            || evidence.lines().iter().any(is_event)
    }

    fn document(text: &str) -> (Cow<'_, str>, usize) {
        match sessions(text) {
            Some((document, skipped_lines)) => (Cow::Owned(document), skipped_lines),
            None => (Cow::Borrowed(text), 0),
        }
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        if text.trim_start().starts_with('[') {
            return Ok(vec![Listing::of_list(text)?]);
        }
        let file = Fields::of(text);
        let sessions = file.items("sessions");
        if sessions.is_empty() {
            return Ok(vec![listing(&file)]);
        }
        Ok(sessions.into_iter().map(|session| listing(&Fields::of(session.get()))).collect())
    }

    fn messages(entry: &Value) -> Vec<Message> {
        let parts = entry.get("parts").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        match role_of(text_at(entry, "/info/role")) {
            Some(Role::User) => parts.iter().flat_map(user_messages).collect(),
            Some(role) if !is_failed(entry, parts) => {
                let mut messages = Vec::new();
                for step in parts.split(|part| text_at(part, "/type") == "step-start") {
                    let blocks: Vec<Value> = step.iter().flat_map(part_blocks).collect();
                    messages.extend(messages_of(role, &Value::Array(blocks)));
                }
                let is_made = is_summary(entry);
                messages.into_iter().map(|one| if is_made { one.compacted() } else { one }).collect()
            }
            _ => Vec::new(),
        }
    }

    /// Returns the id of a message. The facts of the session may tell that the messages from one on were
    /// taken back.
    fn trace(entry: &Value) -> Trace {
        let id = entry.pointer("/info/id").and_then(Value::as_str).map(Box::from);
        let back = entry.pointer("/revert/messageID").and_then(Value::as_str);
        // A part that was taken back leaves the message.
        let back = back.filter(|_| entry.pointer("/revert/partID").is_none_or(Value::is_null));
        let effect = back.map_or(Effect::None, |id| Effect::RewindsTo(id.into()));
        Trace { id, effect, ..Trace::default() }
    }

    fn compaction(entry: &Value) -> Option<RecordedCompaction> {
        is_summary(entry).then(RecordedCompaction::default)
    }

    fn is_summary(entry: &Value) -> bool {
        is_summary(entry) || compaction_part(entry).is_some()
    }

    /// Returns the request for the last summary and all that follows; before them, the messages that it kept.
    fn folded_window(records: &[Record], compactions: &[RecordedCompaction]) -> Window {
        let Some(last) = compactions.last() else { return Window::default() };
        let entry = |place: usize| parse::<Value>(records[place].raw()).unwrap_or_default();
        let place_of =
            |id: &str| (0..last.record).rev().find(|place| text_at(&entry(*place), "/info/id") == id);
        let summary = entry(last.record);
        let Some(request) = place_of(text_at(&summary, "/info/parentID")) else {
            return Window::from(last.record);
        };
        let asked = entry(request);
        let kept = compaction_part(&asked).and_then(|part| place_of(text_at(part, "/tail_start_id")));
        Window::from(kept.unwrap_or(request))
    }
}

/// Lists the messages of an exported session.
fn listing<'a>(file: &Fields<'a>) -> Listing<'a> {
    // The facts of the session are last, since they tell what was taken back.
    let listing = Listing::of_keys(file, &["messages", "info"]);
    let id = Fields::of(file.get("info")).text("id");
    if id.is_empty() { listing } else { listing.named(id) }
}

/// Checks whether a message is the complete summary of a compaction.
fn is_summary(entry: &Value) -> bool {
    let has = |at: &str| entry.pointer(at).is_some_and(|value| !value.is_null());
    let is_open =
        entry.pointer("/info/time/created").is_some() && !has("/info/finish") && !has("/info/time/completed");
    entry.pointer("/info/summary") == Some(&Value::Bool(true)) && !has("/info/error") && !is_open
}

/// Returns the part of a user message that asks for a compaction.
fn compaction_part(entry: &Value) -> Option<&Value> {
    let parts = entry.get("parts").and_then(Value::as_array)?;
    parts.iter().find(|part| text_at(part, "/type") == "compaction")
}

/// Checks whether a reply failed. It is then never sent again, unless it was only interrupted.
fn is_failed(entry: &Value, parts: &[Value]) -> bool {
    let Some(error) = entry.pointer("/info/error").filter(|error| !error.is_null()) else { return false };
    let is_said = |part: &Value| !matches!(text_at(part, "/type"), "step-start" | "reasoning");
    !(text_at(error, "/name") == "MessageAbortedError" && parts.iter().any(is_said))
}

/// Returns what opencode sends for a part of a user message.
fn user_messages(part: &Value) -> Vec<Message> {
    let is_true = |key: &str| part.get(key) == Some(&Value::Bool(true));
    let note = |text: &str| vec![Message::note(BY, text)];
    match text_at(part, "/type") {
        "text" if is_true("ignored") => Vec::new(),
        "text" if is_true("synthetic") => note(text_at(part, "/text")),
        // The contents of such files are texts beside them.
        "file" if matches!(text_at(part, "/mime"), "text/plain" | "application/x-directory") => Vec::new(),
        "text" | "file" => messages_of(Role::User, &Value::Array(vec![part.clone()])),
        "compaction" => note("What did we do so far?"),
        "subtask" => note("The following tool was executed by the user"),
        _ => Vec::new(),
    }
}

/// Returns a part of a reply as blocks: a tool's part is its call and its result.
fn part_blocks(part: &Value) -> Vec<Value> {
    match text_at(part, "/type") {
        "tool" => {
            let id = part.get("callID");
            let call = json!({"type": "tool-call", "toolCallId": id, "toolName": part.get("tool"),
                "input": part.pointer("/state/input")});
            std::iter::once(call).chain(answer(part, id)).collect()
        }
        "text" | "reasoning" | "file" => vec![part.clone()],
        _ => Vec::new(),
    }
}

/// Returns the block of a tool's result; `None` if it has none yet.
fn answer(part: &Value, id: Option<&Value>) -> Option<Value> {
    let state = part.get("state")?;
    let said =
        |text: &Value| Some(json!({"type": "tool-result", "toolCallId": id, "output": {"content": text}}));
    if state.pointer("/time/compacted").is_some_and(|at| !at.is_null()) {
        return said(&json!(CLEARED));
    }
    let interrupted = state.pointer("/metadata/interrupted") == Some(&Value::Bool(true));
    let output = state.get("output").or_else(|| state.pointer("/metadata/output").filter(|_| interrupted));
    let Some(output) = output else {
        let error = state.get("error")?;
        return Some(json!({"type": "tool-error", "toolCallId": id, "error": error}));
    };
    let code = state.pointer("/metadata/exit").and_then(Value::as_i64);
    let stated = code.zip(output.as_str()).map(|(code, output)| json!(with_exit_code(code, output)));
    let output = stated.as_ref().unwrap_or(output);
    match state.get("attachments").and_then(Value::as_array).filter(|files| !files.is_empty()) {
        None => said(output),
        Some(files) => {
            let mut blocks = vec![json!({"type": "text", "text": output})];
            blocks.extend(files.iter().cloned());
            said(&Value::Array(blocks))
        }
    }
}
