//! Shows a run to a program: one JSON object a line on standard output, each with the word of its `event`.

use std::sync::{Mutex, PoisonError};

use forge_app::{CheckpointTally, Restored, RunEvent, RunReport};
use serde_json::{Value, json};

use crate::output;
use crate::run_view::{Break, RunView};

/// Writes events as they happen, and at the end what came of the run.
#[derive(Default)]
pub(crate) struct JsonWatcher {
    /// Why a line could not be written, where it could not.
    unwritten: Mutex<Option<anyhow::Error>>,
}

impl JsonWatcher {
    fn line(&self, event: &Value) {
        if let Err(error) = output::print(&format!("{event}\n")) {
            self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

impl RunView for JsonWatcher {
    fn tell(&self, event: &RunEvent<'_>) {
        self.line(&event.to_json());
    }

    fn resumed(&self, restored: &Restored, _: bool) {
        let Restored { run, from, is_fork, is_over, .. } = restored;
        self.line(
            &json!({"event": "resumed", "run": run, "from": from, "is_fork": is_fork, "is_over": is_over}),
        );
    }

    fn came_to_its_end(&self, report: &RunReport, _: Option<&CheckpointTally>) {
        self.line(&json!({"event": "report", "report": report}));
    }

    fn broke_off(&self, why: &Break<'_>, checkpoints: Option<&CheckpointTally>, _: &str) {
        let why = match why {
            Break::Failed(error) => format!("{error:#}"),
            Break::Interrupted(words) => words.clone(),
        };
        let run = checkpoints.filter(|tally| tally.saved > 0).map(|tally| &tally.run);
        self.line(&json!({"event": "broke_off", "why": why, "resume": run, "checkpoints": checkpoints}));
    }

    fn end(&self) {}

    fn written(&self) -> anyhow::Result<()> {
        match self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
