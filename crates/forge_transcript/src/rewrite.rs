//! Writes a session again, with compaction's messages in place of the replaced ones: everything else stays
//! byte for byte.

use std::borrow::Cow;
use std::collections::HashMap;

use forge_domain::{Body, Message, MessageId, Replacement, Role, TokenCounter, Tokens, message_tokens};
use forge_wire::Protocol;
use serde::Serialize;
use serde_json::Value;

use crate::author_mark::{with_author, without_system_role};
use crate::codec::{Line, Revision, Says};
use crate::formats::codec;
use crate::item::Item;
use crate::loss::{Census, Loss};
use crate::{Draft, Format, Repair, RewriteError, number_of, read_as, request_tools};

/// A part of a message that the target format has no place for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Omission {
    /// The message's label, such as `m12`.
    pub message: String,
    /// The key that held it.
    pub key: String,
}

impl Draft<'_> {
    /// Returns what [`Self::rewrite`] to the format `to` leaves out of messages that stay; nothing if it
    /// converts nothing.
    pub fn omissions(&self, replacements: &[Replacement], to: Format) -> Vec<Omission> {
        let protocol = to.protocol();
        let is_same = to == self.format() || protocol.is_some() && protocol == self.format().protocol();
        let lines = if is_same { Vec::new() } else { self.lines(replacements) };
        let n_leading = leading_system(lines.iter().map(Line::role));
        let of_line = |(place, line): (usize, &Line<'_>)| {
            let (message, label) = (line.message(), format!("m{}", line.number));
            let mut keys = keys_without_place(&message, protocol);
            if place >= n_leading && message.role() == Role::System && protocol == Some(Protocol::Anthropic) {
                keys.push("role".to_owned());
            }
            keys.into_iter().map(move |key| Omission { message: label.clone(), key })
        };
        lines.iter().enumerate().filter(|(_, line)| line.item().is_some()).flat_map(of_line).collect()
    }

    /// Returns the tokens by which its messages grow, at most, when [`Self::rewrite`] marks their authors in
    /// the format `to`; none if that has a place for them.
    pub fn author_tokens(&self, to: Format, counter: &dyn TokenCounter) -> Tokens {
        if to == self.format() || to.protocol().is_none() {
            return Tokens::ZERO;
        }
        let is_anthropics = to.protocol() == Some(Protocol::Anthropic);
        let n_leading = leading_system(self.items.iter().map(Item::role));
        let growth = |(place, message): (usize, Message)| {
            let mut written = Cow::Borrowed(&message);
            if is_anthropics && place >= n_leading {
                written = without_system_role(written);
            }
            match with_author(written) {
                Cow::Borrowed(_) => Tokens::ZERO,
                Cow::Owned(marked) => {
                    message_tokens(&marked, counter).saturating_sub(message_tokens(&message, counter))
                }
            }
        };
        self.messages().enumerate().map(growth).sum()
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
        let is_unchanged = to == from && replacements.is_empty();
        if is_unchanged && self.written_repairs(replacements, to).is_empty() {
            return Ok(Cow::Borrowed(bytes));
        }
        if self.items.is_empty() && !self.repairs().is_empty() {
            return Err(RewriteError::Nothing { results: self.repairs().len() });
        }
        let revision = Revision {
            session: self.session,
            nth: self.nth,
            start: self.start,
            items: &self.items,
            lines: self.lines(replacements),
            bytes,
            to,
        };
        codec(to).write(&revision).map(Cow::Owned)
    }

    /// Returns the repairs that [`Self::rewrite`] writes: in some formats, a file in which nothing is
    /// replaced stays as it is.
    pub fn written_repairs(&self, replacements: &[Replacement], to: Format) -> &[Repair] {
        let is_unchanged = to == self.format() && replacements.is_empty();
        if is_unchanged && codec(to).keeps_form() { &[] } else { self.repairs() }
    }

    /// Returns the parts of messages that stay, and the tools, which the converted session lacks: `written`
    /// is what [`Self::rewrite`] made of the file `bytes` in the format `to`.
    pub fn losses(
        &self,
        bytes: &[u8],
        replacements: &[Replacement],
        written: &[u8],
        to: Format,
    ) -> Vec<Loss> {
        if to == self.format() {
            return Vec::new();
        }
        // What cannot be read again is no judge of what was lost.
        let Ok(converted) = read_as(to, written, "") else { return Vec::new() };
        let (mut before, mut after) = (Census::default(), Census::default());
        before.count_tools(self.session.tools(bytes).as_deref());
        after.count_tools(request_tools(written).as_deref());
        let mut last = None;
        for line in self.lines(replacements) {
            before.count_media(&line.message());
            let records = line.item().into_iter().flat_map(|item| item.sources.iter());
            for record in records.map(|place| place.record) {
                // A record may hold several messages, one after the other.
                if last.replace(record) != Some(record) {
                    before.count(self.session.records[record].raw());
                }
            }
        }
        for session in &converted {
            session.messages().for_each(|message| after.count_media(&message));
            session.records.iter().for_each(|record| after.count(record.raw()));
        }
        before.beyond(&after)
    }

    /// Returns what [`Self::rewrite`] writes, as messages.
    pub fn with<'l>(&'l self, replacements: &'l [Replacement]) -> impl Iterator<Item = Cow<'l, Message>> {
        self.lines(replacements).into_iter().map(|line| line.message())
    }

    /// Returns the messages with `replacements` in place, in order.
    pub(crate) fn lines<'l>(&'l self, replacements: &'l [Replacement]) -> Vec<Line<'l>> {
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

/// Returns the number of system messages before the first other one.
fn leading_system(roles: impl Iterator<Item = Role>) -> usize {
    roles.take_while(|role| *role == Role::System).count()
}

/// Returns the keys of a message for which the other format has no place: only Anthropic's messages have a
/// result that is an error, and only OpenAI's a key beside role and content, save reasoning that Anthropic
/// signed.
fn keys_without_place(message: &Message, protocol: Option<Protocol>) -> Vec<String> {
    let is_error = matches!(&message.body, Body::Tool(result) if result.is_error);
    let mut keys = Vec::new();
    if is_error && protocol != Some(Protocol::Anthropic) {
        keys.push("is_error".to_owned());
    }
    if protocol == Some(Protocol::OpenAi) {
        return keys;
    }
    let says_something = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => true,
    };
    let extra =
        message.extra.iter().filter(|(key, value)| *key != "thinking_blocks" && says_something(value));
    keys.extend(extra.map(|(key, _)| key.clone()));
    keys
}
