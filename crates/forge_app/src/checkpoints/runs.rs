//! The runs in a store.

use std::collections::BTreeMap;

use forge_domain::{
    AgentId, CheckpointFilter, CheckpointInfo, CheckpointKey, CheckpointStore, Holding, RunId, StoreError,
};
use serde::{Serialize, Serializer};

/// A summary of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RunSummary {
    /// The run.
    pub run: RunId,
    /// The process that writes it, if any.
    pub holder: Option<Holding>,
    /// The latest checkpoint of each agent that worked in it; in JSON, the names of the agents.
    #[serde(serialize_with = "names")]
    pub agents: BTreeMap<AgentId, CheckpointKey>,
    /// Checkpoints.
    pub checkpoints: usize,
    /// The checkpoint of another run that it began with, as far as it is still there.
    pub forked_from: Option<(RunId, CheckpointKey)>,
    /// Its latest checkpoint; `None` if nothing was saved yet.
    pub latest: Option<CheckpointInfo>,
}

fn names<S: Serializer>(agents: &BTreeMap<AgentId, CheckpointKey>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(agents.keys())
}

/// Lists every run, the one that was saved last first.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn runs(store: &dyn CheckpointStore) -> Result<Vec<RunSummary>, StoreError> {
    let infos = store.list(&CheckpointFilter::default()).await?;
    let run_of: BTreeMap<CheckpointKey, &RunId> = infos.iter().map(|info| (info.key, &info.run)).collect();
    let mut by_run: BTreeMap<&RunId, Vec<CheckpointInfo>> = BTreeMap::new();
    for info in &infos {
        by_run.entry(&info.run).or_default().push(info.clone());
    }
    let mut summaries: Vec<RunSummary> = Vec::new();
    for known in store.runs().await? {
        let newest_first = by_run.remove(&known.run).unwrap_or_default();
        let origin = |info: &CheckpointInfo| {
            let parent = info.parent?;
            let run = *run_of.get(&parent)?;
            (*run != known.run).then(|| (run.clone(), parent))
        };
        summaries.push(RunSummary {
            holder: known.holder,
            agents: latest_of_agents(&newest_first).map(|info| (info.agent.clone(), info.key)).collect(),
            checkpoints: newest_first.len(),
            forked_from: newest_first.iter().rev().find_map(origin),
            latest: newest_first.first().cloned(),
            run: known.run,
        });
    }
    summaries.sort_by_key(|summary| std::cmp::Reverse(summary.latest.as_ref().map(|info| info.key)));
    Ok(summaries)
}

/// Returns the latest checkpoint of each agent of a run, the agent that began first first.
pub fn latest_of_agents(newest_first: &[CheckpointInfo]) -> impl Iterator<Item = &CheckpointInfo> {
    // The list is newest first, so an agent's last entry is where it began.
    let mut latest: Vec<(&CheckpointInfo, usize)> = Vec::new();
    for (nth, info) in newest_first.iter().enumerate() {
        match latest.iter_mut().find(|(known, _)| known.agent == info.agent) {
            Some((_, began)) => *began = nth,
            None => latest.push((info, nth)),
        }
    }
    latest.sort_by_key(|(_, began)| std::cmp::Reverse(*began));
    latest.into_iter().map(|(info, _)| info)
}
