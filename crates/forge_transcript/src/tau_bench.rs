//! Results of tau-bench: a list of trials, each with its messages.

use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::record::Shelf;
use crate::{Format, Session, TranscriptError, openai};

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

/// Reads a session for each trial, named `task3.trial0`.
pub(crate) fn read(text: &str, origin: &str, shelf: Shelf<'_>) -> Result<Vec<Session>, TranscriptError> {
    let trials: Vec<Trial<'_>> =
        serde_json::from_str(text).map_err(|source| TranscriptError::json(origin, source))?;
    trials.into_iter().map(|trial| read_trial(&trial, origin, shelf)).collect()
}

fn read_trial(trial: &Trial<'_>, origin: &str, shelf: Shelf<'_>) -> Result<Session, TranscriptError> {
    let word = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let id = format!("task{}.trial{}", word(&trial.task_id), word(&trial.trial));
    let records = openai::records(&trial.traj, origin, &format!("{id}.traj"), shelf)?;
    Ok(Session { id, format: Format::TauBench, records, skipped_lines: 0 })
}
