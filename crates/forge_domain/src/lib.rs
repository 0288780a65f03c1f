//! The types of agents, conversations and compactions, and the rules they obey.
//!
//! Everything here is plain data, pure functions and the ports (traits) that the rest of the workspace
//! implements. There is no I/O, no runtime, no clock and no environment in this crate.
//!
//! The way of the data, each arrow a move by value:
//! [`Conversation`] → [`Context`] → [`compaction::ContextCompactor::fit`] → [`Prompt`] → [`Provider::chat`] →
//! [`Reply`] → [`Conversation::append`].

mod units;
mod plural;
mod ids;
mod message;
mod media_tokens;
mod token_counter;
mod features;
mod findings;
mod context_message;
mod context;
mod floor;
mod group;
mod legality;
mod conversation;
mod tool;
mod usage;
mod price;
mod sandbox;
mod scale;
mod measure;
mod budget;
mod provider_error;
mod chat;
mod provider;
mod event;
pub mod compaction;
mod tool_pattern;
mod hook_point;
mod hook_command;
mod transform;
mod checkpoint_policy;
mod permission;
mod found_secret;
mod action;
mod agent;
mod template_service;
mod tool_service;
mod person;
mod web_settings;
mod tool_settings;
mod mcp_server;
mod workflow;
mod clock;
mod holder;
mod session_sink;
mod context_snapshot;
mod hook;
mod recall;
mod repetition;
mod checkpoint;
mod retention;
mod checkpoint_store;

pub use action::*;
pub use agent::*;
pub use budget::*;
pub use chat::*;
pub use checkpoint::*;
pub use checkpoint_policy::*;
pub use checkpoint_store::*;
pub use clock::*;
pub use compaction::Compact;
pub use context::*;
pub use context_message::*;
pub use context_snapshot::*;
pub use conversation::*;
pub use event::*;
pub use floor::*;
pub use found_secret::*;
pub use group::*;
pub use holder::*;
pub use hook::*;
pub use hook_command::*;
pub use hook_point::*;
pub use ids::*;
pub use legality::*;
pub use mcp_server::*;
pub use measure::*;
pub use message::*;
pub use permission::*;
pub use person::*;
pub use plural::*;
pub use price::*;
pub use provider::*;
pub use provider_error::*;
pub use recall::*;
pub use repetition::*;
pub use retention::*;
pub use sandbox::{
    Denial, MemorySize, Sandbox, SandboxAccess, SandboxHost, SandboxMissing, SandboxMode, SandboxNetwork,
    SandboxPath, SandboxPlaces, SandboxPolicy, SandboxValueError,
};
pub use scale::*;
pub use session_sink::*;
pub use template_service::*;
pub use token_counter::*;
pub use tool::*;
pub use tool_pattern::*;
pub use tool_service::*;
pub use tool_settings::*;
pub use transform::*;
pub use units::*;
pub use usage::*;
pub use web_settings::*;
pub use workflow::*;
