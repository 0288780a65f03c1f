//! Sessions read message by message: for those who look at each once, and at files that are larger than
//! memory should hold.

use forge_domain::Message;

use crate::codec::Source;
use crate::formats::{FORMATS, known_formats};
use crate::{Opener, StreamError, StreamedSession};

/// Reads the one session of a file and passes each message to `visit`, in order, as
/// [`crate::Draft::messages_of`] returns them. At no time is more of the file in memory than a few messages
/// and the places of its records.
///
/// `None` if the file is not plainly one session of a format that can be read so: [`crate::read`] reads it,
/// or reports its faults.
///
/// # Errors
/// [`StreamError`] if the file cannot be read, or an entry is not a message.
pub fn stream(
    open: Opener<'_>,
    origin: &str,
    visit: &mut dyn FnMut(&Message),
) -> Result<Option<StreamedSession>, StreamError> {
    let mut source = Source::new(open, origin);
    for codec in FORMATS.iter().rev() {
        let streamed = codec.stream(&mut source, visit).map_err(|error| match error {
            StreamError::Transcript(error) => error.with_known(&known_formats()).into(),
            StreamError::Io(_) => error,
        })?;
        if streamed.is_some() {
            return Ok(streamed);
        }
    }
    Ok(None)
}
