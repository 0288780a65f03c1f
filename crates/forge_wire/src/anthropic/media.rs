//! Images as both protocols hold them: blocks with a source here, parts with an address there.

use serde_json::{Value, json};

use crate::WireError;

/// Converts a part that is not text to a block of these messages. Blocks of this protocol stay unchanged.
///
/// # Errors
/// [`WireError::Shape`] for what only the other protocol knows: sounds and files.
pub fn media_block(part: &Value) -> Result<Value, WireError> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "image_url" => {
            let url =
                part.pointer("/image_url/url").or_else(|| part.get("image_url")).and_then(Value::as_str);
            let url = url.ok_or_else(|| WireError::shape("image_url.url", "must be a string"))?;
            Ok(json!({"type": "image", "source": source(url)}))
        }
        "input_audio" | "file" | "refusal" => Err(WireError::shape(
            "content",
            format!("has a part `{kind}`, for which Anthropic's messages have no block"),
        )),
        _ => Ok(part.clone()),
    }
}

/// Converts a block that is not text to a part of OpenAI's messages. Parts of that protocol stay unchanged.
///
/// # Errors
/// [`WireError::Shape`] for what only this protocol knows: documents, search results, files by their id.
pub fn media_part(block: &Value) -> Result<Value, WireError> {
    let kind = block.get("type").and_then(Value::as_str).unwrap_or_default();
    let none = |what: &str| {
        Err(WireError::shape("content", format!("has {what}, for which OpenAI's messages have no part")))
    };
    match kind {
        "image_url" | "input_audio" | "file" | "refusal" => Ok(block.clone()),
        "image" => {
            let text = |key: &str| block.pointer(&format!("/source/{key}")).and_then(Value::as_str);
            let url = match (text("type"), text("media_type"), text("data"), text("url")) {
                (Some("base64"), Some(media), Some(data), _) => format!("data:{media};base64,{data}"),
                (Some("url"), _, _, Some(url)) => url.to_owned(),
                _ => return none("an image that is neither data nor an address"),
            };
            Ok(json!({"type": "image_url", "image_url": {"url": url}}))
        }
        _ => none(&format!("a block `{kind}`")),
    }
}

/// Returns the source of an image: its data, if the address holds them.
fn source(url: &str) -> Value {
    let data = url.strip_prefix("data:").and_then(|rest| rest.split_once(";base64,"));
    match data {
        Some((media, data)) => json!({"type": "base64", "media_type": media, "data": data}),
        None => json!({"type": "url", "url": url}),
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn images_come_back_from_the_other_protocol() {
        for (part, block) in [
            (
                json!({"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}),
                json!({"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}}),
            ),
            (
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}),
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}),
            ),
        ] {
            assert_eq!(media_block(&part).unwrap(), block);
            assert_eq!(media_part(&block).unwrap(), part);
        }
    }

    #[test]
    fn what_the_other_protocol_lacks_is_refused() {
        for part in [json!({"type": "input_audio", "input_audio": {}}), json!({"type": "file", "file": {}})] {
            assert!(media_block(&part).is_err(), "{part}");
        }
        for block in
            [json!({"type": "document", "source": {}}), json!({"type": "image", "source": {"type": "file"}})]
        {
            assert!(media_part(&block).is_err(), "{block}");
        }
    }
}
