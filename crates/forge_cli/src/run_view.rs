//! How a run is shown: to a person or to a program.

use forge_app::{CheckpointTally, Restored, RunEvent, RunReport};
use serde_json::{Value, json};

use crate::failure::Exit;

/// Why a run broke off.
pub(crate) enum Break<'a> {
    /// It failed; whoever started the process is told at its end.
    Failed(&'a anyhow::Error),
    /// Somebody asked it to end.
    Interrupted {
        /// Who, in words.
        words: String,
        /// The exit code: that of the signal.
        exit_code: u8,
    },
}

impl Break<'_> {
    /// The code that the process returns.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(error) => Exit::of_error(error).code(),
            Self::Interrupted { exit_code, .. } => *exit_code,
        }
    }

    /// The break for programs, as the last event and as what `--report` writes.
    pub(crate) fn to_json(&self, checkpoints: Option<&CheckpointTally>) -> Value {
        let (stop, why) = match self {
            Self::Failed(error) => ("failed", format!("{error:#}")),
            Self::Interrupted { words, .. } => ("interrupted", words.clone()),
        };
        let run = checkpoints.filter(|tally| tally.saved > 0).map(|tally| &tally.run);
        json!({
            "stop": stop, "why": why, "exit_code": self.exit_code(), "resume": run, "checkpoints": checkpoints,
        })
    }
}

/// Shows a run while it goes on, and what came of it.
pub(crate) trait RunView: Send + Sync {
    /// Shows one event.
    fn tell(&self, event: &RunEvent<'_>);

    /// Shows what a run goes on from; `without_task` where nothing new is asked of it.
    fn resumed(&self, restored: &Restored, without_task: bool);

    /// Shows what the whole run took. The process returns the code of `exit`.
    fn came_to_its_end(&self, report: &RunReport, checkpoints: Option<&CheckpointTally>, exit: Exit);

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

/// A report for programs: what came of the run, and the code that the process returns.
pub(crate) fn report_json(report: &RunReport, exit_code: u8) -> Value {
    let mut json = serde_json::to_value(report).unwrap_or_default();
    json["exit_code"] = exit_code.into();
    json
}
