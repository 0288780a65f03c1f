//! The tool schemas of a request, in the form of either protocol.

use serde_json::{Value, json};

use crate::json_text::parse;
use crate::splice::field;

/// Returns the tool schemas of a request body, as compact JSON; `None` if it has none.
pub fn request_tools(bytes: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(bytes).ok()?;
    let tools: Value = parse(field(text.trim_start_matches('\u{feff}'), "tools")?).ok()?;
    tools.as_array().filter(|tools| !tools.is_empty())?;
    Some(tools.to_string())
}

/// Returns Anthropic's tool schemas in OpenAI's form.
pub(crate) fn openai_tools(tools: &str) -> Value {
    let tools: Vec<Value> = serde_json::from_str(tools).unwrap_or_default();
    let tool = |tool: &Value| {
        let function = json!({"name": tool["name"], "description": tool.get("description").unwrap_or(&json!("")),
            "parameters": tool.get("input_schema").unwrap_or(&json!({"type": "object"}))});
        json!({"type": "function", "function": function})
    };
    tools.iter().map(tool).collect()
}

/// Returns OpenAI's tool schemas in Anthropic's form.
pub(crate) fn anthropic_tools(tools: &str) -> Value {
    let tools: Vec<Value> = serde_json::from_str(tools).unwrap_or_default();
    let tool = |tool: &Value| {
        let function = tool.get("function").unwrap_or(tool);
        json!({"name": function["name"], "description": function.get("description").unwrap_or(&json!("")),
            "input_schema": function.get("parameters").unwrap_or(&json!({"type": "object"}))})
    };
    tools.iter().map(tool).collect()
}
