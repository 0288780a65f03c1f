//! Which saved state a run goes on from.

use forge_domain::{
    Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointStore, Difference, OnChange, RunId, StoreError,
};

use crate::checkpoints::select;
use crate::{CheckpointsError, RunError, TakeFrom};

/// What a run is to go on from, and what may be in the way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resume {
    /// What [`select`] takes, of which `last` is the run of this folder that was saved last.
    pub which: String,
    /// What is done where the configuration has changed since; what the policy says where unset.
    pub on_change: Option<OnChange>,
    /// From whom the run may be taken over.
    pub take_from: TakeFrom,
}

impl Resume {
    /// To go on from `which`.
    pub fn from(which: impl Into<String>) -> Self {
        Self { which: which.into(), ..Self::default() }
    }
}

/// What a run goes on from.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// The run that goes on: the same, or a new one that begins with its state.
    pub run: RunId,
    /// The state.
    pub from: CheckpointInfo,
    /// Whether the run is a new one: the state was not the last of its run, or the configuration has changed.
    pub is_fork: bool,
    /// Whether nothing was left to be done: it goes on with a new task alone.
    pub is_over: bool,
    /// What is configured otherwise than when the state was saved; the keys of several agents begin with their names.
    pub differences: Vec<Difference>,
}

/// Why a run cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// No checkpoints are kept.
    #[error("no checkpoints are kept here, so there is nothing to resume: name a store")]
    NotKept,
    /// The store has no run of this folder.
    #[error("there is no run of this folder in the store: name a run; `forge checkpoints list` shows them")]
    NoRun,
    /// The word means nothing in the store, or too much.
    #[error(transparent)]
    Unclear(#[from] CheckpointsError),
    /// The agent of the state is no longer configured.
    #[error("agent `{agent}`, whose work it is, is not configured any more; known are: {known}")]
    AgentGone {
        /// The agent.
        agent: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// The configuration has changed, and the policy refuses that.
    #[error("the configuration has changed since it was saved:\n{}", in_lines(.0))]
    Changed(Vec<Difference>),
    /// Somebody else saved a later state in this very moment.
    #[error("run `{0}` went on elsewhere while it was read: try again")]
    Moved(RunId),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The agent cannot work as it is configured.
    #[error(transparent)]
    Work(#[from] RunError),
}

/// Longest value that is shown whole, in characters.
const SHOWN: usize = 60;

/// Each difference on a line of its own, long values cut short.
pub(crate) fn in_lines(differences: &[Difference]) -> String {
    let short = |value: &Option<serde_json::Value>| match value {
        None => "unset".to_owned(),
        Some(value) => {
            let text = value.to_string();
            let cut: String = text.chars().take(SHOWN).collect();
            if cut.len() < text.len() { cut + "…" } else { text }
        }
    };
    let line = |difference: &Difference| {
        format!("  {}: {} → {}", difference.key, short(&difference.then), short(&difference.now))
    };
    differences.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// A saved state of a run: of the agent that was at work, and of those that had worked before.
pub(crate) struct Found {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) others: Vec<Checkpoint>,
    /// Whether the run has nothing later.
    pub(crate) is_latest: bool,
}

/// Finds what `word` means to somebody who works in `folder`.
pub(crate) async fn find(
    store: &dyn CheckpointStore,
    word: &str,
    folder: Option<&str>,
) -> Result<Found, ResumeError> {
    let info = meant(store, word, folder).await?;
    let newest = newest_of(store, &info.run).await?;
    let is_latest = newest.as_ref().is_none_or(|newest| newest.key == info.key);
    let before = (!is_latest).then_some(info.key);
    let mut others: Vec<CheckpointInfo> = Vec::new();
    for other in store.list(&CheckpointFilter { before, ..CheckpointFilter::of_run(&info.run) }).await? {
        if other.agent != info.agent && others.iter().all(|newer| newer.agent != other.agent) {
            others.push(other);
        }
    }
    let checkpoint = store.load(info.key).await?;
    let mut loaded = Vec::new();
    for other in others {
        loaded.push(store.load(other.key).await?);
    }
    Ok(Found { checkpoint, others: loaded, is_latest })
}

/// The last checkpoint of `run`.
pub(crate) async fn newest_of(
    store: &dyn CheckpointStore,
    run: &RunId,
) -> Result<Option<CheckpointInfo>, StoreError> {
    let filter = CheckpointFilter { limit: Some(1), ..CheckpointFilter::of_run(run) };
    Ok(store.list(&filter).await?.pop())
}

async fn meant(
    store: &dyn CheckpointStore,
    word: &str,
    folder: Option<&str>,
) -> Result<CheckpointInfo, ResumeError> {
    if word == "last" {
        return last_of(store, folder).await?.ok_or(ResumeError::NoRun);
    }
    Ok(select(store, word, None).await?.info)
}

/// The last checkpoint of the run that was saved last among those of `folder`.
async fn last_of(
    store: &dyn CheckpointStore,
    folder: Option<&str>,
) -> Result<Option<CheckpointInfo>, StoreError> {
    let mut seen: Vec<RunId> = Vec::new();
    for info in store.list(&CheckpointFilter::default()).await? {
        if seen.contains(&info.run) {
            continue;
        }
        let Some(folder) = folder else { return Ok(Some(info)) };
        let configuration = store.load(info.key).await?.snapshot.configuration;
        match configuration.0.get("folder").and_then(|folder| folder.as_str()) {
            Some(other) if other != folder => seen.push(info.run),
            _ => return Ok(Some(info)),
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_difference_is_a_line() {
        let difference = |key: &str, then: serde_json::Value, now: serde_json::Value| Difference {
            key: key.to_owned(),
            then: Some(then).filter(|then| !then.is_null()),
            now: Some(now).filter(|now| !now.is_null()),
        };
        let long = "x".repeat(100);
        let actual = in_lines(&[
            difference("model", json!("a:x"), json!("a:y")),
            difference("agent.compact.pin", json!(null), json!(["never"])),
            difference("agent.system_prompt", json!(long), json!(null)),
        ]);
        let expected = format!(
            "  model: \"a:x\" → \"a:y\"\n  agent.compact.pin: unset → [\"never\"]\n  agent.system_prompt: \"{}… → unset",
            "x".repeat(59)
        );
        assert_eq!(actual, expected);
    }
}
