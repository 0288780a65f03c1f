//! The tool schemas of a file, in the form of each protocol.

use serde_json::{Value, json};

use crate::fields::Fields;
use crate::json_text::parse;

/// Returns the tool schemas of a request body or an ATIF trajectory, as compact JSON; `None` if it has none.
pub fn request_tools(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let file = Fields::of(text.trim_start_matches('\u{feff}'));
    let tools = match file.get("tools") {
        "" => Fields::of(file.get("agent")).get("tool_definitions"),
        tools => tools,
    };
    let tools: Value = parse(tools).ok()?;
    tools.as_array().filter(|tools| !tools.is_empty())?;
    Some(tools.to_string())
}

/// Returns the tool schemas of any protocol in OpenAI's form.
pub(crate) fn openai_tools(tools: &str) -> Value {
    converted(tools, &["function", "custom"], |name, description, schema| {
        let function = json!({"name": name, "description": description, "parameters": schema});
        json!({"type": "function", "function": function})
    })
}

/// Returns the tool schemas of any protocol in Anthropic's form.
pub(crate) fn anthropic_tools(tools: &str) -> Value {
    converted(
        tools,
        &["input_schema"],
        |name, description, schema| json!({"name": name, "description": description, "input_schema": schema}),
    )
}

/// Returns the number of tools that have no form in another protocol: they have no name, as those that a
/// provider runs itself.
pub(crate) fn n_nameless(tools: &str) -> usize {
    let tools: Vec<Value> = serde_json::from_str(tools).unwrap_or_default();
    tools.iter().flat_map(functions).filter(|function| name(function).is_none()).count()
}

/// Returns the functions of a tool. An entry of Gemini's form has several.
fn functions(tool: &Value) -> &[Value] {
    let several = tool.get("functionDeclarations").or_else(|| tool.get("function_declarations"));
    match several.and_then(Value::as_array) {
        Some(functions) => functions.as_slice(),
        None => std::slice::from_ref(tool.get("function").or_else(|| tool.get("custom")).unwrap_or(tool)),
    }
}

fn name(function: &Value) -> Option<&str> {
    function.get("name").and_then(Value::as_str)
}

/// Returns tool schemas in the form whose tools have one of the keys `own`: `form` makes it of a name, a
/// description and a schema of arguments. A tool without a name has no such form.
fn converted(tools: &str, own: &[&str], form: impl Fn(&str, &str, &Value) -> Value) -> Value {
    let tools: Vec<Value> = serde_json::from_str(tools).unwrap_or_default();
    let no_arguments = json!({"type": "object"});
    let mut converted = Vec::with_capacity(tools.len());
    for tool in tools {
        if own.iter().any(|key| tool.get(*key).is_some()) {
            converted.push(tool);
            continue;
        }
        for function in functions(&tool) {
            let description = function.get("description").and_then(Value::as_str).unwrap_or_default();
            let schemas = ["parameters", "input_schema", "parametersJsonSchema"];
            let schema = schemas.iter().find_map(|key| function.get(*key)).unwrap_or(&no_arguments);
            if let Some(name) = name(function) {
                converted.push(form(name, description, schema));
            }
        }
    }
    Value::Array(converted)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn schemas_of_every_form_become_those_of_another() {
        let openai = json!([{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"a": 1}}}]);
        let anthropic = json!([{"name": "f", "description": "d", "input_schema": {"a": 1}}]);
        for tools in [
            openai.clone(),
            anthropic.clone(),
            json!([{"type": "function", "name": "f", "description": "d", "parameters": {"a": 1}}, {"type": "web_search"}]),
            json!([{"functionDeclarations": [{"name": "f", "description": "d", "parameters": {"a": 1}}]}]),
        ] {
            assert_eq!(openai_tools(&tools.to_string()), openai, "{tools}");
            assert_eq!(anthropic_tools(&tools.to_string()), anthropic, "{tools}");
        }
        for (tools, expected) in [
            (json!([{"name": "f"}, {"type": "custom", "custom": {"name": "f"}}]), 0),
            (json!([{"type": "web_search"}, {"name": "f"}, {"googleSearch": {}}]), 2),
            (json!([{"functionDeclarations": [{"name": "f"}, {"name": "g"}]}]), 0),
        ] {
            assert_eq!(n_nameless(&tools.to_string()), expected, "{tools}");
        }
        let custom = json!([{"type": "custom", "custom": {"name": "f", "description": "d"}}]);
        assert_eq!(openai_tools(&custom.to_string()), custom);
        let expected = json!([{"name": "f", "description": "d", "input_schema": {"type": "object"}}]);
        assert_eq!(anthropic_tools(&custom.to_string()), expected);
        let bare = openai_tools(r#"[{"name": "f"}]"#);
        let expected = json!({"name": "f", "description": "", "parameters": {"type": "object"}});
        assert_eq!(bare, json!([{"type": "function", "function": expected}]));
    }

    #[test]
    fn schemas_stand_in_a_request_or_beside_the_agent() {
        for (file, expected) in [
            (r#"{"messages": [], "tools": [{"name": "f"}]}"#, Some(r#"[{"name":"f"}]"#)),
            (r#"{"agent": {"name": "x", "tool_definitions": [{"name": "f"}]}}"#, Some(r#"[{"name":"f"}]"#)),
            (r#"{"tools": [], "agent": {"name": "x"}}"#, None),
            (r#"{"tools": null, "agent": "x"}"#, None),
            ("[]", None),
            ("", None),
        ] {
            assert_eq!(request_tools(file.as_bytes()).as_deref(), expected, "{file}");
        }
    }
}
