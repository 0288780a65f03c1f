//! The use cases: running agents, living a recorded session through again, compacting it, and looking at what fills it.
//!
//! Everything here works on domain values and is handed the world as ports. To embed it, start at
//! [`Orchestrator::builder`].
//!
//! # A conversation by hand
//!
//! What a context manager does is done by a [`Conversation`](forge_domain::Conversation): it takes messages and tool calls in,
//! knows its tokens, gives the messages that a model would see, is compacted, cleared, kept and read back, and never loses
//! what was said.
//!
#![doc = concat!("```rust,ignore\n", include_str!("../tests/conversation_by_hand.rs"), "```")]
//!
//! What makes a context fit is [`ContextCompactor::fit`](forge_domain::compaction::ContextCompactor::fit): its
//! [`CompactionReport`](forge_domain::compaction::CompactionReport) has messages and tokens before and after, and
//! [`Conversation::record`](forge_domain::Conversation::record) makes it an entry of the log, whose
//! [`summary`](forge_domain::CompactionEntry::summary) is what stands in the place of what left; the messages it made have
//! `is_compacted`. A saved state is a [`ContextSnapshot`](forge_domain::ContextSnapshot).

mod actions;

mod services;

mod run_event;

mod run_report;

mod hooks;

mod course;

mod learned_limit;

mod conversations;

mod checkpointing;

mod resume;

mod engine;

mod spans;

mod orchestrator;

mod callable;

mod builder;

mod check;

mod deprecation;

mod diagnosis;

mod effective;

mod replay;

mod compact_session;

mod inspect;

mod checkpoints;

mod recall;

pub use actions::ActionLog;
pub use builder::{BuildError, OrchestratorBuilder};
pub use check::check_workflow;
pub use checkpointing::{CheckpointTally, Checkpointing, TakeFrom};
pub use checkpoints::{
    ArchiveError, CheckpointDifference, CheckpointReport, CheckpointsError, CompactRun, CompactRunError,
    CompactedRun, CompactionLayer, Discarded, Fork, Imported, LayerState, LogTail, RunSummary, Scope,
    Selected, Undone, ViewedMessage, Writer, compact_run, difference, discard, export_run, fork, free_name,
    import_run, latest_of_run, prune, report, runs, save_compaction, select, tools_tokens_of, undo,
};
pub use compact_session::{
    CompactSession, CompactSessionError, CompactedSession, Fate, MessageReport, SessionReport, SessionRoom,
    compact_session,
};
pub use deprecation::deprecations;
pub use diagnosis::{Check, Credentials, Health, diagnose};
pub use effective::{Effective, effective};
pub use engine::{Engine, LiveContext, NextCall};
pub use hooks::Hooks;
pub use inspect::{
    Duplicate, DuplicateKind, GroupCounts, InspectReport, Inspector, LargeItem, RoleShare, ToolShare,
    inspect, inspect_view,
};
pub use orchestrator::{ModelSwitch, Orchestrator, RunStatistics, TakenBack};
pub use recall::{RECALL, recall, recall_definition};
pub use replay::{Refusal, ReplayPlan, ReplayReport, ReplayedCheckpoints, ReplayedCompaction, replay};
pub use resume::{Restored, Resume, ResumeError};
pub use run_event::{RunEvent, Watcher};
pub use run_report::{RunError, RunReport, StopReason};
pub use services::Services;
