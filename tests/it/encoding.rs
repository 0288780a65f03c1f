//! Requests are joined from messages that keep their JSON. Their bytes are those of a body that is built as one value, from
//! nothing that was kept.

mod whole;

use std::path::PathBuf;

use forge_domain::{
    Body, Budget, ChatOptions, Content, ContextMessage, Conversation, Message, ModelId, ModelLimits,
    ModelRef, Part, Prompt, ProviderId, TokenCounter, Tokens, ToolCall, ToolDefinition, ToolName, ToolResult,
};
use forge_transcript::{Draft, read};
use forge_wire::{Delivery, anthropic, gemini, ollama, openai, responses};
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use serde_json::{Map, Value, json};

/// Models with and without what is special to their names: their own servers, pauses, and the key of the output limit.
const MODELS: [&str; 5] = ["gpt-4o", "o3-mini", "mistral-small", "llama3:8b", "gemini-3.5-flash"];

struct Characters;
impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.len() as u64)
    }
}

/// The view as a prompt for `model`, with as many options as `nth` says.
fn prompt(conversation: &Conversation, model: &str, nth: usize) -> Prompt {
    let provider = ProviderId::new("p").unwrap();
    let mut options = ChatOptions::new(ModelRef { provider, model: ModelId::new(model).unwrap() });
    let mut tools = Vec::new();
    if nth % 2 == 1 {
        options.temperature = Some(1.3);
        options.top_p = Some(0.1);
        options.max_output_tokens = Some(Tokens::new(77));
        tools = [json!({"type": "object", "properties": {"b": {}, "a": {}}}), json!({})]
            .map(|parameters| ToolDefinition {
                name: ToolName::new("read").unwrap(),
                description: "Reads a \"file\".".into(),
                parameters,
            })
            .to_vec();
    }
    let limits = ModelLimits { window: Tokens::new(u64::MAX / 8), max_output: None };
    Budget::new(limits, options, tools, &Characters).admit(conversation.view()).unwrap()
}

/// Compares the requests of every protocol, to every model, with those that are built whole; returns what differs.
fn differences(conversation: &Conversation) -> Vec<String> {
    let mut differences = Vec::new();
    for (nth, model) in MODELS.into_iter().enumerate() {
        let prompt = prompt(conversation, model, nth);
        let delivery = if nth % 2 == 0 { Delivery::Stream } else { Delivery::Whole };
        let window = Tokens::new(8_192);
        for (protocol, joined, whole) in [
            (
                "openai",
                serde_json::to_string(&openai::request(&prompt, delivery)).unwrap(),
                whole::openai(&prompt, delivery),
            ),
            (
                "responses",
                serde_json::to_string(&responses::request(&prompt, delivery)).unwrap(),
                whole::responses(&prompt, delivery),
            ),
            (
                "anthropic",
                serde_json::to_string(&anthropic::request(
                    &prompt,
                    delivery,
                    anthropic::StaleThinking::Refused,
                ))
                .unwrap(),
                whole::anthropic(&prompt, delivery),
            ),
            (
                "ollama",
                serde_json::to_string(&ollama::request(&prompt, window, delivery)).unwrap(),
                whole::ollama(&prompt, window, delivery),
            ),
            ("gemini", serde_json::to_string(&gemini::request(&prompt)).unwrap(), whole::gemini(&prompt)),
        ] {
            let whole = whole.to_string();
            if joined != whole {
                differences.push(format!("{protocol}, {model}:\n{joined}\n{whole}"));
            }
        }
    }
    differences
}

/// Compares the requests each time that `n_more` messages were said; what was sent before is then known already.
fn differences_on_the_way(messages: impl IntoIterator<Item = Message>, n_more: usize) -> Vec<String> {
    let mut conversation = Conversation::new();
    let mut found = Vec::new();
    for (at, message) in messages.into_iter().enumerate() {
        conversation.append(ContextMessage::count(message, &Characters));
        if at % n_more == 0 {
            found.extend(differences(&conversation));
        }
    }
    found.extend(differences(&conversation));
    found
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        Just(String::new()),
        Just(" \n".to_owned()),
        Just("\"ü\" 漢字 \u{1F980} \\ \u{1} </x>".to_owned()),
        "[a-c]{1,3}",
    ]
}

fn id() -> impl Strategy<Value = String> {
    prop_oneof![Just("call_1".to_owned()), Just("functions.read:0".to_owned()), Just(String::new())]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        3 => text().prop_map(Part::Text),
        1 => Just(Part::Media(json!({"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBOR"}}))),
        1 => Just(Part::Media(json!({"type": "input_audio", "n": 1e30}))),
    ]
}

fn content() -> impl Strategy<Value = Content> {
    let parts = prop::collection::vec(part(), 0..4).prop_map(Content::Parts);
    prop_oneof![2 => text().prop_map(Content::Text), 1 => parts]
}

fn calls() -> impl Strategy<Value = Vec<ToolCall>> {
    let arguments =
        prop_oneof![Just("{\"b\": [1.0, null], \"a\": 1}"), Just("{\"broken"), Just("[1]"), Just("")];
    let name = prop_oneof![Just("read"), Just("list")];
    let call = (id(), name, arguments).prop_map(|(id, name, arguments)| ToolCall {
        id,
        name: ToolName::new(name).unwrap(),
        arguments: arguments.to_owned(),
    });
    prop::collection::vec(call, 0..3)
}

/// Keys of other protocols and of no protocol, in `extra`.
fn extra() -> impl Strategy<Value = Map<String, Value>> {
    let fields = prop_oneof![
        5 => Just(json!({})),
        1 => Just(json!({"name": "ann"})),
        1 => Just(json!({"name": "bob", "thinking": "hm"})),
        1 => Just(json!({"role": "robot", "refusal": null})),
        1 => Just(json!({"function_call": {"name": "f", "arguments": "{}"}, "reasoning_details": [1]})),
        1 => Just(json!({"reasoning_content": "so", "reasoning_details": [2.5], "tool_name": null})),
        1 => Just(json!({(anthropic::THINKING): [{"type": "thinking", "thinking": "hm", "signature": "s"}]})),
        1 => Just(json!({(forge_domain::THOUGHT_SIGNATURES): [{"text": "hm", "thought": true}, {"thoughtSignature": "s"}]})),
    ];
    fields.prop_map(|fields| fields.as_object().cloned().unwrap())
}

fn plain() -> impl Strategy<Value = Message> {
    let result = (id(), content(), any::<bool>(), prop::option::of(Just("list"))).prop_map(
        |(call_id, content, is_error, name)| {
            let name = name.map(|name| ToolName::new(name).unwrap());
            Body::Tool(ToolResult { call_id, name, content, is_error })
        },
    );
    let body = prop_oneof![
        1 => content().prop_map(Body::System),
        2 => content().prop_map(Body::User),
        3 => (prop::option::of(content()), calls())
            .prop_map(|(content, calls)| Body::Assistant { content, calls }),
        3 => result,
    ];
    (body, extra()).prop_map(|(body, extra)| {
        let mut message = Message::new(body);
        message.extra = extra;
        message
    })
}

/// Messages as one of the protocols wrote them, with the peculiarities that are kept beside them.
fn peculiar() -> impl Strategy<Value = Vec<Message>> {
    let mark = json!({"type": "ephemeral"});
    let of_openai = [
        json!({"role": "developer", "content": [{"type": "text", "text": "a", "cache_control": mark}]}),
        json!({"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}),
        json!({"role": "assistant", "tool_calls": [{"id": "call_1", "index": 0, "type": "function",
            "function": {"name": "read", "arguments": "{}", "new": 1}}]}),
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "custom",
            "custom": {"name": "patch", "input": "x"}}]}),
    ];
    let of_ollama = [
        json!({"role": "user", "content": "see", "images": ["/9j/AA", "iVBOR"], "new": 1.5}),
        json!({"role": "assistant", "content": "so", "thinking": "hm", "tool_calls": [
            {"function": {"index": 1, "name": "list", "arguments": {"b": 1, "a": []}}}]}),
        json!({"role": "tool", "content": "out", "name": "list"}),
    ];
    let of_anthropic = [
        json!({"role": "user", "content": [{"type": "text", "text": "a", "cache_control": mark}]}),
        json!({"role": "user", "content": [{"type": "text", "text": "a", "cache_control": null},
            {"type": "text", "text": "b", "cache_control": null, "n": 1}]}),
        json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a:b", "content": "out"},
            {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "text", "text": " "}], "is_error": true},
            {"type": "text", "text": "so"}]}),
        json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "hm", "signature": ""},
            {"type": "thinking", "thinking": "hm", "signature": "s"}, {"type": "text", "text": "a", "citations": []},
            {"type": "tool_use", "id": "a:b", "name": "read", "input": {"b": 1, "a": 2}}]}),
        json!({"role": "assistant", "content": [{"type": "redacted_thinking", "data": "AA"}]}),
    ];
    let of_responses = [
        json!({"type": "message", "id": "m", "role": "developer", "content": [{"type": "input_text", "text": "a"}]}),
        json!({"role": "user", "content": [{"type": "input_text", "text": "a"}, {"type": "input_file", "file_id": "f"}]}),
        json!({"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "AA=="}),
        json!({"type": "message", "role": "assistant", "phase": "commentary", "content": [
            {"type": "output_text", "text": "ü", "annotations": []}, {"type": "refusal", "refusal": "no"}]}),
        json!({"type": "custom_tool_call", "call_id": "call_1", "name": "patch", "input": "x"}),
        json!({"type": "never_seen", "a": null}),
    ];
    let openai =
        prop::sample::select(of_openai.to_vec()).prop_map(|entry| vec![openai::read_message(entry).unwrap()]);
    let ollama = prop::sample::subsequence(of_ollama.to_vec(), 1..=3)
        .prop_map(|entries| ollama::read_messages(&entries).unwrap());
    let anthropic = prop::sample::select(of_anthropic.to_vec())
        .prop_map(|entry| anthropic::read_entry_whole(entry).unwrap());
    let responses = prop::sample::subsequence(of_responses.to_vec(), 1..=6)
        .prop_map(|items| responses::read_items(items).unwrap());
    let of_gemini = [
        json!([{"role": "model", "parts": [{"text": "hm", "thought": true},
            {"functionCall": {"name": "read", "args": {"b": 1, "a": []}}, "thoughtSignature": "s"},
            {"functionCall": {"id": "x", "name": "list", "args": {}}}]},
            {"role": "user", "parts": [{"functionResponse": {"name": "read", "response": {"lines": 2}}},
                {"functionResponse": {"id": "x", "name": "list", "response": {"output": "out"}}}, {"text": "so"}]}]),
        json!([{"role": "model", "parts": [{"executableCode": {"code": "1"}}, {"text": "", "thoughtSignature": "s"}]}]),
        json!([{"role": "user", "parts": [{"inlineData": {"mimeType": "image/png", "data": "AA=="}}]}]),
    ];
    let gemini = prop::sample::select(of_gemini.to_vec())
        .prop_map(|contents| gemini::read_contents(contents.as_array().unwrap()).unwrap());
    prop_oneof![openai, ollama, anthropic, responses, gemini]
}

#[test]
fn joined_requests_are_the_bytes_of_whole_ones() {
    let some = prop_oneof![3 => plain().prop_map(|message| vec![message]), 1 => peculiar()];
    let messages =
        prop::collection::vec(some, 0..10).prop_map(|some| some.into_iter().flatten().collect::<Vec<_>>());
    let mut runner = TestRunner::new(Config { cases: 400, failure_persistence: None, ..Config::default() });
    let outcome = runner.run(&messages, |messages| {
        let found = differences_on_the_way(messages, 1);
        prop_assert!(found.is_empty(), "{}", found.join("\n"));
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

#[test]
fn recorded_sessions_are_joined_to_the_bytes_of_whole_requests() {
    let Some(root) = std::env::var_os("FORGE_CORPUS").map(PathBuf::from) else {
        skipped_tests::skip("FORGE_CORPUS is not set", "the requests of recorded sessions");
        return;
    };
    let manifest: Vec<Value> =
        serde_json::from_slice(&std::fs::read(root.join("MANIFEST.json")).unwrap()).unwrap();
    let small = manifest.iter().filter(|entry| entry["bytes"].as_u64().is_some_and(|bytes| bytes < 400_000));
    let (mut n_sessions, mut n_messages) = (0, 0);
    for file in small.filter_map(|entry| entry["file"].as_str()) {
        let Ok(bytes) = std::fs::read(root.join(file)) else { continue };
        let Ok(sessions) = read(&bytes, file) else { continue };
        for (nth, session) in sessions.iter().enumerate().take(3) {
            let messages: Vec<Message> = Draft::open(session, nth).messages().collect();
            n_sessions += 1;
            n_messages += messages.len();
            let some = messages.len() / 3 + 1;
            let found = differences_on_the_way(messages, some);
            assert!(found.is_empty(), "{file}: {} differ; the first is {}", found.len(), found[0]);
        }
    }
    println!("{n_sessions} sessions with {n_messages} messages");
    assert!(n_sessions > 0 && n_messages > n_sessions, "{n_sessions} sessions, {n_messages} messages");
}
