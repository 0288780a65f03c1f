//! The parts of checkpoints that several commands show.

use console::style;
use forge_app::ViewedMessage;
use forge_domain::{CheckpointInfo, Size, quantity};

use crate::output::{beginning, with_separators};

/// The most messages of a kind that are listed one by one.
pub(super) const SHOWN: usize = 40;
/// The most characters of a message's line.
const LINE: usize = 90;

pub(super) fn title(info: &CheckpointInfo) -> String {
    format!("{} of run {}, agent {}", style(format!("{} {}", info.key, info.id)).bold(), info.run, info.agent)
}

pub(super) fn change(before: Size, after: Size) -> String {
    format!(
        "{} → {}, {} → {}",
        before.messages,
        quantity(after.messages, "message"),
        with_separators(before.tokens),
        quantity(with_separators(after.tokens), "token")
    )
}

pub(super) fn heading(message: &ViewedMessage) -> String {
    let tool = message.tool.as_ref().map(|tool| format!(" {tool}")).unwrap_or_default();
    let made = if message.is_compacted { ", by compaction" } else { "" };
    let title = style(format!("{} {}{tool}", message.id, message.role.as_str())).bold();
    format!("{title} ({}{made})", quantity(with_separators(message.tokens), "token"))
}

pub(super) fn in_a_line(message: &ViewedMessage) -> String {
    format!("{}: {}", heading(message), cut(&message.text))
}

/// Returns the first line with text, cut if it is long.
pub(super) fn cut(text: &str) -> String {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
    beginning(line, LINE)
}

pub(super) fn time_text(info: &CheckpointInfo) -> String {
    format!("{:.0}", info.created_at)
}
