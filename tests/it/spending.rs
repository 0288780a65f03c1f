//! What runs cost, the budgets that end them, and what servers tell of models: against a provider that counts.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forge_app::{Checkpointing, Orchestrator, Resume, RunError, RunEvent, RunReport, StopReason, run_cards};
use forge_domain::*;
use forge_infra::{SqliteCheckpointStore, SqlitePlace, SystemClock};
use forge_services::workflow::{Layers, Source, load};
use futures::StreamExt;
use pretty_assertions::assert_eq;

/// Calls a tool on and on, and sums up where it is asked to; every prompt is what it was proven for, half of it cached.
#[derive(Default)]
struct Busy {
    /// What it tells of its model.
    told: Option<ModelInfo>,
    /// Tokens of each prompt, and the window that came with it.
    prompts: Mutex<Vec<(Tokens, Tokens)>>,
    summaries: Mutex<usize>,
    reports: Reports,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Reports {
    #[default]
    Usage,
    Nothing,
}

#[async_trait]
impl Provider for Busy {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let is_summary = prompt.options().model.model.as_str() == "summer";
        let nth = if is_summary {
            *self.summaries.lock().unwrap() += 1;
            0
        } else {
            let mut prompts = self.prompts.lock().unwrap();
            prompts.push((prompt.tokens(), prompt.window()));
            prompts.len()
        };
        let call = ToolCallPart {
            index: 0,
            id: Some(format!("c{nth}")),
            name: Some("big".to_owned()),
            arguments: "{}".to_owned(),
        };
        let usage = Usage {
            prompt_tokens: prompt.tokens(),
            cached_tokens: prompt.tokens().share(1, 2),
            completion_tokens: Tokens::new(100),
            ..Usage::default()
        };
        let piece = ChatCompletionMessage {
            content: is_summary.then(|| "All was well until now.".to_owned()),
            tool_calls: if is_summary { Vec::new() } else { vec![call] },
            finish_reason: Some(if is_summary { FinishReason::Stop } else { FinishReason::ToolCalls }),
            usage: (self.reports == Reports::Usage).then_some(usage),
            ..ChatCompletionMessage::default()
        };
        Ok(futures::stream::iter([Ok(piece)]).boxed())
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(self.told.clone().into_iter().collect())
    }
}

struct Big;

#[async_trait]
impl ToolService for Big {
    fn definitions(&self, _: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        Ok(Vec::new())
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        ToolResult::answer(call, format!("{} says: {}", call.id, "many words ".repeat(100)))
    }
}

struct Ran {
    outcome: Result<RunReport, RunError>,
    provider: Arc<Busy>,
    notices: Vec<String>,
    /// What each call cost.
    costs: Vec<Cost>,
    conversation: Conversation,
}

/// Runs a task in the workflow that `yaml` adds to one agent `one` with the model `p:m`.
async fn run(yaml: &str, provider: Busy) -> Ran {
    let yaml = format!("providers: {{ p: {{}} }}\n{yaml}");
    let workflow =
        load(&Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() }).unwrap();
    let provider = Arc::new(provider);
    let told = Arc::new(Mutex::new((Vec::new(), Vec::new())));
    let noted = Arc::clone(&told);
    let mut orchestrator = Orchestrator::builder()
        .workflow(workflow)
        .provider(ProviderId::new("p").unwrap(), Arc::clone(&provider) as Arc<dyn Provider>)
        .tools(Arc::new(Big))
        .watcher(move |event: &RunEvent<'_>| match event {
            RunEvent::Notice(notice) => noted.lock().unwrap().0.push((*notice).to_owned()),
            RunEvent::Replied { cost, .. } => noted.lock().unwrap().1.push(*cost),
            _ => {}
        })
        .build()
        .unwrap();
    let outcome = orchestrator.run("go").await;
    let (notices, costs) = told.lock().unwrap().clone();
    let conversation = orchestrator.conversation("one").unwrap().clone();
    Ran { outcome, provider, notices, costs, conversation }
}

const PRICE: &str = "price: { input: 10, output: 100, cache_read: 1 }";

#[tokio::test]
async fn a_budget_of_tokens_ends_the_run_before_it_is_exceeded() {
    for (where_it_is, yaml) in [
        (
            "the agent's",
            "agents: [{ id: one, model: 'p:m', budget: { tokens: 5000 } }]\nmodels: { m: { window: 99000 } }",
        ),
        (
            "the run's",
            "budget: { tokens: 5000 }\nagents: [{ id: one, model: 'p:m' }]\nmodels: { m: { window: 99000 } }",
        ),
    ] {
        for reports in [Reports::Usage, Reports::Nothing] {
            let ran = run(yaml, Busy { reports, ..Busy::default() }).await;
            let report = ran.outcome.unwrap();
            let StopReason::BudgetSpent(Overspend::Tokens { spent, next, limit }) = report.stop else {
                panic!("{where_it_is}: {:?}", report.stop)
            };
            assert!(spent <= limit && spent + next > limit, "{spent} {next} {limit}");
            assert!(report.stop.to_string().contains("raise `budget: { tokens: ... }` or --budget-tokens"));
            // What there is can be gone on with: the last call has its result.
            let last = ran.conversation.view().messages().last().unwrap().message().role();
            assert_eq!((last, report.iterations > 3), (Role::Tool, true), "{where_it_is}");
        }
    }
}

#[tokio::test]
async fn a_budget_of_money_ends_the_run_and_every_call_has_its_cost() {
    let yaml = format!(
        "agents: [{{ id: one, model: 'p:m', budget: {{ cost: 0.1 }} }}]\nmodels: {{ m: {{ window: 99000, {PRICE} }} }}"
    );
    let ran = run(&yaml, Busy::default()).await;
    let report = ran.outcome.unwrap();
    let StopReason::BudgetSpent(Overspend::Cost { spent, next, limit }) = report.stop else {
        panic!("{:?}", report.stop)
    };
    assert_eq!((spent, spent + next > limit), (report.cost.dollars, true));
    let prompts = ran.provider.prompts.lock().unwrap().clone();
    let expected: Vec<f64> = prompts
        .iter()
        .map(|(tokens, _)| {
            let cached = tokens.share(1, 2).as_u64() as f64;
            (tokens.as_u64() as f64 - cached) * 10e-6 + cached * 1e-6 + 100.0 * 100e-6
        })
        .collect();
    let actual: Vec<f64> = ran.costs.iter().map(|cost| cost.dollars.as_f64()).collect();
    assert_eq!(actual.len(), expected.len());
    assert!(actual.iter().zip(&expected).all(|(a, b)| (a - b).abs() < 1e-9), "{actual:?} {expected:?}");
    let sum: f64 = actual.iter().sum();
    assert!((report.cost.dollars.as_f64() - sum).abs() < 1e-9);
    assert_eq!(report.cost.unpriced_calls, 0);
}

#[tokio::test]
async fn summaries_are_paid_from_the_same_budget() {
    let compact =
        "compact: { model: 'p:summer', token_threshold: 2000, strategies: [summarization, sliding_window] }";
    let models =
        format!("models: {{ m: {{ window: 99000, {PRICE} }}, summer: {{ window: 99000, {PRICE} }} }}");
    let yaml = |budget: f64| {
        format!("agents: [{{ id: one, model: 'p:m', budget: {{ cost: {budget} }}, {compact} }}]\n{models}")
    };
    let report = run(&yaml(0.5), Busy::default()).await.outcome.unwrap();
    let total = report.cost.dollars + report.summary_cost.dollars;
    assert!(report.summary_calls > 0 && report.summary_cost.dollars > Dollars::ZERO, "{report:?}");
    assert!(total.as_f64() <= 0.5 + 0.02, "{total}");
    let of_strategy = report.strategies.of("summarization").cost;
    assert_eq!(of_strategy, report.summary_cost);
    let of_compactions: f64 = report.outcomes.iter().map(|fit| fit.cost().dollars.as_f64()).sum();
    assert!((of_compactions - report.summary_cost.dollars.as_f64()).abs() < 1e-9);
}

/// A process of its own in the workflow that `yaml` adds to, which keeps checkpoints in `store`.
fn process(yaml: &str, provider: &Arc<Busy>, store: &Arc<dyn CheckpointStore>) -> Orchestrator {
    let source = Source::new("forge.yaml", format!("providers: {{ p: {{}} }}\n{yaml}"));
    let run = RunId::new("a").unwrap();
    Orchestrator::builder()
        .workflow(load(&Layers { project: Some(source), ..Layers::default() }).unwrap())
        .provider(ProviderId::new("p").unwrap(), Arc::clone(provider) as Arc<dyn Provider>)
        .tools(Arc::new(Big))
        .checkpoints(Checkpointing::new(Arc::clone(store), Arc::new(SystemClock), run))
        .build()
        .unwrap()
}

#[tokio::test]
async fn what_was_spent_counts_when_a_run_is_resumed() {
    for (at_the_top, of_the_agent) in [
        ("", ", budget: { tokens: 9000 }"),
        ("budget: { tokens: 9000 }\n", ""),
        ("", ", budget: { cost: 0.2 }"),
        ("budget: { cost: 0.2 }\n", ""),
    ] {
        let what = format!("{at_the_top}{of_the_agent}");
        let yaml = |limit: &str| {
            format!(
                "{at_the_top}agents: [{{ id: one, model: 'p:m'{of_the_agent}{limit} }}]\n\
                 models: {{ m: {{ window: 99000, {PRICE} }} }}"
            )
        };
        let unbroken = run(&yaml(""), Busy::default()).await;
        let expected = unbroken.outcome.unwrap();
        let n_expected = unbroken.provider.prompts.lock().unwrap().len();
        assert!(n_expected > 3, "{what}");
        assert!(matches!(expected.stop, StopReason::BudgetSpent(_)), "{what}: {:?}", expected.stop);

        let folder = tempfile::tempdir().unwrap();
        let place = SqlitePlace::new(folder.path().join("runs.db"));
        let store: Arc<dyn CheckpointStore> = Arc::new(SqliteCheckpointStore::open(&place).await.unwrap());
        let provider = Arc::new(Busy::default());
        let mut first = process(&yaml(", max_iterations: 2"), &provider, &store);
        first.run("go").await.unwrap();
        first.close().await;
        assert_eq!(provider.prompts.lock().unwrap().len(), 2, "{what}");
        // The first goes on to the end of the budget; the second finds nothing left of it.
        for _ in 0..2 {
            let mut next = process(&yaml(""), &provider, &store);
            next.restore(&Resume::from("last")).await.unwrap();
            let report = next.proceed().await.unwrap();
            next.close().await;
            assert_eq!(provider.prompts.lock().unwrap().len(), n_expected, "{what}");
            assert_eq!(report.stop, expected.stop, "{what}");
            assert_eq!(report.progress.spent, expected.progress.spent, "{what}");
        }
    }
}

#[tokio::test]
async fn totals_and_lists_count_every_agent_of_a_run() {
    let yaml = |most: usize| {
        let agent = |id| format!("{{ id: {id}, model: 'p:m', subscribe: [go], max_iterations: {most} }}");
        format!("agents: [{}, {}]\nmodels: {{ m: {{ window: 99000, {PRICE} }} }}", agent("one"), agent("two"))
    };
    let folder = tempfile::tempdir().unwrap();
    let place = SqlitePlace::new(folder.path().join("runs.db"));
    let store: Arc<dyn CheckpointStore> = Arc::new(SqliteCheckpointStore::open(&place).await.unwrap());
    let provider = Arc::new(Busy::default());
    let mut process_one = process(&yaml(2), &provider, &store);
    let first = process_one.dispatch(&Event::new("go", "x")).await.unwrap();
    process_one.close().await;
    assert_eq!(
        (first.totals.calls, first.totals.usage, first.totals.spent.cost),
        (4, first.usage, first.cost)
    );

    let mut process_two = process(&yaml(3), &provider, &store);
    process_two.restore(&Resume::from("last")).await.unwrap();
    let second = process_two.proceed().await.unwrap();
    process_two.close().await;
    assert!(second.iterations > 0);
    assert_eq!(second.totals.calls, first.iterations + second.iterations);
    let mut both = first.cost;
    both += second.cost;
    assert_eq!(second.totals.spent.cost, both);
    let cards = run_cards(&*store, None, 10).await.unwrap();
    assert_eq!(cards.iter().map(|card| card.spent).collect::<Vec<_>>(), [second.totals.spent]);
}

#[tokio::test]
async fn a_budget_of_money_needs_prices() {
    let yaml = "agents: [{ id: one, model: 'p:m', max_repetitions: 1000, budget: { cost: 1 } }]\n\
                models: { m: { window: 9000 } }";
    let error = run(yaml, Busy::default()).await.outcome.unwrap_err();
    let said = error.to_string();
    assert!(matches!(error, RunError::Unpriced { .. }) && said.contains("'p:m': { price:"), "{said}");
    let free = yaml.replace("window: 9000", "window: 9000, price: { input: 0, output: 0 }, max_output: 100");
    let free = free.replace("budget: { cost: 1 }", "budget: { cost: 0 }, max_iterations: 3");
    let report = run(&free, Busy::default()).await.outcome.unwrap();
    assert_eq!(report.stop, StopReason::MaxIterations(3), "what is free is within any budget");
    // The server's own price will do.
    let price = Some(Price {
        input: Dollars::new(1.0).unwrap(),
        output: Dollars::new(1.0).unwrap(),
        cache_read: None,
        cache_write: None,
        long_prompt: None,
        as_of: None,
    });
    let told = Some(ModelInfo { price, ..ModelInfo::new(ModelId::new("m").unwrap()) });
    let report = run(yaml, Busy { told, ..Busy::default() }).await.outcome.unwrap();
    assert!(matches!(report.stop, StopReason::BudgetSpent(Overspend::Cost { .. })), "{:?}", report.stop);
}

#[tokio::test]
async fn a_window_that_only_the_server_knows_is_kept() {
    let yaml = "agents: [{ id: one, model: 'p:m', max_iterations: 12 }]";
    let told = |window: Option<u64>| {
        let window = window.map(Tokens::new);
        Some(ModelInfo { window, ..ModelInfo::new(ModelId::new("m").unwrap()) })
    };
    let ran = run(yaml, Busy { told: told(Some(2_000)), ..Busy::default() }).await;
    assert!(ran.outcome.unwrap().outcomes.len() > 1);
    let prompts = ran.provider.prompts.lock().unwrap().clone();
    assert!(prompts.iter().all(|(tokens, window)| *tokens <= *window && *window == Tokens::new(2_000)));
    assert_eq!(ran.notices, Vec::<String>::new(), "nothing is assumed");
    // What is configured counts before what the server tells.
    let configured = format!("{yaml}\nmodels: {{ m: {{ window: 50000 }} }}");
    let ran = run(&configured, Busy { told: told(Some(2_000)), ..Busy::default() }).await;
    assert_eq!(ran.provider.prompts.lock().unwrap()[0].1, Tokens::new(50_000));
    let ran = run(yaml, Busy { told: told(None), ..Busy::default() }).await;
    assert_eq!(ran.provider.prompts.lock().unwrap()[0].1, ASSUMED_WINDOW);
    assert!(ran.notices[0].contains("the window of `p:m` is unknown"), "{:?}", ran.notices);
}
