//! A session that was read message by message.

use std::io;

use crate::{Attachments, Format, RecordedCall, RecordedCompaction, TranscriptError};

/// A session that was read message by message.
#[derive(Clone, Debug, PartialEq)]
pub struct StreamedSession {
    /// The session's name.
    pub id: String,
    /// The format it was recorded in.
    pub format: Format,
    /// The number of its records.
    pub records: usize,
    /// Lines that are no record.
    pub skipped_lines: usize,
    /// Records that are on other branches of the file, and in no context.
    pub records_off_branch: usize,
    /// The compactions that the recording agent made.
    pub compactions: Vec<RecordedCompaction>,
    /// The attachments that the recording agent itself added.
    pub attachments: Vec<Attachments>,
    /// The calls of models that the recording agent took down.
    pub calls: Vec<RecordedCall>,
    /// The tool schemas of a request body, as compact JSON.
    pub tools: Option<String>,
}

/// The reasons why a session could not be read message by message.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The file cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The file is not a session.
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
}
