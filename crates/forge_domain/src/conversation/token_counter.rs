//! The counting of tokens: the port that counts a text, and the formula over messages and requests.

use serde_json::Value;

use super::media_tokens::media_tokens;
use crate::{Body, Content, HIDDEN_TOKENS, Message, Part, REASONING_ITEMS, Tokens, ToolDefinition};

/// A counter of the tokens of a text.
pub trait TokenCounter: Send + Sync {
    /// Counts the tokens of `text`. Text that looks like a special token counts as ordinary text.
    fn count(&self, text: &str) -> Tokens;
}

/// The cost of a request besides its messages and tools.
pub const REQUEST_TOKENS: Tokens = Tokens::new(3);
/// The cost of a message besides its content.
const MESSAGE_TOKENS: Tokens = Tokens::new(4);
/// The cost of a tool call besides its name and arguments.
const CALL_TOKENS: Tokens = Tokens::new(4);

/// Returns the tokens of one message: 4, the content, each call (4, name, arguments), and foreign keys as
/// compact JSON. Call ids are free; so is the name of the tool in a result, which is not sent. A part that is
/// not text is estimated, by the size of an image if that is known; what a recording hides
/// ([`HIDDEN_TOKENS`]) counts as its reader estimated.
pub fn message_tokens(message: &Message, counter: &dyn TokenCounter) -> Tokens {
    let content = message.content().map_or(Tokens::ZERO, |content| content_tokens(content, counter));
    let calls = match &message.body {
        Body::Assistant { calls, .. } => calls
            .iter()
            .map(|call| CALL_TOKENS + counter.count(call.name.as_str()) + counter.count(&call.arguments))
            .sum(),
        Body::System(_) | Body::User(_) | Body::Tool(_) => Tokens::ZERO,
    };
    let extra = message.extra.iter().map(|(key, value)| extra_tokens(key, value, counter)).sum();
    let hidden =
        message.metadata.get(HIDDEN_TOKENS).and_then(Value::as_u64).map_or(Tokens::ZERO, Tokens::new);
    MESSAGE_TOKENS + content + calls + extra + hidden
}

/// Returns the tokens of tool schemas: the compact JSON of their list in OpenAI's form; none without tools.
pub fn tools_tokens(tools: &[ToolDefinition], counter: &dyn TokenCounter) -> Tokens {
    if tools.is_empty() {
        return Tokens::ZERO;
    }
    let list = serde_json::to_string(tools).unwrap_or_default();
    counter.count(&list)
}

fn content_tokens(content: &Content, counter: &dyn TokenCounter) -> Tokens {
    match content {
        Content::Text(text) => counter.count(text),
        Content::Parts(parts) => parts
            .iter()
            .map(|part| match part {
                Part::Text(text) => counter.count(text),
                Part::Media(part) => media_tokens(part),
            })
            .sum(),
    }
}

pub(super) fn extra_tokens(key: &str, value: &Value, counter: &dyn TokenCounter) -> Tokens {
    match value {
        Value::Null => Tokens::ZERO,
        Value::String(text) if text.is_empty() => Tokens::ZERO,
        Value::Array(items) if items.is_empty() => Tokens::ZERO,
        Value::Object(fields) if fields.is_empty() => Tokens::ZERO,
        Value::Array(items) if key == REASONING_ITEMS => items.iter().map(encrypted_tokens).sum(),
        // A speaker's name costs one token more than its text.
        Value::String(text) if key == "name" => Tokens::new(1) + counter.count(text),
        Value::String(text) => counter.count(text),
        value => counter.count(&value.to_string()),
    }
}

/// Estimates the tokens of encrypted reasoning: recorded items have 5 to 10 bytes for each token that their
/// providers count, so 4 is on the safe side, while a vocabulary would count the letters of the cipher.
fn encrypted_tokens(item: &Value) -> Tokens {
    Tokens::new(item.to_string().len() as u64 / 4)
}

/// One token a character, for tests: the formula's own terms show in the sums.
#[cfg(test)]
pub(crate) struct Characters;

#[cfg(test)]
impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.chars().count() as u64)
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::{ToolCall, ToolName, ToolResult};

    #[test]
    fn the_formula_adds_what_the_request_carries() {
        let call =
            ToolCall { id: "call_1".into(), name: ToolName::new("read").unwrap(), arguments: "{}".into() };
        let mut named = Message::user("ab");
        named.extra.insert("name".into(), json!("bob"));
        let mut reasoned = Message::assistant("ab");
        reasoned.extra.insert("reasoning".into(), json!({"a": 1}));
        reasoned.extra.insert("empty".into(), json!([]));
        let mut hiding = Message::assistant("ab");
        hiding.metadata.insert(HIDDEN_TOKENS.into(), json!(70));
        let parts = Content::Parts(vec![Part::Text("abc".into()), Part::Media(json!({"type": "image_url"}))]);
        for (name, message, expected) in [
            ("text", Message::user("abc"), 4 + 3),
            ("parts", Message::user(parts), 4 + 3 + 85),
            ("call", Message::calling(vec![call.clone()]), 4 + (4 + 4 + 2)),
            ("result", Message::tool(ToolResult::answer(&call, "abc")), 4 + 3),
            ("name", named, 4 + 2 + 1 + 3),
            ("foreign keys", reasoned, 4 + 2 + 7),
            ("what a recording hides", hiding, 4 + 2 + 70),
        ] {
            assert_eq!(message_tokens(&message, &Characters).as_u64(), expected, "{name}");
        }
    }
}
