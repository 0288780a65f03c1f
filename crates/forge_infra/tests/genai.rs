//! Tests of the adapter to the crate `genai`, with loopback servers that speak as Gemini does.
#![cfg(feature = "genai")]
#![expect(clippy::unwrap_used, reason = "a panic is how a test fails")]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::mpsc::{Receiver, channel};

use forge_domain::{
    Budget, ChatOptions, ContextMessage, Conversation, FinishReason, Message, ModelId, ModelLimits, ModelRef,
    Prompt, Provider, ProviderError, ProviderId, Reply, ReplyParts, TokenCounter, Tokens, ToolDefinition,
    ToolName, ToolResult,
};
use forge_infra::{GenaiProvider, Key, Secret};
use futures::TryStreamExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

const SECRET: &str = "sk-the-secret-key";

struct Characters;
impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.chars().count() as u64)
    }
}

fn id() -> ProviderId {
    ProviderId::new("tail").unwrap()
}

fn prompt(messages: &[Message]) -> Prompt {
    let model = ModelRef { provider: id(), model: ModelId::new("gemini-2.5-flash").unwrap() };
    let limits = ModelLimits { window: Tokens::new(8_000), max_output: None };
    let read = ToolDefinition {
        name: ToolName::new("read").unwrap(),
        description: "Reads a file.".into(),
        parameters: json!({"type": "object", "properties": {"path": {"type": "string"}}}),
    };
    let mut conversation = Conversation::new();
    for message in messages {
        conversation.append(ContextMessage::count(message.clone(), &Characters));
    }
    let budget = Budget::new(limits, ChatOptions::new(model), vec![read], &Characters);
    budget.admit(conversation.view()).unwrap()
}

/// Sends `answer` to every client, byte for byte; returns the base URL and the received requests.
fn serve(answer: String) -> (String, Receiver<(String, Value)>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let base_url = format!("http://{}/v1beta", listener.local_addr().unwrap());
    let (tell, told) = channel();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            let (mut request, mut chunk) = (Vec::new(), [0; 4096]);
            let (head, body) = loop {
                let n_read = connection.read(&mut chunk).unwrap();
                request.extend_from_slice(&chunk[..n_read]);
                let text = String::from_utf8_lossy(&request).into_owned();
                let parts =
                    text.split_once("\r\n\r\n").map(|(head, body)| (head.to_owned(), body.to_owned()));
                match parts.and_then(|(head, body)| Some((head, serde_json::from_str(&body).ok()?))) {
                    Some(whole) => break whole,
                    None => assert_ne!(n_read, 0),
                }
            };
            let _ = tell.send((head, body));
            connection.write_all(answer.as_bytes()).unwrap();
        }
    });
    (base_url, told)
}

fn events(events: &[Value]) -> String {
    let events: String = events.iter().map(|event| format!("data: {event}\r\n\r\n")).collect();
    format!("HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n{events}")
}

async fn ask(provider: &GenaiProvider, messages: &[Message]) -> Result<Reply, ProviderError> {
    let mut parts = ReplyParts::default();
    let mut stream = provider.chat(prompt(messages)).await?;
    while let Some(piece) = stream.try_next().await? {
        parts.push(piece);
    }
    parts.finish()
}

fn provider(base_url: &str) -> GenaiProvider {
    let key = Key::Given(Secret::new(SECRET));
    let headers = [("x-team", &Secret::new("research"))];
    GenaiProvider::new(id(), Some(base_url), key).unwrap().with_headers(headers)
}

fn candidate(parts: &Value, finish: &Value) -> Value {
    json!({"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": finish}],
        "usageMetadata": {"promptTokenCount": 11, "candidatesTokenCount": 5, "totalTokenCount": 16}})
}

#[tokio::test]
async fn a_tool_loop_goes_through_a_protocol_that_is_not_ours() {
    let opening = [Message::system("Be brief."), Message::user("What is in a?")];
    let call =
        json!([{"functionCall": {"name": "read", "args": {"path": "a"}}, "thoughtSignature": "SIGNED"}]);
    let answer =
        events(&[candidate(&json!([{"text": "I look."}]), &Value::Null), candidate(&call, &json!("STOP"))]);
    let (base_url, asked) = serve(answer);
    let reply = ask(&provider(&base_url), &opening).await.unwrap();
    assert_eq!(reply.message.to_text(), "I look.");
    let calls: Vec<_> =
        reply.message.calls().iter().map(|call| (call.name.as_str(), call.arguments.as_str())).collect();
    assert_eq!(calls, [("read", "{\"path\":\"a\"}")]);
    assert_eq!(reply.finish_reason, FinishReason::ToolCalls);
    let usage = reply.usage.unwrap();
    assert_eq!((usage.prompt_tokens.as_u64(), usage.completion_tokens.as_u64()), (11, 5));
    let (head, request) = asked.recv().unwrap();
    assert!(head.starts_with("POST /v1beta/models/gemini-2.5-flash:streamGenerateContent?alt=sse"), "{head}");
    assert!(head.contains("x-goog-api-key: the-secret-key") && head.contains("x-team: research"), "{head}");
    assert!(request.to_string().contains("Be brief.") && request["tools"].to_string().contains("read"));

    // The result goes back under the tool's name, and the call as it was signed.
    let (base_url, asked) = serve(events(&[candidate(&json!([{"text": "An apple."}]), &json!("STOP"))]));
    let result = Message::tool(ToolResult::answer(&reply.message.calls()[0], "an apple"));
    let messages: Vec<Message> = opening.into_iter().chain([reply.message, result]).collect();
    let reply = ask(&provider(&base_url), &messages).await.unwrap();
    assert_eq!((reply.message.to_text().as_str(), reply.finish_reason), ("An apple.", FinishReason::Stop));
    let request = asked.recv().unwrap().1.to_string();
    for sent in ["\"functionResponse\"", "\"name\":\"read\"", "an apple", "SIGNED"] {
        assert!(request.contains(sent), "{sent}: {request}");
    }
}

#[tokio::test]
async fn what_goes_wrong_is_told_as_by_our_own_adapters() {
    let refusal = |status: &str, body: &Value| {
        let body = body.to_string();
        let length = body.len();
        format!(
            "HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {length}\r\nretry-after: 7\r\n\
             connection: close\r\n\r\n{body}"
        )
    };
    let said = |message: &str| json!({"error": {"message": message, "code": 400}});
    for (answer, expected) in [
        (
            refusal(
                "429 Too Many",
                &json!({"error": {"code": 429, "status": "RESOURCE_EXHAUSTED", "message": "slow"}}),
            ),
            "RateLimited { retry_after: Some(7s), message: \"slow\" }",
        ),
        (
            refusal(
                "400 Bad",
                &said(
                    "The input token count (1250074) exceeds the maximum number of tokens allowed (1048576).",
                ),
            ),
            "ContextTooLong { need: Some(Tokens(1250074)), window: Some(Tokens(1048576))",
        ),
        (
            refusal("401 No", &said(&format!("bad key {SECRET}"))),
            "Auth { status: 401, message: \"bad key (key hidden)\"",
        ),
        (refusal("503 Busy", &said("overloaded")), "Overloaded { status: 503"),
        // A stream that ends without its end.
        (events(&[candidate(&json!([{"text": "half"}]), &Value::Null)]), "Truncated"),
    ] {
        let (base_url, _asked) = serve(answer.clone());
        let error = ask(&provider(&base_url), &[Message::user("hi")]).await.unwrap_err();
        let shown = format!("{error:?}");
        assert!(shown.starts_with(expected), "{shown}\n{answer}");
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let missing = GenaiProvider::new(id(), None, Key::Missing { variable: "TAIL_KEY".into() }).unwrap();
    let error = ask(&missing, &[Message::user("hi")]).await.unwrap_err();
    assert_eq!(error.to_string(), "provider `tail` needs a key: set the environment variable TAIL_KEY");
    assert!(GenaiProvider::new(id(), Some("notaurl"), Key::None).is_err());
}
