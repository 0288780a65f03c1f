//! Checkpoints in a SQLite file: the store of one machine, which several processes may use at once.

mod actions;
mod claims;
mod error;
mod line;
mod opened_file;
mod read;
mod schema;
mod sweep;
mod words;
mod write;

use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{
    Action, ActionEnd, ActionKey, Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointKey,
    CheckpointOutline, CheckpointStore, Claim, Deletion, Found, Lease, Mending, NewAction, NewCheckpoint,
    Pruned, Retention, RunId, RunInfo, SearchQuery, StoreError, StoreHealth, Sweep, Takeover,
};
use jiff::Timestamp;
use parking_lot::Mutex;
use rusqlite::{Connection, Transaction, TransactionBehavior};

use self::error::StoreFileName;
use self::opened_file::OpenedFile;
use super::record::Press;
use super::store_url::SqlitePlace;

/// A checkpoint store in a SQLite file (WAL, `synchronous=NORMAL`).
pub struct SqliteCheckpointStore {
    desk: Arc<Mutex<Desk>>,
    place: StoreFileName,
}

/// The connection to the file and its tools; one task uses it at a time.
struct Desk {
    connection: Connection,
    press: Press,
    place: StoreFileName,
    file: OpenedFile,
}

impl SqliteCheckpointStore {
    /// Opens the file, creates it if it is missing, and migrates it if an older Forge made it.
    ///
    /// # Errors
    /// Fails with [`StoreError`] if it cannot be opened, is not a checkpoint store, or is newer than this
    /// Forge.
    pub async fn open(at: &SqlitePlace) -> Result<Self, StoreError> {
        let place = StoreFileName(at.path.display().to_string());
        let (at, named) = (at.clone(), place.clone());
        let open = move || {
            let unavailable = |error: std::io::Error| StoreError::Unavailable {
                place: named.0.clone(),
                source: error.into(),
            };
            let mut press = Press::new().map_err(unavailable)?;
            let connection = schema::open(&at, &mut press, &named)?;
            Ok(Desk { connection, press, place: named, file: OpenedFile::at(&at.path) })
        };
        let desk =
            tokio::task::spawn_blocking(open).await.map_err(|error| worker_failure(&place, error))??;
        Ok(Self { desk: Arc::new(Mutex::new(desk)), place })
    }

    /// Runs `work` on a thread that may block. Once started, it runs to its end, even if its caller stops
    /// waiting.
    async fn at_desk<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Desk) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let desk = Arc::clone(&self.desk);
        let work = move || work(&mut desk.lock());
        tokio::task::spawn_blocking(work).await.map_err(|error| worker_failure(&self.place, error))?
    }
}

fn worker_failure(place: &StoreFileName, error: tokio::task::JoinError) -> StoreError {
    StoreError::Unavailable { place: place.0.clone(), source: error.into() }
}

impl Desk {
    /// Runs `work` in a transaction that writes everything or nothing.
    fn writing<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut Press, &StoreFileName) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { connection, press, place, file } = self;
        let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
        let transaction = place.on(transaction)?;
        let done = work(&transaction, press, place)?;
        file.check(place)?;
        place.on(transaction.commit())?;
        Ok(done)
    }

    /// Sweeps in a transaction; a rehearsal is never committed.
    fn sweeping(
        &mut self,
        sweep: Sweep,
        work: impl FnOnce(&Transaction<'_>, &StoreFileName) -> Result<Pruned, StoreError>,
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

    /// Runs `work` on one state of the file, even if others write.
    fn reading<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>, &mut Press, &StoreFileName) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let Self { connection, press, place, .. } = self;
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
        lease: Option<Lease>,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        let (run, holder) = (run.clone(), holder.to_owned());
        let claim = move |desk: &mut Desk| {
            desk.writing(|tx, _, place| claims::claim(tx, place, &run, &holder, takeover, lease, now))
        };
        self.at_desk(claim).await
    }

    async fn renew(&self, claim: &Claim, lease: Lease) -> Result<(), StoreError> {
        let claim = claim.clone();
        self.at_desk(move |desk| desk.writing(|tx, _, place| claims::renew(tx, place, &claim, lease))).await
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let claim = claim.clone();
        self.at_desk(move |desk| desk.writing(|tx, _, place| claims::release(tx, place, &claim))).await
    }

    async fn confirm(&self, claim: &Claim) -> Result<(), StoreError> {
        let claim = claim.clone();
        let confirm =
            move |desk: &mut Desk| desk.reading(|tx, _, place| claims::confirm(tx, place, &claim).map(drop));
        self.at_desk(confirm).await
    }

    async fn save(&self, claim: &Claim, checkpoint: &NewCheckpoint) -> Result<CheckpointInfo, StoreError> {
        let (claim, checkpoint) = (claim.clone(), checkpoint.clone());
        let save = move |desk: &mut Desk| {
            desk.writing(|tx, press, place| write::save(tx, press, place, &claim, &checkpoint))
        };
        self.at_desk(save).await
    }

    async fn begin_action(&self, claim: &Claim, action: &NewAction) -> Result<ActionKey, StoreError> {
        let (claim, action) = (claim.clone(), action.clone());
        let begin =
            move |desk: &mut Desk| desk.writing(|tx, _, place| actions::begin(tx, place, &claim, &action));
        self.at_desk(begin).await
    }

    async fn end_action(&self, key: ActionKey, end: &ActionEnd) -> Result<(), StoreError> {
        let end = end.clone();
        self.at_desk(move |desk| desk.writing(|tx, _, place| actions::end(tx, place, key, &end))).await
    }

    async fn actions(&self, run: &RunId) -> Result<Vec<Action>, StoreError> {
        let run = run.clone();
        self.at_desk(move |desk| desk.reading(|tx, _, place| actions::list(tx, place, &run))).await
    }

    async fn load(&self, key: CheckpointKey) -> Result<Checkpoint, StoreError> {
        self.at_desk(move |desk| desk.reading(|tx, press, place| read::load(tx, press, place, key))).await
    }

    async fn outline(&self, key: CheckpointKey) -> Result<CheckpointOutline, StoreError> {
        self.at_desk(move |desk| desk.reading(|tx, press, place| read::outline(tx, press, place, key))).await
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

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use forge_domain::{
        AgentId, CheckpointReason, ContextMessage, ContextSnapshot, Conversation, Message, MessageId,
        Progress, Tokens,
    };

    use super::*;

    #[cfg(unix)]
    #[tokio::test]
    async fn a_new_store_is_only_for_its_user() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("runs.db");
        let _store = SqliteCheckpointStore::open(&SqlitePlace::new(file.clone())).await.unwrap();
        // A link may lead to a file that does not exist yet.
        let link = folder.path().join("link.db");
        std::os::unix::fs::symlink("linked.db", &link).unwrap();
        let _linked = SqliteCheckpointStore::open(&SqlitePlace::new(link)).await.unwrap();
        assert!(folder.path().join("linked.db").exists());
        for name in std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path()) {
            let mode = std::fs::metadata(&name).unwrap().permissions().mode();
            assert_eq!(mode & 0o077, 0, "{}", name.display());
        }
        assert!(file.exists());
    }

    /// A store whose work is counted, in hundreds of steps of SQLite's virtual machine, and a run that it
    /// keeps.
    struct Counted {
        store: SqliteCheckpointStore,
        n_steps: Arc<AtomicU64>,
        claim: Claim,
        snapshot: ContextSnapshot,
        parent: Option<CheckpointKey>,
        _folder: tempfile::TempDir,
    }

    impl Counted {
        async fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            let place = SqlitePlace::new(folder.path().join("runs.db"));
            let store = SqliteCheckpointStore::open(&place).await.unwrap();
            let n_steps = Arc::new(AtomicU64::new(0));
            let counted = Arc::clone(&n_steps);
            let count = move || {
                counted.fetch_add(1, Ordering::Relaxed);
                false
            };
            store.desk.lock().connection.progress_handler(100, Some(count)).unwrap();
            let run = RunId::new("a").unwrap();
            let claim =
                store.claim(&run, "the test", Takeover::Never, None, Timestamp::UNIX_EPOCH).await.unwrap();
            let snapshot = ContextSnapshot {
                agent: AgentId::new("one").unwrap(),
                conversation: Conversation::new(),
                progress: Progress::default(),
                configuration: serde_json::from_str("{}").unwrap(),
            };
            Self { store, n_steps, claim, snapshot, parent: None, _folder: folder }
        }

        async fn save(&mut self, step: String, text: String) -> CheckpointKey {
            let message = ContextMessage::restored(MessageId::FIRST, Tokens::new(9), Message::user(text));
            self.snapshot.conversation.append(message);
            let new = NewCheckpoint {
                snapshot: self.snapshot.clone(),
                step,
                reason: CheckpointReason::Iteration,
                created_at: Timestamp::UNIX_EPOCH,
                parent: self.parent,
            };
            let key = self.store.save(&self.claim, &new).await.unwrap().key;
            self.parent = Some(key);
            key
        }

        /// Saves as a run does: before the calls, and after them, when the first save is replaced.
        async fn iterate(&mut self, iterations: Range<usize>) -> u64 {
            let before = self.n_steps.load(Ordering::Relaxed);
            for n in iterations {
                self.snapshot.progress.iterations = n;
                let calls = self.save(format!("calls-{n}"), format!("call {n}")).await;
                self.store.confirm(&self.claim).await.unwrap();
                self.save(format!("iteration-{n}"), format!("result {n}")).await;
                self.store.delete(&Deletion::Checkpoint(calls), Sweep::Done).await.unwrap();
            }
            self.n_steps.load(Ordering::Relaxed) - before
        }

        async fn check(&self) -> u64 {
            let before = self.n_steps.load(Ordering::Relaxed);
            let health = self.store.check(Mending::LookOnly).await.unwrap();
            assert_eq!(health.faults, Vec::<String>::new());
            self.n_steps.load(Ordering::Relaxed) - before
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn nothing_is_saved_into_a_file_that_is_no_longer_in_its_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("runs.db");
        let store = SqliteCheckpointStore::open(&SqlitePlace::new(file.clone())).await.unwrap();
        let claim = async |run: &str| {
            let run = RunId::new(run).unwrap();
            store.claim(&run, "the test", Takeover::Never, None, Timestamp::UNIX_EPOCH).await
        };
        claim("a").await.unwrap();
        let expected = format!("{} was removed or replaced while it was open", file.display());
        std::fs::rename(&file, folder.path().join("away.db")).unwrap();
        assert_eq!(claim("b").await.unwrap_err().to_string(), expected);
        std::fs::write(&file, "another").unwrap();
        assert_eq!(claim("b").await.unwrap_err().to_string(), expected);
        std::fs::rename(folder.path().join("away.db"), &file).unwrap();
        claim("b").await.unwrap();
    }

    #[tokio::test]
    async fn a_save_takes_the_same_work_however_long_the_run_is_and_a_check_in_proportion_to_it() {
        let mut counted = Counted::new().await;
        // Other runs do not count either.
        for n in 0..300 {
            let run = RunId::new(format!("other {n}")).unwrap();
            counted
                .store
                .claim(&run, "the test", Takeover::Never, None, Timestamp::UNIX_EPOCH)
                .await
                .unwrap();
        }
        counted.iterate(0..100).await;
        let early = counted.iterate(100..200).await;
        let check_early = counted.check().await;
        counted.iterate(200..700).await;
        let late = counted.iterate(700..800).await;
        let check_late = counted.check().await;
        assert!(early > 100 && late * 10 <= early * 12, "100 iterations: {early} steps, then {late}");
        assert!(
            check_early > 10 && check_late <= check_early * 5,
            "4 times as much: {check_early} steps, then {check_late}"
        );
    }

    #[tokio::test]
    async fn a_search_finds_messages_that_wait_to_be_indexed() {
        let mut counted = Counted::new().await;
        let run = RunId::new("a").unwrap();
        let found = async |store: &SqliteCheckpointStore, word: &str| {
            let query = SearchQuery::new(word, 9).unwrap();
            store.search(&run, &query).await.unwrap().len()
        };
        let n_indexed = |store: &SqliteCheckpointStore| {
            let count = "SELECT count(*) FROM word_docsize";
            store.desk.lock().connection.query_row(count, [], |row| row.get::<_, i64>(0)).unwrap()
        };
        for n in 0..150 {
            counted.save(format!("step-{n}"), format!("Word{n} and all")).await;
            assert_eq!(found(&counted.store, &format!("word{n}")).await, 1, "word{n}");
            assert_eq!(found(&counted.store, &format!("word{n} nothing")).await, 0, "word{n}");
        }
        let n = n_indexed(&counted.store);
        assert!((100..150).contains(&n), "{n} messages are indexed, and the others wait");
        for n in 0..150 {
            assert_eq!(found(&counted.store, &format!("all word{n}")).await, 1, "word{n}");
        }
        assert_eq!(found(&counted.store, "all").await, 9);
        assert_eq!(counted.store.check(Mending::LookOnly).await.unwrap().faults, Vec::<String>::new());
        counted.store.desk.lock().connection.execute("DELETE FROM word WHERE rowid > 2", []).unwrap();
        assert_eq!(counted.store.check(Mending::LookOnly).await.unwrap().faults.len(), 1);
        assert_eq!(counted.store.check(Mending::Indexes).await.unwrap().faults, Vec::<String>::new());
        assert_eq!(n_indexed(&counted.store), 150);
        // What waits is deleted with its checkpoints.
        counted.save("last".to_owned(), "lastword".to_owned()).await;
        let last = counted.parent.unwrap();
        counted.store.delete(&Deletion::Checkpoint(last), Sweep::Done).await.unwrap();
        assert_eq!(found(&counted.store, "lastword").await, 0);
        assert_eq!(counted.store.check(Mending::LookOnly).await.unwrap().faults, Vec::<String>::new());
    }
}
