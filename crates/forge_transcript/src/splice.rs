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

/// Writes a list in place of `old`: on one line if that was, since a file may have a record a line.
pub(crate) fn list_like(old: &str, entries: &[String]) -> String {
    if old.contains('\n') { list(entries) } else { format!("[{}]", entries.join(",")) }
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

    #[test]
    fn a_list_on_one_line_stays_on_it() {
        let entries = ["1".to_owned(), "2".to_owned()];
        for (old, expected) in [("[7, 8]", "[1,2]"), ("[]", "[1,2]"), ("[\n7\n]", "[\n1,\n2\n]")] {
            assert_eq!(list_like(old, &entries), expected);
        }
    }
}
