//! Sessions as the body of a request to Anthropic's messages.

use std::sync::Arc;

use forge_domain::Message;
use forge_wire::WireError;
use forge_wire::anthropic::{read_entry, read_system};
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::json_text::parse;
use crate::session::name_results;
use crate::{Format, Record, Session, TranscriptError};

/// `{"system": ..., "messages": [...]}` with whatever else a request has.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow, default)]
    system: Option<&'a RawValue>,
    #[serde(borrow)]
    messages: Vec<&'a RawValue>,
}

/// Reads a request body or a bare list of messages; the session is named after the file. The system prompt is its
/// first record, where there is one.
pub(crate) fn read(text: &str, origin: &str) -> Result<Vec<Session>, TranscriptError> {
    let request = if text.trim_start().starts_with('[') {
        serde_json::from_str(text).map(|messages| Request { system: None, messages })
    } else {
        serde_json::from_str(text)
    };
    let request = request.map_err(|source| TranscriptError::json(origin, source))?;
    let not_a_message = |list: &str, index, source| TranscriptError::NotAMessage {
        origin: origin.to_owned(),
        list: list.to_owned(),
        index,
        source,
    };
    let mut records = Vec::with_capacity(request.messages.len() + 1);
    if let Some(system) = request.system {
        let message =
            value(system).and_then(read_system).map_err(|source| not_a_message("system", 0, source))?;
        records.push(record(system, vec![message]));
    }
    for (index, entry) in request.messages.iter().enumerate() {
        let messages =
            value(entry).and_then(read_entry).map_err(|source| not_a_message("messages", index, source))?;
        records.push(record(entry, messages));
    }
    name_results(&mut records);
    let id = origin.rsplit(['/', '\\']).next().unwrap_or(origin).to_owned();
    Ok(vec![Session { id, format: Format::Anthropic, records, skipped_lines: 0 }])
}

fn value(raw: &RawValue) -> Result<serde_json::Value, WireError> {
    parse(raw.get()).map_err(|source| WireError::Json { source })
}

fn record(raw: &RawValue, messages: Vec<Message>) -> Record {
    Record { raw: Arc::from(raw.get()), messages, reply: None, is_literal: true }
}
