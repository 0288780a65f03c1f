//! `forge checkpoints undo`: the state before the last compaction.

use std::num::NonZeroUsize;

use clap::Args;
use forge_app::{Undone, Writer, undo};

use super::OpenStore;
use super::selection::CheckpointName;
use super::view::change;
use super::writer::{TakeOver, by_writer};

/// Undo the last compaction, as a new checkpoint of the same run
///
/// What that compaction had taken over from earlier ones applies again: undo once more for the next
/// layer.
#[derive(Debug, Args)]
pub(super) struct UndoArguments {
    #[command(flatten)]
    what: CheckpointName,
    /// Undo this many
    #[arg(long, value_name = "N", default_value = "1")]
    layers: NonZeroUsize,
    #[command(flatten)]
    takeover: TakeOver,
}

impl UndoArguments {
    /// Undoes it.
    pub(super) async fn run(self, OpenStore { store, form, .. }: &OpenStore) -> anyhow::Result<()> {
        let of = self.what.select(&**store).await?;
        let undo = async |writer: &Writer<'_>| undo(&**store, &of, self.layers.get(), writer).await;
        let undone = by_writer(self.takeover, undo).await?;
        form.answer(&undone, || undo_text(&undone))
    }
}

/// Describes what was undone.
fn undo_text(undone: &Undone) -> String {
    let labels: Vec<String> = undone.undone.iter().map(ToString::to_string).collect();
    format!(
        "{} undone: {}\nsaved as {} {}\n",
        labels.join(", "),
        change(undone.before, undone.after),
        undone.saved.key,
        undone.saved.id
    )
}
