//! A run: what starts it, what it asks of the world and of people, and what is stored of it.

mod event;
mod template_service;
mod tool_service;
mod person;
mod hook;
mod action;
mod context_snapshot;
mod checkpoint;
mod checkpoint_store;
mod retention;
mod holder;
mod clock;

pub use action::*;
pub use checkpoint::*;
pub use checkpoint_store::*;
pub use clock::*;
pub use context_snapshot::*;
pub use event::*;
pub use holder::*;
pub use hook::*;
pub use person::*;
pub use retention::*;
pub use template_service::*;
pub use tool_service::*;
