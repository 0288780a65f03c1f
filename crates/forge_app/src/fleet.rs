//! Fleets: runs that outlive the process that works on them. A [`Scheduler`] decides who works on which run,
//! and when; a [`SliceRunner`] does the work. The run itself is in the store: the two exchange names alone.

mod local;

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use forge_domain::{CheckpointKey, Dollars, FencingToken, RunId};
use futures::future::BoxFuture;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

pub use self::local::{LocalScheduler, Moment};
use crate::slice::Answer;

/// Something that a person says to a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Advice for the agent at work, heard before its next call to the model.
    Steer {
        /// Its number among the words of the run, by which it is heard once, see [`crate::SlicedRun::say`].
        number: u64,
        /// The text.
        text: String,
    },
    /// An answer to something that the run waits for.
    Answer(Answer),
}

/// A slice that is to be run. It may be given out more than once, because a worker was lost: what an earlier
/// try has saved is in the store, and is newer than what stands here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceOrder {
    /// The run.
    pub run: RunId,
    /// The checkpoint at which its last slice ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointKey>,
    /// The fencing token under which that one was saved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// The words of people since then, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub words: Vec<Word>,
}

/// The outcome of a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SliceOutcome {
    /// The state of the run after it.
    pub end: OutcomeEnd,
    /// The checkpoint at which it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checkpoint: Option<CheckpointKey>,
    /// The fencing token of that checkpoint.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token: Option<FencingToken>,
    /// Calls to models of the whole run until now.
    #[serde(default)]
    pub calls: usize,
    /// The cost of the whole run until now.
    #[serde(default)]
    pub cost: Dollars,
}

/// The state of a run after a slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OutcomeEnd {
    /// There is more to do, and nothing to wait for.
    Paused,
    /// It waits for the answers of these names.
    Waiting(Vec<String>),
    /// It is over, for this reason.
    Done(String),
}

/// The reason why a slice has no outcome.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SliceFailure {
    /// It can be tried again after a moment, here or elsewhere: the run is held by a worker that was lost, or
    /// the store cannot be reached.
    #[error("{0}")]
    Again(String),
    /// To try again would not help: the run has failed.
    #[error("{0}")]
    Final(String),
}

/// The line between a slice at work and its scheduler.
#[async_trait]
pub trait Pulse: Send + Sync {
    /// Tells that the slice is alive. Cheap; if it is not told for longer than the scheduler waits, the slice
    /// is given to another worker.
    fn beat(&self);

    /// Returns the time without a beat after which the slice is given away; `None` if it never is.
    fn patience(&self) -> Option<Duration>;

    /// Waits until the slice is asked to pause at its next safe point, because the run is to stop, the worker
    /// drains, or another worker has the slice.
    async fn pause_asked(&self);
}

/// The worker's side: runs slices.
#[async_trait]
pub trait SliceRunner: Send + Sync {
    /// Runs one slice.
    ///
    /// # Errors
    /// [`SliceFailure`].
    async fn run_slice(&self, order: SliceOrder, pulse: Arc<dyn Pulse>)
    -> Result<SliceOutcome, SliceFailure>;
}

/// The state of a run, as its scheduler knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// A slice is at work, or waits for a worker.
    Running,
    /// It waits for a person.
    Waiting,
    /// It is over.
    Done,
    /// It has failed; it can be tried again.
    Failed,
    /// It was stopped from outside; it can be tried again.
    Stopped,
}

impl RunState {
    /// Returns its word.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Stopped => "stopped",
        }
    }

    /// Checks that `run`, which is in this state, can be tried again.
    ///
    /// # Errors
    /// [`SchedulerError::StillOpen`], and [`SchedulerError::Over`] if it ended well.
    pub fn check_retry(self, run: &RunId) -> Result<(), SchedulerError> {
        match self {
            Self::Running | Self::Waiting => Err(SchedulerError::StillOpen { run: run.clone() }),
            Self::Done => Err(SchedulerError::Over { run: run.clone() }),
            Self::Failed | Self::Stopped => Ok(()),
        }
    }

    /// Checks whether the run is not over.
    pub const fn is_open(self) -> bool {
        matches!(self, Self::Running | Self::Waiting)
    }
}

/// A run, as its scheduler knows it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ScheduledRun {
    /// The run.
    pub run: RunId,
    /// Its state.
    pub state: RunState,
    /// More about it; `None` in lists, and if no worker answers.
    pub details: Option<RunDetails>,
    /// The time at which it was submitted, if it is known.
    pub begun: Option<Timestamp>,
    /// The time at which it was over.
    pub ended: Option<Timestamp>,
}

/// The details of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunDetails {
    /// The checkpoint at which its last slice ended.
    pub checkpoint: Option<CheckpointKey>,
    /// The names of what it waits for.
    pub waiting: Vec<String>,
    /// Calls to models until now.
    pub calls: usize,
    /// The cost until now.
    pub cost: Dollars,
    /// The reason why it is over.
    pub why: Option<String>,
    /// The reason why its slice is tried again, and how often it was.
    pub trouble: Option<(u32, String)>,
    /// The size of the scheduler's own record of it in bytes; 0 if it keeps none.
    pub history_bytes: u64,
}

/// The reason why a scheduler did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// It has no such run.
    #[error("no run `{run}` was submitted to {place}")]
    NoSuchRun {
        /// The run.
        run: RunId,
        /// The scheduler.
        place: String,
    },
    /// The run is there already.
    #[error("run `{run}` was submitted before: look at it with forge fleet show {run}")]
    AlreadySubmitted {
        /// The run.
        run: RunId,
    },
    /// The run is not over, so that it cannot be tried again.
    #[error("run `{run}` is not over: there is nothing to try again")]
    StillOpen {
        /// The run.
        run: RunId,
    },
    /// The run is over, so that it hears nothing more, or it ended well.
    #[error("run `{run}` is over")]
    Over {
        /// The run.
        run: RunId,
    },
    /// The address is not one of a scheduler.
    #[error("{address} is not the address of a fleet ({why}): write temporal://HOST:PORT/NAMESPACE")]
    Address {
        /// The address.
        address: String,
        /// The fault.
        why: String,
    },
    /// It cannot be reached, or failed.
    #[error("{place}: {why}")]
    Unavailable {
        /// The scheduler.
        place: String,
        /// The fault.
        why: String,
    },
}

/// The port that decides who works on which run, and when. It holds what people say until a slice takes it,
/// and gives a slice to another worker if one is lost. At most one slice of a run is at work, as far as it
/// can know: that a lost worker writes nothing more is the store's to see to.
#[async_trait]
pub trait Scheduler: Send + Sync {
    /// Takes a run whose task is in the store.
    ///
    /// # Errors
    /// [`SchedulerError::AlreadySubmitted`].
    async fn submit(&self, run: &RunId) -> Result<(), SchedulerError>;

    /// Gives advice to a run. A slice at work is asked to pause, so that the next one hears it.
    ///
    /// # Errors
    /// [`SchedulerError::NoSuchRun`] and [`SchedulerError::Over`].
    async fn steer(&self, run: &RunId, text: String) -> Result<(), SchedulerError>;

    /// Answers something that a run waits for. An answer to what it does not wait for is ignored.
    ///
    /// # Errors
    /// [`SchedulerError::NoSuchRun`] and [`SchedulerError::Over`].
    async fn answer(&self, run: &RunId, answer: Answer) -> Result<(), SchedulerError>;

    /// Ends a run at its next safe point.
    ///
    /// # Errors
    /// [`SchedulerError::NoSuchRun`] and [`SchedulerError::Over`].
    async fn stop(&self, run: &RunId) -> Result<(), SchedulerError>;

    /// Continues a run that failed or was stopped, from its last checkpoint, with the words that it has not
    /// heard.
    ///
    /// # Errors
    /// [`SchedulerError::NoSuchRun`], [`SchedulerError::StillOpen`], and [`SchedulerError::Over`] if it ended
    /// well.
    async fn retry(&self, run: &RunId) -> Result<(), SchedulerError>;

    /// Shows a run.
    ///
    /// # Errors
    /// [`SchedulerError::NoSuchRun`].
    async fn show(&self, run: &RunId) -> Result<ScheduledRun, SchedulerError>;

    /// Lists the runs, the newest first.
    ///
    /// # Errors
    /// [`SchedulerError::Unavailable`].
    async fn list(&self) -> Result<Vec<ScheduledRun>, SchedulerError>;

    /// Runs slices by `runner`, at most `slots` at once, until `drain` is ready. Then it takes no more, asks
    /// those at work to pause, and returns when they have.
    ///
    /// # Errors
    /// [`SchedulerError::Unavailable`].
    async fn work(
        &self,
        runner: Arc<dyn SliceRunner>,
        slots: NonZeroUsize,
        drain: BoxFuture<'static, ()>,
    ) -> Result<(), SchedulerError>;
}
