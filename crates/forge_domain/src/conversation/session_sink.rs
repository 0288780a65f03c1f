//! The port that saves a session while it continues.

use async_trait::async_trait;

use crate::{AgentId, Conversation};

/// The reason why a session could not be saved.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the session to {place}")]
pub struct SinkError {
    /// The place where it should have been saved.
    pub place: String,
    /// The error there.
    #[source]
    pub source: std::io::Error,
}

/// A sink that saves the current conversation, completely or not at all.
#[async_trait]
pub trait SessionSink: Send + Sync {
    /// Replaces what was kept of `agent`'s work before by `conversation`.
    ///
    /// # Errors
    /// [`SinkError`] if it could not be written; what was kept before is then still there.
    async fn save(&self, agent: &AgentId, conversation: &Conversation) -> Result<(), SinkError>;
}
