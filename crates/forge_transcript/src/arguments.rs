//! The arguments of a tool call in normal form: one JSON object, printed one way.
//!
//! The form is that of Python's `json.dumps(..., ensure_ascii=False)`, in which the common agents and the
//! measurements of this project write arguments; token counts depend on it to the space.

use std::collections::HashMap;
use std::fmt;

use serde::Deserializer;
use serde::de::{MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::json_text::repair_text;

/// Nesting beyond which arguments are taken as text.
const DEPTH: usize = 256;

/// Prints `arguments` again if they are a JSON object; otherwise returns an object with them, as text, under
/// `input`.
pub(crate) fn normal_arguments(arguments: &str) -> String {
    let object = arguments.trim_start().starts_with('{').then(|| print_json(arguments)).flatten();
    object.unwrap_or_else(|| format!("{{\"input\": {}}}", quote(arguments)))
}

/// Prints the JSON value in `text` again; returns `None` if it is not JSON.
pub(crate) fn print_json(text: &str) -> Option<String> {
    let text = repair_text(text);
    let value: &RawValue = serde_json::from_str(&text).ok()?;
    let mut out = String::with_capacity(text.len());
    print(value.get(), DEPTH, &mut out)?;
    Some(out)
}

/// Prints `value`, the text of one JSON value. Working on the text keeps numbers of any size.
fn print(value: &str, depth: usize, out: &mut String) -> Option<()> {
    let depth = depth.checked_sub(1)?;
    match value.as_bytes().first()? {
        b'{' => {
            let Fields(fields) =
                serde_json::Deserializer::from_str(value).deserialize_map(FieldsVisitor).ok()?;
            out.push('{');
            for (n, (key, value)) in fields.into_iter().enumerate() {
                out.push_str(if n == 0 { "" } else { ", " });
                out.push_str(&quote(&key));
                out.push_str(": ");
                print(value.get(), depth, out)?;
            }
            out.push('}');
        }
        b'[' => {
            let items: Vec<&RawValue> = serde_json::from_str(value).ok()?;
            out.push('[');
            for (n, item) in items.into_iter().enumerate() {
                out.push_str(if n == 0 { "" } else { ", " });
                print(item.get(), depth, out)?;
            }
            out.push(']');
        }
        b'"' => out.push_str(&quote(&serde_json::from_str::<String>(value).ok()?)),
        b't' | b'f' | b'n' => out.push_str(value),
        _ => out.push_str(&number(value)?),
    }
    Some(())
}

/// Returns `text` as a JSON string, escaping only what must be escaped.
fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// Formats a number's text as Python does: whole numbers unchanged, others as the shortest that reads the
/// same, with an exponent from 1e16 on and below 1e-4.
fn number(text: &str) -> Option<String> {
    if !text.contains(['.', 'e', 'E']) {
        return Some(if text == "-0" { "0" } else { text }.to_owned());
    }
    let value: f64 = text.parse().ok()?;
    if value.is_infinite() {
        return Some(if value < 0.0 { "-Infinity" } else { "Infinity" }.to_owned());
    }
    let scientific = format!("{value:e}");
    let (mantissa, exponent) = scientific.split_once('e')?;
    let exponent: i32 = exponent.parse().ok()?;
    if (-4..16).contains(&exponent) {
        let plain = value.to_string();
        return Some(if plain.contains('.') { plain } else { format!("{plain}.0") });
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    Some(format!("{mantissa}e{sign}{:02}", exponent.abs()))
}

/// Returns the fields of the JSON object in `text`, each with the text of its value; `None` if it is not an
/// object.
pub(crate) fn fields(text: &str) -> Option<Vec<(String, &RawValue)>> {
    object_fields(text).ok()
}

/// Returns the fields of the JSON object that `text` is, each with the text of its value.
pub(crate) fn object_fields(text: &str) -> Result<Vec<(String, &RawValue)>, serde_json::Error> {
    let mut parser = serde_json::Deserializer::from_str(text);
    let Fields(fields) = parser.deserialize_map(FieldsVisitor)?;
    parser.end()?;
    Ok(fields)
}

/// The fields of an object, each key once: at its first position, with its last value.
struct Fields<'a>(Vec<(String, &'a RawValue)>);

struct FieldsVisitor;

impl<'de> Visitor<'de> for FieldsVisitor {
    type Value = Fields<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields<'de>, A::Error> {
        let mut fields: Vec<(String, &RawValue)> = Vec::new();
        let mut places: HashMap<String, usize> = HashMap::new();
        while let Some((key, value)) = map.next_entry::<String, &RawValue>()? {
            let place = *places.entry(key.clone()).or_insert(fields.len());
            match fields.get_mut(place) {
                Some(field) => field.1 = value,
                None => fields.push((key, value)),
            }
        }
        Ok(Fields(fields))
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn objects_are_printed_one_way() {
        for (arguments, expected) in [
            ("{}", "{}"),
            (" {\"a\":1,\"b\":[true,null,\"x\"]}\n", r#"{"a": 1, "b": [true, null, "x"]}"#),
            (r#"{"a":{"b":{}},"c":[]}"#, r#"{"a": {"b": {}}, "c": []}"#),
            (r#"{"a":"\u00e9\/\t\u001f\u007f\ud83d"}"#, "{\"a\": \"é/\\t\\u001f\u{7f}\u{fffd}\"}"),
            (r#"{"a":1,"b":2,"a":3}"#, r#"{"a": 3, "b": 2}"#),
            (r#"{"a":123456789012345678901234567890}"#, r#"{"a": 123456789012345678901234567890}"#),
            (r#"{"a":-0,"b":-0.0,"c":0e0}"#, r#"{"a": 0, "b": -0.0, "c": 0.0}"#),
        ] {
            assert_eq!(normal_arguments(arguments), expected);
        }
    }

    #[test]
    fn numbers_are_printed_as_python_does() {
        for (text, expected) in [
            ("1.0", "1.0"),
            ("1.50", "1.5"),
            ("1e3", "1000.0"),
            ("0.0001", "0.0001"),
            ("0.00001", "1e-05"),
            ("1.25E-7", "1.25e-07"),
            ("1e15", "1000000000000000.0"),
            ("1e16", "1e+16"),
            ("-1.5e300", "-1.5e+300"),
            ("9007199254740993.0", "9007199254740992.0"),
            ("0.1", "0.1"),
            ("1e999", "Infinity"),
            ("5e-324", "5e-324"),
        ] {
            assert_eq!(print_json(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_object_is_wrapped() {
        let deep = format!("{{\"a\": {}{}}}", "[".repeat(1000), "]".repeat(1000));
        let wrapped_deep = format!("{{\"input\": {}}}", quote(&deep));
        for (arguments, expected) in [
            ("", r#"{"input": ""}"#),
            ("[1]", r#"{"input": "[1]"}"#),
            ("ls \"-l\"", r#"{"input": "ls \"-l\""}"#),
            (r#"{"a": 1"#, r#"{"input": "{\"a\": 1"}"#),
            (deep.as_str(), wrapped_deep.as_str()),
        ] {
            assert_eq!(normal_arguments(arguments), expected);
        }
    }
}
