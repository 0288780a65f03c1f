//! The saved state that a run resumes from.

use forge_domain::{
    Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointStore, CommitId, Deletion, Difference,
    GitAddress, OnChange, Role, RunId, StoreError, Sweep, Workspace,
};

use crate::checkpointing::Checkpointing;
use crate::checkpoints::{READS, Scope, Selected, last_of, newest_of, select_in};
use crate::{CheckpointsError, RunError, TakeFrom};

/// A request to resume a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resume {
    /// The word for the checkpoint, as in [`crate::select`]. `last` is the run of this folder that was saved
    /// last.
    pub which: String,
    /// The policy if the configuration has changed since; the store's policy if unset.
    pub on_change: Option<OnChange>,
    /// The holders that the run may be taken over from.
    pub take_from: TakeFrom,
    /// True if the run may continue in another folder than the one that its agents were told of.
    pub anywhere: bool,
}

impl Resume {
    /// Creates a request to resume from `which`.
    pub fn from(which: impl Into<String>) -> Self {
        Self { which: which.into(), ..Self::default() }
    }
}

/// The state that a run resumed from.
#[derive(Clone, Debug, PartialEq)]
pub struct Restored {
    /// The run that continues: the same, or a new one that begins with its state.
    pub run: RunId,
    /// The state.
    pub from: CheckpointInfo,
    /// True if the run is a new one: the state was not the last of its run, or the configuration has changed.
    pub is_fork: bool,
    /// True if nothing was left to be done: it only continues with a new task.
    pub is_over: bool,
    /// The differences between the configuration and the saved one. The keys of several agents begin with
    /// their names.
    pub differences: Vec<Difference>,
}

/// An error that prevents a run from being resumed.
#[derive(Debug, thiserror::Error)]
pub enum ResumeError {
    /// No checkpoints are saved.
    #[error("no checkpoints are kept here, so there is nothing to resume: name a store")]
    NotKept,
    /// The store has no run of this folder.
    #[error("there is no run of this folder in the store: name the run to resume")]
    NoRun,
    /// The word names no checkpoint in the store, or several.
    #[error(transparent)]
    Unclear(#[from] CheckpointsError),
    /// The agent of the state is no longer configured.
    #[error("agent `{agent}` of this run is not configured any more (expected one of {known})")]
    AgentGone {
        /// The agent.
        agent: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// It is the replay of another session.
    #[error("run `{0}` is the replay of another session: name the run of this one")]
    OtherSession(RunId),
    /// An agent was told of another folder than this one.
    #[error("run `{run}` works in the folder {folder}, as its agent was told")]
    Elsewhere {
        /// The run.
        run: RunId,
        /// The folder.
        folder: String,
    },
    /// Its files travel with it, and are not those of this folder.
    #[error("run `{run}` works on commit {commit} of {git}, not on the files of this folder")]
    InWorkspace {
        /// The run.
        run: RunId,
        /// The repository that has the files.
        git: GitAddress,
        /// The commit that has them.
        commit: CommitId,
    },
    /// The configuration has changed, and the policy refuses that.
    #[error("the configuration has changed since it was saved:\n{}", in_lines(.0))]
    Changed(Vec<Difference>),
    /// Another process saved a later state at this moment. It still holds the run.
    #[error(
        "run `{0}` was saved again by another process while it was read: nothing was taken over; try again"
    )]
    Moved(RunId),
    /// The store fails.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The agent cannot work as it is configured.
    #[error(transparent)]
    Work(#[from] RunError),
}

/// Returns the folder in which the work of `checkpoint` was done, if it is not `here` and the agent was told
/// of it: tools would work in one folder while the model believes to be in another.
pub fn elsewhere<'c>(checkpoint: &'c Checkpoint, here: Option<&str>) -> Option<&'c str> {
    let snapshot = &checkpoint.snapshot;
    let folder = snapshot.configuration.0.get("folder")?.as_str()?;
    let is_told = || {
        let mut systems = snapshot.conversation.messages().filter(|message| message.role() == Role::System);
        systems.any(|system| system.message().to_text().contains(folder))
    };
    (here.is_some_and(|here| here != folder) && is_told()).then_some(folder)
}

/// Returns why the work of `checkpoint` cannot continue in the folder `here`: its files travel with it.
pub fn files_elsewhere(checkpoint: &Checkpoint, here: Option<&str>) -> Option<ResumeError> {
    let Some(Workspace::Git(tree)) = Workspace::saved_with(&checkpoint.snapshot.progress) else {
        return None;
    };
    let run = checkpoint.info.run.clone();
    let (git, commit) = (tree.keeper().clone(), tree.commit().clone());
    here.is_some().then_some(ResumeError::InWorkspace { run, git, commit })
}

/// Most characters of a value that is shown whole.
const SHOWN: usize = 60;

/// Returns each difference on its own line, with long values cut short.
pub(crate) fn in_lines(differences: &[Difference]) -> String {
    let mut lines = Vec::new();
    for Difference { key, then, now } in differences {
        lines.push(format!("  {key}: {} → {}", short(then.as_ref()), short(now.as_ref())));
    }
    lines.join("\n")
}

/// Returns a value as text, cut short.
fn short(value: Option<&serde_json::Value>) -> String {
    let Some(value) = value else { return "unset".to_owned() };
    let text = value.to_string();
    let cut: String = text.chars().take(SHOWN).collect();
    if cut.len() < text.len() { cut + "…" } else { text }
}

/// A saved state of a run: of the agent that was at work, and of those that had worked before.
pub(crate) struct Found {
    pub(crate) checkpoint: Checkpoint,
    pub(crate) others: Vec<Checkpoint>,
    /// True if the run has no later state.
    pub(crate) is_latest: bool,
    /// The scope of the name: the run, or this checkpoint of it.
    pub(crate) scope: Scope,
}

impl Found {
    /// Takes the run over, so that no other process writes it, and reads the state that it then has. If that
    /// is still this one, it is returned as it is. A run that cannot be resumed is left to its holder, or
    /// released.
    ///
    /// # Errors
    /// [`ResumeError`]. Nothing is claimed then.
    pub(crate) async fn adopt(
        self,
        checkpointing: &Checkpointing,
        take_from: TakeFrom,
    ) -> Result<Self, ResumeError> {
        let Self { checkpoint: Checkpoint { info, .. }, scope, .. } = &self;
        let run = info.run.clone();
        let moved = |error| match error {
            StoreError::Moved { run } => ResumeError::Moved(run),
            error => error.into(),
        };
        // A run may be saved again until it is claimed; a checkpoint that was named is resumed only
        // while it is the latest.
        let latest = (*scope == Scope::Checkpoint).then_some(info.key);
        checkpointing.adopt(&run, take_from, latest).await.map_err(moved)?;
        let now = match newest_of(checkpointing.store(), &run).await {
            Ok(Some(newest)) if newest.key == info.key => return Ok(self),
            Ok(Some(newest)) if *scope == Scope::Run => {
                read(checkpointing.store(), newest, Scope::Run).await.map_err(ResumeError::from)
            }
            Ok(Some(_)) => Err(ResumeError::Moved(run)),
            Ok(None) => {
                // It was deleted before it was claimed: nothing of it is left behind.
                checkpointing.store().delete(&Deletion::Run(run), Sweep::Done).await?;
                Err(ResumeError::NoRun)
            }
            Err(error) => Err(error.into()),
        };
        if now.is_err() {
            checkpointing.give_up().await;
        }
        now
    }
}

/// Finds the state that `word` means in `folder`.
pub(crate) async fn find(
    store: &dyn CheckpointStore,
    word: &str,
    folder: Option<&str>,
) -> Result<Found, ResumeError> {
    for _ in 0..READS {
        let Selected { info, scope } = select_word(store, word, folder).await?;
        match read(store, info, scope).await {
            // The run is being written: what was its latest checkpoint a moment ago may be gone.
            Err(StoreError::NotFound { .. }) if scope == Scope::Run => {}
            found => return Ok(found?),
        }
    }
    let Selected { info, scope } = select_word(store, word, folder).await?;
    Ok(read(store, info, scope).await?)
}

/// Reads the state of `info` and of the other agents of its run.
async fn read(store: &dyn CheckpointStore, info: CheckpointInfo, scope: Scope) -> Result<Found, StoreError> {
    let newest = newest_of(store, &info.run).await?;
    // Of a run that is being written, a later one than that which was selected may be the latest.
    let info = if scope == Scope::Run { newest.clone().unwrap_or(info) } else { info };
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
    Ok(Found { checkpoint, others: loaded, is_latest, scope })
}

async fn select_word(
    store: &dyn CheckpointStore,
    word: &str,
    folder: Option<&str>,
) -> Result<Selected, ResumeError> {
    if word == "last" {
        let last = last_of(store, folder, None).await?.ok_or(ResumeError::NoRun)?;
        return Ok(Selected { info: last, scope: Scope::Run });
    }
    Ok(select_in(store, word, folder, None).await?)
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
