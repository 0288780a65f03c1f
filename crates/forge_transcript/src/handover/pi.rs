//! A new session of pi.

use std::borrow::Cow;

use forge_domain::Message;
use serde_json::{Map, Value, json};

use super::new_session::{NewLines, NewSession};
use crate::agents::pi_message;
use crate::author_mark::with_author;

/// The version of pi's form.
const VERSION: u32 = 3;
/// The type of an entry with text that is neither the user's nor the model's.
const NOTE: &str = "custom_message";

/// Returns the path below pi's folder.
pub(super) fn path(new: &NewSession<'_>) -> String {
    let folder = new.folder.trim_start_matches(['/', '\\']).replace(['/', '\\', ':'], "-");
    format!("sessions/--{folder}--/{}_{}.jsonl", new.time_in_names("%Y-%m-%dT%H-%M-%S-000Z"), new.id)
}

/// Returns the header, and an entry for each message, each hanging on the one before.
pub(super) fn lines(new: &NewSession<'_>) -> NewLines {
    let header = json!({
        "type": "session", "version": VERSION, "id": new.id, "timestamp": new.timestamp(0), "cwd": new.folder,
    });
    let mut lines = NewLines::default();
    lines.push(&header);
    // Ids of eight digits that were drawn for each entry would meet in a long session.
    let first = u32::from_str_radix(&new.uuid(0)[..8], 16).unwrap_or_default();
    let ids = (0..).map(|place: u32| format!("{:08x}", first.wrapping_add(place)));
    let mut parent = Value::Null;
    for ((place, message), id) in new.messages.iter().enumerate().zip(ids) {
        let mut entry =
            json!({"type": "message", "id": id, "parentId": parent, "timestamp": new.timestamp(place + 1)});
        match message.note_by() {
            // The model reads it like the user's words, and it is not shown as such.
            Some(by) => {
                entry["type"] = json!(NOTE);
                entry["customType"] = json!(by);
                entry["content"] = json!(message.to_text());
                entry["display"] = json!(false);
            }
            None => {
                entry["message"] = dated_message(new, place, &with_author(Cow::Borrowed(message)));
            }
        }
        lines.push(&entry);
        parent = json!(id);
    }
    lines
}

fn dated_message(new: &NewSession<'_>, place: usize, message: &Message) -> Value {
    let at = new.now.as_millisecond().saturating_add(i64::try_from(place).unwrap_or_default());
    pi_message(message, Map::new(), json!(at))
}
