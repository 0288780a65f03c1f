//! The answers that a saved run waits for.

use forge_domain::{AgentId, Awaited, CheckpointFilter, CheckpointStore, RunId, StoreError};

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
