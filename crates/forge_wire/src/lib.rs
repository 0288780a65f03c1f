//! The JSON of the providers' protocols, to and from the domain.
//!
//! One parser per protocol serves the provider adapters and the readers of recorded sessions alike. Nothing
//! here opens a socket or a file: values and bytes come in, values and domain types go out. Keys that have no
//! place in the domain are kept, so that what was read can be written again.

pub mod anthropic;
mod error_body;
mod figures;
pub mod ollama;
pub mod openai;
mod protocol;
mod refusal;
mod request_body;
mod stream_event;
mod turns;
mod wait;
mod wire_error;

pub use error_body::{ErrorBody, read_error};
pub use protocol::Protocol;
pub use refusal::{Refusal, provider_error};
pub use request_body::{Delivery, RequestBody};
pub use stream_event::StreamEvent;
pub use turns::{pauses_after_results, strict_turn_faults};
pub use wire_error::WireError;
