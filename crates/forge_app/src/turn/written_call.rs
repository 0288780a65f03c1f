//! Calls that a model wrote into its text instead of making them: small models do, and servers without the
//! right template pass them on as text.

use forge_domain::{ToolDefinition, ToolName};
use serde_json::{Deserializer, Map, Value};

/// The keys of the tool's name, and of its arguments, in the forms that models were taught.
const NAMES: [&str; 4] = ["name", "tool", "tool_name", "function"];
const ARGUMENTS: [&str; 5] = ["arguments", "parameters", "input", "args", "tool_input"];

/// The tags with which calls begin in the formats that models were taught. A server whose parser fails, or
/// that has none, passes them on. They count at the beginning of a line, unless a sentence about them
/// follows.
const TAGS: [&str; 12] = [
    "<tool_call>",
    "<tool_calls>",
    "<|tool_call",
    "<｜tool▁call",
    "<｜DSML｜",
    "[TOOL_CALLS]",
    "<function_call>",
    "<function_calls>",
    "<start_function_call>",
    "<|tools_prefix|>",
    "<|python_tag|>",
    "<|channel|>commentary to=",
];

/// A call in a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WrittenCall<'a> {
    /// Of this tool.
    Of(&'a ToolName),
    /// Of a tool that is not there.
    Unnamed,
}

/// Returns the first call in `text`: JSON that names one of `tools` with arguments that it takes, a tag of
/// its name, or another form of a call outside of code blocks.
pub(super) fn written_call<'a>(text: &str, tools: &'a [ToolDefinition]) -> Option<WrittenCall<'a>> {
    if tools.is_empty() {
        return None;
    }
    if let Some(tool) = call_in_json(text, tools).or_else(|| call_in_tool_code(text, tools)) {
        return Some(WrittenCall::Of(tool));
    }
    rests(text).find_map(|rest| {
        let tool = tools.iter().find(|tool| begins_call(rest, tool.name.as_str()));
        match tool {
            Some(tool) => Some(WrittenCall::Of(&tool.name)),
            None => begins_tag(rest).then(|| first_named(rest, tools)),
        }
    })
}

/// Returns the tool that JSON in `text` calls, or a tag of its name.
fn call_in_json<'a>(text: &str, tools: &'a [ToolDefinition]) -> Option<&'a ToolName> {
    let in_tag = tools.iter().find(|tool| text.contains(&format!("<function={}>", tool.name)));
    if let Some(tool) = in_tag {
        return Some(&tool.name);
    }
    let mut rest = text;
    while let Some(at) = rest.find('{') {
        rest = &rest[at..];
        let mut objects = Deserializer::from_str(rest).into_iter::<Map<String, Value>>();
        match objects.next() {
            Some(Ok(object)) => {
                if let Some(tool) = called(&object, tools) {
                    return Some(tool);
                }
                rest = &rest[objects.byte_offset()..];
            }
            _ => rest = &rest[1..],
        }
    }
    None
}

/// Returns the tool that the first code block for calls (Gemma's `tool_code`) calls.
fn call_in_tool_code<'a>(text: &str, tools: &'a [ToolDefinition]) -> Option<&'a ToolName> {
    let code = text.split("```tool_code").nth(1)?.split("```").next()?;
    let tool = tools.iter().find(|tool| place_of(code, &format!("{}(", tool.name)).is_some());
    tool.map(|tool| &tool.name)
}

/// Returns the rest of `text` from each line on that is not code.
fn rests(text: &str) -> impl Iterator<Item = &str> {
    let (mut at, mut open) = (0_usize, None::<&str>);
    text.split_inclusive('\n').filter_map(move |line| {
        let rest = &text[at..];
        at += line.len();
        match (open, fence(line)) {
            (None, None) => {
                let is_indented = line.starts_with("    ") || line.starts_with('\t');
                return (!is_indented).then_some(rest);
            }
            (None, Some((marks, _))) => open = Some(marks),
            (Some(begun), Some((marks, ""))) if marks.starts_with(begun) => open = None,
            (Some(_), _) => {}
        }
        None
    })
}

/// Returns the marks of a line that begins or ends a code block, and what follows them.
fn fence(line: &str) -> Option<(&str, &str)> {
    let line = line.trim();
    let mark = line.chars().next().filter(|mark| matches!(mark, '`' | '~'))?;
    let rest = line.trim_start_matches(mark);
    let marks = &line[..line.len() - rest.len()];
    (marks.len() >= 3 && !rest.contains(mark)).then_some((marks, rest))
}

/// Checks whether the first line of `rest` begins a call of the tool of that name.
fn begins_call(rest: &str, name: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default().trim();
    let is_action = |line: &str| {
        let tool = line.strip_prefix("Action:").map(|tool| tool.trim().trim_matches('`'));
        tool == Some(name) && rest.lines().any(|line| line.trim_start().starts_with("Action Input:"))
    };
    let is_quoted = |at: usize| line[..at].ends_with(['`', '"', '\'', '“']);
    // gpt-oss: its arguments follow.
    let is_addressed = place_of(line, &format!("to=functions.{name}"))
        .is_some_and(|at| !is_quoted(at) && line[at..].contains('{'));
    line.starts_with(&format!("<invoke name=\"{name}\""))
        || line.strip_prefix(">>>") == Some(name)
        || is_action(line)
        || is_addressed
        || place_of(line, &format!("{name}[ARGS]{{")).is_some_and(|at| !is_quoted(at))
        || (rest.trim() == line && is_in_brackets(line, name))
}

/// Checks whether a line is a list of calls as in Python, the first of them of the tool of that name.
fn is_in_brackets(line: &str, name: &str) -> bool {
    let call = line.strip_prefix('[').and_then(|line| line.strip_suffix(")]"));
    let arguments = call.and_then(|call| call.strip_prefix(name)?.strip_prefix('('));
    // "[read(2)]" is a page of a manual.
    arguments.is_some_and(|arguments| arguments.is_empty() || arguments.contains('='))
}

/// Checks whether the first line of `rest` begins with a tag of calls.
fn begins_tag(rest: &str) -> bool {
    let line = rest.lines().next().unwrap_or_default().trim();
    // `<minimax:tool_call>`, `<seed:tool_call>`
    let is_of_vendor = || {
        let tag = line.strip_prefix('<').and_then(|line| line.split_once('>'));
        tag.is_some_and(|(tag, _)| tag.ends_with(":tool_call"))
    };
    // "<tool_call> is how Qwen begins one."
    let is_told_of =
        |rest: &str| rest.strip_prefix(' ').is_some_and(|rest| rest.starts_with(char::is_alphabetic));
    TAGS.iter().any(|tag| line.strip_prefix(tag).is_some_and(|rest| !is_told_of(rest))) || is_of_vendor()
}

/// Returns the call of the tool whose name comes first: it stands before the arguments.
fn first_named<'a>(text: &str, tools: &'a [ToolDefinition]) -> WrittenCall<'a> {
    let named = tools.iter().filter_map(|tool| Some((place_of(text, tool.name.as_str())?, &tool.name)));
    named.min_by_key(|(at, _)| *at).map_or(WrittenCall::Unnamed, |(_, name)| WrittenCall::Of(name))
}

/// Returns the place of `words` in `text`, not as a part of longer ones.
fn place_of(text: &str, words: &str) -> Option<usize> {
    let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | '-');
    text.match_indices(words).map(|(at, _)| at).find(|at| {
        let is_longer = words.ends_with(is_word) && text[at + words.len()..].starts_with(is_word);
        !is_longer && !text[..*at].ends_with(is_word)
    })
}

/// Returns the tool that an object, or one within it, calls.
fn called<'a>(object: &Map<String, Value>, tools: &'a [ToolDefinition]) -> Option<&'a ToolName> {
    let name = NAMES.iter().find_map(|key| object.get(*key)?.as_str());
    let arguments = ARGUMENTS.iter().find_map(|key| object.get(*key));
    if let (Some(name), Some(arguments)) = (name, arguments)
        && let Some(tool) = tools.iter().find(|tool| tool.name.as_str() == name && takes(tool, arguments))
    {
        return Some(&tool.name);
    }
    object.values().find_map(|value| match value {
        Value::Object(inner) => called(inner, tools),
        Value::Array(items) => items.iter().filter_map(Value::as_object).find_map(|item| called(item, tools)),
        _ => None,
    })
}

/// Checks whether a tool takes such arguments. A schema that describes the tool does not pass for a call.
fn takes(tool: &ToolDefinition, arguments: &Value) -> bool {
    let parsed = arguments.as_str().and_then(|text| serde_json::from_str::<Value>(text).ok());
    let Some(arguments) = parsed.as_ref().unwrap_or(arguments).as_object() else { return false };
    let known = tool.parameters.get("properties").and_then(Value::as_object);
    arguments.keys().all(|key| known.is_some_and(|known| known.contains_key(key)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn tool(name: &str, key: &str) -> ToolDefinition {
        ToolDefinition {
            name: ToolName::new(name).unwrap(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": {key: {"type": "string"}}}),
        }
    }

    /// Returns the name of the tool that is called, `?` for another one.
    fn name(call: Option<WrittenCall<'_>>) -> Option<&str> {
        call.map(|call| match call {
            WrittenCall::Of(tool) => tool.as_str(),
            WrittenCall::Unnamed => "?",
        })
    }

    #[test]
    fn a_call_in_a_text_is_known_by_its_tool_and_its_arguments() {
        let tools = [tool("shell", "command"), tool("read", "path")];
        for (text, expected) in [
            (r#"<tool_call>{"name": "shell", "arguments": {"command": "ls"}}</tool_call>"#, Some("shell")),
            (r#"[TOOL_CALLS][{"name": "read", "arguments": {"path": "a"}}]"#, Some("read")),
            ("```json\n{\"name\": \"shell\", \"parameters\": {\"command\": \"ls\"}}\n```", Some("shell")),
            (r#"I call {"function": {"name": "read", "arguments": "{\"path\": \"a\"}"}} now."#, Some("read")),
            (r#"{ a } and {"tool": "read", "args": {}}"#, Some("read")),
            ("<function=shell>\n<parameter=command>\nls\n</parameter>\n</function>", Some("shell")),
            (r#"{"name": "shell", "parameters": {"type": "object", "properties": {}}}"#, None),
            (r#"{"name": "list", "arguments": {"path": "a"}}"#, None),
            (r#"{"name": "shell", "path": "a"}"#, None),
            (r#"{"name": "shell", "arguments": {"command": "ls""#, None),
            ("fn a() { {{ b } }", None),
            ("The shell reads it.", None),
        ] {
            assert_eq!(name(written_call(text, &tools)), expected, "{text}");
        }
        assert_eq!(written_call("<tool_call>read", &[]), None);
    }

    #[test]
    fn every_form_that_models_were_taught_is_known() {
        let tools = [tool("shell", "command"), tool("read", "path")];
        for (text, expected) in [
            ("<tool_call>read\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>", "read"),
            ("<|channel|>commentary to=functions.read <|constrain|>json<|message|>{\"path\":\"a\"}", "read"),
            ("analysisWe need it.commentary to=functions.read json{\"path\":\"a\"}", "read"),
            ("<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>read<｜tool▁sep｜>{\"path\": \"a\"}", "read"),
            ("<｜DSML｜function_calls>\n<｜DSML｜invoke name=\"read\">", "read"),
            ("<|tool_calls_section_begin|><|tool_call_begin|>functions.read:0", "read"),
            ("I look.\n<function_calls>\n<invoke name=\"read\">\n<parameter name=\"path\">a", "read"),
            ("<invoke name=\"read\">\n<parameter name=\"path\">a</parameter>\n</invoke>", "read"),
            ("<minimax:tool_call>\n<invoke name=\"read\">", "read"),
            ("<seed:tool_call>\nread", "read"),
            ("[TOOL_CALLS]read[ARGS]{\"path\": \"a\"}", "read"),
            ("I look. read[ARGS]{\"path\": \"a", "read"),
            ("I look.\n[read(path=\"a\"), shell(command=\"ls\")]\n", "read"),
            ("<|tool_call_start|>[read(path=\"a\")]<|tool_call_end|>", "read"),
            ("```tool_code\nprint(read(path=\"a\"))\n```", "read"),
            ("<start_function_call>call:read{path:<escape>a<escape>}<end_function_call>", "read"),
            ("<|tool_call>call:read{path:<|\"|>a<|\"|>}<tool_call|>", "read"),
            ("<|tools_prefix|>[{\"read\": {\"path\": \"a\"}}]<|tools_suffix|>", "read"),
            (">>>read\n{\"path\": \"a\"}", "read"),
            ("Thought: I look.\nAction: read\nAction Input: {\"path\": \"a\"}", "read"),
            ("<|python_tag|>list.call(path=\"a\")", "?"),
            ("```\ncode\n```\n  <tool_call>\n", "?"),
        ] {
            assert_eq!(name(written_call(text, &tools)), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_tells_of_calls_makes_none() {
        let tools = [tool("shell", "command"), tool("read", "path")];
        for text in [
            "The model writes `<tool_call>` and the name.",
            "<tool_call> is the tag with which Qwen begins a call.\nJSON follows.",
            "````md\n```xml\n<tool_call>\n```\n<tool_call>\n````\nDone.",
            "```\n```xml\n<tool_call>\n```\nDone.",
            "So:\n\n\t<tool_call>read\n",
            "Mistral writes `read[ARGS]{\"path\": \"a\"}`.",
            "It wrote \"to=functions.read {\".",
            "<|channel|>commentary<|message|>I read the note first.",
            "```xml\n<tool_call>\n<invoke name=\"read\">\n</tool_call>\n```\nDone.",
            "~~~\n```\n<tool_call>read\n~~~",
            "It begins so:\n\n    <tool_call>read\n",
            "gpt-oss writes `to=functions.read {`.",
            "It calls to=functions.reader {}.",
            "Action: read\nResult: done",
            "<invoke name=\"list\">",
            "See also:\n[read(2)]",
            "[read(path=\"a\")]\nis what it wrote.",
            "```python\nread(path)\n```",
            ">>> read",
            "<b:tool_caller>",
        ] {
            assert_eq!(written_call(text, &tools), None, "{text}");
        }
    }
}
