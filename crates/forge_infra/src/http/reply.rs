//! A reply on its way: frames of bytes become pieces, up to the end or the first error.

use std::io::Cursor;

use forge_domain::{ChatCompletionMessage, ChatStream, FinishReason, ProviderError};
use forge_wire::{StreamEvent, WireError};
use futures::io::AsyncBufReadExt;
use futures::stream::{self, BoxStream, StreamExt, TryStreamExt};
use reqwest::Response;
use sse_stream::SseByteStream;

use super::{Asked, Kind};

/// How a protocol cuts a stream into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// A line each.
    Lines,
}

/// Reads the answer to a request, whole or streamed.
pub(crate) async fn reply(
    response: Response,
    asked: Asked,
    framing: Framing,
    whole: fn(&[u8]) -> Result<ChatCompletionMessage, WireError>,
    reader: impl FnMut(&str) -> Result<StreamEvent, WireError> + Send + 'static,
) -> Result<ChatStream, ProviderError> {
    if response.content_length() == Some(0) {
        return Err(asked.nothing());
    }
    match (Kind::of(&response), framing) {
        (Kind::Page, _) => Err(asked.page()),
        (Kind::Json | Kind::Events, Framing::Sse) => {
            let bytes = response.bytes_stream().map_ok(Vec::from).boxed();
            // What is said of the content is often wrong: how it begins is what it is.
            let opened = async move {
                match begun(bytes).await {
                    Err(error) => failed(asked.broke(error)),
                    Ok((Opening::Page, _)) => failed(asked.page()),
                    Ok((Opening::Json, bytes)) => at_once(bytes, asked, whole, reader).await,
                    Ok((Opening::Other, bytes)) => {
                        let told = asked.clone();
                        let frames =
                            SseByteStream::new(bytes.map_ok(Cursor::new)).map(move |event| match event {
                                Ok(event) => Ok(event.data.unwrap_or_default()),
                                Err(error) => Err(told.stream(error)),
                            });
                        pieces(frames.boxed(), asked, reader)
                    }
                }
            };
            Ok(stream::once(opened).flatten().boxed())
        }
        // A whole answer is a line as well.
        (Kind::Events | Kind::Json, Framing::Lines) => {
            let bytes = response.bytes_stream().map_err(|error| std::io::Error::other(error.without_url()));
            let told = asked.clone();
            let frames = bytes.into_async_read().lines().map_err(move |error| told.lines(error));
            Ok(pieces(frames.boxed(), asked, reader))
        }
    }
}

/// The body of an answer on its way.
type Bytes = BoxStream<'static, Result<Vec<u8>, reqwest::Error>>;

/// What the first character that is no blank makes of a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// A value, or a line of one.
    Json,
    /// A page for people.
    Page,
    /// Events, or nothing at all.
    Other,
}

/// How the body begins, and all of it.
async fn begun(mut bytes: Bytes) -> Result<(Opening, Bytes), reqwest::Error> {
    const BYTE_ORDER_MARK: &[u8] = &[0xef, 0xbb, 0xbf];
    let mut head = Vec::new();
    let opening = loop {
        let text = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&head);
        match text.iter().find(|byte| !byte.is_ascii_whitespace()) {
            Some(b'{' | b'[') => break Opening::Json,
            Some(b'<') => break Opening::Page,
            Some(_) if !BYTE_ORDER_MARK.starts_with(&head) => break Opening::Other,
            _ => match bytes.next().await {
                Some(chunk) => head.extend(chunk?),
                None => break Opening::Other,
            },
        }
    };
    Ok((opening, stream::iter([Ok(head)]).chain(bytes).boxed()))
}

/// The reply of a server that does not stream; or the lines of a protocol that does not send events.
async fn at_once(
    bytes: Bytes,
    asked: Asked,
    whole: fn(&[u8]) -> Result<ChatCompletionMessage, WireError>,
    mut reader: impl FnMut(&str) -> Result<StreamEvent, WireError> + Send + 'static,
) -> ChatStream {
    let body = match bytes.try_concat().await {
        Ok(body) => body,
        Err(error) => return failed(asked.broke(error)),
    };
    let body = asked.words(String::from_utf8_lossy(&body).into_owned());
    let body = body.trim_start_matches('\u{feff}').trim_start();
    let answer = whole(body.as_bytes()).map_err(|error| match body.lines().next().map(&mut reader) {
        Some(Err(foreign @ WireError::Foreign { .. })) => foreign,
        _ => error,
    });
    stream::iter([answer.map_err(|error| asked.wire(error))]).boxed()
}

fn failed(error: ProviderError) -> ChatStream {
    stream::iter([Err(error)]).boxed()
}

/// The data of events.
type Frames = BoxStream<'static, Result<String, ProviderError>>;

struct Incoming<R> {
    frames: Frames,
    reader: R,
    asked: Asked,
    progress: Progress,
    /// Whether any of it was of a reply.
    says_something: bool,
}

/// How far a reply has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// More must come.
    Open,
    /// The model has stopped; the usage may still come.
    Stopped,
    /// Nothing more is read.
    Ended,
}

/// The pieces of a reply, up to its end or the first error.
fn pieces<R>(frames: Frames, asked: Asked, reader: R) -> ChatStream
where
    R: FnMut(&str) -> Result<StreamEvent, WireError> + Send + 'static,
{
    let incoming = Incoming { frames, reader, asked, progress: Progress::Open, says_something: false };
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
            let has_stopped = self.progress == Progress::Stopped;
            let data = match self.frames.next().await {
                Some(Ok(data)) => data,
                // A reply whose model has stopped is whole, however its connection ends.
                Some(Err(_)) | None if has_stopped => return None,
                Some(Err(error)) => return self.fail(error),
                None => return self.fail(ProviderError::Truncated),
            };
            if data.trim().is_empty() {
                continue;
            }
            // Errors quote the beginning of what they read, and half a key could not be found in that any more.
            match (self.reader)(&self.asked.words(data)) {
                Ok(StreamEvent::Piece(piece)) => {
                    if piece.finish_reason.is_some() {
                        self.progress = Progress::Stopped;
                    }
                    self.says_something |= piece != ChatCompletionMessage::default();
                    return Some(Ok(piece));
                }
                Ok(StreamEvent::Done) => return self.end(),
                Err(_) if has_stopped => return None,
                Err(error) => return self.fail(self.asked.wire(error)),
            }
        }
        None
    }

    /// The server says that it is done. Some never say why the model stopped; then it just did. Where it said nothing
    /// else either, there is no reply.
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
