//! A new run that begins with the state of another.

use forge_domain::{
    AgentId, Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointKey, CheckpointReason, CheckpointStore,
    Claim, Deletion, Entry, EntryId, NewCheckpoint, Progress, Role, RunId, StoreError, Sweep,
};

use super::{CheckpointsError, Selected, Writer};

/// A request for a new run that begins with a checkpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fork {
    /// The checkpoint. The other agents of its run come along as they were then.
    pub from: Selected,
    /// The compaction to begin before, with all the messages that it replaced and without what came later.
    pub before: Option<EntryId>,
    /// The new run's name.
    pub into: RunId,
}

/// Begins a new run, with a checkpoint for each agent, and returns them. It can be resumed like any other,
/// and the original run continues independently.
///
/// # Errors
/// [`CheckpointsError::Taken`], [`CheckpointsError::NoCompaction`] and [`CheckpointsError::Store`]. There is
/// then no such run.
pub async fn fork(
    store: &dyn CheckpointStore,
    fork: &Fork,
    writer: &Writer<'_>,
) -> Result<Vec<CheckpointInfo>, CheckpointsError> {
    if store.runs().await?.iter().any(|known| known.run == fork.into) {
        return Err(CheckpointsError::Taken { run: fork.into.clone() });
    }
    let mut states = vec![state(store, fork, writer).await?];
    let at = states[0].parent.unwrap_or(fork.from.info.key);
    for other in others(store, &fork.from, at).await? {
        states.push(first_checkpoint(store.load(other.key).await?, writer));
    }
    let save_all = async |claim: Claim| {
        let mut saved = Vec::new();
        // The agent that was named comes last: it is the one whose checkpoint is the run's latest.
        for new in states.iter().rev() {
            saved.push(store.save(&claim, new).await?);
        }
        Ok::<_, StoreError>(saved)
    };
    let saved = writer.write(store, &fork.into, save_all).await;
    if saved.is_err() {
        // What failed once may fail again; the error that matters is the first one.
        let _ = store.delete(&Deletion::Run(fork.into.clone()), Sweep::Done).await;
    }
    Ok(saved?)
}

/// Returns an unused name for a fork of `run`: its name with a number.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn free_name(store: &dyn CheckpointStore, run: &RunId) -> Result<RunId, CheckpointsError> {
    let taken: Vec<RunId> = store.runs().await?.into_iter().map(|known| known.run).collect();
    let names = (1..=taken.len() + 1).filter_map(|n| RunId::new(format!("{run}-fork-{n}")).ok());
    let mut free = names.filter(|name| !taken.contains(name));
    free.next().ok_or_else(|| CheckpointsError::Taken { run: run.clone() })
}

fn first_checkpoint(loaded: Checkpoint, writer: &Writer<'_>) -> NewCheckpoint {
    NewCheckpoint {
        snapshot: loaded.snapshot,
        step: "fork".to_owned(),
        reason: CheckpointReason::Fork,
        created_at: writer.now,
        parent: Some(loaded.info.key),
    }
}

/// Returns the state of the agent that was named.
async fn state(
    store: &dyn CheckpointStore,
    fork: &Fork,
    writer: &Writer<'_>,
) -> Result<NewCheckpoint, CheckpointsError> {
    let loaded = store.load(fork.from.info.key).await?;
    let Some(before) = fork.before else { return Ok(first_checkpoint(loaded, writer)) };
    let log = &loaded.snapshot.conversation;
    let is_it = |entry: &Entry| matches!(entry, Entry::Compaction(entry) if entry.id() == before);
    let line = log.entries().iter().position(is_it);
    let Some((line, conversation)) = line.and_then(|line| Some((line, log.rewound(line)?))) else {
        let known: Vec<String> = log.compactions().map(|entry| entry.id().to_string()).collect();
        return Err(CheckpointsError::NoCompaction {
            wanted: before.to_string(),
            place: format!("checkpoint {} {}", loaded.info.key, loaded.info.id),
            known: match known.as_slice() {
                [] => "nothing was compacted there".to_owned(),
                known => format!("there are {}", known.join(", ")),
            },
        });
    };
    let origin = nearest(store, &loaded.info, line).await?;
    let mut new = first_checkpoint(loaded, writer);
    new.parent = origin.as_ref().map(|origin| origin.info.key);
    let (mut n_replies, mut since_user) = (0, 0);
    for message in conversation.messages() {
        match message.message().role() {
            Role::User => since_user = 0,
            Role::Assistant => (n_replies, since_user) = (n_replies + 1, since_user + 1),
            Role::System | Role::Tool => {}
        }
    }
    // What was used up to there is known as far as a checkpoint tells it; calls are counted by their replies.
    let known = origin.map_or_else(Progress::default, |origin| origin.snapshot.progress);
    new.snapshot.progress =
        Progress { iterations: known.iterations.max(n_replies), turn_iterations: since_user, ..known };
    new.snapshot.conversation = conversation;
    Ok(new)
}

/// Returns the latest checkpoint on the way to `info` whose log has at most `line` lines.
async fn nearest(
    store: &dyn CheckpointStore,
    info: &CheckpointInfo,
    line: usize,
) -> Result<Option<Checkpoint>, StoreError> {
    let mut at = Some(info.clone());
    while let Some(info) = at {
        if info.n_entries <= line {
            return store.load(info.key).await.map(Some);
        }
        // A parent is older than what grew from it, so that the way up has an end.
        at = match info.parent.filter(|parent| *parent < info.key) {
            Some(key) => {
                store.list(&CheckpointFilter { key: Some(key), ..CheckpointFilter::default() }).await?.pop()
            }
            None => None,
        };
    }
    Ok(None)
}

/// Returns the latest checkpoint of each other agent of the run, not later than `at`.
async fn others(
    store: &dyn CheckpointStore,
    from: &Selected,
    at: CheckpointKey,
) -> Result<Vec<CheckpointInfo>, StoreError> {
    let before = CheckpointKey::new(at.as_u64().saturating_add(1));
    let filter = CheckpointFilter { before: Some(before), ..CheckpointFilter::of_run(&from.info.run) };
    let mut latest: Vec<CheckpointInfo> = Vec::new();
    for info in store.list(&filter).await? {
        let is_known = |agent: &AgentId| latest.iter().any(|known| known.agent == *agent);
        if info.agent != from.info.agent && !is_known(&info.agent) {
            latest.push(info);
        }
    }
    Ok(latest)
}
