//! A conversation: its messages and their groups, the log that keeps them all, the context that a model sees
//! of it, and the budget that a context must fit.

mod message;
mod image;
mod media_tokens;
mod tool;
mod token_counter;
mod reasoning;
mod context_message;
mod frame;
mod group;
mod legality;
mod context;
mod usage;
mod scale;
mod budget;
mod measure;
mod log;
mod recall;
mod refusal;
mod repetition;
mod session_sink;
mod speaker;
mod thoughts;

pub use budget::*;
pub use context::*;
pub use context_message::*;
pub use frame::*;
pub use group::*;
pub use image::*;
pub use legality::*;
pub use log::*;
pub use measure::*;
pub use message::*;
pub use reasoning::*;
pub(crate) use recall::is_word_by_itself;
pub use recall::*;
pub use refusal::*;
pub use repetition::*;
pub use scale::*;
pub use session_sink::*;
pub use speaker::*;
pub use thoughts::*;
pub use token_counter::*;
pub use tool::*;
pub use usage::*;
