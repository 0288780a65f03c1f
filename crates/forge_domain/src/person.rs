//! The port through which the person is asked that a run works for.

use async_trait::async_trait;

use crate::{AgentId, Subject, ToolCall};

/// Whoever a run works for, where they can be asked.
///
/// Calls that run at once may ask at once: who implements it puts one question after the other. Dropping a future takes the
/// question back.
#[async_trait]
pub trait Person: Send + Sync {
    /// Their answer to a question of the model's.
    ///
    /// # Errors
    /// [`NobodyThere`] where nobody can answer, or nobody will any more.
    async fn answer(&self, question: &Question) -> Result<String, NobodyThere>;

    /// Whether a call may be made that needs their consent.
    ///
    /// # Errors
    /// [`NobodyThere`], which counts as a refusal.
    async fn consent(&self, request: &ConsentRequest<'_>) -> Result<Consent, NobodyThere>;
}

/// A question of the model's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Question {
    /// What it asks.
    pub text: String,
    /// Answers that it proposes; others may be given.
    pub options: Vec<String>,
}

/// A call that needs consent.
#[derive(Clone, Copy, Debug)]
pub struct ConsentRequest<'a> {
    /// Who wants to make it.
    pub agent: &'a AgentId,
    /// The call as it would be made.
    pub call: &'a ToolCall,
    /// What of it the rules ask about; empty where they ask about the tool as such.
    pub about: &'a [Subject],
}

/// What the person says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Consent {
    /// This one may be made.
    Once,
    /// It may, and so may all of the same agent's that are about the same, as long as this process runs.
    ForRun,
    /// It may not.
    Refused {
        /// Why, where they say so; the model reads it.
        why: Option<String>,
    },
}

/// Nobody can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("nobody can answer")]
pub struct NobodyThere;

/// Stands in where a run works for nobody who could be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

#[async_trait]
impl Person for Nobody {
    async fn answer(&self, _: &Question) -> Result<String, NobodyThere> {
        Err(NobodyThere)
    }

    async fn consent(&self, _: &ConsentRequest<'_>) -> Result<Consent, NobodyThere> {
        Err(NobodyThere)
    }
}
