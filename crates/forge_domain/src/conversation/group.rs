//! The smallest runs of messages that may only leave together, and spans of whole ones.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::{Body, ContextMessage, Role};

/// A smallest run of messages that may only leave together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    range: Range<usize>,
    kind: GroupKind,
    has_system: bool,
}

/// The kind of a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
