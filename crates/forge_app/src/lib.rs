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
//! ```
//! use forge_domain::{ContextMessage, Conversation, Message, TokenCounter, ToolCall, ToolName, ToolResult};
//! use forge_services::O200kCounter;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let counter = O200kCounter;
//! let mut conversation = Conversation::new();
//! let mut add = |message: Message| conversation.append(ContextMessage::count(message, &counter));
//! // Messages: a timestamp and facts of one's own may go with them.
//! add(Message::system("Be brief."));
//! let mut task = Message::user("What is in notes.txt?").at("2026-01-01T12:00:00Z".parse()?);
//! task.metadata.insert("source".into(), "chat".into());
//! add(task);
//! // A tool call, and what the tool answered.
//! let call = ToolCall { id: "call_1".into(), name: ToolName::new("read")?, arguments: r#"{"path":"notes.txt"}"#.into() };
//! add(Message::calling(vec![call.clone()]));
//! add(Message::tool(ToolResult::answer(&call, "Buy milk.")));
//!
//! // The messages that the model would see, and their tokens, which are known without counting again.
//! let before = conversation.view().size();
//! assert_eq!(before.messages, 4);
//! assert_eq!(before.tokens, forge_domain::REQUEST_TOKENS + conversation.messages().map(ContextMessage::tokens).sum());
//!
//! // Kept and read back: the same down to the id of the next message.
//! let kept = serde_json::to_string(&conversation)?;
//! let mut restored: Conversation = serde_json::from_str(&kept)?;
//! assert_eq!(restored, conversation);
//!
//! // Cleared down to the system messages; that is a compaction like any other.
//! let entry = restored.clear()?.expect("there was something to clear").clone();
//! let after = restored.view().size();
//! assert_eq!((before.messages, after.messages), (4, 1));
//! assert!(after.tokens < before.tokens && entry.summary().is_empty());
//! assert_eq!(restored.messages().count(), 4, "the log keeps everything");
//!
//! // And taken back.
//! restored.undo();
//! assert_eq!(restored.view().messages(), conversation.view().messages());
//! # Ok(())
//! # }
//! ```
//!
//! What makes a context fit is [`ContextCompactor::fit`](forge_domain::compaction::ContextCompactor::fit): its
//! [`CompactionReport`](forge_domain::compaction::CompactionReport) has messages and tokens before and after, and
//! [`Conversation::record`](forge_domain::Conversation::record) makes it an entry of the log, whose
//! [`summary`](forge_domain::CompactionEntry::summary) is what stands in the place of what left; the messages it made have
//! `is_compacted`. A saved state is a [`ContextSnapshot`](forge_domain::ContextSnapshot).

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
    Duplicate, DuplicateKind, GroupCounts, InspectReport, LargeItem, RoleShare, ToolShare, inspect,
    inspect_view,
};
pub use orchestrator::{ModelSwitch, Orchestrator, RunStatistics, TakenBack};
pub use recall::{RECALL, recall, recall_definition};
pub use replay::{Refusal, ReplayPlan, ReplayReport, ReplayedCheckpoints, ReplayedCompaction, replay};
pub use resume::{Restored, Resume, ResumeError};
pub use run_event::{RunEvent, Watcher};
pub use run_report::{RunError, RunReport, StopReason};
pub use services::Services;
