//! Calls that a model wrote into its text instead of making them: small models do, and servers without the
//! right template pass them on as text.

use forge_domain::{ToolDefinition, ToolName};
use serde_json::{Deserializer, Map, Value};

/// The keys of the tool's name, and of its arguments, in the forms that models were taught.
const NAMES: [&str; 4] = ["name", "tool", "tool_name", "function"];
const ARGUMENTS: [&str; 5] = ["arguments", "parameters", "input", "args", "tool_input"];

/// Returns the tool of the first call in `text`: JSON that names one of `tools` with arguments that it takes,
/// or a tag of its name.
pub(super) fn written_call<'a>(text: &str, tools: &'a [ToolDefinition]) -> Option<&'a ToolName> {
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

    #[test]
    fn a_call_in_a_text_is_known_by_its_tool_and_its_arguments() {
        let tool = |name: &str, key: &str| ToolDefinition {
            name: ToolName::new(name).unwrap(),
            description: String::new(),
            parameters: json!({"type": "object", "properties": {key: {"type": "string"}}}),
        };
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
            assert_eq!(written_call(text, &tools).map(ToolName::as_str), expected, "{text}");
        }
    }
}
