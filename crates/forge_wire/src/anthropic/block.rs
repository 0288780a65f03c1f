//! The blocks of which a message's content is made.

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// One block. A kind that is unknown here, or that lacks a required part, is kept as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// A text.
    Text(Text),
    /// Reasoning, with the signature by which the provider knows it again.
    Thinking(Thinking),
    /// Reasoning that is encrypted.
    RedactedThinking(Data),
    /// A call of one of our tools.
    ToolUse(ToolUse),
    /// A call of a tool that the provider runs.
    ServerToolUse(ToolUse),
    /// A tool's answer.
    ToolResult(ToolResultBlock),
    /// An image.
    Image(MediaSource),
    /// A document.
    Document(MediaSource),
    /// Anything else.
    #[serde(untagged)]
    Other(Value),
}

/// A text.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Text {
    /// The text.
    pub text: String,
    /// All other fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A block of readable reasoning.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Thinking {
    /// The reasoning.
    pub thinking: String,
    /// All other fields: the signature.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A block of reasoning that only the provider can read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Data {
    /// The encrypted reasoning.
    pub data: String,
    /// All other fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// A call of a tool.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolUse {
    /// The id by which the result names the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// The arguments: an object, in legal messages.
    pub input: Value,
    /// All other fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The answer to a call.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ToolResultBlock {
    /// The call's id.
    pub tool_use_id: String,
    /// The tool's answer; absent if it answered nothing.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub content: Option<BlockContent>,
    /// True if the tool failed.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub is_error: Option<bool>,
    /// All other fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// An image or a document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MediaSource {
    /// The data itself, an address, or a file's id.
    pub source: Value,
    /// All other fields.
    #[serde(flatten)]
    pub extra: Map<String, Value>,
}

/// The content of a message or a tool result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum BlockContent {
    /// One text.
    Text(String),
    /// Blocks in order.
    Blocks(Vec<Block>),
    /// Anything else, such as null, which recordings have for an empty content.
    Other(Value),
}

/// Reads a field that is there. Serde's own `Option` would take null for absent, and the null would be lost.
pub(super) fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    /// Returns the kind that `block` was read as.
    fn kind(block: &Block) -> &'static str {
        match block {
            Block::Text(_) => "text",
            Block::Thinking(_) => "thinking",
            Block::RedactedThinking(_) => "redacted_thinking",
            Block::ToolUse(_) => "tool_use",
            Block::ServerToolUse(_) => "server_tool_use",
            Block::ToolResult(_) => "tool_result",
            Block::Image(_) => "image",
            Block::Document(_) => "document",
            Block::Other(_) => "other",
        }
    }

    #[test]
    fn every_block_is_known_by_its_type_and_written_as_it_was_read() {
        for (expected, block) in [
            ("text", json!({"type": "text", "text": "hi", "citations": null})),
            (
                "text",
                json!({"type": "text", "text": "hi", "cache_control": {"type": "ephemeral", "ttl": "1h"}}),
            ),
            ("thinking", json!({"type": "thinking", "thinking": "hm", "signature": "s"})),
            ("redacted_thinking", json!({"type": "redacted_thinking", "data": "AA"})),
            (
                "tool_use",
                json!({"type": "tool_use", "id": "t1", "name": "read", "input": {"b": 1.0, "a": []}}),
            ),
            ("server_tool_use", json!({"type": "server_tool_use", "id": "t1", "name": "web", "input": {}})),
            ("tool_result", json!({"type": "tool_result", "tool_use_id": "t1"})),
            (
                "tool_result",
                json!({"type": "tool_result", "tool_use_id": "t1", "content": null, "is_error": false}),
            ),
            (
                "tool_result",
                json!({"type": "tool_result", "tool_use_id": "t1", "content": [
                {"type": "text", "text": "out"}, {"type": "image", "source": {"type": "url", "url": "u"}}, 5]}),
            ),
            (
                "image",
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}}),
            ),
            ("document", json!({"type": "document", "source": {}, "title": "t"})),
            ("other", json!({"type": "mcp_tool_use", "id": "t1"})),
            ("other", json!({"type": "text", "text": null})),
            ("other", json!({"type": "tool_result", "tool_use_id": "t1", "is_error": null})),
            ("other", json!({"text": "no type"})),
            ("other", json!("bare")),
        ] {
            let read: Block = serde_json::from_value(block.clone()).unwrap();
            assert_eq!(kind(&read), expected, "{block}");
            assert_eq!(serde_json::to_value(read).unwrap(), block);
        }
    }
}
