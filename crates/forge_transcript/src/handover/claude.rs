//! A new session of Claude Code.

use forge_domain::{Message, Role};
use forge_wire::anthropic::entry_blocks;
use serde_json::{Value, json};

use super::new_session::{NewLines, NewSession};
use crate::claude_code::reply::reply_message;

/// The version of Claude Code whose form is written.
const VERSION: &str = "2.1.197";

/// Returns the path below Claude Code's folder: the project's folder has its path with dashes as its name.
pub(super) fn path(new: &NewSession<'_>) -> String {
    let project: String =
        new.folder.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    format!("projects/{project}/{}.jsonl", new.id)
}

/// Returns a line for each message, each hanging on the one before.
pub(super) fn lines(new: &NewSession<'_>) -> NewLines {
    let mut parent = Value::Null;
    let mut lines = NewLines::default();
    for (place, message) in new.messages.iter().enumerate() {
        let uuid = new.uuid(place);
        let role = if message.role() == Role::Assistant { "assistant" } else { "user" };
        let mut line = json!({
            "parentUuid": parent,
            "isSidechain": false,
            "userType": "external",
            "cwd": new.folder,
            "sessionId": new.id,
            "version": VERSION,
            "gitBranch": "",
            "type": role,
            "message": body(new, place, message),
            "uuid": uuid,
            "timestamp": new.timestamp(place),
        });
        if role == "user" && (message.note_by().is_some() || message.is_compacted) {
            line["isMeta"] = json!(true);
        }
        lines.push(&line);
        parent = json!(uuid);
    }
    lines
}

fn body(new: &NewSession<'_>, place: usize, message: &Message) -> Value {
    // Only system messages and media have no form, and a session that is handed over has neither.
    let (role, blocks) = entry_blocks(message)
        .unwrap_or_else(|_| ("user", vec![json!({"type": "text", "text": message.to_text()})]));
    if role == "user" {
        return json!({"role": role, "content": blocks});
    }
    reply_message(new.model.as_deref().map(Value::from), &new.uuid(place), &blocks)
}
