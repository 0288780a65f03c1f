//! Measures checkpoints in a SQLite store: size, time of a save and of a load, and two processes that share a
//! file.
//!
//! `cargo run --release -p forge_infra --example store_figures`
#![allow(clippy::disallowed_methods, reason = "it looks at files and starts itself anew")]
#![allow(clippy::unwrap_used, reason = "a panic is how a measurement fails")]

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use forge_domain::{
    AgentId, CheckpointFilter, CheckpointKey, CheckpointReason, CheckpointStore, Claim, CompactionEntry,
    Configuration, ContextMessage, ContextSnapshot, Conversation, Entry, EntryId, Mending, Message,
    MessageId, NewCheckpoint, Progress, Replacement, RunId, Takeover, Tokens, ToolCall, ToolName, ToolResult,
};
use forge_infra::{SqliteCheckpointStore, SqlitePlace};
use jiff::Timestamp;

/// A generator of text like that of tools: words of a vocabulary, the first ones often, and names and numbers
/// that occur once.
struct Prose {
    dice: u64,
    vocabulary: Vec<String>,
}

impl Prose {
    fn new() -> Self {
        let mut prose = Self { dice: 88_172_645_463_325_252, vocabulary: Vec::new() };
        for _ in 0..3_000 {
            let n = 2 + prose.roll(8);
            let word = (0..n).map(|_| char::from(b'a' + prose.roll(26) as u8)).collect();
            prose.vocabulary.push(word);
        }
        prose
    }

    fn roll(&mut self, sides: usize) -> usize {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice % sides as u64) as usize
    }

    fn text(&mut self, bytes: usize) -> String {
        let mut text = String::new();
        while text.len() < bytes {
            let most = 1 + self.roll(3_000);
            let at = self.roll(most);
            let word = self.vocabulary[at].clone();
            text.push_str(&word);
            match self.roll(12) {
                0 => text.push_str(&format!("_{}.rs:{}\n", self.roll(1_000_000), self.roll(900))),
                1 => text.push_str("\n    "),
                _ => text.push(' '),
            }
        }
        text
    }
}

fn append(conversation: &mut Conversation, message: Message, at: i64) {
    let tokens = Tokens::new(message.to_text().len() as u64 / 4 + 4);
    let message = message.at(Timestamp::from_millisecond(1_767_225_600_000 + at * 1_713).unwrap());
    conversation.append(ContextMessage::restored(MessageId::FIRST, tokens, message));
}

/// Adds one call and its result: about 2.1 KB as JSON.
fn iterate(conversation: &mut Conversation, prose: &mut Prose, n: i64) {
    let arguments = format!("{{\"path\": \"{}\"}}", prose.text(40).trim());
    let call = ToolCall { id: format!("call_{n}"), name: ToolName::new("read").unwrap(), arguments };
    let size = 200 + prose.roll(3_000);
    let result = ToolResult::answer(&call, prose.text(size));
    append(conversation, Message::calling(vec![call]), 2 * n);
    append(conversation, Message::tool(result), 2 * n + 1);
}

/// Returns the conversation with all but its last ten messages in one summary, which absorbs the previous
/// summary.
fn compacted(conversation: &Conversation, prose: &mut Prose) -> Conversation {
    let mut entries = conversation.entries().to_vec();
    let appended: Vec<MessageId> = conversation.messages().filter_map(ContextMessage::id).collect();
    let next = conversation.view().messages().iter().filter_map(ContextMessage::id).max().unwrap();
    let summary = Message::user(prose.text(6_000)).compacted();
    let with = vec![ContextMessage::restored(MessageId::new(next.as_u64() + 1), Tokens::new(1_500), summary)];
    let replaces = appended[1..appended.len() - 10].to_vec();
    let absorbs = conversation.live_entries().iter().map(|entry| entry.id()).collect();
    let id = EntryId::nth(conversation.compactions().count() as u64);
    entries.push(Entry::Compaction(CompactionEntry::restored(
        id,
        vec![Replacement { replaces, with }],
        absorbs,
    )));
    Conversation::restore(entries).unwrap()
}

fn checkpoint(conversation: &Conversation, n: usize, parent: Option<CheckpointKey>) -> NewCheckpoint {
    let tools: String = "a description of what the tool does ".repeat(100);
    let configuration =
        serde_json::json!({"agent": {"id": "worker", "model": "m"}, "tools": {"read": tools}});
    NewCheckpoint {
        snapshot: ContextSnapshot {
            agent: AgentId::new("worker").unwrap(),
            conversation: conversation.clone(),
            progress: Progress { iterations: n, turn_iterations: n, ..Progress::default() },
            configuration: serde_json::from_value::<Configuration>(configuration).unwrap(),
        },
        step: format!("iteration-{n}"),
        reason: CheckpointReason::Iteration,
        created_at: Timestamp::from_second(1_767_225_600 + n as i64).unwrap(),
        parent,
    }
}

async fn open(path: &Path) -> (SqliteCheckpointStore, Claim) {
    let store = SqliteCheckpointStore::open(&SqlitePlace::new(path)).await.unwrap();
    let run = RunId::new(format!("run-{}", std::process::id())).unwrap();
    let claim = store.claim(&run, "figures", Takeover::Never, None, Timestamp::UNIX_EPOCH).await.unwrap();
    (store, claim)
}

/// Returns the size after `n_iterations` iterations with a checkpoint each, and the time of every save.
async fn run(path: &Path, n_iterations: usize) -> (u64, u64, Vec<Duration>) {
    let (store, claim) = open(path).await;
    let (mut prose, mut log) = (Prose::new(), Conversation::new());
    append(&mut log, Message::user("Read everything."), 0);
    let (mut parent, mut took) = (None, Vec::new());
    for n in 1..=n_iterations {
        iterate(&mut log, &mut prose, n as i64);
        if n % 25 == 0 {
            log = compacted(&log, &mut prose);
        }
        let new = checkpoint(&log, n, parent);
        let started = Instant::now();
        parent = Some(store.save(&claim, &new).await.unwrap().key);
        took.push(started.elapsed());
    }
    drop(store);
    let raw = log.messages().map(|message| serde_json::to_vec(message.message()).unwrap().len() as u64).sum();
    (raw, std::fs::metadata(path).unwrap().len(), took)
}

fn median(took: &[Duration]) -> Duration {
    let mut sorted = took.to_vec();
    sorted.sort();
    sorted[sorted.len() / 2]
}

/// Runs a process that saves `n` times, one more message each time.
async fn work(path: &Path, n: usize) {
    let (store, claim) = open(path).await;
    let (mut log, mut parent) = (Conversation::new(), None);
    for at in 0..n {
        append(&mut log, Message::user(format!("message {at} of {}", std::process::id())), at as i64);
        parent = Some(store.save(&claim, &checkpoint(&log, at, parent)).await.unwrap().key);
    }
    assert_eq!(store.load(parent.unwrap()).await.unwrap().snapshot.conversation, log);
}

#[tokio::main]
async fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if let [_, path, n] = arguments.as_slice() {
        return work(Path::new(path), n.parse().unwrap()).await;
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    for n in [100, 200, 400, 800] {
        let (raw, stored, _) = run(&at(&format!("{n}.db")), n).await;
        let ratio = stored as f64 / raw as f64;
        println!("{n} iterations: raw {raw} bytes, stored {stored} bytes, {ratio:.2}x");
    }
    let (_, _, took) = run(&at("saves.db"), 1_020).await;
    let (early, late) = (median(&took[5..20]), median(&took[990..1_010]));
    let ratio = late.as_secs_f64() / early.as_secs_f64();
    println!("save at iteration 10: {early:?}, at 1,000: {late:?}, ratio {ratio:.2}");
    let (store, claim) = open(&at("large.db")).await;
    let (mut prose, mut log) = (Prose::new(), Conversation::new());
    append(&mut log, Message::user("Read everything."), 0);
    let tokens = |log: &Conversation| log.messages().map(|message| message.tokens().as_u64()).sum::<u64>();
    while tokens(&log) < 1_000_000 {
        (0..100).for_each(|n| iterate(&mut log, &mut prose, n));
        log = compacted(&log, &mut prose);
    }
    let key = store.save(&claim, &checkpoint(&log, 1, None)).await.unwrap().key;
    drop(store);
    for _ in 0..3 {
        let started = Instant::now();
        let store = SqliteCheckpointStore::open(&SqlitePlace::new(at("large.db"))).await.unwrap();
        let loaded = store.load(key).await.unwrap();
        let took = started.elapsed();
        assert_eq!(loaded.snapshot.conversation, log);
        println!("open and load {} tokens, {} messages: {took:?}", tokens(&log), log.messages().count());
    }
    let started = Instant::now();
    let spawn = || Command::new(std::env::current_exe().unwrap()).arg(at("shared.db")).arg("1000").spawn();
    let children = [spawn().unwrap(), spawn().unwrap()];
    for mut child in children {
        assert!(child.wait().unwrap().success());
    }
    let took = started.elapsed();
    let store = SqliteCheckpointStore::open(&SqlitePlace::new(at("shared.db"))).await.unwrap();
    let saved = store.list(&CheckpointFilter::default()).await.unwrap();
    let health = store.check(Mending::LookOnly).await.unwrap();
    println!(
        "two processes, 1,000 saves each: {} saved in {took:?}, faults {:?}",
        saved.len(),
        health.faults
    );
}
