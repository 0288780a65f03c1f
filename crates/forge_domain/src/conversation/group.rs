//! The smallest runs of messages that may only leave together, and spans of whole ones.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::{Body, ContextMessage, Message, Role};

/// A smallest run of messages that may only leave together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    range: Range<usize>,
    kind: GroupKind,
    has_system: bool,
}

/// The kind of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum GroupKind {
    /// One system message.
    System,
    /// One user message.
    User,
    /// One assistant message without calls.
    Assistant,
    /// An assistant message with its calls and all their results, and whatever is between them.
    Exchange,
    /// A tool result whose call is not in the context.
    Orphan,
}

impl Group {
    /// Returns the places of its messages in the context.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// Returns its kind.
    pub const fn kind(&self) -> GroupKind {
        self.kind
    }

    /// Checks whether it contains a system message: it is one, or one is between its calls and results.
    pub const fn has_system(&self) -> bool {
        self.has_system
    }

    /// Checks whether it is the assistant's: its message or call, or a result of a call.
    pub const fn is_assistants(&self) -> bool {
        matches!(self.kind, GroupKind::Assistant | GroupKind::Exchange | GroupKind::Orphan)
    }
}

/// A run of whole groups. Only [`Groups::span`] makes one, so it cannot split a call from its result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Span {
    range: Range<usize>,
}

impl Span {
    /// Returns the places of its messages in the context that it was made for.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

/// A call by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct CallPlace {
    /// Position of the message that calls.
    pub message: usize,
    /// Which of its calls, the first being 0.
    pub nth: usize,
}

/// The groups of a context, in order and without gaps. Cloning shares them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups {
    groups: Arc<[Group]>,
    answered: Arc<[Option<CallPlace>]>,
}

impl Groups {
    /// Finds the groups of `messages`. A result belongs to the nearest earlier call of its id that has none
    /// yet, so reused ids pair by position; groups that overlap are one.
    pub fn of(messages: &[ContextMessage]) -> Self {
        let answered = call_places(messages);
        let mut last: Vec<usize> = (0..messages.len()).collect();
        for (position, call) in answered.iter().enumerate() {
            if let Some(call) = call {
                last[call.message] = position;
            }
        }
        let mut groups: Vec<Group> = Vec::new();
        for (start, last) in last.into_iter().enumerate() {
            let end = last + 1;
            let kind = kind_of(messages[start].message());
            let has_system = kind == GroupKind::System;
            match groups.last_mut() {
                Some(open) if start < open.range.end => {
                    open.range.end = open.range.end.max(end);
                    open.has_system |= has_system;
                }
                _ => groups.push(Group { range: start..end, kind, has_system }),
            }
        }
        Self { groups: groups.into(), answered: answered.into() }
    }

    /// Returns the call that the message at `position` answers; `None` if it is not a result, or if its call
    /// is missing.
    pub fn call_answered_by(&self, position: usize) -> Option<CallPlace> {
        self.answered.get(position).copied().flatten()
    }

    /// Returns the span of the groups in `groups` (indices of groups, not of messages).
    ///
    /// # Panics
    /// Where `groups` is empty or reaches past the last group.
    pub fn span(&self, groups: Range<usize>) -> Span {
        let (first, last) = (&self.groups[groups.start], &self.groups[groups.end - 1]);
        assert!(groups.start < groups.end, "a span has at least one group");
        Span { range: first.range.start..last.range.end }
    }

    /// Iterates over the groups in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Group> {
        self.groups.iter()
    }

    /// Returns their number.
    pub fn len(&self) -> usize {
        self.groups.len()
    }

    /// Checks whether the context has no message.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Returns the index of the first group of the newest `n` messages, rounded outwards: a group counts as
    /// retained as soon as one of its messages is among them.
    pub fn retained_from(&self, n: usize) -> usize {
        let n_messages = self.groups.last().map_or(0, |group| group.range.end);
        let first = n_messages.saturating_sub(n);
        self.groups.partition_point(|group| group.range.end <= first)
    }
}

impl<'a> IntoIterator for &'a Groups {
    type Item = &'a Group;
    type IntoIter = std::slice::Iter<'a, Group>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// Returns for each message the call that it answers: the nearest earlier one of its id that has no answer
/// yet.
fn call_places(messages: &[ContextMessage]) -> Vec<Option<CallPlace>> {
    // The calls so far, each with the one of the same id that is open once it is answered.
    let mut calls: Vec<(CallPlace, Option<usize>)> = Vec::new();
    let mut open: HashMap<&str, Option<usize>> = HashMap::new();
    let mut answered = vec![None; messages.len()];
    for (position, message) in messages.iter().map(ContextMessage::message).enumerate() {
        for (nth, call) in message.calls().iter().enumerate() {
            let latest = open.entry(&call.id).or_default();
            calls.push((CallPlace { message: position, nth }, *latest));
            *latest = Some(calls.len() - 1);
        }
        if let Body::Tool(result) = &message.body
            && let Some(latest) = open.get_mut(result.call_id.as_str())
            && let Some((call, earlier)) = latest.and_then(|latest| calls.get(latest))
        {
            answered[position] = Some(*call);
            *latest = *earlier;
        }
    }
    answered
}

/// The numbers of groups of a session that is read message by message, as [`Groups`] finds them.
#[derive(Debug, Default)]
pub struct GroupTally {
    /// The groups that are complete, by kind.
    complete: HashMap<GroupKind, usize>,
    /// The first message and the kind of each group that a result may still extend: those since the first
    /// call without a result.
    open: Vec<(usize, GroupKind)>,
    /// The messages with the calls that have no result yet, by the id of the call.
    unanswered: HashMap<String, Vec<usize>>,
    n_messages: usize,
}

impl GroupTally {
    /// Adds the next message.
    pub fn push(&mut self, message: &Message) {
        let position = self.n_messages;
        self.n_messages += 1;
        self.open.push((position, kind_of(message)));
        for call in message.calls() {
            self.unanswered.entry(call.id.clone()).or_default().push(position);
        }
        if let Body::Tool(result) = &message.body
            && let Some(callers) = self.unanswered.get_mut(&result.call_id)
            && let Some(caller) = callers.pop()
        {
            if callers.is_empty() {
                self.unanswered.remove(&result.call_id);
            }
            self.open.truncate(self.open.partition_point(|(start, _)| *start <= caller));
        }
        if self.unanswered.is_empty() {
            self.complete_all();
        }
    }

    /// Returns the numbers of groups by kind. A kind without groups is left out.
    pub fn finish(mut self) -> HashMap<GroupKind, usize> {
        self.complete_all();
        self.complete
    }

    fn complete_all(&mut self) {
        for (_, kind) in self.open.drain(..) {
            *self.complete.entry(kind).or_default() += 1;
        }
    }
}

fn kind_of(message: &Message) -> GroupKind {
    match message.role() {
        Role::System => GroupKind::System,
        Role::User => GroupKind::User,
        Role::Assistant if message.calls().is_empty() => GroupKind::Assistant,
        Role::Assistant => GroupKind::Exchange,
        Role::Tool => GroupKind::Orphan,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::select;

    use super::*;
    use crate::conversation::token_counter::Characters;
    use crate::{ToolCall, ToolName, ToolResult};

    fn call(id: char) -> ToolCall {
        ToolCall { id: id.to_string(), name: ToolName::new("t").unwrap(), arguments: "{}".into() }
    }

    /// Builds messages: `s`, `u`, `a`; `t` with the ids of its calls, `r` with that of its call.
    fn message(word: &str) -> Message {
        match word.split_at(1) {
            ("s", _) => Message::system("rules"),
            ("u", _) => Message::user("hi"),
            ("a", _) => Message::assistant("yes"),
            ("t", ids) => Message::calling(ids.chars().map(call).collect()),
            (_, id) => Message::tool(ToolResult::answer(&call(id.chars().next().unwrap()), "out")),
        }
    }

    proptest! {
        #[test]
        fn a_tally_counts_the_groups_that_are_found_at_once(
            words in vec(select(vec!["s", "u", "a", "tx", "ty", "txy", "txx", "rx", "ry", "rz"]), 0..24)
        ) {
            let messages = words.iter().map(|word| ContextMessage::count(message(word), &Characters));
            let mut expected: HashMap<GroupKind, usize> = HashMap::new();
            for group in &Groups::of(&messages.collect::<Vec<_>>()) {
                *expected.entry(group.kind()).or_default() += 1;
            }
            let mut tally = GroupTally::default();
            words.iter().for_each(|word| tally.push(&message(word)));
            prop_assert_eq!(tally.finish(), expected, "{}", words.join(" "));
        }
    }

    #[test]
    fn a_tally_holds_no_group_that_is_complete() {
        let mut tally = GroupTally::default();
        for word in ["u", "txy", "rx", "ry", "a"].repeat(1_000) {
            tally.push(&message(word));
            assert!(tally.open.len() <= 3);
        }
        let counts = [GroupKind::User, GroupKind::Exchange, GroupKind::Assistant].map(|kind| (kind, 1_000));
        assert_eq!(tally.finish(), HashMap::from(counts));
    }
}
