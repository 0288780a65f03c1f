//! The split of a stream into events.

/// The way in which a protocol splits a stream into events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// Server-sent events.
    Sse,
    /// One line for each event.
    Lines,
}
