//! The parts that messages lose although they stay: what was open when a summary was written, once files
//! changed after it, and what a harness's note says that stands elsewhere as well.

use std::ops::Range;

use super::outdated::Changes;
use super::passage::is_omission;
use super::stale_sections::without_open;
use crate::compaction::CompactionRules;
use crate::compaction::omission::is_marker;
use crate::compaction::record_tag::is_record;
use crate::compaction::restated::restated_notes;
use crate::compaction::short_text::omission;
use crate::compaction::standing::{Hold, Standing};
use crate::compaction::stub::Stub;
use crate::{Context, ContextMessage, Edit, Role, TokenCounter};

/// A context without these parts, of which a record tells nothing.
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
        let stale = messages
            .iter()
            .enumerate()
            .filter(|(position, message)| is_summary(message) && changes.has_any_after(*position));
        let summaries =
            stale.filter_map(|(position, message)| Some((position, without_open(message, counter)?)));
        let notes = restated_notes(context, rules.retention_window).into_iter();
        let notes =
            notes.map(|(position, parts)| (position, without_parts(&messages[position], &parts, counter)));
        let shorter: Vec<(usize, ContextMessage)> = summaries
            .chain(notes)
            .filter(|(position, with)| with.tokens() < messages[*position].tokens() && may_lose(*position))
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

/// Returns a note without such parts of its text, in order: a line stands for each. If it says nothing else,
/// a stub is left.
fn without_parts(
    note: &ContextMessage,
    parts: &[Range<usize>],
    counter: &dyn TokenCounter,
) -> ContextMessage {
    let text = note.message().text();
    let mut joined: Vec<Range<usize>> = Vec::with_capacity(parts.len());
    for part in parts {
        match joined.last_mut().filter(|last| text[last.end..part.start].trim().is_empty()) {
            Some(last) => last.end = part.end,
            None => joined.push(part.clone()),
        }
    }
    let mut rest = String::with_capacity(text.len());
    let mut from = 0;
    for part in joined {
        rest.push_str(&text[from..part.start]);
        from = part.end;
        rest.push_str(&omission(note.id(), &text[part]));
    }
    rest.push_str(&text[from..]);
    if rest.lines().any(says_something) {
        ContextMessage::count(note.message().with_content(rest), counter)
    } else {
        Stub::of_note(note).in_place_of(note, counter)
    }
}

/// Checks whether a line has words and is neither a tag alone nor a mark of what was left out.
fn says_something(line: &str) -> bool {
    let line = line.trim();
    let is_tag = line.starts_with('<') && line.ends_with('>') && !line.contains(char::is_whitespace);
    line.contains(char::is_alphanumeric) && !is_tag && !is_omission(line)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::tests::extract;
    use super::*;
    use crate::compaction::fixture::{Characters, texts};
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

    #[test]
    fn what_stands_elsewhere_leaves_a_note() {
        let rules = "<rules>\nNever touch the sluice of the mill, and ask before a gate is open.\n</rules>";
        let note = |n: usize| {
            let open = format!("<editor>\nThe open file of the user is gate_{n}.rs in the mill.\n</editor>");
            Message::note("vscode", format!("{open}\n{rules}"))
        };
        let mut log = Conversation::new();
        for n in 0..30 {
            log.add(note(n)).user(format!("Oil gate {n}.")).agent(format!("Gate {n} turns by {}.", n * 7));
        }
        extract(&mut log, 2_400);
        let texts = texts(&log);
        let view = texts.join("\n");
        assert_eq!(view.matches("Never touch the sluice").count(), 1, "{view}");
        assert!(view.contains("of the user is gate_29.rs in") && !view.contains("gate_28.rs in"), "{view}");
        assert!(texts[0].contains("Never touch the sluice") && !texts[0].contains("gate_0.rs"), "{view}");
    }

    #[test]
    fn of_a_note_that_says_nothing_else_a_stub_is_left() {
        let said =
            "<a>\nIt is Monday, and the mill is closed.\n</a>\n<b>\nNever touch the sluice, please.\n</b>";
        let note = ContextMessage::count(Message::note("vscode", said), &Characters);
        let parts = [0..46, 47..87];
        for (n_parts, expected) in [
            (2, "[m cleared: note, 91 tokens, 6 lines]"),
            (1, "[... 46 characters omitted ...]\n<b>\nNever touch the sluice, please.\n</b>"),
        ] {
            let actual = without_parts(&note, &parts[..n_parts], &Characters);
            assert_eq!(actual.message().to_text(), expected);
            assert_eq!(actual.message().note_by(), Some("vscode"));
        }
    }
}
