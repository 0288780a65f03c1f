//! Replaces a part of a text, and leaves everything else byte for byte.

use crate::arguments::fields;

/// Returns `text`, a JSON object, with `value` as the new value of `key`; `None` if the key is missing.
pub(crate) fn with_field(text: &str, key: &str, value: &str) -> Option<String> {
    let fields = fields(text)?;
    let (_, old) = fields.iter().find(|(name, _)| name == key)?;
    splice(text, old.get(), value)
}

/// Returns `text` with `new` in place of `part`, which is a slice of it.
pub(crate) fn splice(text: &str, part: &str, new: &str) -> Option<String> {
    let start = (part.as_ptr() as usize).checked_sub(text.as_ptr() as usize)?;
    let end = start.checked_add(part.len()).filter(|end| *end <= text.len())?;
    Some(format!("{}{new}{}", text.get(..start)?, text.get(end..)?))
}

/// Returns the text of the value under `key` of the JSON object `text`.
pub(crate) fn field<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    fields(text)?.into_iter().find(|(name, _)| name == key).map(|(_, value)| value.get())
}

/// Writes a list with one entry a line.
pub(crate) fn list(entries: &[String]) -> String {
    if entries.is_empty() { "[]".to_owned() } else { format!("[\n{}\n]", entries.join(",\n")) }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn only_the_value_changes() {
        for (text, expected) in [
            (r#"{"a":1, "b" : [ "x\u0041" ],"c":null}"#, Some(r#"{"a":1, "b" : 7,"c":null}"#)),
            (r#"{"a":{"b":1}}"#, None),
            ("[]", None),
        ] {
            assert_eq!(with_field(text, "b", "7").as_deref(), expected);
        }
    }
}
