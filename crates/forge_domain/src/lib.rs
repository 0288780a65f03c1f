//! The types of agents, conversations and compactions, and the rules they obey.
//!
//! Everything here is plain data, pure functions and the ports (traits) that the rest of the workspace
//! implements. There is no I/O, no runtime, no clock and no environment in this crate.
//!
//! Data flow, each arrow a move by value:
//! [`Conversation`] → [`Context`] → [`compaction::ContextCompactor::fit`] → [`Prompt`] → [`Provider::chat`] →
//! [`Reply`] → [`Conversation::append`].

mod units;
mod plural;
mod ids;
mod file_change;
mod question;
mod found_secret;
mod hidden_characters;
mod star_match;
mod tool_twin;
mod request_options;
mod conversation;
mod provider;
pub mod compaction;
mod settings;
mod run;

pub use compaction::{Compact, SummaryInput, SummaryTemplate};
pub use conversation::*;
pub use file_change::*;
pub use found_secret::*;
pub use hidden_characters::*;
pub use ids::*;
pub use plural::*;
pub use provider::*;
pub use question::Question;
pub use request_options::*;
pub use run::*;
pub use settings::*;
pub use star_match::*;
pub use tool_twin::*;
pub use units::*;
