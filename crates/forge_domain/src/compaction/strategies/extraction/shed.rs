//! What messages lose that stay: what was open when a summary was written, once files changed after it.

use super::outdated::Changes;
use super::stale_sections::without_open;
use crate::compaction::CompactionRules;
use crate::compaction::omission::is_marker;
use crate::compaction::record_tag::is_record;
use crate::compaction::standing::{Hold, Standing};
use crate::{Context, ContextMessage, Edit, Role, TokenCounter};

/// A context without that. A record tells nothing of what such a message lost: it is out of date.
pub(super) struct Shed {
    pub(super) context: Context,
    /// The positions of the messages that became shorter.
    pub(super) positions: Vec<usize>,
}

impl Shed {
    pub(super) fn of(
        context: &Context,
        rules: &CompactionRules,
        changes: &Changes,
        counter: &dyn TokenCounter,
    ) -> Self {
        let messages = context.messages();
        let standing = Standing::of(context, rules, rules.retention_window);
        let may_lose = |position: usize| {
            let hold = standing.hold_at(position);
            matches!(hold, Hold::Pinned | Hold::System | Hold::Retained | Hold::Free)
                && !standing.pins.hold(&messages[position])
        };
        let stale = messages.iter().enumerate().filter(|(position, message)| {
            is_summary(message) && changes.has_any_after(*position) && may_lose(*position)
        });
        let shorter: Vec<(usize, ContextMessage)> = stale
            .filter_map(|(position, message)| Some((position, without_open(message, counter)?)))
            .filter(|(position, with)| with.tokens() < messages[*position].tokens())
            .collect();
        let positions = shorter.iter().map(|(position, _)| *position).collect();
        let edits = shorter.into_iter().map(|(position, with)| Edit::Shorten { position, with });
        let edits: Vec<Edit> = edits.collect();
        Self { context: if edits.is_empty() { context.clone() } else { context.edit(edits) }, positions }
    }
}

/// Checks whether a message stands for others and is neither a record nor a marker: these say nothing of what
/// is open, or are written again.
fn is_summary(message: &ContextMessage) -> bool {
    let is_said = matches!(message.role(), Role::User | Role::Assistant);
    let message = message.message();
    is_said && message.is_compacted && !is_record(message) && !is_marker(message)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::tests::extract;
    use crate::compaction::fixture::texts;
    use crate::{Conversation, Message};

    #[test]
    fn what_was_open_in_a_summary_leaves_once_files_changed() {
        let summary = "Summary:\n1. Intent:\n   A mill by the pond.\n2. Pending Tasks:\n   - Join the mill to the \
                       canal, and paint it.\n3. Paths:\n   mill.rs is the mill.";
        for (tool, is_out_of_date) in [("Edit", true), ("Read", false)] {
            let mut log = Conversation::new();
            log.add(Message::user(summary).compacted()).user("Go on with the wheel.");
            for n in 0..20 {
                let announced = format!("Step {n} is about item_{n}.");
                log.announced_call(announced, tool, r#"{"file_path":"mill.rs"}"#, "more ".repeat(60));
            }
            log.user("And now?").agent("I look.");
            extract(&mut log, 2_400);
            let view = texts(&log).join("\n");
            assert!(view.contains("A mill by the pond.") && view.contains("mill.rs is the mill."), "{view}");
            assert_eq!(view.contains("Join the mill"), !is_out_of_date, "{view}");
            assert_eq!(view.contains(" characters of m0 omitted"), is_out_of_date, "{view}");
        }
    }
}
