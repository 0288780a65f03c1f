//! The loop over ports that answer by script: who wakes, what is sent, what a cancelled or refused call leaves behind.

pub(crate) mod helping;
mod live;
mod many_calls;
mod repeating;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forge_app::{BuildError, Orchestrator, RunError, StopReason};
use forge_domain::compaction::{
    AttemptVerdict, CompactionImpact, CompactionReport, CompactionRules, CompactionServices,
    CompactionStrategy, Extraction, Outcome, Rung, StrategyError, Yield,
};
use forge_domain::*;
use forge_services::workflow::{Layers, Source, load};
use futures::{FutureExt, StreamExt, stream};
use pretty_assertions::assert_eq;
use tracing_subscriber::fmt::format::FmtSpan;

/// What a scripted model does at one call.
#[derive(Clone, Copy)]
pub(crate) enum Reply {
    Says(&'static str),
    Calls(&'static [&'static str]),
    /// Calls a tool, and reports this many tokens of the prompt.
    CallsFor(&'static str, u64),
    /// Begins to speak and never ends.
    Hangs,
}

/// A model that replies by script and remembers the prompts.
#[derive(Default)]
pub(crate) struct Script {
    replies: Mutex<VecDeque<Reply>>,
    pub(crate) prompts: Mutex<Vec<Prompt>>,
}

impl Script {
    pub(crate) fn new(replies: &[Reply]) -> Arc<Self> {
        Arc::new(Self { replies: Mutex::new(replies.iter().copied().collect()), prompts: Mutex::default() })
    }

    /// What each prompt said, one text for each message.
    pub(crate) fn said(&self) -> Vec<Vec<String>> {
        let prompts = self.prompts.lock().unwrap();
        let text =
            |message: &ContextMessage| message.message().content().map(Content::to_text).unwrap_or_default();
        prompts.iter().map(|prompt| prompt.messages().iter().map(text).collect()).collect()
    }
}

#[async_trait]
impl Provider for Script {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        self.prompts.lock().unwrap().push(prompt);
        let reply = self.replies.lock().unwrap().pop_front().ok_or(ProviderError::RecordingEnded)?;
        let text =
            |text: &str| ChatCompletionMessage { content: Some(text.to_owned()), ..Default::default() };
        let end = |finish_reason| ChatCompletionMessage {
            finish_reason: Some(finish_reason),
            ..Default::default()
        };
        Ok(match reply {
            Reply::Says(said) => stream::iter([Ok(text(said)), Ok(end(FinishReason::Stop))]).boxed(),
            Reply::Hangs => stream::iter([Ok(text("well"))]).chain(stream::pending()).boxed(),
            Reply::CallsFor(name, prompt_tokens) => {
                let call = ToolCallPart {
                    index: 0,
                    id: Some(format!("call_{prompt_tokens}")),
                    name: Some(name.to_owned()),
                    arguments: String::new(),
                };
                let usage = Usage { prompt_tokens: Tokens::new(prompt_tokens), ..Usage::default() };
                stream::iter([Ok(ChatCompletionMessage {
                    tool_calls: vec![call],
                    usage: Some(usage),
                    finish_reason: Some(FinishReason::ToolCalls),
                    ..Default::default()
                })])
                .boxed()
            }
            Reply::Calls(names) => {
                let tool_calls = names
                    .iter()
                    .enumerate()
                    .map(|(index, name)| ToolCallPart {
                        index,
                        id: Some(format!("call_{index}")),
                        name: Some((*name).to_owned()),
                        arguments: String::new(),
                    })
                    .collect();
                let calls = ChatCompletionMessage { tool_calls, ..Default::default() };
                stream::iter([Ok(calls), Ok(end(FinishReason::ToolCalls))]).boxed()
            }
        })
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(Vec::new())
    }
}

/// Tools that answer with their name; `big` says a lot, `broken` panics, `astray` answers another call, and
/// clocks say another number each time.
pub(crate) struct Echo;

/// The seconds that the clocks have shown.
static TICKS: AtomicUsize = AtomicUsize::new(0);

#[async_trait]
impl ToolService for Echo {
    fn definitions(&self, _: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        Ok(Vec::new())
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        match call.name.as_str() {
            "big" => ToolResult::answer(call, "many words ".repeat(400)),
            "stuck" => std::future::pending().await,
            "clock" | "wait_for_clock" => {
                ToolResult::answer(call, format!("{} s have passed", TICKS.fetch_add(1, Ordering::Relaxed)))
            }
            "broken" => panic!("index out of bounds: {}", call.id),
            "astray" => {
                let name = ToolName::new("other").ok();
                ToolResult {
                    call_id: "of_another".to_owned(),
                    name,
                    ..ToolResult::answer(call, "astray ran")
                }
            }
            name => ToolResult::answer(call, format!("{name} ran")),
        }
    }
}

fn orchestrator(yaml: &str, script: &Arc<Script>) -> Orchestrator {
    let workflow =
        load(&Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() }).unwrap();
    Orchestrator::builder()
        .workflow(workflow)
        .provider(ProviderId::new("p").unwrap(), Arc::clone(script) as Arc<dyn Provider>)
        .tools(Arc::new(Echo))
        .build()
        .unwrap()
}

const ONE: &str = "agents: [{ id: one, model: 'p:m', system_prompt: Be brief., max_turns: 2, max_repetitions: 100 }]\n\
                   models: { 'p:m': { window: 4000, max_output: 100 } }\n\
                   providers: { p: {} }\n";

#[test]
fn a_turn_goes_on_until_no_tool_is_called() {
    let script =
        Script::new(&[Reply::Calls(&["first", "second"]), Reply::Calls(&["third"]), Reply::Says("done")]);
    let mut orchestrator = orchestrator(ONE, &script);
    let report = orchestrator.run("go").now_or_never().unwrap().unwrap();
    assert_eq!((report.response.as_str(), report.iterations, report.stop), ("done", 3, StopReason::Done));
    let last = ["Be brief.", "go", "", "first ran", "second ran", "", "third ran"].map(str::to_owned);
    assert_eq!(script.said().pop().unwrap(), last);
}

#[test]
fn a_tool_that_panics_is_a_tool_error() {
    let script = Script::new(&[Reply::Calls(&["first", "broken", "third"]), Reply::Says("done")]);
    let report = orchestrator(ONE, &script).run("go").now_or_never().unwrap().unwrap();
    assert_eq!((report.response.as_str(), report.stop), ("done", StopReason::Done));
    let crashed = "the tool `broken` crashed: index out of bounds: call_1. This is a fault of the tool. The call may have had its \
                   effect, or a part of it: look before you call it again";
    let last = ["Be brief.", "go", "", "first ran", crashed, "third ran"].map(str::to_owned);
    assert_eq!(script.said().pop().unwrap(), last);
}

#[test]
fn a_result_belongs_to_its_call_whatever_id_the_tool_gives_it() {
    let script = Script::new(&[Reply::Calls(&["first", "astray"]), Reply::Says("done")]);
    orchestrator(ONE, &script).run("go").now_or_never().unwrap().unwrap();
    let prompts = script.prompts.lock().unwrap();
    let messages = prompts.last().unwrap().messages();
    let results: Vec<_> = messages
        .iter()
        .filter_map(|message| match &message.message().body {
            Body::Tool(result) => {
                Some((result.call_id.clone(), result.name.clone(), result.content.to_text()))
            }
            _ => None,
        })
        .collect();
    let expected = [("call_0", "first", "first ran"), ("call_1", "astray", "astray ran")]
        .map(|(id, name, text)| (id.to_owned(), ToolName::new(name).ok(), text.to_owned()));
    assert_eq!(results, expected);
}

#[test]
fn a_conversation_goes_on_without_saying_anything_twice() {
    let script = Script::new(&[Reply::Says("one"), Reply::Says("two"), Reply::Says("three")]);
    let mut orchestrator = orchestrator(ONE, &script);
    orchestrator.run("first").now_or_never().unwrap().unwrap();
    orchestrator.run("second").now_or_never().unwrap().unwrap();
    assert_eq!(script.said().pop().unwrap(), ["Be brief.", "first", "one", "second"].map(str::to_owned));
    // The third turn is one too many: nothing is asked, and that is said.
    let report = orchestrator.run("third").now_or_never().unwrap().unwrap();
    assert_eq!((report.stop, script.said().len()), (StopReason::MaxTurns(2), 2));
}

#[test]
fn a_task_that_nobody_subscribes_to_is_for_the_agent_that_no_other_calls() {
    let yaml = "providers: { p: {} }\nmodels: { 'p:m': { window: 4000 } }\nagents:\n\
                - { id: scout, model: 'p:m', system_prompt: Scout. }\n\
                - { id: lead, model: 'p:m', system_prompt: Lead., tools: [scout] }\n";
    let script = Script::new(&[Reply::Says("done")]);
    let report = orchestrator(yaml, &script).run("x").now_or_never().unwrap().unwrap();
    assert_eq!((report.response.as_str(), &script.said()[0][0]), ("done", &"Lead.".to_owned()));
}

#[test]
fn events_wake_those_who_subscribe() {
    let yaml = "providers: { p: {} }\nmodels: { 'p:m': { window: 4000 } }\nagents:\n\
                - { id: a, model: 'p:m', subscribe: [user_task_init] }\n\
                - { id: b, model: 'p:m', subscribe: [review], user_prompt: 'Review: {{event.value}}' }\n\
                - { id: c, model: 'p:m', subscribe: [user_task_init, review] }\n";
    for (event, expected) in
        [(Event::task("x"), vec!["x", "x"]), (Event::new("review", "x"), vec!["Review: x", "x"])]
    {
        let script = Script::new(&[Reply::Says("1"), Reply::Says("2"), Reply::Says("3")]);
        let mut orchestrator = orchestrator(yaml, &script);
        orchestrator.dispatch(&event).now_or_never().unwrap().unwrap();
        let said: Vec<String> = script.said().into_iter().flatten().collect();
        assert_eq!(said, expected, "{}", event.name);
    }
    let script = Script::new(&[]);
    let nobody = orchestrator(yaml, &script).dispatch(&Event::new("other", "x")).now_or_never().unwrap();
    assert!(matches!(nobody, Err(RunError::NobodyListens { .. })));
    // A task that no one subscribes to is the first agent's.
    let script = Script::new(&[Reply::Says("1")]);
    let mut several = orchestrator(&yaml.replace("user_task_init", "x"), &script);
    several.run("x").now_or_never().unwrap().unwrap();
    assert!(several.conversation("a").is_some() && several.conversation("c").is_none());
    let unknown = orchestrator(yaml, &script).wake("d", &Event::task("x")).now_or_never().unwrap();
    assert!(matches!(unknown, Err(RunError::UnknownAgent { known, .. }) if known == "a, b, c"));
}

#[test]
fn every_prompt_fits_and_the_log_keeps_everything() {
    let mut replies = vec![Reply::Calls(&["big", "small"]); 12];
    replies.push(Reply::Says("done"));
    let script = Script::new(&replies);
    let mut orchestrator = orchestrator(ONE, &script);
    let report = orchestrator.run("go").now_or_never().unwrap().unwrap();
    assert!(report.outcomes.len() > 3, "{}", report.outcomes.len());
    let prompts = script.prompts.lock().unwrap();
    assert!(prompts.iter().all(|prompt| prompt.tokens() <= Tokens::new(3_900)));
    assert!(prompts.iter().all(|prompt| openai_breaches(prompt.messages()).is_empty()));
    let log = orchestrator.conversation("one").unwrap();
    assert_eq!((log.messages().count(), log.coverage().is_complete()), (2 + 12 * 3 + 1, true));
    assert_eq!(log.refold(), log.view());
}

#[test]
fn a_run_knows_what_became_of_each_strategy() {
    let mut replies = vec![Reply::Calls(&["big", "small"]); 12];
    replies.push(Reply::Says("done"));
    let report = orchestrator(ONE, &Script::new(&replies)).run("go").now_or_never().unwrap().unwrap();
    let is_applied = |outcome: &Outcome| matches!(outcome, Outcome::Applied { .. });
    let n_applied = report.outcomes.iter().filter(|fit| is_applied(&fit.outcome)).count();
    let saved: Tokens = report.strategies.iter().map(|(_, record)| record.tokens_saved).sum();
    let expected: Tokens = report.outcomes.iter().map(|fit| fit.before.tokens - fit.after.tokens).sum();
    assert!(n_applied > 3 && saved > Tokens::ZERO);
    assert_eq!(saved, expected, "{:?}", report.strategies);
}

/// What is traced, as text.
#[derive(Clone, Default)]
struct Traced(Arc<Mutex<Vec<u8>>>);

impl std::io::Write for Traced {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_compaction_is_a_span_of_the_trace() {
    let traced = Traced::default();
    let writer = traced.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_span_events(FmtSpan::CLOSE)
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    // While there is one subscriber alone, what the other tests' threads trace first is never traced again,
    // as they have none.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let mut replies = vec![Reply::Calls(&["big"]); 4];
    replies.push(Reply::Says("done"));
    tracing::subscriber::with_default(subscriber, || {
        orchestrator(ONE, &Script::new(&replies)).run("go").now_or_never().unwrap().unwrap();
    });
    let traced = String::from_utf8(traced.0.lock().unwrap().clone()).unwrap();
    let spans: Vec<&str> = traced.lines().filter(|line| line.contains("forge::compaction: close")).collect();
    assert_eq!(spans.len(), 5, "one before each call: {traced}");
    assert!(spans[0].contains("outcome=\"not_triggered\""), "{}", spans[0]);
    let applied: Vec<_> = spans.iter().filter(|span| span.contains("outcome=\"applied\"")).collect();
    assert!(!applied.is_empty(), "{traced}");
    for field in
        ["before.tokens=", "after.tokens=", "before.messages=", "after.messages=", "trigger=", "strategies="]
    {
        assert!(applied.iter().all(|span| span.contains(field)), "{field}: {applied:?}");
    }
}

#[test]
fn what_the_provider_counts_decides_when_and_the_window_holds_by_both_counts() {
    // Prompts grow by some 800 tokens; more than 3,120 trigger, which ours have before the fifth call. A figure that is
    // not believed, as one beyond the window, or no evidence, changes nothing; one that is smaller than ours puts the
    // trigger off.
    for (third_figure, n_calls_before_compaction) in
        [(0, 4), (1_640, 4), (2_500, 3), (3_900, 3), (9_000, 4), (830, 5), (700, 4)]
    {
        let mut replies = vec![Reply::CallsFor("big", 0); 2];
        replies.push(Reply::CallsFor("big", third_figure));
        replies.extend([Reply::CallsFor("big", 0), Reply::Says("done")]);
        let script = Script::new(&replies);
        let mut orchestrator = orchestrator(ONE, &script);
        orchestrator.run("go").now_or_never().unwrap().unwrap();
        let prompts = script.prompts.lock().unwrap();
        let grown = prompts.windows(2).take_while(|pair| pair[1].tokens() > pair[0].tokens()).count() + 1;
        assert_eq!(grown, n_calls_before_compaction, "{third_figure}");
        assert!(prompts.iter().all(|prompt| prompt.tokens() <= Tokens::new(3_900)));
        let measure = orchestrator.conversation("one").unwrap().measure();
        let is_known = (820..=4_000).contains(&third_figure);
        assert_eq!(*measure != Measure::default(), is_known, "{third_figure}: {measure:?}");
    }
}

#[test]
fn a_cancelled_call_leaves_the_conversation_as_it_was() {
    let script = Script::new(&[Reply::Calls(&["first"]), Reply::Hangs, Reply::Says("done")]);
    let mut orchestrator = orchestrator(ONE, &script);
    assert!(orchestrator.run("go").now_or_never().is_none(), "the second call hangs and is dropped");
    let log = orchestrator.conversation("one").unwrap();
    assert_eq!((log.messages().count(), log.compactions().count()), (4, 0));
    assert!(openai_breaches(log.view().messages()).is_empty());
    // The same conversation goes on.
    let report = orchestrator.run("again").now_or_never().unwrap().unwrap();
    assert_eq!(report.response, "done");
}

#[test]
fn a_cancelled_compaction_leaves_the_conversation_as_it_was() {
    let yaml = ONE.replace("max_turns: 2", "compact: { model: 'p:m', retention_window: 2 }");
    let mut replies = vec![Reply::Calls(&["big"]); 4];
    replies.push(Reply::Hangs);
    let script = Script::new(&replies);
    let mut orchestrator = orchestrator(&yaml, &script);
    assert!(orchestrator.run("go").now_or_never().is_none(), "the summariser hangs and is dropped");
    let asked_last = script.said().pop().unwrap();
    assert!(asked_last.len() == 1 && asked_last[0].contains("forge_context_summary"), "{asked_last:?}");
    let log = orchestrator.conversation("one").unwrap();
    assert_eq!((log.messages().count(), log.compactions().count()), (2 + 4 * 2, 0));
    assert_eq!(log.view().messages().len(), 2 + 4 * 2);
    assert!(log.coverage().is_complete());
}

#[test]
fn a_first_message_beyond_the_window_is_sent_head_and_tail() {
    let script = Script::new(&[Reply::Says("done")]);
    let mut orchestrator = orchestrator(ONE, &script);
    let task = format!("Begin here. {}End here.", "many words ".repeat(4_000));
    let report = orchestrator.run(task.as_str()).now_or_never().unwrap().unwrap();
    assert_eq!(report.response, "done");
    let Outcome::Applied { impact, .. } = &report.outcomes[0].outcome else { panic!("{report:?}") };
    assert_eq!(impact.yielded, [Yield::FirstUserText]);
    let said = script.said().concat();
    let first = said.iter().find(|text| text.contains("Begin here.")).expect("it is sent");
    assert!(first.trim_end().ends_with("End here.") && first.contains("characters of m"), "{first}");
    // The log has it whole.
    let log = orchestrator.conversation("one").unwrap();
    assert!(log.messages().any(|message| message.message().to_text().contains(&task)));
}

#[test]
fn nothing_is_built_without_an_agent_a_model_and_a_provider() {
    assert!(matches!(Orchestrator::builder().build(), Err(BuildError::NoAgent)));
    let agent = Agent::new(AgentId::new("a").unwrap());
    assert!(matches!(Orchestrator::builder().agent(agent.clone()).build(), Err(BuildError::NoProvider)));
    let script: Arc<dyn Provider> = Script::new(&[]);
    let built = Orchestrator::builder().agent(agent).provider(ProviderId::new("p").unwrap(), script).build();
    let error = built.map(drop).unwrap_err().to_string();
    assert!(error.contains("agents.a: agent `a` has no model"), "{error}");
}

#[test]
fn what_was_added_before_a_workflow_stays() {
    let script = Script::new(&[Reply::Says("done")]);
    let workflow =
        load(&Layers { project: Some(Source::new("forge.yaml", ONE)), ..Layers::default() }).unwrap();
    let (first, model) = (AgentId::new("first").unwrap(), ModelId::new("mine:m").unwrap());
    let limits = ModelConfig { window: Some(Tokens::new(3_000)), ..ModelConfig::default() };
    let mut orchestrator = Orchestrator::builder()
        .agent(Agent::new(first).model(model.clone()))
        .model(model, limits)
        .provider(ProviderId::new("mine").unwrap(), Arc::clone(&script) as Arc<dyn Provider>)
        .workflow(workflow)
        .build()
        .unwrap();
    let report = orchestrator.run("go").now_or_never().unwrap().unwrap();
    assert_eq!(report.response, "done");
    assert_eq!(script.prompts.lock().unwrap()[0].window(), Tokens::new(3_000));
}

#[test]
fn nothing_is_built_that_can_never_fit() {
    let yaml =
        ONE.replace("max_output: 100", "max_output: 1000").replace("Be brief.", &"wordy ".repeat(3_000));
    let workflow =
        load(&Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() }).unwrap();
    let script: Arc<dyn Provider> = Script::new(&[]);
    let builder = Orchestrator::builder().workflow(workflow).provider(ProviderId::new("p").unwrap(), script);
    let error = builder.build().err().map(|error| error.to_string());
    let expected = "agents.one: it can never fit the window of `p:m`: the context needs 7023 tokens, but \
         only \
        4000 are available: the request itself 3 + system messages 6004 + the reserve for the answer 1000 + the work itself 16";
    assert_eq!(error.as_deref(), Some(expected));
}

/// A strategy of that id, which does nothing.
struct Named(&'static str);

#[async_trait]
impl CompactionStrategy for Named {
    fn id(&self) -> &str {
        self.0
    }

    fn description(&self) -> &str {
        "does nothing"
    }

    fn is_applicable(&self, _: &CompactionRules, _: &Context) -> bool {
        false
    }

    async fn compact(
        &self,
        _: &CompactionRules,
        _: Context,
        _: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError> {
        Err(StrategyError::Other("it does nothing".into()))
    }
}

/// A strategy that panics when it compacts, and maybe when it is asked if it can.
struct Panics {
    in_check: bool,
}

#[async_trait]
impl CompactionStrategy for Panics {
    fn id(&self) -> &str {
        "own"
    }

    fn description(&self) -> &str {
        "panics"
    }

    fn is_applicable(&self, _: &CompactionRules, _: &Context) -> bool {
        assert!(!self.in_check, "no such message");
        true
    }

    async fn compact(
        &self,
        _: &CompactionRules,
        context: Context,
        _: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError> {
        panic!("no message after {}", context.messages().len())
    }
}

#[test]
fn a_strategy_that_panics_is_a_failed_attempt() {
    for in_check in [false, true] {
        let mut replies = vec![Reply::Calls(&["big", "small"]); 12];
        replies.push(Reply::Says("done"));
        let own = Rung::Registered(StrategyId::new("own").unwrap());
        let compact = Compact::default().strategies(vec![own, Rung::Extraction(Extraction::default())]);
        let mut orchestrator = Orchestrator::builder()
            .workflow(
                load(&Layers { project: Some(Source::new("forge.yaml", ONE)), ..Layers::default() }).unwrap(),
            )
            .agent(Agent::new(AgentId::new("one").unwrap()).compact(compact))
            .provider(ProviderId::new("p").unwrap(), Script::new(&replies) as Arc<dyn Provider>)
            .tools(Arc::new(Echo))
            .strategy(Arc::new(Panics { in_check }))
            .build()
            .unwrap();
        let report = orchestrator.run("go").now_or_never().unwrap().unwrap();
        assert_eq!(report.response, "done");
        let is_applied = |fit: &CompactionReport| matches!(fit.outcome, Outcome::Applied { .. });
        assert!(report.outcomes.iter().any(is_applied), "{:?}", report.outcomes);
        let own = report.outcomes.iter().flat_map(|fit| &fit.attempts);
        let own: Vec<_> = own.filter(|attempt| attempt.strategy.as_str() == "own").collect();
        let is_told = |verdict: &AttemptVerdict| match verdict {
            AttemptVerdict::Failed { reason } => reason.starts_with("it crashed: no message after "),
            _ => false,
        };
        assert!(!own.is_empty() && own.iter().all(|attempt| is_told(&attempt.verdict)), "{own:?}");
    }
}

#[test]
fn nothing_is_built_with_a_strategy_that_is_not_registered_or_has_no_id() {
    for (registered, expected) in [
        (vec!["own"], None),
        (
            vec!["one", "other"],
            Some(
                "agents.a.compact.strategies[1]: no strategy `own` is registered (expected one of one, other)",
            ),
        ),
        (
            vec![],
            Some(
                "agents.a.compact.strategies[1]: no strategy `own` is registered (no strategy is registered; add it with `strategy`)",
            ),
        ),
        (
            vec!["own", " "],
            Some("a registered strategy has a blank id: return a word from its `id` (does nothing)"),
        ),
    ] {
        let own = Rung::Registered(StrategyId::new("own").unwrap());
        let compact = Compact::default().strategies(vec![Rung::Extraction(Extraction::default()), own]);
        let agent =
            Agent::new(AgentId::new("a").unwrap()).model(ModelId::new("p:m").unwrap()).compact(compact);
        let script: Arc<dyn Provider> = Script::new(&[]);
        let builder = Orchestrator::builder().agent(agent).provider(ProviderId::new("p").unwrap(), script);
        let builder =
            registered.into_iter().fold(builder, |builder, id| builder.strategy(Arc::new(Named(id))));
        assert_eq!(builder.build().err().map(|error| error.to_string()).as_deref(), expected);
    }
}
