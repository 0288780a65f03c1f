//! Images and documents as both protocols hold them: blocks with a source here, parts with an address or data
//! there.

use serde_json::{Value, json};

use crate::WireError;

/// Converts a part that is not text to a block of these messages. Blocks of this protocol stay unchanged.
///
/// # Errors
/// [`WireError::Shape`] for what only the other protocol knows: sounds, and files by their id.
pub fn media_block(part: &Value) -> Result<Value, WireError> {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    match kind {
        "image_url" => {
            let url =
                part.pointer("/image_url/url").or_else(|| part.get("image_url")).and_then(Value::as_str);
            let url = url.ok_or_else(|| WireError::shape("image_url.url", "must be a string"))?;
            Ok(json!({"type": "image", "source": source(url)}))
        }
        "file" if has_data(part) => {
            let text = |key: &str| part.pointer(&format!("/file/{key}")).and_then(Value::as_str);
            let mut block =
                json!({"type": "document", "source": source(text("file_data").unwrap_or_default())});
            if let Some(title) = text("filename").filter(|name| *name != UNTITLED) {
                block["title"] = json!(title);
            }
            Ok(block)
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
/// [`WireError::Shape`] for what only this protocol knows: search results, documents and files by their
/// address or id.
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
        "document" => {
            let text = |key: &str| block.pointer(&format!("/source/{key}")).and_then(Value::as_str);
            match (text("type"), text("media_type"), text("data")) {
                (Some("text"), _, Some(data)) => Ok(json!({"type": "text", "text": data})),
                (Some("base64"), Some(media), Some(data)) => {
                    let name = block.get("title").and_then(Value::as_str).unwrap_or(UNTITLED);
                    let data = format!("data:{media};base64,{data}");
                    Ok(json!({"type": "file", "file": {"filename": name, "file_data": data}}))
                }
                _ => none("a document that is not data"),
            }
        }
        _ => none(&format!("a block `{kind}`")),
    }
}

/// The name of a document that has none: OpenAI's messages need one.
const UNTITLED: &str = "document";

/// Checks whether a part is a file with its data.
fn has_data(part: &Value) -> bool {
    let data = part.pointer("/file/file_data").and_then(Value::as_str);
    data.is_some_and(|data| data.starts_with("data:") && data.contains(";base64,"))
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
    fn images_and_documents_come_back_from_the_other_protocol() {
        for (part, block) in [
            (
                json!({"type": "image_url", "image_url": {"url": "https://example.test/a.png"}}),
                json!({"type": "image", "source": {"type": "url", "url": "https://example.test/a.png"}}),
            ),
            (
                json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}),
                json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}}),
            ),
            (
                json!({"type": "file", "file": {"filename": "document", "file_data": "data:application/pdf;base64,AA=="}}),
                json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="}}),
            ),
            (
                json!({"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AA=="}}),
                json!({"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "AA=="},
                    "title": "a.pdf"}),
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
