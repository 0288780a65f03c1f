//! The runs in a store.

use std::collections::{BTreeMap, BTreeSet};

use forge_domain::{
    AgentId, CheckpointFilter, CheckpointInfo, CheckpointKey, CheckpointStore, Holding, RunId, StoreError,
};
use serde::Serialize;

/// A summary of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// The process that writes it, if any.
    pub holder: Option<Holding>,
    /// The agents that worked in it, by name.
    pub agents: BTreeSet<AgentId>,
    /// Checkpoints.
    pub checkpoints: usize,
    /// The checkpoint of another run that it began with, as far as it is still there.
    pub forked_from: Option<(RunId, CheckpointKey)>,
    /// Its latest checkpoint; `None` if nothing was saved yet.
    pub latest: Option<CheckpointInfo>,
    /// The latest checkpoint of each agent.
    #[serde(skip)]
    pub of_agents: BTreeMap<AgentId, CheckpointKey>,
}

/// Lists every run, the one that was saved last first.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn runs(store: &dyn CheckpointStore) -> Result<Vec<RunSummary>, StoreError> {
    let infos = store.list(&CheckpointFilter::default()).await?;
    let run_of: BTreeMap<CheckpointKey, &RunId> = infos.iter().map(|info| (info.key, &info.run)).collect();
    let mut by_run: BTreeMap<&RunId, Vec<&CheckpointInfo>> = BTreeMap::new();
    for info in &infos {
        by_run.entry(&info.run).or_default().push(info);
    }
    let mut summaries: Vec<RunSummary> = Vec::new();
    for known in store.runs().await? {
        let newest_first = by_run.get(&known.run).cloned().unwrap_or_default();
        let origin = |info: &&CheckpointInfo| {
            let parent = info.parent?;
            let run = *run_of.get(&parent)?;
            (*run != known.run).then(|| (run.clone(), parent))
        };
        summaries.push(RunSummary {
            holder: known.holder,
            agents: newest_first.iter().map(|info| info.agent.clone()).collect(),
            checkpoints: newest_first.len(),
            forked_from: newest_first.iter().rev().find_map(origin),
            latest: newest_first.first().map(|info| (*info).clone()),
            of_agents: newest_first.iter().rev().map(|info| (info.agent.clone(), info.key)).collect(),
            run: known.run,
        });
    }
    summaries.sort_by_key(|summary| std::cmp::Reverse(summary.latest.as_ref().map(|info| info.key)));
    Ok(summaries)
}
