//! A new rollout of Codex.

use std::borrow::Cow;

use forge_domain::{Body, Message};
use serde_json::{Value, json};

use super::new_session::{NewLines, NewSession};
use crate::agents::codex_items;
use crate::author_mark::with_author;

/// The version of Codex whose form is written.
const VERSION: &str = "0.169.0";

/// Returns the path below Codex's folder.
pub(super) fn path(new: &NewSession<'_>) -> String {
    format!("sessions/{}-{}.jsonl", new.time_in_names("%Y/%m/%d/rollout-%Y-%m-%dT%H-%M-%S"), new.id)
}

/// Returns the facts of the session, and the items of each message. What Codex shows when it resumes a
/// session are events beside the items.
pub(super) fn lines(new: &NewSession<'_>) -> NewLines {
    let mut lines = Lines { new, lines: NewLines::default() };
    let mut meta = json!({
        "id": new.id,
        "timestamp": new.timestamp(0),
        "cwd": new.folder,
        "originator": "forge",
        "cli_version": VERSION,
        "source": "cli",
    });
    if let Some(model) = &new.model {
        meta["model"] = json!(model);
    }
    lines.push("session_meta", &meta);
    for message in new.messages {
        lines.message(&with_author(Cow::Borrowed(message)));
    }
    lines.lines
}

struct Lines<'a> {
    new: &'a NewSession<'a>,
    lines: NewLines,
}

impl Lines<'_> {
    fn push(&mut self, kind: &str, payload: &Value) {
        let timestamp = self.new.timestamp(self.lines.len());
        self.lines.push(&json!({"timestamp": timestamp, "type": kind, "payload": payload}));
    }

    fn message(&mut self, message: &Message) {
        for item in codex_items(message) {
            self.push("response_item", &item);
        }
        let text = message.to_text();
        match &message.body {
            Body::User(_) if message.starts_turn() => {
                self.push("event_msg", &json!({"type": "user_message", "message": text, "images": []}));
            }
            Body::Assistant { .. } if !text.is_empty() => {
                self.push("event_msg", &json!({"type": "agent_message", "message": text}));
            }
            _ => {}
        }
    }
}
