//! The scheduler of fleets on Temporal: many runs on many machines, behind the feature `temporal`.
//!
//! A run is one Temporal workflow, which asks for one slice of work after another. A slice is an activity:
//! any worker takes it, works from the checkpoint in the store, and reports how it ended. The workflow keeps
//! only the names of the state (a checkpoint and a fencing token) and what people have said meanwhile. The
//! conversation stays in Forge's store, so that a turn costs the same history at any size of the context.
#![cfg(feature = "temporal")]

mod error;
mod flow;
mod history;
mod past;
mod pulse;
mod scheduler;
mod state;
mod tls;
mod worker;

pub use self::history::{HistoryError, replay_history};
pub use self::scheduler::{TemporalOptions, TemporalScheduler};
pub use self::tls::{TemporalTls, TemporalTlsError};

/// The task queue that workers poll and to which runs are submitted.
const TASK_QUEUE: &str = "forge";

/// The name of the workflow type. Open runs are found by it: it never changes.
const WORKFLOW_TYPE: &str = "forge_run";

/// The beginning of the ids of workflows.
const ID_PREFIX: &str = "forge-";
