//! Readers and writers of recorded sessions.
//!
//! Everything here works on bytes: the caller reads and writes the files. [`read`] recognizes the format;
//! [`Session`] holds what was read, message by message beside its original text; [`Session::recording`]
//! converts it to the one normal form in which every prefix is a legal request; [`Draft`] opens it for
//! compaction, message by message as in the file, and writes it again.

mod read;
mod formats;
mod glance;
mod appended;
mod archive;
mod mark;
mod mixture;
mod format;
mod codec;
mod agents;
mod any_blocks;
mod anthropic;
mod claude_code;
mod openai;
mod tau_bench;
mod record;
mod session;
mod window;
mod stream;
mod streamed_session;
mod fields;
mod recorded_call;
mod recorded_compaction;
mod recording;
mod attachments;
mod author_mark;
mod reply_pieces;
mod write;
mod written;
mod looks;
mod loss;
mod handover;
mod harness;
mod tagged_call;
mod repair;
mod draft;
mod id_digest;
mod item;
mod rewrite;
mod splice;
mod tools;
mod arguments;
mod flat_text;
mod foreign;
mod parts;
mod json_text;
mod transcript_error;
mod uuid;

pub use appended::{UndoError, undo_appended};
pub use attachments::Attachments;
pub use codec::{Opener, RewriteError};
pub use draft::{Draft, number_of};
pub use format::Format;
pub use glance::{Folder, Glance, compactions_in, folder_in, glance};
pub use handover::{Handover, NewSession, Successor};
pub use loss::{Loss, LossKind};
pub use read::{read, read_as, read_held};
pub use record::Record;
pub use recorded_call::{RecordedCall, RecordedTotal, recorded_total};
pub use recorded_compaction::RecordedCompaction;
pub use recording::Recording;
pub use repair::Repair;
pub use rewrite::Omission;
pub use session::Session;
pub use stream::stream;
pub use streamed_session::{StreamError, StreamedSession};
pub use tools::request_tools;
pub use transcript_error::TranscriptError;
pub use uuid::new_uuid;
pub use write::{write_messages, write_openai};
