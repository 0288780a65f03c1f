//! What every provider keeps to, run for each implementation; and how those over HTTP fail.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;

use forge_domain::{
    Budget, ChatOptions, Content, ContextMessage, Conversation, FinishReason, Message, ModelId, ModelInfo,
    ModelLimits, ModelRef, Prompt, Provider, ProviderError, ProviderId, Reply, ReplyParts, TokenCounter,
    Tokens, ToolCall, ToolDefinition, ToolName,
};
use forge_infra::{
    AnthropicProvider, Exchange, GeminiProvider, Key, OllamaProvider, OpenAiProvider, Playback,
    ProviderSetupError, ResponsesProvider, Secret,
};
use forge_tests::{SHOWN_WINDOW, ScriptedServer, Step};
use futures::{StreamExt, TryStreamExt};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

const SECRET: &str = "sk-the-secret-key";

/// One token a character.
struct Characters;
impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.chars().count() as u64)
    }
}

fn model(name: &str) -> ModelRef {
    ModelRef { provider: ProviderId::new("scripted").unwrap(), model: ModelId::new(name).unwrap() }
}

fn prompt() -> Prompt {
    let limits = ModelLimits { window: Tokens::new(8_000), max_output: None };
    let read = ToolDefinition {
        name: ToolName::new("read").unwrap(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    let mut conversation = Conversation::new();
    for message in [Message::system("Be brief."), Message::user("What is in a and b?")] {
        conversation.append(ContextMessage::count(message, &Characters));
    }
    Budget::new(limits, ChatOptions::new(model("gpt-x")), vec![read], &Characters)
        .admit(conversation.view())
        .unwrap()
}

fn openai(server: &ScriptedServer) -> OpenAiProvider {
    let key = Key::Given(Secret::new(SECRET));
    OpenAiProvider::new(ProviderId::new("scripted").unwrap(), &server.base_url(), key).unwrap()
}

/// An adapter, asking a server.
type Adapter = fn(&ScriptedServer) -> Arc<dyn Provider>;

/// Every adapter over HTTP, and where it posts its prompts.
const ADAPTERS: [(&str, &str, Adapter); 5] = [
    ("OpenAiProvider", "/v1/chat/completions", |server| Arc::new(openai(server))),
    ("ResponsesProvider", "/v1/responses", |server| {
        Arc::new(ResponsesProvider::new(id(), &server.base_url(), secret()).unwrap())
    }),
    ("AnthropicProvider", "/v1/messages", |server| {
        Arc::new(AnthropicProvider::new(id(), &server.base_url(), secret()).unwrap())
    }),
    ("OllamaProvider", "/api/chat", |server| {
        Arc::new(OllamaProvider::new(id(), &server.base_url(), secret()).unwrap())
    }),
    ("GeminiProvider", "/v1/models/gpt-x:streamGenerateContent", |server| {
        Arc::new(GeminiProvider::new(id(), &server.base_url(), secret()).unwrap())
    }),
];

fn id() -> ProviderId {
    ProviderId::new("scripted").unwrap()
}

fn secret() -> Key {
    Key::Given(Secret::new(SECRET))
}

/// Every implementation, set up to give `replies` in order. Their calls must be numbered `call_1`, `call_2`, … as the
/// scripted server numbers them. A server lives as long as its provider.
fn providers(replies: &[Message]) -> Vec<(&'static str, Arc<dyn Provider>, Option<ScriptedServer>)> {
    let script: Vec<Step> = replies.iter().map(step).collect();
    let exchanges =
        replies.iter().map(|reply| Exchange { reply: reply.clone(), results: Vec::new() }).collect();
    let mut providers: Vec<(_, Arc<dyn Provider>, _)> =
        vec![("Playback", Arc::new(Playback::new(exchanges, Arc::new(Characters))), None)];
    for (name, _, adapter) in ADAPTERS {
        let server = ScriptedServer::start(script.clone());
        providers.push((name, adapter(&server), Some(server)));
    }
    providers
}

fn step(reply: &Message) -> Step {
    let text = reply.content().map(Content::to_text);
    let calls: Vec<_> =
        reply.calls().iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    match text {
        Some(text) if calls.is_empty() => Step::Text(text),
        Some(text) => Step::both(text, &calls),
        None => Step::calls(&calls),
    }
}

fn call(n: usize, name: &str, arguments: &str) -> ToolCall {
    ToolCall { id: format!("call_{n}"), name: ToolName::new(name).unwrap(), arguments: arguments.into() }
}

async fn ask(provider: &dyn Provider) -> Result<Reply, ProviderError> {
    let mut parts = ReplyParts::default();
    let mut stream = provider.chat(prompt()).await?;
    while let Some(piece) = stream.try_next().await? {
        parts.push(piece);
    }
    assert!(stream.next().await.is_none(), "a stream that has ended stays so");
    parts.finish()
}

#[tokio::test]
async fn replies_arrive_whole_and_in_order_with_their_usage() {
    let mut both = Message::calling(vec![call(3, "read", "{\"path\":\"c\"}")]);
    both = both.with_content("One more: ü, 漢字, \"quotes\"\nand a second line.");
    let replies = [
        Message::assistant("Hello, world."),
        Message::calling(vec![call(1, "read", r#"{"path":"a"}"#), call(2, "read", r#"{"path":"b"}"#)]),
        both,
        Message::assistant("Not { JSON \\ at all: data: [DONE]"),
    ];
    for (name, provider, _server) in providers(&replies) {
        for reply in &replies {
            let actual = ask(&*provider).await.unwrap();
            let usage = actual.usage.unwrap_or_else(|| panic!("{name} tells no usage"));
            assert!(usage.prompt_tokens > Tokens::ZERO && usage.completion_tokens > Tokens::ZERO, "{name}");
            let finish_reason =
                if reply.calls().is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
            let expected = Reply { message: reply.clone(), usage: Some(usage), finish_reason };
            assert_eq!(actual, expected, "{name}");
        }
    }
}

#[tokio::test]
async fn a_stream_may_be_dropped_early_and_the_next_call_gets_the_next_reply() {
    let replies = [Message::assistant("one"), Message::assistant("two"), Message::assistant("three")];
    for (name, provider, _server) in providers(&replies) {
        let mut stream = provider.chat(prompt()).await.unwrap();
        assert!(stream.next().await.is_some(), "{name}");
        drop(stream);
        drop(provider.chat(prompt()).await.unwrap());
        assert_eq!(ask(&*provider).await.unwrap().message, replies[2], "{name}");
    }
}

#[tokio::test]
async fn a_request_that_goes_out_is_the_prompt_with_the_key() {
    let server = ScriptedServer::start(vec![Step::text("hi")]);
    ask(&openai(&server)).await.unwrap();
    let request = server.requests().remove(0);
    let actual = (request["model"].clone(), request["stream"].clone(), request["messages"].clone());
    let messages = json!([
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is in a and b?"},
    ]);
    assert_eq!(actual, (json!("gpt-x"), json!(true), messages));
    assert_eq!(request["tools"][0]["function"]["name"], json!("read"));
    assert_eq!(server.authorizations(), [Some(format!("Bearer {SECRET}"))]);
}

#[tokio::test]
async fn each_protocol_is_asked_in_its_own_words() {
    let server = ScriptedServer::start(vec![Step::text("hi"); 4]);
    let headers = [("anthropic-beta", &Secret::new("context-1m"))];
    let anthropic = AnthropicProvider::new(id(), &server.base_url(), secret()).unwrap();
    ask(&anthropic.with_headers(headers).unwrap()).await.unwrap();
    ask(&OllamaProvider::new(id(), &server.base_url(), Key::None).unwrap()).await.unwrap();
    ask(&ResponsesProvider::new(id(), &server.base_url(), secret()).unwrap()).await.unwrap();
    ask(&GeminiProvider::new(id(), &server.base_url(), secret()).unwrap()).await.unwrap();
    let [anthropic, ollama, responses, gemini] = server.requests().try_into().unwrap();
    let mark = json!({"type": "ephemeral"});
    let text = |text: &str| json!([{"type": "text", "text": text, "cache_control": mark}]);
    assert_eq!(anthropic["system"], text("Be brief."));
    assert_eq!(anthropic["messages"], json!([{"role": "user", "content": text("What is in a and b?")}]));
    assert_eq!(anthropic["max_tokens"], json!(2_000));
    // The window is what the budget has, as the server's is larger.
    assert_eq!(ollama["options"], json!({"num_ctx": 8_000}));
    assert_eq!(responses["instructions"], json!("Be brief."));
    assert_eq!(responses["input"], json!([{"role": "user", "content": "What is in a and b?"}]));
    assert_eq!(responses["tools"][0]["name"], json!("read"));
    let keys = [Some(SECRET.to_owned()), None, Some(format!("Bearer {SECRET}")), Some(SECRET.to_owned())];
    assert_eq!(server.authorizations(), keys);
    let says = |text: &str| json!({"parts": [{"text": text}]});
    assert_eq!(gemini["systemInstruction"], says("Be brief."));
    assert_eq!(gemini["contents"], json!([{"role": "user", "parts": [{"text": "What is in a and b?"}]}]));
    let read = json!({"name": "read", "description": "Reads a file.",
        "parametersJsonSchema": {"type": "object", "properties": {"path": {"type": "string"}}}});
    assert_eq!(gemini["tools"], json!([{"functionDeclarations": [read]}]));
}

#[tokio::test]
async fn a_prompt_that_ollama_would_cut_is_not_sent() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        let (mut connection, _) = listener.accept().unwrap();
        let mut request = Vec::new();
        while !request.ends_with(b"}") {
            let mut bytes = [0; 4096];
            let n_read = connection.read(&mut bytes).unwrap();
            request.extend_from_slice(&bytes[..n_read]);
        }
        let card = r#"{"model_info": {"llama.context_length": 20}}"#;
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\n";
        write!(connection, "{head}content-length: {}\r\n\r\n{card}", card.len()).unwrap();
    });
    let error = ask(&OllamaProvider::new(id(), &base_url, Key::None).unwrap()).await.unwrap_err();
    let ProviderError::ContextTooLong { need, window, .. } = error else { panic!("{error}") };
    assert_eq!((need, window), (Some(prompt().tokens()), Some(Tokens::new(20))));
}

#[tokio::test]
async fn a_provider_without_a_key_sends_none() {
    let server = ScriptedServer::start(vec![Step::text("hi")]);
    let id = ProviderId::new("scripted").unwrap();
    // A slash at the end of the address does not matter.
    let provider = OpenAiProvider::new(id, &format!("{}/", server.base_url()), Key::None).unwrap();
    ask(&provider).await.unwrap();
    assert_eq!(server.authorizations(), [None]);
}

#[tokio::test]
async fn dropping_a_stream_hangs_up() {
    for (name, _, adapter) in ADAPTERS {
        let server = Arc::new(ScriptedServer::start(vec![Step::Hang]));
        let provider = adapter(&server);
        let mut stream = provider.chat(prompt()).await.unwrap();
        stream.next().await.unwrap().unwrap();
        drop(stream);
        let waited = tokio::task::spawn_blocking(move || server.wait_for_hang_up()).await.unwrap();
        assert!(waited, "{name}");
    }
}

#[tokio::test]
async fn a_whole_answer_to_a_stream_request_is_read() {
    let whole = json!({
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "hi"}}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    });
    let server = ScriptedServer::start(vec![Step::status(200, whole.to_string())]);
    let actual = ask(&openai(&server)).await.unwrap();
    assert_eq!((actual.message, actual.finish_reason), (Message::assistant("hi"), FinishReason::Stop));
    assert_eq!(actual.usage.map(|usage| usage.prompt_tokens), Some(Tokens::new(3)));
}

#[tokio::test]
async fn models_are_listed() {
    for (name, _, adapter) in ADAPTERS {
        let server = ScriptedServer::start(Vec::new());
        let actual = adapter(&server).models().await.unwrap();
        // Only Ollama tells the window of a model that is not asked for it in the list.
        let window = (name == "OllamaProvider").then(|| Tokens::new(SHOWN_WINDOW));
        let expected = ModelInfo { window, ..ModelInfo::new(ModelId::new("scripted").unwrap()) };
        assert_eq!(actual, [expected], "{name}");
    }
}

/// The error's variant and words.
fn told(error: &ProviderError) -> (String, String) {
    let variant = format!("{error:?}").split([' ', '{']).next().unwrap_or_default().to_owned();
    (variant, error.to_string())
}

fn assert_no_key(error: &ProviderError) {
    let mut shown = format!("{error:?} {error:#?} {error}");
    let mut cause = std::error::Error::source(error);
    while let Some(error) = cause {
        shown.push_str(&format!("{error:?} {error}"));
        cause = error.source();
    }
    assert!(!shown.contains(SECRET), "{shown}");
}

#[tokio::test]
async fn a_server_that_fails_is_told_apart() {
    let said = |message: &str| json!({"error": {"message": message}}).to_string();
    let unknown =
        json!({"error": {"message": "The model `gpt-x` does not exist", "code": "model_not_found"}});
    for (step, variant, words) in [
        (
            Step::status(401, said(&format!("bad key {SECRET}"))),
            "Auth",
            "the provider refused the key (status 401): bad key (key hidden)",
        ),
        (
            Step::status(404, unknown.to_string()),
            "UnknownModel",
            "the provider does not know the model `gpt-x`: The model `gpt-x` does not exist",
        ),
        (
            Step::status(429, said("slow down")),
            "RateLimited",
            "the provider's rate limit is reached: slow down",
        ),
        (
            Step::Headed {
                status: 429,
                headers: vec![("retry-after".to_owned(), "86400".to_owned())],
                body: said("come back tomorrow"),
            },
            "RateLimited",
            "the provider's rate limit is reached: come back tomorrow (try again in 1 d)",
        ),
        (
            Step::status(200, said(&format!("overloaded, {SECRET}"))),
            "Overloaded",
            "the provider is unavailable (within its answer): overloaded, (key hidden)",
        ),
        (
            Step::status(529, said("Overloaded")),
            "Overloaded",
            "the provider is unavailable (status 529): Overloaded",
        ),
        (
            Step::status(400, said("prompt is too long: 205351 tokens > 200000 maximum")),
            "ContextTooLong",
            "the prompt is too long for the model (205351 of 200000 tokens): prompt is too long",
        ),
        (
            Step::status(400, said("no such option")),
            "InvalidRequest",
            "the provider refused the request (status 400): no such option",
        ),
        (Step::CutStream, "Truncated", "the reply was interrupted before its end"),
        (Step::BreakStream, "Interrupted", "the connection to URL broke before the reply was complete"),
        (Step::HangUp, "Interrupted", "the connection to URL broke before the reply was complete"),
        (Step::Garbage, "Malformed", "the provider's answer cannot be read: not JSON: "),
        (Step::status(200, "{"), "Malformed", "the provider's answer cannot be read: not JSON: "),
    ] {
        for (name, path, adapter) in ADAPTERS {
            let server = ScriptedServer::start(vec![step.clone()]);
            let error = ask(&*adapter(&server)).await.unwrap_err();
            assert_no_key(&error);
            let (actual, actual_words) = told(&error);
            let words = words.replace("URL", &server.base_url().replace("/v1", path));
            assert_eq!(actual, variant, "{name} {step:?}");
            assert!(actual_words.starts_with(&words), "{name} {step:?}: {actual_words}");
        }
    }
}

/// Sends `answer` to everyone who asks, byte for byte, and hangs up; gives the base URL.
fn serve(answer: impl Into<Vec<u8>>) -> String {
    let answer = answer.into();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            // All of the request is read first: to close with some of it unread would reset the connection.
            let mut request = Vec::new();
            while !request.ends_with(b"}") {
                let mut bytes = [0; 4096];
                let n_read = connection.read(&mut bytes).unwrap();
                request.extend_from_slice(&bytes[..n_read]);
            }
            connection.write_all(&answer).unwrap();
        }
    });
    base_url
}

/// Sends `head` and then `more` without end to everyone who asks, until they hang up; gives the base URL.
fn serve_without_end(head: String, more: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for mut connection in listener.incoming().map_while(Result::ok) {
            let (head, more) = (head.clone(), more.repeat(64 * 1_024 / more.len()));
            std::thread::spawn(move || {
                let mut request = Vec::new();
                let is_whole = |request: &[u8]| {
                    request.ends_with(b"}") || (request.starts_with(b"GET") && request.ends_with(b"\r\n\r\n"))
                };
                while !is_whole(&request) {
                    let mut bytes = [0; 4096];
                    match connection.read(&mut bytes) {
                        Ok(n_read @ 1..) => request.extend_from_slice(&bytes[..n_read]),
                        _ => return,
                    }
                }
                let mut sent = connection.write_all(head.as_bytes());
                while sent.is_ok() {
                    sent = connection.write_all(more.as_bytes());
                }
            });
        }
    });
    base_url
}

#[tokio::test]
async fn a_field_that_a_server_refuses_is_sent_in_another_form() {
    let refused =
        json!({"detail": [{"loc": ["body", "stream_options"], "msg": "Extra inputs are not permitted"}]});
    let reply = Message::assistant("Two files.");
    let server = ScriptedServer::start(vec![
        Step::status(422, refused.to_string()),
        step(&reply),
        step(&reply),
        Step::status(422, refused.to_string()),
    ]);
    let provider = openai(&server);
    for _ in 0..2 {
        assert!(ask(&provider).await.is_ok());
    }
    // What is refused in spite of it is an error, with its place.
    let error = ask(&provider).await.unwrap_err().to_string();
    assert!(error.ends_with("(status 422): body.stream_options: Extra inputs are not permitted"), "{error}");
    let has_options = |body: &Value| !body["stream_options"].is_null();
    let sent: Vec<bool> = server.requests().iter().map(has_options).collect();
    assert_eq!(sent, [true, false, false, false]);
}

#[tokio::test]
async fn an_answer_without_end_is_stopped() {
    let head = |status: u16, content_type: &str| {
        format!("HTTP/1.1 {status} Endless\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n")
    };
    let (sse, json) = ("text/event-stream", "application/json");
    for (name, ..) in ADAPTERS {
        let is_ollama = name == "OllamaProvider";
        let empty = match name {
            "OllamaProvider" => "{}\n",
            "ResponsesProvider" => "data: {\"type\": \"response.in_progress\"}\n\n",
            "AnthropicProvider" => "event: ping\ndata: {\"type\": \"ping\"}\n\n",
            "GeminiProvider" => "data: {\"candidates\": []}\n\n",
            _ => "data: {\"choices\": []}\n\n",
        };
        for (what, head, more, expected) in [
            ("a line", head(200, sse) + "data: {\"", "x", "an event of more than 8 MiB"),
            ("blanks", head(200, sse), " ", "more than"),
            (
                "empty lines",
                head(200, sse),
                "\n",
                if is_ollama { "100000 events" } else { "a beginning of blanks" },
            ),
            (
                "a body",
                head(200, json) + "{\"",
                "x",
                if is_ollama { "an event" } else { "a body of more than 32 MiB" },
            ),
            ("events without content", head(200, sse), empty, "100000 events in a row had no content"),
            ("an error", head(400, json), "no ", "the provider refused the request (status 400): no no no"),
        ] {
            let base_url = serve_without_end(head, more);
            let error = ask(&*at(name, &base_url)).await.unwrap_err();
            let words = error.to_string();
            assert!(words.contains(expected) && words.len() < 1_000, "{name}, {what}: {words}");
            if what != "an error" {
                assert_eq!(error.name(), "over_limit", "{name}, {what}");
            }
        }
        let base_url = serve_without_end(head(200, json) + "{\"data\": [\"", "x");
        let error = at(name, &base_url).models().await.unwrap_err().to_string();
        assert!(error.contains("a body of more than 32 MiB"), "{name}: {error}");
    }
}

#[tokio::test]
async fn errors_are_read_however_they_are_compressed() {
    for (encoding, body) in [
        (
            "gzip",
            "1f8b08000000000002030dc6410ac0200c04c0af2c7945eba17ff11044dab8925828887faf739a29ea4e\
             978429a611b9e8be74a7f5811a18241eb69270eedfda02170e58feaabd266bfd6e21e45c42000000",
        ),
        (
            "deflate",
            "789c0dc6410ac0200c04c0af2c7945eba17ff11044dab8925828887faf739a29ea4e978429a611b9e8be\
             74a7f5811a18241eb69270eedfda02170e58feaabd266bfded49167b",
        ),
        (
            "br",
            "1b41000014a1d2756ea97e2f0909b666704e614263c0069c706038f036f8a003c0b56059599d8b5da928\
             823cfab7eb891d48334428c69cf50213722bec06",
        ),
        (
            "zstd",
            "28b52ffd0068dd010022c40d12a0bb0150feaf2edfff2da8dea81577ff450defa132358de8c1c73be5d9\
             f57051d2a2efaeb7f952baacf002b390ee547417c8cb9ce80200",
        ),
    ] {
        let bytes: Vec<u8> =
            (0..body.len()).step_by(2).map(|at| u8::from_str_radix(&body[at..at + 2], 16).unwrap()).collect();
        for (name, ..) in ADAPTERS {
            for status in [400, 200] {
                let mut answer = format!(
                    "HTTP/1.1 {status} Odd\r\ncontent-type: application/json\r\ncontent-encoding: {encoding}\r\n\
                     connection: close\r\n\r\n"
                )
                .into_bytes();
                answer.extend_from_slice(&bytes);
                let error = ask(&*at(name, &serve(answer))).await.unwrap_err().to_string();
                let expected = "the prompt is too long for the model (9 of 8 tokens): prompt is too long";
                assert!(error.starts_with(expected), "{name} {encoding} {status}: {error}");
            }
        }
    }
}

/// A good answer of that content, to its end.
fn good(content_type: &str, body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\nconnection: close\r\n\r\n{body}")
}

#[tokio::test]
async fn who_answers_in_another_protocol_is_told_by_name_and_not_asked_again() {
    const OPENAI: &str =
        "data: {\"choices\": [{\"index\": 0, \"delta\": {\"content\": \"hi\"}}]}\n\ndata: [DONE]\n\n";
    const ANTHROPIC: &str = "event: message_start\ndata: {\"type\": \"message_start\", \"message\": {\"content\": []}}\n\n\
         event: message_stop\ndata: {\"type\": \"message_stop\"}\n\n";
    const OLLAMA: &str = "{\"message\": {\"content\": \"hi\"}, \"done\": false}\n{\"message\": {\"content\": \"\"}, \"done\": true}\n";
    const GEMINI: &str = "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"hi\"}]}, \"finishReason\": \"STOP\"}]}\r\n\r\n";
    const RESPONSES: &str =
        "event: response.created\ndata: {\"type\": \"response.created\", \"response\": {}}\n\n";
    const COMPLETIONS: &str = "data: {\"choices\": [{\"index\": 0, \"text\": \"hi\"}]}\n\ndata: [DONE]\n\n";
    let openai = "it answers in OpenAI's chat protocol; set `kind: openai-chat` for this provider";
    let anthropic = "it answers in Anthropic's messages protocol; set `kind: anthropic` for this provider";
    let ollama = "it answers in Ollama's own protocol; set `kind: ollama` for this provider";
    let gemini = "it answers in Gemini's own protocol; set `kind: gemini` for this provider";
    let responses = "it answers in OpenAI's responses protocol; set `kind: responses` for this provider";
    let completions =
        "it answers in OpenAI's protocol for plain completions, which is not known here; is base_url right?";
    let page = "it answered with a web page; is base_url right?";
    let sse = "text/event-stream";
    for (content_type, body, expected, own) in [
        (sse, OPENAI, openai, "OpenAiProvider"),
        (sse, ANTHROPIC, anthropic, "AnthropicProvider"),
        ("application/x-ndjson", OLLAMA, ollama, "OllamaProvider"),
        // What is said of the content may be wrong.
        ("application/json", OLLAMA, ollama, "OllamaProvider"),
        ("text/plain", OPENAI, openai, "OpenAiProvider"),
        (sse, GEMINI, gemini, "GeminiProvider"),
        (sse, RESPONSES, responses, "ResponsesProvider"),
        (sse, COMPLETIONS, completions, ""),
        ("text/html; charset=utf-8", "<html>", page, ""),
    ] {
        for (name, path, _) in ADAPTERS.iter().filter(|(name, ..)| *name != own) {
            let base_url = serve(good(content_type, body));
            let error = ask(&*at(name, &base_url)).await.unwrap_err();
            let ProviderError::WrongProtocol { url, what } = &error else { panic!("{name} {body}: {error}") };
            let expected_url = format!("{}{path}", base_url.trim_end_matches("/v1"));
            assert_eq!((url.as_str(), what.as_str()), (expected_url.as_str(), expected), "{name} {body}");
            assert_eq!(error.retry(), forge_domain::Retry::Never);
        }
    }
    // A page whose type is not told, and nothing at all.
    for (body, expected) in [
        ("<!doctype html><html>", "does not speak the configured protocol: it answered with a web page"),
        ("", "the reply was interrupted before its end"),
        ("data: [DONE]\n\n", "sent an empty answer; are base_url and kind right?"),
    ] {
        for (name, ..) in
            ADAPTERS.iter().filter(|(name, ..)| *name != "OllamaProvider" || body != "<!doctype html><html>")
        {
            let error = ask(&*at(name, &serve(good("", body)))).await.unwrap_err().to_string();
            assert!(error.contains(expected), "{name} {body}: {error}");
        }
    }
    let empty =
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
    for (name, ..) in ADAPTERS {
        let error = ask(&*at(name, &serve(empty.to_owned()))).await.unwrap_err().to_string();
        assert!(error.contains("sent an empty answer"), "{name}: {error}");
    }
}

/// The adapter of that name, asking at that address.
fn at(name: &str, base_url: &str) -> Arc<dyn Provider> {
    match name {
        "OpenAiProvider" => Arc::new(OpenAiProvider::new(id(), base_url, Key::None).unwrap()),
        "ResponsesProvider" => Arc::new(ResponsesProvider::new(id(), base_url, Key::None).unwrap()),
        "AnthropicProvider" => Arc::new(AnthropicProvider::new(id(), base_url, Key::None).unwrap()),
        "GeminiProvider" => Arc::new(GeminiProvider::new(id(), base_url, Key::None).unwrap()),
        _ => Arc::new(OllamaProvider::new(id(), base_url, Key::None).unwrap()),
    }
}

#[tokio::test]
async fn odd_answers_are_understood() {
    let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n";
    let hi = r#"data: {"choices": [{"index": 0, "delta": {"content": "hi"}}]}"#;
    let stop = r#"data: {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}"#;
    let error = r#"data: {"error": {"message": "out of memory"}}"#;
    let whole = r#"{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}"#;
    for (answer, expected) in [
        (format!("{head}\r\n: waiting\n\n{hi}\n\n{stop}\n\n"), Ok("hi")),
        (format!("{head}content-length: 9999\r\n\r\n{hi}\n\n{stop}\n\n"), Ok("hi")),
        (format!("{head}\r\n{hi}\r\n\r\n{stop}\r\n\r\ndata: [DONE]\r\n\r\n{error}\r\n\r\n"), Ok("hi")),
        (
            format!("{head}\r\n{hi}\n\n{error}\n\n"),
            Err("the provider is unavailable (within its answer): out of memory"),
        ),
        (format!("{head}\r\n{hi}\n\n{stop}"), Err("the reply was interrupted before its end")),
        // A whole answer, by whatever type, behind a byte order mark.
        (format!("{head}\r\n\u{feff} {whole}"), Ok("hi")),
        // The end is not told, only that there is no more.
        (format!("{head}\r\n{hi}\n\ndata: [DONE]\n\n"), Ok("hi")),
        (
            "HTTP/1.1 200 OK\r\ncontent-type: text/html; charset=utf-8\r\n\r\n<html>".into(),
            Err("URL/chat/completions does not speak the configured protocol: it answered with a web page; \
                 is base_url right?"),
        ),
        (
            "HTTP/1.1 308 Gone\r\nlocation: https://elsewhere/v1\r\ncontent-length: 0\r\n\r\n".into(),
            Err("the provider refused the request (status 308): \
                 URL/chat/completions has moved to https://elsewhere/v1; change base_url"),
        ),
    ] {
        let base_url = serve(answer.clone());
        let provider = OpenAiProvider::new(ProviderId::new("odd").unwrap(), &base_url, Key::None).unwrap();
        let actual = ask(&provider).await.map(|reply| reply.message).map_err(|error| error.to_string());
        let expected = expected.map(Message::assistant).map_err(|words| words.replace("URL", &base_url));
        assert_eq!(actual, expected, "{answer}");
    }
}

#[tokio::test]
async fn a_script_that_has_ended_says_so() {
    let server = ScriptedServer::start(vec![Step::text("only")]);
    let provider = openai(&server);
    ask(&provider).await.unwrap();
    let actual = ask(&provider).await.unwrap_err().to_string();
    let expected = "the provider is unavailable (status 500): \
                    the script has ended: it has 1 steps, this is request 2";
    assert_eq!(actual, expected);
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_network_error_without_the_query() {
    // A socket that is bound and does not listen: its port refuses, and no other test can be given it meanwhile.
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let address = socket.local_addr().unwrap();
    let id = ProviderId::new("scripted").unwrap();
    let key = Key::Given(Secret::new(SECRET));
    let base_url = format!("http://{address}/v1?token={SECRET}");
    let provider = OpenAiProvider::new(id, &base_url, key).unwrap();
    for (error, path) in [
        (ask(&provider).await.unwrap_err(), "chat/completions"),
        (provider.models().await.unwrap_err(), "models"),
    ] {
        assert_no_key(&error);
        let expected = ("Network".to_owned(), format!("cannot reach http://{address}/v1/{path}"));
        assert_eq!(told(&error), expected);
    }
    assert!(!format!("{provider:?}").contains(SECRET));
}

#[tokio::test]
async fn a_missing_key_is_told_when_it_is_needed() {
    let server = ScriptedServer::start(vec![Step::text("hi")]);
    let key = Key::Missing { variable: "SCRIPTED_KEY".into() };
    let provider =
        OpenAiProvider::new(ProviderId::new("scripted").unwrap(), &server.base_url(), key).unwrap();
    let expected = "provider `scripted` needs a key: set the environment variable SCRIPTED_KEY";
    assert_eq!(ask(&provider).await.unwrap_err().to_string(), expected);
    assert_eq!(provider.models().await.unwrap_err().to_string(), expected);
    assert_eq!(server.requests(), Vec::<Value>::new());
}

#[test]
fn a_provider_that_cannot_be_set_up_says_why() {
    let id = || ProviderId::new("scripted").unwrap();
    let base_url =
        OpenAiProvider::new(id(), &format!("me:{SECRET}@host/v1?k={SECRET}"), Key::None).unwrap_err();
    assert!(matches!(&base_url, ProviderSetupError::BaseUrl { url, .. } if url == "host/v1"), "{base_url:?}");
    let key = Key::Given(Secret::new("two\nlines"));
    let key = OpenAiProvider::new(id(), "http://127.0.0.1/v1", key).unwrap_err();
    assert_eq!(key.to_string(), "provider `scripted` has a key with characters that cannot be sent");
    for error in [base_url, key] {
        assert!(!format!("{error:?} {error}").contains(SECRET));
    }
}

#[tokio::test]
async fn a_recording_that_has_ended_says_so() {
    let recording = Playback::new(Vec::new(), Arc::new(Characters));
    let actual = ask(&recording).await.unwrap_err();
    assert!(matches!(actual, ProviderError::RecordingEnded));
}
