//! The JSON or the tags that some harnesses put around the output of a tool.

use std::borrow::Cow;

use serde_json::Value;

/// The names under which harnesses put the output of a tool, and how its call went.
const OUTPUTS: &[&str] = &["output", "stdout", "result"];
const COURSES: &[&str] =
    &["exit_code", "exitCode", "returncode", "duration", "duration_ms", "duration_seconds", "wall_time"];

/// The marks before and after a text that a tag holds as it is.
const TEXT: [&str; 2] = ["<![CDATA[", "]]>"];

/// Returns the text in a JSON envelope; the envelope's other values follow it, a line each. JSON counts as an
/// envelope if a text of several lines makes up most of it, or if one of its fields is named as the output.
/// Of tags around marked texts, the texts are left. Anything else is returned unchanged.
pub(crate) fn unwrapped(text: Cow<'_, str>) -> Cow<'_, str> {
    if text.trim_start().starts_with('<') && text.contains(TEXT[0]) {
        return in_tags(&text).map_or(text, Cow::Owned);
    }
    let names_output = || OUTPUTS.iter().any(|name| text.contains(&format!("\"{name}\"")));
    if !text.trim_start().starts_with(['{', '[']) || !text.contains("\\n") && !names_output() {
        return text;
    }
    let Ok(value) = serde_json::from_str::<Value>(&text) else { return text };
    let has_output = OUTPUTS.iter().any(|name| value.get(name).is_some_and(Value::is_string));
    let mut inside = Inside { has_output, ..Inside::default() };
    inside.take("", &value);
    if inside.blocks.len() * 2 < text.len() && !has_output {
        return text;
    }
    Cow::Owned(inside.blocks + &inside.rest)
}

/// Returns the marked texts in tags; `None` if anything but tags is around them.
fn in_tags(text: &str) -> Option<String> {
    let mut inside = String::new();
    let mut rest = text;
    loop {
        let (tags, after) = rest.split_once(TEXT[0]).unwrap_or((rest, ""));
        let tags = tags.trim();
        if !(tags.is_empty() || tags.starts_with('<') && tags.ends_with('>')) {
            return None;
        }
        if after.is_empty() {
            return (!inside.is_empty()).then_some(inside);
        }
        let (said, after) = after.split_once(TEXT[1]).unwrap_or((after, ""));
        inside.push_str(said.trim_end());
        inside.push('\n');
        rest = after;
    }
}

/// The values of an envelope.
#[derive(Default)]
struct Inside {
    has_output: bool,
    /// Those of several lines, and the output.
    blocks: String,
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
            }
            Value::String(line) if !line.trim().is_empty() => self.tell(name, line.trim()),
            // The exit code and the duration are told with the call.
            Value::Number(_) if self.has_output && COURSES.contains(&name) => {}
            Value::Bool(_) | Value::Number(_) => self.tell(name, &value.to_string()),
            Value::String(_) | Value::Null => {}
        }
    }

    fn tell(&mut self, name: &str, value: &str) {
        self.rest.push_str(&format!("{name}: {value}\n"));
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
                r#"{"output":"first line\nsecond\tline\n","metadata":{"exit_code":0,"duration_seconds":0.1}}"#,
                "first line\nsecond\tline\n",
            ),
            (
                r#"[{"n":1,"type":"text","text":"a long first line\nand a long second line"}]"#,
                "a long first line\nand a long second line\nn: 1\ntype: text\n",
            ),
            (r#"{"output":"one line","ok":true}"#, "one line\nok: true\n"),
            (r#"{"result":"found","price":400}"#, "found\nprice: 400\n"),
            (r#"{"stdout":"","stderr":"no such file","exit_code":1}"#, "\nstderr: no such file\n"),
            (r#"{"order":"one line","ok":true}"#, r#"{"order":"one line","ok":true}"#),
            (
                r#"{"orders":[4711,4712,4713,4714,4715,4716],"note":"a\nb"}"#,
                r#"{"orders":[4711,4712,4713,4714,4715,4716],"note":"a\nb"}"#,
            ),
            ("{ not JSON \\n", "{ not JSON \\n"),
            (
                "<shell\n command=\"make\"\n exit_code=\"2\"\n><stdout><![CDATA[one\ntwo\n]]></stdout>\n<stderr><![CDATA[no rule]]></stderr></shell>",
                "one\ntwo\nno rule\n",
            ),
            ("<file><![CDATA[cut off", "cut off\n"),
            ("<p>See <![CDATA[a]]> here</p>", "<p>See <![CDATA[a]]> here</p>"),
            ("plain\ntext", "plain\ntext"),
        ] {
            assert_eq!(unwrapped(Cow::Borrowed(text)), expected, "{text}");
        }
    }
}
