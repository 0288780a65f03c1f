//! Readers and writers of recorded sessions.
//!
//! Everything here works on bytes: the caller reads and writes the files. [`read`] recognizes the format;
//! [`Session`] holds what was read, message by message beside its original text; [`Session::recording`]
//! converts it to the one normal form in which every prefix is a legal request; [`Draft`] opens it for
//! compaction, message by message as in the file, and writes it again.

mod read;
mod format;
mod record;
mod session;
mod stream;
mod recording;
mod openai;
mod anthropic;
mod tau_bench;
mod claude_code;
mod claude_code_branch;
mod write;
mod written;
mod boundary;
mod attachment;
mod repair;
mod draft;
mod rewrite;
mod arguments;
mod flat_text;
mod foreign;
mod parts;
mod json_text;
mod transcript_error;

pub use attachment::Attachments;
pub use boundary::RecordedCompaction;
pub use draft::{Draft, number_of, request_tools};
pub use format::Format;
pub use read::{read, read_as, read_held};
pub use record::Record;
pub use recording::Recording;
pub use repair::Repair;
pub use rewrite::{LeftOut, RewriteError};
pub use session::Session;
pub use stream::{Opener, StreamError, StreamedSession, stream};
pub use transcript_error::TranscriptError;
pub use write::{write_messages, write_openai};
