//! The port that keeps a session somewhere while it goes on.

use async_trait::async_trait;

use crate::{AgentId, Conversation};

/// Why a session could not be kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot write the session to {place}")]
pub struct SinkError {
    /// Where it should have gone.
    pub place: String,
    /// What went wrong there.
    #[source]
    pub source: std::io::Error,
}

/// Keeps the conversation as it stands, whole or not at all.
#[async_trait]
pub trait SessionSink: Send + Sync {
    /// Replaces what was kept of `agent`'s work before by `conversation`.
    ///
    /// # Errors
    /// [`SinkError`] where it could not be written; what was kept before is then still there.
    async fn save(&self, agent: &AgentId, conversation: &Conversation) -> Result<(), SinkError>;
}
