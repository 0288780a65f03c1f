//! The chat-completions protocol of OpenAI, as it and the many compatible servers speak it.

mod answer;
mod error_body;
mod form;
mod message;
mod models;
mod request;
mod stream;

pub use answer::read_answer;
pub use error_body::{ErrorBody, read_error};
pub use message::{message_json, read_message};
pub use models::read_models;
pub use request::{Delivery, request};
pub use stream::{StreamEvent, read_event};
