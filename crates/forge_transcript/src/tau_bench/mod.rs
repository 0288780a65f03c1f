//! Results of tau-bench: a list of trials, each with its messages.

use forge_wire::Protocol;
use serde_json::Value;
use serde_json::value::RawValue;

use crate::codec::{Evidence, Fields};
use crate::format::FormatFacts;
use crate::openai::{MessageLists, NamedList};

/// The format of tau-bench's results: a session for each trial, named `task3.trial0`.
pub(crate) const TAU_BENCH: MessageLists = MessageLists {
    facts: &FormatFacts {
        id: "tau-bench",
        name: "tau-bench results",
        description: "[{\"task_id\", \"trial\", \"traj\"}]",
        protocol: Some(Protocol::OpenAi),
    },
    detect,
    keeps_form: false,
    lists,
};

fn detect(evidence: &Evidence<'_>) -> bool {
    evidence.list().first().is_some_and(|trial| trial.has(&["traj"]))
}

fn lists(text: &str) -> Result<Vec<NamedList<'_>>, serde_json::Error> {
    let trials: Vec<&RawValue> = serde_json::from_str(text)?;
    trials.into_iter().map(RawValue::get).map(trial_list).collect()
}

fn trial_list(trial: &str) -> Result<NamedList<'_>, serde_json::Error> {
    let trial = Fields::of(trial);
    let word = |key: &str| {
        let value: Value = serde_json::from_str(trial.get(key)).unwrap_or_default();
        value.as_str().map_or_else(|| value.to_string(), str::to_owned)
    };
    let id = format!("task{}.trial{}", word("task_id"), word("trial"));
    NamedList::of(Some(id.clone()), format!("{id}.traj"), trial.get("traj"))
}
