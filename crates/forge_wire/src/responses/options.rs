//! The options of a request besides its sampling, in this protocol's words.

use forge_domain::{Prompt, Reasoning, ResponseFormat, ToolChoice};
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::openai::effort_word;

/// The options of a request, as its fields. It has no fields for `stop`, `seed` and the lifetime of a cache.
#[derive(Serialize)]
pub(super) struct Options<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_choice: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parallel_tool_calls: Option<bool>,
    #[serde(skip_serializing_if = "Map::is_empty")]
    reasoning: Map<String, Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    service_tier: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    provider: Option<&'a Map<String, Value>>,
}

impl<'a> Options<'a> {
    pub(super) fn of(prompt: &'a Prompt) -> Self {
        let options = prompt.options();
        let request = &options.request;
        Self {
            tool_choice: prompt.tool_choice().map(choice_json),
            parallel_tool_calls: request.parallel_tool_calls.filter(|_| !prompt.tools().is_empty()),
            reasoning: reasoning(request.reasoning, options.model.model.as_str()),
            text: request.response_format.as_ref().map(|format| json!({"format": format_json(format)})),
            service_tier: request.service_tier.as_deref(),
            provider: request.routing.as_ref(),
        }
    }
}

fn reasoning(settings: Reasoning, model: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    if let Some(effort) = settings.effort {
        fields.insert("effort".into(), json!(effort_word(effort, model)));
    }
    // Some accounts may not ask for summaries, so only those who want to read them do.
    if settings.show == Some(true) {
        fields.insert("summary".into(), json!("auto"));
    }
    fields
}

fn choice_json(choice: &ToolChoice) -> Value {
    match choice {
        ToolChoice::Tool(name) => json!({"type": "function", "name": name}),
        choice => json!(choice),
    }
}

/// Returns a form of replies without the inner object that the chat protocol has.
fn format_json(format: &ResponseFormat) -> Value {
    let mut fields = Map::from_iter([("type".to_owned(), json!(format.kind))]);
    if let Some(Value::Object(schema)) = format.json_schema.as_ref().map(|schema| json!(schema)) {
        fields.extend(schema.into_iter().filter(|(_, value)| !value.is_null()));
    }
    Value::Object(fields)
}
