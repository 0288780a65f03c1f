//! Checkpoints in a SQLite file: the store of one machine, which several processes may use at once.

mod error;
mod read;
mod schema;
mod sweep;
mod words;
mod write;

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use forge_domain::{
    Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointKey, CheckpointStore, Claim, Deletion, Found,
    Mending, NewCheckpoint, Pruned, Retention, RunId, RunInfo, SearchQuery, StoreError, StoreHealth, Sweep,
    Takeover,
};
use jiff::Timestamp;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use self::error::Place;
use super::record::Press;
use super::store_url::SqlitePlace;

/// Checkpoints in a SQLite file (WAL, `synchronous=NORMAL`).
pub struct SqliteCheckpointStore {
    desk: Arc<Mutex<Desk>>,
    place: Place,
}

/// What it takes to work on the file; one at a time.
struct Desk {
    connection: Connection,
    press: Press,
    place: Place,
}

impl SqliteCheckpointStore {
    /// Opens the file, makes it where it is not there, and migrates it where an older forge made it.
    ///
    /// # Errors
    /// [`StoreError`] where it cannot be opened, is none of ours, or is newer than this forge.
    pub async fn open(at: &SqlitePlace) -> Result<Self, StoreError> {
        let place = Place(at.path.display().to_string());
        let (at, named) = (at.clone(), place.clone());
        let open = move || {
            let unavailable = |error: std::io::Error| StoreError::Unavailable {
                place: named.0.clone(),
                source: error.into(),
            };
            let mut press = Press::new().map_err(unavailable)?;
            let connection = schema::open(&at, &mut press, &named)?;
            Ok(Desk { connection, press, place: named })
        };
        let desk = tokio::task::spawn_blocking(open).await.map_err(|error| lost(&place, error))??;
        Ok(Self { desk: Arc::new(Mutex::new(desk)), place })
    }

    /// Works on the file on a thread that may wait. Once begun, it is done to its end, whoever stops waiting for it.
    async fn at_desk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let desk = Arc::clone(&self.desk);
        let work = move || work(&mut desk.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(work).await.map_err(|error| lost(&self.place, error))?
    }
}

fn lost(place: &Place, error: tokio::task::JoinError) -> StoreError {
    StoreError::Unavailable { place: place.0.clone(), source: error.into() }
}

impl Desk {
    /// Does `work` in a transaction that writes: all of it or nothing.
    fn writing<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut Press, &Place) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { connection, press, place } = self;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = place.on(transaction)?;
        let done = work(&transaction, press, place)?;
        place.on(transaction.commit())?;
        Ok(done)
    }

    /// Sweeps in a transaction; a rehearsal is never committed.
    fn sweeping(
        &mut self,
        sweep: Sweep,
        work: impl FnOnce(&Transaction<'_>, &Place) -> Result<Pruned, StoreError>,
    ) -> Result<Pruned, StoreError> {
        let Self { connection, place, .. } = self;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = place.on(transaction)?;
        let pruned = work(&transaction, place)?;
        match sweep {
            Sweep::Done => place.on(transaction.commit())?,
            Sweep::Rehearsed => place.on(transaction.rollback())?,
        }
        Ok(pruned)
    }

    /// Does `work` on one state of the file, whoever else writes.
    fn reading<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut Press, &Place) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { connection, press, place } = self;
        let transaction = place.on(connection.transaction_with_behavior(TransactionBehavior::Deferred))?;
        work(&transaction, press, place)
    }
}

#[async_trait]
impl CheckpointStore for SqliteCheckpointStore {
    async fn claim(
        &self,
        run: &RunId,
        holder: &str,
        takeover: Takeover,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        let (run, holder) = (run.clone(), holder.to_owned());
        let claim = move |desk: &mut Desk| {
            desk.writing(|tx, _, place| write::claim(tx, place, &run, &holder, takeover, now))
        };
        self.at_desk(claim).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let claim = claim.clone();
        self.at_desk(move |desk| desk.writing(|tx, _, place| write::release(tx, place, &claim))).await
    }

    async fn save(&self, claim: &Claim, checkpoint: &NewCheckpoint) -> Result<CheckpointInfo, StoreError> {
        let (claim, checkpoint) = (claim.clone(), checkpoint.clone());
        let save = move |desk: &mut Desk| {
            desk.writing(|tx, press, place| write::save(tx, press, place, &claim, &checkpoint))
        };
        self.at_desk(save).await
    }

    async fn load(&self, key: CheckpointKey) -> Result<Checkpoint, StoreError> {
        self.at_desk(move |desk| desk.reading(|tx, press, place| read::load(tx, press, place, key))).await
    }

    async fn list(&self, filter: &CheckpointFilter) -> Result<Vec<CheckpointInfo>, StoreError> {
        let filter = filter.clone();
        self.at_desk(move |desk| desk.reading(|tx, _, place| read::list(tx, place, &filter))).await
    }

    async fn runs(&self) -> Result<Vec<RunInfo>, StoreError> {
        self.at_desk(|desk| desk.reading(|tx, _, place| read::runs(tx, place))).await
    }

    async fn delete(&self, what: &Deletion, sweep: Sweep) -> Result<Pruned, StoreError> {
        let what = what.clone();
        self.at_desk(move |desk| desk.sweeping(sweep, |tx, place| sweep::delete(tx, place, &what))).await
    }

    async fn prune(&self, retention: &Retention, now: Timestamp, sweep: Sweep) -> Result<Pruned, StoreError> {
        let retention = retention.clone();
        let prune =
            move |desk: &mut Desk| desk.sweeping(sweep, |tx, place| sweep::prune(tx, place, &retention, now));
        self.at_desk(prune).await
    }

    async fn search(&self, run: &RunId, query: &SearchQuery) -> Result<Vec<Found>, StoreError> {
        let (run, query) = (run.clone(), query.clone());
        let search = move |desk: &mut Desk| {
            desk.reading(|tx, press, place| read::search(tx, press, place, &run, &query))
        };
        self.at_desk(search).await
    }

    async fn check(&self, mending: Mending) -> Result<StoreHealth, StoreError> {
        self.at_desk(move |desk| {
            if mending == Mending::Indexes {
                desk.writing(sweep::rebuild_indexes)?;
            }
            desk.reading(read::check)
        })
        .await
    }
}
