//! A run as one self-contained HTML page.
//!
//! All text of models, tools and files is escaped, and what would hide or steer something is shown as what it
//! is. The page has no script and loads nothing, which its policy also forbids.

mod escape;
mod html;
mod markdown;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use forge_app::latest_of_agents;
use forge_domain::{Checkpoint, CheckpointFilter, CheckpointStore, RunId};
use forge_infra::write_whole;

use self::html::{GENERATOR, page};
use crate::failure::Misconfigured;

/// Returns the usual name of a run's page.
pub(crate) fn page_name(run: &str) -> PathBuf {
    PathBuf::from(format!("forge-{run}.html"))
}

/// Writes the page of `run` to `file`, and returns its size in bytes. An earlier page is replaced.
///
/// # Errors
/// [`Misconfigured`] if the file is something else, and any error of reading the run or writing the file.
pub(crate) async fn export_page(
    store: &dyn CheckpointStore,
    run: &RunId,
    file: &Path,
) -> anyhow::Result<usize> {
    if is_of_others(file) {
        let what = "already exists and is no page of Forge: nothing was written. Name another file";
        return Err(Misconfigured(format!("{} {what}", file.display())).into());
    }
    let page = page_of_run(store, run).await?;
    write_whole(file, page.as_bytes()).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(page.len())
}

/// Returns the page of a run.
pub(crate) async fn page_of_run(store: &dyn CheckpointStore, run: &RunId) -> anyhow::Result<String> {
    Ok(page(run, &checkpoints_of_agents(store, run).await?))
}

/// Checks whether the file has something else in it than a page of Forge. Empty files and pipes are written
/// to.
fn is_of_others(file: &Path) -> bool {
    let is_file = std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
    let mut head = Vec::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(1 << 10).read_to_end(&mut head));
    is_file && (read.is_err() || !String::from_utf8_lossy(&head).contains(GENERATOR))
}

/// Returns the latest checkpoint of each agent of a run, the one that began first first.
async fn checkpoints_of_agents(store: &dyn CheckpointStore, run: &RunId) -> anyhow::Result<Vec<Checkpoint>> {
    let mut checkpoints = Vec::new();
    for info in latest_of_agents(&store.list(&CheckpointFilter::of_run(run)).await?) {
        checkpoints.push(store.load(info.key).await?);
    }
    Ok(checkpoints)
}
