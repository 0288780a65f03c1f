//! The smallest runs of messages that may only leave together, and spans of whole ones.

use std::collections::HashMap;
use std::ops::Range;

use crate::{Body, ContextMessage, Role};

/// A smallest run of messages that may only leave together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    range: Range<usize>,
    kind: GroupKind,
    has_system: bool,
}

/// What a group is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupKind {
    /// One system message.
    System,
    /// One user message.
    User,
    /// One assistant message without calls.
    Assistant,
    /// An assistant message with its calls and all their results, and whatever stands between them.
    Exchange,
    /// A tool result whose call is not in the context.
    Orphan,
}

impl Group {
    /// Where its messages stand in the context.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }

    /// What it is.
    pub const fn kind(&self) -> GroupKind {
        self.kind
    }

    /// Whether a system message is in it: it is one, or one stands between its calls and results.
    pub const fn has_system(&self) -> bool {
        self.has_system
    }

    /// How many messages it has; at least one.
    pub fn n_messages(&self) -> usize {
        self.range.len()
    }

    /// Whether it is the assistant's: said or called by it, or a result of a call.
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
    /// Where its messages stand in the context that it was made for.
    pub fn range(&self) -> Range<usize> {
        self.range.clone()
    }
}

/// The groups of a context, in order and without gaps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Groups(Vec<Group>);

impl Groups {
    /// Finds the groups of `messages`. A result belongs to the nearest earlier call of its id that has none yet, so
    /// reused ids pair by position; groups that overlap are one.
    pub fn of(messages: &[ContextMessage]) -> Self {
        let mut groups: Vec<Group> = Vec::new();
        for (start, last) in last_results(messages).into_iter().enumerate() {
            let end = last + 1;
            let kind = kind_of(&messages[start]);
            let has_system = kind == GroupKind::System;
            match groups.last_mut() {
                Some(open) if start < open.range.end => {
                    open.range.end = open.range.end.max(end);
                    open.has_system |= has_system;
                }
                _ => groups.push(Group { range: start..end, kind, has_system }),
            }
        }
        Self(groups)
    }

    /// The span of the groups in `groups` (indices of groups, not of messages).
    ///
    /// # Panics
    /// Where `groups` is empty or reaches past the last group.
    pub fn span(&self, groups: Range<usize>) -> Span {
        let (first, last) = (&self.0[groups.start], &self.0[groups.end - 1]);
        assert!(groups.start < groups.end, "a span has at least one group");
        Span { range: first.range.start..last.range.end }
    }

    /// The groups in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Group> {
        self.0.iter()
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether the context has no message.
    pub const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The index of the first group of the newest `n` messages, rounded outwards: a group counts as retained as soon
    /// as one of its messages is among them.
    pub fn retained_from(&self, n: usize) -> usize {
        let n_messages = self.0.last().map_or(0, |group| group.range.end);
        let first = n_messages.saturating_sub(n);
        self.0.partition_point(|group| group.range.end <= first)
    }
}

impl<'a> IntoIterator for &'a Groups {
    type Item = &'a Group;
    type IntoIter = std::slice::Iter<'a, Group>;
    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// For each message the position of the last result of its calls; its own position where it has none.
fn last_results(messages: &[ContextMessage]) -> Vec<usize> {
    let mut last: Vec<usize> = (0..messages.len()).collect();
    let mut unanswered: HashMap<&str, Vec<usize>> = HashMap::new();
    for (position, message) in messages.iter().enumerate() {
        for call in message.message().calls() {
            unanswered.entry(&call.id).or_default().push(position);
        }
        if let Body::Tool(result) = &message.message().body
            && let Some(caller) = unanswered.get_mut(result.call_id.as_str()).and_then(Vec::pop)
        {
            last[caller] = position;
        }
    }
    last
}

fn kind_of(message: &ContextMessage) -> GroupKind {
    let message = message.message();
    match message.role() {
        Role::System => GroupKind::System,
        Role::User => GroupKind::User,
        Role::Assistant if message.calls().is_empty() => GroupKind::Assistant,
        Role::Assistant => GroupKind::Exchange,
        Role::Tool => GroupKind::Orphan,
    }
}
