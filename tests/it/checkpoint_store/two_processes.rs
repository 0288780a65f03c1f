//! Two processes write into one file, each its own run, save by save at the same time; and neither into the other's.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use forge_domain::{
    CheckpointFilter, CheckpointKey, CheckpointStore, Mending, Message, NewCheckpoint, StoreError, Takeover,
};
use forge_infra::{SqliteCheckpointStore, SqlitePlace};
use pretty_assertions::assert_eq;

use super::sample::{append, checkpoint, hour, run, said};

/// The name of the test that is a process's whole work.
const WRITER: &str = "checkpoint_store::two_processes::the_writing_process";

/// How often each of the two saves.
const SAVES: usize = 500;

/// Somebody who writes the run of its name, one checkpoint for each line that it is sent.
struct Writer {
    process: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Writer {
    fn start(name: &str, path: &Path) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args([WRITER, "--exact", "--ignored", "--nocapture", "--quiet"])
            .env("FORGE_TEST_RUN", name)
            .env("FORGE_TEST_STORE", path)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (orders, answers) = (process.stdin.take().unwrap(), process.stdout.take().unwrap());
        Self { process, orders, answers: BufReader::new(answers) }
    }

    fn order(&mut self) {
        self.orders.write_all(b"save\n").unwrap();
    }

    /// What it says next; the test's own lines are none of it.
    fn answer(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.answers.read_line(&mut line).unwrap() > 0, "the process has ended");
            if let Some(answer) = line.trim().strip_prefix("writer: ") {
                return answer.to_owned();
            }
        }
    }

    fn end(mut self) {
        drop(self.orders);
        std::io::copy(&mut self.answers, &mut std::io::sink()).unwrap();
        self.process.wait().unwrap();
    }
}

#[tokio::test]
async fn a_thousand_saves_of_two_processes_are_all_there_once() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("store.db");
    let mut writers = ["a", "b"].map(|name| Writer::start(name, &path));
    assert_eq!(writers.each_mut().map(Writer::answer), ["claimed", "claimed"]);
    // Who comes second to a run is refused, as long as the first is there.
    let mut second = Writer::start("a", &path);
    assert_eq!(second.answer(), "held by a");
    second.end();
    let mut keys: Vec<(u64, &str)> = Vec::new();
    for _ in 0..SAVES {
        // Both are told before either answers.
        writers.iter_mut().for_each(Writer::order);
        for (writer, name) in writers.iter_mut().zip(["a", "b"]) {
            keys.push((writer.answer().parse().unwrap(), name));
        }
    }
    writers.into_iter().for_each(Writer::end);
    keys.sort_unstable();

    let store = SqliteCheckpointStore::open(&SqlitePlace::new(&path)).await.unwrap();
    assert_eq!(store.check(Mending::LookOnly).await.unwrap().faults, Vec::<String>::new());
    let mut stored: Vec<(u64, String)> = Vec::new();
    for name in ["a", "b"] {
        let of_run = store.list(&CheckpointFilter::of_run(&run(name))).await.unwrap();
        assert_eq!(of_run.len(), SAVES);
        for (nth, info) in of_run.iter().rev().enumerate() {
            assert_eq!((info.step.as_str(), info.message_count), (nth.to_string().as_str(), nth + 1));
            stored.push((info.key.as_u64(), name.to_owned()));
        }
        let last = store.load(of_run[0].key).await.unwrap().snapshot.conversation;
        let texts: Vec<String> = last.messages().map(|message| message.message().to_text()).collect();
        assert_eq!(texts, (0..SAVES).map(|nth| format!("{name} {nth}")).collect::<Vec<_>>());
    }
    stored.sort_unstable();
    assert_eq!(stored, keys.iter().map(|(key, name)| (*key, (*name).to_owned())).collect::<Vec<_>>());
}

/// The work of one process; does nothing where no parent asked for it.
#[tokio::test]
#[ignore = "a child process of the other tests"]
async fn the_writing_process() {
    let (Ok(name), Ok(path)) = (std::env::var("FORGE_TEST_RUN"), std::env::var("FORGE_TEST_STORE")) else {
        return;
    };
    let store = SqliteCheckpointStore::open(&SqlitePlace::new(Path::new(&path))).await.unwrap();
    let claim = match store.claim(&run(&name), &name, Takeover::Never, None, hour(0)).await {
        Err(StoreError::Held { by, .. }) => return println!("writer: held by {by}"),
        claim => claim.unwrap(),
    };
    println!("writer: claimed");
    let mut conversation = said(&[]);
    let mut parent: Option<CheckpointKey> = None;
    for (nth, order) in std::io::stdin().lines().enumerate() {
        order.unwrap();
        append(&mut conversation, Message::user(format!("{name} {nth}")));
        let new = NewCheckpoint { parent, ..checkpoint("writer", &nth.to_string(), &conversation) };
        let saved = store.save(&claim, &new).await.unwrap();
        println!("writer: {}", saved.key.as_u64());
        parent = Some(saved.key);
    }
}
