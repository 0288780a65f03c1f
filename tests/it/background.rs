//! Summaries that are asked for while tools run: they come sooner, and nothing else is different.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forge_app::{Checkpointing, Orchestrator, RunEvent, RunReport};
use forge_domain::*;
use forge_infra::{MemoryCheckpointStore, SystemClock};
use forge_services::workflow::{Layers, Source, load};
use futures::{StreamExt, stream};
use pretty_assertions::assert_eq;

/// A model and its summariser, and a tool; all note what they do, in order.
#[derive(Default)]
struct World {
    noted: Mutex<Vec<String>>,
    /// What the model was sent, one text for each message.
    prompts: Mutex<Vec<Vec<String>>>,
    n_summaries: AtomicUsize,
    /// Length of each result in words; the model calls once for each, and then is done.
    results: Vec<usize>,
    summarizer: Summarizer,
    /// The tools are gone after so many prompts of the model, if any.
    ends_after: Option<usize>,
}

#[derive(Clone, Copy, Default)]
enum Summarizer {
    #[default]
    Answers,
    /// It is asked and never says a word.
    Hangs,
}

impl World {
    fn note(&self, what: impl Into<String>) {
        self.noted.lock().unwrap().push(what.into());
    }
}

struct Model(Arc<World>);

#[async_trait]
impl Provider for Model {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let world = &self.0;
        let usage = Some(Usage { prompt_tokens: Tokens::new(70), ..Usage::default() });
        let mut piece = ChatCompletionMessage::default();
        if prompt.options().model.model.as_str() == "summarizer" {
            world.note("summary asked");
            world.n_summaries.fetch_add(1, Ordering::SeqCst);
            if let Summarizer::Hangs = world.summarizer {
                return Ok(stream::pending().boxed());
            }
            piece.content = Some("<forge_context_summary>All went well.</forge_context_summary>".to_owned());
            piece.usage = usage;
            piece.finish_reason = Some(FinishReason::Stop);
            return Ok(stream::iter([Ok(piece)]).boxed());
        }
        let texts = prompt.messages().iter().map(|message| message.message().to_text());
        let mut prompts = world.prompts.lock().unwrap();
        prompts.push(texts.collect());
        let n = prompts.len();
        piece.finish_reason = Some(FinishReason::ToolCalls);
        if n > world.results.len() {
            piece.content = Some("done".to_owned());
            piece.finish_reason = Some(FinishReason::Stop);
        } else {
            piece.tool_calls = vec![ToolCallPart {
                index: 0,
                id: Some(format!("call_{n}")),
                name: Some("look".to_owned()),
                arguments: format!("{{\"n\": {n}}}"),
            }];
        }
        Ok(stream::iter([Ok(piece)]).boxed())
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(Vec::new())
    }
}

struct Tool(Arc<World>);

#[async_trait]
impl ToolService for Tool {
    fn definitions(&self, _: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        Ok(Vec::new())
    }

    async fn prepare(&self, _: &[ToolName]) -> Result<u64, ToolsUnavailable> {
        let n_prompts = self.0.prompts.lock().unwrap().len();
        match self.0.ends_after {
            Some(most) if n_prompts >= most => {
                Err(ToolsUnavailable { what: "the tools".to_owned(), source: "they are gone".into() })
            }
            _ => Ok(0),
        }
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        let world = &self.0;
        world.note(format!("{} begins", call.id));
        // Others get their turn while it works.
        for _ in 0..20 {
            tokio::task::yield_now().await;
        }
        world.note(format!("{} ends", call.id));
        let n: usize = call.id.trim_start_matches("call_").parse().unwrap();
        ToolResult::answer(call, " word".repeat(world.results[n - 1]))
    }
}

/// Runs an agent with that `compact` block.
async fn run(compact: &str, world: World) -> (RunReport, Arc<World>) {
    run_kept("", compact, world, &(Arc::new(MemoryCheckpointStore::new()) as Arc<dyn CheckpointStore>)).await
}

/// Runs an agent to its end with those keys and that `compact` block, and keeps checkpoints.
async fn run_kept(
    keys: &str,
    compact: &str,
    world: World,
    store: &Arc<dyn CheckpointStore>,
) -> (RunReport, Arc<World>) {
    let world = Arc::new(world);
    let mut orchestrator = orchestrator(keys, compact, &world, store);
    let report = orchestrator.run("go").await.unwrap();
    let report = RunReport { checkpoints: None, ..report };
    assert_eq!(report.response, "done");
    assert!(orchestrator.conversation("one").unwrap().coverage().is_complete());
    (report, world)
}

/// Returns the orchestrator of an agent with those keys and that `compact` block, which keeps checkpoints.
fn orchestrator(
    keys: &str,
    compact: &str,
    world: &Arc<World>,
    store: &Arc<dyn CheckpointStore>,
) -> Orchestrator {
    let yaml = format!(
        "agents: [{{ id: one, model: 'p:m', system_prompt: Look., {keys} compact: {compact} }}]\n\
         models: {{ 'p:m': {{ window: 20000, max_output: 1000 }} }}\n\
         providers: {{ p: {{}} }}\n"
    );
    let workflow =
        load(&Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() }).unwrap();
    let watching = Arc::clone(world);
    let run = RunId::new("run").unwrap();
    let checkpointing = Checkpointing::new(Arc::clone(store), Arc::new(SystemClock), run);
    Orchestrator::builder()
        .workflow(workflow)
        .provider(ProviderId::new("p").unwrap(), Arc::new(Model(Arc::clone(world))))
        .tools(Arc::new(Tool(Arc::clone(world))))
        .watcher(move |event: &RunEvent<'_>| match event {
            RunEvent::Fitted { report, .. } if report.outcome.name() == "applied" => {
                watching.note("compacted");
            }
            RunEvent::Discarded(unused) => watching.note(format!("{} discarded", unused.len())),
            _ => {}
        })
        .checkpoints(checkpointing)
        .build()
        .unwrap()
}

const MESSAGES: &str =
    "model: 'p:summarizer', strategies: [summarization], message_threshold: 8, retention_window: 2";

#[tokio::test]
async fn a_summary_is_asked_for_while_the_tool_runs_and_the_run_is_the_same() {
    let of_six = || World { results: vec![20; 6], ..World::default() };
    let (foreground, before) = run(&format!("{{ {MESSAGES}, background: false }}"), of_six()).await;
    let (background, now) = run(&format!("{{ {MESSAGES} }}"), of_six()).await;
    let around = |world: &World| {
        let noted = world.noted.lock().unwrap().clone();
        let at = noted.iter().position(|what| what == "summary asked").unwrap();
        noted[at - 1..].iter().take(4).cloned().collect::<Vec<_>>()
    };
    assert_eq!(around(&before), ["call_4 ends", "summary asked", "compacted", "call_5 begins"]);
    assert_eq!(around(&now), ["call_4 begins", "summary asked", "call_4 ends", "compacted"]);
    assert_eq!(*before.prompts.lock().unwrap(), *now.prompts.lock().unwrap());
    assert_eq!(background, foreground, "outcomes, attempts, calls and usage");
    assert!(background.summary_calls > 0);
    assert_eq!(now.n_summaries.load(Ordering::SeqCst), background.summary_calls, "none was asked for twice");
}

/// Of every checkpoint: how long its log is, how many compactions are in it, and what summaries it knows of.
async fn kept(store: &Arc<dyn CheckpointStore>) -> Vec<(usize, usize, usize, Tokens)> {
    let mut kept = Vec::new();
    for info in store.list(&CheckpointFilter::default()).await.unwrap() {
        let ContextSnapshot { conversation, progress, .. } = store.load(info.key).await.unwrap().snapshot;
        let n_compactions = conversation.compactions().count();
        let tokens = progress.summary_usage.prompt_tokens;
        kept.push((conversation.entries().len(), n_compactions, progress.summary_calls, tokens));
    }
    kept.sort_unstable();
    kept
}

#[tokio::test]
async fn no_checkpoint_knows_a_summary_before_the_log_does_and_recall_changes_nothing() {
    for keys in ["", "recall: true,"] {
        let [before, now] =
            [(); 2].map(|()| Arc::new(MemoryCheckpointStore::new()) as Arc<dyn CheckpointStore>);
        let of_nine = || World { results: vec![20; 9], ..World::default() };
        let (foreground, asked) =
            run_kept(keys, &format!("{{ {MESSAGES}, background: false }}"), of_nine(), &before).await;
        let (background, asked_ahead) = run_kept(keys, &format!("{{ {MESSAGES} }}"), of_nine(), &now).await;
        assert_eq!(background, foreground, "{keys}");
        assert!(background.outcomes.len() > 1, "{keys}");
        let n_asked = |world: &World| world.n_summaries.load(Ordering::SeqCst);
        assert_eq!(n_asked(&asked_ahead), n_asked(&asked), "{keys}");
        let (before, now) = (kept(&before).await, kept(&now).await);
        assert_eq!(now, before, "{keys}");
        assert!(now.iter().any(|(_, n_compactions, ..)| *n_compactions == 0), "{keys}: {now:?}");
    }
}

/// Results of some 1,000 tokens up to near the threshold, and then of next to nothing.
fn promising(summarizer: Summarizer) -> World {
    World { results: vec![1000, 1000, 1000, 5, 5, 5], summarizer, ..World::default() }
}

const TOKENS: &str =
    "{ model: 'p:summarizer', strategies: [summarization], token_threshold: 3900, retention_window: 2 }";

#[tokio::test]
async fn what_turns_out_not_to_be_needed_is_thrown_away_booked_and_not_guessed_again() {
    let (report, world) = run(TOKENS, promising(Summarizer::Answers)).await;
    assert_eq!(report.outcomes, [], "nothing was due");
    assert_eq!((report.summary_calls, report.summary_usage.prompt_tokens), (1, Tokens::new(70)));
    let noted = world.noted.lock().unwrap().clone();
    let rest = &noted[6..];
    let expected = ["call_4 begins", "summary asked", "call_4 ends", "1 discarded", "call_5 begins"];
    assert_eq!(rest[..5], expected, "{noted:?}");
    assert_eq!(world.n_summaries.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn a_summary_that_is_not_needed_is_not_waited_for() {
    let (report, world) = run(TOKENS, promising(Summarizer::Hangs)).await;
    assert_eq!((report.outcomes.len(), report.summary_calls), (0, 1));
    assert!(world.noted.lock().unwrap().iter().any(|what| what == "1 discarded"));
}

#[tokio::test]
async fn what_was_asked_for_ahead_is_booked_even_if_the_turn_fails() {
    let world = Arc::new(World { ends_after: Some(4), ..promising(Summarizer::Answers) });
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryCheckpointStore::new());
    let failed = orchestrator("", TOKENS, &world, &store).run("go").await;
    assert!(failed.is_err(), "{failed:?}");
    let noted = world.noted.lock().unwrap().clone();
    assert_eq!(noted[noted.len() - 3..], ["summary asked", "call_4 ends", "1 discarded"], "{noted:?}");
}

#[tokio::test]
async fn nothing_is_asked_for_ahead_where_no_call_follows() {
    let yaml = "{ model: 'p:summarizer', strategies: [summarization], message_threshold: 200 }";
    let (report, world) = run(yaml, World { results: vec![20; 6], ..World::default() }).await;
    assert_eq!((report.summary_calls, world.n_summaries.load(Ordering::SeqCst)), (0, 0));
}
