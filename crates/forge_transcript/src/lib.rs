//! Readers and writers of recorded sessions.
//!
//! Everything here works on bytes: who calls it reads and writes the files. [`read`] tells the format by itself;
//! [`Session`] holds what was read, message by message beside the text it came from; [`Session::recording`] brings it
//! to the one normal form in which every prefix is a legal request.

mod read;

mod format;

mod session;

mod recording;

mod openai;

mod tau_bench;

mod claude_code;

mod claude_code_branch;

mod write;

mod arguments;

mod flat_text;

mod json_text;

mod transcript_error;

pub use format::Format;
pub use read::{read, read_as};
pub use recording::Recording;
pub use session::{Record, Session};
pub use transcript_error::TranscriptError;
pub use write::{write_messages, write_openai};
