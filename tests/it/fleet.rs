//! The commands of a fleet where there is none, and the process of a slice, as a worker speaks to it.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::sync::Arc;

use forge_app::{Checkpointing, Orchestrator, SlicedRun};
use forge_domain::{
    CheckpointFilter, CheckpointReason, CheckpointStore, Provider, ProviderId, RunId, WorkspaceKeeper,
};
use forge_infra::{PostgresCheckpointStore, SqliteCheckpointStore, SqlitePlace, SystemClock};
use forge_services::workflow::{Layers, Source, load};
use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::checkpoint_store::cut_connections::{Between, Cut};
use crate::checkpoint_store::postgres_server::database;
use crate::forge::Forge;
use crate::orchestrator::helping::Cast;

/// The agent as the process that accepts the task has it: it calls no model and no tool.
const ACCEPTING: &str = "
providers: { s: {} }
models: { 's:m': { window: 100000, max_output: 1000 } }
agents: [{ id: one, model: 's:m' }]
";

/// The words of a Forge without fleets, which come before all others.
const UNBUILT: &str = "without the feature `temporal`";

pub(crate) async fn store(forge: &Forge) -> SqliteCheckpointStore {
    SqliteCheckpointStore::open(&SqlitePlace::new(forge.path("runs.db"))).await.unwrap()
}

/// A worker's folder, and a store in which a task was accepted as run `r`.
async fn accepted(server: &ScriptedServer) -> Forge {
    accepted_with(server, None).await
}

/// As [`accepted`], with a workspace that travels.
pub(crate) async fn accepted_with(server: &ScriptedServer, files: Option<Arc<dyn WorkspaceKeeper>>) -> Forge {
    let yaml = format!(
        "providers: {{ s: {{ kind: openai, base_url: '{}' }} }}\n\
         models: {{ 's:m': {{ window: 100000, max_output: 1000 }} }}\n\
         agents: [{{ id: one, model: 's:m', tools: [write, ask, list] }}]\n\
         permissions: {{ write: {} }}\n",
        server.base_url(),
        if files.is_some() { "allow" } else { "ask" }
    );
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let layers = Layers { project: Some(Source::new("forge.yaml", ACCEPTING)), ..Layers::default() };
    let run = RunId::new("r").unwrap();
    let checkpoints = Checkpointing::new(Arc::new(store(&forge).await), Arc::new(SystemClock), run);
    let orchestrator = Orchestrator::builder()
        .workflow(load(&layers).unwrap())
        .provider(ProviderId::new("s").unwrap(), Cast::new(&[]) as Arc<dyn Provider>)
        .checkpoints(match files {
            Some(files) => checkpoints.strict().with_files(files),
            None => checkpoints.strict(),
        })
        .build()
        .unwrap();
    let mut run = SlicedRun::new(orchestrator);
    run.accept("Make a file.", None).await.unwrap();
    run.orchestrator().close().await;
    forge
}

/// The process of a slice.
pub(crate) struct Slice {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: BufReader<ChildStdout>,
}

impl Slice {
    fn start(forge: &Forge, calls: usize, words: &Value) -> Self {
        Self::start_with(forge, calls, words, &[])
    }

    pub(crate) fn start_with(forge: &Forge, calls: usize, words: &Value, more: &[&str]) -> Self {
        let mut command = forge.process();
        let store = format!("sqlite://{}", forge.path("runs.db").display());
        command
            .args(["slice", "--store", "$WHERE"])
            .args(more)
            .env("WHERE", store)
            .env("OPENAI_API_KEY", "k");
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take(), child.stdout.take().unwrap());
        let mut slice = Self { child, stdin, lines: BufReader::new(stdout) };
        let order = json!({"run": "r", "words": words});
        slice.say(&json!({"order": order, "lease_ms": 60_000, "calls": calls, "time_ms": null}).to_string());
        slice
    }

    fn say(&mut self, line: &str) {
        writeln!(self.stdin.as_mut().unwrap(), "{line}").unwrap();
    }

    fn line(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.lines.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    /// The end of the slice, which is the last line.
    pub(crate) fn end(mut self) -> Value {
        let mut last = Value::Null;
        while let Some(line) = self.line() {
            last = line;
        }
        assert!(self.child.wait().unwrap().success());
        last
    }
}

/// The end in `outcome`, and the calls to the model until then.
pub(crate) fn end_of(outcome: &Value) -> (Value, u64) {
    (outcome["outcome"]["end"].clone(), outcome["outcome"]["calls"].as_u64().unwrap_or_default())
}

#[tokio::test(flavor = "multi_thread")]
async fn slices_of_a_run_are_processes_that_pause_wait_and_end() {
    let server = ScriptedServer::start(vec![
        Step::calls(&[("list", "{}")]),
        Step::calls(&[("write", r#"{"path": "a.txt", "content": "a\n"}"#)]),
        Step::calls(&[("ask", r#"{"question": "Red or blue?"}"#)]),
        Step::text("blue"),
    ]);
    let forge = accepted(&server).await;
    assert_eq!(end_of(&Slice::start(&forge, 1, &json!([])).end()), (json!("paused"), 1));
    assert_eq!(end_of(&Slice::start(&forge, 9, &json!([])).end()), (json!({"waiting": ["one-2-1"]}), 2));
    assert!(!forge.path("a.txt").exists());
    let allowed = json!([{"answer": {"id": "one-2-1", "consent": "once"}}]);
    assert_eq!(end_of(&Slice::start(&forge, 9, &allowed).end()), (json!({"waiting": ["one-3-1"]}), 3));
    assert_eq!(std::fs::read_to_string(forge.path("a.txt")).unwrap(), "a\n");
    let answers = json!([{"steer": {"number": 1, "text": "in one word"}}, {"answer": {"id": "one-3-1", "text": "blue"}}]);
    let last = Slice::start(&forge, 9, &answers).end();
    assert_eq!(end_of(&last), (json!({"done": "done"}), 4));
    let newest = store(&forge).await.list(&CheckpointFilter::default()).await.unwrap().remove(0);
    assert_eq!(last["outcome"]["checkpoint"], json!(newest.key));
    let told = server.requests().last().unwrap()["messages"].to_string();
    assert!(told.contains("blue") && told.contains("in one word"), "{told}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slice_lives_while_its_worker_ticks_pauses_when_it_says_so_and_ends_with_it() {
    let server = ScriptedServer::start(vec![
        Step::calls(&[("list", "{}")]),
        Step::Hang,
        Step::calls(&[("list", "{}")]),
        Step::text("done"),
    ]);
    let forge = accepted(&server).await;
    let mut slice = Slice::start(&forge, 9, &json!([]));
    slice.say("tick");
    assert_eq!(slice.line(), Some(json!("beat")));
    while server.requests().len() < 2 {
        tokio::time::sleep(std::time::Duration::from_millis(5)).await;
    }
    let runs = store(&forge).await.runs().await.unwrap();
    assert!(runs[0].holder.as_ref().is_some_and(|holder| holder.lease.is_some()), "{runs:?}");
    // The model hangs, and the worker is gone.
    drop(slice.stdin.take());
    assert_eq!(slice.line(), None);
    assert_eq!(slice.child.wait().unwrap().code(), Some(1));
    // Its process is known to be gone, so that the next one need not wait for the lease.
    let mut slice = Slice::start(&forge, 9, &json!([]));
    slice.say("pause");
    let (end, calls) = end_of(&slice.end());
    assert!(end == "paused" || end == json!({"done": "done"}), "{end}");
    let newest = store(&forge).await.list(&CheckpointFilter::default()).await.unwrap().remove(0);
    assert!(calls >= 2 && newest.reason != CheckpointReason::Interrupt, "{calls} {newest:?}");
}

#[test]
fn a_run_that_is_not_there_fails_for_good() {
    let forge = Forge::new().with_file("forge.yaml", ACCEPTING.replace("s: {}", "s: { kind: ollama }"));
    let end = Slice::start(&forge, 1, &json!([])).end();
    assert!(end["final"].as_str().is_some_and(|why| why.contains('r')), "{end}");
}

#[test]
fn where_there_is_no_fleet_it_is_said_how_to_get_one() {
    let forge = Forge::new();
    let store = format!("sqlite://{}", forge.path("runs.db").display());
    for arguments in [&["fleet", "list"][..], &["submit", "x", "--store", &store], &["fleet", "stop", "r"]] {
        let outcome = forge.run(arguments);
        assert_eq!(outcome.code, 2, "{arguments:?}");
        let is_said = [UNBUILT, "no fleet is named"].iter().any(|what| outcome.stderr.contains(what));
        assert!(is_said, "{}", outcome.stderr);
        let named = [arguments, &["--fleet", "temporal://127.0.0.1:1/x"]].concat();
        let outcome = forge.run(&named);
        let is_said =
            [UNBUILT, "no Temporal server answers there"].iter().any(|what| outcome.stderr.contains(what));
        assert!(outcome.code != 0 && is_said, "{}", outcome.stderr);
    }
    let memory = forge.run(&["worker", "--store", "memory:", "--fleet", "temporal://127.0.0.1:1/x"]);
    assert_eq!(memory.code, 2);
    let is_said = [UNBUILT, "a fleet needs a store that its machines share"]
        .iter()
        .any(|what| memory.stderr.contains(what));
    assert!(is_said, "{}", memory.stderr);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_at_a_terminal_holds_a_shared_store_with_a_lease_and_gives_it_back() {
    let Some(database) = database().await else { return };
    let store = PostgresCheckpointStore::connect(database.clone(), "the test's").await.unwrap();
    let between = Between::start(&database, Cut::Hole).await;
    let server = ScriptedServer::start(vec![Step::Held("done".to_owned())]);
    let forge = Forge::new();
    let port = between.config.get_ports()[0];
    let password = database.get_password().map(|word| format!(":{}", String::from_utf8_lossy(word)));
    let place = format!(
        "postgres://{}{}@127.0.0.1:{port}/{}?sslmode=disable",
        database.get_user().unwrap_or("test"),
        password.unwrap_or_default(),
        database.get_dbname().unwrap()
    );
    let mut command = forge.process();
    command.args(["run", "go", "--model", "openai:scripted", "--store", "$WHERE"]).env("WHERE", place);
    command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k").stdin(Stdio::null());
    let mut child = command.spawn().unwrap();
    let holder = loop {
        let holder = store.runs().await.unwrap().pop().and_then(|run| run.holder);
        if let Some(holder) = holder {
            break holder;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended before it held the run");
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    };
    assert!(holder.lease.is_some() && !holder.has_lapsed(), "{holder:?}");
    server.go_on();
    assert!(child.wait().unwrap().success());
    assert_eq!(store.runs().await.unwrap()[0].holder, None);
}
