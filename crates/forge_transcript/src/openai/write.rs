//! Sessions written as chat-completions messages.

use std::collections::{HashMap, HashSet};

use forge_domain::{Body, Content, Message, Part, Role};
use forge_wire::anthropic::media_part;
use forge_wire::openai::message_json;
use forge_wire::{Protocol, WireError};

use super::read::{NAMED_ROLE, has_own_parts};
use super::written_call::{in_text, is_in_text};
use crate::RewriteError;
use crate::author_mark::with_author;
use crate::codec::{Line, Revision, Says};
use crate::splice::{list, with_field};
use crate::tools::openai_tools;

/// Writes the request body or the bare list with the messages of `revision`; everything else stays.
pub(super) fn write(revision: &Revision<'_>) -> Result<String, RewriteError> {
    let entries = write_entries(revision)?;
    if revision.from() != revision.to {
        let mut body = format!("{{\"messages\":{}", list(&entries));
        if let Some(tools) = revision.tools() {
            body.push_str(&format!(",\"tools\":{}", openai_tools(&tools)));
        }
        return Ok(body + "}\n");
    }
    let text = revision.text();
    if text.trim_start().starts_with('[') {
        return Ok(list(&entries) + "\n");
    }
    with_field(&text, "messages", &list(&entries)).ok_or(RewriteError::OtherFile)
}

/// Writes the messages of `revision`, each as an entry of a list.
pub(crate) fn write_entries(revision: &Revision<'_>) -> Result<Vec<String>, RewriteError> {
    let is_raw = revision.from().protocol() == Some(Protocol::OpenAi);
    let whole = whole_records(revision);
    let is_same = revision.from() == revision.to;
    let is_told = |line: &Line<'_>, record| is_in_text(revision.raw(record), &line.message());
    let mut entries = Vec::with_capacity(revision.lines.len());
    let mut calls_in_text = false;
    for line in &revision.lines {
        let place = line.item().and_then(|item| item.places().first());
        let own_form = is_raw && is_same;
        if own_form && line.role() == Role::Assistant {
            calls_in_text = place.is_some_and(|place| is_told(line, place.record));
        }
        // A result that was missing has the form of its call.
        let is_told_anew = || match place {
            Some(place) => is_told(line, place.record),
            None => calls_in_text && line.role() == Role::Tool,
        };
        let stays = |record| {
            let raw = revision.raw(record);
            whole.contains(&record)
                && (is_same || !(has_named_role(line) || has_own_parts(raw) || is_told(line, record)))
        };
        match place.filter(|place| is_raw && stays(place.record)) {
            Some(place) if place.message == 0 => entries.push(revision.raw(place.record).to_owned()),
            Some(_) => {}
            None if own_form && is_told_anew() => {
                entries.push(message_json(&in_text(&line.message())).to_string());
            }
            None if own_form => entries.push(with_named_role(&line.message())),
            None if is_raw => entries.push(message_json(&with_author(line.message())).to_string()),
            None => {
                let message = with_own_media(&with_author(line.message()));
                let message = message.map_err(|source| revision.refuse(line, source))?;
                entries.push(message_json(&message).to_string());
            }
        }
    }
    Ok(entries)
}

/// Checks whether the role of a message is a word that also names the author, which no protocol has.
fn has_named_role(line: &Line<'_>) -> bool {
    line.message().metadata.contains_key(NAMED_ROLE)
}

/// Returns a message as an entry, with the word that is its role in the file.
fn with_named_role(message: &Message) -> String {
    let mut entry = message_json(message);
    if let Some(word) = message.metadata.get(NAMED_ROLE) {
        entry["role"] = word.clone();
    }
    entry.to_string()
}

/// Returns the records of which every message is unchanged; usually they hold one.
fn whole_records(revision: &Revision<'_>) -> HashSet<usize> {
    let mut same: HashMap<usize, usize> = HashMap::new();
    for line in &revision.lines {
        if let (Says::Same(_), Some(item)) = (&line.says, line.item()) {
            item.places().iter().for_each(|place| *same.entry(place.record).or_default() += 1);
        }
    }
    let is_whole = |(record, n): &(usize, usize)| revision.session.records[*record].n_messages() == *n;
    same.into_iter().filter(is_whole).map(|(record, _)| record).collect()
}

/// Converts a message of another protocol, with its media in this one's form.
fn with_own_media(message: &Message) -> Result<Message, WireError> {
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
