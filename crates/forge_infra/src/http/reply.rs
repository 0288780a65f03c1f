//! A reply on its way: frames of bytes become pieces, up to the end or the first error.

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
    whole: impl Fn(&[u8]) -> Result<ChatCompletionMessage, WireError> + Send,
    reader: impl FnMut(&str) -> Result<StreamEvent, WireError> + Send + 'static,
) -> Result<ChatStream, ProviderError> {
    match (Kind::of(&response), framing) {
        (Kind::Page, _) => Err(asked.page()),
        (Kind::Json, Framing::Sse) => {
            let body = response.bytes().await.map_err(|error| asked.network(error))?;
            let body = asked.words(String::from_utf8_lossy(&body).into_owned());
            let answer = whole(body.as_bytes()).map_err(|error| asked.wire(error))?;
            Ok(stream::iter([Ok(answer)]).boxed())
        }
        (Kind::Events, Framing::Sse) => {
            let (events, told) = (SseByteStream::new(response.bytes_stream()), asked.clone());
            let frames = events.map(move |event| match event {
                Ok(event) => Ok(event.data.unwrap_or_default()),
                Err(error) => Err(told.stream(error)),
            });
            Ok(pieces(frames.boxed(), asked, reader))
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

/// The data of events.
type Frames = BoxStream<'static, Result<String, ProviderError>>;

struct Incoming<R> {
    frames: Frames,
    reader: R,
    asked: Asked,
    progress: Progress,
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
    let incoming = Incoming { frames, reader, asked, progress: Progress::Open };
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
                    return Some(Ok(piece));
                }
                Ok(StreamEvent::Done) => return self.end(),
                Err(_) if has_stopped => return None,
                Err(error) => return self.fail(self.asked.wire(error)),
            }
        }
        None
    }

    /// The server says that it is done. Some never say why the model stopped; then it just did.
    fn end(&mut self) -> Option<Result<ChatCompletionMessage, ProviderError>> {
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
