//! Sessions of Claude Code: a record a line, which together are a tree; the branch that is active is read.

mod append;
mod attachment;
mod boundary;
mod branch;
mod queue;
mod read;
pub(crate) mod reply;
mod shape;
mod stream;
mod write;

use forge_wire::Protocol;

use crate::codec::{Addition, Codec, Evidence, Input, Layout, Revision, Source, Visit, Window};
use crate::format::FormatFacts;
use crate::mark::is_appended;
use crate::{
    Format, Record, RecordedCompaction, RewriteError, Session, StreamError, StreamedSession, TranscriptError,
};

/// The format of Claude Code.
pub(crate) struct ClaudeCode;

impl Codec for ClaudeCode {
    fn format(&self) -> Format {
        Format(&FormatFacts {
            id: "claude-code",
            name: "Claude Code sessions",
            description: "JSONL",
            protocol: Some(Protocol::Anthropic),
        })
    }

    fn detect(&self, evidence: &Evidence<'_>) -> bool {
        match &evidence.layout {
            Layout::Object(fields) => shape::is_own_object(fields),
            Layout::Text(_) if !evidence.text.starts_with('[') => {
                evidence.text.lines().any(shape::is_own_line)
            }
            Layout::Text(_) | Layout::List(_) | Layout::Binary => false,
        }
    }

    fn read(&self, input: &Input<'_>) -> Result<Vec<Session>, TranscriptError> {
        read::session(input).map(|session| vec![session])
    }

    fn stream(
        &self,
        source: &mut Source<'_>,
        visit: Visit<'_>,
    ) -> Result<Option<StreamedSession>, StreamError> {
        stream::stream(source, self.format(), visit)
    }

    /// Writes the lines of the session. Lines without a message stay, unless they depend on something that
    /// left.
    fn write(&self, revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        write::write(revision).map(String::into_bytes)
    }

    fn append(&self, addition: &Addition<'_>) -> Result<Vec<String>, RewriteError> {
        append::lines(addition)
    }

    fn compactions(&self, records: &[Record]) -> Vec<RecordedCompaction> {
        boundary::compactions(records)
    }

    fn window(&self, records: &[Record]) -> Window {
        boundary::window(records)
    }

    fn is_summary(&self, record: &Record) -> bool {
        is_appended(record.raw()) || boundary::is_summary(record.raw())
    }

    fn is_lost(&self, record: &str) -> bool {
        !shape::is_own_line(record)
    }

    fn is_repeat(&self, record: &Record) -> bool {
        is_appended(record.raw()) && !boundary::is_summary(record.raw())
    }

    fn keeps_summarized(&self) -> bool {
        true
    }
}
