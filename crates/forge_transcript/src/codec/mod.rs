//! The interface of a format, and the forms in which its folder gets a file and a session.

mod evidence;
mod input;
mod message_list;
mod message_stream;
mod revision;
mod source;

pub(crate) use evidence::{Evidence, Layout, value_of};
pub(crate) use input::{Input, file_name};
pub(crate) use message_list::{MessageList, is_anthropics, is_message_list};
pub use revision::RewriteError;
pub(crate) use revision::{Line, Revision, Says};
pub use source::Opener;
pub(crate) use source::{Source, Visit};

use crate::{Format, Record, RecordedCompaction, Session, StreamError, StreamedSession, TranscriptError};

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

    /// Writes the file with its session revised. Messages that were not touched stay byte for byte.
    fn write(&self, revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        Err(revision.refuse_conversion("Forge only reads this format"))
    }

    /// Returns the compactions that the recording agent made, oldest first.
    fn compactions(&self, _records: &[Record]) -> Vec<RecordedCompaction> {
        Vec::new()
    }

    /// Returns the first record of what the model would see: the whole session, or what follows its last
    /// compaction together with what that left in the context.
    fn window_start(&self, _records: &[Record]) -> usize {
        0
    }

    /// Checks whether the messages that a recorded compaction summarizes are still in the file.
    fn keeps_summarized(&self) -> bool {
        false
    }
}
