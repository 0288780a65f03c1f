//! The tag around a record, by which it is known.

use crate::{Message, Role};

/// The first line of a record.
pub(crate) const OPEN: &str = "<record>";
/// Its last line.
pub(crate) const CLOSE: &str = "</record>";

/// Checks whether a message is a record.
pub(crate) fn is_record(message: &Message) -> bool {
    message.is_compacted && message.role() == Role::User && message.text().starts_with(OPEN)
}
