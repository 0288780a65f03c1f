//! Results of tau-bench: a list of trials, each with its messages.

use forge_wire::Protocol;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::codec::{Codec, Evidence, Input, Layout, Revision};
use crate::format::FormatFacts;
use crate::openai::{read_records, write_entries};
use crate::splice::{field, list, splice};
use crate::{Format, RewriteError, Session, TranscriptError};

/// The format of tau-bench's results: a session for each trial, named `task3.trial0`.
pub(crate) struct TauBench;

impl Codec for TauBench {
    fn format(&self) -> Format {
        Format(&FormatFacts {
            id: "tau-bench",
            name: "tau-bench results",
            description: "[{\"task_id\", \"trial\", \"traj\"}]",
            protocol: Some(Protocol::OpenAi),
        })
    }

    fn detect(&self, evidence: &Evidence<'_>) -> bool {
        let Layout::List(items) = &evidence.layout else { return false };
        items.first().and_then(|trial| field(trial.get(), "traj")).is_some_and(|list| list != "null")
    }

    fn read(&self, input: &Input<'_>) -> Result<Vec<Session>, TranscriptError> {
        let trials: Vec<Trial<'_>> = serde_json::from_str(input.text()?)
            .map_err(|source| TranscriptError::json(input.origin, source))?;
        trials.into_iter().map(|trial| trial.read(input)).collect()
    }

    fn write(&self, revision: &Revision<'_>) -> Result<Vec<u8>, RewriteError> {
        if revision.from() != self.format() {
            return Err(revision.refuse_conversion("there is no task for the messages to belong to"));
        }
        let entries = write_entries(revision)?;
        let trials: Vec<&RawValue> =
            serde_json::from_str(revision.text()).map_err(|_| RewriteError::OtherFile)?;
        let trial = trials.get(revision.nth).map(|trial| trial.get());
        let trajectory = trial.and_then(|trial| field(trial, "traj")).ok_or(RewriteError::OtherFile)?;
        let written = splice(revision.text(), trajectory, &list(&entries));
        written.map(String::into_bytes).ok_or(RewriteError::OtherFile)
    }
}

/// One trial of one task.
#[derive(Deserialize)]
struct Trial<'a> {
    #[serde(default)]
    task_id: Value,
    #[serde(default)]
    trial: Value,
    #[serde(borrow)]
    traj: Vec<&'a RawValue>,
}

impl Trial<'_> {
    fn read(&self, input: &Input<'_>) -> Result<Session, TranscriptError> {
        let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let id = format!("task{}.trial{}", word(&self.task_id), word(&self.trial));
        let records = read_records(&self.traj, &format!("{id}.traj"), input)?;
        Ok(Session { id, format: input.format, records, skipped_lines: 0 })
    }
}
