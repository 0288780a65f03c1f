//! How bytes become events, by the libraries that the adapters use.

use std::convert::Infallible;

use futures::executor::block_on;
use futures::io::AsyncBufReadExt;
use futures::stream::{self, StreamExt, TryStreamExt};
use sse_stream::SseByteStream;

use super::tape::Exchange;

/// The body of a stream as its server sent it, framing included; `None` where the body is one whole answer.
pub(crate) fn stream(exchange: &Exchange) -> Option<Vec<u8>> {
    let body = &exchange.body;
    if body.lines().any(|line| line.starts_with("data:")) {
        return Some(format!("{}\n\n", body.trim_end()).into_bytes());
    }
    // Recordings of events without their framing get it back.
    if exchange.file.ends_with(".chunks.txt") {
        let events = body.lines().filter(|line| !line.trim().is_empty());
        return Some(events.flat_map(|event| format!("data: {event}\n\n").into_bytes()).collect());
    }
    (exchange.api == "ollama.chat" && body.trim_end().lines().count() > 1).then(|| body.clone().into_bytes())
}

/// The data of each event where `bytes` arrive in pieces that end at `cuts`.
pub(crate) fn frames(bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    let ends = cuts.iter().copied().chain([bytes.len()]);
    let mut start = 0;
    let pieces: Vec<&[u8]> = ends
        .map(|end| {
            let piece = &bytes[start..end];
            start = end;
            piece
        })
        .collect();
    let pieces = stream::iter(pieces);
    if bytes.starts_with(b"{") {
        let pieces = pieces.map(Ok::<_, std::io::Error>);
        return block_on(pieces.into_async_read().lines().try_collect()).unwrap();
    }
    let events = SseByteStream::new(pieces.map(Ok::<_, Infallible>));
    let data = events.map(|event| event.unwrap().data.unwrap_or_default());
    block_on(data.filter(|data| std::future::ready(!data.trim().is_empty())).collect())
}
