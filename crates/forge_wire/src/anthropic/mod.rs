//! The messages protocol of Anthropic: its messages as typed views that keep every field, and to and from the
//! domain.

mod answer;
mod block;
mod content;
mod form;
mod media;
mod message;
mod message_body;
mod models;
mod request;
mod thinking;

pub use answer::{AnthropicReplyReader, read_answer};
pub use block::{Block, BlockContent, Data, MediaSource, Text, Thinking, ToolResultBlock, ToolUse};
pub use content::{THINKING, call_block, is_result, result_block};
pub use media::{media_block, media_part};
pub use message::{entry_blocks, read_entry, read_entry_whole, read_system, system_json};
pub use message_body::MessageBody;
pub use models::read_models;
pub use request::{StaleThinking, THINKING_BINDING, binds_thinking, request, with_legal_ids};
