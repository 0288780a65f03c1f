//! `forge checkpoints show`: the content of a checkpoint.

use clap::Args;
use console::style;
use forge_app::{CheckpointReport, CompactionLayer, LayerState, ViewedMessage, report};
use forge_domain::{Tokens, quantity};

use super::OpenStore;
use super::selection::CheckpointName;
use super::view::{SHOWN, change, heading, in_a_line, time_text, title};
use crate::output::with_separators;
use crate::run::usage_text;

/// Show a checkpoint: its figures, its compactions, and what the model would see
#[derive(Debug, Args)]
pub(super) struct ShowArguments {
    #[command(flatten)]
    what: CheckpointName,
    /// Show every message of the view in full, and every compaction
    #[arg(long)]
    full: bool,
}

impl ShowArguments {
    /// Shows it.
    pub(super) async fn run(self, OpenStore { store, form, .. }: &OpenStore) -> anyhow::Result<()> {
        let selected = self.what.select(&**store).await?;
        let report = report(&store.load(selected.info.key).await?);
        form.answer(&report, || checkpoint_text(&report, self.full))
    }
}

/// The items at the beginning of a long list that are shown; most are at its end.
const FIRST: usize = 10;

/// Returns the content of a checkpoint; its messages in full, or a line for each of the first and the last.
fn checkpoint_text(report: &CheckpointReport, full: bool) -> String {
    let info = &report.info;
    let (title, progress, coverage) = (title(info), &report.progress, &report.coverage);
    let model = report.configuration.0.get("model").and_then(|model| model.as_str()).unwrap_or("unknown");
    let mut text = format!(
        "{title}\n  made {} ({}), after {} to the model ({model})\n  usage: {}; `{}` spent {} tokens, {}\n  log: {} messages, {} of them verbatim in the view, {} replaced\n  view: {} messages, {} \
         tokens\n",
        time_text(info),
        info.reason.as_str(),
        quantity(progress.iterations, "call"),
        usage_text(progress.iterations, &progress.usage),
        info.agent,
        with_separators(progress.spent.tokens),
        progress.spent.cost,
        coverage.appended,
        coverage.verbatim,
        coverage.replaced,
        info.message_count,
        with_separators(info.estimated_tokens),
    );
    if !report.compactions.is_empty() {
        text += &format!("  {}\n", style("compactions").bold());
        text += &match full {
            true => report.compactions.iter().map(layer).collect::<String>(),
            false => ends(&report.compactions, layer),
        };
    }
    text += &format!("  {}\n", style("view").bold());
    let in_full = |message: &ViewedMessage| format!("{}\n{}\n\n", heading(message), message.text);
    text += &match full {
        true => report.view.iter().map(in_full).collect::<String>(),
        false => ends(&report.view, |message| format!("    {}\n", in_a_line(message))),
    };
    text
}

/// Returns the lines of the items; of many, those of the first and the last, and the number between them.
fn ends<T>(items: &[T], line: impl Fn(&T) -> String) -> String {
    if items.len() <= SHOWN {
        return items.iter().map(line).collect();
    }
    let (first, rest) = items.split_at(FIRST);
    let (between, last) = rest.split_at(items.len() - SHOWN);
    let lines = |items: &[T]| items.iter().map(&line).collect::<String>();
    let left_out =
        format!("    … {} more (--full shows all)\n", with_separators(Tokens::new(between.len() as u64)));
    lines(first) + &left_out + &lines(last)
}

fn layer(layer: &CompactionLayer) -> String {
    let state = match layer.state {
        LayerState::InForce => "in force",
        LayerState::Absorbed => "taken over by a later one",
        LayerState::Undone => "undone",
    };
    let absorbs = match layer.absorbs.as_slice() {
        [] => String::new(),
        labels => format!(", took over {}", labels.join(", ")),
    };
    format!(
        "    {} ({state}{absorbs}): {}, {} replaced\n",
        layer.id,
        change(layer.before, layer.after),
        quantity(layer.replaced, "message")
    )
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn the_ends_of_a_long_list_are_shown() {
        for (n, expected_lines, expected) in [
            (0, 0, None),
            (40, 40, None),
            (41, 41, Some("    … 1 more (--full shows all)")),
            (5_000, 41, Some("    … 4,960 more (--full shows all)")),
        ] {
            let items: Vec<usize> = (0..n).collect();
            let text = ends(&items, |item| format!("{item}\n"));
            let lines: Vec<&str> = text.lines().collect();
            assert_eq!(lines.len(), expected_lines, "{n}");
            assert_eq!(lines.get(FIRST).copied().filter(|line| line.contains("more")), expected, "{n}");
            let last = n.checked_sub(1).map(|last| last.to_string());
            assert_eq!(lines.last().map(|line| (*line).to_owned()), last, "{n}");
        }
    }
}
