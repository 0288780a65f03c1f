//! Events of Claude Managed Agents, as the API lists them, or as a program logged them.

use forge_domain::{Message, Role};
use serde_json::Value;

use crate::any_blocks::{answer, call, messages_of, reply, text_at, word};
use crate::codec::{EntryFormat, Evidence, Fields, LOOKED_AT, Listing};
use crate::format::FormatFacts;

/// The author of what the service itself adds.
const BY: &str = "managed agents";
/// The families of events, by the first words of their types.
const FAMILIES: [&str; 4] = ["user.", "agent.", "session.", "span."];
/// The first characters of the ids of events.
const ID: &str = "sevt_";
/// The key of the events in a page of the API's list.
const PAGE: &str = "data";

/// The format of such events.
pub(super) struct ManagedAgents;

impl EntryFormat for ManagedAgents {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "managed-agents",
        name: "events of Claude Managed Agents",
        description: "JSONL, a list or a page of {\"type\": \"agent.tool_use\", \"id\": \"sevt_...\"}",
        protocol: None,
    };
    const JOINS_REPLIES: bool = true;

    fn detect(evidence: &Evidence<'_>) -> bool {
        evidence.lines().iter().chain(evidence.list()).any(is_own) || evidence.document().is_some_and(is_page)
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let file = Fields::of(text);
        let listing = if is_page(&file) { Listing::of_keys(&file, &[PAGE]) } else { Listing::of_text(text)? };
        Ok(vec![listing])
    }

    fn messages(entry: &Value) -> Vec<Message> {
        let event = entry.get("raw").filter(|event| event.is_object()).unwrap_or(entry);
        let time = event.get("processed_at").filter(|time| time.is_string()).or_else(|| entry.get("time"));
        let timestamp = time.and_then(|time| serde_json::from_value(time.clone()).ok());
        event_messages(event).into_iter().map(|message| Message { timestamp, ..message }).collect()
    }
}

/// Checks for an event, or for a line of a log that has one under `raw`.
fn is_own(line: &Fields<'_>) -> bool {
    let is_event = |event: &Fields<'_>| {
        let kind = event.text("type");
        FAMILIES.iter().any(|family| kind.starts_with(family)) && event.text("id").starts_with(ID)
    };
    is_event(line) || is_event(&Fields::of(line.get("raw")))
}

/// Checks for a page of the API's list.
fn is_page(file: &Fields<'_>) -> bool {
    file.items(PAGE).iter().take(LOOKED_AT).any(|event| is_own(&Fields::of(event.get())))
}

/// Returns what an event tells the model, or what the model says in it.
fn event_messages(event: &Value) -> Vec<Message> {
    let said = |key: &str| event.get(key).unwrap_or(&Value::Null);
    // What a sub-agent asks is shown in the main thread as well, and answered in its own.
    if event.get("session_thread_id").is_some_and(Value::is_string) {
        return Vec::new();
    }
    match text_at(event, "/type") {
        "user.message" => messages_of(Role::User, said("content")),
        "user.define_outcome" => outcome(event).into_iter().collect(),
        // The reason for which the user denied a call.
        "user.tool_confirmation" => {
            let reason = text_at(event, "/deny_message");
            if reason.is_empty() { Vec::new() } else { vec![Message::user(reason.to_owned())] }
        }
        "agent.message" => messages_of(Role::Assistant, said("content")),
        "agent.tool_use" | "agent.mcp_tool_use" | "agent.custom_tool_use" => {
            let call = call(text_at(event, "/id"), text_at(event, "/name"), said("input"));
            reply(String::new().into(), vec![call], 0).into_iter().collect()
        }
        "agent.tool_result" | "agent.mcp_tool_result" | "user.custom_tool_result" => {
            let id = word(event, &["/tool_use_id", "/mcp_tool_use_id", "/custom_tool_use_id"]);
            vec![answer(id, said("content"), said("is_error") == &Value::Bool(true))]
        }
        "agent.thread_message_received" => {
            messages_of(Role::User, said("content")).into_iter().map(|note| note.noted_by(BY)).collect()
        }
        "span.outcome_evaluation_end" => {
            let (result, reason) = (text_at(event, "/result"), text_at(event, "/explanation"));
            vec![Message::note(BY, format!("Evaluation of the outcome: {result}\n{reason}").trim_end())]
        }
        _ => Vec::new(),
    }
}

/// Returns the words by which the user defined the outcome, with what it is graded by.
fn outcome(event: &Value) -> Option<Message> {
    let texts = ["/description", "/rubric/content"].map(|at| text_at(event, at));
    let texts: Vec<&str> = texts.into_iter().filter(|text| !text.is_empty()).collect();
    (!texts.is_empty()).then(|| Message::user(texts.join("\n\n")))
}
