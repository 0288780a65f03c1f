//! Recorded traffic of real providers and servers: all of it that is of our protocols must be readable.
//!
//! `FORGE_FIXTURES` names the folder of the recordings, which are no part of this repository. Without it the tests
//! pass and say what they skipped.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

use std::path::{Path, PathBuf};

use forge_domain::{ProviderError, ReplyParts};
use forge_wire::WireError;
use forge_wire::anthropic::MessageBody;
use forge_wire::openai::{StreamEvent, message_json, read_answer, read_error, read_event, read_message};
use pretty_assertions::assert_eq;
use serde_json::Value;

/// One exchange as the recordings hold it.
struct Exchange {
    file: String,
    status: u64,
    request: String,
    body: String,
}

#[test]
fn every_recorded_chat_completion_is_read() {
    let Some(root) = recordings("chat completions") else { return };
    let mut exchanges = exchanges(&root, "openai.chat");
    exchanges.extend(captures(&root.join("local_captures")));
    let (mut streams, mut answers, mut errors, mut messages) = (0, 0, 0, 0);
    for exchange in &exchanges {
        messages += check_request(exchange);
        if exchange.body.is_empty() {
            continue;
        }
        if exchange.status >= 400 {
            let said = read_error(exchange.body.as_bytes());
            assert!(!said.message.is_empty(), "{}: an error without words", exchange.file);
            errors += 1;
        } else if let Some(events) = events(exchange) {
            check_stream(exchange, &events);
            streams += 1;
        } else {
            let read = read_answer(exchange.body.as_bytes());
            // One recording is of an echo server: legal JSON, and no completion.
            let legal = exchange.body.contains("\"choices\"");
            assert_eq!(read.is_ok(), legal, "{}: {:?}", exchange.file, read.err());
            answers += 1;
        }
    }
    eprintln!("read {streams} streams, {answers} answers, {errors} errors, {messages} messages of requests");
    assert!(streams > 50 && answers > 20 && errors > 5 && messages > 100, "recordings are missing");
}

#[test]
fn every_recorded_anthropic_message_is_written_as_it_was_read() {
    let Some(root) = recordings("Anthropic messages") else { return };
    let mut read = 0;
    for exchange in exchanges(&root, "anthropic.messages") {
        let request: Value = serde_json::from_str(&exchange.request).unwrap_or_default();
        let answer: Value = serde_json::from_str(&exchange.body).unwrap_or_default();
        let sent = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
        let answered = Some(&answer).filter(|answer| answer["type"] == "message");
        for message in sent.iter().chain(answered) {
            let body = MessageBody::read(message.clone()).unwrap();
            assert_eq!(&serde_json::to_value(body).unwrap(), message, "{}", exchange.file);
            read += 1;
        }
    }
    eprintln!("read {read} messages");
    assert!(read > 50, "recordings are missing");
}

/// The folder of the recordings; where there is none, says that `what` was not read.
fn recordings(what: &str) -> Option<PathBuf> {
    #[expect(clippy::disallowed_methods, reason = "a test may know where the recordings are")]
    let root = std::env::var_os("FORGE_FIXTURES").map(PathBuf::from);
    if root.is_none() {
        eprintln!("skipped: FORGE_FIXTURES is unset, so no recorded {what} were read");
    }
    root
}

/// The messages of the request, each written as it was read; returns how many.
fn check_request(exchange: &Exchange) -> usize {
    let request: Value = serde_json::from_str(&exchange.request).unwrap_or_default();
    let messages = request["messages"].as_array().map(Vec::as_slice).unwrap_or_default();
    for message in messages {
        let read = read_message(message.clone()).unwrap_or_else(|error| panic!("{}: {error}", exchange.file));
        assert_eq!(&message_json(&read), message, "{}", exchange.file);
    }
    messages.len()
}

fn check_stream(exchange: &Exchange, events: &[String]) {
    let mut parts = ReplyParts::default();
    let mut done = false;
    for event in events {
        match read_event(event) {
            Ok(StreamEvent::Piece(piece)) => parts.push(piece),
            Ok(StreamEvent::Done) => done = true,
            // A recorded refusal inside a stream is a legal end of it.
            Err(WireError::Refused { message }) if !message.is_empty() => return,
            Err(error) => panic!("{}: {error}\n{event}", exchange.file),
        }
    }
    match parts.finish() {
        Ok(_) => (),
        // One server ends a stream that calls tools without any finish reason.
        Err(ProviderError::Truncated) if done => eprintln!("no finish reason: {}", exchange.file),
        Err(error) => panic!("{}: {error}", exchange.file),
    }
}

/// The data of the events, where the body is a stream: in SSE framing, or one event a line.
fn events(exchange: &Exchange) -> Option<Vec<String>> {
    let data: Vec<String> = exchange
        .body
        .lines()
        .filter_map(|line| line.strip_prefix("data:"))
        .map(|data| data.trim().to_owned())
        .collect();
    if !data.is_empty() {
        return Some(data);
    }
    exchange
        .file
        .ends_with(".chunks.txt")
        .then(|| exchange.body.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect())
}

/// The exchanges of `api` that the index of the recordings names.
#[expect(clippy::disallowed_methods, reason = "a test may read the recordings")]
fn exchanges(root: &Path, api: &str) -> Vec<Exchange> {
    let index = std::fs::read_to_string(root.join("index.jsonl")).unwrap();
    let mut exchanges = Vec::new();
    for line in index.lines() {
        let entry: Value = serde_json::from_str(line).unwrap();
        if entry["api"] != api {
            continue;
        }
        let file = entry["file"].as_str().unwrap().to_owned();
        let text = String::from_utf8_lossy(&std::fs::read(root.join(&file)).unwrap()).into_owned();
        let status = entry["status"].as_u64().unwrap_or(200);
        if !file.ends_with(".yaml") && !file.ends_with(".yml") {
            exchanges.push(Exchange { file, status, request: String::new(), body: text });
            continue;
        }
        match cassette(&text, entry["n"].as_u64().unwrap()) {
            Some((request, body)) => exchanges.push(Exchange { file, status, request, body }),
            None => eprintln!("skipped: {file}, whose bodies are not plain text"),
        }
    }
    exchanges
}

/// The chat completions among the requests of other agents, and among the answers of a local server.
#[expect(clippy::disallowed_methods, reason = "a test may read the recordings")]
fn captures(folder: &Path) -> Vec<Exchange> {
    let files = |folder: &Path| std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut captures = Vec::new();
    for path in files(folder).chain(files(&folder.join("llama-server"))).filter(|path| path.is_file()) {
        let file = path.display().to_string();
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            let exchange: Value = serde_json::from_str(line).unwrap();
            if exchange["path"] != "/v1/chat/completions" {
                continue;
            }
            let status = exchange["status"].as_u64().unwrap_or(200);
            let request = exchange.get("request").unwrap_or(&exchange["body"]).to_string();
            let body = exchange["response"].as_str().unwrap_or_default().to_owned();
            captures.push(Exchange { file: file.clone(), status, request, body });
        }
    }
    captures
}

/// Request and response body of the `n`-th exchange on a cassette.
fn cassette(yaml: &str, n: u64) -> Option<(String, String)> {
    let tape: Value = serde_saphyr::from_str(yaml).ok()?;
    let exchange =
        tape.get("interactions").or_else(|| tape.get("http_interactions"))?.get(usize::try_from(n).ok()?)?;
    Some((body(&exchange["request"])?, body(&exchange["response"])?))
}

fn body(message: &Value) -> Option<String> {
    if let Some(parsed) = message.get("parsed_body") {
        return Some(parsed.to_string());
    }
    match &message["body"] {
        Value::String(text) => Some(text.clone()),
        Value::Null => Some(String::new()),
        body => body["string"].as_str().map(str::to_owned),
    }
}
