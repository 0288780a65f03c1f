//! The blocks of a prompt as the text that the agent reads.

use serde_json::Value;

use super::connection::RpcError;

/// Returns the text of a prompt: texts as they are, links as paths or addresses, and attached contents after
/// them.
///
/// # Errors
/// [`RpcError`] for a block that was not offered.
pub(super) fn text_of(blocks: &Value) -> Result<String, RpcError> {
    let blocks = blocks.as_array().ok_or_else(|| RpcError::invalid("`prompt` must be a list of blocks"))?;
    let (mut text, mut attached) = (String::new(), String::new());
    for block in blocks {
        let word = |pointer: &str| block.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match word("/type") {
            "text" => text += word("/text"),
            "resource_link" => text += place(word("/uri")),
            "resource" => {
                let uri = place(word("/resource/uri"));
                text += uri;
                match block.pointer("/resource/text").and_then(Value::as_str) {
                    Some(content) => attached += &format!("\n\n[{uri}]\n{content}"),
                    None => attached += &format!("\n\n[{uri} is not text and cannot be shown here]"),
                }
            }
            other => return Err(RpcError::invalid(format!("blocks of type `{other}` are not supported"))),
        }
    }
    text += &attached;
    if text.trim().is_empty() {
        return Err(RpcError::invalid("the prompt is empty"));
    }
    Ok(text)
}

/// Returns the path of a file's address, or another address as it is.
fn place(uri: &str) -> &str {
    uri.strip_prefix("file://").unwrap_or(uri)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_prompt_is_one_text() {
        for (blocks, expected) in [
            (
                json!([{"type": "text", "text": "Look at "}, {"type": "resource_link", "uri": "file:///w/a.rs", "name": "a.rs"}]),
                Ok("Look at /w/a.rs"),
            ),
            (
                json!([{"type": "text", "text": "Sum up "}, {"type": "resource", "resource": {"uri": "file:///w/b", "text": "one\n"}}]),
                Ok("Sum up /w/b\n\n[/w/b]\none\n"),
            ),
            (
                json!([{"type": "image", "data": "", "mimeType": "image/png"}]),
                Err("blocks of type `image` are not supported"),
            ),
            (json!([]), Err("the prompt is empty")),
            (json!("text"), Err("`prompt` must be a list of blocks")),
        ] {
            let actual = text_of(&blocks);
            assert_eq!(actual.as_deref().map_err(RpcError::message), expected, "{blocks}");
        }
    }
}
