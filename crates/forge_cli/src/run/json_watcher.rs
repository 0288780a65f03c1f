//! The display of a run for a program: one JSON object per line on stdout, each named by its `event`.

use std::sync::{Mutex, PoisonError};

use forge_app::{CheckpointTally, Restored, RunEvent, RunReport};
use serde_json::{Value, json};

use super::view::{Break, RunView, report_json};
use crate::failure::Exit;
use crate::output;

/// A writer of events as they happen, and of the report at the end.
#[derive(Default)]
pub(crate) struct JsonWatcher {
    /// The error that prevented a line from being written, if any.
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

    fn show_resume(&self, restored: &Restored, _: bool) {
        let Restored { run, from, is_fork, is_over, .. } = restored;
        self.line(
            &json!({"event": "resumed", "run": run, "from": from, "is_fork": is_fork, "is_over": is_over}),
        );
    }

    fn show_end(&self, report: &RunReport, _: Option<&CheckpointTally>, exit: Exit) {
        let exit_code = exit.code();
        self.line(
            &json!({"event": "report", "report": report_json(report, exit_code), "exit_code": exit_code}),
        );
    }

    fn show_break(&self, why: &Break<'_>, checkpoints: Option<&CheckpointTally>, _: &str) {
        let mut event = why.to_json(checkpoints);
        event["event"] = "broke_off".into();
        self.line(&event);
    }

    fn end(&self) {}

    fn check_writes(&self) -> anyhow::Result<()> {
        match self.unwritten.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }
}
