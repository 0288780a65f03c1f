//! The limits of an answer: every call ends, and no answer takes more memory than a real one, whatever a
//! server sends.

use std::time::Duration;

use futures::stream::{Stream, StreamExt};
use tokio::task::coop::consume_budget;

use super::Framing;

/// The longest time without content, which is silence or keep-alives alone. It is generous: a model is silent
/// while it reads a long prompt, and one with hidden reasoning may be so for minutes.
pub(super) const SILENCE: Duration = Duration::from_secs(10 * 60);
/// The same of a server on this machine: without a graphics card, reading a long prompt takes more than ten
/// minutes.
pub(super) const LOCAL_SILENCE: Duration = Duration::from_secs(30 * 60);
/// The longest wait for the usage after the model has stopped.
pub(super) const AFTER_STOP: Duration = Duration::from_secs(30);
/// The longest time for reading a refusal.
pub(super) const REFUSAL_TIME: Duration = Duration::from_secs(10);
/// The most bytes of a refusal that are read: its message comes first.
pub(super) const REFUSAL_BYTES: usize = 64 * 1_024;
/// The most blanks before an answer begins. Some gateways send a line end every few seconds to keep a
/// connection open.
pub(super) const BLANK_BYTES: usize = 64 * 1_024;
/// The most bytes of one event. The largest real ones carry a file that a model writes in one call, or
/// encrypted reasoning.
pub(super) const EVENT_BYTES: usize = 8 << 20;
/// The most bytes of an unstreamed body: a reply, or a list of models, of which the longest known has 1 MiB.
pub(super) const BODY_BYTES: usize = 32 << 20;
/// The most bytes of a stream. The longest answers have 128,000 tokens, each in an event of some 300 bytes.
pub(super) const STREAM_BYTES: usize = 128 << 20;
/// The most bytes of a reply's content: text, reasoning and arguments. It is ten times the longest answer of
/// any model.
pub(super) const CONTENT_BYTES: usize = 8 << 20;
/// The most events in a row without content. Some servers send an empty one for each token of a call that
/// they hold back.
pub(super) const EMPTY_EVENTS: usize = 100_000;

/// The reason why a body was not read to its end.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Broken {
    /// The connection broke.
    #[error(transparent)]
    Connection(reqwest::Error),
    /// A limit was reached; its text is the rest of an error.
    #[error("{0}")]
    OverLimit(String),
}

impl Broken {
    pub(super) fn at_bytes(what: &str, limit: usize) -> Self {
        let limit = match limit >> 20 {
            0 => format!("{} KiB", limit >> 10),
            megabytes => format!("{megabytes} MiB"),
        };
        Self::OverLimit(format!("{what} of more than {limit}"))
    }
}

/// Returns the text for a wait of such a time, which was too long.
pub(super) fn silence_of(time: Duration) -> String {
    format!("no content came for {} s, the longest that Forge waits", time.as_secs())
}

/// Reads an unstreamed body.
pub(super) async fn whole(
    mut bytes: impl Stream<Item = Result<Vec<u8>, Broken>> + Unpin,
) -> Result<Vec<u8>, Broken> {
    let mut body = Vec::new();
    while let Some(chunk) = bytes.next().await {
        consume_budget().await;
        let chunk = chunk?;
        if body.len() + chunk.len() > BODY_BYTES {
            return Err(Broken::at_bytes("a body", BODY_BYTES));
        }
        body.extend(chunk);
    }
    Ok(body)
}

/// Returns a stream of the same bytes that fails once an event, or the whole, is too long. Its reader has to
/// hold a whole event in memory.
pub(super) fn with_limits(
    bytes: impl Stream<Item = Result<Vec<u8>, Broken>>,
    framing: Framing,
) -> impl Stream<Item = Result<Vec<u8>, Broken>> {
    let mut meter = Meter { framing, n_event: 0, n_all: 0, last: b'\n' };
    bytes.then(move |chunk| {
        let chunk = chunk.and_then(|chunk| meter.take(&chunk).map(|()| chunk));
        async move {
            // Bytes that are all there at once must not keep everybody else from running, such as who
            // cancels.
            consume_budget().await;
            chunk
        }
    })
}

/// A counter for the bytes of a stream and of its current event.
struct Meter {
    framing: Framing,
    n_event: usize,
    n_all: usize,
    last: u8,
}

impl Meter {
    fn take(&mut self, chunk: &[u8]) -> Result<(), Broken> {
        self.n_all += chunk.len();
        if self.n_all > STREAM_BYTES {
            return Err(Broken::at_bytes("a stream", STREAM_BYTES));
        }
        for &byte in chunk {
            self.n_event += 1;
            let is_end = match self.framing {
                Framing::Lines => byte == b'\n',
                // An empty line ends an event; a line ends with either character, or with both.
                Framing::Sse => {
                    matches!((self.last, byte), (b'\n', b'\n' | b'\r') | (b'\r', b'\r'))
                }
            };
            self.last = byte;
            if is_end {
                self.n_event = 0;
            } else if self.n_event > EVENT_BYTES {
                return Err(Broken::at_bytes("an event", EVENT_BYTES));
            }
        }
        Ok(())
    }
}
