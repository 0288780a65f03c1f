//! The state that a run resumes from, in the folder that its agent was told of.

use std::path::Path;

use forge_app::{
    CheckpointsError, Orchestrator, Restored, Resume, ResumeError, Scope, Selected, elsewhere,
    files_elsewhere, select_in,
};
use forge_domain::{AgentId, CheckpointStore, Holding, StoreError};
use forge_infra::ProcessHolder;

use super::explanation::explain_resume;
use crate::output::{self, visible};

/// Restores the state that `resume` names. A run whose agent was told of another folder continues here only
/// if that folder is gone.
pub(crate) async fn restore(orchestrator: &mut Orchestrator, resume: &Resume) -> anyhow::Result<Restored> {
    let restored = match orchestrator.restore(resume).await {
        Err(ResumeError::Elsewhere { folder, .. }) if !Path::new(&folder).is_dir() => {
            output::note(&format!(
                "the run worked in the folder {}, which is gone: it continues in this one, and the agent was not told \
                 of that",
                visible(&folder)
            ));
            orchestrator.restore(&Resume { anywhere: true, ..resume.clone() }).await
        }
        restored => restored,
    };
    restored.map_err(explain_resume)
}

/// Selects the checkpoint that the user named. As for `--resume`, `last` is the last of this folder.
pub(crate) async fn select_here(
    store: &dyn CheckpointStore,
    word: &str,
    agent: Option<&AgentId>,
) -> Result<Selected, CheckpointsError> {
    let here = std::env::current_dir().ok().map(|folder| folder.display().to_string());
    select_in(store, word, here.as_deref(), agent).await
}

/// Fails if the run that `which` names cannot continue here now: another process has it, or its agent was
/// told of another folder, which exists.
pub(crate) async fn refuse_unavailable(store: &dyn CheckpointStore, which: &str) -> anyhow::Result<()> {
    let Selected { info, scope } = select_here(store, which, None).await?;
    // A checkpoint begins a new run, even if somebody has the old one.
    if scope == Scope::Run {
        let known = store.runs().await?.into_iter().find(|known| known.run == info.run);
        let holder = known.and_then(|known| known.holder);
        let live = holder.filter(|holder| holder.is_live(&ProcessHolder::this()));
        if let Some(Holding { by, since, token, .. }) = live {
            return Err(StoreError::Held { run: info.run, by, since, token }.into());
        }
    }
    let here = std::env::current_dir().ok().map(|folder| folder.display().to_string());
    let checkpoint = store.load(info.key).await?;
    if let Some(error) = files_elsewhere(&checkpoint, here.as_deref()) {
        return Err(explain_resume(error));
    }
    match elsewhere(&checkpoint, here.as_deref()) {
        Some(folder) if Path::new(folder).is_dir() => {
            Err(explain_resume(ResumeError::Elsewhere { run: info.run, folder: folder.to_owned() }))
        }
        _ => Ok(()),
    }
}
