//! Sessions written as chat-completions messages, and as the messages of a tau-bench trial.

use std::collections::{HashMap, HashSet};

use forge_domain::{Body, Content, Message, Part};
use forge_wire::WireError;
use forge_wire::anthropic::media_part;
use forge_wire::openai::message_json;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::splice::{field, list, splice, with_field};
use super::{Line, RewriteError, Says};
use crate::{Draft, Format};

/// Writes the request body or the bare list with the messages of `lines`; everything else stays.
pub(super) fn write(draft: &Draft<'_>, lines: &[Line<'_>], text: &str) -> Result<String, RewriteError> {
    let entries = entries(draft, lines)?;
    if draft.format() != Format::OpenAi {
        let mut body = format!("{{\"messages\":{}", list(&entries));
        if let Some(tools) = (draft.format() == Format::Anthropic).then(|| field(text, "tools")).flatten() {
            body.push_str(&format!(",\"tools\":{}", tools_json(tools)));
        }
        return Ok(body + "}\n");
    }
    if text.trim_start().starts_with('[') {
        return Ok(list(&entries) + "\n");
    }
    with_field(text, "messages", &list(&entries)).ok_or(RewriteError::OtherFile)
}

/// Writes the results with the messages of `lines` in place of this trial's.
pub(super) fn write_trial(draft: &Draft<'_>, lines: &[Line<'_>], text: &str) -> Result<String, RewriteError> {
    if draft.format() != Format::TauBench {
        let why = "there is no task for the messages to belong to";
        return Err(RewriteError::Convert { from: draft.format(), to: Format::TauBench, why });
    }
    let entries = entries(draft, lines)?;
    let trials: Vec<&RawValue> = serde_json::from_str(text).map_err(|_| RewriteError::OtherFile)?;
    let trial = trials.get(draft.nth).map(|trial| trial.get()).ok_or(RewriteError::OtherFile)?;
    let trajectory = field(trial, "traj").ok_or(RewriteError::OtherFile)?;
    splice(text, trajectory, &list(&entries)).ok_or(RewriteError::OtherFile)
}

fn entries(draft: &Draft<'_>, lines: &[Line<'_>]) -> Result<Vec<String>, RewriteError> {
    let is_raw = matches!(draft.format(), Format::OpenAi | Format::TauBench);
    let whole = whole_records(draft, lines);
    let mut entries = Vec::with_capacity(lines.len());
    for line in lines {
        let place = line.item().and_then(|item| item.places().first());
        match place.filter(|place| is_raw && whole.contains(&place.record)) {
            Some(place) if place.message == 0 => {
                entries.push(draft.session.records[place.record].raw().to_owned());
            }
            Some(_) => {}
            None if is_raw => entries.push(message_json(&line.message()).to_string()),
            None => {
                let refused =
                    |source| RewriteError::Message { number: line.number, to: Format::OpenAi, source };
                let message = foreign(&line.message()).map_err(refused)?;
                entries.push(message_json(&message).to_string());
            }
        }
    }
    Ok(entries)
}

/// Returns the records of which every message is unchanged; usually they hold one.
fn whole_records(draft: &Draft<'_>, lines: &[Line<'_>]) -> HashSet<usize> {
    let mut same: HashMap<usize, usize> = HashMap::new();
    for line in lines {
        if let (Says::Same(_), Some(item)) = (&line.says, line.item()) {
            item.places().iter().for_each(|place| *same.entry(place.record).or_default() += 1);
        }
    }
    let is_whole = |(record, n): &(usize, usize)| draft.session.records[*record].n_messages() == *n;
    same.into_iter().filter(is_whole).map(|(record, _)| record).collect()
}

/// Converts a message of another protocol, with its media in this one's form.
fn foreign(message: &Message) -> Result<Message, WireError> {
    let content = |content: &Content| match content {
        Content::Text(text) => Ok(Content::Text(text.clone())),
        Content::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => Ok(Part::Text(text.clone())),
                Part::Media(block) => media_part(block).map(Part::Media),
            })
            .collect::<Result<Vec<_>, _>>()
            .map(Content::Parts),
    };
    match (&message.body, message.content()) {
        (_, None) => Ok(message.clone()),
        // The text beside an assistant's calls is one text there.
        (Body::Assistant { .. }, Some(Content::Parts(parts))) if parts.iter().all(is_text) => {
            Ok(message.with_content(message.content().map(Content::to_text).unwrap_or_default()))
        }
        (_, Some(said)) => Ok(message.with_content(content(said)?)),
    }
}

const fn is_text(part: &Part) -> bool {
    matches!(part, Part::Text(_))
}

/// Returns Anthropic's tool schemas in OpenAI's form.
fn tools_json(tools: &str) -> Value {
    let tools: Vec<Value> = serde_json::from_str(tools).unwrap_or_default();
    let tool = |tool: &Value| {
        let function = json!({"name": tool["name"], "description": tool.get("description").unwrap_or(&json!("")),
            "parameters": tool.get("input_schema").unwrap_or(&json!({"type": "object"}))});
        json!({"type": "function", "function": function})
    };
    tools.iter().map(tool).collect()
}
