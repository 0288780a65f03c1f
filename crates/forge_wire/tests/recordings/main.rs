//! Recorded traffic of real providers and servers: all of it that is of our protocols must be read as what it says,
//! however the network cut it.
//!
//! `FORGE_FIXTURES` names the folder of the recordings, which are no part of this repository. Without it the tests
//! pass and say what they skipped.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

mod expected;
mod framing;
mod tape;

use forge_domain::{ChatCompletionMessage, FinishReason, ProviderError, ReplyParts, Tokens};
use forge_wire::{HttpRefusal, RequestBody, StreamEvent, WireError, provider_error, read_error};
use forge_wire::{anthropic, gemini, ollama, openai, responses};
use pretty_assertions::assert_eq;
use serde_json::Value;

use expected::Said;
use tape::{Exchange, exchanges, recordings};

/// A protocol: how its answers are read, and how they are read a second time.
struct Protocol {
    api: &'static str,
    whole: fn(&[u8]) -> Result<ChatCompletionMessage, WireError>,
    stream: fn() -> Box<Reader>,
    expected: fn(&[Value]) -> Said,
    /// The key that every whole answer has.
    answer_key: &'static str,
}

type Reader = dyn FnMut(&str) -> Result<StreamEvent, WireError>;

const PROTOCOLS: [Protocol; 5] = [
    Protocol {
        api: "openai.chat",
        whole: openai::read_answer,
        stream: || {
            let mut reader = openai::OpenAiReplyReader::default();
            Box::new(move |data| reader.read(data))
        },
        expected: expected::openai,
        answer_key: "choices",
    },
    Protocol {
        api: "openai.responses",
        whole: responses::read_answer,
        stream: || {
            let mut reader = responses::ResponsesReplyReader::default();
            Box::new(move |data| reader.read(data))
        },
        expected: expected::responses,
        answer_key: "output",
    },
    Protocol {
        api: "anthropic.messages",
        whole: anthropic::read_answer,
        stream: || {
            let mut reader = anthropic::AnthropicReplyReader::default();
            Box::new(move |data| reader.read(data))
        },
        expected: expected::anthropic,
        answer_key: "content",
    },
    Protocol {
        api: "ollama.chat",
        whole: ollama::read_answer,
        stream: || {
            let mut reader = ollama::OllamaReplyReader::default();
            Box::new(move |data| reader.read(data))
        },
        expected: expected::ollama,
        answer_key: "message",
    },
    Protocol {
        api: "gemini",
        whole: gemini::read_answer,
        stream: || {
            let mut reader = gemini::GeminiReplyReader::default();
            Box::new(move |data| reader.read(data))
        },
        expected: expected::gemini,
        answer_key: "candidates",
    },
];

#[test]
fn every_recorded_answer_is_read_as_what_it_says() {
    let Some(root) = recordings("answers") else { return };
    for protocol in PROTOCOLS {
        let (mut streams, mut wholes) = (0, 0);
        for exchange in exchanges(&root, protocol.api) {
            if exchange.status >= 400 || exchange.body.is_empty() {
                continue;
            }
            let events = expected::events(&exchange.body);
            let expected = (protocol.expected)(&events);
            let actual = match framing::stream(&exchange) {
                Some(bytes) => {
                    streams += 1;
                    fold((protocol.stream)(), &framing::frames(&bytes, &[]))
                }
                None => {
                    let is_answer = events.len() == 1
                        && events[0].get(protocol.answer_key).is_some_and(|value| !value.is_null());
                    let read = (protocol.whole)(exchange.body.as_bytes());
                    // One recording is of an echo server: legal JSON, and no completion.
                    assert_eq!(read.is_ok(), is_answer, "{}: {:?}", exchange.file, read.err());
                    let Ok(piece) = read else { continue };
                    wholes += 1;
                    let mut parts = ReplyParts::default();
                    parts.push(piece);
                    // Whether it says so or not, a whole answer is whole.
                    Said { is_whole: expected.is_whole, ..said(parts) }
                }
            };
            assert_eq!(actual, expected, "{}", exchange.file);
        }
        eprintln!("{}: {streams} streams, {wholes} whole answers", protocol.api);
        assert!(streams + wholes > 0, "no recording of {} was read", protocol.api);
    }
}

/// Every boundary where that is little work; else byte by byte, and at places that a fixed seed chooses.
#[test]
fn the_cuts_of_the_network_change_nothing() {
    const SHORT: usize = 8 * 1_024;
    const SEEDED_CUTS: usize = 200;
    let Some(root) = recordings("streams") else { return };
    let mut n_cuts = 0;
    for protocol in PROTOCOLS {
        for exchange in exchanges(&root, protocol.api) {
            let Some(bytes) = framing::stream(&exchange).filter(|_| exchange.status < 400) else { continue };
            let whole = framing::frames(&bytes, &[]);
            let mut check = |cuts: &[usize]| {
                n_cuts += 1;
                // What is read of the same frames is the same: the readers see nothing else.
                assert_eq!(framing::frames(&bytes, cuts), whole, "{} cut at {cuts:?}", exchange.file);
            };
            if bytes.len() <= SHORT {
                (1..bytes.len()).for_each(|cut| check(&[cut]));
            } else {
                let mut seed = 0x9e37_79b9_7f4a_7c15_u64;
                for _ in 0..SEEDED_CUTS {
                    seed =
                        seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    check(&[1 + (seed >> 33) as usize % (bytes.len() - 1)]);
                }
            }
            let every_byte: Vec<usize> = (1..bytes.len()).collect();
            check(&every_byte);
        }
    }
    eprintln!("{n_cuts} cuts");
    assert!(n_cuts > 0, "no stream was cut");
}

/// A stream that breaks off before the event that says why the model stopped gives no reply.
#[test]
fn a_stream_without_its_end_is_truncated() {
    let Some(root) = recordings("streams") else { return };
    let mut n_streams = 0;
    for protocol in PROTOCOLS {
        for exchange in exchanges(&root, protocol.api) {
            let Some(bytes) = framing::stream(&exchange).filter(|_| exchange.status < 400) else { continue };
            let (mut reader, mut parts) = ((protocol.stream)(), ReplyParts::default());
            for frame in framing::frames(&bytes, &[]) {
                let says_so = (protocol.expected)(&expected::events(&frame)).is_whole;
                match reader(&frame) {
                    Ok(StreamEvent::Piece(piece)) if piece.finish_reason.is_some() => {
                        assert!(says_so, "{}: whole too early", exchange.file);
                        break;
                    }
                    Ok(StreamEvent::Piece(piece)) => parts.push(piece),
                    Ok(StreamEvent::Done) | Err(_) => break,
                }
                assert!(!says_so, "{}: whole too late", exchange.file);
            }
            assert!(matches!(parts.finish(), Err(ProviderError::Truncated)), "{}", exchange.file);
            n_streams += 1;
        }
    }
    assert!(n_streams > 0, "no stream was read");
}

/// Wherever the output limit cuts a reply off, only calls are left that the whole reply has.
#[test]
fn a_reply_that_was_cut_off_anywhere_has_only_complete_calls() {
    const MOST_CUTS: usize = 200;
    let Some(root) = recordings("streams") else { return };
    let mut n_cut_calls = 0;
    for protocol in PROTOCOLS {
        for exchange in exchanges(&root, protocol.api) {
            let Some(bytes) = framing::stream(&exchange).filter(|_| exchange.status < 400) else { continue };
            let frames = framing::frames(&bytes, &[]);
            let whole = fold((protocol.stream)(), &frames).calls;
            if whole.is_empty() {
                continue;
            }
            let mut reader = (protocol.stream)();
            let mut pieces = Vec::new();
            for frame in &frames {
                let Ok(StreamEvent::Piece(piece)) = reader(frame) else { break };
                pieces.push(ChatCompletionMessage { finish_reason: None, ..piece });
            }
            for cut in (0..=pieces.len()).step_by(pieces.len().div_ceil(MOST_CUTS).max(1)) {
                let mut parts = ReplyParts::default();
                pieces[..cut].iter().cloned().for_each(|piece| parts.push(piece));
                let finish_reason = Some(FinishReason::Length);
                parts.push(ChatCompletionMessage { finish_reason, ..Default::default() });
                let reply = parts.finish().unwrap();
                n_cut_calls += reply.cut_calls().len();
                for call in reply.message.calls() {
                    let call = (call.name.to_string(), expected::arguments(&call.arguments));
                    assert!(whole.contains(&call), "{} cut at {cut}: {call:?}", exchange.file);
                }
            }
        }
    }
    eprintln!("{n_cut_calls} calls were cut off");
    assert!(n_cut_calls > 0, "no call was cut off");
}

/// The items of every recorded request, those of other agents included, are read and written byte for byte; so are
/// those of every reply.
#[test]
fn every_recorded_item_is_written_as_it_was_read() {
    let Some(root) = recordings("items") else { return };
    let (mut n_items, mut n_captured) = (0, 0);
    for exchange in exchanges(&root, "openai.responses") {
        let request: Value = serde_json::from_str(&exchange.request).unwrap_or_default();
        let ends = expected::events(&exchange.body);
        let replies = ends.iter().map(|event| event.get("response").unwrap_or(event)["output"].clone());
        for items in std::iter::once(request["input"].clone()).chain(replies) {
            let Value::Array(items) = items else { continue };
            let messages = responses::read_items(items.clone()).unwrap();
            let again: Vec<Value> = messages.iter().flat_map(responses::message_items).collect();
            let text = |items: &[Value]| serde_json::to_string(items).unwrap();
            assert_eq!(text(&again), text(&items), "{}", exchange.file);
            n_items += items.len();
            n_captured += if exchange.file.contains("codex") { items.len() } else { 0 };
        }
    }
    eprintln!("{n_items} items, {n_captured} of them captured");
    assert!(n_captured > 0, "no request of an agent was read");
}

#[test]
fn every_recorded_request_is_written_as_it_was_read() {
    let Some(root) = recordings("requests") else { return };
    let mut n_messages = 0;
    for protocol in PROTOCOLS {
        for exchange in exchanges(&root, protocol.api) {
            let Ok(request) = serde_json::from_str::<Value>(&exchange.request) else { continue };
            if let Some(contents) = request["contents"].as_array() {
                n_messages += contents.len();
                assert_eq!(&gemini_again(contents), contents, "{}", exchange.file);
            }
            if !request["messages"].is_array() {
                continue;
            }
            let body = RequestBody::read(exchange.request.as_bytes()).unwrap();
            assert_eq!(serde_json::to_value(&body).unwrap(), request, "{}", exchange.file);
            n_messages += body.messages.len();
            for (message, again) in
                body.messages.iter().zip(again(protocol.api, &body.messages, &exchange.file))
            {
                assert_eq!(&again, message, "{}", exchange.file);
            }
        }
    }
    eprintln!("{n_messages} messages");
    assert!(n_messages > 0, "no request was read");
}

/// The messages, read into the domain and written again.
fn again(api: &str, messages: &[Value], file: &str) -> Vec<Value> {
    match api {
        "openai.chat" => messages
            .iter()
            .map(|message| {
                let read =
                    openai::read_message(message.clone()).unwrap_or_else(|error| panic!("{file}: {error}"));
                openai::message_json(&read)
            })
            .collect(),
        "ollama.chat" => {
            let read = ollama::read_messages(messages).unwrap_or_else(|error| panic!("{file}: {error}"));
            read.iter().map(ollama::message_json).collect()
        }
        _ => messages.iter().map(|message| anthropic_again(message, file)).collect(),
    }
}

/// The contents, read into the domain and written again; adjacent messages of one role are one content.
fn gemini_again(contents: &[Value]) -> Vec<Value> {
    let messages = gemini::read_contents(contents).unwrap();
    let mut again: Vec<Value> = Vec::new();
    for (role, parts) in messages.iter().map(|message| gemini::content_parts(message).unwrap()) {
        match again.last_mut() {
            Some(last) if last["role"] == role => last["parts"].as_array_mut().unwrap().extend(parts),
            _ => again.push(serde_json::json!({"role": role, "parts": parts})),
        }
    }
    again
}

fn anthropic_again(message: &Value, file: &str) -> Value {
    let body = anthropic::MessageBody::read(message.clone()).unwrap();
    assert_eq!(&serde_json::to_value(body).unwrap(), message, "{file}");
    // The domain has a system message in mid-conversation, and this protocol's older form has none.
    if message["role"] == "system" || message["content"].is_string() {
        return message.clone();
    }
    let messages =
        anthropic::read_entry_whole(message.clone()).unwrap_or_else(|error| panic!("{file}: {error}"));
    let blocks = messages.iter().flat_map(|message| anthropic::entry_blocks(message).unwrap().1);
    let mut written = message.clone();
    written["content"] = blocks.collect();
    written
}

#[test]
fn every_recorded_error_has_its_type() {
    let Some(root) = recordings("errors") else { return };
    let mut n_errors = 0;
    for exchange in tape::errors(&root) {
        let body = exchange.body.strip_prefix("event: error\ndata: ").unwrap_or(&exchange.body);
        let refusal = HttpRefusal { status: exchange.status, retry_after: None, model: None };
        let actual = provider_error(refusal, read_error(body.as_bytes()));
        let expected = kind_of_error(&exchange);
        assert_eq!(kind(&actual), expected, "{} {}: {body:.400}", exchange.file, exchange.status);
        if let ProviderError::ContextTooLong { need, window, .. } = &actual {
            let figures = [need, window].map(|figure| figure.map(Tokens::as_u64));
            // Every figure is the server's own, or the sum of two of them.
            let digits: String = body.chars().filter(|c| *c != ',').collect();
            let own = |n: u64| digits.contains(&n.to_string());
            let numbers = expected::numbers(&digits);
            let sum = |n: u64| numbers.iter().any(|a| numbers.iter().any(|b| a + b == n));
            assert!(
                figures.into_iter().flatten().all(|n| own(n) || sum(n)),
                "{}: {figures:?}",
                exchange.file
            );
            if let [Some(need), Some(window)] = figures {
                assert!(need > window, "{}", exchange.file);
            }
        }
        n_errors += 1;
    }
    eprintln!("{n_errors} errors");
    assert!(n_errors > 0, "no error was read");
}

fn kind(error: &ProviderError) -> &'static str {
    match error {
        ProviderError::ContextTooLong { .. } | ProviderError::RequestTooLarge { .. } => "too long",
        ProviderError::RateLimited { .. } | ProviderError::OverRate { .. } => "rate limit",
        ProviderError::Overloaded { .. } => "overloaded",
        ProviderError::Auth { .. } => "auth",
        ProviderError::UnknownModel { .. } => "unknown model",
        ProviderError::InvalidRequest { .. } | ProviderError::UnreadableCall { .. } => "invalid",
        other => panic!("{other}"),
    }
}

/// What a person who reads the recording would call it: by the status, and the file's own name for what it shows.
fn kind_of_error(exchange: &Exchange) -> &'static str {
    let shows_overflow = exchange.file.contains("context_le") || exchange.file.contains("overflow");
    // The quoted ones are named by their sources.
    const QUOTED_OVERFLOWS: [&str; 8] = [
        "aibridge#56",
        "docker-agent#569",
        "claude-code#228",
        "deer-flow#310",
        "crewAI-examples#121",
        "chatgpt-web#372",
        "fast-agent#621",
        "vllm#4667",
    ];
    let is_quoted = QUOTED_OVERFLOWS.iter().any(|source| exchange.file.ends_with(source));
    match exchange.status {
        429 => "rate limit",
        401 | 403 => "auth",
        200 | 500.. => "overloaded",
        400 if shows_overflow || is_quoted => "too long",
        // No model is given to the classifier here, so it cannot name one.
        _ => "invalid",
    }
}

fn fold(mut reader: Box<Reader>, frames: &[String]) -> Said {
    let mut parts = ReplyParts::default();
    let mut is_whole = false;
    for frame in frames {
        match reader(frame) {
            Ok(StreamEvent::Piece(piece)) => {
                is_whole |= piece.finish_reason.is_some();
                parts.push(piece);
            }
            Ok(StreamEvent::Done) => break,
            Err(WireError::Refused { error }) => {
                assert!(!error.message.is_empty());
                return Said { is_refused: !is_whole, is_whole, ..said(parts) };
            }
            Err(error) => panic!("{error}: {frame}"),
        }
    }
    Said { is_whole, ..said(parts) }
}

/// The reply in plain words, as if it had ended here.
fn said(mut parts: ReplyParts) -> Said {
    parts.push(ChatCompletionMessage { finish_reason: Some(FinishReason::Stop), ..Default::default() });
    let reply = parts.finish().unwrap();
    let calls = reply.message.calls().iter();
    let reasoning = reply.message.metadata.get("reasoning").and_then(Value::as_str);
    Said {
        text: reply.message.to_text(),
        reasoning: reasoning.unwrap_or_default().to_owned(),
        calls: calls.map(|call| (call.name.to_string(), expected::arguments(&call.arguments))).collect(),
        usage: reply.usage.map(|usage| {
            [usage.prompt_tokens, usage.completion_tokens, usage.cached_tokens, usage.cache_written_tokens]
                .map(Tokens::as_u64)
        }),
        is_whole: false,
        is_refused: false,
    }
}
