//! The port that keeps checkpoints.

use std::collections::BTreeSet;
use std::time::Duration;

use async_trait::async_trait;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{
    Action, ActionEnd, ActionKey, Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointKey,
    CheckpointOutline, Found, Holder, NewAction, NewCheckpoint, Retention, RunId, SearchQuery, UnkeptFiles,
};

/// A number for the holder of a run. A later holder has a larger one, and only the holder of the largest may
/// write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct FencingToken(u64);

impl FencingToken {
    /// Returns the token of that number.
    pub const fn new(n: u64) -> Self {
        Self(n)
    }

    /// Returns the plain number.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

/// The time for which a claim lasts unless it is renewed: between a millisecond and a year. It is measured by
/// the store's clock, so that machines need not agree on the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease(Duration);

impl Lease {
    /// The longest time, in milliseconds.
    const LONGEST: u64 = 366 * 24 * 60 * 60 * 1_000;

    /// Returns a lease of that time, in whole milliseconds; `None` if that is too short or too long.
    pub fn new(time: Duration) -> Option<Self> {
        let millis = u64::try_from(time.as_millis()).ok()?;
        (1..=Self::LONGEST).contains(&millis).then(|| Self(Duration::from_millis(millis)))
    }

    /// Returns its time.
    pub const fn time(self) -> Duration {
        self.0
    }

    /// Returns the pause between two renewals: two may fail before the lease runs out.
    pub fn renewal(self) -> Duration {
        self.0 / 3
    }
}

impl Default for Lease {
    /// Returns a lease of a minute.
    fn default() -> Self {
        Self(Duration::from_secs(60))
    }
}

/// The right to write checkpoints of a run, until another process takes it over or its lease runs out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The run.
    pub run: RunId,
    /// The token that every write presents.
    pub token: FencingToken,
}

/// The extent to which a new claim may end another holder's right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takeover {
    /// None: a run that is held is refused.
    Never,
    /// That of the holder of this very token, who is known to be gone.
    Of(FencingToken),
    /// As [`Takeover::Of`], but only while this checkpoint is still the latest of the run.
    OfAt(FencingToken, CheckpointKey),
}

impl Takeover {
    /// Checks whether the right of the holder of `token` may end, whatever was saved since.
    pub fn ends(self, token: FencingToken) -> bool {
        match self {
            Self::Never => false,
            Self::Of(named) | Self::OfAt(named, _) => named == token,
        }
    }

    /// Returns the checkpoint that must still be the latest of the run, if any.
    pub const fn latest(self) -> Option<CheckpointKey> {
        match self {
            Self::Never | Self::Of(_) => None,
            Self::OfAt(_, latest) => Some(latest),
        }
    }
}

/// The target of a deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Deletion {
    /// A run with all its checkpoints. Its holder's next save is refused.
    Run(RunId),
    /// One checkpoint.
    Checkpoint(CheckpointKey),
}

/// The mode of a deletion: for real, or only reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// It is done.
    Done,
    /// The deletion is only rehearsed; nothing is changed.
    Rehearsed,
}

/// A run as the store knows it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunInfo {
    /// The run.
    pub run: RunId,
    /// The holder that is writing it, if one is.
    pub holder: Option<Holding>,
}

/// The holder of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Holding {
    /// The name that it gave.
    pub by: String,
    /// Since when.
    pub since: Timestamp,
    /// The token that a take-over must name.
    pub token: FencingToken,
    /// The end of its lease; `None` if it holds the run without one.
    pub lease: Option<LeaseEnd>,
}

/// The end of a lease, by the store's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LeaseEnd {
    /// The time.
    pub at: Timestamp,
    /// True if that time has passed: anyone may claim the run.
    pub has_passed: bool,
}

impl Holding {
    /// Checks whether its lease has run out, so that anyone may claim the run.
    pub fn has_lapsed(&self) -> bool {
        self.lease.is_some_and(|lease| lease.has_passed)
    }

    /// Checks whether it still has the run, as far as this process, `asker`, knows: its lease has not run
    /// out, and its process is not known to have ended.
    pub fn is_live(&self, asker: &dyn Holder) -> bool {
        !self.has_lapsed() && !asker.is_gone(&self.by)
    }
}

/// The result of deleting or pruning.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Pruned {
    /// Checkpoints.
    pub checkpoints: BTreeSet<CheckpointKey>,
    /// Runs of which no checkpoint is left.
    pub runs: usize,
    /// Lines of logs that no checkpoint needs any more.
    pub lines: usize,
}

impl Pruned {
    /// Adds what went afterwards.
    pub fn take(&mut self, more: Self) {
        self.checkpoints.extend(more.checkpoints);
        self.runs += more.runs;
        self.lines += more.lines;
    }
}

/// The permission of a check to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mending {
    /// It only looks.
    LookOnly,
    /// It rebuilds indexes and the search; stored data is never touched.
    Indexes,
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct StoreHealth {
    /// Version of the store's schema.
    pub schema: u32,
    /// Checkpoints that were read back.
    pub checkpoints: usize,
    /// The size of the store in bytes.
    pub bytes: u64,
    /// The faults found, in words; empty in a sound store.
    pub faults: Vec<String>,
}

/// The error of a store or its driver.
pub type StoreCause = Box<dyn std::error::Error + Send + Sync>;

/// The reasons why a store did not do what it was asked. Earlier data is still there then.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// It has no such thing.
    #[error("{place} has no {what}")]
    NotFound {
        /// The store.
        place: String,
        /// The thing that was asked for.
        what: String,
    },
    /// Another process holds the run.
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
        /// Since when.
        since: Timestamp,
        /// The token that a take-over must name.
        token: FencingToken,
    },
    /// The lease of the claim has run out. No other process has claimed the run yet: a renewal makes it valid
    /// again.
    #[error("the lease of run `{run}` ran out at {at}: nothing is saved until it is renewed")]
    Lapsed {
        /// The run.
        run: RunId,
        /// The end of the lease, by the store's clock.
        at: Timestamp,
    },
    /// Another process has taken the run over; this claim is void.
    #[error("run `{run}` was taken over by {}: this process stops, and saves nothing more", holder_name(by))]
    Fenced {
        /// The run.
        run: RunId,
        /// The holder now, by the name that it gave.
        by: String,
    },
    /// The run has a later checkpoint than the one that was to be the latest.
    #[error("run `{run}` was saved again by its holder in the meantime: nothing was taken over; try again")]
    Moved {
        /// The run.
        run: RunId,
    },
    /// The conversation is not one that grew from its parent.
    #[error("the conversation did not grow from checkpoint {parent}: load that one and continue from there")]
    Diverged {
        /// The parent that was named.
        parent: CheckpointKey,
    },
    /// A newer forge wrote it.
    #[error(
        "{place} has schema {found}, but this Forge supports up to {known}: use the newer Forge that wrote it"
    )]
    NewerSchema {
        /// The store.
        place: String,
        /// Its schema's version.
        found: u32,
        /// The newest version known here.
        known: u32,
    },
    /// Something else is there.
    #[error("{place} is not a checkpoint store of Forge: name another place")]
    NotAStore {
        /// The place that was opened.
        place: String,
    },
    /// There is no room left.
    #[error("{place} is full: free space, or prune old checkpoints")]
    Full {
        /// The store.
        place: String,
        /// The driver's error.
        #[source]
        source: StoreCause,
    },
    /// It may only be read.
    #[error("{place} is read-only: open it for writing, or name another store")]
    ReadOnly {
        /// The store.
        place: String,
    },
    /// Another process has locked it for longer than the time limit.
    #[error("{place} is locked by another process: try again when it has finished")]
    Locked {
        /// The store.
        place: String,
    },
    /// The stored data is not what was written.
    #[error("{place} is damaged ({what}): restore a copy, use an earlier checkpoint, or name another store")]
    Corrupt {
        /// The store.
        place: String,
        /// The place, and how the damage was noticed.
        what: String,
    },
    /// It cannot be reached, or broke off.
    #[error("{place} cannot be reached ({source})")]
    Unavailable {
        /// The store.
        place: String,
        /// The driver's error.
        #[source]
        source: StoreCause,
    },
    /// The files that belong to a checkpoint are not kept, so that it was not saved.
    #[error(transparent)]
    Unkept(UnkeptFiles),
    /// Its file is no longer in its place, so that what is written into it is lost.
    #[error("{place} was removed or replaced while it was open")]
    Removed {
        /// The store.
        place: String,
    },
    /// It did not answer in time. Whether it did what it was asked is unknown; asking again is safe.
    #[error("{place} did not answer within {seconds} s")]
    TimedOut {
        /// The store.
        place: String,
        /// The time limit.
        seconds: u64,
    },
}

/// Returns the name of a holder without what tells it apart from all others, which is in brackets.
pub fn holder_name(holder: &str) -> &str {
    holder.split_once(" (").map_or(holder, |(name, _)| name)
}

/// A store for checkpoints of runs. A message is stored once, however many checkpoints and forks contain it.
///
/// Every method does all of its work or none of it; a future that is dropped has done one of the two, and a
/// save that is repeated, because its answer was lost, gives the checkpoint that is there.
///
/// The run waits for each future however long it takes, so a store limits the time itself and fails with
/// [`StoreError::TimedOut`]; it is then not asked again for half a minute. A panic unwinds through the run.
#[async_trait]
pub trait CheckpointStore: Send + Sync {
    /// Takes the right to write `run` for `holder`, a name by which people know the process; a run that is
    /// not there begins with it. With a `lease` the right ends unless it is renewed in time; without one it
    /// lasts until it is released or taken over. `now` is shown to people as the beginning.
    ///
    /// # Errors
    /// [`StoreError::Held`] if a holder that `takeover` does not name has the run and its lease, if it has
    /// one, has not run out, [`StoreError::Moved`] if the checkpoint that it names is not the latest; the
    /// holder then keeps its right.
    async fn claim(
        &self,
        run: &RunId,
        holder: &str,
        takeover: Takeover,
        lease: Option<Lease>,
        now: Timestamp,
    ) -> Result<Claim, StoreError>;

    /// Lets the claim last for the time of `lease` from now on. A lease that has run out can be renewed as
    /// long as no other process has claimed the run: none can have written it since.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the run was taken over, [`StoreError::NotFound`] if it was deleted.
    async fn renew(&self, claim: &Claim, lease: Lease) -> Result<(), StoreError>;

    /// Gives the right back, so that the next one need not take over. A claim that is worth nothing is given
    /// back silently.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    async fn release(&self, claim: &Claim) -> Result<(), StoreError>;

    /// Checks that the claim still gives the right to write. Cheap: a run asks before each call to a model or
    /// a tool.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the run was taken over, [`StoreError::Lapsed`] if the lease has run out,
    /// [`StoreError::NotFound`] if the run was deleted.
    async fn confirm(&self, claim: &Claim) -> Result<(), StoreError>;

    /// Keeps a state. Takes time in proportion to what the log gained since the parent.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the run was taken over, [`StoreError::Lapsed`] if the lease has run out,
    /// [`StoreError::NotFound`] if the run or the parent was deleted, [`StoreError::Diverged`] if the
    /// conversation did not grow from the parent.
    async fn save(&self, claim: &Claim, checkpoint: &NewCheckpoint) -> Result<CheckpointInfo, StoreError>;

    /// Reads a checkpoint, and proves the coverage of its conversation.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and [`StoreError::Corrupt`] if it is not what was written.
    async fn load(&self, key: CheckpointKey) -> Result<Checkpoint, StoreError>;

    /// Reads the outline of a checkpoint, without its conversation where the store can: the time does not
    /// grow with the conversation.
    ///
    /// # Errors
    /// [`StoreError::NotFound`], and [`StoreError::Corrupt`] if it is not what was written.
    async fn outline(&self, key: CheckpointKey) -> Result<CheckpointOutline, StoreError> {
        Ok(CheckpointOutline::of(self.load(key).await?.snapshot))
    }

    /// Lists the checkpoints that `filter` admits, the newest first by the order of their saving.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    async fn list(&self, filter: &CheckpointFilter) -> Result<Vec<CheckpointInfo>, StoreError>;

    /// Keeps that something is about to happen, after everything that was kept before. A run that begins with
    /// a checkpoint of another one has that one's actions up to then.
    ///
    /// # Errors
    /// [`StoreError::Fenced`] if the run was taken over, [`StoreError::Lapsed`] if the lease has run out,
    /// [`StoreError::NotFound`] if the run was deleted.
    async fn begin_action(&self, claim: &Claim, action: &NewAction) -> Result<ActionKey, StoreError>;

    /// Keeps how it ended, in place of an earlier end. If the run is gone, nothing is kept.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    async fn end_action(&self, key: ActionKey, end: &ActionEnd) -> Result<(), StoreError>;

    /// Lists the actions of `run` in the order of their beginnings.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is not such a run, [`StoreError::Corrupt`] if one is not what was
    /// written.
    async fn actions(&self, run: &RunId) -> Result<Vec<Action>, StoreError>;

    /// Lists the runs by their names, including those of which nothing was saved yet.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    async fn runs(&self) -> Result<Vec<RunInfo>, StoreError>;

    /// Takes away what is named, and what only that needed. What a fork needs stays.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if it is not there.
    async fn delete(&self, what: &Deletion, sweep: Sweep) -> Result<Pruned, StoreError>;

    /// Deletes what `retention` allows to delete at the time `now`. What a fork or a run's holder needs
    /// stays.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    async fn prune(&self, retention: &Retention, now: Timestamp, sweep: Sweep) -> Result<Pruned, StoreError>;

    /// Finds the messages of `run` that contain every word of `query`, the newest first: for each agent,
    /// those in the log of its latest checkpoint.
    ///
    /// # Errors
    /// [`StoreError::NotFound`] if there is not such a run.
    async fn search(&self, run: &RunId, query: &SearchQuery) -> Result<Vec<Found>, StoreError>;

    /// Reads everything back and reports faults.
    ///
    /// # Errors
    /// [`StoreError`] if not even that is possible.
    async fn check(&self, mending: Mending) -> Result<StoreHealth, StoreError>;
}
