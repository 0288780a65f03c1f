//! The use cases: running agents, and living a recorded session through again.
//!
//! Everything here works on domain values and is handed the world as ports. To embed it, start at
//! [`Orchestrator::builder`].

mod services;

mod run_event;

mod run_report;

mod engine;

mod orchestrator;

mod builder;

mod check;

mod replay;

pub use builder::{BuildError, OrchestratorBuilder};
pub use check::check_workflow;
pub use engine::Engine;
pub use orchestrator::Orchestrator;
pub use replay::{Refusal, ReplayReport, ReplayedCompaction, replay};
pub use run_event::{RunEvent, Watcher};
pub use run_report::{RunError, RunReport, StopReason};
pub use services::Services;
