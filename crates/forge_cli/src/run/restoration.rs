//! The state that a run resumes from, in the folder that its agent was told of.

use std::path::Path;

use forge_app::{
    Orchestrator, Restored, Resume, ResumeError, Scope, Selected, elsewhere, files_elsewhere, select,
};
use forge_domain::{CheckpointStore, Holder as _, Holding, RunId, StoreError};
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

/// Fails if the run that `which` names cannot continue here now: another process than that of the run `own`
/// has it, or its agent was told of another folder, which exists.
pub(crate) async fn refuse_unavailable(
    store: &dyn CheckpointStore,
    which: &str,
    own: Option<&RunId>,
) -> anyhow::Result<()> {
    let Selected { info, scope } = select(store, which, None).await?;
    // From a checkpoint, a new run begins, whoever has its run.
    if scope == Scope::Run && own != Some(&info.run) {
        let known = store.runs().await?.into_iter().find(|known| known.run == info.run);
        let is_live = |held: &Holding| !held.has_lapsed() && !ProcessHolder::this().is_gone(&held.by);
        if let Some(Holding { by, since, token, .. }) = known.and_then(|known| known.holder).filter(is_live) {
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
