//! Sessions of Gemini CLI: a log of messages that are written again when they change, or one document.

use forge_domain::{Content, Message, Role};
use serde_json::Value;

use crate::RecordedCompaction;
use crate::any_blocks::{answer, call, content_of, messages_of, reply, text_at};
use crate::codec::{Effect, EntryFormat, Evidence, Fields, Listing, Trace};
use crate::format::FormatFacts;

/// The tag around the summary of a compressed history.
const SNAPSHOT: &str = "<state_snapshot>";

/// The format of Gemini CLI.
pub(super) struct GeminiCli;

impl EntryFormat for GeminiCli {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "gemini-cli",
        name: "Gemini CLI sessions",
        description: "{\"sessionId\", \"projectHash\", \"messages\"}, or JSONL",
        protocol: None,
    };

    const COMPACTION: &'static str = SNAPSHOT;

    fn detect(evidence: &Evidence<'_>) -> bool {
        evidence.lines().iter().any(|line| line.has(&["sessionId", "projectHash"]))
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let document = Fields::of(text);
        if !document.has_list("messages") {
            return Ok(vec![Listing::lines(text)]);
        }
        Ok(vec![Listing::of_keys(&document, &["messages"]).named(document.text("sessionId"))])
    }

    fn messages(entry: &Value) -> Vec<Message> {
        if let Some(all) = entry.pointer("/$set/messages").and_then(Value::as_array) {
            return all.iter().flat_map(Self::messages).map(marked).collect();
        }
        let said = entry.get("content").unwrap_or(&Value::Null);
        match text_at(entry, "/type") {
            "user" => messages_of(Role::User, said),
            "gemini" => reply_messages(entry, content_of(said)),
            // The others are for the user's eyes.
            _ => Vec::new(),
        }
    }

    fn session_id(entry: &Value) -> Option<String> {
        entry.get("projectHash").and(entry.get("sessionId")).and_then(Value::as_str).map(str::to_owned)
    }

    fn trace(entry: &Value) -> Trace {
        let id = entry.get("id").and_then(Value::as_str);
        let effect = match entry.get("$rewindTo").and_then(Value::as_str) {
            Some(id) => Effect::RewindsTo(id.into()),
            // The compressed messages stay in the log.
            None if is_compression(entry) => {
                return Trace { id: Some("$set".into()), ..Trace::default() };
            }
            None if entry.pointer("/$set/messages").is_some() => Effect::Resets,
            None if id.is_some() => Effect::Updates,
            None => Effect::None,
        };
        // A message without an id counts as well when it is asked which messages come before which.
        let id = id.or_else(|| entry.get("type").and_then(Value::as_str)).map(Box::from);
        Trace { id, effect, ..Trace::default() }
    }

    fn compaction(entry: &Value) -> Option<RecordedCompaction> {
        is_compression(entry).then(RecordedCompaction::default)
    }
}

/// Returns a message of a replaced history, marked as made by a compaction if it is the summary.
fn marked(message: Message) -> Message {
    let is_summary = message.role() == Role::User && message.to_text().contains(SNAPSHOT);
    if is_summary { message.compacted() } else { message }
}

/// Checks whether an entry puts a compressed history in place of the one before.
fn is_compression(entry: &Value) -> bool {
    let messages = entry.pointer("/$set/messages").and_then(Value::as_array);
    let is_summary = |message: &&Value| {
        let parts = messages_of(Role::User, message.get("content").unwrap_or(&Value::Null));
        parts.iter().any(|part| part.to_text().contains(SNAPSHOT))
    };
    messages.is_some_and(|messages| messages.iter().take(3).any(|message| is_summary(&message)))
}

/// Returns a reply, and the results of its calls, which are in one entry.
fn reply_messages(entry: &Value, said: Content) -> Vec<Message> {
    let calls = entry.get("toolCalls").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let id = |of: &Value| text_at(of, "/id").to_owned();
    let made = calls
        .iter()
        .map(|made| call(&id(made), text_at(made, "/name"), made.get("args").unwrap_or(&Value::Null)));
    let mut messages: Vec<Message> = reply(said, made.collect(), 0).into_iter().collect();
    for made in calls {
        let result = made.get("result").filter(|result| !result.is_null());
        let parts = result.into_iter().flat_map(|result| messages_of(Role::User, result));
        let is_failed = matches!(text_at(made, "/status"), "error" | "cancelled");
        let texts: Vec<String> = parts.map(|part| part.to_text()).collect();
        if result.is_some() {
            messages.push(answer(&id(made), &Value::String(texts.join("\n")), is_failed));
        }
    }
    messages
}
