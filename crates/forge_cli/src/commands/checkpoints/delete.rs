//! `forge checkpoints delete`: deletes a run, or one checkpoint.

use clap::Args;
use forge_app::discard;

use super::OpenStore;
use super::selection::CheckpointName;
use super::sweep::{SweepArguments, sweep_away};
use super::writer::{TakeOver, by_writer};

/// Delete a run, or one checkpoint; what a fork needs stays
#[derive(Debug, Args)]
pub(super) struct DeleteArguments {
    #[command(flatten)]
    what: CheckpointName,
    #[command(flatten)]
    sweep: SweepArguments,
    #[command(flatten)]
    takeover: TakeOver,
}

impl DeleteArguments {
    /// Deletes it.
    pub(super) async fn run(self, OpenStore { store, form, .. }: &OpenStore) -> anyhow::Result<()> {
        let what = self.what.select(&**store).await?;
        let go = async |sweep| {
            by_writer(self.takeover, async |writer| discard(&**store, &what, sweep, writer).await).await
        };
        sweep_away(&self.sweep, *form, go).await
    }
}
