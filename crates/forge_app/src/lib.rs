//! The use cases: running agents, replaying a recorded session, compacting it, and inspecting it.
//!
//! Everything here works on domain values and gets the world as ports. To embed it, start at
//! [`Orchestrator::builder`].
//!
//! # A conversation by hand
//!
//! A [`Conversation`](forge_domain::Conversation) does the work of a context manager: it stores messages and
//! tool calls, counts their tokens, returns the messages that a model would see, and is compacted, cleared,
//! saved and restored without losing a message.
//!
#![doc = concat!("```rust,ignore\n", include_str!("../tests/conversation_by_hand.rs"), "```")]
//!
//! [`ContextCompactor::fit`](forge_domain::compaction::ContextCompactor::fit) makes a context fit. Its
//! [`CompactionReport`](forge_domain::compaction::CompactionReport) has messages and tokens before and after.
//! [`Conversation::record`](forge_domain::Conversation::record) appends it to the log as an entry, whose
//! [`summary`](forge_domain::CompactionEntry::summary) replaces the messages that left; its own messages have
//! `is_compacted`. A saved state is a [`ContextSnapshot`](forge_domain::ContextSnapshot).

mod actions;
mod builder;
mod callable;
mod caught_panic;
mod check;
mod checkpointing;
mod checkpoints;
mod compact_session;
mod conversations;
mod course;
mod deprecation;
mod diagnosis;
mod effective;
mod emission;
mod engine;
mod fleet;
mod guarded_strategy;
mod hooks;
mod idle_settings;
mod inspect;
mod learned_limit;
mod message_sizes;
mod orchestrator;
mod probe;
mod recall;
mod references;
mod replay;
mod resume;
mod run_event;
mod run_report;
mod services;
mod session_name;
mod slice;
mod spans;
mod turn;
mod window_setting;

pub use actions::ActionLog;
pub use builder::{BuildError, OrchestratorBuilder};
pub use check::{check_workflow, unknown_permissions};
pub use checkpointing::{CheckpointTally, Checkpointing, TakeFrom};
pub use checkpoints::{
    ArchiveError, CheckpointDifference, CheckpointReport, CheckpointsError, CompactRun, CompactRunError,
    CompactedRun, CompactionLayer, Discarded, Fork, Imported, LayerState, LogTail, RunCard, RunSummary,
    Scope, Selected, Undone, ViewedMessage, Writer, awaited, compact_run, difference, discard, export_run,
    fork, free_name, import_run, last_words, latest_of_agents, latest_of_run, prune, report, run_cards, runs,
    save_compaction, saved_workspace, seal_run, select, select_in, title, tools_tokens_of, undo,
};
pub use compact_session::{
    CompactSession, CompactSessionError, CompactedSession, Fate, MessageReport, SessionReport, SessionRoom,
    compact_session,
};
pub use deprecation::deprecations;
pub use diagnosis::{Check, Credentials, Health, diagnose};
pub use effective::{Effective, effective};
pub use emission::{EMIT, silent_subscriptions};
pub use engine::{Conduct, Consents, Engine, LiveContext, ModeRefused, NextCall, SandboxCheck, known_model};
pub use fleet::{
    LocalScheduler, Moment, OutcomeEnd, Pulse, RunDetails, RunState, ScheduledRun, Scheduler, SchedulerError,
    SliceFailure, SliceOrder, SliceOutcome, SliceRunner, Word,
};
pub use hooks::Hooks;
pub use idle_settings::idle_settings;
pub use inspect::{
    Duplicate, DuplicateKind, GroupCounts, InspectReport, Inspector, LargeItem, RoleShare, ToolShare,
    inspect, inspect_sizes, inspect_view, prompts,
};
pub use message_sizes::{MessageSize, MessageSizes};
pub use orchestrator::{
    Adopted, History, HistoryNote, ModelSwitch, Orchestrator, RunStatistics, Slice, SliceEnd, SlicedRun,
    TakenBack,
};
pub use probe::probe_models;
pub use recall::{RECALL, recall, recall_definition};
pub use references::ReferenceError;
pub use replay::{
    PromptTotals, RefusedCall, ReplayPlan, ReplayReport, ReplayedCheckpoints, ReplayedCompaction, replay,
};
pub use resume::{Restored, Resume, ResumeError, elsewhere, files_elsewhere};
pub use run_event::{RunEvent, Watcher};
pub use run_report::{
    AgentResponse, DeniedBy, DeniedCall, Remedy, RunError, RunReport, RunTotals, StopReason,
};
pub use services::Services;
pub use session_name::{SessionName, SessionNameError, Which, short_names};
pub use slice::{Answer, AnswerWhat, Correspondence, Pacing, PauseHandle, SliceLimits};
