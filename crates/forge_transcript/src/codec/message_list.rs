//! A document with a list of messages: the body of a request, or the bare list. OpenAI's and Anthropic's
//! differ in their entries alone.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

use super::evidence::{Evidence, Layout};
use crate::TranscriptError;
use crate::fields::value_of;

/// A document with a list of messages.
#[derive(Deserialize)]
pub(crate) struct MessageList<'a> {
    /// The system prompt beside them.
    #[serde(borrow, default)]
    pub(crate) system: Option<&'a RawValue>,
    /// The entries of the list.
    #[serde(borrow, rename = "messages")]
    pub(crate) entries: Vec<&'a RawValue>,
}

impl<'a> MessageList<'a> {
    /// Reads a request body or a bare list.
    pub(crate) fn read(text: &'a str, origin: &str) -> Result<Self, TranscriptError> {
        let list = if text.trim_start().starts_with('[') {
            serde_json::from_str(text).map(|entries| Self { system: None, entries })
        } else {
            serde_json::from_str(text)
        };
        list.map_err(|source| TranscriptError::json(origin, source))
    }
}

/// Checks whether a file is a document with a list of messages.
pub(crate) fn is_message_list(evidence: &Evidence<'_>) -> bool {
    match &evidence.layout {
        Layout::List(items) => items.first().is_some_and(|first| is_message(first.get())),
        Layout::Object(fields) => value_of(fields, "messages").is_some(),
        Layout::Text(_) | Layout::Binary => false,
    }
}

/// Checks whether a document with a list of messages is Anthropic's. What fits both protocols is OpenAI's.
pub(crate) fn is_anthropics(evidence: &Evidence<'_>) -> bool {
    let mut signs = Signs::default();
    let has_system = match &evidence.layout {
        Layout::List(items) => {
            items.iter().for_each(|entry| signs.look(entry.get()));
            false
        }
        Layout::Object(fields) => {
            let list = value_of(fields, "messages").unwrap_or_default();
            let entries: Vec<&RawValue> = serde_json::from_str(list).unwrap_or_default();
            entries.iter().for_each(|entry| signs.look(entry.get()));
            value_of(fields, "system").is_some()
        }
        Layout::Text(_) | Layout::Binary => false,
    };
    signs.are_anthropics(has_system)
}

/// Checks whether the first item of a list is a message: the trials of tau-bench, and other lists, are not.
pub(crate) fn is_message(entry: &str) -> bool {
    #[derive(Deserialize)]
    struct Entry {
        role: Option<IgnoredAny>,
        traj: Option<IgnoredAny>,
    }
    serde_json::from_str::<Entry>(entry).is_ok_and(|entry| entry.role.is_some() && entry.traj.is_none())
}

/// The evidence in a list's entries for the protocol of its messages.
#[derive(Default)]
pub(crate) struct Signs {
    /// True if one is not a message of Anthropic's.
    is_openais: bool,
    /// True if one has a block that only Anthropic's messages have.
    has_peculiar_block: bool,
}

impl Signs {
    /// Looks at the next entry.
    pub(crate) fn look(&mut self, entry: &str) {
        #[derive(Deserialize)]
        struct Entry<'a> {
            #[serde(borrow)]
            role: Option<&'a RawValue>,
            tool_calls: Option<IgnoredAny>,
            #[serde(borrow)]
            content: Option<&'a RawValue>,
        }
        if self.is_openais {
            return;
        }
        let entry: Option<Entry<'_>> = serde_json::from_str(entry).ok();
        let role = entry.as_ref().and_then(|entry| entry.role).map(RawValue::get);
        let has_calls = entry.as_ref().is_some_and(|entry| entry.tool_calls.is_some());
        self.is_openais = has_calls || !matches!(role, Some(r#""user""# | r#""assistant""#));
        let content = entry.and_then(|entry| entry.content).map_or("", RawValue::get);
        if !self.has_peculiar_block && content.starts_with('[') {
            let blocks: Vec<&RawValue> = serde_json::from_str(content).unwrap_or_default();
            self.has_peculiar_block = blocks.iter().any(|block| is_anthropics_block(block.get()));
        }
    }

    /// Checks whether the messages are Anthropic's; `has_system` if there is a system prompt beside them.
    pub(crate) const fn are_anthropics(&self, has_system: bool) -> bool {
        !self.is_openais && (has_system || self.has_peculiar_block)
    }
}

/// Checks whether a block of a content is one that only Anthropic's messages have.
fn is_anthropics_block(block: &str) -> bool {
    #[derive(Deserialize)]
    struct Typed<'a> {
        #[serde(rename = "type", borrow)]
        kind: Option<&'a RawValue>,
        source: Option<IgnoredAny>,
    }
    let typed: Option<Typed<'_>> = serde_json::from_str(block).ok();
    let has_source = typed.as_ref().is_some_and(|typed| typed.source.is_some());
    match typed.and_then(|typed| typed.kind).map_or("", RawValue::get) {
        r#""image""# | r#""document""# => has_source,
        r#""tool_use""#
        | r#""tool_result""#
        | r#""thinking""#
        | r#""redacted_thinking""#
        | r#""server_tool_use""# => true,
        _ => false,
    }
}
