//! The chat protocol of Ollama, `/api/chat`: JSON lines, arguments as objects, calls without ids, images
//! without a type.

mod answer;
mod message;
mod models;
mod request;

pub use answer::{OllamaReplyReader, read_answer};
pub use message::{message_json, read_messages};
pub use models::{ModelCard, is_called, read_card, read_loaded, read_models};
pub use request::{messages_json, request};
