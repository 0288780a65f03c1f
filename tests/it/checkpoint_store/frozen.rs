//! Files that earlier versions wrote are read, and go on in this version's form.

use std::path::{Path, PathBuf};

use forge_domain::{
    CheckpointFilter, CheckpointStore, Conversation, Mending, Message, SearchQuery, StoreError, Takeover,
};
use forge_infra::{Access, SqliteCheckpointStore, SqlitePlace};
use pretty_assertions::assert_eq;

use super::sample::{after, append, checkpoint, compacted, hour, one_of_everything, run, said};

/// The version that this forge writes.
const NEWEST: u32 = 6;

pub(super) fn fixture(version: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("fixtures/stores/v{version}.sqlite"))
}

/// What every frozen file holds: a run with one of everything and a fork of it, in the order of their saving.
fn frozen_conversations() -> Vec<Conversation> {
    let raw = said(&["Count the stars.", "How many?", "More than yesterday."]);
    let mut forked = raw.clone();
    append(&mut forked, Message::user("Count again."));
    let folded = compacted(&raw, 0, 1, &[]);
    vec![raw, folded, forked, one_of_everything()]
}

async fn write(path: &Path) {
    let store = SqliteCheckpointStore::open(&SqlitePlace::new(path)).await.unwrap();
    let all = frozen_conversations();
    let claim =
        store.claim(&run("observatory"), "the freezer", Takeover::Never, None, hour(0)).await.unwrap();
    let raw = store.save(&claim, &checkpoint("watcher", "iteration-1", &all[0])).await.unwrap();
    let folded = after(raw.key, checkpoint("watcher", "compaction-1", &all[1]));
    store.save(&claim, &folded).await.unwrap();
    let fork = store.claim(&run("second-look"), "the freezer", Takeover::Never, None, hour(9)).await.unwrap();
    store.save(&fork, &after(raw.key, checkpoint("watcher", "iteration-2", &all[2]))).await.unwrap();
    store.save(&fork, &checkpoint("scribe", "end", &all[3])).await.unwrap();
    store.release(&claim).await.unwrap();
    store.release(&fork).await.unwrap();
}

#[tokio::test]
async fn a_file_of_every_version_is_read_and_goes_on() {
    if std::env::var_os("FORGE_RECORD_FIXTURES").is_some() && !fixture(NEWEST).exists() {
        write(&fixture(NEWEST)).await;
    }
    for version in 1..=NEWEST {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.db");
        std::fs::copy(fixture(version), &path).unwrap();
        let store = SqliteCheckpointStore::open(&SqlitePlace::new(&path)).await.unwrap();
        let infos = store.list(&CheckpointFilter::default()).await.unwrap();
        let mut loaded = Vec::new();
        for info in infos.iter().rev() {
            loaded.push(store.load(info.key).await.unwrap().snapshot.conversation);
        }
        assert_eq!(loaded, frozen_conversations(), "version {version}");
        let claim =
            store.claim(&run("observatory"), "a later forge", Takeover::Never, None, hour(99)).await.unwrap();
        let mut on = loaded[1].clone();
        append(&mut on, Message::user("It is dawn."));
        let parent = infos[2].key;
        let saved =
            store.save(&claim, &after(parent, checkpoint("watcher", "iteration-3", &on))).await.unwrap();
        assert_eq!(store.load(saved.key).await.unwrap().snapshot.conversation, on, "version {version}");
        for (text, n) in [("count stars", 1), ("dawn", 1), ("dusk", 0)] {
            let query = SearchQuery::new(text, 9).unwrap();
            let found = store.search(&run("observatory"), &query).await.unwrap();
            assert_eq!(found.len(), n, "version {version}: {text}");
        }
        let health = store.check(Mending::LookOnly).await.unwrap();
        assert_eq!(
            (health.schema, health.checkpoints, health.faults),
            (NEWEST, 5, vec![]),
            "version {version}"
        );
    }
}

#[tokio::test]
async fn a_newer_file_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("runs.db");
    std::fs::copy(fixture(NEWEST), &path).unwrap();
    let file = rusqlite::Connection::open(&path).unwrap();
    file.pragma_update(None, "user_version", NEWEST + 1).unwrap();
    file.close().unwrap();
    let before = std::fs::read(&path).unwrap();
    for access in [Access::ReadWrite, Access::ReadOnly] {
        let refused = SqliteCheckpointStore::open(&SqlitePlace { access, ..SqlitePlace::new(&path) }).await;
        let Err(StoreError::NewerSchema { found, known, .. }) = refused else { panic!("it was opened") };
        assert_eq!((found, known), (NEWEST + 1, NEWEST));
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);
}

#[tokio::test]
async fn what_is_no_store_of_ours_is_left_as_it_is() {
    let folder = tempfile::tempdir().unwrap();
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE t (x)").unwrap();
    let text = folder.path().join("notes.txt");
    std::fs::write(&text, "no database ".repeat(500)).unwrap();
    for path in [other, text] {
        let before = std::fs::read(&path).unwrap();
        let refused = SqliteCheckpointStore::open(&SqlitePlace::new(&path)).await;
        assert!(matches!(refused, Err(StoreError::NotAStore { .. })), "{}", path.display());
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
