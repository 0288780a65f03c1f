//! A process is killed, or its disk fills up, at each of its writes: what it had stored is there, what it was about to
//! store is there whole or not at all, and the next process goes on.
//!
//! The writes are counted in a library that is preloaded into a child process; nothing in forge knows of it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use forge_domain::{
    CheckpointFilter, CheckpointStore, Claim, Conversation, Deletion, Mending, Retention, StoreError, Sweep,
    Takeover,
};
use forge_infra::{SqliteCheckpointStore, SqlitePlace};
use jiff::SignedDuration;
use pretty_assertions::assert_eq;

use super::frozen::fixture;
use super::sample::{after, checkpoint, compacted, conversation, hour, run, two_runs};

/// The name of the test that is the child's whole work.
const CHILD: &str = "checkpoint_store::kill_points::the_child_process";

/// What a child does: the name of its work, and each state that it may leave, which begins with how it found the file.
#[derive(Clone, Copy)]
enum Work {
    Save,
    SaveCompaction,
    Prune,
    Delete,
    Migrate,
}

impl Work {
    const ALL: [(&str, Self); 5] = [
        ("save", Self::Save),
        ("save-compaction", Self::SaveCompaction),
        ("prune", Self::Prune),
        ("delete", Self::Delete),
        ("migrate", Self::Migrate),
    ];

    /// Makes the file that the work begins with.
    async fn prepare(self, path: &Path) {
        if let Self::Migrate = self {
            std::fs::copy(fixture(1), path).unwrap();
            return;
        }
        let store = open(path).await.unwrap();
        let (claim, _) = two_runs(&store).await;
        store.release(&claim).await.unwrap();
    }

    async fn perform(self, path: &Path) -> Result<(), StoreError> {
        let store = open(path).await?;
        match self {
            Self::Migrate => {}
            Self::Save | Self::SaveCompaction => {
                let (claim, last) = take_over(&store).await?;
                let grown = match self {
                    Self::Save => conversation(40),
                    _ => compacted(&conversation(3), 0, 1, &[]),
                };
                store.save(&claim, &after(last, checkpoint("writer", "new", &grown))).await?;
            }
            Self::Prune => {
                let max_age = Some(SignedDuration::from_hours(2));
                store.prune(&Retention { max_age, ..Retention::default() }, hour(5), Sweep::Done).await?;
            }
            Self::Delete => {
                store.delete(&Deletion::Run(run("b")), Sweep::Done).await?;
            }
        }
        Ok(())
    }

    /// Whether `state` is how the work finds the file, or how it leaves it.
    fn is_old_or_new(self, state: &State) -> bool {
        let names: Vec<&str> = state.iter().map(|(name, _)| name.as_str()).collect();
        let before = ["b scribe-1", "a writer-3", "a writer-2", "a writer-1"];
        let after: &[&str] = match self {
            Self::Save | Self::SaveCompaction => {
                &["a writer-new", "b scribe-1", "a writer-3", "a writer-2", "a writer-1"]
            }
            Self::Prune => &["b scribe-1", "a writer-3"],
            Self::Delete => &["a writer-3", "a writer-2", "a writer-1"],
            Self::Migrate => return state.len() == 4,
        };
        names == before || names == after
    }
}

type State = Vec<(String, Conversation)>;

async fn open(path: &Path) -> Result<SqliteCheckpointStore, StoreError> {
    SqliteCheckpointStore::open(&SqlitePlace::new(path)).await
}

/// The run of whoever was killed, and its last checkpoint.
async fn take_over(
    store: &SqliteCheckpointStore,
) -> Result<(Claim, forge_domain::CheckpointKey), StoreError> {
    let claim = match store.claim(&run("a"), "the next", Takeover::Never, None, hour(1)).await {
        Err(StoreError::Held { token, .. }) => {
            store.claim(&run("a"), "the next", Takeover::Of(token), None, hour(1)).await?
        }
        other => other?,
    };
    let filter = CheckpointFilter { limit: Some(1), ..CheckpointFilter::of_run(&run("a")) };
    Ok((claim, store.list(&filter).await?[0].key))
}

/// All that the file has; everything is read back, and the file is sound.
async fn state(path: &Path) -> State {
    let store = open(path).await.unwrap();
    assert_eq!(store.check(Mending::LookOnly).await.unwrap().faults, Vec::<String>::new());
    let mut state = Vec::new();
    for info in store.list(&CheckpointFilter::default()).await.unwrap() {
        let conversation = store.load(info.key).await.unwrap().snapshot.conversation;
        assert!(conversation.coverage().is_complete());
        state.push((format!("{} {}", info.run, info.id), conversation));
    }
    state
}

/// The library that stops a process at a write; `None`, which is noted, where it cannot be had.
fn library() -> Option<&'static Path> {
    static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
    if !cfg!(target_os = "linux") {
        skipped_tests::skip("not Linux", "writes that are stopped");
        return None;
    }
    let compile = || {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/stop_at_write.c");
        let library =
            Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("stop_at_write_{}.so", std::process::id()));
        // SQLite was compiled by the same compiler.
        let mut compiler = Command::new("cc");
        compiler.args(["-shared", "-fPIC", "-O1", "-w", "-o"]).arg(&library).arg(&source).arg("-ldl");
        assert!(compiler.status().expect("cc, with which SQLite was compiled, is there").success());
        Some(library)
    };
    LIBRARY.get_or_init(compile).as_deref()
}

/// Runs a child on `path` that is stopped at its write number `at`. Says how many writes it did, where it came to its end,
/// and what it said of an error.
fn child(work: &str, path: &Path, at: usize, how: &str) -> (Option<usize>, String) {
    let count = path.with_extension("count");
    let _ = std::fs::remove_file(&count);
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", CHILD, "--ignored", "--nocapture", "--test-threads=1"])
        .env("LD_PRELOAD", library().unwrap())
        .env("STOP_PATH", path)
        .env("STOP_AT", at.to_string())
        .env("STOP_HOW", how)
        .env("STOP_COUNT", &count)
        .env("FORGE_TEST_WORK", work)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let n = std::fs::read_to_string(&count).ok().and_then(|n| n.parse().ok());
    (n.filter(|_| output.status.success()), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The work of a child process; does nothing where no parent asked for it.
#[tokio::test]
#[ignore = "a child process of the other tests"]
async fn the_child_process() {
    let (Ok(work), Ok(path)) = (std::env::var("FORGE_TEST_WORK"), std::env::var("STOP_PATH")) else { return };
    let (_, work) = Work::ALL.into_iter().find(|(name, _)| *name == work).unwrap();
    if let Err(error) = work.perform(Path::new(&path)).await {
        println!("FAILED: {error}");
    }
}

/// Stops a child at each write of each work, one way; then looks at what is left, does the work to its end, and looks
/// again. `judge` looks at what the child said.
async fn stop_everywhere(how: &str, judge: impl Fn(&str)) {
    if library().is_none() {
        return;
    }
    for (name, work) in Work::ALL {
        let folder = tempfile::tempdir().unwrap();
        let whole = folder.path().join("whole.db");
        work.prepare(&whole).await;
        let prepared = std::fs::read(&whole).unwrap();
        let (n_writes, said) = child(name, &whole, usize::MAX >> 1, how);
        let n_writes = n_writes.unwrap_or_else(|| panic!("{name} did not end: {said}"));
        assert!(n_writes > 5 && !said.contains("FAILED"), "{name}: {n_writes} writes: {said}");
        let expected = state(&whole).await;
        for at in 1..=n_writes {
            let path = folder.path().join(format!("{at}.db"));
            std::fs::write(&path, &prepared).unwrap();
            let (ended, said) = child(name, &path, at, how);
            assert!(ended.is_none() || how == "full", "{name} was not stopped at {at}");
            judge(&said);
            let left = state(&path).await;
            assert!(work.is_old_or_new(&left), "{name}, write {at}: {left:?}");
            // The next process does the work, as if it had never been begun.
            work.perform(&path)
                .await
                .or_else(|error| match (&error, work) {
                    (StoreError::NotFound { .. }, Work::Delete) => Ok(()),
                    _ => Err(error),
                })
                .unwrap();
            let names = |state: &State| state.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
            match work {
                // Saved anew on top of itself it is another checkpoint of the same conversation.
                Work::Save | Work::SaveCompaction => assert_eq!(state(&path).await[0], expected[0]),
                Work::Prune | Work::Delete | Work::Migrate => {
                    assert_eq!(names(&state(&path).await), names(&expected));
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_any_write_the_old_or_the_new_state_is_there() {
    stop_everywhere("kill", |_| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_within_any_write_the_old_or_the_new_state_is_there() {
    stop_everywhere("tear", |_| {}).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_disk_that_is_full_from_any_write_on_loses_nothing() {
    stop_everywhere("full", |said| {
        let error = said.lines().find(|line| line.contains("FAILED: "));
        assert!(
            error.is_none_or(|error| error.contains(" is full") || error.contains("cannot be reached")),
            "{said}"
        );
    })
    .await;
}
