//! The display of a run for a program: one JSON object per line on stdout, each named by its `event`.

use forge_app::{CheckpointTally, Restored, RunEvent, RunReport};
use serde_json::{Value, json};

use super::view::{Break, RunView, report_json};
use crate::failure::Exit;
use crate::output;

/// A writer of events as they happen, and of the report at the end.
pub(crate) struct JsonWatcher;

fn print_event(event: &Value) {
    output::print_or_note(&format!("{event}\n"));
}

impl RunView for JsonWatcher {
    fn tell(&self, event: &RunEvent<'_>) {
        print_event(&event.to_json());
    }

    fn show_resume(&self, restored: &Restored, _: bool) {
        let Restored { run, from, is_fork, is_over, .. } = restored;
        print_event(
            &json!({"event": "resumed", "run": run, "from": from, "is_fork": is_fork, "is_over": is_over}),
        );
    }

    fn show_end(&self, report: &RunReport, _: Option<&CheckpointTally>, exit: Exit) {
        let exit_code = exit.code();
        print_event(
            &json!({"event": "report", "report": report_json(report, exit_code), "exit_code": exit_code}),
        );
    }

    fn show_break(&self, why: &Break<'_>, checkpoints: Option<&CheckpointTally>, _: &str) {
        let mut event = why.to_json(checkpoints);
        event["event"] = "broke_off".into();
        print_event(&event);
    }

    fn end(&self) {}
}
