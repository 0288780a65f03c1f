//! The records that Claude Code adds to a session itself: files, notes of its memory, lists of tools and
//! skills, output of hooks.

use forge_domain::Message;
use serde_json::{Map, Value};

use crate::flat_text::{IMAGE, is_image};
use crate::harness::RENEWED;

/// The author of attachments and other text that Claude Code itself adds.
pub(super) const BY: &str = "claude-code";

/// Kinds that Claude Code keeps for its own display, and never sends.
const NEVER_SENT: [&str; 13] = [
    "already_read_file",
    "autocheckpointing",
    "background_task_status",
    "command_permissions",
    "dynamic_skill",
    "edited_image_file",
    "hook_cancelled",
    "hook_error_during_execution",
    "hook_non_blocking_error",
    "hook_permission_decision",
    "hook_system_message",
    "max_turns_reached",
    "structured_output",
];

/// The kind of a hook that ended well: only its `content` is sent, which is empty if the hook printed JSON.
const HOOK_SUCCESS: &str = "hook_success";

/// Facts of an attachment that say nothing to the model.
const SILENT: [&str; 9] =
    ["type", "uuid", "id", "toolUseID", "tool_use_id", "timestamp", "durationMs", "exitCode", "displayPath"];

/// Returns the kind of the attachment in a record.
pub(super) fn kind(fields: &Map<String, Value>) -> Option<&str> {
    let is_attachment = fields.get("type").and_then(Value::as_str) == Some("attachment");
    let attachment = fields.get("attachment").filter(|_| is_attachment)?;
    Some(attachment.get("type").and_then(Value::as_str).unwrap_or("unknown"))
}

/// Checks whether a record's `origin` is anyone but the person at the keyboard.
pub(super) fn is_foreign(origin: Option<&Value>) -> bool {
    origin.and_then(|origin| origin.get("kind")).is_some_and(|kind| kind != "human")
}

/// Returns what the model sees of the attachment in a record: a message of the user's role that the user did
/// not write. Claude Code renders each kind in its own words; here it is the texts, under the name of the
/// kind. What the user typed during a turn is the user's. Returns nothing if the kind is never sent, or has
/// no text.
pub(super) fn message(fields: &Map<String, Value>) -> Option<Message> {
    let kind = kind(fields).filter(|kind| !NEVER_SENT.contains(kind))?;
    let attachment = fields.get("attachment")?;
    let mut texts = Vec::new();
    if kind == "queued_command" && is_typed(attachment) {
        say(attachment.get("prompt")?, &mut texts);
        return (!texts.is_empty()).then(|| Message::user(texts.join("\n")));
    }
    say(if kind == HOOK_SUCCESS { attachment.get("content")? } else { attachment }, &mut texts);
    if texts.is_empty() {
        return None;
    }
    let text = format!("<system-reminder>\n{kind}\n{}\n</system-reminder>", texts.join("\n"));
    let note = Message::note(BY, text);
    Some(if RENEWED.contains(&kind) { note.renewed() } else { note })
}

/// Checks whether the user typed a queued command, rather than a task that reports its end.
fn is_typed(queued: &Value) -> bool {
    let is_prompt = queued.get("commandMode").is_none_or(|mode| mode == "prompt");
    is_prompt && !is_foreign(queued.get("origin"))
}

/// Collects the texts in `value`, in order.
fn say(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) if !text.is_empty() => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| say(item, texts)),
        Value::Object(fields) if is_image(fields) => texts.push(IMAGE.to_owned()),
        Value::Object(fields) => {
            fields
                .iter()
                .filter(|(key, _)| !SILENT.contains(&key.as_str()))
                .for_each(|(_, field)| say(field, texts));
        }
        Value::String(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}
