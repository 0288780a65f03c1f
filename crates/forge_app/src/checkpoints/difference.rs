//! The differences between two checkpoints.

use std::collections::BTreeSet;

use forge_domain::{Checkpoint, CheckpointInfo, ContextMessage, Difference, Entry, MessageId, Size, Tokens};
use serde::Serialize;

use super::report::ViewedMessage;

/// The differences between two checkpoints, `a` and `b`.
#[derive(Clone, Debug, Serialize)]
pub struct CheckpointDifference {
    /// The one.
    pub a: CheckpointInfo,
    /// The other.
    pub b: CheckpointInfo,
    /// Lines of their logs that are the same, from the beginning.
    pub common_entries: usize,
    /// The lines that only `a`'s log has after that.
    pub only_a: LogTail,
    /// The lines that only `b`'s log has after that.
    pub only_b: LogTail,
    /// The view of `a`.
    pub view_a: Size,
    /// The view of `b`.
    pub view_b: Size,
    /// The messages that only `a`'s view has.
    pub left: Vec<ViewedMessage>,
    /// The messages that only `b`'s view has.
    pub came: Vec<ViewedMessage>,
    /// The differences between the configurations of their agents.
    pub configuration: Vec<Difference>,
}

/// The lines at the end of a log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LogTail {
    /// Messages.
    pub messages: usize,
    /// Their tokens.
    pub tokens: Tokens,
    /// Compactions.
    pub compactions: usize,
    /// Compactions that were undone.
    pub undone: usize,
}

impl LogTail {
    fn of(entries: &[Entry]) -> Self {
        let mut tail = Self::default();
        for entry in entries {
            match entry {
                Entry::Message(message) => {
                    tail.messages += 1;
                    tail.tokens += message.tokens();
                }
                Entry::Compaction(_) => tail.compactions += 1,
                Entry::Undo(_) => tail.undone += 1,
            }
        }
        tail
    }
}

/// Returns the differences between `a` and `b`.
pub fn difference(a: &Checkpoint, b: &Checkpoint) -> CheckpointDifference {
    let (log_a, log_b) = (&a.snapshot.conversation, &b.snapshot.conversation);
    let (entries_a, entries_b) = (log_a.entries(), log_b.entries());
    let common = entries_a.iter().zip(entries_b).take_while(|(one, other)| one == other).count();
    let (view_a, view_b) = (log_a.view(), log_b.view());
    CheckpointDifference {
        a: a.info.clone(),
        b: b.info.clone(),
        common_entries: common,
        only_a: LogTail::of(&entries_a[common..]),
        only_b: LogTail::of(&entries_b[common..]),
        view_a: view_a.size(),
        view_b: view_b.size(),
        left: messages_missing_in(view_a.messages(), view_b.messages()),
        came: messages_missing_in(view_b.messages(), view_a.messages()),
        configuration: a.snapshot.configuration.differences(&b.snapshot.configuration),
    }
}

/// Returns the messages that are not in `others`. An id alone does not decide: runs of one origin use the
/// same ones.
fn messages_missing_in(messages: &[ContextMessage], others: &[ContextMessage]) -> Vec<ViewedMessage> {
    let known: BTreeSet<Option<MessageId>> = others.iter().map(ContextMessage::id).collect();
    let is_missing = |message: &&ContextMessage| !known.contains(&message.id()) || !others.contains(message);
    messages.iter().filter(is_missing).map(ViewedMessage::of).collect()
}
