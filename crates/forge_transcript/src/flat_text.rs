//! A content as one text, with marks for anything that is not text.

use forge_domain::{Content, Part};
use serde_json::{Map, Value};

use crate::arguments::print_json;

/// The mark for an image or a document.
pub(crate) const IMAGE: &str = "[image]";
/// The text in place of a result that was never recorded.
pub(crate) const NO_RESULT: &str = "[no result recorded]";

/// Returns the texts of `content`, one per line, without the empty ones.
pub(crate) fn flat_text(content: &Content) -> String {
    match content {
        Content::Text(text) => text.clone(),
        Content::Parts(parts) => lines(parts.iter().map(|part| match part {
            Part::Text(text) => text.clone(),
            Part::Media(value) => flat_value(value),
        })),
    }
}

/// Returns the text of a JSON value: a text itself, a list's lines, an object's value under its usual keys,
/// else its JSON.
pub(crate) fn flat_value(value: &Value) -> String {
    let fields = match value {
        Value::Null => return String::new(),
        Value::String(text) => return text.clone(),
        Value::Array(items) => return lines(items.iter().map(flat_value)),
        Value::Object(fields) => fields,
        Value::Bool(flag) => return if *flag { "True" } else { "False" }.to_owned(),
        Value::Number(number) => return print_json(&number.to_string()).unwrap_or_default(),
    };
    if is_image(fields) {
        return IMAGE.to_owned();
    }
    let said = ["text", "content", "output", "value"]
        .iter()
        .find_map(|key| fields.get(*key).filter(|said| !said.is_number() && !said.is_boolean()));
    match said {
        Some(said) => flat_value(said),
        None => print_json(&value.to_string()).unwrap_or_default(),
    }
}

/// Checks whether an object is an image or a document, whose data are not words.
pub(crate) fn is_image(fields: &Map<String, Value>) -> bool {
    let kind = fields.get("type").and_then(Value::as_str).unwrap_or_default();
    kind.contains("image") || kind == "document" || fields.contains_key("inlineData")
}

/// Checks whether `text` has no visible characters. Python, by which the normal form is defined, also counts
/// the separators of ASCII.
pub(crate) fn is_blank(text: &str) -> bool {
    text.chars().all(|c| c.is_whitespace() || ('\x1c'..='\x1f').contains(&c))
}

fn lines(texts: impl Iterator<Item = String>) -> String {
    texts.filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn every_value_says_something() {
        for (value, expected) in [
            (json!(null), ""),
            (json!("a\n"), "a\n"),
            (json!(["a", "", null, "b"]), "a\nb"),
            (json!({"type": "text", "text": "a"}), "a"),
            (json!({"type": "text", "text": null}), ""),
            (json!({"type": "image", "source": {}}), "[image]"),
            (json!({"type": "image_url", "text": "a"}), "[image]"),
            (json!({"type": "document"}), "[image]"),
            (json!({"inlineData": 1}), "[image]"),
            (json!({"content": [{"text": "a"}, {"output": "b"}]}), "a\nb"),
            (json!({"text": 1, "value": "a"}), "a"),
            (json!({"other": [1.0, true]}), r#"{"other": [1.0, true]}"#),
            (json!([true, 1, 1e-7]), "True\n1\n1e-07"),
        ] {
            assert_eq!(flat_value(&value), expected, "{value}");
        }
    }
}
