//! Calls inside of a call: some agents write a script that calls their tools, as in
//! `const r = await tools.exec_command({cmd: "make"})`.

use serde_json::Value;

use crate::ToolCall;
use crate::compaction::arguments::COMMANDS;

/// The object whose functions are the tools.
const TOOLS: &str = "tools.";

/// Most calls that are read in a script.
const MOST: usize = 16;

/// Returns the tool and the arguments of the calls in a script that is all that `call` has; `None` if it has
/// none, or several of different tools. Several commands are one of several lines, and so are patches.
pub(super) fn call_in_script(call: &ToolCall, arguments: &Value) -> Option<(String, Value)> {
    // The tool that runs a script has no other name.
    let fields = arguments.as_object().filter(|fields| call.name.as_str() == "exec" && fields.len() == 1)?;
    let (name, script) = fields.iter().next()?;
    let script = script.as_str().filter(|_| !COMMANDS.contains(&name.as_str()))?;
    let calls = calls(script);
    let ((tool, first), others) = calls.split_first()?;
    if others.is_empty() {
        return Some((tool.clone(), first.clone()));
    }
    let texts = |of: &dyn Fn(&Value) -> Option<String>| {
        let texts = calls.iter().map(|(name, arguments)| of(arguments).filter(|_| name == tool));
        texts.collect::<Option<Vec<String>>>().map(|texts| texts.join("\n"))
    };
    let command = |arguments: &Value| Some(arguments.get("cmd")?.as_str()?.to_owned());
    let together = match texts(&command) {
        Some(commands) => {
            let mut together = first.clone();
            together["cmd"] = commands.into();
            together
        }
        None => texts(&|arguments| arguments.as_str().map(str::to_owned))?.into(),
    };
    Some((tool.clone(), together))
}

/// Returns the calls in a script, each with its tool and its only argument.
fn calls(script: &str) -> Vec<(String, Value)> {
    let is_of_name = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.');
    let begins = script.match_indices(TOOLS).filter(|(at, _)| !script[..*at].ends_with(is_of_name));
    let read = |(at, _): (usize, &str)| {
        let rest = &script[at + TOOLS.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_')?;
        let (tool, rest) = rest.split_at(end);
        let literal = rest.strip_prefix('(')?.trim_start();
        let literal = Some(literal).filter(|literal| literal.starts_with(['{', '"', '\'', '`']))?;
        Some((tool.to_owned(), serde_json::from_str(&as_json(literal)?).ok()?))
    };
    begins.take(MOST).filter_map(read).collect()
}

/// Returns the object or text that a script begins with as JSON; `None` if it has anything but plain values.
fn as_json(literal: &str) -> Option<String> {
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
            return Some(json);
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
            (
                "tools.exec_command({cmd: \"ls\"}); tools.exec_command({cmd: \"make\"})",
                Some(("exec_command", json!({"cmd": "ls\nmake"}))),
            ),
            ("tools.exec_command({cmd: \"ls\"}); tools.apply_patch(\"a\")", None),
            ("itertools.repeat(1); mytools.exec_command({cmd: \"ls\"})", None),
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
