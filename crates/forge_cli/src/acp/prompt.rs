//! The blocks of a prompt as the message that the agent reads.

use std::borrow::Cow;

use forge_domain::{Event, Image};
use percent_encoding::percent_decode_str;
use serde_json::Value;

use super::connection::RpcError;

/// Returns the message of a prompt: texts as they are, links as paths or addresses, and attached contents
/// after them.
///
/// # Errors
/// [`RpcError`] for a block that was not offered.
pub(super) fn event_of(blocks: &Value) -> Result<Event, RpcError> {
    let blocks = blocks.as_array().ok_or_else(|| RpcError::invalid("`prompt` must be a list of blocks"))?;
    let (mut text, mut attached, mut images) = (String::new(), String::new(), Vec::new());
    for block in blocks {
        let word = |pointer: &str| block.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        match word("/type") {
            "text" => text += word("/text"),
            "resource_link" => text.push_str(&place(word("/uri"))),
            "resource" => {
                let uri = place(word("/resource/uri"));
                text.push_str(&uri);
                match block.pointer("/resource/text").and_then(Value::as_str) {
                    Some(content) => attached += &format!("\n\n[{uri}]\n{content}"),
                    None => attached += &format!("\n\n[{uri} is not text and cannot be shown here]"),
                }
            }
            "image" => {
                let uri = word("/uri");
                let name = if uri.is_empty() { Cow::Borrowed(PASTED) } else { place(uri) };
                let image = Image::read_base64(name, word("/data"));
                images.push(image.map_err(|error| {
                    let told = error.to_string().replace(&format!("`{PASTED}`"), "the pasted image");
                    RpcError::invalid(told)
                })?);
            }
            other => return Err(RpcError::invalid(format!("blocks of type `{other}` are not supported"))),
        }
    }
    text += &attached;
    if text.trim().is_empty() && images.is_empty() {
        return Err(RpcError::invalid("the prompt is empty"));
    }
    Ok(Event::task(text).with_images(images))
}

/// The name of an image without an address: a model reads `[image of the prompt]`.
const PASTED: &str = "of the prompt";

/// Returns the path of a file's address, or another address as it is.
fn place(uri: &str) -> Cow<'_, str> {
    match uri.strip_prefix("file://") {
        Some(path) => percent_decode_str(path).decode_utf8().unwrap_or(Cow::Borrowed(path)),
        None => Cow::Borrowed(uri),
    }
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
                json!([{"type": "resource_link", "uri": "file:///w/gr%C3%B6%C3%9Fe/my%20notes%21.md", "name": "n"}]),
                Ok("/w/größe/my notes!.md"),
            ),
            (
                json!([{"type": "resource_link", "uri": "https://a.example/my%20notes", "name": "n"}]),
                Ok("https://a.example/my%20notes"),
            ),
            (
                json!([{"type": "text", "text": "Sum up "}, {"type": "resource", "resource": {"uri": "file:///w/b", "text": "one\n"}}]),
                Ok("Sum up /w/b\n\n[/w/b]\none\n"),
            ),
            (
                json!([{"type": "image", "data": "", "mimeType": "image/png"}]),
                Err("the pasted image is not an image that models read (expected PNG, JPEG, GIF or WebP)"),
            ),
            (json!([]), Err("the prompt is empty")),
            (json!("text"), Err("`prompt` must be a list of blocks")),
        ] {
            let actual = event_of(&blocks).map(|event| event.value);
            assert_eq!(actual.as_deref().map_err(RpcError::message), expected, "{blocks}");
        }
    }
}
