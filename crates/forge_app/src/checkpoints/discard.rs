//! The deletion of checkpoints, by name or by age. What is deleted is known before.

use std::collections::BTreeMap;

use forge_domain::{
    CheckpointFilter, CheckpointInfo, CheckpointKey, CheckpointStore, Deletion, Pruned, Retention,
    StoreError, Sweep,
};
use jiff::Timestamp;
use serde::Serialize;

use super::{CheckpointsError, Scope, Selected, Writer};

/// The checkpoints that were deleted, or would be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Discarded {
    /// The checkpoints, newest first.
    pub checkpoints: Vec<CheckpointInfo>,
    /// Runs of which no checkpoint is left.
    pub runs: usize,
    /// Lines of logs that no other checkpoint needs.
    pub lines: usize,
}

/// Deletes the run or the checkpoint that was named. A run is kept if its holder is not known to be gone.
///
/// # Errors
/// [`CheckpointsError::Held`] and [`CheckpointsError::Store`].
pub async fn discard(
    store: &dyn CheckpointStore,
    what: &Selected,
    sweep: Sweep,
    writer: &Writer<'_>,
) -> Result<Discarded, CheckpointsError> {
    let run = &what.info.run;
    let known = store.runs().await?.into_iter().find(|known| known.run == *run);
    let holder = known.and_then(|known| known.holder);
    if let Some(holder) = holder.filter(|holder| holder.is_live(writer.holder)) {
        return Err(CheckpointsError::Held { run: run.clone(), by: holder.by, since: holder.since });
    }
    let infos = infos(store).await?;
    let deletion = match what.scope {
        Scope::Run => Deletion::Run(run.clone()),
        Scope::Checkpoint => Deletion::Checkpoint(what.info.key),
    };
    Ok(discarded_by(&store.delete(&deletion, sweep).await?, &infos))
}

/// Deletes what `retention` no longer retains at the time `now`.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn prune(
    store: &dyn CheckpointStore,
    retention: &Retention,
    now: Timestamp,
    sweep: Sweep,
) -> Result<Discarded, StoreError> {
    let infos = infos(store).await?;
    Ok(discarded_by(&store.prune(retention, now, sweep).await?, &infos))
}

async fn infos(store: &dyn CheckpointStore) -> Result<BTreeMap<CheckpointKey, CheckpointInfo>, StoreError> {
    let infos = store.list(&CheckpointFilter::default()).await?;
    Ok(infos.into_iter().map(|info| (info.key, info)).collect())
}

fn discarded_by(pruned: &Pruned, infos: &BTreeMap<CheckpointKey, CheckpointInfo>) -> Discarded {
    let checkpoints = pruned.checkpoints.iter().rev().filter_map(|key| infos.get(key).cloned());
    Discarded { checkpoints: checkpoints.collect(), runs: pruned.runs, lines: pruned.lines }
}
