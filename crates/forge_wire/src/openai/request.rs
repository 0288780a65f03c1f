//! The body of a request for a chat completion.

use forge_domain::{ContextMessage, Message, Prompt};
use serde_json::{Map, Value, json};

use super::message_json;
use crate::Delivery;
use crate::turns::strict_turns;

/// Builds the body of `POST /chat/completions` for `prompt`. Unset options are left out, so the server's own
/// apply.
pub fn request(prompt: &Prompt, delivery: Delivery) -> Value {
    let options = prompt.options();
    let messages = prompt.messages().iter().map(ContextMessage::message);
    let messages = messages_json(messages, options.model.model.as_str());
    let mut body = Map::new();
    body.insert("model".into(), json!(options.model.model));
    body.insert("messages".into(), Value::Array(messages));
    if !prompt.tools().is_empty() {
        body.insert("tools".into(), json!(prompt.tools()));
    }
    if let Some(temperature) = options.temperature {
        body.insert("temperature".into(), json!(temperature));
    }
    if let Some(top_p) = options.top_p {
        body.insert("top_p".into(), json!(top_p));
    }
    if let Some(limit) = options.max_output_tokens {
        body.insert(limit_key(options.model.model.as_str()).into(), json!(limit.as_u64()));
    }
    if delivery == Delivery::Stream {
        body.insert("stream".into(), json!(true));
        body.insert("stream_options".into(), json!({"include_usage": true}));
    }
    Value::Object(body)
}

/// Returns the `messages` of a request to `model`. Chat templates of open models are stricter than OpenAI's
/// servers, so adjacent messages of one role are sent as one, and texts as plain texts. The result depends on
/// the messages and the model's name alone.
pub fn messages_json<'a>(messages: impl IntoIterator<Item = &'a Message>, model: &str) -> Vec<Value> {
    strict_turns(messages.into_iter().map(message_json).collect(), model)
}

/// Returns the key of the output limit. OpenAI's reasoning models refuse `max_tokens`; many compatible
/// servers do not know its successor and would ignore the limit.
fn limit_key(model: &str) -> &'static str {
    let name = model.rsplit('/').next().unwrap_or(model);
    let of_family = |family: &str, first: u32| {
        let Some(rest) = name.strip_prefix(family) else { return false };
        let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse().is_ok_and(|number: u32| number >= first)
            && (rest[end..].is_empty() || rest[end..].starts_with(['-', '.']))
    };
    let is_reasoning = of_family("o", 1) || of_family("gpt-", 5);
    if is_reasoning { "max_completion_tokens" } else { "max_tokens" }
}

#[cfg(test)]
mod tests {
    use forge_domain::{
        Budget, ChatOptions, ContextMessage, Conversation, Message, ModelId, ModelLimits, ModelRef,
        ProviderId, TokenCounter, Tokens, ToolDefinition, ToolName,
    };
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_output_limit_goes_by_the_name_that_the_model_takes() {
        for (model, expected) in [
            ("gpt-4o", "max_tokens"),
            ("o3-mini", "max_completion_tokens"),
            ("openai/gpt-5.1", "max_completion_tokens"),
            ("gpt-5", "max_completion_tokens"),
            ("gpt-6-mini", "max_completion_tokens"),
            ("gpt-4.1", "max_tokens"),
            ("o5-pro", "max_completion_tokens"),
            ("o3x", "max_tokens"),
            ("olmo-7b", "max_tokens"),
            ("llama3:8b", "max_tokens"),
        ] {
            assert_eq!(limit_key(model), expected, "{model}");
        }
    }

    struct Characters;
    impl TokenCounter for Characters {
        fn count(&self, text: &str) -> Tokens {
            Tokens::new(text.chars().count() as u64)
        }
    }

    fn prompt(change: impl FnOnce(&mut ChatOptions), tools: Vec<ToolDefinition>) -> Prompt {
        let provider = ProviderId::new("local").unwrap();
        let mut options = ChatOptions::new(ModelRef { provider, model: ModelId::new("small").unwrap() });
        change(&mut options);
        let limits = ModelLimits { window: Tokens::new(10_000), max_output: None };
        let budget = Budget::new(limits, options, tools, &Characters);
        let mut conversation = Conversation::new();
        conversation.append(ContextMessage::count(Message::user("hi"), &Characters));
        budget.admit(conversation.view()).unwrap()
    }

    #[test]
    fn a_request_says_what_is_set_and_nothing_else() {
        let tool = ToolDefinition {
            name: ToolName::new("read").unwrap(),
            description: "Reads a file.".into(),
            parameters: json!({"type": "object"}),
        };
        let messages = json!([{"role": "user", "content": "hi"}]);
        for (name, prompt, delivery, expected) in [
            (
                "bare",
                prompt(|_| (), vec![]),
                Delivery::Whole,
                json!({"model": "small", "messages": messages}),
            ),
            (
                "stream",
                prompt(|_| (), vec![]),
                Delivery::Stream,
                json!({"model": "small", "messages": messages, "stream": true,
                    "stream_options": {"include_usage": true}}),
            ),
            (
                "options",
                prompt(
                    |options| {
                        options.temperature = Some(0.5);
                        options.top_p = Some(0.25);
                        options.max_output_tokens = Some(Tokens::new(77));
                    },
                    vec![],
                ),
                Delivery::Whole,
                json!({"model": "small", "messages": messages, "temperature": 0.5, "top_p": 0.25, "max_tokens": 77}),
            ),
            (
                "tools",
                prompt(|_| (), vec![tool]),
                Delivery::Whole,
                json!({"model": "small", "messages": messages, "tools": [{"type": "function", "function": {
                    "name": "read", "description": "Reads a file.", "parameters": {"type": "object"}}}]}),
            ),
        ] {
            let actual = request(&prompt, delivery);
            assert_eq!(actual, expected, "{name}");
        }
    }
}
