//! The answers that a saved run waits for, its workspace, and its agent's last words, as its latest
//! checkpoints have them.

use forge_domain::{
    Awaited, CheckpointFilter, CheckpointKey, CheckpointStore, Role, RunId, StoreError, Workspace,
};

use super::{latest_of_agents, newest_of};
use crate::course::Dialogue;

/// Most attempts to read a run that is being written.
pub(crate) const READS: usize = 10;

/// Returns what the run waits for: that of each agent's latest checkpoint.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn awaited(store: &dyn CheckpointStore, run: &RunId) -> Result<Vec<Awaited>, StoreError> {
    again(async || {
        let mut awaited = Vec::new();
        for info in latest_of_agents(&store.list(&CheckpointFilter::of_run(run)).await?) {
            awaited.extend(Dialogue::awaited(&store.outline(info.key).await?.progress));
        }
        Ok(awaited)
    })
    .await
}

/// Returns the latest checkpoint of the run, and the workspace that it keeps; that is `None` if the run works
/// in the folder of the process that continues it.
///
/// # Errors
/// [`StoreError`] if the store fails; [`StoreError::NotFound`] if it has no checkpoint of the run.
pub async fn saved_workspace(
    store: &dyn CheckpointStore,
    run: &RunId,
) -> Result<(CheckpointKey, Option<Workspace>), StoreError> {
    again(async || {
        let newest = newest_of(store, run).await?;
        let key = newest.map(|newest| newest.key).ok_or_else(|| StoreError::NotFound {
            place: "the store".to_owned(),
            what: format!("run `{run}`"),
        })?;
        let progress = store.outline(key).await?.progress;
        Ok((key, Workspace::saved_with(&progress)))
    })
    .await
}

/// Returns what the agent of the run's latest checkpoint said last.
///
/// # Errors
/// [`StoreError`] if the store fails.
pub async fn last_words(store: &dyn CheckpointStore, run: &RunId) -> Result<Option<String>, StoreError> {
    again(async || {
        let Some(latest) = newest_of(store, run).await? else { return Ok(None) };
        let conversation = store.load(latest.key).await?.snapshot.conversation;
        let said = conversation.messages().filter(|message| message.role() == Role::Assistant);
        let texts = said.map(|message| message.message().to_text()).filter(|text| !text.trim().is_empty());
        Ok(texts.last())
    })
    .await
}

/// Reads a run that may be written meanwhile: what was its latest checkpoint a moment ago may be gone.
async fn again<T>(read: impl AsyncFn() -> Result<T, StoreError>) -> Result<T, StoreError> {
    for _ in 1..READS {
        match read().await {
            Err(StoreError::NotFound { .. }) => {}
            done => return done,
        }
    }
    read().await
}
