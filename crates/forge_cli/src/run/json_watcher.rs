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

/// Returns an event as JSON, with the agent whose events come now. A server does not tell for which agent a
/// tool of its works, nor a provider for which one it waits.
fn json_of(event: &RunEvent<'_>, asked: Option<&AgentId>) -> Value {
    let mut json = event.to_json();
    let is_of_any = matches!(event, RunEvent::ToolProgress { .. } | RunEvent::Retrying { .. });
    let agent = asked.filter(|_| !is_of_any);
    if let Some(agent) = agent {
        json["agent"] = agent.as_str().into();
    }
    json
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
        self.print(json_of(event, asked.as_ref()));
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use forge_domain::ToolName;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_event_has_the_agent_that_it_is_of() {
        let (agent, tool) = (AgentId::new("scout~1").unwrap(), ToolName::new("s__t").unwrap());
        let progress = RunEvent::ToolProgress { tool: &tool, done: 1.0, of: None, message: None };
        let wait = Duration::from_millis(1_500);
        let retrying = RunEvent::Retrying { why: "cannot reach it", n: 2, of: 8, wait };
        let expected = json!({"event": "retrying", "why": "cannot reach it", "n": 2, "of": 8, "wait": 1.5});
        assert_eq!(json_of(&retrying, Some(&agent)), expected);
        for (event, asked, expected) in [
            (RunEvent::Notice("x"), Some(&agent), json!("scout~1")),
            (RunEvent::Notice("x"), None, Value::Null),
            (progress, Some(&agent), Value::Null),
        ] {
            assert_eq!(json_of(&event, asked)["agent"], expected, "{event:?}");
        }
    }
}
