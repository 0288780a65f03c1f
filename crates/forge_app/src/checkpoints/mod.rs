//! What people do with checkpoints: list, show, compare, fork, undo, compact, discard, and carry them
//! elsewhere.
//!
//! Everything works on any [`CheckpointStore`]; nothing that is there is ever changed: undoing and compacting
//! add a checkpoint, forking a run.

mod archive;

mod compaction;

mod difference;

mod discard;

mod fork;

mod report;

mod runs;

mod selection;

mod undo;

use forge_domain::{CheckpointFilter, CheckpointInfo, CheckpointStore, Claim, Holder, RunId, StoreError};
use jiff::Timestamp;

use crate::checkpointing::claim_from_the_gone;

pub use self::archive::{ArchiveError, Imported, export_run, import_run};
pub use self::compaction::{
    CompactRun, CompactRunError, CompactedRun, compact_run, save_compaction, tools_tokens_of,
};
pub use self::difference::{CheckpointDifference, LogTail, difference};
pub use self::discard::{Discarded, discard, prune};
pub use self::fork::{Fork, fork, free_name};
pub use self::report::{CheckpointReport, CompactionLayer, LayerState, ViewedMessage, report};
pub use self::runs::{RunSummary, runs};
pub use self::selection::{Scope, Selected, latest_of_run, select};
pub use self::undo::{Undone, undo};

/// Why something with checkpoints was not done. The store is then as it was.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointsError {
    /// Nothing is named so.
    #[error("nothing is named `{word}`: write a run, a checkpoint's label or number, or `last`; {known}")]
    Unknown {
        /// What was written.
        word: String,
        /// What there is, in words.
        known: String,
    },
    /// Several are named so.
    #[error("`{word}` may be any of these; write one of them by its number or as RUN/LABEL:\n  {}", candidates.join("\n  "))]
    Ambiguous {
        /// What was written.
        word: String,
        /// Each of those that are named so, in words.
        candidates: Vec<String>,
    },
    /// A run has nothing to go by.
    #[error("run `{run}` has no checkpoint{of}")]
    Empty {
        /// The run.
        run: RunId,
        /// What was looked for, to be read after "no checkpoint".
        of: String,
    },
    /// A name is taken.
    #[error("there is a run `{run}` already: name another one")]
    Taken {
        /// The name.
        run: RunId,
    },
    /// There is no such compaction.
    #[error("there is no compaction `{wanted}` in {place}; {known}")]
    NoCompaction {
        /// What was asked for.
        wanted: String,
        /// The checkpoint that was looked at.
        place: String,
        /// Which there are, in words.
        known: String,
    },
    /// Somebody is writing the run.
    #[error(
        "run `{run}` is being written by {by} since {since}: wait until it ends, or take it over if that one is gone"
    )]
    Held {
        /// The run.
        run: RunId,
        /// The holder, by the name that it gave.
        by: String,
        /// Since when.
        since: Timestamp,
    },
    /// The store says no.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Who changes a run, and when.
pub struct Writer<'a> {
    /// The name under which runs are claimed, and from whom they are taken over.
    pub holder: &'a dyn Holder,
    /// The time now.
    pub now: Timestamp,
}

impl Writer<'_> {
    /// Does one thing as the holder of `run`, and gives it back whatever became of it.
    async fn writing<T, F>(
        &self,
        store: &dyn CheckpointStore,
        run: &RunId,
        work: impl FnOnce(Claim) -> F,
    ) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        self.writing_at(store, run, None, work).await
    }

    /// The same, where `latest` must still be the latest checkpoint of its agent: nothing that was saved
    /// meanwhile is passed over, and a holder who has gone on keeps the run.
    async fn writing_at<T, F>(
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
        let claim = claim_from_the_gone(store, run, self.holder, self.now, at).await?;
        let done = match is_latest(store, latest).await {
            Ok(true) => work(claim.clone()).await,
            Ok(false) => Err(StoreError::Moved { run: run.clone() }),
            Err(error) => Err(error),
        };
        // What was saved is saved; a claim that stays is said by the next one who wants to write.
        let released = store.release(&claim).await;
        let done = done?;
        released.map(|()| done)
    }
}

/// Whether `info` is the latest checkpoint of its agent; whatever it is, where none is asked about.
async fn is_latest(store: &dyn CheckpointStore, info: Option<&CheckpointInfo>) -> Result<bool, StoreError> {
    let Some(info) = info else { return Ok(true) };
    let agent = Some(info.agent.clone());
    let filter = CheckpointFilter { agent, limit: Some(1), ..CheckpointFilter::of_run(&info.run) };
    Ok(store.list(&filter).await?.first().is_some_and(|newest| newest.key == info.key))
}

/// The last checkpoint of `run`.
pub(crate) async fn newest_of(
    store: &dyn CheckpointStore,
    run: &RunId,
) -> Result<Option<CheckpointInfo>, StoreError> {
    let filter = CheckpointFilter { limit: Some(1), ..CheckpointFilter::of_run(run) };
    Ok(store.list(&filter).await?.pop())
}
