//! The chat-completions protocol of OpenAI, as it and the many compatible servers speak it.

mod answer;
mod dialect;
mod form;
mod message;
mod model_name;
mod models;
mod piece;
mod request;

pub use answer::{OpenAiReplyReader, read_answer};
pub use dialect::Dialect;
pub use message::{message_json, read_message};
pub use models::{LocalServer, local_server, read_loaded, read_models, read_props};
pub(crate) use request::effort_word;
pub use request::{messages_json, request, request_in};
