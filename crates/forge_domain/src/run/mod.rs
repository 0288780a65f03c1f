//! A run: what starts it, what it asks of the world and of people, and what is stored of it.

mod agent_session;
mod editor_terminal;
mod event;
mod task_step;
mod template_service;
mod tool_service;
mod person;
mod hook;
mod awaited;
mod action;
mod context_snapshot;
mod workspace;
mod checkpoint;
mod checkpoint_store;
mod retention;
mod holder;
mod clock;

pub use action::*;
pub use agent_session::*;
pub use awaited::*;
pub use checkpoint::*;
pub use checkpoint_store::*;
pub use clock::*;
pub use context_snapshot::*;
pub use editor_terminal::*;
pub use event::*;
pub use holder::*;
pub use hook::*;
pub use person::*;
pub use retention::*;
pub use task_step::*;
pub use template_service::*;
pub use tool_service::*;
pub use workspace::*;
