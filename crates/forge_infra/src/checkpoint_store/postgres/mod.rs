//! Checkpoints in a Postgres database: a store that several machines share.

mod connection;
mod error;
mod read;
mod schema;
mod sweep;
mod write;

use async_trait::async_trait;
use forge_domain::{
    Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointKey, CheckpointStore, Claim, Deletion, Found,
    Mending, NewCheckpoint, Pruned, Retention, RunId, RunInfo, SearchQuery, StoreError, StoreHealth, Sweep,
    Takeover,
};
use jiff::Timestamp;
use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::{Client, Config, IsolationLevel, Transaction};

use self::error::Place;
use super::record::Press;

/// Checkpoints in a Postgres database. One connection, which is made anew when it broke: an agent saves a few times a
/// minute, and what saves at once waits for its turn.
pub struct PostgresCheckpointStore {
    desk: Mutex<Desk>,
    config: Config,
    place: Place,
}

struct Desk {
    client: Client,
    press: Press,
}

impl PostgresCheckpointStore {
    /// Connects to the database of `config`, makes its tables where there are none, and migrates old ones. Errors call it
    /// `place`.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be reached, or is newer than this forge.
    pub async fn connect(config: Config, place: &str) -> Result<Self, StoreError> {
        let place = Place(place.to_owned());
        let mut client = connection::connect(&config, &place).await?;
        schema::migrate(&mut client, &place).await?;
        let press = Press::new().map_err(|error| place.unavailable(error))?;
        Ok(Self { desk: Mutex::new(Desk { client, press }), config, place })
    }

    /// The desk, with a connection that was alive a moment ago: one that broke is often known to have broken only by the
    /// next thing that is asked of it, and that should not be a save.
    async fn desk(&self) -> Result<MutexGuard<'_, Desk>, StoreError> {
        let mut desk = self.desk.lock().await;
        if desk.client.is_closed() || desk.client.simple_query("").await.is_err() {
            desk.client = connection::connect(&self.config, &self.place).await?;
        }
        Ok(desk)
    }

    /// Ends a transaction that swept; a rehearsal is never committed.
    async fn end(&self, tx: Transaction<'_>, sweep: Sweep) -> Result<(), StoreError> {
        self.place.on(match sweep {
            Sweep::Done => tx.commit().await,
            Sweep::Rehearsed => tx.rollback().await,
        })
    }
}

impl Desk {
    /// A transaction that writes. Whoever lets go of it before its commit has changed nothing.
    async fn writing(&mut self, place: &Place) -> Result<(Transaction<'_>, &mut Press), StoreError> {
        let transaction = place.on(self.client.transaction().await)?;
        Ok((transaction, &mut self.press))
    }

    /// A transaction that reads one state of the database, whoever else writes.
    async fn reading(&mut self, place: &Place) -> Result<(Transaction<'_>, &mut Press), StoreError> {
        let transaction = self.client.build_transaction();
        let transaction = transaction.isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        Ok((place.on(transaction.start().await)?, &mut self.press))
    }
}

#[async_trait]
impl CheckpointStore for PostgresCheckpointStore {
    async fn claim(
        &self,
        run: &RunId,
        holder: &str,
        takeover: Takeover,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        let mut desk = self.desk().await?;
        let (tx, _) = desk.writing(&self.place).await?;
        let claim = write::claim(&tx, &self.place, run, holder, takeover, now).await?;
        self.place.on(tx.commit().await)?;
        Ok(claim)
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let mut desk = self.desk().await?;
        let (tx, _) = desk.writing(&self.place).await?;
        let free = "UPDATE forge_run SET holder = NULL WHERE name = $1 AND token = $2";
        let token = claim.token.as_u64() as i64;
        self.place.on(tx.execute(free, &[&claim.run.as_str(), &token]).await)?;
        self.place.on(tx.commit().await)
    }

    async fn save(&self, claim: &Claim, checkpoint: &NewCheckpoint) -> Result<CheckpointInfo, StoreError> {
        let mut desk = self.desk().await?;
        let (tx, press) = desk.writing(&self.place).await?;
        let info = write::save(&tx, press, &self.place, claim, checkpoint).await?;
        self.place.on(tx.commit().await)?;
        Ok(info)
    }

    async fn load(&self, key: CheckpointKey) -> Result<Checkpoint, StoreError> {
        let mut desk = self.desk().await?;
        let (tx, press) = desk.reading(&self.place).await?;
        read::load(&tx, press, &self.place, key).await
    }

    async fn list(&self, filter: &CheckpointFilter) -> Result<Vec<CheckpointInfo>, StoreError> {
        let mut desk = self.desk().await?;
        let (tx, _) = desk.reading(&self.place).await?;
        read::list(&tx, &self.place, filter).await
    }

    async fn runs(&self) -> Result<Vec<RunInfo>, StoreError> {
        let mut desk = self.desk().await?;
        let (tx, _) = desk.reading(&self.place).await?;
        read::runs(&tx, &self.place).await
    }

    async fn delete(&self, what: &Deletion, sweep: Sweep) -> Result<Pruned, StoreError> {
        let mut desk = self.desk().await?;
        let (tx, _) = desk.writing(&self.place).await?;
        let pruned = sweep::delete(&tx, &self.place, what).await?;
        self.end(tx, sweep).await?;
        Ok(pruned)
    }

    async fn prune(&self, retention: &Retention, now: Timestamp, sweep: Sweep) -> Result<Pruned, StoreError> {
        let mut desk = self.desk().await?;
        let (tx, _) = desk.writing(&self.place).await?;
        let pruned = sweep::prune(&tx, &self.place, retention, now).await?;
        self.end(tx, sweep).await?;
        Ok(pruned)
    }

    async fn search(&self, run: &RunId, query: &SearchQuery) -> Result<Vec<Found>, StoreError> {
        let mut desk = self.desk().await?;
        let (tx, press) = desk.reading(&self.place).await?;
        read::search(&tx, press, &self.place, run, query).await
    }

    async fn check(&self, mending: Mending) -> Result<StoreHealth, StoreError> {
        let mut desk = self.desk().await?;
        if mending == Mending::Indexes {
            let (tx, press) = desk.writing(&self.place).await?;
            sweep::rebuild_indexes(&tx, press, &self.place).await?;
            self.place.on(tx.commit().await)?;
        }
        let (tx, press) = desk.reading(&self.place).await?;
        read::check(&tx, press, &self.place).await
    }
}
