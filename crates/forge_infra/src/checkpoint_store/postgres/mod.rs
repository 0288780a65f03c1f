//! Checkpoints in a Postgres database: a store that several machines share.

mod actions;
mod claims;
mod connection;
mod error;
mod read;
mod schema;
mod sweep;
mod write;

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use forge_domain::{
    Action, ActionEnd, ActionKey, Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointKey,
    CheckpointOutline, CheckpointStore, Claim, Deletion, Found, Lease, Mending, NewAction, NewCheckpoint,
    Pruned, Retention, RunId, RunInfo, SearchQuery, StoreError, StoreHealth, Sweep, Takeover,
};
use jiff::Timestamp;
use tokio::sync::{Mutex, MutexGuard};
use tokio_postgres::{Config, IsolationLevel, Transaction};

use self::connection::Connection;
use self::error::ServerName;
use super::record::Press;

/// The longest time for one statement of a prune.
const PRUNE_PATIENCE: Duration = Duration::from_secs(60);
/// The longest time for one statement of a check or a repair: it may read or rebuild a whole table.
const CHECK_PATIENCE: Duration = Duration::from_secs(600);

/// A checkpoint store in a Postgres database. It has one connection, which is replaced when it breaks: an
/// agent saves a few times a minute, and simultaneous saves wait for each other. A server that does not
/// answer in time costs the operation, never more.
pub struct PostgresCheckpointStore {
    desk: Mutex<Desk>,
    config: Config,
    place: ServerName,
    /// True if an operation was abandoned halfway: its connection is not used again.
    is_abandoned: AtomicBool,
}

struct Desk {
    connection: Connection,
    press: Press,
}

impl PostgresCheckpointStore {
    /// Connects to the database of `config`, creates missing tables, and migrates old ones. Errors name it
    /// `place`.
    ///
    /// # Errors
    /// Fails with [`StoreError`] if it cannot be reached, or is newer than this Forge.
    pub async fn connect(config: Config, place: &str) -> Result<Self, StoreError> {
        let place = ServerName::new(place, connection::patience(&config));
        let mut connection = connection::connect(&config, &place).await?;
        let prepare = async {
            schema::migrate(&mut connection.client, &place).await?;
            schema::check_tables(&connection.client, &place).await
        };
        place.answering(place.patience, prepare).await?;
        let press = Press::new().map_err(|error| place.unavailable(error))?;
        let is_abandoned = AtomicBool::new(false);
        Ok(Self { desk: Mutex::new(Desk { connection, press }), config, place, is_abandoned })
    }

    /// Returns the desk, with a connection that was alive a moment ago. A broken connection is often noticed
    /// only by the next statement, which should not be a save.
    async fn desk(&self) -> Result<MutexGuard<'_, Desk>, StoreError> {
        let mut desk = self.desk.lock().await;
        let is_abandoned = self.is_abandoned.load(Ordering::Relaxed);
        let client = &desk.connection.client;
        if is_abandoned || client.is_closed() || client.simple_query("").await.is_err() {
            if is_abandoned {
                desk.connection.abandon();
            }
            desk.connection = connection::connect(&self.config, &self.place).await?;
            self.is_abandoned.store(false, Ordering::Relaxed);
        }
        Ok(desk)
    }

    /// Runs `work` as long as the server answers within the usual time.
    async fn in_time<T>(&self, work: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        self.within(self.place.patience, work).await
    }

    /// Runs `work` as long as the server answers each statement within `patience`.
    async fn within<T>(
        &self,
        patience: Duration,
        work: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let done = self.place.answering(patience, work).await;
        if matches!(done, Err(StoreError::TimedOut { .. })) {
            self.is_abandoned.store(true, Ordering::Relaxed);
        }
        done
    }

    /// Ends the transaction of a sweep; a rehearsal is never committed.
    async fn end(&self, tx: Transaction<'_>, sweep: Sweep) -> Result<(), StoreError> {
        self.place.on(match sweep {
            Sweep::Done => tx.commit().await,
            Sweep::Rehearsed => tx.rollback().await,
        })
    }
}

impl Desk {
    /// Starts a transaction that writes. Dropping it before its commit changes nothing.
    async fn writing(&mut self, place: &ServerName) -> Result<(Transaction<'_>, &mut Press), StoreError> {
        let transaction = place.on(self.connection.client.transaction().await)?;
        Ok((transaction, &mut self.press))
    }

    /// Starts a transaction that reads one state of the database, even if others write.
    async fn reading(&mut self, place: &ServerName) -> Result<(Transaction<'_>, &mut Press), StoreError> {
        let transaction = self.connection.client.build_transaction();
        let transaction = transaction.isolation_level(IsolationLevel::RepeatableRead).read_only(true);
        Ok((place.on(transaction.start().await)?, &mut self.press))
    }
}

/// Lets each statement of `tx` take up to `patience`.
async fn allow(tx: &Transaction<'_>, place: &ServerName, patience: Duration) -> Result<(), StoreError> {
    let limit = connection::statement_timeout(patience);
    place.on(tx.batch_execute(&format!("SET LOCAL statement_timeout = {limit}")).await)
}

#[async_trait]
impl CheckpointStore for PostgresCheckpointStore {
    async fn claim(
        &self,
        run: &RunId,
        holder: &str,
        takeover: Takeover,
        lease: Option<Lease>,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, _) = desk.writing(&self.place).await?;
            let claim = claims::claim(&tx, &self.place, run, holder, takeover, lease, now).await?;
            self.place.on(tx.commit().await)?;
            Ok(claim)
        })
        .await
    }

    async fn renew(&self, claim: &Claim, lease: Lease) -> Result<(), StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, _) = desk.writing(&self.place).await?;
            claims::renew(&tx, &self.place, claim, lease).await?;
            self.place.on(tx.commit().await)
        })
        .await
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, _) = desk.writing(&self.place).await?;
            let free = "UPDATE forge_run SET holder = NULL WHERE name = $1 AND token = $2";
            let token = claim.token.as_u64() as i64;
            self.place.on(tx.execute(free, &[&claim.run.as_str(), &token]).await)?;
            self.place.on(tx.commit().await)
        })
        .await
    }

    async fn confirm(&self, claim: &Claim) -> Result<(), StoreError> {
        self.in_time(async {
            // One round trip where the connection works; a broken one is replaced as for anything else.
            let asked = {
                let desk = self.desk.lock().await;
                let is_usable = !self.is_abandoned.load(Ordering::Relaxed);
                if is_usable { claims::confirm(&desk.connection.client, claim).await.ok() } else { None }
            };
            let row = match asked {
                Some(row) => row,
                None => self.place.on(claims::confirm(&self.desk().await?.connection.client, claim).await)?,
            };
            claims::check(row.as_ref(), &self.place, claim).map(drop)
        })
        .await
    }

    async fn save(&self, claim: &Claim, checkpoint: &NewCheckpoint) -> Result<CheckpointInfo, StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, press) = desk.writing(&self.place).await?;
            let info = write::save(&tx, press, &self.place, claim, checkpoint).await?;
            self.place.on(tx.commit().await)?;
            Ok(info)
        })
        .await
    }

    async fn begin_action(&self, claim: &Claim, action: &NewAction) -> Result<ActionKey, StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, _) = desk.writing(&self.place).await?;
            let key = actions::begin(&tx, &self.place, claim, action).await?;
            self.place.on(tx.commit().await)?;
            Ok(key)
        })
        .await
    }

    async fn end_action(&self, key: ActionKey, end: &ActionEnd) -> Result<(), StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, _) = desk.writing(&self.place).await?;
            actions::end(&tx, &self.place, key, end).await?;
            self.place.on(tx.commit().await)
        })
        .await
    }

    async fn actions(&self, run: &RunId) -> Result<Vec<Action>, StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, _) = desk.reading(&self.place).await?;
            actions::list(&tx, &self.place, run).await
        })
        .await
    }

    async fn load(&self, key: CheckpointKey) -> Result<Checkpoint, StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, press) = desk.reading(&self.place).await?;
            read::load(&tx, press, &self.place, key).await
        })
        .await
    }

    async fn outline(&self, key: CheckpointKey) -> Result<CheckpointOutline, StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, press) = desk.reading(&self.place).await?;
            read::outline(&tx, press, &self.place, key).await
        })
        .await
    }

    async fn list(&self, filter: &CheckpointFilter) -> Result<Vec<CheckpointInfo>, StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, _) = desk.reading(&self.place).await?;
            read::list(&tx, &self.place, filter).await
        })
        .await
    }

    async fn runs(&self) -> Result<Vec<RunInfo>, StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, _) = desk.reading(&self.place).await?;
            read::runs(&tx, &self.place).await
        })
        .await
    }

    async fn delete(&self, what: &Deletion, sweep: Sweep) -> Result<Pruned, StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, _) = desk.writing(&self.place).await?;
            let pruned = sweep::delete(&tx, &self.place, what).await?;
            self.end(tx, sweep).await?;
            Ok(pruned)
        })
        .await
    }

    async fn prune(&self, retention: &Retention, now: Timestamp, sweep: Sweep) -> Result<Pruned, StoreError> {
        self.within(PRUNE_PATIENCE, async {
            let mut desk = self.desk().await?;
            let (tx, _) = desk.writing(&self.place).await?;
            allow(&tx, &self.place, PRUNE_PATIENCE).await?;
            let pruned = sweep::prune(&tx, &self.place, retention, now).await?;
            self.end(tx, sweep).await?;
            Ok(pruned)
        })
        .await
    }

    async fn search(&self, run: &RunId, query: &SearchQuery) -> Result<Vec<Found>, StoreError> {
        self.in_time(async {
            let mut desk = self.desk().await?;
            let (tx, press) = desk.reading(&self.place).await?;
            read::search(&tx, press, &self.place, run, query).await
        })
        .await
    }

    async fn check(&self, mending: Mending) -> Result<StoreHealth, StoreError> {
        self.within(CHECK_PATIENCE, async {
            let mut desk = self.desk().await?;
            if mending == Mending::Indexes {
                let (tx, press) = desk.writing(&self.place).await?;
                allow(&tx, &self.place, CHECK_PATIENCE).await?;
                sweep::rebuild_indexes(&tx, press, &self.place).await?;
                self.place.on(tx.commit().await)?;
            }
            let (tx, press) = desk.reading(&self.place).await?;
            allow(&tx, &self.place, CHECK_PATIENCE).await?;
            read::check(&tx, press, &self.place).await
        })
        .await
    }
}
