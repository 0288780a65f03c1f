//! The JSON that some harnesses put around the output of a tool.

use std::borrow::Cow;

use serde_json::Value;

/// The names under which harnesses put the output of a tool.
const OUTPUTS: &[&str] = &["output", "stdout", "result"];

/// Returns the text in a JSON envelope, with what else the envelope says below it, a line for each value. A
/// text that is no envelope is returned as it is: most of one is a text of several lines, or it has a name
/// for the output.
pub(crate) fn unwrapped(text: Cow<'_, str>) -> Cow<'_, str> {
    let names_output = || OUTPUTS.iter().any(|name| text.contains(&format!("\"{name}\"")));
    if !text.trim_start().starts_with(['{', '[']) || !text.contains("\\n") && !names_output() {
        return text;
    }
    let Ok(value) = serde_json::from_str::<Value>(&text) else { return text };
    let mut inside = Inside::default();
    inside.take("", &value);
    if inside.blocks.len() * 2 < text.len() && !inside.has_output {
        return text;
    }
    Cow::Owned(inside.blocks + &inside.rest)
}

/// The values of an envelope.
#[derive(Default)]
struct Inside {
    /// Those of several lines, and the output.
    blocks: String,
    has_output: bool,
    /// The others, with their names.
    rest: String,
}

impl Inside {
    fn take(&mut self, name: &str, value: &Value) {
        match value {
            Value::Object(fields) => fields.iter().for_each(|(name, value)| self.take(name, value)),
            Value::Array(values) => values.iter().for_each(|value| self.take(name, value)),
            Value::String(block) if block.trim().contains('\n') || OUTPUTS.contains(&name) => {
                self.blocks.push_str(block.trim_end());
                self.blocks.push('\n');
                self.has_output |= OUTPUTS.contains(&name);
            }
            Value::String(line) => self.rest.push_str(&format!("{name}: {}\n", line.trim())),
            Value::Bool(_) | Value::Number(_) => self.rest.push_str(&format!("{name}: {value}\n")),
            Value::Null => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_text_in_an_envelope_is_read_and_data_stays_data() {
        for (text, expected) in [
            (
                r#"{"output":"first line\nsecond\tline\n","metadata":{"exit_code":0,"seconds":0.1}}"#,
                "first line\nsecond\tline\nexit_code: 0\nseconds: 0.1\n",
            ),
            (
                r#"[{"type":"text","text":"a long first line\nand a long second line"}]"#,
                "a long first line\nand a long second line\ntype: text\n",
            ),
            (r#"{"output":"one line","ok":true}"#, "one line\nok: true\n"),
            (r#"{"order":"one line","ok":true}"#, r#"{"order":"one line","ok":true}"#),
            (
                r#"{"orders":[4711,4712,4713,4714,4715,4716],"note":"a\nb"}"#,
                r#"{"orders":[4711,4712,4713,4714,4715,4716],"note":"a\nb"}"#,
            ),
            ("{ not JSON \\n", "{ not JSON \\n"),
            ("plain\ntext", "plain\ntext"),
        ] {
            assert_eq!(unwrapped(Cow::Borrowed(text)), expected, "{text}");
        }
    }
}
