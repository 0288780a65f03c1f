//! A run as one self-contained HTML page.
//!
//! All text of models, tools and files is escaped, and what would hide or steer something is shown as what it
//! is. The page has no script and loads nothing, which its policy also forbids. Its links lead to its own
//! compactions only.

mod compactions;
mod escape;
mod html;
mod markdown;
mod message_card;

use std::io::Read as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use forge_app::{Scope, Selected, latest_of_agents};
use forge_domain::{Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointKey, CheckpointStore, RunId};
use forge_infra::write_whole;

use self::html::{GENERATOR, page};
use crate::failure::Misconfigured;

/// The state of a run that a page shows: of each agent the latest checkpoint, or the latest up to one.
#[derive(Clone, Debug)]
pub(crate) struct PageState {
    run: RunId,
    until: Option<CheckpointKey>,
}

impl PageState {
    /// Returns the latest state of `run`.
    pub(crate) fn latest(run: &RunId) -> Self {
        Self { run: run.clone(), until: None }
    }

    /// Returns the state that was named: the latest of a run, or the one at a checkpoint.
    pub(crate) fn selected(Selected { info, scope }: &Selected) -> Self {
        let until = (*scope == Scope::Checkpoint).then_some(info.key);
        Self { run: info.run.clone(), until }
    }

    /// Returns the usual name of its page.
    pub(crate) fn page_name(&self) -> PathBuf {
        let until = self.until.map(|key| format!("-{}", key.as_u64())).unwrap_or_default();
        PathBuf::from(format!("forge-{}{until}.html", self.run))
    }
}

/// Writes the page of `state` to `file`, and returns its size in bytes. An earlier page is replaced.
///
/// # Errors
/// [`Misconfigured`] if the file is something else, and any error of reading the run or writing the file.
pub(crate) async fn export_page(
    store: &dyn CheckpointStore,
    state: &PageState,
    file: &Path,
) -> anyhow::Result<usize> {
    if is_of_others(file) {
        let what = "already exists and is no page of Forge: nothing was written. Name another file";
        return Err(Misconfigured(format!("{} {what}", file.display())).into());
    }
    let page = page_of_run(store, state).await?;
    write_whole(file, page.as_bytes()).with_context(|| format!("cannot write {}", file.display()))?;
    Ok(page.len())
}

/// Returns the page of a run.
pub(crate) async fn page_of_run(store: &dyn CheckpointStore, state: &PageState) -> anyhow::Result<String> {
    Ok(page(&state.run, state.until, &checkpoints_of_agents(store, state).await?))
}

/// Checks whether the file has something else in it than a page of Forge. Empty files and pipes are written
/// to.
fn is_of_others(file: &Path) -> bool {
    let is_file = std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.len() > 0);
    let mut head = Vec::new();
    let read = std::fs::File::open(file).and_then(|file| file.take(1 << 10).read_to_end(&mut head));
    is_file && (read.is_err() || !String::from_utf8_lossy(&head).contains(GENERATOR))
}

/// Returns the checkpoint of each agent of a run, the one that began first first.
async fn checkpoints_of_agents(
    store: &dyn CheckpointStore,
    PageState { run, until }: &PageState,
) -> anyhow::Result<Vec<Checkpoint>> {
    let mut infos: Vec<CheckpointInfo> = store.list(&CheckpointFilter::of_run(run)).await?;
    infos.retain(|info| until.is_none_or(|until| info.key <= until));
    let mut checkpoints = Vec::new();
    for info in latest_of_agents(&infos) {
        checkpoints.push(store.load(info.key).await?);
    }
    Ok(checkpoints)
}
