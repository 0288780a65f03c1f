//! Evaluation logs of Inspect: a session for each sample.

use forge_domain::Message;
use serde_json::Value;

use crate::any_blocks::chat_messages;
use crate::codec::{EntryFormat, Evidence, Fields, Listing};
use crate::format::FormatFacts;

/// The format of Inspect's logs as JSON.
pub(super) struct Inspect;

impl EntryFormat for Inspect {
    const FACTS: &'static FormatFacts = &FormatFacts {
        id: "inspect",
        name: "Inspect evaluation logs",
        description: "{\"eval\", \"samples\": [{\"messages\"}]}",
        protocol: None,
    };
    const IS_LINES: bool = false;

    fn detect(evidence: &Evidence<'_>) -> bool {
        evidence.document().is_some_and(|log| log.has(&["eval"]) && log.has_list("samples"))
    }

    /// Lists the samples, named by their ids and epochs.
    fn sessions(text: &str) -> Result<Vec<Listing<'_>>, serde_json::Error> {
        let samples = Fields::of(text).items("samples").into_iter();
        Ok(samples.map(|sample| listing(&Fields::of(sample.get()))).collect())
    }

    fn messages(entry: &Value) -> Vec<Message> {
        chat_messages(entry)
    }
}

fn listing<'a>(sample: &Fields<'a>) -> Listing<'a> {
    let id = sample.get("id").trim_matches('"');
    Listing::of_keys(sample, &["messages"]).named(format!("{id}.epoch{}", sample.get("epoch")))
}
