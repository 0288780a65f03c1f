//! OpenAI's Responses protocol: lists of items in place of messages, with encrypted reasoning, to and from
//! the domain.

mod answer;
mod form;
mod item;
mod message;
mod options;
mod plain;
mod request;

pub use answer::{ResponsesReplyReader, read_answer};
pub use message::{message_items, read_input, read_items};
pub use request::request;
