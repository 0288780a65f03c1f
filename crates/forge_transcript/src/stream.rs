//! Sessions read message by message: for those who look at each once, and at files that are larger than
//! memory should hold.

use forge_domain::Message;

use crate::codec::{Codec, Evidence, Source};
use crate::formats::formats;
use crate::looks::described;
use crate::mixture::Mixture;
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
    let sample = source.sample()?;
    let evidence = Evidence::of(&sample);
    // A format whose messages have a form of their own is never read as another.
    let own = formats().rev().find(|codec| codec.detect(&evidence));
    let own = own.map(Codec::format).filter(|format| format.protocol().is_none());
    for codec in formats().rev().filter(|codec| own.is_none_or(|own| own == codec.format())) {
        let mut n_messages = 0;
        let mut visit = |message: &Message| {
            n_messages += 1;
            visit(message);
        };
        source.check_lines(Mixture::new(codec));
        let streamed = codec.stream(&mut source, &mut visit).map_err(|error| match error {
            StreamError::Transcript(error) => described(error, &sample).into(),
            StreamError::Io(_) => error,
        })?;
        if streamed.is_some() {
            // A document may be one very long line.
            if source.head()?.is_none() {
                source.checked_lines()?;
            }
            // A file without a message may be of another format: that is found out by reading all of it.
            return Ok(streamed.filter(|_| n_messages > 0));
        }
    }
    Ok(None)
}
