//! Agents that others call as tools: conversations of their own, side by side, booked to the run, and resumed.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forge_app::{BuildError, Checkpointing, Orchestrator, Resume, StopReason};
use forge_domain::*;
use forge_infra::{MemoryCheckpointStore, SystemClock};
use forge_services::workflow::{Layers, Source, load};
use futures::{FutureExt, StreamExt, stream};
use pretty_assertions::assert_eq;

use super::Echo;

/// What a model does at one call.
#[derive(Clone)]
pub(crate) enum Line {
    Says(&'static str),
    Calls(&'static [(&'static str, &'static str)]),
    Hangs,
}

/// A provider whose models have a script each. Every call costs 10 tokens.
pub(crate) struct Cast {
    lines: Mutex<BTreeMap<String, VecDeque<Line>>>,
    heard: Mutex<Vec<(String, Vec<String>)>>,
}

impl Cast {
    pub(crate) fn new(lines: &[(&str, &[Line])]) -> Arc<Self> {
        let of = |(model, lines): &(&str, &[Line])| ((*model).to_owned(), lines.iter().cloned().collect());
        Arc::new(Self { lines: Mutex::new(lines.iter().map(of).collect()), heard: Mutex::default() })
    }

    /// What the model was told at each call, one text for each message.
    pub(crate) fn told(&self, model: &str) -> Vec<Vec<String>> {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|(name, _)| name == model).map(|(_, texts)| texts.clone()).collect()
    }
}

#[async_trait]
impl Provider for Cast {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let model = prompt.options().model.model.to_string();
        let texts = prompt.messages().iter().map(|message| message.message().to_text()).collect();
        self.heard.lock().unwrap().push((model.clone(), texts));
        let line = self.lines.lock().unwrap().get_mut(&model).and_then(VecDeque::pop_front);
        let usage = Usage { prompt_tokens: Tokens::new(10), ..Usage::default() };
        let part = ChatCompletionMessage { usage: Some(usage), ..Default::default() };
        let part = match line.ok_or(ProviderError::RecordingEnded)? {
            Line::Hangs => return Ok(stream::pending().boxed()),
            Line::Says(text) => ChatCompletionMessage {
                content: Some(text.to_owned()),
                finish_reason: Some(FinishReason::Stop),
                ..part
            },
            Line::Calls(calls) => {
                let call = |(index, (name, arguments)): (usize, &(&str, &str))| ToolCallPart {
                    index,
                    id: Some(format!("call_{index}")),
                    name: Some((*name).to_owned()),
                    arguments: (*arguments).to_owned(),
                };
                ChatCompletionMessage {
                    tool_calls: calls.iter().enumerate().map(call).collect(),
                    finish_reason: Some(FinishReason::ToolCalls),
                    ..part
                }
            }
        };
        Ok(stream::iter([Ok(part)]).boxed())
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(Vec::new())
    }
}

const YAML: &str = "
providers: { p: {} }
models: { 'p:boss': { window: 4000, max_output: 100 }, 'p:scout': { window: 4000, max_output: 100 } }
agents:
  - { id: boss, model: 'p:boss', tools: [scout], subscribe: [user_task_init] }
  - { id: scout, model: 'p:scout', tools: [look], system_prompt: 'You are {{agent.id}}.', description: finds things }
";

fn build(yaml: &str, cast: &Arc<Cast>, store: Option<&Arc<dyn CheckpointStore>>) -> Orchestrator {
    let layers = Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() };
    let builder = Orchestrator::builder()
        .workflow(load(&layers).unwrap())
        .provider(ProviderId::new("p").unwrap(), Arc::clone(cast) as Arc<dyn Provider>)
        .tools(Arc::new(Echo));
    match store {
        Some(store) => builder.checkpoints(Checkpointing::new(
            Arc::clone(store),
            Arc::new(SystemClock),
            RunId::new("r").unwrap(),
        )),
        None => builder,
    }
    .build()
    .unwrap()
}

const ASK: Line = Line::Calls(&[("scout", r#"{"task": "find it"}"#)]);
const LOOK: Line = Line::Calls(&[("look", "{}")]);

#[test]
fn an_agent_that_is_called_works_by_itself_and_its_answer_is_the_result() {
    let cast = Cast::new(&[
        ("boss", &[ASK, ASK, Line::Says("done")]),
        ("scout", &[LOOK, Line::Says("it is here"), Line::Says("still here")]),
    ]);
    let mut orchestrator = build(YAML, &cast, None);
    let report = orchestrator.run("go").now_or_never().unwrap().unwrap();
    assert_eq!(cast.told("boss")[2], ["go", "", "it is here", "", "still here"].map(str::to_owned));
    let scout = cast.told("scout");
    assert_eq!(scout[1], ["You are scout.", "find it", "", "look ran"].map(str::to_owned));
    // It remembers nothing of the task before; the log of its lane does.
    assert_eq!(scout[2], ["You are scout.", "find it"].map(str::to_owned));
    assert_eq!(orchestrator.conversation("scout~1").unwrap().messages().count(), 7);
    assert!(orchestrator.conversation("scout").is_none());
    // What it took is the run's.
    assert_eq!((report.iterations, report.usage.prompt_tokens), (6, Tokens::new(60)));
    assert_eq!(report.stop, StopReason::Done);
}

#[test]
fn an_agent_is_called_where_the_rules_allow_it() {
    for (rules, is_called) in
        [("{ scout: deny }", false), ("{ scout: ask }", false), ("{ '*': deny, scout: allow }", true)]
    {
        let cast = Cast::new(&[("boss", &[ASK, Line::Says("done")]), ("scout", &[Line::Says("it is here")])]);
        let mut orchestrator = build(&format!("{YAML}permissions: {rules}\n"), &cast, None);
        orchestrator.run("go").now_or_never().unwrap().unwrap();
        let result = &cast.told("boss")[1][2];
        assert_eq!(result == "it is here", is_called, "{rules}: {result}");
        assert_eq!(result.contains("`scout` was not called"), !is_called, "{rules}: {result}");
        assert_eq!(cast.told("scout").len(), usize::from(is_called), "{rules}");
    }
}

#[test]
fn calls_of_one_reply_are_worked_on_side_by_side() {
    const TWICE: Line = Line::Calls(&[("scout", r#"{"task": "north"}"#), ("scout", r#"{"task": "south"}"#)]);
    let cast = Cast::new(&[("boss", &[TWICE]), ("scout", &[Line::Hangs, Line::Says("found")])]);
    let mut orchestrator = build(YAML, &cast, None);
    assert!(orchestrator.run("go").now_or_never().is_none());
    // The second did not wait for the first.
    let asked: Vec<String> = cast.told("scout").into_iter().map(|texts| texts[1].clone()).collect();
    assert_eq!(asked, ["north", "south"]);
    assert_eq!(orchestrator.conversation("scout~2").unwrap().messages().count(), 3);
}

#[test]
fn what_goes_wrong_with_it_is_an_error_that_the_model_reads() {
    let limited = YAML.replace("tools: [look]", "tools: [look], max_iterations: 1");
    for (yaml, ask, scout, expected) in [
        (
            YAML,
            Line::Calls(&[("scout", "{}")]),
            vec![],
            "the arguments are not `{\"task\": \"...\"}`: missing field `task`",
        ),
        (YAML, Line::Calls(&[("scout", r#"{"task": "x", "why": 1}"#)]), vec![], "unknown field `why`"),
        (YAML, ASK, vec![], "the agent `scout` failed: the recording has no further reply"),
        (YAML, ASK, vec![Line::Says("")], "the agent"),
        (&limited, ASK, vec![LOOK], "the agent stopped: max_iterations (1) is reached"),
    ] {
        let cast = Cast::new(&[("boss", &[ask, Line::Says("done")]), ("scout", &scout)]);
        let report = build(yaml, &cast, None).run("go").now_or_never().unwrap().unwrap();
        let told = cast.told("boss");
        assert!(told[1][2].contains(expected), "{}", told[1][2]);
        assert_eq!(report.response, "done");
    }
}

#[test]
fn a_budget_counts_what_those_took_who_were_called() {
    for (budget, expected) in [("budget: { tokens: 2000 }", true), ("budget: { tokens: 40 }", false)] {
        let cast = Cast::new(&[("boss", &[ASK, Line::Says("done")]), ("scout", &[LOOK, Line::Says("here")])]);
        let yaml = format!("{budget}\n{}", YAML.replace("system_prompt: 'You are {{agent.id}}.', ", ""));
        let report = build(&yaml, &cast, None).run("go").now_or_never().unwrap().unwrap();
        assert_eq!(report.stop == StopReason::Done, expected, "{:?}", report.stop);
    }
    // The budget of the one that is called holds over all its lanes.
    let twice = Line::Calls(&[("scout", r#"{"task": "a"}"#), ("scout", r#"{"task": "b"}"#)]);
    let cast = Cast::new(&[("boss", &[twice, Line::Says("done")]), ("scout", &vec![LOOK; 20])]);
    let yaml = YAML.replace("tools: [look]", "tools: [look], budget: { tokens: 100 }");
    build(&yaml, &cast, None).run("go").now_or_never().unwrap().unwrap();
    assert!(cast.told("scout").len() < 12, "{}", cast.told("scout").len());
    assert!(cast.told("boss")[1][2].contains("budget"), "{:?}", cast.told("boss")[1]);
}

#[test]
fn a_circle_is_refused_before_anything_runs() {
    let yaml = YAML.replace("tools: [look]", "tools: [boss]");
    let layers = Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() };
    let built = Orchestrator::builder()
        .workflow(load(&layers).unwrap())
        .provider(ProviderId::new("p").unwrap(), Cast::new(&[]) as Arc<dyn Provider>)
        .build();
    let Err(BuildError::Unusable(findings)) = built.map(drop) else { panic!("it was built") };
    let paths: Vec<&str> = findings.iter().map(|finding| finding.path.as_str()).collect();
    assert_eq!(paths, ["agents.boss.tools[0]", "agents.scout.tools[0]"]);
}

#[test]
fn what_was_done_when_the_run_died_is_not_done_again() {
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryCheckpointStore::new());
    let cast = Cast::new(&[("boss", &[ASK]), ("scout", &[LOOK, Line::Hangs])]);
    let mut first = build(YAML, &cast, Some(&store));
    assert!(first.run("go").now_or_never().is_none());
    first.save_interrupted().now_or_never().unwrap();
    first.close().now_or_never().unwrap();
    // The model is told that its call was cut off; it asks the same again, and the scout goes on where it was.
    let cast = Cast::new(&[("boss", &[ASK, Line::Says("done")]), ("scout", &[Line::Says("here")])]);
    let mut second = build(YAML, &cast, Some(&store));
    let restored = second.restore(&Resume::from("last")).now_or_never().unwrap().unwrap();
    assert_eq!((restored.is_over, restored.differences), (false, Vec::new()));
    let report = second.proceed().now_or_never().unwrap().unwrap();
    assert_eq!(report.response, "done");
    assert!(cast.told("boss")[0][2].starts_with("The run was interrupted"), "{:?}", cast.told("boss")[0]);
    assert_eq!(cast.told("scout"), [["You are scout.", "find it", "", "look ran"].map(str::to_owned)]);
}
