//! A replayed session that is killed at a random call and resumed sends byte for byte what the unbroken replay sends: over
//! made sessions, and over a sample of the recorded ones where these are at hand.

use std::path::Path;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forge_app::{Checkpointing, Orchestrator, ReplayPlan, ReplayReport, Resume, replay};
use forge_domain::*;
use forge_infra::{
    Exchange, MemoryCheckpointStore, Playback, SqliteCheckpointStore, SqlitePlace, SystemClock,
};
use forge_services::O200kCounter;
use forge_services::workflow::{Layers, Source, load};
use futures::{FutureExt, StreamExt, stream};
use pretty_assertions::assert_eq;

use crate::checkpoint_store::sample::Forgetful;
use crate::dice::Dice;
use crate::recorded_sample::recorded_sample;

/// A recording that keeps what it is asked, and never answers at one call.
struct Tape {
    playback: Playback,
    prompts: Mutex<Vec<String>>,
    hangs_at: usize,
}

impl Tape {
    fn new(messages: &[Message], hangs_at: usize) -> Arc<Self> {
        let playback = Playback::new(Exchange::all_of(messages), Arc::new(O200kCounter));
        Arc::new(Self { playback, prompts: Mutex::default(), hangs_at })
    }

    fn n_prompts(&self) -> usize {
        self.prompts.lock().unwrap().len()
    }
}

#[async_trait]
impl Provider for Tape {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let messages: Vec<&Message> = prompt.messages().iter().map(ContextMessage::message).collect();
        // When a message was made is no part of what is sent.
        let mut sent = serde_json::to_value(&messages).unwrap();
        for message in sent.as_array_mut().unwrap() {
            message.as_object_mut().unwrap().remove("timestamp");
        }
        let n_sent = {
            let mut prompts = self.prompts.lock().unwrap();
            prompts.push(sent.to_string());
            prompts.len()
        };
        if n_sent > self.hangs_at {
            return Ok(stream::pending().boxed());
        }
        self.playback.chat(prompt).await
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl ToolService for Tape {
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        self.playback.definitions(names)
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        self.playback.call(call).await
    }
}

/// Replays `messages` until the end, or until the tape hangs: then it is dropped.
async fn play(
    messages: &[Message],
    yaml: &str,
    tape: &Arc<Tape>,
    store: Option<&Arc<dyn CheckpointStore>>,
    resume: Option<&str>,
) -> Option<ReplayReport> {
    let workflow =
        load(&Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() }).unwrap();
    let agent = workflow.agents.iter().next().unwrap().clone();
    let policy = workflow.checkpoint.clone();
    let played = Arc::clone(tape);
    let engine = move |watcher: forge_app::Watcher| {
        let mut builder = Orchestrator::builder()
            .workflow(workflow)
            .provider(ProviderId::new("p").unwrap(), Arc::clone(&played) as Arc<dyn Provider>)
            .tools(played as Arc<dyn ToolService>)
            .counter(Arc::new(O200kCounter))
            .watcher(move |event| watcher(event));
        if let Some(store) = store {
            let run = RunId::new(if resume.is_some() { "second" } else { "first" }).unwrap();
            let kept = Checkpointing::new(Arc::clone(store), Arc::new(SystemClock), run).with_policy(policy);
            builder = builder.checkpoints(kept.held_by(Arc::new(Forgetful)));
        }
        builder.build_engine().unwrap()
    };
    let skipped = Arc::clone(tape);
    let skip = move || drop(skipped.playback.skip());
    let plan = ReplayPlan { resume: resume.map(Resume::from), calls: None };
    let mut playing = std::pin::pin!(replay(messages, &agent, engine, &skip, &plan));
    loop {
        if let Some(done) = playing.as_mut().now_or_never() {
            return Some(done.unwrap());
        }
        if tape.n_prompts() > tape.hangs_at {
            return None;
        }
        tokio::task::yield_now().await;
    }
}

fn yaml(window: u64, interval: usize) -> String {
    format!(
        "agents: [{{ id: replay, model: 'p:m' }}]\nproviders: {{ p: {{}} }}\n\
         models: {{ 'p:m': {{ window: {window}, max_output: 1 }} }}\ncheckpoint: {{ interval: {interval} }}\n"
    )
}

/// Kills the replay of `messages` at `n_kills` random calls, one at a time, and resumes it.
async fn check(
    name: &str,
    messages: &[Message],
    window: u64,
    dice: &mut Dice,
    n_kills: usize,
    file: Option<&Path>,
) {
    let tape = Tape::new(messages, usize::MAX);
    let report = play(messages, &yaml(window, 1), &tape, None, None).await.unwrap();
    let expected = tape.prompts.lock().unwrap().clone();
    if expected.is_empty() {
        return;
    }
    for kill in 0..n_kills {
        let (killed_at, interval) = (dice.roll(expected.len()), 1 + dice.roll(4));
        let what = format!("{name}: killed at prompt {killed_at} of {}, interval {interval}", expected.len());
        let yaml = yaml(window, interval);
        let store: Arc<dyn CheckpointStore> = match file {
            Some(folder) => {
                let place = SqlitePlace::new(folder.join(format!("{kill}.db")));
                Arc::new(SqliteCheckpointStore::open(&place).await.unwrap())
            }
            None => Arc::new(MemoryCheckpointStore::new()),
        };
        let first = Tape::new(messages, killed_at);
        assert!(play(messages, &yaml, &first, Some(&store), None).await.is_none(), "{what}");
        let first = first.prompts.lock().unwrap().clone();
        assert_eq!(first[..], expected[..=killed_at], "{what}");
        let second = Tape::new(messages, usize::MAX);
        let resumed = play(messages, &yaml, &second, Some(&store), Some("last")).await.unwrap();
        let second = second.prompts.lock().unwrap().clone();
        assert!(killed_at + second.len() >= expected.len(), "{what}: something was left out");
        assert!(killed_at + second.len() < expected.len() + interval, "{what}: too much was done again");
        assert_eq!(second[..], expected[expected.len() - second.len()..], "{what}");
        assert_eq!(resumed.coverage, report.coverage, "{what}");
        let tally = resumed.checkpoints.unwrap().tally;
        assert_eq!((tally.run.as_str(), tally.failed, tally.unsaved), ("first", 0, None), "{what}");
    }
}

/// A session with turns, parallel calls, failures and results of all sizes.
fn made(dice: &mut Dice) -> Vec<Message> {
    let mut messages = vec![Message::system(dice.words(30)), Message::user(dice.words(20))];
    for n in 0..20 + dice.roll(30) {
        let calls: Vec<ToolCall> = (0..dice.roll(4))
            .map(|at| ToolCall {
                id: format!("call_{n}_{at}"),
                name: ToolName::new(["read", "run", "list"][dice.roll(3)]).unwrap(),
                arguments: format!("{{\"path\":\"src/{}.rs\"}}", dice.roll(9)),
            })
            .collect();
        if calls.is_empty() {
            messages.push(Message::assistant(dice.words(40)));
            let n_words = 5 + dice.roll(60);
            messages.push(Message::user(dice.words(n_words)));
            continue;
        }
        messages.push(Message::calling(calls.clone()));
        for call in calls {
            let n_words = 1 + dice.roll(400);
            let text = dice.words(n_words);
            let result = if dice.roll(6) == 0 {
                ToolResult::error(&call, text)
            } else {
                ToolResult::answer(&call, text)
            };
            messages.push(Message::tool(result));
        }
    }
    messages.push(Message::assistant("done"));
    messages
}

#[tokio::test]
async fn made_sessions_go_on_as_if_they_had_never_stopped() {
    let mut dice = Dice(88_172_645_463_325_252);
    for n in 0..12 {
        let messages = made(&mut dice);
        let window = 3_000 + dice.roll(6_000) as u64;
        let folder = tempfile::tempdir().unwrap();
        let file = (n % 3 == 0).then(|| folder.path());
        check(&format!("made session {n}"), &messages, window, &mut dice, 4, file).await;
    }
}

#[tokio::test]
async fn recorded_sessions_go_on_as_if_they_had_never_stopped() {
    let mut dice = Dice(2_463_534_242);
    for (file, path) in recorded_sample("kill") {
        let bytes = std::fs::read(path).unwrap();
        for session in forge_transcript::read(&bytes, file).unwrap() {
            let messages = session.recording().messages;
            for (window, n_kills) in [(8_000, 2), (32_000, 2)] {
                let folder = tempfile::tempdir().unwrap();
                let name = format!("{file} {} at {window}", session.id);
                check(&name, &messages, window, &mut dice, n_kills, Some(folder.path())).await;
            }
        }
    }
}
