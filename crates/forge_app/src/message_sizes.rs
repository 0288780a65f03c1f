//! The sizes of the messages of a session, in a few bytes each.

use std::collections::HashMap;
use std::sync::Arc;

use forge_domain::{Message, MessageId, Role, Tokens};

/// The size of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageSize<'s> {
    /// Its label, if it has one.
    pub id: Option<MessageId>,
    /// The role of its author.
    pub role: Role,
    /// The tool that it comes from, or that it calls first.
    pub tool: Option<&'s str>,
    /// Its tokens.
    pub tokens: Tokens,
    /// True if a harness wrote it under the user's role.
    pub is_note: bool,
    /// True if a compaction made it.
    pub is_compacted: bool,
}

/// The sizes of the messages of a session, in order. A session may have a million messages, so each takes
/// eight bytes.
#[derive(Clone, Debug, Default)]
pub struct MessageSizes {
    sizes: Vec<PackedSize>,
    /// The labels, unless they are the places of the messages.
    ids: Option<Vec<Option<MessageId>>>,
    tools: Tools,
}

#[derive(Clone, Copy, Debug)]
struct PackedSize {
    tokens: u32,
    /// The place of its tool among the tools.
    tool: u16,
    facts: u8,
}

/// The roles by their place in the lowest bits of a message's facts.
const ROLES: [Role; 4] = [Role::System, Role::User, Role::Assistant, Role::Tool];
const IS_NOTE: u8 = 4;
const IS_COMPACTED: u8 = 8;
/// The place of no tool, and of any beyond the first 65,535.
const NO_TOOL: u16 = u16::MAX;

/// The names of tools, each once.
#[derive(Clone, Debug, Default)]
struct Tools {
    names: Vec<Arc<str>>,
    places: HashMap<Arc<str>, u16>,
}

impl Tools {
    fn place(&mut self, name: &str) -> u16 {
        if let Some(place) = self.places.get(name) {
            return *place;
        }
        let Some(place) = u16::try_from(self.names.len()).ok().filter(|place| *place != NO_TOOL) else {
            return NO_TOOL;
        };
        let name: Arc<str> = name.into();
        self.names.push(Arc::clone(&name));
        self.places.insert(name, place);
        place
    }
}

impl MessageSizes {
    /// Adds a message, which comes from `tool` or calls it first, and returns its place.
    pub(crate) fn push(
        &mut self,
        id: Option<MessageId>,
        message: &Message,
        tool: Option<&str>,
        tokens: Tokens,
    ) -> u32 {
        let place = self.sizes.len();
        if self.ids.is_none() && id != Some(id_at(place)) {
            self.ids = Some((0..place).map(|earlier| Some(id_at(earlier))).collect());
        }
        if let Some(ids) = &mut self.ids {
            ids.push(id);
        }
        let role = ROLES.iter().position(|role| *role == message.role()).unwrap_or_default() as u8;
        let note = if message.note_by().is_some() { IS_NOTE } else { 0 };
        let compacted = if message.is_compacted { IS_COMPACTED } else { 0 };
        let tool = tool.map_or(NO_TOOL, |tool| self.tools.place(tool));
        self.sizes.push(PackedSize { tokens: packed(tokens), tool, facts: role | note | compacted });
        u32::try_from(place).unwrap_or(u32::MAX)
    }

    /// Returns the number of messages.
    pub const fn len(&self) -> usize {
        self.sizes.len()
    }

    /// Checks whether it has no messages.
    pub const fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Returns the label of the message at `place`, if it has one.
    pub fn id(&self, place: usize) -> Option<MessageId> {
        match &self.ids {
            Some(ids) => ids.get(place).copied().flatten(),
            None => Some(id_at(place)),
        }
    }

    /// Iterates over the sizes in order.
    pub fn iter(&self) -> impl Iterator<Item = MessageSize<'_>> {
        self.sizes.iter().enumerate().map(|(place, size)| MessageSize {
            id: self.id(place),
            role: ROLES[usize::from(size.facts & 3)],
            tool: self.tools.names.get(usize::from(size.tool)).map(|name| &**name),
            tokens: Tokens::new(size.tokens.into()),
            is_note: size.facts & IS_NOTE != 0,
            is_compacted: size.facts & IS_COMPACTED != 0,
        })
    }
}

/// Returns the tokens of one message in four bytes: none has as many as these cannot hold.
pub(crate) fn packed(tokens: Tokens) -> u32 {
    u32::try_from(tokens.as_u64()).unwrap_or(u32::MAX)
}

const fn id_at(place: usize) -> MessageId {
    MessageId::new(place as u64)
}

#[cfg(test)]
mod tests {
    use forge_domain::{ToolCall, ToolName, ToolResult};
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_message_takes_eight_bytes() {
        assert_eq!(size_of::<PackedSize>(), 8);
    }

    #[test]
    fn sizes_are_read_as_they_were_added() {
        let call = ToolCall { id: "c".into(), name: ToolName::new("read").unwrap(), arguments: "{}".into() };
        let messages = [
            Message::note("harness", "it rains"),
            Message::calling(vec![call.clone()]),
            Message::tool(ToolResult::answer(&call, "out")),
            Message { is_compacted: true, ..Message::user("summary") },
        ];
        // The labels of a stream are the places, those of a log are others.
        for ids in [[Some(0), Some(1), Some(2), Some(3)], [Some(0), Some(7), None, Some(9)]] {
            let ids = ids.map(|id| id.map(MessageId::new));
            let mut sizes = MessageSizes::default();
            for (n, message) in messages.iter().enumerate() {
                let tool = [None, Some("read"), Some("read"), None][n];
                assert_eq!(sizes.push(ids[n], message, tool, Tokens::new(n as u64)), n as u32);
            }
            let size = |n: usize, role, tool| MessageSize {
                id: ids[n],
                role,
                tool,
                tokens: Tokens::new(n as u64),
                is_note: n == 0,
                is_compacted: n == 3,
            };
            let expected = [
                size(0, Role::User, None),
                size(1, Role::Assistant, Some("read")),
                size(2, Role::Tool, Some("read")),
                size(3, Role::User, None),
            ];
            assert_eq!(sizes.iter().collect::<Vec<_>>(), expected);
            assert_eq!((sizes.len(), sizes.id(1)), (4, ids[1]));
        }
    }
}
