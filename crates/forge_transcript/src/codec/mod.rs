//! The interface of a format, and the forms in which its folder gets a file and a session.

mod addition;
mod entries;
mod evidence;
mod input;
mod message_list;
mod message_stream;
mod record_lines;
mod revision;
mod source;
mod traces;
mod window;

pub(crate) use crate::fields::{Fields, value_of};
pub(crate) use addition::{Addition, NO_ADDITION};
pub(crate) use entries::{EntryFormat, Listing, SOME_ENTRIES};
pub(crate) use evidence::{Evidence, LOOKED_AT, Layout};
pub(crate) use input::{
    Input, document_below, file_name, is_packed, most_unpacked, readable_lines, too_large, unpack,
};
pub(crate) use message_list::{MessageList, is_anthropics, is_message_list};
pub(crate) use record_lines::each_record;
pub use revision::RewriteError;
pub(crate) use revision::{Line, Revision, Says};
pub use source::Opener;
pub(crate) use source::{LineCheck, Source, Visit};
pub(crate) use traces::{Effect, Trace};
pub(crate) use window::Window;

use crate::{Format, Record, RecordedCompaction, Session, StreamError, StreamedSession, TranscriptError};

/// The reason why a format is not written.
pub(crate) const READ_ONLY: &str =
    "Forge only reads this format; write openai, anthropic or atif with --to instead";

/// A format of recorded sessions: one folder that implements this, and one line of the table of formats.
///
/// A format has to recognize its files and to read them. The rest has defaults: a format that is only read,
/// whole, and whose agent records no compactions needs no more.
pub(crate) trait Codec: Sync {
    /// Returns its names.
    fn format(&self) -> Format;

    /// Checks whether a file is of this format.
    fn detect(&self, evidence: &Evidence<'_>) -> bool;

    /// Reads the sessions of a file.
    fn read(&self, input: &Input<'_>) -> Result<Vec<Session>, TranscriptError>;

    /// Reads the one session of a file and passes its messages to `visit`, with no more in memory than a few
    /// of them. Returns `None` if the file is not plainly one session of this format, or can only be read
    /// whole.
    fn stream(
        &self,
        _source: &mut Source<'_>,
        _visit: Visit<'_>,
    ) -> Result<Option<StreamedSession>, StreamError> {
        Ok(None)
    }

    /// Checks whether sessions of any other format can be written in this one.
    fn is_target(&self) -> bool {
        false
    }

    /// Writes the file with its session revised. Messages that were not touched stay byte for byte.
    fn write(&self, revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        Err(revision.refuse_conversion(READ_ONLY))
    }

    /// Returns the lines to append to the file so that its agent continues with the revised session: the
    /// agent's own record of a compaction, and what the record cannot hold.
    fn append(&self, _addition: &Addition<'_>) -> Result<Vec<String>, RewriteError> {
        Err(RewriteError::Append(NO_ADDITION))
    }

    /// Returns the compactions that the recording agent made, oldest first.
    fn compactions(&self, _records: &[Record]) -> Vec<RecordedCompaction> {
        Vec::new()
    }

    /// Returns the records of what the model would see: the whole session, or what follows its last
    /// compaction together with what that left in the context.
    fn window(&self, _records: &[Record]) -> Window {
        Window::default()
    }

    /// Checks whether a record holds what one of its agent's compactions put in place of earlier records.
    fn is_summary(&self, _record: &Record) -> bool {
        false
    }

    /// Checks whether a file in which nothing is replaced stays as it is, even if no provider accepts its
    /// messages: its agent does.
    fn keeps_form(&self) -> bool {
        false
    }

    /// Checks whether a record, the text of a line, says nothing in this format, and may be of another. Files
    /// that do not have a record a line have none.
    fn is_lost(&self, _record: &str) -> bool {
        false
    }

    /// Checks whether a record repeats messages that earlier records hold, as a compaction does that keeps
    /// some of them.
    fn is_repeat(&self, _record: &Record) -> bool {
        false
    }

    /// Checks whether the messages that a recorded compaction summarizes are still in the file.
    fn keeps_summarized(&self) -> bool {
        false
    }
}
