//! Gemini's own protocol: its contents to and from the domain, with every part as it came.

mod answer;
mod form;
mod generation;
mod message;
mod models;
mod part;
mod request;

pub use answer::{GeminiReplyReader, read_answer};
pub use message::{content_parts, read_contents, read_system};
pub use models::{read_count, read_models};
pub use request::{count_request, request};
