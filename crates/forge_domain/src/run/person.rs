//! The port through which the user of a run is asked.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::{AgentId, EditorTerminal, FileChange, Question, Subject, ToolCall};

/// The user that a run works for, if they can be asked.
///
/// Calls that run in parallel may ask at the same time: an implementation asks one question after the other.
/// Dropping a future withdraws the question.
#[async_trait]
pub trait Person: Send + Sync {
    /// Returns their answer to a question of the model's.
    ///
    /// # Errors
    /// [`Unanswered`].
    async fn answer(&self, question: &Question) -> Result<String, Unanswered>;

    /// Asks for consent to a call that needs it.
    ///
    /// # Errors
    /// [`Unanswered`]; that no one is there counts as a refusal.
    async fn consent(&self, request: &ConsentRequest<'_>) -> Result<Consent, Unanswered>;

    /// Returns the editor in which they work, if tools should use its files. The default knows of none.
    fn editor(&self) -> Option<Arc<dyn EditorFiles>> {
        None
    }

    /// Returns the terminal of that editor, if commands should run there. The default knows of none.
    fn terminal(&self) -> Option<Arc<dyn EditorTerminal>> {
        None
    }
}

/// The files of an editor: tools read what the user sees there, and write so that the user sees it.
#[async_trait]
pub trait EditorFiles: Send + Sync {
    /// Returns the text of the file at `path` with changes that are not saved; `None` if only the disk has
    /// it.
    async fn read(&self, path: &Path) -> Option<String>;

    /// Writes the file at `path`; `None` if the editor does not write files.
    ///
    /// # Errors
    /// The reason, in the editor's words.
    async fn write(&self, path: &Path, text: &str) -> Option<Result<(), String>>;
}

/// A call that needs consent.
#[derive(Clone, Copy, Debug)]
pub struct ConsentRequest<'a> {
    /// The agent that wants to make it.
    pub agent: &'a AgentId,
    /// The call as it would be made.
    pub call: &'a ToolCall,
    /// The subjects that the rules ask about; empty if they ask about the tool as such.
    pub about: &'a [Subject],
    /// The change that it would make to a file, if it is known.
    pub change: Option<&'a FileChange>,
}

/// A user's decision on a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Consent {
    /// This one may be made.
    Once,
    /// It may, and so may all of the same agent's that are about the same, as long as this process runs.
    ForRun,
    /// The call may not be made.
    Refused {
        /// The reason, if they give one; the model reads it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        why: Option<String>,
    },
}

/// The reason for a missing answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unanswered {
    /// No one can answer, or no one will any more.
    #[error("no one can answer")]
    Nobody,
    /// Someone will answer later, perhaps in days: the turn waits, and the call is made when it is resumed.
    #[error("no one has answered yet")]
    Later,
}

/// A stand-in for runs without a user who could be asked.
#[derive(Clone, Copy, Debug, Default)]
pub struct Nobody;

#[async_trait]
impl Person for Nobody {
    async fn answer(&self, _: &Question) -> Result<String, Unanswered> {
        Err(Unanswered::Nobody)
    }

    async fn consent(&self, _: &ConsentRequest<'_>) -> Result<Consent, Unanswered> {
        Err(Unanswered::Nobody)
    }
}
