//! Calls inside of a call: some agents write a script that calls their tools, as in
//! `const r = await tools.exec_command({cmd: "make"})`.

use std::borrow::Cow;

use serde_json::Value;

use crate::ToolCall;

/// The object whose functions are the tools.
const TOOLS: &str = "tools.";

/// Returns the tool and the arguments of the first call in a script that is all that `call` has; `None` if it
/// has no such script.
pub(super) fn call_in_script(call: &ToolCall, arguments: &Value) -> Option<(String, Value)> {
    // The tool that runs a script has no other name.
    if call.name.as_str() != "exec" {
        return None;
    }
    let fields = arguments.as_object()?;
    let script = fields.values().find_map(|value| value.as_str().filter(|text| text.contains(TOOLS)))?;
    script.match_indices(TOOLS).find_map(|(at, _)| {
        let rest = &script[at + TOOLS.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let (tool, rest) = rest.split_at(end);
        let literal = rest.strip_prefix('(')?.trim_start();
        Some((tool.to_owned(), serde_json::from_str(&as_json(literal)?).ok()?))
    })
}

/// Returns the object or text that a script begins with as JSON; `None` if it has anything but plain values.
fn as_json(literal: &str) -> Option<Cow<'_, str>> {
    let mut json = String::new();
    let mut depth = 0;
    let mut rest = literal;
    loop {
        let c = rest.chars().next()?;
        match c {
            '"' | '\'' | '`' => {
                let (text, after) = quoted(rest, c)?;
                json.push_str(&text);
                rest = after;
            }
            '{' | '[' => {
                depth += 1;
                json.push(c);
                rest = &rest[1..];
            }
            '}' | ']' => {
                depth -= 1;
                // A comma may come before it.
                while json.ends_with([',', ' ', '\n']) {
                    json.pop();
                }
                json.push(c);
                rest = &rest[1..];
            }
            c if c.is_ascii_alphabetic() || c == '_' => {
                let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
                let (word, after) = rest.split_at(end);
                let is_key = after.trim_start().starts_with(':');
                json.push_str(&if is_key { format!("\"{word}\"") } else { word.to_owned() });
                rest = after;
            }
            c => {
                json.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
        if depth == 0 {
            return Some(Cow::Owned(json));
        }
    }
}

/// Returns the text in quotes with which `rest` begins as one of JSON, and what follows it.
fn quoted(rest: &str, quote: char) -> Option<(String, &str)> {
    let mut text = String::new();
    let mut chars = rest.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => match chars.next()?.1 {
                'n' => text.push('\n'),
                't' => text.push('\t'),
                'r' => text.push('\r'),
                other => text.push(other),
            },
            c if c == quote => return Some((Value::from(text).to_string(), &rest[at + c.len_utf8()..])),
            c => text.push(c),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;
    use crate::ToolName;

    #[test]
    fn a_call_in_a_script_is_read() {
        let read = |tool: &str, script: &str| {
            let arguments = json!({ "input": script });
            let name = ToolName::new(tool).unwrap();
            let call = ToolCall { id: "c".into(), name, arguments: arguments.to_string() };
            call_in_script(&call, &arguments)
        };
        for (script, expected) in [
            (
                "const r = await tools.exec_command({cmd:\"make -C a \\\"b\\\"\",\"workdir\":'/w', n: 5,}); text(r.output)",
                Some(("exec_command", json!({"cmd": "make -C a \"b\"", "workdir": "/w", "n": 5}))),
            ),
            (
                "await tools.write_stdin({session_id:7,chars:\"\"})",
                Some(("write_stdin", json!({"session_id": 7, "chars": ""}))),
            ),
            ("tools.apply_patch(`*** Begin Patch\nä`)", Some(("apply_patch", json!("*** Begin Patch\nä")))),
            (
                "tools.update_plan({plan:[{step:\"one\",status:\"done\"}]})",
                Some(("update_plan", json!({"plan": [{"step": "one", "status": "done"}]}))),
            ),
            ("tools.exec_command({cmd: name})", None),
            ("tools.exec_command({cmd: \"ä", None),
            ("1 + 1", None),
        ] {
            let expected = expected.map(|(tool, arguments)| (tool.to_owned(), arguments));
            assert_eq!(read("exec", script), expected, "{script}");
        }
        assert_eq!(read("run", "tools.exec_command({cmd:\"ls\"})"), None);
    }
}
