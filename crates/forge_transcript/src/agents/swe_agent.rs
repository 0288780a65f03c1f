//! Trajectories of SWE-agent: chat-completions messages under a key of their own.

use crate::codec::{Evidence, Fields};
use crate::format::FormatFacts;
use crate::openai::{MessageLists, NamedList};
use forge_wire::Protocol;

/// The format of SWE-agent. That of mini-SWE-agent is read as OpenAI messages.
pub(super) const SWE_AGENT: MessageLists = MessageLists {
    facts: &FormatFacts {
        id: "swe-agent",
        name: "SWE-agent trajectories",
        description: "{\"history\": [...], \"environment\"}",
        protocol: Some(Protocol::OpenAi),
    },
    detect,
    keeps_form: true,
    lists,
};

fn detect(evidence: &Evidence<'_>) -> bool {
    let is_own =
        |file: &Fields<'_>| ["environment", "trajectory", "info"].iter().any(|key| file.contains(key));
    evidence.document().is_some_and(|file| file.has_list("history") && is_own(file))
}

fn lists(text: &str) -> Result<Vec<NamedList<'_>>, serde_json::Error> {
    let history = Fields::of(text).get("history");
    Ok(vec![NamedList::of(None, "history", history)?])
}
