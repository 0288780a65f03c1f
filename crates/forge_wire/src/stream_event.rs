//! An event of a stream, in every protocol.

use forge_domain::ChatCompletionMessage;

/// One event of a stream.
#[derive(Clone, Debug, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "it is taken apart where it was made, and never kept")]
pub enum StreamEvent {
    /// More of the reply; may be empty of everything.
    Piece(ChatCompletionMessage),
    /// The end.
    Done,
}
