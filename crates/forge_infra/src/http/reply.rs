//! A reply in transit: frames of bytes become pieces, up to the end or the first error.

use std::io::Cursor;

use forge_domain::{AnswerLimit, ChatCompletionMessage, ChatStream, FinishReason, ProviderError};
use forge_wire::{StreamEvent, WireError};
use futures::io::AsyncBufReadExt;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use reqwest::Response;
use sse_stream::SseByteStream;
use tokio::task::coop::consume_budget;
use tokio::time::{Instant, timeout_at};

use super::limits::{self, Broken};
use super::{Framing, Kind, RequestContext};

/// A function that reads a whole answer.
type ReadWhole = fn(&[u8]) -> Result<ChatCompletionMessage, WireError>;

/// Reads the answer to a request, whole or streamed.
pub(crate) async fn reply(
    response: Response,
    asked: RequestContext,
    framing: Framing,
    whole: ReadWhole,
    reader: impl FnMut(&str) -> Result<StreamEvent, WireError> + Send + 'static,
) -> Result<ChatStream, ProviderError> {
    if response.content_length() == Some(0) {
        return Err(asked.nothing());
    }
    if matches!(Kind::of(&response), Kind::Page) {
        return Err(asked.page());
    }
    let bytes = response.bytes_stream().map_ok(Vec::from).map_err(Broken::Connection).boxed();
    Ok(read(bytes, asked, framing, whole, reader))
}

/// Reads the body of an answer.
fn read(
    bytes: Bytes,
    asked: RequestContext,
    framing: Framing,
    whole: ReadWhole,
    reader: impl FnMut(&str) -> Result<StreamEvent, WireError> + Send + 'static,
) -> ChatStream {
    match framing {
        Framing::Sse => {
            // The declared content type is often wrong: the beginning decides.
            let opened = async move {
                let deadline = Instant::now() + asked.silence;
                match timeout_at(deadline, opening(bytes)).await {
                    Err(_) => failure(asked.silent()),
                    Ok(Err(error)) => failure(asked.broke(error)),
                    Ok(Ok((Opening::Page, _))) => failure(asked.page()),
                    Ok(Ok((Opening::Json, bytes))) => at_once(bytes, asked, whole, reader).await,
                    Ok(Ok((Opening::Other, bytes))) => {
                        let told = asked.clone();
                        let bytes = limits::with_limits(bytes, framing).map_ok(Cursor::new);
                        let frames = SseByteStream::new(bytes).map(move |event| match event {
                            Ok(event) => Ok(event.data.unwrap_or_default()),
                            Err(error) => Err(told.stream(error)),
                        });
                        pieces(frames.boxed(), asked, reader)
                    }
                }
            };
            stream::once(opened).flatten().boxed()
        }
        // A whole answer is a line as well.
        Framing::Lines => {
            let bytes = limits::with_limits(bytes, framing).map_err(std::io::Error::other).boxed();
            let told = asked.clone();
            let frames = bytes.into_async_read().lines().map_err(move |error| told.lines(error));
            pieces(frames.boxed(), asked, reader)
        }
    }
}

/// The body of an answer in transit.
type Bytes = BoxStream<'static, Result<Vec<u8>, Broken>>;

/// The kind of a body, by its first character that is not blank.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// A value, or a line of one.
    Json,
    /// A web page.
    Page,
    /// Events, or nothing at all.
    Other,
}

/// Returns the kind of the body, and all of it but leading blanks.
async fn opening(mut bytes: Bytes) -> Result<(Opening, Bytes), Broken> {
    const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
    let (mut head, mut n_blank) = (Vec::new(), 0);
    let opening = loop {
        let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head);
        // What was found to be blank is dropped, so that no byte is looked at twice.
        let blank = text.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        match text.get(blank) {
            Some(b'{' | b'[') => break Opening::Json,
            Some(b'<') => break Opening::Page,
            Some(_) if !BYTE_ORDER_MARK.starts_with(&head) => break Opening::Other,
            _ => {}
        }
        n_blank += blank;
        if n_blank > limits::BLANK_BYTES {
            return Err(Broken::at_bytes("a beginning of blanks", limits::BLANK_BYTES));
        }
        if text.len() < head.len() || blank > 0 {
            head = text[blank..].to_vec();
        }
        consume_budget().await;
        match bytes.next().await {
            Some(chunk) => head.extend(chunk?),
            None => break Opening::Other,
        }
    };
    Ok((opening, stream::iter([Ok(head)]).chain(bytes).boxed()))
}

/// Reads the reply of a server that does not stream, or the lines of a protocol without events.
async fn at_once(
    bytes: Bytes,
    asked: RequestContext,
    whole: ReadWhole,
    mut reader: impl FnMut(&str) -> Result<StreamEvent, WireError> + Send + 'static,
) -> ChatStream {
    let deadline = Instant::now() + asked.silence;
    let body = match timeout_at(deadline, limits::whole(bytes)).await {
        Err(_) => return failure(asked.silent()),
        Ok(Err(error)) => return failure(asked.broke(error)),
        Ok(Ok(body)) => body,
    };
    let body = String::from_utf8_lossy(&body);
    let body = body.trim_start_matches('\u{feff}').trim_start();
    let answer = whole(body.as_bytes()).map_err(|error| match body.lines().next().map(&mut reader) {
        Some(Err(foreign @ WireError::Foreign { .. })) => foreign,
        _ => error,
    });
    stream::iter([answer.map_err(|error| asked.wire(error, body.as_bytes()))]).boxed()
}

fn failure(error: ProviderError) -> ChatStream {
    stream::iter([Err(error)]).boxed()
}

/// The data of events.
type Frames = BoxStream<'static, Result<String, ProviderError>>;

struct Incoming<R> {
    frames: Frames,
    reader: R,
    asked: RequestContext,
    progress: Progress,
    /// True if any data belonged to a reply.
    says_something: bool,
    /// The time by which the next content must arrive.
    deadline: Instant,
    /// Events without content since the last one that had some.
    n_empty: usize,
    /// Bytes of content.
    n_content: usize,
}

/// The progress of a reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// More must come.
    Open,
    /// The model has stopped; the usage may still come.
    Stopped,
    /// Nothing more is read.
    Ended,
}

/// Returns the pieces of a reply, up to its end or the first error.
fn pieces<R>(frames: Frames, asked: RequestContext, reader: R) -> ChatStream
where
    R: FnMut(&str) -> Result<StreamEvent, WireError> + Send + 'static,
{
    let deadline = Instant::now() + asked.silence;
    let incoming = Incoming {
        frames,
        reader,
        asked,
        progress: Progress::Open,
        says_something: false,
        deadline,
        n_empty: 0,
        n_content: 0,
    };
    stream::unfold(incoming, |mut incoming| async {
        let piece = incoming.next().await?;
        Some((piece, incoming))
    })
    .fuse()
    .boxed()
}

impl<R: FnMut(&str) -> Result<StreamEvent, WireError>> Incoming<R> {
    async fn next(&mut self) -> Option<Result<ChatCompletionMessage, ProviderError>> {
        while self.progress != Progress::Ended {
            // Events that are all there at once must not keep everybody else from running, such as who
            // cancels.
            consume_budget().await;
            let has_stopped = self.progress == Progress::Stopped;
            let data = match timeout_at(self.deadline, self.frames.next()).await {
                Ok(Some(Ok(data))) => data,
                // A reply whose model has stopped is whole, however its connection ends.
                Ok(Some(Err(_)) | None) | Err(_) if has_stopped => return None,
                Ok(Some(Err(error))) => return self.fail(error),
                Ok(None) => return self.fail(ProviderError::Truncated),
                Err(_) => return self.fail(self.asked.silent()),
            };
            let event = match data.trim() {
                "" => Ok(StreamEvent::Piece(ChatCompletionMessage::default())),
                _ => (self.reader)(&data),
            };
            match event {
                Ok(StreamEvent::Piece(piece)) => {
                    if let Some((limit, what)) = self.over_limit(&piece) {
                        return if has_stopped {
                            None
                        } else {
                            self.fail(self.asked.over_limit(limit, what))
                        };
                    }
                    if piece.finish_reason.is_some() {
                        self.progress = Progress::Stopped;
                        self.deadline = Instant::now() + limits::AFTER_STOP;
                    }
                    if piece != ChatCompletionMessage::default() {
                        self.says_something = true;
                        return Some(Ok(piece));
                    }
                }
                Ok(StreamEvent::Done) => return self.end(),
                Err(_) if has_stopped => return None,
                Err(error) => return self.fail(self.asked.wire(error, data.as_bytes())),
            }
        }
        None
    }

    /// Counts what the piece adds; returns the limit that it exceeds, if any.
    fn over_limit(&mut self, piece: &ChatCompletionMessage) -> Option<(AnswerLimit, String)> {
        let n_bytes = content_bytes(piece);
        if n_bytes == 0
            && piece.finish_reason.is_none()
            && piece.extra.is_empty()
            && piece.metadata.is_empty()
        {
            self.n_empty += 1;
            if self.n_empty > limits::EMPTY_EVENTS {
                let what = format!("{} events in a row had no content", limits::EMPTY_EVENTS);
                return Some((AnswerLimit::Size, what));
            }
            return (Instant::now() > self.deadline)
                .then(|| (AnswerLimit::Time, limits::silence_of(self.asked.silence)));
        }
        self.n_empty = 0;
        if self.progress == Progress::Open {
            self.deadline = Instant::now() + self.asked.silence;
        }
        self.n_content += n_bytes;
        let most = limits::CONTENT_BYTES;
        let is_over = self.n_content > most;
        is_over.then(|| (AnswerLimit::Size, Broken::at_bytes("a reply", most).to_string()))
    }

    /// Handles the server's end mark. Some servers never send a finish reason; then the model just stopped.
    /// If the server sent nothing else either, there is no reply.
    fn end(&mut self) -> Option<Result<ChatCompletionMessage, ProviderError>> {
        if !self.says_something {
            return self.fail(self.asked.nothing());
        }
        let is_open = self.progress == Progress::Open;
        self.progress = Progress::Ended;
        let finish_reason = Some(FinishReason::Stop);
        is_open.then(|| Ok(ChatCompletionMessage { finish_reason, ..ChatCompletionMessage::default() }))
    }

    fn fail(&mut self, error: ProviderError) -> Option<Result<ChatCompletionMessage, ProviderError>> {
        self.progress = Progress::Ended;
        Some(Err(error))
    }
}

/// Returns the number of bytes of a piece's content.
fn content_bytes(piece: &ChatCompletionMessage) -> usize {
    let text = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    let calls = piece.tool_calls.iter().map(|call| call.arguments.len() + text(&call.name));
    text(&piece.content) + text(&piece.reasoning) + calls.sum::<usize>()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forge_domain::{Reply, ReplyParts, Retry};
    use forge_wire::{anthropic, gemini, ollama, openai, responses};
    use futures::FutureExt;
    use pretty_assertions::assert_eq;

    use super::*;

    const PROTOCOLS: [&str; 5] = ["openai", "responses", "anthropic", "ollama", "gemini"];

    fn context() -> RequestContext {
        let silence = limits::SILENCE;
        RequestContext { url: "http://host/v1".into(), model: None, secrets: [].into(), silence }
    }

    fn reading(protocol: &str, bytes: Bytes) -> ChatStream {
        match protocol {
            "openai" => {
                let mut reader = openai::OpenAiReplyReader::default();
                read(bytes, context(), Framing::Sse, openai::read_answer, move |data| reader.read(data))
            }
            "responses" => {
                let mut reader = responses::ResponsesReplyReader::default();
                read(bytes, context(), Framing::Sse, responses::read_answer, move |data| reader.read(data))
            }
            "anthropic" => {
                let mut reader = anthropic::AnthropicReplyReader::default();
                read(bytes, context(), Framing::Sse, anthropic::read_answer, move |data| reader.read(data))
            }
            "gemini" => {
                let mut reader = gemini::GeminiReplyReader::default();
                read(bytes, context(), Framing::Sse, gemini::read_answer, move |data| reader.read(data))
            }
            _ => {
                let mut reader = ollama::OllamaReplyReader::default();
                read(bytes, context(), Framing::Lines, ollama::read_answer, move |data| reader.read(data))
            }
        }
    }

    /// Returns a whole tool call, as the beginning of a reply.
    fn call(protocol: &str) -> &'static str {
        match protocol {
            "openai" => {
                "data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":0,\"id\":\"a\",\
                 \"function\":{\"name\":\"read\",\"arguments\":\"{}\"}}]}}]}\n\n"
            }
            "responses" => {
                "data: {\"type\":\"response.output_item.added\",\"output_index\":0,\"item\":{\"type\":\"function_call\",\
                 \"call_id\":\"a\",\"name\":\"read\",\"arguments\":\"\"}}\n\ndata: {\"type\":\"response.function_call_arguments.delta\",\
                 \"output_index\":0,\"delta\":\"{}\"}\n\n"
            }
            "anthropic" => {
                "data: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"tool_use\",\"id\":\"a\",\
                 \"name\":\"read\"}}\n\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":\
                 {\"type\":\"input_json_delta\",\"partial_json\":\"{}\"}}\n\n"
            }
            "gemini" => {
                "data: {\"candidates\":[{\"content\":{\"parts\":[{\"functionCall\":{\"id\":\"a\",\"name\":\"read\",\
                 \"args\":{}}}]}}]}\n\n"
            }
            _ => {
                "{\"message\":{\"content\":\"\",\"tool_calls\":[{\"id\":\"a\",\"function\":{\"name\":\"read\",\
                 \"arguments\":{}}}]},\"done\":false}\n"
            }
        }
    }

    /// Returns text without a finish reason.
    fn text(protocol: &str) -> String {
        let text = "x".repeat(100_000);
        match protocol {
            "openai" => {
                format!("data: {{\"choices\":[{{\"index\":0,\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
            }
            "responses" => format!(
                "data: {{\"type\":\"response.output_text.delta\",\"output_index\":1,\"delta\":\"{text}\"}}\n\n"
            ),
            "anthropic" => format!(
                "data: {{\"type\":\"content_block_start\",\"index\":1,\"content_block\":\
                 {{\"type\":\"text\",\"text\":\"{text}\"}}}}\n\n"
            ),
            "gemini" => format!(
                "data: {{\"candidates\":[{{\"content\":{{\"parts\":[{{\"text\":\"{text}\"}}]}}}}]}}\n\n"
            ),
            _ => format!("{{\"message\":{{\"content\":\"{text}\"}},\"done\":false}}\n"),
        }
    }

    /// Returns the piece that ends a reply.
    fn stop(protocol: &str) -> &'static str {
        match protocol {
            "openai" => {
                "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}\n\n"
            }
            "responses" => {
                "data: {\"type\":\"response.completed\",\"response\":{\"status\":\"completed\",\"output\":[]}}\n\n"
            }
            "anthropic" => "data: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"tool_use\"}}\n\n",
            "gemini" => "data: {\"candidates\":[{\"finishReason\":\"STOP\"}]}\n\n",
            _ => "{\"message\":{\"content\":\"\"},\"done\":true}\n",
        }
    }

    /// Returns a keep-alive.
    fn keep_alive(protocol: &str) -> &'static str {
        if protocol == "ollama" { "\n" } else { ": waiting\n\n" }
    }

    /// Returns an event without content.
    fn empty(protocol: &str) -> &'static str {
        match protocol {
            "openai" => "data: {\"choices\":[]}\n\n",
            "responses" => "data: {\"type\":\"response.in_progress\"}\n\n",
            "anthropic" => "data: {\"type\":\"ping\"}\n\n",
            "gemini" => "data: {\"candidates\":[]}\n\n",
            _ => "{}\n",
        }
    }

    /// Returns `head`, then `more` again and again, each after `pause`.
    fn endless(head: &str, more: &str, pause: Duration) -> Bytes {
        let (head, more) = (head.as_bytes().to_vec(), more.as_bytes().to_vec());
        let rest = stream::repeat(()).then(move |()| {
            let more = more.clone();
            async move {
                if pause > Duration::ZERO {
                    tokio::time::sleep(pause).await;
                }
                Ok(more)
            }
        });
        stream::iter([Ok(head)]).chain(rest).boxed()
    }

    /// Returns the parts of a reply up to its end, and the error that ends it.
    async fn outcome(mut pieces: ChatStream) -> (ReplyParts, Option<ProviderError>) {
        let mut parts = ReplyParts::default();
        while let Some(piece) = pieces.next().await {
            match piece {
                Ok(piece) => parts.push(piece),
                Err(error) => {
                    assert!(pieces.next().await.is_none());
                    return (parts, Some(error));
                }
            }
        }
        (parts, None)
    }

    fn call_ids(reply: Option<&Reply>) -> Vec<String> {
        reply.into_iter().flat_map(|reply| reply.message.calls()).map(|call| call.id.clone()).collect()
    }

    const SILENT: &str = "no content came for 600 s, the longest that Forge waits";

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_does_not_end_is_stopped_and_what_was_whole_of_it_is_kept() {
        let (at_once, now_and_then) = (Duration::ZERO, Duration::from_secs(15));
        for protocol in PROTOCOLS {
            let open = if protocol == "ollama" { "{\"" } else { "data: {\"" };
            for (what, more, pause, expected) in [
                ("a line", "x".repeat(100_000), at_once, "an event of more than 8 MiB"),
                ("keep-alives", keep_alive(protocol).to_owned(), now_and_then, SILENT),
                ("empty events now and then", empty(protocol).to_owned(), now_and_then, SILENT),
                (
                    "empty events at once",
                    empty(protocol).repeat(100),
                    at_once,
                    "100000 events in a row had no content",
                ),
                ("text", text(protocol), at_once, "a reply of more than 8 MiB"),
            ] {
                let head = format!("{}{}", call(protocol), if what == "a line" { open } else { "" });
                let (parts, error) = outcome(reading(protocol, endless(&head, &more, pause))).await;
                // What comes without end comes again; a server that hung may answer.
                let retry = if pause == at_once { Retry::Never } else { Retry::Soon };
                let expected = format!("the answer from http://host/v1 was stopped: {expected}");
                let error = error.map(|error| (error.to_string(), error.retry()));
                assert_eq!(error, Some((expected, retry)), "{protocol}: {what}");
                assert_eq!(call_ids(parts.salvage().as_ref()), ["a"], "{protocol}: {what}");
            }
            // Silence, and nothing but blanks before it begins.
            let silent = stream::pending().boxed();
            let (_, error) = outcome(reading(protocol, silent)).await;
            assert!(error.unwrap().to_string().ends_with(SILENT), "{protocol}");
            let (_, error) = outcome(reading(protocol, endless("", " ", now_and_then))).await;
            assert!(error.unwrap().to_string().ends_with(SILENT), "{protocol}");
        }
        for protocol in ["openai", "responses", "anthropic", "gemini"] {
            let (_, error) = outcome(reading(protocol, endless("", &" ".repeat(1_000), at_once))).await;
            assert!(
                error.unwrap().to_string().ends_with("a beginning of blanks of more than 64 KiB"),
                "{protocol}"
            );
            let (_, error) = outcome(reading(protocol, endless("{\"", &"x".repeat(100_000), at_once))).await;
            assert!(error.unwrap().to_string().ends_with("a body of more than 32 MiB"), "{protocol}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn content_now_and_then_is_waited_for() {
        for protocol in PROTOCOLS {
            let slow = Duration::from_secs(500);
            let pieces = [call(protocol), stop(protocol)].map(|piece| Ok(piece.as_bytes().to_vec()));
            let bytes = stream::iter(pieces).then(move |piece| tokio::time::sleep(slow).map(|()| piece));
            let (parts, error) = outcome(reading(protocol, bytes.boxed())).await;
            assert!(error.is_none(), "{protocol}: {error:?}");
            assert_eq!(call_ids(parts.finish().ok().as_ref()), ["a"], "{protocol}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_reply_that_has_ended_is_not_kept_open() {
        for protocol in PROTOCOLS {
            let head = format!("{}{}", call(protocol), stop(protocol));
            for pause in [Duration::ZERO, Duration::from_secs(5)] {
                let begun = Instant::now();
                let more = keep_alive(protocol).repeat(if pause.is_zero() { 10_000 } else { 1 });
                let (parts, error) = outcome(reading(protocol, endless(&head, &more, pause))).await;
                assert!(error.is_none(), "{protocol}: {error:?}");
                assert_eq!(call_ids(parts.finish().ok().as_ref()), ["a"], "{protocol}");
                assert!(begun.elapsed() <= limits::AFTER_STOP, "{protocol}");
            }
        }
    }

    #[tokio::test]
    async fn whoever_cancels_gets_a_turn_between_any_two_events() {
        for protocol in PROTOCOLS {
            for more in [empty(protocol), keep_alive(protocol), " "] {
                let mut pieces = reading(protocol, endless(call(protocol), more, Duration::ZERO));
                while let Some(piece) = pieces.next().now_or_never() {
                    piece.unwrap().unwrap();
                }
                // The stream yielded before it reached any limit. It would continue, and is dropped instead.
                drop(pieces);
            }
        }
    }
}
