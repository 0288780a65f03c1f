//! Failure logs of teams of agents, as the data set Who&When has them: a history of who said what.

use forge_domain::{Message, Role, said_by};
use serde_json::Value;

use crate::any_blocks::{messages_of, text_at};
use crate::codec::{EntryFormat, Evidence, Fields, Listing};
use crate::format::FormatFacts;

/// The author of what a terminal printed.
const TERMINAL: &str = "terminal";

/// The format of Who&When.
pub(super) struct WhoAndWhen;

impl EntryFormat for WhoAndWhen {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "who-and-when",
        name: "Who&When failure logs",
        description: "{\"question\", \"history\": [{\"role\", \"content\"}], \"mistake_agent\"}",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        evidence
            .document()
            .is_some_and(|log| log.has_list("history") && log.has(&["question", "mistake_agent"]))
    }

    /// Finds the history. The question comes first, unless a person asks it there.
    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let log = Fields::of(text);
        let first = log.items("history").first().map(|first| Fields::of(first.get()));
        let is_asked = first.is_some_and(|first| is_persons(&first.text("role"), &first.text("name")));
        let keys = if is_asked { &["history"][..] } else { &["question", "history"] };
        Ok(vec![Listing::of_keys(&log, keys)])
    }

    fn messages(entry: &Value) -> Vec<Message> {
        let (role, name) = (text_at(entry, "/role"), text_at(entry, "/name"));
        let speaker = if name.is_empty() { role } else { name };
        let said = entry.get("content").unwrap_or(entry);
        if entry.is_string() || is_persons(role, name) {
            return messages_of(Role::User, said);
        }
        let messages = messages_of(Role::Assistant, said);
        if speaker.to_lowercase().contains(TERMINAL) {
            return messages.iter().map(|printed| Message::note(TERMINAL, printed.to_text())).collect();
        }
        messages.into_iter().map(|message| said_by(message, speaker)).collect()
    }
}

/// Checks whether a person speaks: an agent has a name of its own.
fn is_persons(role: &str, name: &str) -> bool {
    matches!(role, "human" | "user") && name.is_empty()
}
