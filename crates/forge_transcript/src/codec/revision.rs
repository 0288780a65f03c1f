//! A session as it is to be written: its messages, each with its place in the file.

use std::borrow::Cow;

use forge_domain::{Message, Role, quantity};
use forge_wire::WireError;

use super::READ_ONLY;
use super::input::{readable_lines, text};
use crate::item::Item;
use crate::{Format, Record, Session};

/// The reasons why a session cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// The target format needs what this one does not have.
    #[error(
        "{from} cannot be written{}: {why}",
        if from == to { String::new() } else { format!(" as {to}") }
    )]
    Convert {
        /// The format that was read.
        from: Format,
        /// The format that is wanted.
        to: Format,
        /// The missing part.
        why: &'static str,
    },
    /// A message has no form in the target format.
    #[error("message m{number} cannot be written as {to}: {source}; `--to atif` writes it as text")]
    Message {
        /// The message, by its number in the draft.
        number: usize,
        /// The format that is wanted.
        to: Format,
        /// The part that has no place there.
        #[source]
        source: WireError,
    },
    /// All that the session holds was left out.
    #[error(
        "nothing of the session would be left: it holds only {} without a call; copy the whole session",
        quantity(*.results, "result")
    )]
    Nothing {
        /// The number of the results.
        results: usize,
    },
    /// The files of this format are only appended to.
    #[error(
        "{0} cannot be written, only appended to: add --in-place, so that the agent can resume the session; or \
         write openai, anthropic or atif with --to"
    )]
    OnlyAppended(Format),
    /// The file cannot be added to.
    #[error("nothing can be appended to the session: {0}")]
    Append(&'static str),
    /// The file is not the one that the session was read from.
    #[error("the session is not in the file that is to be written again")]
    OtherFile,
}

/// A session as it is to be written.
pub(crate) struct Revision<'a> {
    /// The session as it was read.
    pub(crate) session: &'a Session,
    /// Its index in the file, from 0.
    pub(crate) nth: usize,
    /// The first record that was opened.
    pub(crate) start: usize,
    /// The messages that were opened.
    pub(crate) items: &'a [Item],
    /// The messages that are written, in order.
    pub(crate) lines: Vec<Line<'a>>,
    /// The file.
    pub(crate) bytes: &'a [u8],
    /// The format that is wanted.
    pub(crate) to: Format,
}

/// A message of what is written.
pub(crate) struct Line<'a> {
    /// Its number in the draft; of a new one, that of the first message it replaces.
    pub(crate) number: usize,
    pub(crate) says: Says<'a>,
    /// Those of the session.
    pub(crate) records: &'a [Record],
}

/// A message, compared with the one that was read.
pub(crate) enum Says<'a> {
    /// The earlier message, unchanged.
    Same(&'a Item),
    /// Less than the item did.
    Less(&'a Item, &'a Message),
    /// It is new.
    New(&'a Message),
}

impl<'a> Revision<'a> {
    /// Returns the format that was read.
    pub(crate) const fn from(&self) -> Format {
        self.session.format
    }

    /// Returns the file as text. What is not text was left out when it was read, and is again.
    pub(crate) fn text(&self) -> Cow<'a, str> {
        match readable_lines(self.bytes) {
            Some(readable) => Cow::Owned(readable),
            None => Cow::Borrowed(text(self.bytes, "").unwrap_or_default()),
        }
    }

    /// Returns the tool schemas of the session, as compact JSON.
    pub(crate) fn tools(&self) -> Option<String> {
        self.session.tools(self.bytes)
    }

    /// Returns the text of a record.
    pub(crate) fn raw(&self, record: usize) -> &'a str {
        self.session.records[record].raw()
    }

    /// Returns the error for a session that cannot become one of this format.
    pub(crate) const fn refuse_conversion(&self, why: &'static str) -> RewriteError {
        RewriteError::Convert { from: self.from(), to: self.to, why }
    }

    /// Returns the error for a session of a format to whose files Forge only appends.
    pub(crate) fn refuse_rewriting(&self) -> RewriteError {
        if self.from() == self.to {
            return RewriteError::OnlyAppended(self.to);
        }
        self.refuse_conversion(READ_ONLY)
    }

    /// Returns the error for a message that has no form in this format.
    pub(crate) const fn refuse(&self, line: &Line<'_>, source: WireError) -> RewriteError {
        RewriteError::Message { number: line.number, to: self.to, source }
    }
}

impl<'a> Line<'a> {
    /// Returns the message.
    pub(crate) fn message(&self) -> Cow<'a, Message> {
        match self.says {
            Says::Same(item) => item.message(self.records),
            Says::Less(_, message) | Says::New(message) => Cow::Borrowed(message),
        }
    }

    /// Returns its role.
    pub(crate) const fn role(&self) -> Role {
        match self.says {
            Says::Same(item) => item.role(),
            Says::Less(_, message) | Says::New(message) => message.role(),
        }
    }

    /// Returns the item that it is, or is the shorter form of, if it came from the file.
    pub(crate) fn item(&self) -> Option<&'a Item> {
        match self.says {
            Says::Same(item) | Says::Less(item, _) => Some(item).filter(|item| !item.places().is_empty()),
            Says::New(_) => None,
        }
    }
}
