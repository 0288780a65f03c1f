//! The reasons why a compaction is due.

use std::fmt;

use serde::Serialize;

/// The reason why a compaction is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// The context has more tokens than the room.
    Window,
    /// It has more tokens than `token_threshold`.
    Tokens,
    /// It has more tokens than the `token_limit` of a [`crate::Transform`].
    TokenLimit,
    /// It has more messages than `message_threshold`.
    Messages,
    /// It has as many turns as `turn_threshold`, or more.
    Turns,
    /// A user or a caller asked for it.
    Asked,
}

impl fmt::Display for Trigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Window => "over the window",
            Self::Tokens => "over token_threshold",
            Self::TokenLimit => "over token_limit",
            Self::Messages => "over message_threshold",
            Self::Turns => "turn_threshold reached",
            Self::Asked => "asked for",
        })
    }
}
