//! The chat-completions protocol of OpenAI, as it and the many compatible servers speak it.

mod answer;
mod form;
mod message;
mod models;
mod reader;
mod request;

pub use answer::read_answer;
pub use message::{message_json, read_message};
pub use models::{is_of_llama_cpp, read_models, read_props};
pub use reader::OpenAiReplyReader;
pub use request::{messages_json, request};
