//! One record of a session: its text, and the messages in it.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use forge_domain::{Body, Message, ToolName};

/// One record of a session.
#[derive(Clone, Debug)]
pub struct Record {
    text: Text,
    said: Said,
    /// The id of the provider's reply that this is a piece of, if the format splits replies.
    pub reply: Option<Arc<str>>,
    /// True if its text has the form that its protocol demands; some recorders are less strict.
    pub is_literal: bool,
    /// The kind of the attachment that it holds, if the recording agent added one.
    pub attachment: Option<Box<str>>,
    /// True if a compaction of the recording agent took it, but not its neighbours, out of the context.
    pub is_folded: bool,
}

/// The text of a record.
#[derive(Clone)]
enum Text {
    Own(Arc<str>),
    /// A part of the file, which is held whole.
    Part {
        file: Arc<Vec<u8>>,
        start: usize,
        n_bytes: usize,
    },
}

/// The messages of a record.
#[derive(Clone, Debug)]
enum Said {
    Here(Vec<Message>),
    /// Read from the text each time.
    InText {
        n_messages: usize,
        read: Reader,
        /// The tools of its results; `None` if they have no names.
        names: Option<ResultNames>,
    },
}

/// The names of the tools of a record's results. Few differ, so records share them.
type ResultNames = Arc<[Option<ToolName>]>;

/// A file that is held whole.
pub(crate) struct HeldFile {
    bytes: Arc<Vec<u8>>,
    /// The names of results so far.
    names: RefCell<HashSet<ResultNames>>,
}

impl HeldFile {
    pub(crate) fn new(bytes: &Arc<Vec<u8>>) -> Self {
        Self { bytes: Arc::clone(bytes), names: RefCell::default() }
    }

    fn shared(&self, names: Vec<Option<ToolName>>) -> ResultNames {
        let mut known = self.names.borrow_mut();
        if let Some(same) = known.get(names.as_slice()) {
            return Arc::clone(same);
        }
        let names: ResultNames = names.into();
        known.insert(Arc::clone(&names));
        names
    }
}

/// A function that reads the messages of a record from its text alone.
pub(crate) type Reader = fn(&str) -> Vec<Message>;

/// The file that records are read from.
#[derive(Clone, Copy)]
pub(crate) enum Shelf<'f> {
    /// A small file: each record has a text and messages of its own.
    Small,
    /// A file that is held whole, once: records are parts of it, and their messages are read on demand.
    Whole(&'f HeldFile),
}

impl Shelf<'_> {
    /// Returns `record`, whose text is `slice` of the file, in the form in which this file's records are
    /// held. `read` reads its messages again.
    pub(crate) fn put(self, slice: &str, record: Record, read: Reader) -> Record {
        let Self::Whole(held) = self else { return record };
        let file = &held.bytes;
        let start = (slice.as_ptr() as usize).wrapping_sub(file.as_ptr() as usize);
        let end = start.saturating_add(slice.len());
        if file.get(start..end) != Some(slice.as_bytes()) {
            return record;
        }
        let text = Text::Part { file: Arc::clone(file), start, n_bytes: slice.len() };
        let said = match record.said {
            Said::Here(messages) => in_text(slice, messages, read, held),
            said @ Said::InText { .. } => said,
        };
        Record { text, said, ..record }
    }
}

/// Returns `messages` as the text that they are read from again; keeps them if reading the text alone gives
/// others, such as a call that depends on the records before it.
fn in_text(text: &str, messages: Vec<Message>, read: Reader, held: &HeldFile) -> Said {
    let name = |message: &Message| match &message.body {
        Body::Tool(result) => result.name.clone(),
        Body::System(_) | Body::User(_) | Body::Assistant { .. } => None,
    };
    let names: Vec<_> = messages.iter().map(name).collect();
    let names = names.iter().any(Option::is_some).then(|| held.shared(names));
    let n_messages = messages.len();
    if name_results(read(text), names.as_ref()) == messages {
        Said::InText { n_messages, read, names }
    } else {
        Said::Here(messages)
    }
}

fn name_results(mut messages: Vec<Message>, names: Option<&ResultNames>) -> Vec<Message> {
    for (message, name) in messages.iter_mut().zip(names.into_iter().flat_map(|names| names.iter())) {
        if let Body::Tool(result) = &mut message.body {
            result.name.clone_from(name);
        }
    }
    messages
}

impl Record {
    /// Makes a record of `text` that holds `messages`.
    pub(crate) fn new(text: &str, messages: Vec<Message>) -> Self {
        Self {
            text: Text::Own(Arc::from(text)),
            said: Said::Here(messages),
            reply: None,
            is_literal: true,
            attachment: None,
            is_folded: false,
        }
    }

    /// Sets whether a compaction of the recording agent took it out of the context.
    pub(crate) fn folded(self, is_folded: bool) -> Self {
        Self { is_folded, ..self }
    }

    /// Sets whether its text has the form that its protocol demands.
    pub(crate) fn literal(self, is_literal: bool) -> Self {
        Self { is_literal, ..self }
    }

    /// Sets the reply that it is a piece of, and the kind of its attachment.
    pub(crate) fn part_of(self, reply: Option<Arc<str>>, attachment: Option<Box<str>>) -> Self {
        Self { reply, attachment, ..self }
    }

    /// Lets go of its messages, which then do not count.
    pub(crate) fn without_messages(self) -> Self {
        Self { said: Said::Here(Vec::new()), ..self }
    }

    /// Returns its text, byte for byte: an entry of `messages`, or a line.
    pub fn raw(&self) -> &str {
        self.text.as_str()
    }

    /// Returns the messages it holds: usually one; one for each result and the user's text; none if the
    /// record is not a message, is empty, or is of an abandoned branch. Those of a large file are read each
    /// time.
    pub fn messages(&self) -> Cow<'_, [Message]> {
        match &self.said {
            Said::Here(messages) => Cow::Borrowed(messages),
            Said::InText { read, names, .. } => Cow::Owned(name_results(read(self.raw()), names.as_ref())),
        }
    }

    /// Returns how many messages it holds.
    pub fn n_messages(&self) -> usize {
        match &self.said {
            Said::Here(messages) => messages.len(),
            Said::InText { n_messages, .. } => *n_messages,
        }
    }

    /// Returns the messages and lets go of the rest.
    pub(crate) fn into_messages(self) -> Vec<Message> {
        match self.said {
            Said::Here(messages) => messages,
            Said::InText { read, names, .. } => name_results(read(self.text.as_str()), names.as_ref()),
        }
    }

    /// Checks whether its messages are in memory and need not be read.
    pub(crate) const fn is_open(&self) -> bool {
        matches!(self.said, Said::Here(_))
    }
}

impl Text {
    fn as_str(&self) -> &str {
        match self {
            Self::Own(text) => text,
            // It was text when the record was read.
            Self::Part { file, start, n_bytes } => {
                let bytes = file.get(*start..start + n_bytes).unwrap_or_default();
                std::str::from_utf8(bytes).unwrap_or_default()
            }
        }
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Own(text) => write!(f, "{text:?}"),
            Self::Part { start, n_bytes, .. } => write!(f, "bytes {start}..{} of the file", start + n_bytes),
        }
    }
}

impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        let told = |record: &Self| {
            (record.is_literal, record.is_folded, record.attachment.clone(), record.reply.clone())
        };
        self.raw() == other.raw() && self.messages() == other.messages() && told(self) == told(other)
    }
}
