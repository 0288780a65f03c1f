//! The state that a run resumes from, in the folder that its agent was told of.

use std::path::Path;

use forge_app::{Orchestrator, Restored, Resume, ResumeError, elsewhere, files_elsewhere, select};
use forge_domain::CheckpointStore;

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

/// Fails if the agent of the run that `which` names was told of another folder, which exists.
pub(crate) async fn refuse_elsewhere(store: &dyn CheckpointStore, which: &str) -> anyhow::Result<()> {
    let info = select(store, which, None).await?.info;
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
