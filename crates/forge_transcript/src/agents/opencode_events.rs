//! The events that opencode sends while it works, as a program logged them: each has a new state of a
//! session, of a message, or of a part of one.

use serde_json::{Value, json};

use crate::any_blocks::text_at;
use crate::codec::{Fields, LOOKED_AT, each_record};
use crate::json_text::parse;

/// The types of the events that show that a line is one.
const TYPES: [&str; 4] = ["session.created", "session.updated", "message.updated", "message.part.updated"];
/// The keys under which a line may have its event.
const WRAPPERS: [&str; 2] = ["event", "payload"];

/// Checks for an event, or for a line of a log that has one.
pub(super) fn is_event(line: &Fields<'_>) -> bool {
    let is_own = |event: &Fields<'_>| {
        event.get("properties").starts_with('{') && TYPES.contains(&event.text("type").as_str())
    };
    is_own(line) || WRAPPERS.iter().any(|key| is_own(&Fields::of(line.get(key))))
}

/// Checks whether a text is a log of events.
fn is_log(text: &str) -> bool {
    let mut is_found = false;
    for line in text.lines().take(LOOKED_AT) {
        each_record(line, &mut |record| is_found |= is_event(&Fields::of(record)));
    }
    is_found
}

/// Returns the sessions that a log of events adds up to, each in the form of an export, and the number of its
/// invalid lines; `None` if the text is no such log.
pub(super) fn sessions(text: &str) -> Option<(String, usize)> {
    if !is_log(text) {
        return None;
    }
    let mut log = Log::default();
    let mut skipped_lines = 0;
    for line in text.lines() {
        skipped_lines += each_record(line, &mut |record| log.add(&parse(record).unwrap_or_default()));
    }
    Some((log.export().to_string(), skipped_lines))
}

/// The sessions of a log, in the order of their first events.
#[derive(Default)]
struct Log(Vec<SessionState>);

/// The last state of a session.
#[derive(Default)]
struct SessionState {
    id: String,
    info: Value,
    messages: Vec<Said>,
}

/// The last state of a message.
#[derive(Default)]
struct Said {
    id: String,
    info: Value,
    parts: Vec<Value>,
}

impl Log {
    /// Adds a line of the log.
    fn add(&mut self, line: &Value) {
        let wrapped = WRAPPERS.iter().find_map(|key| line.get(key).filter(|event| event.is_object()));
        let event = wrapped.unwrap_or(line);
        let new = |at: &str| event.pointer(at).unwrap_or(&Value::Null);
        let text = |at: &str| text_at(event, at);
        match text("/type") {
            "session.created" | "session.updated" => {
                self.session(text("/properties/info/id")).info = new("/properties/info").clone();
            }
            "message.updated" => {
                let session = self.session(text("/properties/info/sessionID"));
                session.message(text("/properties/info/id")).info = new("/properties/info").clone();
            }
            "message.part.updated" => {
                let session = self.session(text("/properties/part/sessionID"));
                let parts = &mut session.message(text("/properties/part/messageID")).parts;
                let id = text("/properties/part/id");
                match parts.iter_mut().rev().find(|part| text_at(part, "/id") == id) {
                    Some(part) => *part = new("/properties/part").clone(),
                    None => parts.push(new("/properties/part").clone()),
                }
            }
            "message.part.delta" => {
                let message =
                    self.session(text("/properties/sessionID")).message(text("/properties/messageID"));
                let id = text("/properties/partID");
                let part = message.parts.iter_mut().rev().find(|part| text_at(part, "/id") == id);
                let field = part.and_then(|part| part.get_mut(text("/properties/field")));
                if let Some(Value::String(field)) = field {
                    field.push_str(text("/properties/delta"));
                }
            }
            "message.part.removed" => {
                let message =
                    self.session(text("/properties/sessionID")).message(text("/properties/messageID"));
                message.parts.retain(|part| text_at(part, "/id") != text("/properties/partID"));
            }
            "message.removed" => {
                let session = self.session(text("/properties/sessionID"));
                session.messages.retain(|message| message.id != text("/properties/messageID"));
            }
            _ => {}
        }
    }

    /// Returns the session of that id, which may be new.
    fn session(&mut self, id: &str) -> &mut SessionState {
        let at = self.0.iter().rposition(|session| session.id == id).unwrap_or_else(|| {
            self.0.push(SessionState { id: id.to_owned(), ..SessionState::default() });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    /// Returns the sessions that have messages as one document. Those of sub-agents are no part of the
    /// context of the agent that called them; they count only if there are no others.
    fn export(&self) -> Value {
        // Events of other sessions, such as a new title, are in the same log.
        let has_messages = |session: &&SessionState| !session.id.is_empty() && !session.messages.is_empty();
        let sessions: Vec<&SessionState> = self.0.iter().filter(has_messages).collect();
        let is_root = |session: &&SessionState| session.info.get("parentID").is_none_or(Value::is_null);
        let roots: Vec<&SessionState> = sessions.iter().copied().filter(is_root).collect();
        let counted = if roots.is_empty() { sessions } else { roots };
        json!({"sessions": counted.into_iter().map(SessionState::export).collect::<Vec<_>>()})
    }
}

impl SessionState {
    /// Returns the message of that id, which may be new.
    fn message(&mut self, id: &str) -> &mut Said {
        let at = self.messages.iter().rposition(|message| message.id == id).unwrap_or_else(|| {
            self.messages.push(Said { id: id.to_owned(), ..Said::default() });
            self.messages.len() - 1
        });
        &mut self.messages[at]
    }

    fn export(&self) -> Value {
        let said = |message: &Said| json!({"info": message.info, "parts": message.parts});
        let info = if self.info.is_null() { json!({"id": self.id}) } else { self.info.clone() };
        json!({"info": info, "messages": self.messages.iter().map(said).collect::<Vec<_>>()})
    }
}
