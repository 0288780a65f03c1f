//! `forge checkpoints` and what it does, over stores that runs left.

use std::path::Path;
use std::sync::Arc;

use forge_app::{
    ArchiveError, CheckpointsError, Fork, Writer, export_run, fork, import_run, report, select, select_in,
    undo,
};
use forge_domain::{
    CheckpointFilter, CheckpointReason, CheckpointStore, EntryId, Holder, Mending, Message, NewCheckpoint,
    RunId, StoreError, Takeover,
};
use forge_infra::{MemoryCheckpointStore, SqliteCheckpointStore, SqlitePlace};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::checkpoint_store::sample::{after, append, checkpoint, compacted, hour, run, said};
use crate::forge::{Forge, Outcome, outcome};

const WRITER: Writer<'_> = Writer { holder: &TheTest, now: jiff::Timestamp::UNIX_EPOCH };

/// Takes nobody for gone.
struct TheTest;

impl Holder for TheTest {
    fn name(&self) -> &str {
        "the test"
    }

    fn is_gone(&self, _: &str) -> bool {
        false
    }
}

/// Run `a`: the writer says one, two, three (iteration 1), the first two are folded (c0), four is said (iteration 2), all
/// is folded again (c1, which takes c0 over); a reader has its own conversation. Run `b` is held by another process.
async fn fill(store: &dyn CheckpointStore) {
    let a = store.claim(&run("a"), "the run", Takeover::Never, None, hour(0)).await.unwrap();
    let raw = said(&["one", "two", "three"]);
    let one = store.save(&a, &checkpoint("writer", "iteration-1", &raw)).await.unwrap();
    store.save(&a, &checkpoint("reader", "iteration-1", &said(&["read"]))).await.unwrap();
    let mut folded = compacted(&raw, 0, 1, &[]);
    append(&mut folded, Message::assistant("four"));
    let two = after(one.key, checkpoint("writer", "iteration-2", &folded));
    let two = store.save(&a, &two).await.unwrap();
    let again = compacted(&folded, 0, 2, &[0]);
    let end = NewCheckpoint {
        reason: CheckpointReason::End,
        ..after(two.key, checkpoint("writer", "end", &again))
    };
    store.save(&a, &end).await.unwrap();
    store.release(&a).await.unwrap();
    let b = store.claim(&run("b"), "another process", Takeover::Never, None, hour(0)).await.unwrap();
    store.save(&b, &checkpoint("writer", "iteration-1", &said(&["b"]))).await.unwrap();
}

async fn memory() -> Arc<dyn CheckpointStore> {
    let store = Arc::new(MemoryCheckpointStore::new());
    fill(&*store).await;
    store
}

/// The texts of the view of what `word` means.
async fn view(store: &dyn CheckpointStore, word: &str) -> Vec<String> {
    let selected = select(store, word, None).await.unwrap();
    let loaded = store.load(selected.info.key).await.unwrap();
    loaded.snapshot.conversation.view().plain().map(Message::to_text).collect()
}

const FIRST: &str = "What was said from m0 to m1.";
const SECOND: &str = "What was said from m0 to m2.";

#[tokio::test]
async fn a_word_means_one_checkpoint_or_says_which_it_may_mean() {
    let store = memory().await;
    for (word, expected) in [
        ("last", Ok("#5 b writer-iteration-1")),
        ("a", Ok("#4 a writer-end")),
        ("a/last", Ok("#4 a writer-end")),
        ("3", Ok("#3 a writer-iteration-2")),
        ("#3", Ok("#3 a writer-iteration-2")),
        ("writer-iteration-2", Ok("#3 a writer-iteration-2")),
        ("a/writer-iteration-1", Ok("#1 a writer-iteration-1")),
        ("writer-iteration-1", Err("#5 (b/writer-iteration-1")),
        ("writer-iteration-1", Err("#1 (a/writer-iteration-1")),
        (
            "nothing",
            Err("unknown run or checkpoint `nothing`: write a run, a checkpoint's label or number, or \
                 `last`; existing runs"),
        ),
        ("99", Err("unknown run or checkpoint `99`")),
        ("", Err("unknown run or checkpoint ``")),
    ] {
        let actual = select(&*store, word, None).await;
        match (actual, expected) {
            (Ok(selected), Ok(expected)) => {
                let info = selected.info;
                assert_eq!(format!("{} {} {}", info.key, info.run, info.id), expected, "{word}");
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{word}: {error}"),
            (actual, _) => panic!("{word}: {actual:?}"),
        }
    }
    let unknown = select_in(&*store, "nothing", Some("/here"), None).await.unwrap_err().to_string();
    assert!(unknown.ends_with("existing runs of other folders: b, a"), "{unknown}");
}

#[tokio::test]
async fn compactions_are_taken_back_layer_by_layer() {
    let store = memory().await;
    assert_eq!(view(&*store, "a").await, [SECOND, "four"]);
    for (undone, expected) in [(1, vec![FIRST, "three", "four"]), (0, vec!["one", "two", "three", "four"])] {
        let of = select(&*store, "a", None).await.unwrap();
        let done = undo(&*store, &of, 1, &WRITER).await.unwrap();
        assert_eq!(done.undone, [EntryId::nth(undone)]);
        assert_eq!((done.saved.parent, &done.saved.run), (Some(of.info.key), &run("a")));
        assert_eq!(view(&*store, "a").await, expected);
    }
    let of = select(&*store, "a", None).await.unwrap();
    let error = undo(&*store, &of, 1, &WRITER).await.unwrap_err();
    assert!(matches!(error, CheckpointsError::NothingToUndo { .. }), "{error}");
    // What was there before is still there, and both at once take back the same.
    assert_eq!(view(&*store, "writer-end").await, [SECOND, "four"]);
    let of = select(&*store, "writer-end", None).await.unwrap();
    assert_eq!(undo(&*store, &of, 9, &WRITER).await.unwrap().undone.len(), 2);
    assert_eq!(view(&*store, "a").await, ["one", "two", "three", "four"]);
    // Nobody writes into a run that another process holds.
    let held = select(&*store, "b", None).await.unwrap();
    assert!(matches!(undo(&*store, &held, 1, &WRITER).await, Err(CheckpointsError::NothingToUndo { .. })));
}

#[tokio::test]
async fn a_fork_begins_anywhere_also_before_a_compaction() {
    let store = memory().await;
    for (from, before, into, expected) in [
        ("a", None, "whole", vec![SECOND, "four"]),
        ("a", Some(1), "second", vec![FIRST, "three", "four"]),
        ("a", Some(0), "first", vec!["one", "two", "three"]),
        ("writer-iteration-2", None, "middle", vec![FIRST, "three", "four"]),
    ] {
        let from = select(&*store, from, None).await.unwrap();
        let asked = Fork { from, before: before.map(EntryId::nth), into: run(into) };
        let saved = fork(&*store, &asked, &WRITER).await.unwrap();
        let names: Vec<String> = saved.iter().map(|info| info.id.to_string()).collect();
        assert_eq!(view(&*store, into).await, expected, "{into}");
        if into == "first" {
            assert_eq!(
                names,
                ["writer-fork"],
                "the reader had not begun when the state was saved that this grows from"
            );
        } else {
            assert_eq!(names, ["reader-fork", "writer-fork"], "{into}: every agent comes along");
            assert_eq!(view(&*store, &format!("{into}/reader-fork")).await, ["read"]);
        }
        let again = fork(&*store, &asked, &WRITER).await.unwrap_err();
        assert!(matches!(again, CheckpointsError::Taken { .. }), "{again}");
    }
    let from = select(&*store, "a", None).await.unwrap();
    let asked = Fork { from, before: Some(EntryId::nth(7)), into: run("none") };
    let error = fork(&*store, &asked, &WRITER).await.unwrap_err().to_string();
    assert!(error.contains("no compaction `c7`") && error.contains("there are c0, c1"), "{error}");
    assert!(store.runs().await.unwrap().iter().all(|known| known.run != run("none")));
    assert_eq!(store.check(Mending::LookOnly).await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn a_run_is_carried_from_store_to_store() {
    let from = memory().await;
    let bytes = export_run(&*from, &run("a")).await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let place = SqlitePlace::new(folder.path().join("other.db"));
    let into = SqliteCheckpointStore::open(&place).await.unwrap();
    let imported = import_run(&into, &bytes, None, &WRITER).await.unwrap();
    assert_eq!((imported.known, imported.saved.len()), (0, 4));
    assert_eq!(export_run(&into, &run("a")).await.unwrap(), bytes, "it is the same run");
    for (known, copy) in [("a/writer-iteration-1", 0), ("a/reader-iteration-1", 1), ("a/writer-end", 3)] {
        let known = select(&*from, known, None).await.unwrap().info;
        let copy = &imported.saved[copy];
        assert_eq!(
            (&copy.id, copy.created_at, copy.n_entries),
            (&known.id, known.created_at, known.n_entries)
        );
        let (known, copy) = (from.load(known.key).await.unwrap(), into.load(copy.key).await.unwrap());
        assert_eq!(copy.snapshot, known.snapshot);
    }
    // Again it changes nothing, under another name it is another run.
    let again = import_run(&into, &bytes, None, &WRITER).await.unwrap();
    assert_eq!((again.known, again.saved.len()), (4, 0));
    let other = import_run(&into, &bytes, Some(&run("copy")), &WRITER).await.unwrap();
    assert_eq!(other.saved.len(), 4);
    // What is there in part is completed; what went another way is refused.
    let of = select(&*from, "a", None).await.unwrap();
    undo(&*from, &of, 1, &WRITER).await.unwrap();
    let more = export_run(&*from, &run("a")).await.unwrap();
    let grown = import_run(&into, &more, None, &WRITER).await.unwrap();
    assert_eq!((grown.known, grown.saved.len()), (4, 1));
    let behind = import_run(&into, &bytes, None, &WRITER).await.unwrap_err();
    assert!(matches!(behind, ArchiveError::Diverged { .. }), "{behind}");
    assert_eq!(into.check(Mending::LookOnly).await.unwrap().faults, Vec::<String>::new());
}

#[tokio::test]
async fn a_file_that_is_damaged_or_newer_is_refused_and_nothing_is_written() {
    let bytes = export_run(&*memory().await, &run("a")).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let newer = text.replacen("\"forge_run\":1", "\"forge_run\":2", 1);
    let cut = text[..text.len() - 30].to_owned();
    let short = text.lines().take(3).map(|line| format!("{line}\n")).collect::<String>();
    let store = MemoryCheckpointStore::new();
    for (name, text, expected) in [
        ("newer", newer.as_str(), "exported in form 2, but this Forge supports up to 1"),
        ("cut in the last line", &cut, "the file is damaged: it ends in line 6"),
        ("cut between two lines", &short, "the file is damaged: it ends in line 3"),
        ("one letter is another", &text.replacen("three", "threw", 1), "its lines were changed"),
        ("no run", "{\"messages\": []}\n", "this is not an exported run"),
        ("nothing", "", "this is not an exported run"),
        ("one line", text.lines().next().unwrap(), "it ends after line 1"),
    ] {
        let error = import_run(&store, text.as_bytes(), None, &WRITER).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{name}: {error}");
        assert_eq!(store.runs().await.unwrap(), [], "{name}");
    }
}

#[tokio::test]
async fn a_report_tells_every_layer() {
    let store = memory().await;
    let last = select(&*store, "a", None).await.unwrap();
    undo(&*store, &last, 1, &WRITER).await.unwrap();
    let last = select(&*store, "a", None).await.unwrap();
    let report = serde_json::to_value(report(&store.load(last.info.key).await.unwrap())).unwrap();
    let layer = |at: usize| {
        let layer = &report["compactions"][at];
        json!([layer["id"], layer["state"], layer["replaced"], layer["absorbs"], layer["line"]])
    };
    assert_eq!(layer(0), json!(["c0", "in_force", 2, [], 3]));
    assert_eq!(layer(1), json!(["c1", "undone", 3, ["c0"], 5]));
    assert_eq!(report["coverage"], json!({"appended": 4, "verbatim": 2, "replaced": 2}));
    assert_eq!(report["view"][0]["is_compacted"], json!(true));
    assert_eq!(report["view"][0]["text"], json!(FIRST));
}

/// A folder whose `runs.db` is filled.
async fn folder() -> Forge {
    let forge = Forge::new();
    filled(&forge.path("runs.db")).await;
    forge
}

async fn filled(path: &Path) {
    fill(&SqliteCheckpointStore::open(&SqlitePlace::new(path)).await.unwrap()).await;
}

fn checkpoints(forge: &Forge, arguments: &[&str]) -> Outcome {
    forge.run(&[&["checkpoints", "--store", "sqlite:runs.db"], arguments].concat())
}

fn json_of(forge: &Forge, arguments: &[&str]) -> Value {
    let outcome = checkpoints(forge, &[arguments, &["--json"]].concat());
    assert_eq!(outcome.code, 0, "{arguments:?}: {}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).unwrap()
}

#[tokio::test]
async fn the_command_lists_shows_and_compares() {
    let forge = folder().await;
    let listed = checkpoints(&forge, &["list"]).stdout;
    // The age depends on the day; the rest does not.
    let rows: Vec<Vec<&str>> = listed.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0], ["other", "folders"], "{listed}");
    assert_eq!(rows[1], ["RUN", "AGE", "TOKENS", "COST", "STATE", "FIRST", "MESSAGE"], "{listed}");
    assert_eq!((rows[2][0], &rows[2][2..]), ("b", &["d", "7", "–", "running", "b"][..]), "{listed}");
    assert_eq!((rows[3][0], &rows[3][2..]), ("a", &["d", "17", "–", "ended", "one"][..]), "{listed}");
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    let listed = json_of(&forge, &["list", "a", "--limit", "2"]);
    let labels: Vec<_> = listed["checkpoints"].as_array().unwrap().iter().map(|info| &info["id"]).collect();
    assert_eq!(labels, ["writer-end", "writer-iteration-2"]);
    let shown = checkpoints(&forge, &["show", "a"]).stdout;
    for expected in [
        "#4 writer-end of run a, agent writer",
        "c1 (in force, took over c0)",
        "m5 user (9 tokens, by compaction)",
    ] {
        assert!(shown.contains(expected), "{expected}: {shown}");
    }
    let difference = json_of(&forge, &["diff", "writer-iteration-2", "a"]);
    assert_eq!(difference["common_entries"], 5);
    assert_eq!(difference["only_b"], json!({"messages": 0, "tokens": 0, "compactions": 1, "undone": 0}));
    let text = checkpoints(&forge, &["diff", "writer-iteration-2", "a"]).stdout;
    assert!(text.contains("- m2 user") && text.contains("+ m5 user"), "{text}");
    let ambiguous = checkpoints(&forge, &["show", "writer-iteration-1"]);
    assert!(ambiguous.code == 2 && ambiguous.stderr.contains("#1 (a/writer-iteration-1"), "{ambiguous:?}");
}

#[cfg(unix)]
#[tokio::test]
async fn runs_are_read_where_nothing_can_be_written() {
    let forge = folder().await;
    // SQLite cannot make its index there, as on a full disk.
    std::os::unix::fs::symlink("no/such/place", forge.path("runs.db-shm")).unwrap();
    for (arguments, expected) in [
        (&["checkpoints", "list"][..], "FIRST MESSAGE"),
        (&["checkpoints", "show", "a"], "#4 writer-end of run a"),
        (&["checkpoints", "diff", "writer-iteration-2", "a"], "+ m5 user"),
        (&["checkpoints", "export", "a", "--to", "openai"], "three"),
        (&["log", "a"], "writer"),
        (&["inspect", "--run", "a"], "a/writer-end"),
    ] {
        let actual = forge.run(&[arguments, &["--store", "sqlite:runs.db"]].concat());
        assert!(actual.code == 0 && actual.stdout.contains(expected), "{arguments:?}: {actual:?}");
    }
    let refused = checkpoints(&forge, &["delete", "a", "--yes"]);
    assert!(refused.code == 1 && refused.stderr.contains("runs.db cannot be reached"), "{refused:?}");
}

#[tokio::test]
async fn the_command_undoes_forks_and_deletes() {
    let forge = folder().await;
    let undone = checkpoints(&forge, &["undo", "a"]);
    assert!(undone.stdout.contains("c1 undone: 2 → 3 messages"), "{undone:?}");
    let forked = json_of(&forge, &["fork", "a", "--before-compaction", "c0"]);
    assert_eq!(forked["run"], "a-fork-1");
    assert_eq!(json_of(&forge, &["show", "a-fork-1"])["message_count"], 3);
    // Nobody can be asked here.
    let asked = checkpoints(&forge, &["delete", "a"]);
    assert!(asked.code == 2 && asked.stderr.contains("add --yes"), "{asked:?}");
    let rehearsed = json_of(&forge, &["delete", "a", "--dry-run"]);
    assert_eq!((rehearsed["checkpoints"].as_array().unwrap().len(), &rehearsed["runs"]), (5, &json!(1)));
    assert_eq!(json_of(&forge, &["list", "a"])["checkpoints"].as_array().unwrap().len(), 5);
    assert_eq!(json_of(&forge, &["delete", "a", "--yes"]), rehearsed);
    assert_eq!(json_of(&forge, &["show", "a-fork-1"])["message_count"], 3, "a fork outlives its origin");
    let held = checkpoints(&forge, &["delete", "b", "--yes"]);
    assert!(held.code == 1 && held.stderr.contains("--take-over"), "{held:?}");
    assert_eq!(checkpoints(&forge, &["delete", "b", "--yes", "--take-over"]).code, 0);
    let checked = json_of(&forge, &["check", "--repair"]);
    assert_eq!(checked["faults"], json!([]));
}

#[tokio::test]
async fn the_command_prunes_what_it_said() {
    let forge = folder().await;
    let unclear = checkpoints(&forge, &["prune", "--yes"]);
    assert!(unclear.code == 2 && unclear.stderr.contains("--keep-last N"), "{unclear:?}");
    let rehearsed = json_of(&forge, &["prune", "--run", "a", "--keep-last", "1", "--dry-run"]);
    let keys: Vec<_> = rehearsed["checkpoints"].as_array().unwrap().iter().map(|info| &info["key"]).collect();
    assert_eq!(keys, [3, 1]);
    assert_eq!(json_of(&forge, &["prune", "--run", "a", "--keep-last", "1", "--yes"]), rehearsed);
    assert_eq!(
        json_of(&forge, &["show", "a"])["coverage"],
        json!({"appended": 4, "verbatim": 1, "replaced": 3})
    );
    let unknown = checkpoints(&forge, &["prune", "--run", "z", "--keep-last", "1", "--yes"]);
    assert!(unknown.code == 2 && unknown.stderr.contains("there is no run `z`"), "{unknown:?}");
}

#[tokio::test]
async fn the_command_exports_and_imports() {
    let forge = folder().await;
    assert_eq!(checkpoints(&forge, &["export", "a", "-o", "a.jsonl"]).code, 0);
    let import = ["checkpoints", "import", "a.jsonl", "--store", "sqlite:other/new.db"];
    assert!(forge.run(&import).stdout.contains("run a: 4 checkpoints imported"));
    assert!(forge.run(&import).stdout.contains("run a already exists"));
    // A summary says that it is one.
    let summary = format!(
        "This session is being continued from a previous conversation that ran out of context.\n\n{SECOND}"
    );
    for (arguments, expected) in [
        (&["export", "a", "--to", "openai"][..], &["one", "two", "three", "four"][..]),
        (&["export", "a", "--to", "openai", "--view"], &[&summary, "four"]),
    ] {
        let text = checkpoints(&forge, arguments).stdout;
        let messages: Value = serde_json::from_str(&text).unwrap();
        let texts: Vec<_> =
            messages["messages"].as_array().unwrap().iter().map(|message| &message["content"]).collect();
        assert_eq!(texts, expected);
    }
    let nowhere = forge.run(&["checkpoints", "list"]);
    assert!(nowhere.code == 2 && nowhere.stderr.contains(".local/state/forge/checkpoints.db"), "{nowhere:?}");
    let listed = SqliteCheckpointStore::open(&SqlitePlace::new(forge.path("other/new.db"))).await.unwrap();
    let named: Result<RunId, _> = RunId::new("a");
    let infos = listed.list(&CheckpointFilter::of_run(&named.unwrap())).await;
    assert!(matches!(infos, Ok::<_, StoreError>(infos) if infos.len() == 4));
}

#[test]
fn a_run_continues_in_the_folder_that_its_agent_was_told_of() {
    let forge = Forge::new();
    let folders = ["a", "b"].map(|name| forge.path(name));
    folders.iter().for_each(|folder| std::fs::create_dir(folder).unwrap());
    let server = forge_tests::ScriptedServer::start(vec![forge_tests::Step::text("Yes."); 4]);
    let run = |folder: usize, arguments: &[&str]| {
        let mut command = forge.command(&[&["run", "--model", "openai:gpt-4o"], arguments].concat());
        command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k");
        outcome(command.env("OLLAMA_HOST", "http://127.0.0.1:1").current_dir(&folders[folder]))
    };
    let first = run(0, &["Begin."]);
    let saved = first.stderr.lines().find_map(|line| line.strip_prefix("saved as run ")).unwrap();
    let id = saved.split(' ').next().unwrap();
    let refused = run(1, &["--resume", id, "Go on."]);
    let there = std::fs::canonicalize(&folders[0]).unwrap();
    let help = format!("cd {} && forge --resume {id}", there.display());
    assert!(refused.code == 2 && refused.stderr.contains(&help), "{refused:?}");
    let forced = run(1, &["--resume", id, "--on-change", "continue", "Go on."]);
    assert_eq!(forced.code, 0, "{forced:?}");

    // An agent that is no longer there, and how to have it.
    std::fs::write(folders[0].join("forge.yaml"), "agents: [{ id: other, model: 'openai:gpt-4o' }]").unwrap();
    let second = run(0, &["--config", "/dev/null", "Begin."]);
    let saved = second.stderr.lines().find_map(|line| line.strip_prefix("saved as run ")).unwrap();
    let id = saved.split(' ').next().unwrap();
    let gone = run(0, &["--resume", id, "Go on."]);
    assert!(gone.code == 2 && gone.stderr.contains("add --config /dev/null"), "{gone:?}");

    // What is no longer there cannot be gone back to.
    std::fs::remove_dir_all(&folders[0]).unwrap();
    let here = run(1, &["--resume", id, "Go on."]);
    assert!(here.code == 0 && here.stderr.contains("which is gone"), "{here:?}");
    assert_eq!(server.requests().len(), 4);
}
