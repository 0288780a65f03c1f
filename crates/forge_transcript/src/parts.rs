//! The parts that a content may have, in each protocol. Another one would be written back unchanged, but its
//! text would not be counted and a call's result in it not found, so it is refused.

use forge_wire::WireError;
use serde_json::Value;

use crate::foreign;

const ANTHROPIC: &str = "Anthropic's messages";

/// Refuses a content of OpenAI's form with parts that the protocol does not have. `at` is its place.
pub(crate) fn are_openai(content: Option<&Value>, at: &str) -> Result<(), WireError> {
    are_known(parts_of(content), at, "OpenAI's messages", |kind, part| {
        let has = |key: &str| part.get(key).is_some();
        match kind {
            "text" => part.get("text").is_some_and(|text| text.is_string() || text.is_null()),
            // Those after the first line are of servers that speak this protocol, and of local chat
            // templates.
            "image_url" | "input_audio" | "file" | "refusal" | "audio_url" | "video_url" | "document_url"
            | "thinking" | "image" | "audio" | "video" => has(kind),
            "reference" => has("reference_ids"),
            _ => false,
        }
    })
}

/// Refuses a content of Anthropic's form with blocks that the protocol does not have. `at` is its place.
pub(crate) fn are_anthropic(content: Option<&Value>, at: &str) -> Result<(), WireError> {
    are_blocks(parts_of(content), at)
}

/// Refuses blocks that Anthropic's protocol does not have. `at` is the place of their list.
pub(crate) fn are_blocks(blocks: &[Value], at: &str) -> Result<(), WireError> {
    are_known(blocks, at, ANTHROPIC, |kind, block| {
        let has = |key: &str| block.get(key).is_some();
        let has_text = |key: &str| block.get(key).is_some_and(Value::is_string);
        match kind {
            "text" => block.get("text").is_some_and(|text| text.is_string() || text.is_null()),
            "tool_use" | "server_tool_use" | "mcp_tool_use" => {
                has_text("id") && has_text("name") && has("input")
            }
            "image" | "document" => has("source"),
            "thinking" => has("thinking"),
            "redacted_thinking" => has("data"),
            "search_result" | "compaction" => has("content"),
            "container_upload" => has("file_id"),
            "tool_reference" => has("tool_name"),
            kind => kind.ends_with("tool_result"),
        }
    })?;
    for (n, block) in blocks.iter().enumerate() {
        // What a server's tool answered has forms of its own.
        if block.get("type").and_then(Value::as_str) == Some("tool_result") {
            are_anthropic(block.get("content"), &format!("{at}[{n}].content"))?;
        }
    }
    Ok(())
}

/// Returns the parts of a content; a text has none.
fn parts_of(content: Option<&Value>) -> &[Value] {
    content.and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

/// Refuses the first part that `is_known` does not take.
fn are_known(
    parts: &[Value],
    at: &str,
    protocol: &str,
    is_known: impl Fn(&str, &Value) -> bool,
) -> Result<(), WireError> {
    for (n, part) in parts.iter().enumerate() {
        let place = format!("{at}[{n}]");
        let Some(kind) = part.get("type").and_then(Value::as_str) else {
            let what = format!("has no `type`, which every part of {protocol} has");
            return Err(WireError::Shape { at: place, what });
        };
        if is_known(kind, part) {
            continue;
        }
        let what = match foreign::of_part(part) {
            Some(foreign) if foreign == foreign::ANTHROPIC && protocol != ANTHROPIC => {
                format!("is `{kind}`, a block of Anthropic's messages")
            }
            _ => format!("is `{kind}`, which is not a part of {protocol}, or lacks a required key"),
        };
        return Err(WireError::Shape { at: format!("{place}.type"), what });
    }
    Ok(())
}
