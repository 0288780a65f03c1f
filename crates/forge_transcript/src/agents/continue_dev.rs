//! Sessions of Continue.

use forge_domain::Message;
use serde_json::Value;

use crate::any_blocks::{answer, call, chat_messages, content_of, hidden_tokens, items, reply, text_at};
use crate::codec::{EntryFormat, Evidence, Fields, Listing};
use crate::format::FormatFacts;

/// The author of the files and other items that Continue puts before what the user said.
const BY: &str = "continue";

/// The format of Continue.
pub(super) struct Continue;

impl EntryFormat for Continue {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "continue-dev",
        name: "Continue sessions",
        description: "{\"sessionId\", \"workspaceDirectory\", \"history\": [{\"message\", \"contextItems\"}]}",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        let is_own = |file: &Fields<'_>| {
            file.has_list("history") && file.contains("sessionId") && file.contains("workspaceDirectory")
        };
        evidence.document().is_some_and(is_own)
    }

    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let file = Fields::of(text);
        Ok(vec![Listing::of_keys(&file, &["history"]).named(file.text("sessionId"))])
    }

    fn messages(item: &Value) -> Vec<Message> {
        let said = item.get("message").unwrap_or(&Value::Null);
        match text_at(said, "/role") {
            "assistant" => {
                let calls = items(said, "toolCalls").iter().map(|made| {
                    let arguments = made.pointer("/function/arguments").unwrap_or(&Value::Null);
                    call(text_at(made, "/id"), text_at(made, "/function/name"), arguments)
                });
                let content = content_of(said.get("content").unwrap_or(&Value::Null));
                let hidden = item.get("reasoning").map_or(0, hidden_tokens);
                let results = items(item, "toolCallStates").iter().filter_map(result);
                reply(content, calls.collect(), hidden).into_iter().chain(results).collect()
            }
            "user" => {
                let context = items(item, "contextItems").iter().map(|item| text_at(item, "/content"));
                let notes = context.filter(|text| !text.is_empty()).map(|text| Message::note(BY, text));
                notes.chain(chat_messages(said)).collect()
            }
            _ => chat_messages(said),
        }
    }
}

/// Returns the result of a call by the state that it is in, which also holds what the call printed.
fn result(state: &Value) -> Option<Message> {
    let printed = state.get("output").filter(|output| output.is_array())?;
    Some(answer(text_at(state, "/toolCallId"), printed, text_at(state, "/status") == "errored"))
}
