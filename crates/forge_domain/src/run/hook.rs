//! The port of hooks, which are asked or told at named points of a run.
//!
//! One enum of events and one of answers, for every point. A point decides what an answer may do
//! ([`HookPoint::denial`], [`HookPoint::change`]); one that does not fit its point is not an answer
//! ([`HookAnswer::fitting`]), and its hook counts as broken. Answers are values: a hook changes nothing
//! itself.

mod answer;
mod event;

pub use answer::*;
pub use event::*;

use async_trait::async_trait;

use crate::{HookPoint, WhereBroken};

/// A hook, which is asked or told at named points of a run.
#[async_trait]
pub trait Hook: Send + Sync {
    /// Returns its name for people.
    fn name(&self) -> &str;

    /// Checks whether it wants events at `point`.
    fn listens_at(&self, point: HookPoint) -> bool;

    /// Checks whether it wants this event, which happens at a point that it listens at.
    fn wants(&self, _event: &HookEvent<'_>) -> bool {
        true
    }

    /// Hears of `event` and answers. Dropping the future cancels it.
    ///
    /// The run waits for the future however long it takes, so a hook limits its time itself. A panic unwinds
    /// through the run.
    ///
    /// # Errors
    /// [`HookError`] if it is broken; this is reported, counts as [`Self::where_broken`] decides, and ends
    /// nothing.
    async fn call(&self, event: &HookEvent<'_>) -> Result<HookAnswer, HookError>;

    /// Returns the meaning of a missing answer at a point that can be denied.
    fn where_broken(&self) -> WhereBroken {
        WhereBroken::Proceed
    }
}

/// The reason why a hook gave no answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct HookError(#[source] pub Box<dyn std::error::Error + Send + Sync>);
