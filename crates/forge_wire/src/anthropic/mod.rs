//! The messages protocol of Anthropic: its messages as typed views that keep every field, and to and from the
//! domain.

mod block;
mod body;
mod kept;
mod media;
mod message_body;
mod models;
mod reader;
mod request;

pub use block::{Block, Data, MediaSource, Text, Thinking, ToolResultBlock, ToolUse};
pub use body::{request, with_legal_ids};
pub use media::{media_block, media_part};
pub use message_body::{BlockContent, MessageBody};
pub use models::read_models;
pub use reader::{AnthropicReplyReader, read_answer};
pub use request::{
    THINKING, call_block, entry_blocks, is_result, read_entry, read_entry_whole, read_system, result_block,
    system_json,
};
