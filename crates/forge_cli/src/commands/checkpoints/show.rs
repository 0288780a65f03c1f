//! `forge checkpoints show`: the content of a checkpoint.

use clap::Args;
use console::style;
use forge_app::{CheckpointReport, CompactionLayer, LayerState, report};
use forge_domain::quantity;

use super::OpenStore;
use super::selection::CheckpointName;
use super::view::{change, heading, in_a_line, time_text, title};
use crate::output::with_separators;
use crate::run::usage_text;

/// Show a checkpoint: its figures, its compactions, and what the model would see
#[derive(Debug, Args)]
pub(super) struct ShowArguments {
    #[command(flatten)]
    what: CheckpointName,
    /// Show every message of the view in full
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

/// Returns the content of a checkpoint; its messages in full, or a line for each.
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
        text += &report.compactions.iter().map(layer).collect::<String>();
    }
    text += &format!("  {}\n", style("view").bold());
    for message in &report.view {
        if full {
            text += &format!("{}\n{}\n\n", heading(message), message.text);
        } else {
            text += &format!("    {}\n", in_a_line(message));
        }
    }
    text
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
