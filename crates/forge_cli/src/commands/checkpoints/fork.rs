//! `forge checkpoints fork`: a new run from a checkpoint.

use clap::Args;
use console::style;
use forge_app::{Fork, fork, free_name};
use forge_domain::{CheckpointInfo, EntryId, RunId, quantity};
use serde_json::json;

use super::OpenStore;
use super::selection::{CheckpointName, new_run_id};
use super::writer::{TakeOver, by_writer};
use crate::output::with_separators;

/// Start a new run from a checkpoint; the old one is not changed
#[derive(Debug, Args)]
pub(super) struct ForkArguments {
    #[command(flatten)]
    what: CheckpointName,
    /// Start before this compaction (its label, such as c2; `show` lists them): the replaced messages are
    /// back
    #[arg(long, value_name = "C")]
    before_compaction: Option<EntryId>,
    /// The new run's name [default: the old one's with a number]
    #[arg(long = "as", value_name = "RUN", value_parser = new_run_id)]
    into: Option<RunId>,
}

impl ForkArguments {
    /// Starts the run.
    pub(super) async fn run(self, OpenStore { store, form, .. }: &OpenStore) -> anyhow::Result<()> {
        let from = self.what.select(&**store).await?;
        let into = match self.into {
            Some(into) => into,
            None => free_name(&**store, &from.info.run).await?,
        };
        let asked = Fork { from, before: self.before_compaction, into };
        let saved =
            by_writer(TakeOver::default(), async |writer| fork(&**store, &asked, writer).await).await?;
        form.answer(&json!({"run": asked.into, "checkpoints": saved}), || fork_text(&asked, &saved))
    }
}

/// Describes a new fork.
fn fork_text(asked: &Fork, saved: &[CheckpointInfo]) -> String {
    let view = saved.last().map(|info| {
        let tokens = quantity(with_separators(info.estimated_tokens), "token");
        format!("{}, {tokens} in view", quantity(info.message_count, "message"))
    });
    format!(
        "run {} starts with {} {}{}: {}\nresume with: forge run --resume {}\n",
        style(&asked.into).bold(),
        asked.from.info.key,
        asked.from.info.id,
        asked.before.map(|entry| format!(" from before {entry}")).unwrap_or_default(),
        view.unwrap_or_default(),
        asked.into
    )
}
