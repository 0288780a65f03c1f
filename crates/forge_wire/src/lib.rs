//! The JSON of the providers' protocols, to and from the domain.
//!
//! One parser per protocol serves the provider adapters and the readers of recorded sessions alike. Nothing here opens
//! a socket or a file: values and bytes come in, values and domain types go out. Keys that have no place in the domain
//! are kept, so that what was read can be written again.

pub mod anthropic;
pub mod openai;
mod wire_error;

pub use wire_error::WireError;
