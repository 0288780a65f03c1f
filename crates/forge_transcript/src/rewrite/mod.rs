//! Writes a session again, with compaction's messages in place of the replaced ones: everything else stays
//! byte for byte.

mod anthropic;
mod blocks;
mod claude_code;
mod openai;
mod splice;

use std::borrow::Cow;
use std::collections::HashMap;

use forge_domain::{Body, Message, MessageId, Replacement, Role};
use forge_wire::WireError;
use serde::Serialize;
use serde_json::Value;

use crate::draft::Item;
use crate::{Draft, Format, Record, number_of};

/// The reasons why a session cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum RewriteError {
    /// The target format needs what this one does not have.
    #[error("{from} cannot be written as {to}: {why}")]
    Convert {
        /// The format that was read.
        from: Format,
        /// The format that is wanted.
        to: Format,
        /// The missing part.
        why: &'static str,
    },
    /// A message has no form in the target format.
    #[error("message m{number} cannot be written as {to}: {source}; write the format that it came in")]
    Message {
        /// The message, by its number in the draft.
        number: usize,
        /// The format that is wanted.
        to: Format,
        /// The part that has no place there.
        #[source]
        source: WireError,
    },
    /// The file is not the one that the session was read from.
    #[error("the session is not in the file that is to be written again")]
    OtherFile,
}

/// A part of a message that the target format has no place for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// The message's label, such as `m12`.
    pub message: String,
    /// The key that held it.
    pub key: String,
}

impl Draft<'_> {
    /// Returns what [`Self::rewrite`] to the format `to` leaves out of messages that stay; nothing if it
    /// converts nothing.
    pub fn left_out(&self, replacements: &[Replacement], to: Format) -> Vec<LeftOut> {
        let speaks_openai = |format: Format| matches!(format, Format::OpenAi | Format::TauBench);
        let (from, to) = (speaks_openai(self.format()), speaks_openai(to));
        let lines = if from == to { Vec::new() } else { self.lines(replacements) };
        let of_line = |line: &Line<'_>| {
            let (message, label) = (line.message(), format!("m{}", line.number));
            keys_without_place(&message, to)
                .into_iter()
                .map(move |key| LeftOut { message: label.clone(), key })
        };
        lines.iter().filter(|line| line.item().is_some()).flat_map(of_line).collect()
    }

    /// Writes the whole file with `replacements` in place, in the format `to`. `bytes` is the file that the
    /// session was read from. Messages are numbered from [`MessageId::FIRST`]. If there is nothing to
    /// replace, repair or convert, the result is `bytes` unchanged.
    ///
    /// # Errors
    /// [`RewriteError`] if a message has no form in that format.
    pub fn rewrite<'b>(
        &self,
        bytes: &'b [u8],
        replacements: &[Replacement],
        to: Format,
    ) -> Result<Cow<'b, [u8]>, RewriteError> {
        let from = self.format();
        if to == from && replacements.is_empty() && self.repairs().is_empty() {
            return Ok(Cow::Borrowed(bytes));
        }
        let text = std::str::from_utf8(bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes));
        // Half a character at the end was left out when it was read, and is again.
        let text =
            text.or_else(|error| std::str::from_utf8(&bytes[..error.valid_up_to()])).unwrap_or_default();
        let lines = self.lines(replacements);
        let written = match to {
            Format::OpenAi => openai::write(self, &lines, text)?,
            Format::TauBench => openai::write_trial(self, &lines, text)?,
            Format::Anthropic => anthropic::write(self, &lines, text)?,
            Format::ClaudeCode => claude_code::write(self, &lines)?,
        };
        Ok(Cow::Owned(written.into_bytes()))
    }

    /// Returns what [`Self::rewrite`] writes, as messages.
    pub fn with<'l>(&'l self, replacements: &'l [Replacement]) -> impl Iterator<Item = Cow<'l, Message>> {
        self.lines(replacements).into_iter().map(|line| line.message())
    }

    /// Returns the messages with `replacements` in place, in order.
    fn lines<'l>(&'l self, replacements: &'l [Replacement]) -> Vec<Line<'l>> {
        let mut at: HashMap<MessageId, (bool, &Replacement)> = HashMap::new();
        for replacement in replacements {
            for (n, id) in replacement.replaces.iter().enumerate() {
                at.insert(*id, (n == 0, replacement));
            }
        }
        let mut lines = Vec::new();
        let records = self.session.records.as_slice();
        let mut id = MessageId::FIRST;
        for (number, item) in self.items.iter().enumerate() {
            match at.get(&id) {
                None => lines.push(Line { number, says: Says::Same(item), records }),
                Some((true, replacement)) => {
                    lines.extend(replacement.with.iter().map(|with| self.new_line(number, with.message())));
                }
                Some((false, _)) => {}
            }
            id = id.next();
        }
        lines
    }

    fn new_line<'l>(&'l self, number: usize, message: &'l Message) -> Line<'l> {
        let records = self.session.records.as_slice();
        let was = number_of(message).and_then(|was| Some((was, self.items.get(was)?)));
        match was.filter(|(_, item)| item.role() == message.role()) {
            Some((was, item)) => Line { number: was, says: Says::Less(item, message), records },
            None => Line { number, says: Says::New(message), records },
        }
    }
}

/// Returns the keys of a message for which the other protocol has no place: OpenAI's has no result that is an
/// error; Anthropic's has no key beside role and content except the reasoning that it signed itself.
fn keys_without_place(message: &Message, in_openai: bool) -> Vec<String> {
    if in_openai {
        let is_error = matches!(&message.body, Body::Tool(result) if result.is_error);
        return is_error.then(|| "is_error".to_owned()).into_iter().collect();
    }
    let says_something = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    let extra =
        message.extra.iter().filter(|(key, value)| *key != "thinking_blocks" && says_something(value));
    extra.map(|(key, _)| key.clone()).collect()
}

/// A message of what is written.
struct Line<'a> {
    /// Its number in the draft; of a new one, that of the first message it replaces.
    number: usize,
    says: Says<'a>,
    /// Those of the session.
    records: &'a [Record],
}

enum Says<'a> {
    /// The earlier message, unchanged.
    Same(&'a Item),
    /// Less than the item did.
    Less(&'a Item, &'a Message),
    /// It is new.
    New(&'a Message),
}

impl<'a> Line<'a> {
    fn message(&self) -> Cow<'a, Message> {
        match self.says {
            Says::Same(item) => item.message(self.records),
            Says::Less(_, message) | Says::New(message) => Cow::Borrowed(message),
        }
    }

    const fn role(&self) -> Role {
        match self.says {
            Says::Same(item) => item.role(),
            Says::Less(_, message) | Says::New(message) => message.role(),
        }
    }

    /// Returns the item that it is, or is the shorter form of, if it came from the file.
    fn item(&self) -> Option<&'a Item> {
        match self.says {
            Says::Same(item) | Says::Less(item, _) => Some(item).filter(|item| !item.places().is_empty()),
            Says::New(_) => None,
        }
    }
}
