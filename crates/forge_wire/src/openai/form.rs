//! The parts of a message's OpenAI form that the domain cannot express, kept beside the message so that it
//! can be written again.

use forge_domain::{Message, ToolCall};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The key of a message's metadata for its form.
const KEY: &str = "openai";

/// The particulars of one message's form; empty for the plain ones, which then have nothing in their
/// metadata.
#[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Form {
    /// The role's word if it is unusual (`developer`).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) role: Option<String>,
    /// True if the key `content` was absent, as opposed to null.
    #[serde(skip_serializing_if = "is_false")]
    pub(super) no_content: bool,
    /// Foreign keys of each part that is text (a cache mark); as many as there are parts, or none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) parts: Vec<Map<String, Value>>,
    /// Each call without its name and arguments, null if nothing is special about it; as many as calls, or
    /// none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) calls: Vec<Value>,
}

impl Form {
    /// Returns the form that was kept for `message`.
    pub(super) fn of(message: &Message) -> Self {
        message.metadata.get(KEY).and_then(|kept| Self::deserialize(kept).ok()).unwrap_or_default()
    }

    /// Keeps the form with `message`.
    pub(super) fn keep(&self, message: &mut Message) {
        if *self != Self::default() {
            message.metadata.insert(KEY.into(), json!(self));
        }
    }

    /// Returns the foreign keys of text part `n` of a content that now has `n_parts`.
    pub(super) fn part(&self, n: usize, n_parts: usize) -> Map<String, Value> {
        // Where the content was rewritten since, the marks belong to parts that are no more.
        if self.parts.len() == n_parts { self.parts[n].clone() } else { Map::new() }
    }

    /// Returns call `n` of a message that now has `n_calls`, in the protocol's form.
    pub(super) fn call_json(&self, call: &ToolCall, n: usize, n_calls: usize) -> Value {
        let kept = self.calls.get(n).filter(|kept| self.calls.len() == n_calls && kept.is_object());
        let mut spelt = kept.cloned().unwrap_or_else(plain_call);
        spelt["id"] = json!(call.id);
        if spelt.get("custom").is_some_and(Value::is_object) {
            spelt["custom"]["name"] = json!(call.name);
            spelt["custom"]["input"] = json!(call.arguments);
        } else {
            spelt["function"]["name"] = json!(call.name);
            spelt["function"]["arguments"] = json!(call.arguments);
        }
        spelt
    }
}

/// Returns what is special about `call`, beyond its [`ToolCall`]; null if nothing is.
pub(super) fn peculiar(mut call: Value) -> Value {
    for key in ["id", "function.name", "function.arguments", "custom.name", "custom.input"] {
        let (inner, key) = key.split_once('.').unwrap_or(("", key));
        let fields = if inner.is_empty() { Some(&mut call) } else { call.get_mut(inner) };
        if let Some(fields) = fields.and_then(Value::as_object_mut) {
            fields.shift_remove(key);
        }
    }
    if call == plain_call() || call == json!({"type": "function", "function": {}}) {
        Value::Null
    } else {
        call
    }
}

/// Returns a call with only its special parts: `extra`, the foreign keys; null without any.
pub(super) fn call(extra: &Map<String, Value>) -> Value {
    if extra.is_empty() {
        return Value::Null;
    }
    let mut call = plain_call();
    for (key, value) in extra {
        call[key] = value.clone();
    }
    call
}

/// Returns the metadata of a message whose calls have these special parts.
pub(super) fn of_calls(calls: Vec<Value>) -> Map<String, Value> {
    Map::from_iter([(KEY.to_owned(), json!(Form { calls, ..Form::default() }))])
}

fn plain_call() -> Value {
    json!({"id": "", "type": "function", "function": {}})
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}
