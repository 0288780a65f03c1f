//! The selection of a checkpoint by what the user wrote.

use forge_domain::{
    AgentId, CheckpointFilter, CheckpointId, CheckpointInfo, CheckpointKey, CheckpointStore, RunId,
    StoreError,
};

use super::CheckpointsError;

/// Most candidates and known names that an error lists.
const LISTED: usize = 20;
/// Most names of runs of other folders that an error lists.
const LISTED_ELSEWHERE: usize = 5;

/// A selected checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selected {
    /// The checkpoint; of a run its latest.
    pub info: CheckpointInfo,
    /// The scope of the name: the checkpoint, or its run.
    pub scope: Scope,
}

impl Selected {
    /// Returns the checkpoint that must still be the latest of its agent when its run is changed, because the
    /// run was named: what was saved meanwhile would be skipped.
    pub(super) fn expected_latest(&self) -> Option<&CheckpointInfo> {
        (self.scope == Scope::Run).then_some(&self.info)
    }
}

/// The scope of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A run: its latest checkpoint stands for it.
    Run,
    /// One checkpoint.
    Checkpoint,
}

/// Selects the checkpoint that `word` means: a run or the beginning of its name, `last`, a number such as
/// `12` or `#12`, a checkpoint's label, or `RUN/LABEL`, `RUN/NUMBER`, `RUN/last`. With `agent`, only that
/// agent's.
///
/// # Errors
/// [`CheckpointsError::Unknown`] and [`CheckpointsError::Ambiguous`], which lists the candidates.
pub async fn select(
    store: &dyn CheckpointStore,
    word: &str,
    agent: Option<&AgentId>,
) -> Result<Selected, CheckpointsError> {
    let all = CheckpointFilter { agent: agent.cloned(), ..CheckpointFilter::default() };
    if word == "last" {
        let newest = store.list(&CheckpointFilter { limit: Some(1), ..all }).await?.pop();
        return newest
            .map(|info| Selected { info, scope: Scope::Run })
            .ok_or_else(|| unknown(word, "the store is empty".to_owned()));
    }
    let runs: Vec<RunId> = store.runs().await?.into_iter().map(|info| info.run).collect();
    let mut found = Vec::new();
    if let Some(run) = runs.iter().find(|run| run.as_str() == word) {
        found.push(latest_of_run(store, run, agent).await?);
    }
    if let Some((run, rest)) = word.rsplit_once('/')
        && let Some(run) = runs.iter().find(|known| known.as_str() == run)
    {
        found.extend(in_run(store, run, rest, agent).await?);
    } else {
        found.extend(with_name(store, word, &all).await?);
    }
    if found.is_empty() && !word.is_empty() {
        for run in runs.iter().filter(|run| run.as_str().starts_with(word)) {
            found.push(latest_of_run(store, run, agent).await?);
        }
    }
    found.dedup_by(|one, other| one == other);
    match found.len() {
        0 => {
            let names: Vec<&str> = runs.iter().rev().take(LISTED).map(RunId::as_str).collect();
            let known = if names.is_empty() {
                "the store is empty".to_owned()
            } else {
                let more = if runs.len() > names.len() { ", …" } else { "" };
                format!("existing runs: {}{more}", names.join(", "))
            };
            Err(unknown(word, known))
        }
        1 => Ok(found.remove(0)),
        _ => {
            let candidates = found.iter().take(LISTED).map(description).collect();
            Err(CheckpointsError::Ambiguous { word: word.to_owned(), candidates })
        }
    }
}

/// Selects what `word` means as [`select`] does, except that `last` is the last of the runs of `folder`, and
/// that an error names these first.
///
/// # Errors
/// As [`select`].
pub async fn select_in(
    store: &dyn CheckpointStore,
    word: &str,
    folder: Option<&str>,
    agent: Option<&AgentId>,
) -> Result<Selected, CheckpointsError> {
    let Some(folder) = folder else { return select(store, word, agent).await };
    if word != "last" {
        return match select(store, word, agent).await {
            Err(CheckpointsError::Unknown { word, .. }) => {
                Err(unknown(&word, known_runs(store, folder).await?))
            }
            selected => selected,
        };
    }
    if let Some(info) = last_of(store, Some(folder), agent).await? {
        return Ok(Selected { info, scope: Scope::Run });
    }
    let known = if store.runs().await?.is_empty() {
        "the store is empty"
    } else {
        "no run of this folder is in the store; `forge checkpoints list` shows the others"
    };
    Err(unknown(word, known.to_owned()))
}

/// Names the newest runs, those of `folder` first.
async fn known_runs(store: &dyn CheckpointStore, folder: &str) -> Result<String, StoreError> {
    let runs = store.runs().await?;
    let (mut here, mut elsewhere) = (Vec::new(), Vec::new());
    for known in runs.iter().rev().take(LISTED) {
        let newest = CheckpointFilter { limit: Some(1), ..CheckpointFilter::of_run(&known.run) };
        let outline = match store.list(&newest).await?.pop() {
            Some(info) => store.outline(info.key).await,
            None => continue,
        };
        // The latest checkpoint of a run that is being written may be gone by now.
        let own = match outline {
            Err(StoreError::NotFound { .. }) => None,
            read => read?.configuration.0.get("folder").and_then(|own| own.as_str()).map(str::to_owned),
        };
        let names = if own.as_deref() == Some(folder) { &mut here } else { &mut elsewhere };
        names.push(known.run.as_str());
    }
    let is_cut = runs.len() > LISTED || elsewhere.len() > LISTED_ELSEWHERE;
    elsewhere.truncate(LISTED_ELSEWHERE);
    let parts = [("of this folder", here), ("of other folders", elsewhere)];
    let parts = parts.iter().filter(|(_, names)| !names.is_empty());
    let parts: Vec<String> = parts.map(|(of, names)| format!("{of}: {}", names.join(", "))).collect();
    if parts.is_empty() {
        return Ok("the store is empty".to_owned());
    }
    Ok(format!("existing runs {}{}", parts.join("; "), if is_cut { ", …" } else { "" }))
}

/// Returns the last checkpoint of the run that was saved last among those of `folder`; with `agent`, only
/// that agent's.
pub(crate) async fn last_of(
    store: &dyn CheckpointStore,
    folder: Option<&str>,
    agent: Option<&AgentId>,
) -> Result<Option<CheckpointInfo>, StoreError> {
    let mut seen: Vec<RunId> = Vec::new();
    let all = CheckpointFilter { agent: agent.cloned(), ..CheckpointFilter::default() };
    for info in store.list(&all).await? {
        if seen.contains(&info.run) {
            continue;
        }
        let Some(folder) = folder else { return Ok(Some(info)) };
        // The latest checkpoint of a run that is being written may be gone before it is read; the one before
        // it is there.
        let configuration = match store.outline(info.key).await {
            Err(StoreError::NotFound { .. }) => continue,
            read => read?.configuration,
        };
        match configuration.0.get("folder").and_then(|folder| folder.as_str()) {
            Some(other) if other != folder => seen.push(info.run),
            _ => return Ok(Some(info)),
        }
    }
    Ok(None)
}

/// Selects the latest checkpoint of `run`, or of one agent in it.
///
/// # Errors
/// [`CheckpointsError::Empty`] if nothing was saved there.
pub async fn latest_of_run(
    store: &dyn CheckpointStore,
    run: &RunId,
    agent: Option<&AgentId>,
) -> Result<Selected, CheckpointsError> {
    let filter = CheckpointFilter { agent: agent.cloned(), limit: Some(1), ..CheckpointFilter::of_run(run) };
    let latest = store.list(&filter).await?.pop();
    let of = || agent.map_or_else(String::new, |agent| format!(" of agent `{agent}`"));
    latest
        .map(|info| Selected { info, scope: Scope::Run })
        .ok_or_else(|| CheckpointsError::Empty { run: run.clone(), of: of() })
}

async fn in_run(
    store: &dyn CheckpointStore,
    run: &RunId,
    word: &str,
    agent: Option<&AgentId>,
) -> Result<Vec<Selected>, CheckpointsError> {
    if word == "last" {
        return latest_of_run(store, run, agent).await.map(|latest| vec![latest]);
    }
    let all = CheckpointFilter { agent: agent.cloned(), ..CheckpointFilter::of_run(run) };
    with_name(store, word, &all).await
}

/// Returns the checkpoints of that number or label among those that `all` admits.
async fn with_name(
    store: &dyn CheckpointStore,
    word: &str,
    all: &CheckpointFilter,
) -> Result<Vec<Selected>, CheckpointsError> {
    let number = word.strip_prefix('#').unwrap_or(word).parse().ok().map(CheckpointKey::new);
    let filter = match (number, CheckpointId::new(word)) {
        (Some(key), _) => CheckpointFilter { key: Some(key), ..all.clone() },
        (None, Ok(id)) => CheckpointFilter { id: Some(id), ..all.clone() },
        (None, Err(_)) => return Ok(Vec::new()),
    };
    let infos = store.list(&filter).await?;
    Ok(infos.into_iter().map(|info| Selected { info, scope: Scope::Checkpoint }).collect())
}

fn unknown(word: &str, known: String) -> CheckpointsError {
    CheckpointsError::Unknown { word: word.to_owned(), known }
}

fn description(found: &Selected) -> String {
    let CheckpointInfo { key, id, run, created_at, .. } = &found.info;
    match found.scope {
        Scope::Run => format!("{run} (the run; its latest checkpoint is {key} {id})"),
        Scope::Checkpoint => format!("{key} ({run}/{id}, made {created_at:.0})"),
    }
}
