//! What a store says when the world is against it, and that nothing is lost by it.

use std::path::Path;
use std::time::Duration;

use forge_domain::{CheckpointFilter, CheckpointStore, Mending, Message, SearchQuery, StoreError, Takeover};
use forge_infra::{Access, PostgresCheckpointStore, SqliteCheckpointStore, SqlitePlace};
use pretty_assertions::assert_eq;
use tokio_postgres::NoTls;

use super::frozen::fixture;
use super::postgres_server::database;
use super::sample::{after, append, checkpoint, conversation, hour, one_of_everything, run, said, two_runs};

/// A file with one run of two checkpoints, `one` and `one, two`, which was given back.
async fn filled(path: &Path) -> SqliteCheckpointStore {
    let store = SqliteCheckpointStore::open(&SqlitePlace::new(path)).await.unwrap();
    let claim = store.claim(&run("a"), "the test", Takeover::Never, None, hour(0)).await.unwrap();
    let one = store.save(&claim, &checkpoint("writer", "1", &said(&["one"]))).await.unwrap();
    store.save(&claim, &after(one.key, checkpoint("writer", "2", &said(&["one", "two"])))).await.unwrap();
    store.release(&claim).await.unwrap();
    store
}

async fn n_checkpoints(store: &dyn CheckpointStore) -> usize {
    store.list(&CheckpointFilter::default()).await.unwrap().len()
}

#[tokio::test]
async fn a_store_that_may_only_be_read_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    drop(filled(&path).await);
    let read_only = SqlitePlace { access: Access::ReadOnly, ..SqlitePlace::new(&path) };
    let store = SqliteCheckpointStore::open(&read_only).await.unwrap();
    let newest = store
        .list(&CheckpointFilter { limit: Some(1), ..CheckpointFilter::default() })
        .await
        .unwrap()
        .remove(0);
    assert_eq!(store.load(newest.key).await.unwrap().snapshot.conversation, said(&["one", "two"]));
    let query = SearchQuery::new("two", 1).unwrap();
    assert_eq!(store.search(&run("a"), &query).await.unwrap().len(), 1);
    assert_eq!(store.check(Mending::LookOnly).await.unwrap().faults, Vec::<String>::new());
    let refused = store.claim(&run("b"), "the test", Takeover::Never, None, hour(0)).await;
    let error = refused.unwrap_err();
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error}");
    assert!(error.to_string().contains("runs.db is read-only"), "{error}");
    // An old file would have to be migrated first, one that is not there to be made.
    let old = folder.path().join("old.db");
    std::fs::copy(fixture(1), &old).unwrap();
    let refused = SqliteCheckpointStore::open(&SqlitePlace { path: old, ..read_only.clone() }).await;
    assert!(matches!(refused, Err(StoreError::ReadOnly { place }) if place.contains("schema 1")));
    let nothing = SqlitePlace { path: folder.path().join("nothing.db"), ..read_only };
    assert!(matches!(SqliteCheckpointStore::open(&nothing).await, Err(StoreError::Unavailable { .. })));
}

#[cfg(unix)]
#[tokio::test]
async fn a_store_beside_which_nothing_can_be_written_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (path, left) = (folder.path().join("runs.db"), folder.path().join("left.db"));
    let beside = |path: &Path, end: &str| std::path::PathBuf::from(format!("{}{end}", path.display()));
    let store = filled(&path).await;
    // As a killed process leaves it: the last saves are in the write-ahead log.
    std::fs::copy(&path, &left).unwrap();
    std::fs::copy(beside(&path, "-wal"), beside(&left, "-wal")).unwrap();
    assert!(std::fs::metadata(beside(&left, "-wal")).unwrap().len() > 0);
    drop(store);
    for path in [path, left] {
        // The index for readers cannot be made, as on a full disk.
        std::os::unix::fs::symlink("no/such/place", beside(&path, "-shm")).unwrap();
        let refused = SqliteCheckpointStore::open(&SqlitePlace::new(&path)).await;
        assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{}", path.display());
        let read_only = SqlitePlace { access: Access::ReadOnly, ..SqlitePlace::new(&path) };
        let store = SqliteCheckpointStore::open(&read_only).await.unwrap();
        assert_eq!(n_checkpoints(&store).await, 2, "{}", path.display());
        let refused = store.claim(&run("b"), "the test", Takeover::Never, None, hour(0)).await;
        assert!(matches!(refused, Err(StoreError::ReadOnly { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn a_store_that_is_locked_says_so_and_goes_on_later() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    drop(filled(&path).await);
    let impatient = SqlitePlace { busy_timeout: Duration::from_millis(1), ..SqlitePlace::new(&path) };
    let store = SqliteCheckpointStore::open(&impatient).await.unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let refused = store.claim(&run("b"), "the test", Takeover::Never, None, hour(0)).await;
    assert!(matches!(refused, Err(StoreError::Locked { .. })), "{refused:?}");
    assert_eq!(n_checkpoints(&store).await, 2, "who only reads need not wait");
    other.execute_batch("ROLLBACK").unwrap();
    let claim = store.claim(&run("b"), "the test", Takeover::Never, None, hour(0)).await.unwrap();
    store.save(&claim, &checkpoint("writer", "1", &said(&["one"]))).await.unwrap();
    assert_eq!(n_checkpoints(&store).await, 3);
}

#[tokio::test]
async fn a_folder_that_is_not_there_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("no/such/runs.db");
    let Err(error) = SqliteCheckpointStore::open(&SqlitePlace::new(&path)).await else {
        panic!("it was opened")
    };
    assert!(
        matches!(error, StoreError::Unavailable { .. }) && error.to_string().contains("no/such/runs.db"),
        "{error}"
    );
}

#[tokio::test]
async fn damage_to_any_page_is_noticed_or_harmless() {
    const PAGE: usize = 4_096;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let store = SqliteCheckpointStore::open(&SqlitePlace::new(&path)).await.unwrap();
    let claim = store.claim(&run("a"), "the test", Takeover::Never, None, hour(0)).await.unwrap();
    let mut log = one_of_everything();
    for n in 0..120 {
        append(&mut log, Message::user(format!("message {n} {}", "with words ".repeat(n % 30))));
    }
    let saved = store.save(&claim, &checkpoint("writer", "1", &log)).await.unwrap();
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let (mut noticed, mut harmless) = (0, 0);
    for page in 0..whole.len() / PAGE {
        for at in [0, PAGE / 3, PAGE - 200] {
            let damaged = folder.path().join(format!("{page}-{at}.db"));
            let mut bytes = whole.clone();
            bytes[page * PAGE + at..][..150].iter_mut().for_each(|byte| *byte ^= 0x5a);
            std::fs::write(&damaged, bytes).unwrap();
            let loaded = match SqliteCheckpointStore::open(&SqlitePlace::new(&damaged)).await {
                Ok(store) => store.load(saved.key).await.map(|checkpoint| checkpoint.snapshot.conversation),
                Err(error) => Err(error),
            };
            match loaded {
                Ok(loaded) => {
                    assert_eq!(loaded.messages().collect::<Vec<_>>(), log.messages().collect::<Vec<_>>());
                    harmless += 1;
                }
                Err(error) => {
                    let said = error.to_string();
                    assert!(said.contains(".db") && said.len() < 500, "{said}");
                    noticed += 1;
                }
            }
            std::fs::remove_file(&damaged).unwrap();
        }
    }
    assert!(noticed > 10 && harmless > 10, "{noticed} noticed, {harmless} harmless");
}

#[tokio::test]
async fn a_damaged_message_costs_no_more_than_the_checkpoints_that_have_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let store = filled(&path).await;
    let file = rusqlite::Connection::open(&path).unwrap();
    // The second message says what the first one does: sound JSON, but not what was written.
    let swap = "UPDATE content SET body = (SELECT c.body FROM content c JOIN line l ON l.content = c.id WHERE l.position = 0)
        WHERE id = (SELECT content FROM line WHERE position = 1)";
    assert_eq!(file.execute(swap, []).unwrap(), 1);
    let keys: Vec<_> =
        store.list(&CheckpointFilter::default()).await.unwrap().iter().map(|info| info.key).collect();
    let error = store.load(keys[0]).await.unwrap_err();
    assert!(
        matches!(error, StoreError::Corrupt { .. }) && error.to_string().contains("message m1"),
        "{error}"
    );
    assert_eq!(store.load(keys[1]).await.unwrap().snapshot.conversation, said(&["one"]));
    let faults = store.check(Mending::LookOnly).await.unwrap().faults;
    assert_eq!(faults.len(), 1);
    assert!(faults[0].contains("writer-2") && faults[0].contains("m1"), "{faults:?}");
}

/// Every number of the tables, as `table.column`.
const NUMBERS: [&str; 17] = [
    "checkpoint.run",
    "branch.parent",
    "branch.forked_at",
    "branch.length",
    "line.position",
    "line.kind",
    "line.number",
    "line.tokens",
    "line.content",
    "checkpoint.parent",
    "checkpoint.iteration",
    "checkpoint.messages",
    "checkpoint.tokens",
    "checkpoint.branch",
    "checkpoint.length",
    "checkpoint.configuration",
    "run.token",
];
/// Those of which any value makes sense by itself.
const HARMLESS: [&str; 7] = [
    "branch.length",
    "line.number",
    "line.tokens",
    "checkpoint.iteration",
    "checkpoint.messages",
    "checkpoint.tokens",
    "run.token",
];

#[tokio::test]
async fn a_damaged_number_is_said_and_takes_no_memory_and_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    {
        let store = SqliteCheckpointStore::open(&SqlitePlace::new(&path)).await.unwrap();
        let (_, last) = two_runs(&store).await;
        let fork = store.claim(&run("c"), "the test", Takeover::Never, None, hour(0)).await.unwrap();
        let forked = after(last, checkpoint("writer", "fork", &conversation(4)));
        store.save(&fork, &forked).await.unwrap();
    }
    for number in NUMBERS {
        let (table, column) = number.split_once('.').unwrap();
        for value in [i64::MAX, i64::MIN, -1, 1 << 40, 5] {
            let name = format!("{number} = {value}");
            let damaged = folder.path().join("damaged.db");
            std::fs::copy(&path, &damaged).unwrap();
            let file = rusqlite::Connection::open(&damaged).unwrap();
            let last = format!("(SELECT max(rowid) FROM {table})");
            let place = match table {
                "line" => {
                    "branch = (SELECT max(branch) FROM line) AND position = (SELECT max(position) FROM line l
                    WHERE l.branch = line.branch)"
                }
                _ => &format!("rowid = {last}"),
            };
            // What is unchanged is no damage, and neither is what takes a place that is taken.
            let change = format!(
                "UPDATE OR IGNORE {table} SET {column} = {value} WHERE {place} AND {column} IS NOT {value}"
            );
            let n_changed = file.execute(&change, []).unwrap();
            drop(file);
            let store = SqliteCheckpointStore::open(&SqlitePlace::new(&damaged)).await.unwrap();
            let health = store.check(Mending::LookOnly).await.unwrap();
            let is_said = !health.faults.is_empty();
            let must_be_said = n_changed > 0 && !HARMLESS.contains(&number);
            // Another content that is there may well be the right one.
            if must_be_said && !(value == 5 && ["line.content", "checkpoint.configuration"].contains(&number))
            {
                assert!(is_said, "{name}");
            }
            for info in store.list(&CheckpointFilter::default()).await.unwrap() {
                if let Err(error) = store.load(info.key).await {
                    assert!(is_said && matches!(error, StoreError::Corrupt { .. }), "{name}: {error}");
                }
            }
            // Whoever writes into it ends as well.
            let claim = store.claim(&run("a"), "later", Takeover::Never, None, hour(0)).await;
            drop(claim);
            let newest = store
                .list(&CheckpointFilter { limit: Some(1), ..CheckpointFilter::default() })
                .await
                .unwrap()
                .remove(0);
            let other = store.claim(&run("d"), "the test", Takeover::Never, None, hour(0)).await.unwrap();
            drop(store.save(&other, &after(newest.key, checkpoint("writer", "on", &conversation(5)))).await);
        }
    }
}

#[tokio::test]
async fn a_checkpoint_that_is_its_own_parent_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let store = filled(&path).await;
    let file = rusqlite::Connection::open(&path).unwrap();
    assert_eq!(file.execute("UPDATE checkpoint SET parent = key WHERE key = 2", []).unwrap(), 1);
    let faults = store.check(Mending::LookOnly).await.unwrap().faults;
    assert_eq!(faults, ["#2 writer-2 of run `a`: the checkpoint that it grew from is not an earlier one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_view_in_the_place_of_a_table_is_said_and_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    drop(filled(&path).await);
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute_batch(
        "DROP TABLE line;
        CREATE VIEW line AS WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n)
            SELECT 1 AS branch, i AS position, 0 AS kind, i AS number, 1 AS tokens, NULL AS made_at, 1 AS content,
                NULL AS note FROM n;",
    )
    .unwrap();
    drop(file);
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let opened = SqliteCheckpointStore::open(&SqlitePlace { access, ..SqlitePlace::new(&path) }).await;
        let Err(error) = opened else { panic!("it was opened") };
        assert!(matches!(error, StoreError::Corrupt { .. }), "{error}");
        assert!(error.to_string().contains("views or triggers"), "{error}");
    }
    let Some(config) = database().await else { return };
    drop(PostgresCheckpointStore::connect(config.clone(), "the database").await.unwrap());
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    let swap = "ALTER TABLE forge_line RENAME TO old; CREATE VIEW forge_line AS SELECT old.* FROM old, generate_series(1, 9)";
    client.batch_execute(swap).await.unwrap();
    let opened = PostgresCheckpointStore::connect(config, "the database").await;
    assert!(matches!(opened, Err(StoreError::Corrupt { what, .. }) if what == "`forge_line` is not a table"));
}

#[tokio::test(flavor = "multi_thread")]
async fn damage_in_a_database_is_said_as_well() {
    for change in [
        "UPDATE forge_checkpoint SET length = 9223372036854775807",
        "UPDATE forge_checkpoint SET length = -9223372036854775808",
        "UPDATE forge_checkpoint SET parent = key",
        "UPDATE forge_branch SET parent = id",
        "UPDATE forge_line SET position = position + 100",
        "UPDATE forge_content SET body = ''",
        "DELETE FROM forge_branch",
        "DELETE FROM forge_content",
    ] {
        let Some(config) = database().await else { return };
        let store = PostgresCheckpointStore::connect(config.clone(), "the database").await.unwrap();
        two_runs(&store).await;
        let (client, connection) = config.connect(NoTls).await.unwrap();
        tokio::spawn(connection);
        assert!(client.execute(change, &[]).await.unwrap() > 0, "{change}");
        let faults = store.check(Mending::LookOnly).await.unwrap().faults;
        assert!(!faults.is_empty(), "{change}");
        for info in store.list(&CheckpointFilter::default()).await.unwrap() {
            if let Err(error) = store.load(info.key).await {
                assert!(matches!(error, StoreError::Corrupt { .. }), "{change}: {error}");
            }
        }
    }
}

#[tokio::test]
async fn an_index_that_was_lost_is_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    let store = filled(&path).await;
    // Everything is indexed, and then the first message is not.
    assert_eq!(store.check(Mending::Indexes).await.unwrap().faults, Vec::<String>::new());
    let file = rusqlite::Connection::open(&path).unwrap();
    file.execute("DELETE FROM word WHERE rowid = (SELECT min(id) FROM word_docsize)", []).unwrap();
    let query = SearchQuery::new("one", 1).unwrap();
    assert_eq!(store.search(&run("a"), &query).await.unwrap(), []);
    let faults = store.check(Mending::LookOnly).await.unwrap().faults;
    assert_eq!(faults, ["the index of words lacks 1 message; rebuild the indexes"]);
    assert_eq!(store.check(Mending::Indexes).await.unwrap().faults, Vec::<String>::new());
    assert_eq!(store.search(&run("a"), &query).await.unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_breaks_in_mid_save_loses_nothing() {
    let Some(config) = database().await else { return };
    let store = PostgresCheckpointStore::connect(config.clone(), "the database").await.unwrap();
    let claim = store.claim(&run("a"), "the test", Takeover::Never, None, hour(0)).await.unwrap();
    let one = store.save(&claim, &checkpoint("writer", "1", &said(&["one"]))).await.unwrap();
    let (killer, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    // Holds the save back in the middle of its transaction: it waits for the run's row.
    killer.batch_execute("BEGIN; SELECT 1 FROM forge_run FOR UPDATE").await.unwrap();
    let two = after(one.key, checkpoint("writer", "2", &said(&["one", "two"])));
    let saving = async {
        let refused = store.save(&claim, &two).await;
        assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    };
    let breaking = async {
        let waiting = "SELECT pid FROM pg_stat_activity WHERE application_name = 'forge'
            AND datname = current_database() AND wait_event_type = 'Lock'";
        loop {
            if let Some(row) = killer.query_opt(waiting, &[]).await.unwrap() {
                killer.execute("SELECT pg_terminate_backend($1)", &[&row.get::<_, i32>(0)]).await.unwrap();
                break;
            }
            tokio::task::yield_now().await;
        }
        killer.batch_execute("ROLLBACK").await.unwrap();
    };
    futures::future::join(saving, breaking).await;
    assert_eq!(n_checkpoints(&store).await, 1, "nothing of it was saved");
    let saved = store.save(&claim, &two).await.unwrap();
    assert_eq!(store.load(saved.key).await.unwrap().snapshot.conversation, said(&["one", "two"]));
    assert_eq!(store.check(Mending::LookOnly).await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_database_is_left_as_it_is_and_a_server_that_is_gone_is_said() {
    let Some(config) = database().await else { return };
    drop(PostgresCheckpointStore::connect(config.clone(), "the database").await.unwrap());
    let (client, connection) = config.connect(NoTls).await.unwrap();
    tokio::spawn(connection);
    client.batch_execute("UPDATE forge_schema SET version = version + 1").await.unwrap();
    let refused = PostgresCheckpointStore::connect(config, "the database").await;
    assert!(matches!(refused, Err(StoreError::NewerSchema { found: 5, known: 4, .. })));
    let nowhere = "postgres://test@127.0.0.1:1/none?sslmode=disable".parse().unwrap();
    let Err(error) = PostgresCheckpointStore::connect(nowhere, "nowhere").await else { panic!("it answers") };
    assert!(error.to_string().starts_with("nowhere cannot be reached"), "{error}");
}
