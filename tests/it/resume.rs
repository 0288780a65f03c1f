//! Runs that stop anywhere and go on: by drop, by a store that fails, by another configuration.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forge_app::{Checkpointing, Orchestrator, Restored, Resume, ResumeError, RunError, RunEvent, StopReason};
use forge_domain::*;
use forge_infra::{MemoryCheckpointStore, SqliteCheckpointStore, SqlitePlace, SystemClock};
use forge_services::workflow::{Layers, Source, load};
use futures::{FutureExt, StreamExt, stream};
use pretty_assertions::assert_eq;

use crate::checkpoint_store::sample::Forgetful;

/// A model whose every reply depends on nothing but how often it has spoken in the conversation: whoever goes on with a
/// conversation gets what the unbroken run got.
struct Model {
    n_calls: usize,
    /// Prompts, as bytes.
    prompts: Mutex<Vec<String>>,
    /// The prompt, counted from zero over the process, that is never answered.
    hangs_at: usize,
}

impl Model {
    fn new(n_calls: usize, hangs_at: usize) -> Arc<Self> {
        Arc::new(Self { n_calls, prompts: Mutex::default(), hangs_at })
    }

    fn prompts(&self) -> Vec<String> {
        self.prompts.lock().unwrap().clone()
    }
}

#[async_trait]
impl Provider for Model {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let messages: Vec<&Message> = prompt.messages().iter().map(ContextMessage::message).collect();
        let n_sent = {
            let mut prompts = self.prompts.lock().unwrap();
            prompts.push(serde_json::to_string(&messages).unwrap());
            prompts.len() - 1
        };
        if n_sent == self.hangs_at {
            return Ok(stream::pending().boxed());
        }
        // The newest call's id says how far the work has come, whatever has left the view.
        let newest = messages.iter().rev().find_map(|message| message.calls().last());
        let number = |id: &str| id.split('_').nth(1).unwrap().parse::<usize>().unwrap();
        let n = newest.map_or(0, |call| number(&call.id) + 1);
        let usage = Some(Usage {
            prompt_tokens: Tokens::new(prompt.tokens().as_u64() * 11 / 10),
            completion_tokens: Tokens::new(10),
            ..Usage::default()
        });
        if n >= self.n_calls {
            let done = ChatCompletionMessage {
                content: Some("done".to_owned()),
                finish_reason: Some(FinishReason::Stop),
                usage,
                ..Default::default()
            };
            return Ok(stream::iter([Ok(done)]).boxed());
        }
        let part = |index: usize, id: String| ToolCallPart {
            index,
            id: Some(id),
            name: Some(if n % 3 == 0 { "big" } else { "small" }.to_owned()),
            arguments: format!("{{\"path\":\"src/file_{}.rs\"}}", (n + index) % 7),
        };
        let tool_calls = if n % 4 == 1 {
            vec![part(0, format!("call_{n}")), part(1, format!("call_{n}"))]
        } else {
            vec![part(0, format!("call_{n}"))]
        };
        let calls = ChatCompletionMessage {
            tool_calls,
            usage,
            finish_reason: Some(FinishReason::ToolCalls),
            ..Default::default()
        };
        Ok(stream::iter([Ok(calls)]).boxed())
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(Vec::new())
    }
}

/// Tools that count how often each call ran.
#[derive(Default)]
struct Counting {
    ran: Mutex<BTreeMap<String, usize>>,
    /// The call that never ends.
    hangs_at: Option<&'static str>,
}

#[async_trait]
impl ToolService for Counting {
    fn definitions(&self, _: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        Ok(Vec::new())
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        *self.ran.lock().unwrap().entry(call.id.clone()).or_default() += 1;
        if self.hangs_at == Some(call.id.as_str()) {
            return std::future::pending().await;
        }
        let n = if call.name.as_str() == "big" { 250 } else { 10 };
        ToolResult::answer(call, format!("{} said {}", call.id, "many words ".repeat(n)))
    }
}

const YAML: &str = "\
agents: [{ id: one, model: 'p:m', system_prompt: Be brief. }]
models: { 'p:m': { window: 4000, max_output: 100 } }
providers: { p: {} }
";

/// A run of its own process: the orchestrator and what it said.
struct Process {
    orchestrator: Orchestrator,
    failures: Arc<AtomicUsize>,
}

fn process(
    yaml: &str,
    model: &Arc<Model>,
    tools: &Arc<Counting>,
    store: Option<&Arc<dyn CheckpointStore>>,
    run: &str,
) -> Process {
    let source = Some(Source::new("forge.yaml", yaml));
    let workflow = load(&Layers { project: source, ..Layers::default() }).unwrap();
    let policy = workflow.checkpoint.clone();
    let failures = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&failures);
    let mut builder = Orchestrator::builder()
        .workflow(workflow)
        .provider(ProviderId::new("p").unwrap(), Arc::clone(model) as Arc<dyn Provider>)
        .tools(Arc::clone(tools) as Arc<dyn ToolService>)
        .watcher(move |event| {
            if let RunEvent::CheckpointFailed(_) = event {
                counted.fetch_add(1, Ordering::SeqCst);
            }
        });
    if let Some(store) = store {
        let run = RunId::new(run).unwrap();
        let kept = Checkpointing::new(Arc::clone(store), Arc::new(SystemClock), run).with_policy(policy);
        builder = builder.checkpoints(kept.held_by(Arc::new(Forgetful)));
    }
    Process { orchestrator: builder.build().unwrap(), failures }
}

fn memory() -> Arc<dyn CheckpointStore> {
    Arc::new(MemoryCheckpointStore::new())
}

async fn sqlite(folder: &std::path::Path, name: &str) -> Arc<dyn CheckpointStore> {
    Arc::new(SqliteCheckpointStore::open(&SqlitePlace::new(folder.join(name))).await.unwrap())
}

/// Polls until the future waits for something that is not the store.
async fn until_hung<T>(model: &Arc<Model>, work: impl Future<Output = T>) -> Option<T> {
    let mut work = std::pin::pin!(work);
    loop {
        if let Some(done) = work.as_mut().now_or_never() {
            return Some(done);
        }
        if model.prompts.lock().unwrap().len() > model.hangs_at {
            return None;
        }
        tokio::task::yield_now().await;
    }
}

async fn resumed(process: &mut Process, which: &str) -> Restored {
    process.orchestrator.restore(&Resume::from(which)).await.unwrap()
}

/// What an unbroken run of `n_calls` sends.
async fn unbroken(n_calls: usize) -> (Vec<String>, Conversation) {
    let model = Model::new(n_calls, usize::MAX);
    let mut process = process(YAML, &model, &Arc::default(), None, "x");
    process.orchestrator.run("go").await.unwrap();
    (model.prompts(), process.orchestrator.conversation("one").unwrap().clone())
}

/// Without the times: two runs are never at the same time.
fn timeless(conversation: &Conversation) -> String {
    serde_json::to_string(conversation).unwrap()
}

#[tokio::test]
async fn killed_at_any_call_a_run_goes_on_with_the_very_prompts_of_the_unbroken_one() {
    const N_CALLS: usize = 30;
    let (expected, whole) = unbroken(N_CALLS).await;
    assert!(whole.compactions().count() >= 3, "{}", whole.compactions().count());
    let folder = tempfile::tempdir().unwrap();
    for (interval, kills) in [(1, 0..=N_CALLS), (4, 0..=N_CALLS)] {
        let yaml = format!("{YAML}checkpoint: {{ interval: {interval} }}\n");
        for killed_at in kills {
            // The file is slower: every third kill is enough for it.
            let mut stores = vec![memory()];
            if killed_at % 3 == 0 {
                stores.push(sqlite(folder.path(), &format!("{interval}-{killed_at}.db")).await);
            }
            for store in stores {
                let tools = Arc::<Counting>::default();
                let first = Model::new(N_CALLS, killed_at);
                let mut killed = process(&yaml, &first, &tools, Some(&store), "a");
                let ended = until_hung(&first, killed.orchestrator.run("go")).await;
                assert!(ended.is_none(), "it hangs at {killed_at}");
                drop(killed);
                let second = Model::new(N_CALLS, usize::MAX);
                let mut next = process(&yaml, &second, &tools, Some(&store), "b");
                let restored = resumed(&mut next, "last").await;
                assert_eq!((restored.run.as_str(), restored.is_fork), ("a", false));
                let report = next.orchestrator.proceed().await.unwrap();
                assert_eq!((report.stop, report.response.as_str()), (StopReason::Done, "done"));
                assert_eq!(report.progress.iterations, N_CALLS + 1, "{killed_at}");
                let from = restored.from.iteration;
                assert!(killed_at - from < interval, "{killed_at}: went on from {from}");
                assert_eq!(second.prompts(), expected[from..], "killed at {killed_at}, went on from {from}");
                let log = next.orchestrator.conversation("one").unwrap();
                assert_eq!(timeless(log), timeless(&whole), "killed at {killed_at}");
                if interval == 1 {
                    let ran = tools.ran.lock().unwrap();
                    assert!(ran.values().all(|n| *n == 1), "{ran:?}");
                }
            }
        }
    }
}

#[tokio::test]
async fn results_that_were_there_are_kept_and_the_others_are_marked() {
    // The second of the two calls of reply 5 hangs; the first one is done.
    for saved_by in ["interruption", "death"] {
        let store = memory();
        let tools = Arc::new(Counting { hangs_at: Some("call_5_2"), ..Counting::default() });
        let model = Model::new(8, usize::MAX);
        let mut first = process(YAML, &model, &tools, Some(&store), "a");
        assert!(first.orchestrator.run("go").now_or_never().is_none(), "the tool hangs");
        if saved_by == "interruption" {
            first.orchestrator.save_interrupted().await;
            first.orchestrator.close().await;
        }
        drop(first);
        let mut next = process(YAML, &model, &tools, Some(&store), "b");
        let restored = resumed(&mut next, "a").await;
        let expected = if saved_by == "interruption" { "one-interrupt-6" } else { "one-calls-6" };
        assert_eq!(restored.from.id.as_str(), expected);
        next.orchestrator.proceed().await.unwrap();
        let log = next.orchestrator.conversation("one").unwrap();
        let results: Vec<(String, bool)> = log
            .messages()
            .filter_map(|message| match &message.message().body {
                Body::Tool(result) if result.call_id.starts_with("call_5") => {
                    let text: String = Content::to_text(&result.content).chars().take(11).collect();
                    Some((text, result.is_error))
                }
                _ => None,
            })
            .collect();
        let marked = ("The run was".to_owned(), true);
        let first = ("call_5 said".to_owned(), false);
        assert_eq!(results, [first, marked], "{saved_by}");
        let ran = ["call_5", "call_5_2"].map(|id| tools.ran.lock().unwrap()[id]);
        assert_eq!(ran, [1, 1], "neither was made again");
        assert!(log.coverage().is_complete());
    }
}

#[tokio::test]
async fn a_finished_run_goes_on_with_a_new_task_alone() {
    let store = memory();
    let model = Model::new(3, usize::MAX);
    let mut first = process(YAML, &model, &Arc::default(), Some(&store), "a");
    first.orchestrator.run("go").await.unwrap();
    first.orchestrator.close().await;
    let n_sent = model.prompts().len();
    let mut next = process(YAML, &model, &Arc::default(), Some(&store), "b");
    assert!(resumed(&mut next, "last").await.is_over);
    let report = next.orchestrator.proceed().await.unwrap();
    assert_eq!((report.response.as_str(), report.iterations, report.progress.iterations), ("done", 0, 4));
    assert_eq!(model.prompts().len(), n_sent, "nothing was asked");
    let report = next.orchestrator.run("and now?").await.unwrap();
    assert_eq!((report.iterations, report.progress.iterations), (1, 5));
    let log = next.orchestrator.conversation("one").unwrap();
    let said = |role: Role| log.messages().filter(|message| message.message().role() == role).count();
    assert_eq!((said(Role::System), said(Role::User)), (1, 2), "no prompt stands there twice");
    let names: Vec<String> = store
        .list(&CheckpointFilter::default())
        .await
        .unwrap()
        .iter()
        .map(|info| info.id.to_string())
        .collect();
    let expected = [
        "one-iteration-5",
        "one-turn-2",
        "one-iteration-4",
        "one-iteration-3",
        "one-iteration-2",
        "one-iteration-1",
        "one-turn-1",
    ];
    assert_eq!(names, expected);
}

#[tokio::test]
async fn an_earlier_checkpoint_begins_a_new_run() {
    let store = memory();
    let (model, tools) = (Model::new(6, usize::MAX), Arc::<Counting>::default());
    let mut first = process(YAML, &model, &tools, Some(&store), "a");
    first.orchestrator.run("go").await.unwrap();
    first.orchestrator.close().await;
    let expected = model.prompts();
    let again = Model::new(6, usize::MAX);
    let mut fork = process(YAML, &again, &tools, Some(&store), "b");
    let restored = resumed(&mut fork, "one-iteration-3").await;
    assert_eq!((restored.run.as_str(), restored.is_fork, restored.from.run.as_str()), ("b", true, "a"));
    fork.orchestrator.proceed().await.unwrap();
    assert_eq!(again.prompts(), expected[3..]);
    let of_fork = store.list(&CheckpointFilter::of_run(&restored.run)).await.unwrap();
    let first_of_fork = of_fork.last().unwrap();
    assert_eq!(
        (first_of_fork.reason, first_of_fork.parent),
        (CheckpointReason::Fork, Some(restored.from.key))
    );
}

#[tokio::test]
async fn a_changed_configuration_is_said_and_treated_as_declared() {
    let other = YAML.replace("Be brief.", "Be kind.");
    for (policy, expected) in [
        ("", Ok("a")),
        ("checkpoint: { on_change: fork }\n", Ok("b")),
        ("checkpoint: { on_change: refuse }\n", Err(())),
    ] {
        let store = memory();
        let model = Model::new(3, usize::MAX);
        let mut first = process(YAML, &model, &Arc::default(), Some(&store), "a");
        first.orchestrator.run("go").await.unwrap();
        first.orchestrator.close().await;
        let mut next = process(&format!("{other}{policy}"), &model, &Arc::default(), Some(&store), "b");
        match (next.orchestrator.restore(&Resume::from("last")).await, expected) {
            (Ok(restored), Ok(run)) => {
                let keys: Vec<&str> = restored.differences.iter().map(|d| d.key.as_str()).collect();
                assert_eq!((restored.run.as_str(), keys), (run, vec!["agent.system_prompt"]));
            }
            (Err(ResumeError::Changed(differences)), Err(())) => {
                assert_eq!(differences.len(), 1);
                // Nobody holds it: it can be resumed with the old configuration.
                let mut same = process(YAML, &model, &Arc::default(), Some(&store), "c");
                resumed(&mut same, "a").await;
            }
            (actual, expected) => panic!("{actual:?} instead of {expected:?}"),
        }
    }
}

#[tokio::test]
async fn agents_that_had_not_heard_of_the_event_are_woken_after_the_resumed_one() {
    let yaml = "providers: { p: {} }\nmodels: { 'p:m': { window: 4000 } }\nagents:\n\
                - { id: a, model: 'p:m', subscribe: [user_task_init] }\n\
                - { id: b, model: 'p:m', subscribe: [user_task_init], user_prompt: 'Review: {{event.value}}' }\n";
    for killed_at in 0..8 {
        let store = memory();
        let first = Model::new(3, killed_at);
        let mut killed = process(yaml, &first, &Arc::default(), Some(&store), "r");
        assert!(until_hung(&first, killed.orchestrator.run("go")).await.is_none());
        let second = Model::new(3, usize::MAX);
        let mut next = process(yaml, &second, &Arc::default(), Some(&store), "s");
        resumed(&mut next, "r").await;
        next.orchestrator.proceed().await.unwrap();
        // The prompt that was never answered is sent again; all others once.
        assert_eq!(killed_at + second.prompts().len(), 8, "killed at {killed_at}");
        for agent in ["a", "b"] {
            let log = next.orchestrator.conversation(agent).unwrap();
            assert_eq!(
                log.messages().filter(|message| message.message().starts_turn()).count(),
                1,
                "{agent}"
            );
        }
    }
}

#[tokio::test]
async fn where_an_agent_died_that_a_transform_woke_the_one_that_needed_it_goes_on() {
    let yaml = "\
agents:
- { id: one, model: 'p:m', subscribe: [user_task_init],
    transforms: [{ type: pass_through, agent_id: watch, input: seen }] }
- { id: watch, model: 'p:m' }
models: { 'p:m': { window: 100000 } }
providers: { p: {} }
";
    let (store, tools) = (memory(), Arc::<Counting>::default());
    let first = Model::new(2, 1);
    let mut killed = process(yaml, &first, &tools, Some(&store), "a");
    assert!(until_hung(&first, killed.orchestrator.run("go")).await.is_none());
    drop(killed);
    let second = Model::new(2, usize::MAX);
    let mut next = process(yaml, &second, &tools, Some(&store), "b");
    let restored = resumed(&mut next, "last").await;
    assert_eq!((restored.from.agent.as_str(), restored.is_over), ("watch", false));
    let report = next.orchestrator.proceed().await.unwrap();
    assert_eq!((report.stop, report.response.as_str()), (StopReason::Done, "done"));
    let texts = |agent: &str, role: Role| -> Vec<String> {
        let messages = next.orchestrator.conversation(agent).unwrap().messages();
        let of_role = messages.map(ContextMessage::message).filter(|message| message.role() == role);
        of_role.map(Message::to_text).collect()
    };
    assert_eq!((texts("one", Role::User).len(), texts("one", Role::Assistant)), (1, texts_of_two_calls()));
    // It remembers what it had done, and looks on before each of the three calls.
    assert_eq!((texts("watch", Role::User).len(), texts("watch", Role::Tool).len()), (4, 3));
}

/// What the model says that calls tools twice.
fn texts_of_two_calls() -> Vec<String> {
    ["", "", "done"].map(str::to_owned).to_vec()
}

/// A store that fails while it is told to.
struct Failing {
    store: MemoryCheckpointStore,
    /// Saves that are asked for, and which of them fail.
    n_saves: AtomicUsize,
    fails: fn(usize) -> bool,
    /// Whether it does not even say that it failed.
    is_silent: bool,
}

impl Failing {
    fn new() -> Self {
        let store = MemoryCheckpointStore::new();
        Self { store, n_saves: AtomicUsize::new(0), fails: |_| false, is_silent: false }
    }
}

#[async_trait]
impl CheckpointStore for Failing {
    async fn claim(
        &self,
        run: &RunId,
        holder: &str,
        takeover: Takeover,
        lease: Option<Lease>,
        now: jiff::Timestamp,
    ) -> Result<Claim, StoreError> {
        self.store.claim(run, holder, takeover, lease, now).await
    }
    async fn renew(&self, claim: &Claim, lease: Lease) -> Result<(), StoreError> {
        self.store.renew(claim, lease).await
    }
    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        self.store.release(claim).await
    }
    async fn confirm(&self, claim: &Claim) -> Result<(), StoreError> {
        self.store.confirm(claim).await
    }
    async fn save(&self, claim: &Claim, checkpoint: &NewCheckpoint) -> Result<CheckpointInfo, StoreError> {
        if (self.fails)(self.n_saves.fetch_add(1, Ordering::SeqCst)) {
            let place = "the store".to_owned();
            return Err(if self.is_silent {
                StoreError::TimedOut { place, seconds: 15 }
            } else {
                StoreError::Locked { place }
            });
        }
        self.store.save(claim, checkpoint).await
    }
    async fn begin_action(&self, claim: &Claim, action: &NewAction) -> Result<ActionKey, StoreError> {
        self.store.begin_action(claim, action).await
    }
    async fn end_action(&self, key: ActionKey, end: &ActionEnd) -> Result<(), StoreError> {
        self.store.end_action(key, end).await
    }
    async fn actions(&self, run: &RunId) -> Result<Vec<Action>, StoreError> {
        self.store.actions(run).await
    }
    async fn load(&self, key: CheckpointKey) -> Result<Checkpoint, StoreError> {
        self.store.load(key).await
    }
    async fn list(&self, filter: &CheckpointFilter) -> Result<Vec<CheckpointInfo>, StoreError> {
        self.store.list(filter).await
    }
    async fn runs(&self) -> Result<Vec<RunInfo>, StoreError> {
        self.store.runs().await
    }
    async fn delete(&self, what: &Deletion, sweep: Sweep) -> Result<Pruned, StoreError> {
        self.store.delete(what, sweep).await
    }
    async fn prune(
        &self,
        retention: &Retention,
        now: jiff::Timestamp,
        sweep: Sweep,
    ) -> Result<Pruned, StoreError> {
        self.store.prune(retention, now, sweep).await
    }
    async fn search(&self, run: &RunId, query: &SearchQuery) -> Result<Vec<Found>, StoreError> {
        self.store.search(run, query).await
    }
    async fn check(&self, mending: Mending) -> Result<StoreHealth, StoreError> {
        self.store.check(mending).await
    }
}

#[tokio::test]
async fn a_store_that_fails_costs_checkpoints_and_never_the_run() {
    // Which saves fail; how many did; whether the end is in the store.
    for (name, fails, is_failing, is_saved) in [
        ("never", (|_| false) as fn(usize) -> bool, false, true),
        ("for a while", |n| (2..9).contains(&n), true, true),
        ("every other one", |n| n % 2 == 1, true, true),
        ("always", |_| true, true, false),
    ] {
        let failing = Failing { fails, ..Failing::new() };
        let store: Arc<dyn CheckpointStore> = Arc::new(failing);
        let model = Model::new(10, usize::MAX);
        let yaml = format!("{YAML}checkpoint: {{ interval: 3 }}\n");
        let mut run = process(&yaml, &model, &Arc::default(), Some(&store), "a");
        let report = run.orchestrator.run("go").await.unwrap();
        assert_eq!(report.response, "done", "{name}");
        let tally = report.checkpoints.unwrap();
        assert_eq!((tally.failed > 0, tally.unsaved.is_none()), (is_failing, is_saved), "{name}: {tally:?}");
        assert_eq!(run.failures.load(Ordering::SeqCst), tally.failed, "{name}: each is told");
        let newest =
            store.list(&CheckpointFilter { limit: Some(1), ..CheckpointFilter::default() }).await.unwrap();
        assert_eq!(newest.first().is_some_and(|info| info.iteration == 11), is_saved, "{name}");
    }
}

#[tokio::test]
async fn a_run_that_somebody_writes_is_not_resumed() {
    struct Careful;
    impl Holder for Careful {
        fn name(&self) -> &str {
            "another"
        }
        fn is_gone(&self, _: &str) -> bool {
            false
        }
    }
    let store = memory();
    let model = Model::new(3, usize::MAX);
    let mut first = process(YAML, &model, &Arc::default(), Some(&store), "a");
    first.orchestrator.run("go").await.unwrap();
    let builder = || {
        let workflow = load(&Layers { project: Some(Source::new("forge.yaml", YAML)), ..Layers::default() });
        let run = RunId::new("b").unwrap();
        let kept =
            Checkpointing::new(Arc::clone(&store), Arc::new(SystemClock), run).held_by(Arc::new(Careful));
        Orchestrator::builder()
            .workflow(workflow.unwrap())
            .provider(ProviderId::new("p").unwrap(), Arc::clone(&model) as Arc<dyn Provider>)
            .checkpoints(kept)
            .build()
            .unwrap()
    };
    let refused = builder().restore(&Resume::from("a")).await.unwrap_err();
    assert!(matches!(refused, ResumeError::Store(StoreError::Held { .. })), "{refused}");
    let take = Resume { take_from: forge_app::TakeFrom::Anyone, ..Resume::from("a") };
    builder().restore(&take).await.unwrap();
    // Whoever lost the run ends before it asks anything.
    let n_prompts = model.prompts().len();
    let fenced = first.orchestrator.run("more").await.unwrap_err();
    assert!(matches!(fenced, RunError::Fenced { .. }), "{fenced}");
    assert!(fenced.to_string().contains("taken over by another"), "{fenced}");
    assert_eq!(model.prompts().len(), n_prompts);
}

/// Tools of a run that another process takes over while the `nth` call runs.
struct TakenOver {
    store: Arc<dyn CheckpointStore>,
    nth: usize,
    n_calls: AtomicUsize,
}

#[async_trait]
impl ToolService for TakenOver {
    fn definitions(&self, _: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        Ok(Vec::new())
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        if self.n_calls.fetch_add(1, Ordering::SeqCst) + 1 == self.nth {
            take_over(&*self.store, "a").await;
        }
        ToolResult::answer(call, "done")
    }
}

/// Takes the run over from whoever holds it.
async fn take_over(store: &dyn CheckpointStore, name: &str) -> Claim {
    let runs = store.runs().await.unwrap();
    let held = runs.iter().find(|known| known.run.as_str() == name).unwrap().holder.as_ref().unwrap();
    let run = RunId::new(name).unwrap();
    store.claim(&run, "another", Takeover::Of(held.token), None, SystemClock.now()).await.unwrap()
}

#[tokio::test]
async fn a_run_that_was_taken_over_calls_nothing_more_whatever_is_saved() {
    // When it is saved; in which call of the second task it is taken over (0: before the task).
    for (checkpoint, nth) in [
        ("{}", 1),
        ("{}", 2),
        ("{ interval: 100 }", 1),
        ("{ interval: 100 }", 4),
        ("{ on: [end] }", 0),
        ("{ on: [end] }", 3),
    ] {
        let name = format!("{checkpoint}, call {nth}");
        let store = memory();
        let source = Some(Source::new("forge.yaml", format!("{YAML}checkpoint: {checkpoint}\n")));
        let workflow = load(&Layers { project: source, ..Layers::default() }).unwrap();
        let policy = workflow.checkpoint.clone();
        let kept = Checkpointing::new(Arc::clone(&store), Arc::new(SystemClock), RunId::new("a").unwrap());
        let model = Model::new(12, usize::MAX);
        let tools =
            Arc::new(TakenOver { store: Arc::clone(&store), nth: usize::MAX, n_calls: AtomicUsize::new(0) });
        let orchestrator = |model: &Arc<Model>, tools: &Arc<TakenOver>, kept: Checkpointing| {
            Orchestrator::builder()
                .workflow(workflow.clone())
                .provider(ProviderId::new("p").unwrap(), Arc::clone(model) as Arc<dyn Provider>)
                .tools(Arc::clone(tools) as Arc<dyn ToolService>)
                .checkpoints(kept.with_policy(policy.clone()).held_by(Arc::new(Forgetful)))
                .build()
                .unwrap()
        };
        // A first task, so that the run is in the store whatever the policy.
        let first = Model::new(0, usize::MAX);
        orchestrator(&first, &tools, kept).run("begin").await.unwrap();
        let kept = Checkpointing::new(Arc::clone(&store), Arc::new(SystemClock), RunId::new("b").unwrap());
        let tools = Arc::new(TakenOver { store: Arc::clone(&store), nth, n_calls: AtomicUsize::new(0) });
        let mut going = orchestrator(&model, &tools, kept);
        going.restore(&Resume::from("a")).await.unwrap();
        if nth == 0 {
            take_over(&*store, "a").await;
        }
        let ended = going.run("go").await;
        assert!(matches!(ended, Err(RunError::Fenced { .. })), "{name}: {ended:?}");
        assert!(going.is_fenced(), "{name}");
        // Calls of the same reply run at the same time; the model calls two at once in its second reply.
        let n_calls = tools.n_calls.load(Ordering::SeqCst);
        assert!((nth..=nth + 1).contains(&n_calls), "{name}: {n_calls} calls");
        assert!(model.prompts().len() <= nth, "{name}: {} prompts", model.prompts().len());
        // What it closes belongs to the other one now.
        let before = store.list(&CheckpointFilter::default()).await.unwrap();
        going.save_interrupted().await;
        going.close().await;
        assert_eq!(store.list(&CheckpointFilter::default()).await.unwrap(), before, "{name}");
        let holder = store.runs().await.unwrap().remove(0).holder.map(|holder| holder.by);
        assert_eq!(holder.as_deref(), Some("another"), "{name}");
    }
}

/// A store in which the living run `a` saves its next state, and lets go the one before, directly before the `at`-th thing that is
/// asked of it.
struct Living {
    store: MemoryCheckpointStore,
    n_asked: AtomicUsize,
    at: usize,
    claim: Mutex<Option<Claim>>,
}

impl Living {
    async fn new(at: usize) -> Self {
        let store = MemoryCheckpointStore::new();
        let run = RunId::new("a").unwrap();
        let claim = store.claim(&run, "the living", Takeover::Never, None, SystemClock.now()).await.unwrap();
        let living =
            Self { store, n_asked: AtomicUsize::new(0), at: usize::MAX, claim: Mutex::new(Some(claim)) };
        let model = Model::new(3, usize::MAX);
        // A state as a run leaves it.
        let made = memory();
        process(YAML, &model, &Arc::default(), Some(&made), "a").orchestrator.run("go").await.unwrap();
        let last = made.list(&CheckpointFilter::default()).await.unwrap().remove(0);
        let snapshot = made.load(last.key).await.unwrap().snapshot;
        living.save(snapshot, None).await.unwrap();
        Self { at, ..living }
    }

    async fn save(
        &self,
        snapshot: ContextSnapshot,
        parent: Option<CheckpointKey>,
    ) -> Result<CheckpointInfo, StoreError> {
        let claim = self.claim.lock().unwrap().clone().unwrap();
        let step = format!("iteration-{}", snapshot.conversation.entries().len());
        let (reason, created_at) = (CheckpointReason::Iteration, SystemClock.now());
        self.store.save(&claim, &NewCheckpoint { snapshot, step, reason, created_at, parent }).await
    }

    /// Whether the living run may go on.
    async fn live_on(&self) -> bool {
        let last = self.store.list(&CheckpointFilter::default()).await.unwrap().remove(0);
        let mut snapshot = self.store.load(last.key).await.unwrap().snapshot;
        let text = Message::assistant(format!("after {}", last.id));
        snapshot.conversation.append(ContextMessage::restored(MessageId::FIRST, Tokens::new(9), text));
        let saved = self.save(snapshot, Some(last.key)).await;
        if saved.is_ok() {
            self.store.delete(&Deletion::Checkpoint(last.key), Sweep::Done).await.unwrap();
        }
        saved.is_ok()
    }

    async fn asked(&self) {
        if self.n_asked.fetch_add(1, Ordering::SeqCst) == self.at {
            self.live_on().await;
        }
    }
}

#[async_trait]
impl CheckpointStore for Living {
    async fn claim(
        &self,
        run: &RunId,
        holder: &str,
        takeover: Takeover,
        lease: Option<Lease>,
        now: jiff::Timestamp,
    ) -> Result<Claim, StoreError> {
        self.asked().await;
        self.store.claim(run, holder, takeover, lease, now).await
    }
    async fn renew(&self, claim: &Claim, lease: Lease) -> Result<(), StoreError> {
        self.store.renew(claim, lease).await
    }
    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        self.store.release(claim).await
    }
    async fn confirm(&self, claim: &Claim) -> Result<(), StoreError> {
        self.store.confirm(claim).await
    }
    async fn save(&self, claim: &Claim, checkpoint: &NewCheckpoint) -> Result<CheckpointInfo, StoreError> {
        self.store.save(claim, checkpoint).await
    }
    async fn begin_action(&self, claim: &Claim, action: &NewAction) -> Result<ActionKey, StoreError> {
        self.store.begin_action(claim, action).await
    }
    async fn end_action(&self, key: ActionKey, end: &ActionEnd) -> Result<(), StoreError> {
        self.store.end_action(key, end).await
    }
    async fn actions(&self, run: &RunId) -> Result<Vec<Action>, StoreError> {
        self.store.actions(run).await
    }
    async fn load(&self, key: CheckpointKey) -> Result<Checkpoint, StoreError> {
        self.asked().await;
        self.store.load(key).await
    }
    async fn list(&self, filter: &CheckpointFilter) -> Result<Vec<CheckpointInfo>, StoreError> {
        self.asked().await;
        self.store.list(filter).await
    }
    async fn runs(&self) -> Result<Vec<RunInfo>, StoreError> {
        self.asked().await;
        self.store.runs().await
    }
    async fn delete(&self, what: &Deletion, sweep: Sweep) -> Result<Pruned, StoreError> {
        self.store.delete(what, sweep).await
    }
    async fn prune(
        &self,
        retention: &Retention,
        now: jiff::Timestamp,
        sweep: Sweep,
    ) -> Result<Pruned, StoreError> {
        self.store.prune(retention, now, sweep).await
    }
    async fn search(&self, run: &RunId, query: &SearchQuery) -> Result<Vec<Found>, StoreError> {
        self.store.search(run, query).await
    }
    async fn check(&self, mending: Mending) -> Result<StoreHealth, StoreError> {
        self.store.check(mending).await
    }
}

#[tokio::test]
async fn a_living_run_is_taken_over_at_its_latest_state_or_left_to_live() {
    for which in ["a", "last", "a/last", "#1"] {
        for at in 0..16 {
            let name = format!("{which}, {at}");
            let living = Arc::new(Living::new(at).await);
            let store: Arc<dyn CheckpointStore> = Arc::clone(&living) as Arc<dyn CheckpointStore>;
            let model = Model::new(3, usize::MAX);
            let mut other = process(YAML, &model, &Arc::default(), Some(&store), "b").orchestrator;
            let take = Resume { take_from: forge_app::TakeFrom::Anyone, ..Resume::from(which) };
            let restored = other.restore(&take).await;
            let newest = living.store.list(&CheckpointFilter::default()).await.unwrap().remove(0);
            let is_named = which.starts_with('#');
            match restored {
                Ok(restored) => {
                    assert!(!restored.is_fork, "{name}");
                    assert_eq!((restored.from.key, restored.run.as_str()), (newest.key, "a"), "{name}");
                    let there = other.conversation("one").unwrap().entries().len();
                    assert_eq!(there, newest.n_entries, "{name}");
                    assert!(!living.live_on().await, "{name}: two write it");
                }
                // The checkpoint that was named has gone meanwhile.
                Err(error) => {
                    assert!(is_named, "{name}: {error}");
                    assert!(living.live_on().await, "{name}: nobody writes it: {error}");
                }
            }
        }
    }
}

#[tokio::test]
async fn a_store_that_does_not_answer_is_left_alone_until_the_end() {
    let failing = Failing { fails: |_| true, is_silent: true, ..Failing::new() };
    let failing = Arc::new(failing);
    let store: Arc<dyn CheckpointStore> = Arc::clone(&failing) as Arc<dyn CheckpointStore>;
    let model = Model::new(10, usize::MAX);
    let mut run = process(YAML, &model, &Arc::default(), Some(&store), "a");
    let report = run.orchestrator.run("go").await.unwrap();
    assert_eq!(report.response, "done");
    assert_eq!(failing.n_saves.load(Ordering::SeqCst), 1, "each attempt would hold the run up");
    assert!(report.checkpoints.unwrap().unsaved.unwrap().contains("did not answer within 15 s"));
    run.orchestrator.save_interrupted().await;
    run.orchestrator.close().await;
    assert_eq!(failing.n_saves.load(Ordering::SeqCst), 2, "once more at the end");
}

#[tokio::test]
async fn what_cannot_be_resumed_is_said() {
    let store = memory();
    let model = Model::new(3, usize::MAX);
    let mut run = process(YAML, &model, &Arc::default(), Some(&store), "a");
    let words = |error: Result<Restored, ResumeError>| error.unwrap_err().to_string();
    assert!(words(run.orchestrator.restore(&Resume::from("last")).await).contains("no run of this folder"));
    assert!(
        words(run.orchestrator.restore(&Resume::from("go on")).await)
            .contains("unknown run or checkpoint `go on`")
    );
    assert!(matches!(run.orchestrator.proceed().await, Err(RunError::NothingToResume)));
    run.orchestrator.run("go").await.unwrap();
    run.orchestrator.close().await;
    let other = YAML.replace("id: one", "id: two");
    let mut other = process(&other, &model, &Arc::default(), Some(&store), "b");
    assert!(words(other.orchestrator.restore(&Resume::from("a")).await).contains("agent `one`"));
    let mut without = process(YAML, &model, &Arc::default(), None, "c");
    assert!(
        words(without.orchestrator.restore(&Resume::from("a")).await).contains("no checkpoints are kept")
    );
}
