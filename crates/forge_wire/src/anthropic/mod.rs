//! The messages protocol of Anthropic: its messages as typed views that keep every field.

mod block;
mod message_body;

pub use block::{Block, Data, Source, Text, Thinking, ToolResultBlock, ToolUse};
pub use message_body::{BlockContent, MessageBody};
