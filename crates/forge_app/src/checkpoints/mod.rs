//! Operations on checkpoints: list, show, compare, fork, undo, compact, discard, export and import.
//!
//! Each works on any [`CheckpointStore`]. Nothing that is stored is ever changed: undoing and compacting add
//! a checkpoint, forking adds a run.

mod archive;
mod card;
mod compaction;
mod difference;
mod discard;
mod fork;
mod latest;
mod report;
mod runs;
mod selection;
mod undo;

use forge_domain::{
    CheckpointFilter, CheckpointInfo, CheckpointStore, Claim, Holder, RunId, StoreError, holder_name,
};
use jiff::Timestamp;

use crate::checkpointing::{TakeFrom, claim_from};

pub use self::archive::{ArchiveError, Imported, export_run, import_run, seal_run};
pub use self::card::{RunCard, run_cards, title};
pub use self::compaction::{
    CompactRun, CompactRunError, CompactedRun, compact_run, save_compaction, tools_tokens_of,
};
pub use self::difference::{CheckpointDifference, LogTail, difference};
pub use self::discard::{Discarded, discard, prune};
pub use self::fork::{Fork, fork, free_name};
pub(crate) use self::latest::READS;
pub use self::latest::{awaited, last_words, saved_workspace};
pub use self::report::{CheckpointReport, CompactionLayer, LayerState, ViewedMessage, report};
pub use self::runs::{RunSummary, latest_of_agents, runs};
pub(crate) use self::selection::last_of;
pub use self::selection::{Scope, Selected, latest_of_run, select, select_in};
pub use self::undo::{Undone, undo};

/// Returns that nothing is meant by `word`, and what to write instead.
fn not_there(word: &str) -> String {
    match word {
        "last" => "there is no last run: write a run's id instead of `last`".to_owned(),
        _ => {
            format!(
                "unknown run or checkpoint `{word}`: write a run, a checkpoint's label or number, or `last`"
            )
        }
    }
}

/// An error of an operation on checkpoints. The store is then unchanged.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointsError {
    /// Nothing has that name.
    #[error("{}; {known}", not_there(word))]
    Unknown {
        /// The word that the user wrote.
        word: String,
        /// The known names, in words.
        known: String,
    },
    /// Several have that name.
    #[error("`{word}` is ambiguous; write one of these by its number or as RUN/LABEL:\n  {}", candidates.join("\n  "))]
    Ambiguous {
        /// The word that the user wrote.
        word: String,
        /// Each of them, in words.
        candidates: Vec<String>,
    },
    /// A run has no checkpoint.
    #[error("run `{run}` has no checkpoint{of}")]
    Empty {
        /// The run.
        run: RunId,
        /// The agent that was looked for, to be read after "no checkpoint".
        of: String,
    },
    /// A name is taken.
    #[error("run `{run}` already exists: choose another name")]
    Taken {
        /// The name.
        run: RunId,
    },
    /// No compaction is in force.
    #[error("there is nothing to undo: no compaction is in force in {place}")]
    NothingToUndo {
        /// The checkpoint that was looked at.
        place: String,
    },
    /// There is no such compaction.
    #[error("there is no compaction `{wanted}` in {place}; {known}")]
    NoCompaction {
        /// The requested name.
        wanted: String,
        /// The checkpoint that was looked at.
        place: String,
        /// The compactions there, in words.
        known: String,
    },
    /// Another process is writing the run.
    #[error(
        "run `{run}` has been held by {} since {}: wait until that process ends, or take it over if \
         it is gone",
        holder_name(by),
        since.strftime("%Y-%m-%d %H:%M:%SZ")
    )]
    Held {
        /// The run.
        run: RunId,
        /// The holder, by the name that it gave.
        by: String,
        /// The beginning of its claim.
        since: Timestamp,
    },
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A writer of runs, at a certain time.
pub struct Writer<'a> {
    /// The holder under whose name runs are claimed, and that knows which other holders are gone.
    pub holder: &'a dyn Holder,
    /// The time now.
    pub now: Timestamp,
}

impl Writer<'_> {
    /// Runs `work` as the holder of `run`, and releases the run in any case.
    async fn write<T, F>(
        &self,
        store: &dyn CheckpointStore,
        run: &RunId,
        work: impl FnOnce(Claim) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        self.write_at(store, run, None, work).await
    }

    /// Runs `work` as the holder of `run`, if `latest` is still the latest checkpoint of its agent: nothing
    /// that was saved meanwhile is skipped, and a holder that continues keeps the run.
    async fn write_at<T, F>(
        &self,
        store: &dyn CheckpointStore,
        run: &RunId,
        latest: Option<&CheckpointInfo>,
        work: impl FnOnce(Claim) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        // Another agent of the run may have a later one.
        let newest = newest_of(store, run).await?.map(|newest| newest.key);
        let at = latest.map(|latest| latest.key).filter(|latest| newest == Some(*latest));
        let claim = claim_from(store, run, self.holder, TakeFrom::TheGone, at, None, self.now).await?;
        let done = match is_latest(store, latest).await {
            Ok(true) => work(claim.clone()).await,
            Ok(false) => Err(StoreError::Moved { run: run.clone() }),
            Err(error) => Err(error),
        };
        // The state is saved all the same. The next writer reports a claim that was not released.
        let released = store.release(&claim).await;
        let done = done?;
        released.map(|()| done)
    }
}

/// Checks whether `info` is the latest checkpoint of its agent. Without `info` there is nothing to check.
async fn is_latest(store: &dyn CheckpointStore, info: Option<&CheckpointInfo>) -> Result<bool, StoreError> {
    let Some(info) = info else { return Ok(true) };
    let agent = Some(info.agent.clone());
    let filter = CheckpointFilter { agent, limit: Some(1), ..CheckpointFilter::of_run(&info.run) };
    Ok(store.list(&filter).await?.first().is_some_and(|newest| newest.key == info.key))
}

/// Returns the last checkpoint of `run`.
pub(crate) async fn newest_of(
    store: &dyn CheckpointStore,
    run: &RunId,
) -> Result<Option<CheckpointInfo>, StoreError> {
    let filter = CheckpointFilter { limit: Some(1), ..CheckpointFilter::of_run(run) };
    Ok(store.list(&filter).await?.pop())
}
