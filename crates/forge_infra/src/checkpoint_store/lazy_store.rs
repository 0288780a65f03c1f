//! A store that is opened when it is first needed, and again if that failed: a store that is unavailable for
//! a while costs a run only the checkpoints of that while.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{
    Action, ActionEnd, ActionKey, Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointKey,
    CheckpointOutline, CheckpointStore, Claim, Deletion, Found, Lease, Mending, NewAction, NewCheckpoint,
    Pruned, Retention, RunId, RunInfo, SearchQuery, StoreError, StoreHealth, Sweep, Takeover,
};
use jiff::Timestamp;
use tokio::sync::Mutex;

use super::{Access, SqlitePlace, StoreUrl, open_checkpoint_store};

/// A store that is opened when it is first needed. The folder of a SQLite file is created with it, readable
/// by its user alone.
pub struct OpeningCheckpointStore {
    url: StoreUrl,
    opened: Mutex<Option<Arc<dyn CheckpointStore>>>,
}

impl OpeningCheckpointStore {
    /// Creates the store at `url`, which is not opened yet.
    pub fn new(url: StoreUrl) -> Self {
        Self { url, opened: Mutex::new(None) }
    }

    /// Returns the store itself, and opens it if needed.
    ///
    /// # Errors
    /// Fails like [`open_checkpoint_store`]; the next call tries again.
    pub async fn store(&self) -> Result<Arc<dyn CheckpointStore>, StoreError> {
        let mut opened = self.opened.lock().await;
        if let Some(store) = &*opened {
            return Ok(Arc::clone(store));
        }
        if let StoreUrl::Sqlite(SqlitePlace { path, access: Access::ReadWrite, .. }) = &self.url
            && let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty())
        {
            let unavailable = |error: std::io::Error| StoreError::Unavailable {
                place: self.url.to_string(),
                source: error.into(),
            };
            make_folder(folder).map_err(unavailable)?;
        }
        let store = open_checkpoint_store(&self.url).await?;
        *opened = Some(Arc::clone(&store));
        Ok(store)
    }
}

/// Creates the folder if it is missing. Only its user may read it, as it holds what agents and users wrote.
fn make_folder(folder: &Path) -> std::io::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[async_trait]
impl CheckpointStore for OpeningCheckpointStore {
    async fn claim(
        &self,
        run: &RunId,
        holder: &str,
        takeover: Takeover,
        lease: Option<Lease>,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        self.store().await?.claim(run, holder, takeover, lease, now).await
    }

    async fn renew(&self, claim: &Claim, lease: Lease) -> Result<(), StoreError> {
        self.store().await?.renew(claim, lease).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        self.store().await?.release(claim).await
    }

    async fn confirm(&self, claim: &Claim) -> Result<(), StoreError> {
        self.store().await?.confirm(claim).await
    }

    async fn save(&self, claim: &Claim, checkpoint: &NewCheckpoint) -> Result<CheckpointInfo, StoreError> {
        self.store().await?.save(claim, checkpoint).await
    }

    async fn begin_action(&self, claim: &Claim, action: &NewAction) -> Result<ActionKey, StoreError> {
        self.store().await?.begin_action(claim, action).await
    }

    async fn end_action(&self, key: ActionKey, end: &ActionEnd) -> Result<(), StoreError> {
        self.store().await?.end_action(key, end).await
    }

    async fn actions(&self, run: &RunId) -> Result<Vec<Action>, StoreError> {
        self.store().await?.actions(run).await
    }

    async fn load(&self, key: CheckpointKey) -> Result<Checkpoint, StoreError> {
        self.store().await?.load(key).await
    }

    async fn outline(&self, key: CheckpointKey) -> Result<CheckpointOutline, StoreError> {
        self.store().await?.outline(key).await
    }

    async fn list(&self, filter: &CheckpointFilter) -> Result<Vec<CheckpointInfo>, StoreError> {
        self.store().await?.list(filter).await
    }

    async fn runs(&self) -> Result<Vec<RunInfo>, StoreError> {
        self.store().await?.runs().await
    }

    async fn delete(&self, what: &Deletion, sweep: Sweep) -> Result<Pruned, StoreError> {
        self.store().await?.delete(what, sweep).await
    }

    async fn prune(&self, retention: &Retention, now: Timestamp, sweep: Sweep) -> Result<Pruned, StoreError> {
        self.store().await?.prune(retention, now, sweep).await
    }

    async fn search(&self, run: &RunId, query: &SearchQuery) -> Result<Vec<Found>, StoreError> {
        self.store().await?.search(run, query).await
    }

    async fn check(&self, mending: Mending) -> Result<StoreHealth, StoreError> {
        self.store().await?.check(mending).await
    }
}
