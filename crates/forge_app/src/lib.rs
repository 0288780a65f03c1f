//! The use cases: running agents, living a recorded session through again, compacting it, and looking at what fills it.
//!
//! Everything here works on domain values and is handed the world as ports. To embed it, start at
//! [`Orchestrator::builder`].

mod services;

mod run_event;

mod run_report;

mod hooks;

mod conversations;

mod engine;

mod orchestrator;

mod builder;

mod check;

mod diagnosis;

mod replay;

mod compact_session;

mod inspect;

pub use builder::{BuildError, OrchestratorBuilder};
pub use check::check_workflow;
pub use compact_session::{
    CompactSession, CompactSessionError, CompactedSession, Fate, MessageReport, SessionReport, SessionRoom,
    compact_session,
};
pub use diagnosis::{Check, Credentials, Health, diagnose};
pub use engine::Engine;
pub use hooks::Hooks;
pub use inspect::{
    Duplicate, DuplicateKind, GroupCounts, InspectReport, LargeItem, RoleShare, ToolShare, inspect,
};
pub use orchestrator::Orchestrator;
pub use replay::{Refusal, ReplayReport, ReplayedCompaction, replay};
pub use run_event::{RunEvent, Watcher};
pub use run_report::{RunError, RunReport, StopReason};
pub use services::Services;
