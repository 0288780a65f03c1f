//! The JSON of the providers' protocols, to and from the domain.
//!
//! One parser per protocol serves both the provider adapters and the readers of recorded sessions. Nothing
//! here opens a socket or a file: functions convert between JSON values or bytes and domain types. Keys
//! without a place in the domain are kept, so that a message can be written again.

pub mod anthropic;
mod arguments;
mod encoded;
mod end_tokens;
mod error_body;
mod figures;
pub mod gemini;
mod leading_thoughts;
pub mod ollama;
pub mod openai;
mod protocol;
mod refusal;
mod request_body;
pub mod responses;
mod sent;
mod stream_event;
mod turns;
mod wait;
mod wire_error;

pub use error_body::{ErrorBody, read_error};
pub use protocol::Protocol;
pub use refusal::{HttpRefusal, provider_error};
pub use request_body::{Delivery, RequestBody};
pub use stream_event::StreamEvent;
pub use turns::{pauses_after_results, strict_turn_faults};
pub use wire_error::WireError;
