//! The calls in the scripts of newer versions of Codex, which call all other tools in code, as in
//! `const r = await tools.exec_command({cmd: "make"})`.

use serde_json::{Value, json};

use super::script_value::{
    BEFORE_PATTERN, Variables, behind_pattern, is_of_name, quoted, split_name, value, values_in,
    without_blank,
};
use crate::any_blocks::text_at;

/// The tool that runs a script.
const SCRIPT: &str = "exec";
/// The object whose functions are the tools.
const TOOLS: &str = "tools";
/// The arguments of a command, and of the folder in which it runs.
const COMMAND: &str = "cmd";
const FOLDER: &str = "workdir";

/// Most quotes that no other one closes, as in a regular expression. After each, the line is read again.
const MOST_OPEN: usize = 100;

/// Characters that continue a value as a part of another one.
const CONTINUES: [char; 16] =
    ['.', '+', '-', '*', '/', '%', '?', '&', '|', '<', '>', '=', '^', '[', '(', '`'];

/// Returns the calls in the script of `item` as a call of its own. Several commands of one folder are one of
/// several lines, and so are several texts for one tool. `None` if the script calls none, different tools, or
/// one with an argument that has to be computed.
pub(super) fn called_in_script(item: &Value) -> Option<Value> {
    let code = Some(text_at(item, "/input")).filter(|_| text_at(item, "/name") == SCRIPT)?;
    let mut script = Script::default();
    script.read(code)?;
    let (tool, argument) = as_one(&script.calls)?;
    let arguments = if argument.is_object() { argument } else { json!({ "input": argument }) };
    Some(json!({"type": "function_call", "call_id": item["call_id"], "name": tool, "arguments": arguments}))
}

/// Returns calls of one tool as one.
fn as_one<'s>(calls: &[(&'s str, Value)]) -> Option<(&'s str, Value)> {
    let ((tool, first), others) = calls.split_first()?;
    if others.is_empty() {
        return Some((*tool, first.clone()));
    }
    if others.iter().any(|(other, argument)| other != tool || argument.get(FOLDER) != first.get(FOLDER)) {
        return None;
    }
    let Some(commands) = lines(calls, |argument| argument.get(COMMAND)?.as_str()) else {
        return Some((*tool, lines(calls, Value::as_str)?.into()));
    };
    let mut one = first.clone();
    one[COMMAND] = commands.into();
    Some((*tool, one))
}

/// Returns a text of each call, a line each; `None` if one has none.
fn lines(calls: &[(&str, Value)], text: fn(&Value) -> Option<&str>) -> Option<String> {
    let texts = calls.iter().map(|(_, argument)| text(argument));
    texts.collect::<Option<Vec<_>>>().map(|texts| texts.join("\n"))
}

/// A script, as far as it was read.
#[derive(Default)]
struct Script<'s> {
    variables: Variables<'s>,
    /// The calls of tools, each with its argument.
    calls: Vec<(&'s str, Value)>,
    /// The number of quotes that no other one closes.
    n_open: usize,
}

impl<'s> Script<'s> {
    /// Reads `code`; returns `None` if the argument of a call has to be computed, or if it is no script.
    fn read(&mut self, code: &'s str) -> Option<()> {
        let mut rest = code;
        let mut before = ';';
        loop {
            rest = without_blank(rest);
            let Some(c) = rest.chars().next() else { return Some(()) };
            let after = &rest[c.len_utf8()..];
            rest = match c {
                '"' | '\'' | '`' => match quoted(rest) {
                    Some((_, behind)) => {
                        let inside = &after[..after.len() - behind.len() - 1];
                        // The values in a template are code.
                        for code in values_in(inside).filter(|_| c == '`') {
                            self.read(code)?;
                        }
                        behind
                    }
                    None => {
                        self.n_open += 1;
                        if self.n_open > MOST_OPEN {
                            return None;
                        }
                        after
                    }
                },
                '/' if BEFORE_PATTERN.contains(before) => behind_pattern(after),
                c if is_of_name(c) => self.read_word(rest, before)?,
                _ => after,
            };
            before = c;
        }
    }

    /// Reads the word with which `code` begins, behind the character `before`; returns the code to read next.
    fn read_word(&mut self, code: &'s str, before: char) -> Option<&'s str> {
        let (word, rest) = split_name(code);
        match word {
            _ if before == '.' => {}
            TOOLS => return self.read_call(rest),
            "const" | "let" | "var" => return Some(self.set(rest)),
            _ if is_changed(rest) => self.variables.set(word, None),
            _ => {}
        }
        Some(rest)
    }

    /// Reads the call behind the name of the object of tools; returns the code from its argument on.
    fn read_call(&mut self, code: &'s str) -> Option<&'s str> {
        let (tool, rest) = split_name(code.strip_prefix('.').unwrap_or_default());
        let Some(inside) = rest.strip_prefix('(').filter(|_| !tool.is_empty()) else { return Some(code) };
        let argument = self.argument(inside)?;
        self.calls.push((tool, argument));
        Some(inside)
    }

    /// Returns the only argument of a call, which `code` begins with.
    fn argument(&self, code: &'s str) -> Option<Value> {
        if without_blank(code).starts_with(')') {
            return Some(json!({}));
        }
        let (argument, rest) = value(code, &self.variables)?;
        let rest = without_blank(rest);
        let rest = rest.strip_prefix(',').map_or(rest, without_blank);
        rest.starts_with(')').then_some(argument)
    }

    /// Reads a variable and its value; returns the code from the value on.
    fn set(&mut self, code: &'s str) -> &'s str {
        let (name, rest) = split_name(without_blank(code));
        let Some(rest) = without_blank(rest).strip_prefix('=') else { return code };
        let read = value(rest, &self.variables);
        let read = read.filter(|(_, behind)| !without_blank(behind).starts_with(CONTINUES));
        self.variables.set(name, read.map(|(value, _)| value));
        rest
    }
}

/// Checks whether the variable before `code`, or a field of it, is set there.
fn is_changed(code: &str) -> bool {
    let rest = code.trim_start_matches(|c: char| is_of_name(c) || c == '.').trim_start();
    let rest = rest.strip_prefix('+').unwrap_or(rest);
    rest.strip_prefix('=').is_some_and(|rest| !rest.starts_with(['=', '>']))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    /// Returns the tool and the arguments that a script is read as.
    fn read(name: &str, script: &str) -> Option<(String, Value)> {
        let item = json!({"type": "custom_tool_call", "call_id": "c", "name": name, "input": script});
        let call = called_in_script(&item)?;
        assert_eq!((&call["type"], &call["call_id"]), (&json!("function_call"), &json!("c")));
        Some((call["name"].as_str()?.to_owned(), call["arguments"].clone()))
    }

    #[test]
    fn the_calls_in_a_script_are_one() {
        for (script, expected) in [
            (
                "const r = await tools.exec_command({cmd:\"make -C a \\\"b\\\"\",\"workdir\":'/w', n: 5,}); text(r.output)",
                Some(("exec_command", json!({"cmd": "make -C a \"b\"", "workdir": "/w", "n": 5}))),
            ),
            (
                "await tools.write_stdin({session_id:7,chars:\"\"})",
                Some(("write_stdin", json!({"session_id": 7, "chars": ""}))),
            ),
            (
                "tools.apply_patch(`*** Begin Patch\nä`)",
                Some(("apply_patch", json!({"input": "*** Begin Patch\nä"}))),
            ),
            (
                "tools.update_plan({plan:[{step:\"one\",status:\"done\"}]})",
                Some(("update_plan", json!({"plan": [{"step": "one", "status": "done"}]}))),
            ),
            (
                "tools.exec_command({cmd: \"ls\"}); tools.exec_command({cmd: \"make\"})",
                Some(("exec_command", json!({"cmd": "ls\nmake"}))),
            ),
            (
                "const patch = \"*** Begin Patch\\n+tools.a(b)\";\ntext(await tools.apply_patch(patch));",
                Some(("apply_patch", json!({"input": "*** Begin Patch\n+tools.a(b)"}))),
            ),
            (
                "const same={workdir:\"/w\",n:1};\nlet r=await tools.exec_command({...same,cmd:`a`});\n// then\nr=await tools.exec_command({...same,cmd:`b ${c}`},); text(/['\"]/.test(r))",
                Some(("exec_command", json!({"workdir": "/w", "n": 1, "cmd": "a\nb ${c}"}))),
            ),
            ("text(`${await tools.list()} it's`)", Some(("list", json!({})))),
            (
                "tools.exec_command({cmd: `a ${b ? `c ${d}` : \"`\"} e`})",
                Some(("exec_command", json!({"cmd": "a ${b ? `c ${d}` : \"`\"} e"}))),
            ),
            (
                "text(`${(await tools.list({a: `b ${1}`})).map(f => `- ${f.replace(/`/g, \"'\")} }`)}`)",
                Some(("list", json!({"a": "b ${1}"}))),
            ),
            ("await tools.a({\"b\":\"tools.c(\"});", Some(("a", json!({"b": "tools.c("})))),
            ("await tools.a({\"b\":\"tools.c(\"}); await tools.d({});", None),
            ("tools.exec_command({cmd: \"ls\"}); tools.apply_patch(\"a\")", None),
            ("tools.exec_command({cmd: \"ls\"}); tools.exec_command({cmd: \"ls\", workdir: \"/w\"})", None),
            ("tools.exec_command({cmd: \"ls\"}); tools.exec_command(name)", None),
            ("tools.write_stdin({chars: \"\"}); tools.write_stdin({chars: \"\"})", None),
            ("const a = \"b\".replace(\"b\", \"c\"); tools.apply_patch(a)", None),
            ("let a = {cmd: \"b\"}; a.cmd += \"c\"; tools.exec_command(a)", None),
            ("tools.exec_command({cmd: \"ls\"}, 1)", None),
            ("itertools.repeat(1); mytools.exec_command({cmd: \"ls\"})", None),
            ("tools.exec_command({cmd: name})", None),
            ("tools.exec_command({cmd: \"ä", None),
            ("text(ALL_TOOLS); tools", None),
            ("1 + 1", None),
        ] {
            let expected = expected.map(|(tool, arguments)| (tool.to_owned(), arguments));
            assert_eq!(read("exec", script), expected, "{script}");
        }
        assert_eq!(read("run", "tools.exec_command({cmd:\"ls\"})"), None);
    }

    #[test]
    fn a_script_that_stands_for_too_much_is_not_read() {
        let last = |first: &str, next: fn(usize) -> String, n: usize| {
            let lines: String = (1..n).map(next).collect();
            format!("const a0 = {first};{lines}tools.f({{cmd: a{}}})", n - 1)
        };
        let twice: fn(usize) -> String = |n| format!("const a{n} = [...a{0}, ...a{0}];", n - 1);
        let inside: fn(usize) -> String = |n| format!("const a{n} = [a{}];", n - 1);
        for (next, few, many) in [(twice, 8, 99), (inside, 8, 9_999)] {
            assert!(read("exec", &last("[1]", next, few)).is_some());
            assert_eq!(read("exec", &last("[1]", next, many)), None);
        }
        let nested = |n: usize| format!("tools.f({}{})", "`${".repeat(n), "}`".repeat(n));
        assert!(read("exec", &nested(8)).is_some());
        assert_eq!(read("exec", &nested(9_999)), None);
        assert_eq!(read("exec", &format!("\"{}; tools.f()", "\\\"".repeat(9_999))), None);
    }
}
