//! Every request that we send is legal by the schemas that the providers publish.
//!
//! `FORGE_FIXTURES` names the folder that has them below `schemas/`; they are no part of this repository. Without it the
//! tests pass and say what they skipped.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

use forge_domain::{
    Agent, Body, Budget, ChatOptions, Content, ContextMessage, Conversation, Message, ModelId, ModelLimits,
    ModelRef, Part, Prompt, ProviderId, TokenCounter, Tokens, ToolCall, ToolDefinition, ToolName, ToolResult,
};
use forge_wire::{Delivery, anthropic, ollama, openai, responses};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Value, json};

struct Characters;
impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.chars().count() as u64)
    }
}

/// A schema, as one question. The crate behind it changes often.
fn schema(name: &str) -> Option<impl Fn(&Value) -> Result<(), String>> {
    #[expect(clippy::disallowed_methods, reason = "a test may know where the schemas are")]
    let root = std::env::var_os("FORGE_FIXTURES");
    let Some(root) = root else {
        skipped_tests::skip("FORGE_FIXTURES is not set", name);
        return None;
    };
    let path = std::path::PathBuf::from(root).join("schemas").join(name);
    #[expect(clippy::disallowed_methods, reason = "a test may read the schemas")]
    let text = std::fs::read(path).unwrap();
    let mut schema = serde_json::from_slice(&text).unwrap();
    modernise(&mut schema);
    let (mut schemas, mut compiler) = (boon::Schemas::new(), boon::Compiler::new());
    compiler.add_resource(name, schema).unwrap();
    let root = compiler.compile(name, &mut schemas).unwrap_or_else(|error| panic!("{name}: {error:#}"));
    assert!(schemas.validate(&json!({"model": [5]}), root).is_err(), "{name} takes anything");
    Some(move |request: &Value| {
        schemas.validate(request, root).map_err(|error| format!("{error:#}: {request:#}"))
    })
}

/// Takes out keywords in the form of older drafts, which the validator rightly refuses.
fn modernise(schema: &mut Value) {
    match schema {
        Value::Object(fields) => {
            // Which of several forms counts is told by a key that validators do not know, and two may fit.
            if fields.contains_key("discriminator")
                && let Some(forms) = fields.remove("oneOf")
            {
                fields.insert("anyOf".into(), forms);
            }
            fields.retain(|key, value| {
                !(key.starts_with("$recursive") || key.starts_with("exclusive") && value.is_boolean())
            });
            fields.values_mut().for_each(modernise);
        }
        Value::Array(items) => items.iter_mut().for_each(modernise),
        _ => {}
    }
}

fn openai_json(prompt: &Prompt, delivery: Delivery) -> Value {
    json!(openai::request(prompt, delivery))
}

fn anthropic_json(prompt: &Prompt, delivery: Delivery) -> Value {
    json!(anthropic::request(prompt, delivery, anthropic::StaleThinking::Refused))
}

fn ollama_json(prompt: &Prompt, window: Tokens, delivery: Delivery) -> Value {
    json!(ollama::request(prompt, window, delivery))
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just("  \n".to_owned()),
        Just("Plain words.".to_owned()),
        Just("data: [DONE]\n\n\"ü\" 漢字 \u{1F980} \\".to_owned()),
        "\\PC{0,40}",
    ]
}

fn media() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(json!({"type": "image_url", "image_url": {"url": "https://example.test/a.png"}})),
        Just(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBOR"}})),
    ]
}

fn content() -> impl Strategy<Value = Content> {
    let parts =
        prop::collection::vec(prop_oneof![text().prop_map(Part::Text), media().prop_map(Part::Media)], 1..4);
    prop_oneof![3 => text().prop_map(Content::Text), 1 => parts.prop_map(Content::Parts)]
}

fn arguments() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("{}".to_owned()),
        Just("{\"path\": \"a\", \"n\": [1, null]}".to_owned()),
        Just("{\"broken".to_owned()),
        Just("[1]".to_owned()),
        Just(String::new()),
    ]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("call_1".to_owned()),
        Just("functions.read:0".to_owned()),
        Just(String::new()),
        "[a-zA-Z0-9|/+=]{1,30}",
    ]
}

/// An exchange: what a model says and calls, and the results.
fn exchange() -> impl Strategy<Value = Vec<Message>> {
    let calls = prop::collection::vec((id(), arguments(), text(), any::<bool>()), 1..4);
    let thinking = prop_oneof![
        Just(None),
        Just(Some(json!([{"type": "thinking", "thinking": "hm", "signature": "s"},
            {"type": "redacted_thinking", "data": "AA"}]))),
    ];
    (prop::option::of(text()), calls, thinking).prop_map(|(said, calls, thinking)| {
        let name = ToolName::new("read").unwrap();
        let call = |(id, arguments, _, _): &(String, String, String, bool)| ToolCall {
            id: id.clone(),
            name: name.clone(),
            arguments: arguments.clone(),
        };
        let made: Vec<ToolCall> = calls.iter().map(call).collect();
        let mut message =
            Message::new(Body::Assistant { content: said.map(Content::Text), calls: made.clone() });
        message.extra.extend(thinking.map(|blocks| (anthropic::THINKING.to_owned(), blocks)));
        let results = made.iter().zip(&calls).map(|(call, (_, _, text, failed))| {
            Message::tool(ToolResult { is_error: *failed, ..ToolResult::answer(call, text.as_str()) })
        });
        std::iter::once(message).chain(results).collect()
    })
}

/// What follows a user's message: one turn.
fn turn() -> impl Strategy<Value = Vec<Message>> {
    let said = text().prop_map(|text| vec![Message::assistant(text)]);
    let system = text().prop_map(|text| vec![Message::system(text)]);
    let step = prop_oneof![4 => exchange(), 2 => said, 1 => system];
    (content(), prop::collection::vec(step, 0..4)).prop_map(|(asked, steps)| {
        std::iter::once(Message::user(asked)).chain(steps.into_iter().flatten()).collect()
    })
}

fn prompt() -> impl Strategy<Value = Prompt> {
    let system = prop::collection::vec(text().prop_map(Message::system), 0..3);
    let turns = prop::collection::vec(turn(), 1..4);
    let temperature = prop::option::of(0.0..=2.0_f64);
    let limit = prop::option::of(1_u64..100_000);
    let top_p = prop::option::of(0.0..=1.0_f64);
    let model = prop_oneof![Just("gpt-4o"), Just("o3-mini"), Just("claude-sonnet-4-5"), Just("llama3:8b")];
    (system, turns, temperature, top_p, limit, any::<bool>(), model).prop_map(
        |(system, turns, temperature, top_p, limit, has_tools, model)| {
            let provider = ProviderId::new("p").unwrap();
            let mut options = ChatOptions::new(ModelRef { provider, model: ModelId::new(model).unwrap() });
            options.temperature = temperature;
            options.top_p = top_p;
            options.max_output_tokens = limit.map(Tokens::new);
            let tool = |parameters| ToolDefinition {
                name: ToolName::new("read").unwrap(),
                description: "Reads a file.".into(),
                parameters,
            };
            let tools = match has_tools {
                true => vec![tool(json!({"type": "object", "properties": {}})), tool(json!({}))],
                false => Vec::new(),
            };
            let limits = ModelLimits { window: Tokens::new(100_000_000), max_output: None };
            let budget = Budget::new(limits, options, tools, &Characters);
            let mut conversation = Conversation::new();
            // A user who says nothing at all says nothing that could be sent.
            let opening = Message::user("Begin.");
            for message in system.into_iter().chain([opening]).chain(turns.into_iter().flatten()) {
                conversation.append(ContextMessage::count(message, &Characters));
            }
            budget.admit(conversation.view()).unwrap()
        },
    )
}

/// Holds the requests for many prompts against the schema `name`; `legal` says what no schema can.
fn check(name: &str, request: impl Fn(&Prompt, Delivery) -> Value, legal: impl Fn(&Value)) {
    let Some(is_legal) = schema(name) else { return };
    let mut runner = TestRunner::new(Config { cases: 300, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&prompt(), |prompt| {
        for delivery in [Delivery::Whole, Delivery::Stream] {
            let request = request(&prompt, delivery);
            prop_assert!(is_legal(&request).is_ok(), "{}", is_legal(&request).unwrap_err());
            legal(&request);
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn every_request_for_a_chat_completion_is_legal() {
    check("openai.chat.request.schema.json", openai_json, |_| ());
}

#[test]
fn every_request_for_a_response_is_legal() {
    let request = |prompt: &Prompt, delivery| json!(responses::request(prompt, delivery));
    check("openai.responses.request.schema.json", request, |request| {
        assert_eq!(request["store"], false);
    });
}

#[test]
fn every_request_for_a_message_of_anthropics_is_legal() {
    check("anthropic.messages.request.schema.json", anthropic_json, |request| {
        let marks = request.to_string().matches("cache_control").count();
        assert!((1..=4).contains(&marks), "{marks} marks: {request:#}");
        let roles: Vec<_> =
            request["messages"].as_array().unwrap().iter().map(|entry| &entry["role"]).collect();
        assert_eq!(roles[0], "user");
        assert!(roles.windows(2).all(|pair| pair[0] != pair[1]), "two of one role in a row: {request:#}");
    });
}

#[test]
fn every_request_to_ollama_is_legal() {
    let request = |prompt: &Prompt, delivery| ollama_json(prompt, Tokens::new(8192), delivery);
    check("ollama.chat.request.schema.json", request, |request| {
        assert!(request["stream"].is_boolean() && request["options"]["num_ctx"] == 8192);
    });
}

#[test]
fn the_longest_answer_of_a_model_is_asked_for_in_every_protocol() {
    let model = ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new("m").unwrap() };
    for (what, max_output, of_agent, expected) in [
        ("nothing is known", None, None, None),
        ("the model's", Some(1_000), None, Some(1_000)),
        ("the agent's", None, Some(500), Some(500)),
        ("the agent asks for less", Some(1_000), Some(500), Some(500)),
        ("the agent asks for more than the model gives", Some(1_000), Some(1_500), Some(1_000)),
        ("a quarter of the window is kept free at most", Some(5_000), None, Some(2_000)),
        ("no figure", Some(0), None, None),
    ] {
        let limits = ModelLimits { window: Tokens::new(8_000), max_output: max_output.map(Tokens::new) };
        let mut options = ChatOptions::new(model.clone());
        options.max_output_tokens = of_agent.map(Tokens::new);
        let mut conversation = Conversation::new();
        conversation.append(ContextMessage::count(Message::user("go"), &Characters));
        let budget = Budget::new(limits, options, Vec::new(), &Characters);
        let prompt = budget.admit(conversation.view()).unwrap();
        let asked = (
            openai_json(&prompt, Delivery::Stream)["max_tokens"].as_u64(),
            ollama_json(&prompt, prompt.window(), Delivery::Stream)["options"]["num_predict"].as_u64(),
        );
        assert_eq!(asked, (expected, expected), "{what}");
        // Anthropic's protocol demands a figure: without one it is the reserve.
        let demanded = anthropic_json(&prompt, Delivery::Stream)["max_tokens"].as_u64();
        assert_eq!(demanded, expected.or(Some(budget.reserve().as_u64().max(1))), "{what}");
    }
}

/// Returns a prompt for `model` with the options of `yaml`, in mid-turn if `is_begun`.
fn with_options(model: &str, yaml: &str, has_tools: bool, is_begun: bool) -> Prompt {
    let agent: Agent = serde_saphyr::from_str(&format!("{{ id: a, {yaml} }}")).unwrap();
    let model = ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new(model).unwrap() };
    let mut options = ChatOptions::new(model);
    options.request = agent.request_options();
    options.temperature = Some(0.5);
    options.max_output_tokens = Some(Tokens::new(1_000));
    let read = ToolDefinition {
        name: ToolName::new("read").unwrap(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object"}),
    };
    let limits = ModelLimits { window: Tokens::new(1_000_000), max_output: None };
    let tools = if has_tools { vec![read] } else { Vec::new() };
    let budget = Budget::new(limits, options, tools, &Characters);
    let mut conversation = Conversation::new();
    let call = ToolCall { id: "c".to_owned(), name: ToolName::new("read").unwrap(), arguments: "{}".into() };
    let begun = [Message::calling(vec![call.clone()]), Message::tool(ToolResult::answer(&call, "out"))];
    let begun = begun.into_iter().filter(|_| is_begun);
    for message in std::iter::once(Message::user("go")).chain(begun) {
        conversation.append(ContextMessage::count(message, &Characters));
    }
    budget.admit(conversation.view()).unwrap()
}

/// Returns the fields that no request without options has, and the limit of the reply.
fn options_in(request: &Value) -> Value {
    let mut fields = request.as_object().unwrap().clone();
    for plain in ["model", "messages", "tools", "stream", "system", "temperature"] {
        fields.remove(plain);
    }
    if let Some(Value::Object(options)) = fields.get_mut("options") {
        options.retain(|name, _| !["num_ctx", "temperature"].contains(&name.as_str()));
    }
    Value::Object(fields)
}

#[test]
fn each_option_has_its_field_in_each_protocol() {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}});
    let format = "response_format: { type: json_schema, json_schema: { name: n, schema: \
                  { type: object, properties: { n: { type: integer } } } } }";
    // Options, what OpenAI's chat, Anthropic's messages and Ollama's chat have besides the limit of 1,000
    // tokens.
    for (yaml, chat, messages, ollama) in [
        ("", json!({}), json!({}), json!({})),
        (
            "tool_choice: auto",
            json!({"tool_choice": "auto"}),
            json!({"tool_choice": {"type": "auto"}}),
            json!({}),
        ),
        (
            "tool_choice: none",
            json!({"tool_choice": "none"}),
            json!({"tool_choice": {"type": "none"}}),
            json!({}),
        ),
        (
            "tool_choice: required",
            json!({"tool_choice": "required"}),
            json!({"tool_choice": {"type": "any"}}),
            json!({}),
        ),
        (
            "tool_choice: read",
            json!({"tool_choice": {"type": "function", "function": {"name": "read"}}}),
            json!({"tool_choice": {"type": "tool", "name": "read"}}),
            json!({}),
        ),
        (
            "parallel_tool_calls: false",
            json!({"parallel_tool_calls": false}),
            json!({"tool_choice": {"type": "auto", "disable_parallel_tool_use": true}}),
            json!({}),
        ),
        (
            "stop: [END], seed: 7",
            json!({"stop": ["END"], "seed": 7}),
            json!({"stop_sequences": ["END"]}),
            json!({"options": {"stop": ["END"], "seed": 7}}),
        ),
        ("service_tier: flex", json!({"service_tier": "flex"}), json!({"service_tier": "flex"}), json!({})),
        (
            format,
            json!({"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}}),
            json!({"output_config": {"format": {"type": "json_schema", "schema": schema}}}),
            json!({"format": schema}),
        ),
        (
            "response_format: { type: json_object }",
            json!({"response_format": {"type": "json_object"}}),
            json!({}),
            json!({"format": "json"}),
        ),
        ("routing: { sort: price }", json!({"provider": {"sort": "price"}}), json!({}), json!({})),
        (
            "extra_body: { top_k: 40, options: { mirostat: 1 } }",
            json!({"top_k": 40, "options": {"mirostat": 1}}),
            json!({"top_k": 40, "options": {"mirostat": 1}}),
            json!({"top_k": 40, "options": {"mirostat": 1}}),
        ),
    ] {
        let prompt = with_options("small", yaml, true, false);
        let with = |mut fields: Value, name: &str, path: Option<&str>| {
            match path {
                None => fields[name] = json!(1_000),
                Some(path) => fields[path][name] = json!(1_000),
            }
            fields
        };
        let actual = options_in(&openai_json(&prompt, Delivery::Whole));
        assert_eq!(actual, with(chat, "max_tokens", None), "chat: {yaml}");
        let actual = options_in(&anthropic_json(&prompt, Delivery::Whole));
        assert_eq!(actual, with(messages, "max_tokens", None), "messages: {yaml}");
        let actual = options_in(&ollama_json(&prompt, Tokens::new(8_192), Delivery::Whole));
        assert_eq!(actual, with(ollama, "num_predict", Some("options")), "ollama: {yaml}");
    }
}

#[test]
fn an_effort_is_said_in_the_words_of_the_model() {
    let effort = |model: &str, yaml: &str, has_tools: bool| {
        let prompt = with_options(model, yaml, has_tools, false);
        let chat = serde_json::to_value(openai::request(&prompt, Delivery::Whole));
        chat.map(|chat| chat["reasoning_effort"].clone()).map_err(|error| error.to_string())
    };
    for (model, yaml, has_tools, expected) in [
        ("gpt-5", "", true, json!(null)),
        ("gpt-5", "reasoning: { effort: minimal }", true, json!("minimal")),
        ("gpt-5.4", "reasoning: { effort: max }", false, json!("xhigh")),
        ("gpt-6-sol", "reasoning: { effort: max }", false, json!("max")),
        ("x-ai/grok-4", "reasoning: { effort: max }", true, json!("xhigh")),
        // Since this model, tools are refused unless it is told not to think.
        ("gpt-5.6", "", true, json!("none")),
        ("gpt-5.6-terra", "reasoning: { effort: none }", true, json!("none")),
        ("openai/gpt-6-sol", "", true, json!("none")),
        ("gpt-5.6", "", false, json!(null)),
        ("gpt-5.6", "reasoning: { effort: low }", false, json!("low")),
    ] {
        assert_eq!(effort(model, yaml, has_tools), Ok(expected), "{model} {yaml}");
    }
    let refused = effort("gpt-5.6", "reasoning: { effort: high }", true).unwrap_err();
    assert_eq!(refused, "`gpt-5.6` accepts tools in chat completions only with `effort: none`, not `high`");
    for (model, effort, expected) in [
        ("qwen3:8b", "none", json!(false)),
        ("qwen3:8b", "high", json!(true)),
        ("gpt-oss:20b", "none", json!("low")),
        ("gpt-oss:20b", "medium", json!("medium")),
        ("gpt-oss:20b", "max", json!("high")),
    ] {
        let prompt = with_options(model, &format!("reasoning: {{ effort: {effort} }}"), false, false);
        let request = ollama_json(&prompt, Tokens::new(8_192), Delivery::Whole);
        assert_eq!(request["think"], expected, "{model} {effort}");
    }
}

#[test]
fn the_reply_has_room_for_the_thinking_and_the_sampling_is_left_to_it() {
    let prompt = with_options("claude-sonnet-4-5", "reasoning: { budget_tokens: 5000 }", true, false);
    let request = anthropic_json(&prompt, Delivery::Whole);
    assert_eq!(request["max_tokens"], 6_000);
    assert_eq!(request["thinking"], json!({"type": "enabled", "budget_tokens": 5_000}));
    assert_eq!(request["temperature"], Value::Null);
    let prompt = with_options("claude-sonnet-4-5", "cache: 1h", true, false);
    let request = anthropic_json(&prompt, Delivery::Whole);
    assert_eq!(request["temperature"], 0.5);
    assert_eq!(request["tools"][0]["cache_control"], json!({"type": "ephemeral", "ttl": "1h"}));
}

#[test]
fn a_forced_call_holds_until_its_result_is_there() {
    for (choice, expected) in [("read", json!(null)), ("required", json!(null)), ("none", json!("none"))] {
        let prompt = with_options("small", &format!("tool_choice: {choice}"), true, true);
        assert_eq!(openai_json(&prompt, Delivery::Whole)["tool_choice"], expected, "{choice}");
    }
    let without_tools =
        with_options("small", "tool_choice: required, parallel_tool_calls: true", false, false);
    assert_eq!(options_in(&openai_json(&without_tools, Delivery::Whole)), json!({"max_tokens": 1_000}));
}

#[test]
fn the_prefix_stays_the_same_bytes_while_a_conversation_grows() {
    let provider = ProviderId::new("p").unwrap();
    let model = ModelRef { provider, model: ModelId::new("m").unwrap() };
    let limits = ModelLimits { window: Tokens::new(1_000_000), max_output: None };
    let budget = Budget::new(limits, ChatOptions::new(model), Vec::new(), &Characters);
    let mut conversation = Conversation::new();
    let mut append = |message| {
        conversation.append(ContextMessage::count(message, &Characters));
        anthropic_json(&budget.admit(conversation.view()).unwrap(), Delivery::Stream)
    };
    append(Message::system("rules"));
    let mut earlier = append(Message::user("go"));
    for n in 0..6 {
        let call =
            ToolCall { id: format!("c{n}"), name: ToolName::new("read").unwrap(), arguments: "{}".into() };
        append(Message::calling(vec![call.clone()]));
        let later = append(Message::tool(ToolResult::answer(&call, "out")));
        // Without the marks, which are no part of what is cached, the earlier request begins the later one.
        let bare = |request: &Value| {
            let messages = request["messages"].as_array().unwrap();
            let mut bare: Vec<String> = messages.iter().map(ToString::to_string).collect();
            bare.iter_mut()
                .for_each(|entry| *entry = entry.replace(",\"cache_control\":{\"type\":\"ephemeral\"}", ""));
            (request["system"].to_string(), bare)
        };
        let ((system, before), (same_system, after)) = (bare(&earlier), bare(&later));
        assert_eq!(system, same_system);
        assert_eq!(before[..], after[..before.len()]);
        // Where the earlier one was written to the cache, the later one reads it.
        let marked =
            |request: &Value, at: usize| request["messages"][at].to_string().contains("cache_control");
        assert!(marked(&later, before.len() - 1) && marked(&later, after.len() - 1), "{later:#}");
        earlier = later;
    }
}

/// A request in the order in which a provider reads it, without marks for the cache, which are no part of
/// what is cached; and where the marks are.
fn pieces(request: &Value) -> (Vec<String>, Vec<usize>) {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut blocks: Vec<Value> = list(&request["tools"]);
    blocks.extend(list(&request["system"]));
    for message in list(&request["messages"]) {
        // A message that is one block cannot grow; one that is a list of them can.
        match message["content"].as_array().filter(|_| request["max_tokens"].is_u64()) {
            Some(content) => blocks.extend(content.iter().map(|block| json!([message["role"], block]))),
            None => blocks.push(message),
        }
    }
    let mark = ",\"cache_control\":{\"type\":\"ephemeral\"}";
    let spelt: Vec<String> = blocks.iter().map(ToString::to_string).collect();
    let marks = (0..spelt.len()).filter(|at| spelt[*at].contains(mark)).collect();
    (spelt.iter().map(|block| block.replace(mark, "")).collect(), marks)
}

/// Whether `later` begins with `earlier`, whose last message may go on: neighbours of one role are sent as
/// one.
fn is_begun_by(later: &[String], earlier: &[String]) -> bool {
    let Some((last, before)) = earlier.split_last() else { return true };
    let said = |message: &String| {
        let message: Value = serde_json::from_str(message).unwrap();
        let text = match &message["content"] {
            Value::Array(parts) => parts.iter().filter_map(|part| part["text"].as_str()).collect(),
            content => content.as_str().unwrap_or_default().to_owned(),
        };
        (message["role"].clone(), text)
    };
    let goes_on = |later: &String| {
        let ((role, text), (same_role, longer)) = (said(last), said(later));
        later == last || (role == same_role && role == "user" && longer.starts_with(&text))
    };
    later.starts_with(before) && later.get(before.len()).is_some_and(goes_on)
}

#[test]
fn whatever_is_said_each_request_begins_with_the_one_before() {
    /// How far back from a mark a provider looks for what it has cached, in blocks.
    const LOOKS_BACK: usize = 20;
    let tool = ToolDefinition {
        name: ToolName::new("read").unwrap(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object", "properties": {}}),
    };
    let model = ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new("m").unwrap() };
    let limits = ModelLimits { window: Tokens::new(100_000_000), max_output: None };
    let budget = Budget::new(limits, ChatOptions::new(model), vec![tool], &Characters);
    type Request = fn(&Prompt) -> Value;
    let protocols: [(&str, Request); 3] = [
        ("openai", |prompt| openai_json(prompt, Delivery::Stream)),
        ("anthropic", |prompt| anthropic_json(prompt, Delivery::Stream)),
        ("ollama", |prompt| ollama_json(prompt, Tokens::new(8192), Delivery::Stream)),
    ];
    let mut runner = TestRunner::new(Config { cases: 200, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&prompt(), |whole| {
        for (protocol, request) in protocols {
            let mut conversation = Conversation::new();
            let mut before: Option<(Vec<String>, Vec<usize>)> = None;
            for (at, message) in whole.messages().iter().enumerate() {
                conversation.append(ContextMessage::count(message.message().clone(), &Characters));
                // A model is asked when somebody has spoken or all of its calls are answered.
                let is_asked = matches!(message.message().body, Body::User(_) | Body::Tool(_));
                let next = whole.messages().get(at + 1).map(|next| &next.message().body);
                if !is_asked || matches!(next, Some(Body::Tool(_))) {
                    continue;
                }
                let (blocks, marks) = pieces(&request(&budget.admit(conversation.view()).unwrap()));
                if let Some((earlier, earlier_marks)) = &before {
                    let is_begun = match protocol {
                        "anthropic" => blocks.starts_with(earlier),
                        _ => is_begun_by(&blocks, earlier),
                    };
                    prop_assert!(is_begun, "{protocol}: {earlier:#?} {blocks:#?}");
                    if let Some(written) = earlier_marks.last() {
                        let read = marks.iter().any(|mark| mark >= written && mark - written < LOOKS_BACK);
                        prop_assert!(read, "{protocol}: written at {written}, marked are {marks:?}");
                    }
                }
                if protocol == "anthropic" {
                    // Tools and system together end at a mark, and so does what is said last.
                    let n_standing = blocks.iter().take_while(|block| !block.starts_with('[')).count();
                    prop_assert!(marks.contains(&(n_standing - 1)), "{marks:?} {blocks:#?}");
                    // A person who says nothing adds no block; then the last one is the model's own.
                    if blocks.last().is_some_and(|last| last.starts_with("[\"user\"")) {
                        prop_assert_eq!(marks.last(), Some(&(blocks.len() - 1)));
                    }
                }
                before = Some((blocks, marks));
            }
        }
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
