//! The answers that a saved run waits for, and its workspace, as its latest checkpoints have them.

use forge_domain::{
    AgentId, Awaited, CheckpointFilter, CheckpointKey, CheckpointStore, RunId, StoreError, Workspace,
};

use super::newest_of;
use crate::course::Dialogue;

/// Returns what the run waits for: that of each agent's latest checkpoint.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn awaited(store: &dyn CheckpointStore, run: &RunId) -> Result<Vec<Awaited>, StoreError> {
    let mut seen: Vec<AgentId> = Vec::new();
    let mut awaited = Vec::new();
    for info in store.list(&CheckpointFilter::of_run(run)).await? {
        if !seen.contains(&info.agent) {
            awaited.extend(Dialogue::awaited(&store.outline(info.key).await?.progress));
            seen.push(info.agent);
        }
    }
    Ok(awaited)
}

/// Returns the latest checkpoint of the run, and the workspace that it keeps; that is `None` if the run works
/// in the folder of whoever continues it.
///
/// # Errors
/// [`StoreError`] if the store fails; [`StoreError::NotFound`] if it has no checkpoint of the run.
pub async fn saved_workspace(
    store: &dyn CheckpointStore,
    run: &RunId,
) -> Result<(CheckpointKey, Option<Workspace>), StoreError> {
    let newest = newest_of(store, run).await?;
    let key = newest.map(|newest| newest.key).ok_or_else(|| StoreError::NotFound {
        place: "the store".to_owned(),
        what: format!("run `{run}`"),
    })?;
    let progress = store.outline(key).await?.progress;
    Ok((key, Workspace::saved_with(&progress)))
}
