//! The options of a request: sampling, thinking, the choice of tools, the form of the reply.

use forge_domain::{Effort, Prompt, RequestOptions, ResponseKind, Tokens, ToolChoice};
use serde_json::{Map, Value, json};

/// Returns the options of the reply. Unset ones are left out.
pub(super) fn generation_config(prompt: &Prompt) -> Map<String, Value> {
    let options = prompt.options();
    let request = &options.request;
    let format = request.response_format.as_ref().filter(|format| format.kind != ResponseKind::Text);
    let schema = format.and_then(|format| format.json_schema.as_ref());
    let fields = [
        ("maxOutputTokens", options.max_output_tokens.map(|limit| json!(Tokens::as_u64(limit)))),
        ("temperature", options.temperature.map(|temperature| json!(temperature))),
        ("topP", options.top_p.map(|top_p| json!(top_p))),
        ("stopSequences", request.stop.as_ref().map(|stop| json!(stop))),
        ("seed", request.seed.map(|seed| json!(seed))),
        ("responseMimeType", format.map(|_| json!("application/json"))),
        ("responseJsonSchema", schema.map(|schema| json!(schema.schema))),
        ("thinkingConfig", thinking_config(options.model.model.as_str(), request)),
    ];
    fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Returns the settings of the thinking: a level for models from the third generation on, and a number of
/// tokens for those before, by the table that Gemini's own compatible API uses for efforts. A number that was
/// set is sent to all. Summaries of the thoughts are requested if they are shown.
fn thinking_config(model: &str, request: &RequestOptions) -> Option<Value> {
    let reasoning = request.reasoning;
    let mut config = match (reasoning.budget_tokens, reasoning.effort) {
        (Some(budget), _) => json!({"thinkingBudget": budget}),
        (None, Some(effort)) if wants_signatures(model) => json!({"thinkingLevel": level(effort)}),
        (None, Some(effort)) => json!({"thinkingBudget": budget(effort)}),
        (None, None) if reasoning.show == Some(true) => json!({}),
        (None, None) => return None,
    };
    if reasoning.is_shown() && reasoning.effort != Some(Effort::None) {
        config["includeThoughts"] = json!(true);
    }
    Some(config)
}

/// Returns the level of an effort. These models always think: the least that they have stands for none.
const fn level(effort: Effort) -> &'static str {
    match effort {
        Effort::None | Effort::Minimal => "minimal",
        Effort::Low => "low",
        Effort::Medium => "medium",
        Effort::High | Effort::Max => "high",
    }
}

/// Returns the tokens of an effort.
const fn budget(effort: Effort) -> u64 {
    match effort {
        Effort::None => 0,
        Effort::Minimal | Effort::Low => 1_024,
        Effort::Medium => 8_192,
        Effort::High | Effort::Max => 24_576,
    }
}

/// Returns the choice of tools; `None` if it is left to the model.
pub(super) fn tool_config(prompt: &Prompt) -> Option<Value> {
    let config = match prompt.tool_choice()? {
        ToolChoice::Auto => json!({"mode": "AUTO"}),
        ToolChoice::None => json!({"mode": "NONE"}),
        ToolChoice::Required => json!({"mode": "ANY"}),
        ToolChoice::Tool(name) => json!({"mode": "ANY", "allowedFunctionNames": [name]}),
    };
    Some(json!({"functionCallingConfig": config}))
}

/// Checks whether `model` refuses calls without a signature: those from the third generation on, and those
/// whose name leaves it open.
pub(super) fn wants_signatures(model: &str) -> bool {
    let name = model.rsplit('/').next().unwrap_or(model);
    let Some(version) = name.strip_prefix("gemini-") else { return false };
    let digits: String = version.chars().take_while(char::is_ascii_digit).collect();
    digits.parse::<u32>().map_or(true, |generation| generation >= 3)
}

#[cfg(test)]
mod tests {
    use forge_domain::{
        Budget, ChatOptions, ContextMessage, Conversation, Message, ModelId, ModelLimits, ModelRef,
        ProviderId, TokenCounter, ToolDefinition, ToolName,
    };
    use pretty_assertions::assert_eq;

    use super::*;

    struct Characters;
    impl TokenCounter for Characters {
        fn count(&self, text: &str) -> Tokens {
            Tokens::new(text.chars().count() as u64)
        }
    }

    /// Returns the body of a request to `model` by an agent of that YAML, without the messages and the tools.
    fn body(model: &str, yaml: &str) -> Value {
        let agent: forge_domain::Agent = serde_saphyr::from_str(&format!("{{ id: a, {yaml} }}")).unwrap();
        let provider = ProviderId::new("p").unwrap();
        let mut options = ChatOptions::new(ModelRef { provider, model: ModelId::new(model).unwrap() });
        options.request = agent.request_options();
        let limits = ModelLimits { window: Tokens::new(100_000), max_output: None };
        let read = ToolDefinition {
            name: ToolName::new("read").unwrap(),
            description: "Reads a file.".into(),
            parameters: json!({}),
        };
        let mut conversation = Conversation::new();
        conversation.append(ContextMessage::count(Message::user("hi"), &Characters));
        let budget = Budget::new(limits, options, vec![read], &Characters);
        let mut body = json!(super::super::request(&budget.admit(conversation.view()).unwrap()));
        let fields = body.as_object_mut().unwrap();
        fields.shift_remove("contents");
        fields.shift_remove("tools");
        body
    }

    #[test]
    fn what_is_set_is_sent_in_the_words_of_the_model() {
        let thinks = |config: Value| json!({"generationConfig": {"thinkingConfig": config}});
        let chooses = |config: Value| json!({"toolConfig": {"functionCallingConfig": config}});
        for (model, yaml, expected) in [
            ("gemini-3.5-flash", "", json!({})),
            (
                "gemini-3.5-flash",
                "reasoning: { effort: high }",
                thinks(json!({"thinkingLevel": "high", "includeThoughts": true})),
            ),
            ("gemini-3.5-flash", "reasoning: { effort: none }", thinks(json!({"thinkingLevel": "minimal"}))),
            (
                "gemini-2.5-flash",
                "reasoning: { effort: medium, show: false }",
                thinks(json!({"thinkingBudget": 8192})),
            ),
            ("gemini-2.5-flash", "reasoning: { effort: none }", thinks(json!({"thinkingBudget": 0}))),
            (
                "gemini-3.5-flash",
                "reasoning: { budget_tokens: 500 }",
                thinks(json!({"thinkingBudget": 500, "includeThoughts": true})),
            ),
            ("gemini-3.5-flash", "reasoning: { show: true }", thinks(json!({"includeThoughts": true}))),
            ("m", "tool_choice: required", chooses(json!({"mode": "ANY"}))),
            ("m", "tool_choice: none", chooses(json!({"mode": "NONE"}))),
            ("m", "tool_choice: read", chooses(json!({"mode": "ANY", "allowedFunctionNames": ["read"]}))),
            (
                "m",
                "stop: [END], seed: 7, response_format: { type: json_schema, json_schema: { name: n, schema: { type: object } } }",
                json!({"generationConfig": {"stopSequences": ["END"], "seed": 7,
                    "responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}}),
            ),
            ("m", "service_tier: flex", json!({"service_tier": "flex"})),
            (
                "m",
                "seed: 7, extra_body: { generationConfig: { topK: 40 }, safetySettings: [] }",
                json!({"generationConfig": {"seed": 7, "topK": 40}, "safetySettings": []}),
            ),
        ] {
            assert_eq!(body(model, yaml), expected, "{model} {yaml}");
        }
    }

    #[test]
    fn models_that_demand_signatures_are_known_by_their_generation() {
        for (model, expected) in [
            ("gemini-2.5-flash", false),
            ("gemini-2.0-flash-001", false),
            ("gemini-3.1-pro-preview", true),
            ("models/gemini-4-flash", true),
            ("gemini-10-pro", true),
            ("gemini-flash-latest", true),
            ("gemma-3-27b-it", false),
            ("learnlm-2.0", false),
        ] {
            assert_eq!(wants_signatures(model), expected, "{model}");
        }
    }
}
