//! A run as one file that any store can import.
//!
//! A JSON document a line, in UTF-8:
//!
//! 1. `{"forge_run": 1, "run": ID, "checkpoints": N}`: the version of the form, the run, and the number of
//!    checkpoints that follow.
//! 2. N checkpoints, in the order of their saving. `parent` is the place, counted from 0, of an earlier one
//!    in the file; `entries` are the lines that the log gained since that one, or the whole log if
//!    `parent` is `null`. `configuration` is left out if it is that of the checkpoint before. The rest has
//!    the form of `forge checkpoints list --json`.
//! 3. `{"sha256": HEX}`: of all bytes before this line.
//!
//! A message is written once for each branch of the run, so that the file grows with the run, not with its
//! square. A checkpoint that began with that of another run has its whole log here: nothing outside the file
//! is needed.

use std::collections::BTreeMap;

use forge_domain::{
    AgentId, Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointKey, CheckpointReason, CheckpointStore,
    Claim, Configuration, ContextSnapshot, Conversation, Deletion, Entry, NewCheckpoint, Progress, RunId,
    StoreError, Sweep,
};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{CheckpointsError, Writer};

/// The version that is written.
const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Head {
    forge_run: u32,
    run: RunId,
    checkpoints: usize,
}

#[derive(Serialize, Deserialize)]
struct Written {
    agent: AgentId,
    step: String,
    reason: CheckpointReason,
    created_at: Timestamp,
    parent: Option<usize>,
    progress: Progress,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    configuration: Option<Configuration>,
    entries: Vec<Entry>,
}

/// A checkpoint that was read, and the place of its parent in the file.
type Read = (Option<usize>, NewCheckpoint);

#[derive(Serialize, Deserialize)]
struct Tail {
    sha256: String,
}

/// An error of an import. The store is then unchanged.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The file is not an exported run.
    #[error("this is not an exported run: its first line is not {{\"forge_run\": …}}")]
    NotARun,
    /// A newer forge wrote it.
    #[error(
        "this run was exported in form {found}, but this Forge supports up to {VERSION}: use the newer \
         Forge that wrote it"
    )]
    Newer {
        /// The form's version.
        found: u32,
    },
    /// The file is damaged.
    #[error("the file is damaged: {what}; export the run again")]
    Damaged {
        /// The place of the damage, and its sign.
        what: String,
    },
    /// The run's name could be taken for something else.
    #[error(
        "the run in the file is named {run:?}, which could be taken for something else: give it another name"
    )]
    Name {
        /// The name.
        run: String,
    },
    /// The store has a different run of that name.
    #[error("a different run `{run}` already exists: import this one under another name, with --as NAME")]
    Diverged {
        /// The run.
        run: RunId,
    },
    /// The file contains what no store would accept.
    #[error(transparent)]
    Checkpoints(#[from] CheckpointsError),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The run.
    pub run: RunId,
    /// Checkpoints of the file that were there already.
    pub known: usize,
    /// Those that were saved, oldest first.
    pub saved: Vec<CheckpointInfo>,
}

/// Exports the run as one file.
///
/// # Errors
/// [`CheckpointsError`] if it cannot be read.
pub async fn export_run(store: &dyn CheckpointStore, run: &RunId) -> Result<Vec<u8>, CheckpointsError> {
    let mut infos = store.list(&CheckpointFilter::of_run(run)).await?;
    infos.reverse();
    if infos.is_empty() {
        return Err(CheckpointsError::Empty { run: run.clone(), of: String::new() });
    }
    let head = Head { forge_run: VERSION, run: run.clone(), checkpoints: infos.len() };
    let mut lines = line(&head);
    let mut places: BTreeMap<CheckpointKey, (usize, usize)> = BTreeMap::new();
    let mut configuration: Option<Configuration> = None;
    for (place, info) in infos.iter().enumerate() {
        let Checkpoint { info, snapshot } = store.load(info.key).await?;
        let parent = info.parent.and_then(|key| places.get(&key)).copied();
        let n_known = parent.map_or(0, |(_, n_entries)| n_entries);
        places.insert(info.key, (place, info.n_entries));
        let is_new = configuration.as_ref() != Some(&snapshot.configuration);
        lines.extend(line(&Written {
            agent: info.agent,
            step: info.step,
            reason: info.reason,
            created_at: info.created_at,
            parent: parent.map(|(place, _)| place),
            progress: snapshot.progress,
            configuration: is_new.then(|| snapshot.configuration.clone()),
            entries: snapshot.conversation.entries()[n_known..].to_vec(),
        }));
        configuration = Some(snapshot.configuration);
    }
    let tail = Tail { sha256: digest(&lines) };
    lines.extend(line(&tail));
    Ok(lines)
}

/// Seals an exported run again, in whose lines texts were replaced.
pub fn seal_run(exported: &[u8]) -> Vec<u8> {
    let end = exported.len().saturating_sub(1);
    let last = exported[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |last| last + 1);
    let mut lines = exported[..last].to_vec();
    let tail = Tail { sha256: digest(&lines) };
    lines.extend(line(&tail));
    lines
}

/// Imports an exported run under its name, or as `name`: the same agents, labels, times and ids of messages;
/// only the checkpoints' numbers are the store's own. Importing it again changes nothing, and a run that is
/// partly there is completed.
///
/// # Errors
/// [`ArchiveError`]. Nothing is written before the whole file was read and checked. If the store fails during
/// the import, a run that was not there before is deleted again.
pub async fn import_run(
    store: &dyn CheckpointStore,
    bytes: &[u8],
    name: Option<&RunId>,
    writer: &Writer<'_>,
) -> Result<Imported, ArchiveError> {
    let (head, checkpoints) = read(bytes)?;
    let run = name.cloned().unwrap_or(head.run);
    if !run.is_plain() {
        return Err(ArchiveError::Name { run: run.to_string() });
    }
    let mut known = store.list(&CheckpointFilter::of_run(&run)).await?;
    known.reverse();
    let is_new = !store.runs().await?.iter().any(|known| known.run == run);
    let keys = known_keys(&known, &checkpoints).ok_or_else(|| ArchiveError::Diverged { run: run.clone() })?;
    let n_known = keys.len();
    if n_known == checkpoints.len() {
        return Ok(Imported { run, known: n_known, saved: Vec::new() });
    }
    let save_rest = async |claim: Claim| {
        let mut keys = keys.clone();
        let mut saved = Vec::new();
        for (parent, new) in &checkpoints[n_known..] {
            let parent = parent.map(|place| keys[place]);
            let info = store.save(&claim, &NewCheckpoint { parent, ..new.clone() }).await?;
            keys.push(info.key);
            saved.push(info);
        }
        Ok::<_, StoreError>(saved)
    };
    match writer.write(store, &run, save_rest).await {
        Ok(saved) => Ok(Imported { run, known: n_known, saved }),
        Err(error) => {
            if is_new {
                let _ = store.delete(&Deletion::Run(run), Sweep::Done).await;
            }
            Err(error.into())
        }
    }
}

/// Returns the keys of the file's first checkpoints, which are all that the store has of the run; `None` if
/// it has others.
fn known_keys(known: &[CheckpointInfo], checkpoints: &[Read]) -> Option<Vec<CheckpointKey>> {
    if known.len() > checkpoints.len() {
        return None;
    }
    let is_same = |info: &CheckpointInfo, new: &NewCheckpoint| {
        // Its number, and what it grew from, are the store's own.
        let CheckpointInfo { key, parent, .. } = *info;
        CheckpointInfo { parent, ..new.info(&info.run, key) } == *info
    };
    let mut pairs = known.iter().zip(checkpoints);
    pairs.all(|(info, (_, new))| is_same(info, new)).then(|| known.iter().map(|info| info.key).collect())
}

/// Reads the checkpoints of the file, each with the place of its parent.
fn read(bytes: &[u8]) -> Result<(Head, Vec<Read>), ArchiveError> {
    let damaged = |what: String| ArchiveError::Damaged { what };
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    let first = lines.next().unwrap_or_default();
    let version: serde_json::Value = serde_json::from_slice(first).map_err(|_| ArchiveError::NotARun)?;
    match version.get("forge_run").and_then(serde_json::Value::as_u64) {
        Some(found) if found > u64::from(VERSION) => {
            return Err(ArchiveError::Newer { found: u32::try_from(found).unwrap_or(u32::MAX) });
        }
        Some(1..) => {}
        _ => return Err(ArchiveError::NotARun),
    }
    let head: Head = serde_json::from_slice(first).map_err(|error| damaged(format!("line 1: {error}")))?;
    let rest: Vec<&[u8]> = lines.collect();
    let (last, checkpoints) = rest.split_last().ok_or_else(|| damaged("it ends after line 1".to_owned()))?;
    let cut_off = || damaged(format!("it ends in line {}", rest.len() + 1));
    let tail: Tail = serde_json::from_slice(last).map_err(|_| cut_off())?;
    if tail.sha256 != digest(&bytes[..bytes.len() - last.len()]) {
        return Err(damaged("its lines were changed".to_owned()));
    }
    if checkpoints.len() != head.checkpoints {
        return Err(damaged(format!("it has {} of {} checkpoints", checkpoints.len(), head.checkpoints)));
    }
    let mut read: Vec<Read> = Vec::new();
    for (place, bytes) in checkpoints.iter().enumerate() {
        let checkpoint = checkpoint(bytes, &read);
        read.push(checkpoint.map_err(|what| damaged(format!("line {}: {what}", place + 2)))?);
    }
    Ok((head, read))
}

fn checkpoint(bytes: &[u8], earlier: &[Read]) -> Result<Read, String> {
    let written: Written = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    let mut entries = match written.parent {
        None => Vec::new(),
        Some(place) => {
            let (_, parent) = earlier.get(place).ok_or("its parent does not come before it")?;
            parent.snapshot.conversation.entries().to_vec()
        }
    };
    entries.extend(written.entries);
    let last = || earlier.last().map(|(_, before)| before.snapshot.configuration.clone());
    let snapshot = ContextSnapshot {
        agent: written.agent,
        conversation: Conversation::restore(entries).map_err(|error| error.to_string())?,
        progress: written.progress,
        configuration: written.configuration.or_else(last).ok_or("it has no configuration")?,
    };
    let new = NewCheckpoint {
        snapshot,
        step: written.step,
        reason: written.reason,
        created_at: written.created_at,
        parent: None,
    };
    Ok((written.parent, new))
}

fn line(value: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(value)
        .unwrap_or_else(|error| unreachable!("every map here has texts for keys: {error}"));
    line.push(b'\n');
    line
}

fn digest(bytes: &[u8]) -> String {
    hex::encode(Sha256::digest(bytes))
}
