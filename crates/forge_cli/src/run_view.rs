//! How a run is shown: to a person or to a program.

use forge_app::{CheckpointTally, Restored, RunEvent, RunReport};

/// Why a run broke off.
pub(crate) enum Break<'a> {
    /// It failed; whoever started the process is told at its end.
    Failed(&'a anyhow::Error),
    /// Somebody asked it to end, in words.
    Interrupted(String),
}

/// Shows a run while it goes on, and what came of it.
pub(crate) trait RunView: Send + Sync {
    /// Shows one event.
    fn tell(&self, event: &RunEvent<'_>);

    /// Shows what a run goes on from; `without_task` where nothing new is asked of it.
    fn resumed(&self, restored: &Restored, without_task: bool);

    /// Shows what the whole run took.
    fn came_to_its_end(&self, report: &RunReport, checkpoints: Option<&CheckpointTally>);

    /// Shows why it broke off and how to go on; `flags` are those without which it would not be the same.
    fn broke_off(&self, why: &Break<'_>, checkpoints: Option<&CheckpointTally>, flags: &str);

    /// Closes what is still open, such as a line of the answer.
    fn end(&self);

    /// Why something could not be written; asked once, at the end.
    ///
    /// # Errors
    /// The first fault.
    fn written(&self) -> anyhow::Result<()>;
}
