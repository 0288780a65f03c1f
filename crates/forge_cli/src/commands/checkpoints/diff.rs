//! `forge checkpoints diff`: the differences between two checkpoints.

use clap::Args;
use console::style;
use forge_app::{CheckpointDifference, LogTail, difference};
use forge_domain::{Difference, quantity};

use super::OpenStore;
use super::view::{SHOWN, change, cut, in_a_line, title};
use crate::output::with_separators;
use crate::run::select_here;

/// Show the differences between two checkpoints
#[derive(Debug, Args)]
pub(super) struct DiffArguments {
    /// The first checkpoint
    a: String,
    /// The second checkpoint
    b: String,
}

impl DiffArguments {
    /// Shows them.
    pub(super) async fn run(self, OpenStore { store, form, .. }: &OpenStore) -> anyhow::Result<()> {
        let a = select_here(&**store, &self.a, None).await?;
        let b = select_here(&**store, &self.b, None).await?;
        let difference = difference(&store.load(a.info.key).await?, &store.load(b.info.key).await?);
        form.answer(&difference, || difference_text(&difference))
    }
}

/// Describes the differences between two checkpoints.
fn difference_text(difference: &CheckpointDifference) -> String {
    let CheckpointDifference { a, b, view_a, view_b, .. } = difference;
    let mut text = format!("{}\n{}\n", title(a), title(b));
    text += &format!("  logs: {} in common\n", quantity(difference.common_entries, "line"));
    for (info, tail) in [(a, difference.only_a), (b, difference.only_b)] {
        if tail != LogTail::default() {
            text += &format!(
                "    only {}: {}, {}; {}, {} undone\n",
                info.key,
                quantity(tail.messages, "message"),
                quantity(with_separators(tail.tokens), "token"),
                quantity(tail.compactions, "compaction"),
                tail.undone
            );
        }
    }
    text += &format!("  view: {}\n", change(*view_a, *view_b));
    for (mark, messages) in [("-", &difference.left), ("+", &difference.came)] {
        for message in messages.iter().take(SHOWN) {
            text += &format!("    {mark} {}\n", in_a_line(message));
        }
        if messages.len() > SHOWN {
            text += &format!("    {mark} and {} more\n", messages.len() - SHOWN);
        }
    }
    if !difference.configuration.is_empty() {
        text += &format!("  {}\n", style("configuration").bold());
    }
    for Difference { key, then, now } in &difference.configuration {
        let shown = |value: &Option<serde_json::Value>| {
            value.as_ref().map_or_else(|| "unset".to_owned(), |value| cut(&value.to_string()))
        };
        text += &format!("    {key}: {} → {}\n", shown(then), shown(now));
    }
    text
}
