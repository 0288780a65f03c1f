//! The body of a message, as requests hold it and answers are.

use forge_domain::{Tokens, Usage};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::block::{BlockContent, present};
use crate::WireError;

/// A message of a request or an answer. Read and written again it is the same JSON value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MessageBody {
    /// `user` or `assistant`.
    pub role: String,
    /// The content of the message.
    pub content: BlockContent,
    /// The id of the reply; recordings that split a reply repeat it in each piece.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The model that answered.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The reason the model stopped: a word, or null while it has not.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub stop_reason: Option<Value>,
    /// The usage of the call, as received; [`Self::usage`] reads it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub usage: Option<Value>,
    /// All other fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

impl MessageBody {
    /// Reads a message.
    ///
    /// # Errors
    /// [`WireError::Json`] if it has no role or no content, or an id that is not text.
    pub fn read(value: Value) -> Result<Self, WireError> {
        serde_json::from_value(value).map_err(WireError::json)
    }

    /// Returns the usage of the call, if the message reports it. The prompt includes what was read from the
    /// cache and written to it, which the protocol counts separately.
    pub fn usage(&self) -> Option<Usage> {
        usage_of(self.usage.as_ref()?)
    }
}

pub(super) fn usage_of(usage: &Value) -> Option<Usage> {
    let tokens = |key: &str| usage.get(key).and_then(Value::as_u64).map(Tokens::new);
    let cached = tokens("cache_read_input_tokens").unwrap_or(Tokens::ZERO);
    let written = tokens("cache_creation_input_tokens").unwrap_or(Tokens::ZERO);
    Some(Usage {
        prompt_tokens: tokens("input_tokens")? + written + cached,
        completion_tokens: tokens("output_tokens").unwrap_or(Tokens::ZERO),
        cached_tokens: cached,
        cache_written_tokens: written,
        dropped_reasoning: 0,
    })
}

/// Returns the number of thinking blocks that the server dropped, as `message` lists them; `None` if it lists
/// nothing.
pub(super) fn dropped_thinking(message: &Value) -> Option<u64> {
    let transformations = message.get("input_transformations")?.as_array()?;
    let is_drop = |entry: &&Value| entry.get("type").and_then(Value::as_str) == Some("thinking_dropped");
    Some(transformations.iter().filter(is_drop).count() as u64)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_message_is_written_as_it_was_read() {
        for body in [
            json!({"role": "user", "content": "hi"}),
            json!({"role": "user", "content": null}),
            json!({"role": "user", "content": []}),
            json!({"type": "message", "id": "msg_1", "model": "m", "role": "assistant", "content": [],
                "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "service_tier": "x"}}),
            json!({"role": "assistant", "stop_reason": "end_turn", "usage": null, "container": {"id": 1.5},
                "content": [{"type": "text", "text": "hi"}]}),
        ] {
            let read = MessageBody::read(body.clone()).unwrap();
            let actual = serde_json::to_value(read).unwrap();
            assert_eq!(actual, body);
        }
    }

    #[test]
    fn usage_counts_the_cache_into_the_prompt() {
        for (usage, expected) in [
            (json!(null), None),
            (json!({"input_tokens": 3, "output_tokens": 2}), Some((3, 2, 0))),
            (
                json!({"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100,
                    "output_tokens": 2}),
                Some((113, 2, 100)),
            ),
        ] {
            let body = json!({"role": "assistant", "content": "", "usage": usage});
            let actual = MessageBody::read(body).unwrap().usage().map(|usage| {
                (usage.prompt_tokens.as_u64(), usage.completion_tokens.as_u64(), usage.cached_tokens.as_u64())
            });
            assert_eq!(actual, expected);
        }
    }

    #[test]
    fn dropped_thinking_is_counted() {
        let dropped = json!({"type": "thinking_dropped", "path": "messages.1.content.0", "reason": "r"});
        for (message, expected) in [
            (json!({}), None),
            (json!({"input_transformations": []}), Some(0)),
            (json!({"input_transformations": [dropped, {"type": "new"}, dropped]}), Some(2)),
        ] {
            assert_eq!(dropped_thinking(&message), expected, "{message}");
        }
    }
}
