//! Trajectories of Trae agents: a list of steps. Each has all messages that were sent for it, the calls that
//! the model then made, and their results.

use std::borrow::Cow;

use forge_domain::Message;
use serde_json::{Value, json};

use crate::any_blocks::{chat_messages, items, text_at};
use crate::codec::{EntryFormat, Evidence, Fields, Listing};
use crate::format::FormatFacts;
use crate::json_text::parse;

/// The key of the conversations in the document that a trajectory adds up to.
const CONVERSATIONS: &str = "conversations";

/// The format of Trae agents.
pub(super) struct Trae;

impl EntryFormat for Trae {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "trae-agent",
        name: "trajectories of Trae agents",
        description: "{\"agent_id\", \"task\", \"steps\": [{\"messages\", \"tool_calls\", \"tool_results\"}]}",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |file: &Fields<'_>| {
            let first = file.items("steps").first().map(|step| Fields::of(step.get())).unwrap_or_default();
            file.has(&["agent_id", "task"]) && first.has(&["step_id"]) && first.has_list("messages")
        };
        evidence.document().is_some_and(is_own)
    }

    fn document(text: &str) -> (Cow<'_, str>, usize) {
        let file: Value = parse(text).unwrap_or_default();
        let conversations: Vec<Vec<Value>> =
            conversations(items(&file, "steps")).iter().map(Conversation::messages).collect();
        let document = json!({"agent_id": file.get("agent_id"), CONVERSATIONS: conversations});
        (Cow::Owned(document.to_string()), 0)
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let file = Fields::of(text);
        let (id, conversations) = (file.text("agent_id"), file.items(CONVERSATIONS));
        let is_one = conversations.len() == 1;
        let name = |n: usize| if is_one { id.clone() } else { format!("{id}.{n}") };
        let listings = conversations.into_iter().enumerate();
        listings.map(|(n, list)| Listing::of_list(list.get()).map(|listing| listing.named(name(n)))).collect()
    }

    fn messages(entry: &Value) -> Vec<Message> {
        chat_messages(entry)
    }
}

/// The messages that were sent for the last step of a conversation, and that step.
struct Conversation<'v> {
    sent: &'v [Value],
    last: &'v Value,
}

/// Returns the conversations of a trajectory: an agent that gets another task begins a new one.
fn conversations(steps: &[Value]) -> Vec<Conversation<'_>> {
    let mut all: Vec<Conversation<'_>> = Vec::new();
    for last in steps.iter().filter(|step| !items(step, "messages").is_empty()) {
        let sent = items(last, "messages");
        match all.last_mut().filter(|before| sent.starts_with(before.sent)) {
            Some(before) => *before = Conversation { sent, last },
            None => all.push(Conversation { sent, last }),
        }
    }
    all
}

impl Conversation<'_> {
    /// Returns its messages, with those of its last step.
    fn messages(&self) -> Vec<Value> {
        let calls = items(self.last, "tool_calls");
        let said = text_at(self.last, "/llm_response_content");
        let mut messages = self.sent.to_vec();
        if !calls.is_empty() || !said.is_empty() {
            messages.push(json!({"role": "assistant", "content": said, "tool_calls": calls}));
        }
        for (call, result) in calls.iter().zip(items(self.last, "tool_results")) {
            messages
                .push(json!({"role": "tool", "tool_call_id": call.get("id"), "content": result.to_string()}));
        }
        // If the model says nothing beside a call, the last message is repeated as its words.
        for n in (1..messages.len()).rev() {
            let is_call = !items(&messages[n], "tool_calls").is_empty();
            if is_call && messages[n].get("content") == messages[n - 1].get("content") {
                messages[n]["content"] = "".into();
            }
        }
        messages
    }
}
