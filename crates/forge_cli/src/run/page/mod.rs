//! A run as one self-contained HTML page.
//!
//! All text of models, tools and files is escaped, and what would hide or steer something is shown as what it
//! is. The page has no script and loads nothing, which its policy also forbids.

mod escape;
mod html;
mod markdown;

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use forge_domain::{Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointStore, RunId};
use forge_infra::write_whole;

use self::html::page;

/// Returns the usual name of a run's page.
pub(crate) fn page_name(run: &str) -> PathBuf {
    PathBuf::from(format!("forge-{run}.html"))
}

/// Writes the page of `run` to `file`, and returns its size in bytes.
pub(crate) async fn export_page(
    store: &dyn CheckpointStore,
    run: &RunId,
    file: &Path,
) -> anyhow::Result<usize> {
    let page = page(run, &latest_of_agents(store, run).await?);
    write_whole(file, page.as_bytes()).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(page.len())
}

/// Returns the latest checkpoint of each agent of a run, the one that began first first.
async fn latest_of_agents(store: &dyn CheckpointStore, run: &RunId) -> anyhow::Result<Vec<Checkpoint>> {
    let mut latest: Vec<CheckpointInfo> = Vec::new();
    let infos = store.list(&CheckpointFilter::of_run(run)).await?;
    // Newest first: what is seen last of an agent is its beginning.
    let mut order = Vec::new();
    for info in infos {
        order.retain(|known| *known != info.agent);
        order.insert(0, info.agent.clone());
        if latest.iter().all(|known| known.agent != info.agent) {
            latest.push(info);
        }
    }
    latest.sort_by_key(|info| order.iter().position(|agent| *agent == info.agent));
    let mut checkpoints = Vec::new();
    for info in latest {
        checkpoints.push(store.load(info.key).await?);
    }
    Ok(checkpoints)
}
