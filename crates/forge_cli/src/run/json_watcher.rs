//! The display of a run for a program: one JSON object per line on stdout, each named by its `event`.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use forge_app::{CheckpointTally, Restored, RunEvent, RunReport};
use forge_domain::AgentId;
use serde_json::{Value, json};

use super::answer_schema::Answer;
use super::view::{Break, RunStart, RunView, report_json};
use crate::failure::Exit;
use crate::output;

/// A writer of events as they happen, and of the report at the end.
#[derive(Default)]
pub(crate) struct JsonWatcher {
    /// The events before the run started, until its first line is written.
    waiting: Mutex<Option<Vec<Value>>>,
    has_started: AtomicBool,
    /// The agent whose events come now, if another one asked it.
    asked: Mutex<Option<AgentId>>,
}

impl JsonWatcher {
    /// Prints `event`, once the first line is written.
    fn print(&self, event: Value) {
        if self.has_started.load(Ordering::Relaxed) {
            print_event(&event);
        } else {
            self.waiting.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert_default().push(event);
        }
    }

    /// Prints the events that waited for the first line.
    fn release(&self) {
        self.has_started.store(true, Ordering::Relaxed);
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        waiting.iter().flatten().for_each(print_event);
    }
}

fn print_event(event: &Value) {
    output::print_or_note(&format!("{event}\n"));
}

impl RunView for JsonWatcher {
    fn tell(&self, event: &RunEvent<'_>) {
        let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        if let RunEvent::Speaker { agent } = event {
            *asked = agent.cloned();
            return;
        }
        let mut json = event.to_json();
        if let Some(agent) = &*asked {
            json["agent"] = agent.as_str().into();
        }
        self.print(json);
    }

    fn show_start(&self, start: &RunStart) {
        let mut event = serde_json::to_value(start).unwrap_or_default();
        event["event"] = "started".into();
        print_event(&event);
        self.release();
    }

    fn show_resume(&self, restored: &Restored, _: bool) {
        let Restored { run, from, is_fork, is_over, .. } = restored;
        print_event(
            &json!({"event": "resumed", "run": run, "from": from, "is_fork": is_fork, "is_over": is_over}),
        );
    }

    fn show_answer(&self, answer: &Answer) {
        print_event(&match answer {
            Ok(value) => json!({"event": "answer", "answer": value, "faults": []}),
            Err(faults) => json!({"event": "answer", "answer": null, "faults": faults}),
        });
    }

    fn show_end(&self, report: &RunReport, _: Option<&CheckpointTally>, exit: Exit) {
        let exit_code = exit.code();
        print_event(
            &json!({"event": "report", "report": report_json(report, exit_code), "exit_code": exit_code}),
        );
    }

    fn show_break(&self, why: &Break<'_>, checkpoints: Option<&CheckpointTally>, _: &str) {
        self.release();
        let mut event = why.to_json(checkpoints);
        event["event"] = "broke_off".into();
        print_event(&event);
    }

    fn end(&self) {}
}
