//! Every point of a run at which hooks are asked or told: what each answer does there, and who hears what.

use std::future::poll_fn;
use std::sync::{Arc, Mutex};
use std::task::Poll;

use async_trait::async_trait;
use forge_app::{Checkpointing, Orchestrator, Resume, RunError, RunEvent, RunReport, StopReason};
use forge_domain::*;
use forge_infra::{MemoryCheckpointStore, SystemClock};
use forge_services::workflow::{Layers, Source, load};
use futures::FutureExt;
use futures::executor::block_on;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::orchestrator::{Reply, Script};

/// A hook that answers with the same text at its points and remembers what it heard.
struct Ruler {
    name: String,
    points: Vec<HookPoint>,
    /// JSON; what is none makes it broken.
    answer: String,
    where_broken: WhereBroken,
    heard: Mutex<Vec<Value>>,
}

impl Ruler {
    fn new(name: &str, points: &[HookPoint], answer: &str) -> Self {
        let (name, points, answer) = (name.to_owned(), points.to_vec(), answer.to_owned());
        Self { name, points, answer, where_broken: WhereBroken::Proceed, heard: Mutex::default() }
    }

    fn words(&self) -> Vec<String> {
        let heard = self.heard.lock().unwrap();
        heard.iter().map(|event| event["event"].as_str().unwrap().to_owned()).collect()
    }
}

#[async_trait]
impl Hook for Ruler {
    fn name(&self) -> &str {
        &self.name
    }

    fn listens_at(&self, point: HookPoint) -> bool {
        self.points.contains(&point)
    }

    async fn call(&self, event: &HookEvent<'_>) -> Result<HookAnswer, HookError> {
        self.heard.lock().unwrap().push(serde_json::to_value(event).unwrap());
        if self.answer.is_empty() {
            return Ok(HookAnswer::Proceed);
        }
        HookAnswer::read(event.point(), &self.answer).map_err(|error| HookError(Box::new(error)))
    }

    fn where_broken(&self) -> WhereBroken {
        self.where_broken
    }
}

/// Tools that answer with their arguments; `bad` fails.
#[derive(Default)]
struct Mirror {
    n_calls: Mutex<usize>,
}

#[async_trait]
impl ToolService for Mirror {
    fn definitions(&self, _: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        Ok(Vec::new())
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        *self.n_calls.lock().unwrap() += 1;
        match call.name.as_str() {
            "bad" => ToolResult::error(call, "it broke"),
            name => ToolResult::answer(call, format!("{name} got {}", call.arguments)),
        }
    }
}

struct Ran {
    report: Result<RunReport, RunError>,
    /// What each message of the log says, behind the letter of who says it.
    log: Vec<String>,
    /// What people were told of hooks.
    said: Vec<String>,
    n_calls: usize,
}

const YAML: &str = "agents: [{ id: one, model: 'p:m' }]\nproviders: { p: {} }\n\
                    models: { 'p:m': { window: 4000, max_output: 100 } }\n";

fn orchestrator(
    hooks: Vec<Arc<Ruler>>,
    replies: &[Reply],
    said: &Arc<Mutex<Vec<String>>>,
    tools: &Arc<Mirror>,
    checkpointing: Option<Checkpointing>,
) -> Orchestrator {
    let layers = Layers { project: Some(Source::new("forge.yaml", YAML)), ..Layers::default() };
    let told = Arc::clone(said);
    let builder = Orchestrator::builder()
        .workflow(load(&layers).unwrap())
        .provider(ProviderId::new("p").unwrap(), Script::new(replies) as Arc<dyn Provider>)
        .tools(Arc::clone(tools) as Arc<dyn ToolService>)
        .watcher(move |event| match event {
            RunEvent::HookFailed { hook, error } => told.lock().unwrap().push(format!("{hook}: {error}")),
            RunEvent::HookDenied { point, hook, reason, .. } => {
                told.lock().unwrap().push(format!("{} denied by {hook}: {reason}", point.as_str()));
            }
            _ => {}
        });
    let builder = hooks.into_iter().fold(builder, |builder, hook| builder.hook(hook));
    match checkpointing {
        Some(checkpointing) => builder.checkpoints(checkpointing),
        None => builder,
    }
    .build()
    .unwrap()
}

fn log(orchestrator: &Orchestrator) -> Vec<String> {
    let line = |message: &ContextMessage| {
        let message = message.message();
        let letter = match (message.role(), message.note_by()) {
            (Role::User, Some(_)) => "n",
            (Role::User, None) => "u",
            (Role::Tool, _) => "r",
            _ => "a",
        };
        format!("{letter} {}", message.to_text())
    };
    orchestrator.conversation("one").map(|log| log.messages().map(line).collect()).unwrap_or_default()
}

fn run(hooks: Vec<Arc<Ruler>>, tool: &'static [&'static str]) -> Ran {
    let (said, tools) = (Arc::default(), Arc::default());
    let mut orchestrator =
        orchestrator(hooks, &[Reply::Calls(tool), Reply::Says("done")], &said, &tools, None);
    let report = orchestrator.run("go").now_or_never().unwrap();
    let n_calls = *tools.n_calls.lock().unwrap();
    let said = std::mem::take(&mut *said.lock().unwrap());
    Ran { report, log: log(&orchestrator), said, n_calls }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn each_answer_has_its_effect_at_its_point() {
    use HookPoint::{
        Checkpoint, Notification, PostPrompt, PostToolCall, PreCompact, PrePrompt, PreToolCall, ToolFailure,
        WorkflowEnd, WorkflowStart,
    };
    const DENY: &str = r#"{"decision": "deny", "reason": "not today"}"#;
    const NOTE: &str = r#"{"decision": "edit", "note": "mind the gap"}"#;
    let plain = ["u go", "a ", "r t got {}", "a done"];
    let failed = ["u go", "a ", "r it broke", "a done"];
    for (point, tool, answer, stop, log, said) in [
        // Who says nothing, or is only told, changes nothing.
        (WorkflowStart, "t", "", "done", plain.to_vec(), None),
        (PrePrompt, "t", r#"{"decision": "proceed"}"#, "done", plain.to_vec(), None),
        (PreToolCall, "t", "", "done", plain.to_vec(), None),
        // A denial.
        (WorkflowStart, "t", DENY, "denied", vec![], Some("workflow_start denied by it: not today")),
        (PrePrompt, "t", DENY, "denied", vec!["u go"], Some("pre_prompt denied by it: not today")),
        (
            PreToolCall,
            "t",
            DENY,
            "done",
            vec!["u go", "a ", "r This call was denied and did not run. The reason: not today", "a done"],
            Some("pre_tool_call denied by it: not today"),
        ),
        (
            PostToolCall,
            "t",
            DENY,
            "done",
            vec![
                "u go",
                "a ",
                "r This call ran, and its result is withheld. The reason: not today",
                "a done",
            ],
            Some("post_tool_call denied by it: not today"),
        ),
        // What cannot be denied.
        (
            ToolFailure,
            "bad",
            DENY,
            "done",
            failed.to_vec(),
            Some("it: it denies, but nothing can be denied at `tool_failure`"),
        ),
        (
            PostPrompt,
            "bad",
            DENY,
            "done",
            failed.to_vec(),
            Some("it: it denies, but nothing can be denied at `post_prompt`"),
        ),
        (
            WorkflowEnd,
            "t",
            DENY,
            "done",
            plain.to_vec(),
            Some("it: it denies, but nothing can be denied at `workflow_end`"),
        ),
        // An edit.
        (
            PrePrompt,
            "t",
            NOTE,
            "done",
            vec!["u go", "n mind the gap", "a ", "r t got {}", "n mind the gap", "a done"],
            None,
        ),
        (
            PreToolCall,
            "t",
            r#"{"decision": "edit", "arguments": {"safe": true}}"#,
            "done",
            vec![
                "u go",
                "a ",
                "r t got {\"safe\":true}\n[A hook changed the arguments of this call. It ran with: {\"safe\":true}]",
                "a done",
            ],
            None,
        ),
        (
            PostToolCall,
            "t",
            r#"{"decision": "edit", "text": "cut", "note": "and noted"}"#,
            "done",
            vec!["u go", "a ", "r cut\nand noted", "a done"],
            None,
        ),
        (ToolFailure, "bad", NOTE, "done", vec!["u go", "a ", "r it broke\nmind the gap", "a done"], None),
        // The one point hears of calls that went well, the other of those that did not.
        (PostToolCall, "bad", NOTE, "done", failed.to_vec(), None),
        (ToolFailure, "t", NOTE, "done", plain.to_vec(), None),
        // What cannot be edited there.
        (
            WorkflowStart,
            "t",
            NOTE,
            "done",
            plain.to_vec(),
            Some("it: it edits something that cannot be edited at `workflow_start`"),
        ),
        (
            PreToolCall,
            "t",
            NOTE,
            "done",
            plain.to_vec(),
            Some("it: unknown field `note`, expected `arguments`"),
        ),
        // Points that this run does not come to.
        (PreCompact, "t", DENY, "done", plain.to_vec(), None),
        (Notification, "t", DENY, "done", plain.to_vec(), None),
        (Checkpoint, "t", DENY, "done", plain.to_vec(), None),
    ] {
        let tools: &'static [&'static str] = if tool == "t" { &["t"] } else { &["bad"] };
        let ran = run(vec![Arc::new(Ruler::new("it", &[point], answer))], tools);
        let actual = (ran.report.unwrap().stop.as_str(), ran.log, ran.said.first().map(String::as_str));
        let log: Vec<String> = log.into_iter().map(str::to_owned).collect();
        assert_eq!(actual, (stop, log, said), "{} {answer}", point.as_str());
        let is_called = stop == "done" && !(point == PreToolCall && answer == DENY);
        assert_eq!(ran.n_calls, usize::from(is_called), "{} {answer}", point.as_str());
    }
}

#[test]
fn a_run_comes_to_its_points_in_order() {
    let all = Arc::new(Ruler::new("it", &HookPoint::ALL, ""));
    let store = Arc::new(MemoryCheckpointStore::new());
    let checkpointing = Checkpointing::new(store, Arc::new(SystemClock), RunId::new("r").unwrap());
    let (said, tools) = (Arc::default(), Arc::default());
    let replies = [Reply::Calls(&["t", "bad"]), Reply::Says("done")];
    let mut orchestrator = orchestrator(vec![Arc::clone(&all)], &replies, &said, &tools, Some(checkpointing));
    orchestrator.run("go").now_or_never().unwrap().unwrap();
    let expected = [
        "workflow_start",
        "checkpoint",
        "pre_prompt",
        "post_prompt",
        "pre_tool_call",
        "post_tool_call",
        "pre_tool_call",
        "tool_failure",
        "checkpoint",
        "pre_prompt",
        "post_prompt",
        "checkpoint",
        "workflow_end",
    ];
    assert_eq!(all.words(), expected);
    let heard = all.heard.lock().unwrap();
    let event = |word: &str| heard.iter().find(|event| event["event"] == word).unwrap();
    assert_eq!(*event("workflow_start"), json!({"event": "workflow_start", "agents": ["one"], "task": "go"}));
    let told = event("pre_prompt");
    assert_eq!(
        (&told["agent"], &told["model"], &told["iteration"]),
        (&json!("one"), &json!("p:m"), &json!(1))
    );
    assert_eq!((&told["context"]["messages"], &told["messages"][0]["text"]), (&json!(1), &json!("go")));
    let told = event("post_prompt");
    assert_eq!(
        (&told["text"], &told["finish_reason"], &told["calls"][1]["name"]),
        (&json!(""), &json!("tool_calls"), &json!("bad"))
    );
    let told = event("tool_failure");
    assert_eq!(
        (&told["tool"], &told["text"], &told["call_id"]),
        (&json!("bad"), &json!("it broke"), &json!("call_1"))
    );
    let told = &event("checkpoint")["checkpoint"];
    assert_eq!((&told["run"], &told["step"]), (&json!("r"), &json!("turn-1")));
    let told = event("workflow_end");
    assert_eq!(
        (&told["stop"], &told["because"], &told["response"], &told["iterations"]),
        (&json!("done"), &json!("done"), &json!("done"), &json!(2))
    );
}

#[test]
fn several_hooks_are_asked_in_order_and_hear_of_what_the_earlier_ones_changed() {
    let answer =
        |json: &str| Arc::new(Ruler::new("it", &[HookPoint::PreToolCall, HookPoint::PostToolCall], json));
    let first = Arc::new(Ruler::new(
        "first",
        &[HookPoint::PreToolCall],
        r#"{"decision": "edit", "arguments": {"a": 1}}"#,
    ));
    let second = answer("");
    let ran = run(vec![first, Arc::clone(&second)], &["t"]);
    assert_eq!(second.heard.lock().unwrap()[0]["arguments"], json!({"a": 1}));
    assert_eq!(second.heard.lock().unwrap()[1]["text"], json!("t got {\"a\":1}"));
    assert_eq!(ran.n_calls, 1);
    // Notes add up; a denial is the last word, and whoever comes behind it hears nothing.
    let note = |words: &str| {
        let json = json!({"decision": "edit", "note": words}).to_string();
        Arc::new(Ruler::new("note", &[HookPoint::PostToolCall], &json))
    };
    let ran = run(vec![note("one"), note("two")], &["t"]);
    assert_eq!(ran.log[2], "r t got {}\none\ntwo");
    let denies = Arc::new(Ruler::new("guard", &[HookPoint::PreToolCall], r#"{"decision": "deny"}"#));
    let behind = answer("");
    let ran = run(vec![denies, Arc::clone(&behind)], &["t"]);
    assert_eq!(ran.log[2], "r This call was denied and did not run. The reason: none is given");
    assert_eq!((behind.words(), ran.n_calls), (Vec::new(), 0));
}

#[test]
fn a_guard_that_is_broken_is_passed_by_or_not_as_it_says() {
    for (where_broken, points, expected) in [
        (WhereBroken::Proceed, vec![HookPoint::PreToolCall], (1, "done")),
        (WhereBroken::Deny, vec![HookPoint::PreToolCall], (0, "done")),
        (WhereBroken::Deny, vec![HookPoint::WorkflowStart], (0, "denied")),
        (WhereBroken::Deny, vec![HookPoint::PostPrompt, HookPoint::WorkflowEnd], (1, "done")),
    ] {
        let guard = Ruler { where_broken, ..Ruler::new("guard", &points, "nonsense") };
        let ran = run(vec![Arc::new(guard)], &["t"]);
        assert!(ran.said[0].starts_with("guard: not JSON such as "), "{:?}", ran.said);
        assert_eq!((ran.n_calls, ran.report.unwrap().stop.as_str()), expected, "{where_broken:?} {points:?}");
    }
}

#[test]
fn nothing_is_built_with_a_command_that_nothing_runs() {
    let commands = json!({"pre_tool_call": [{"command": "./guard.sh", "tools": ["t"]}]});
    let commands: HookCommands = serde_json::from_value(commands).unwrap();
    let builder = || {
        let agent = Agent::new(AgentId::new("one").unwrap()).model(ModelId::new("p:m").unwrap());
        let script = Script::new(&[Reply::Calls(&["t"]), Reply::Says("done")]);
        Orchestrator::builder()
            .agent(agent.hooks(commands.clone()))
            .provider(ProviderId::new("p").unwrap(), script as Arc<dyn Provider>)
            .tools(Arc::new(Mirror::default()))
    };
    let error = builder().build().err().unwrap().to_string();
    let expected = "agents.one.hooks.pre_tool_call is a command that nothing would run: ";
    assert!(error.starts_with(expected), "{error}");
    let guard = Arc::new(Ruler::new("guard", &[HookPoint::PreToolCall], ""));
    let run_by = Arc::clone(&guard);
    let builder = builder().hook_commands(move |point, command, tools| {
        let actual = (point, command.command.as_str(), tools.len());
        assert_eq!(actual, (HookPoint::PreToolCall, "./guard.sh", 1));
        Arc::clone(&run_by) as Arc<dyn Hook>
    });
    builder.build().unwrap().run("go").now_or_never().unwrap().unwrap();
    assert_eq!(guard.words(), ["pre_tool_call"]);
}

#[test]
fn what_people_are_told_hooks_are_told_too() {
    let it = Arc::new(Ruler::new("it", &[HookPoint::Notification], ""));
    let yaml = YAML.replace("model: 'p:m'", "model: 'p:other', max_iterations: 1");
    let layers = Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() };
    let mut orchestrator = Orchestrator::builder()
        .workflow(load(&layers).unwrap())
        .provider(ProviderId::new("p").unwrap(), Script::new(&[Reply::Calls(&["t"])]) as Arc<dyn Provider>)
        .tools(Arc::new(Mirror::default()))
        .hook(Arc::clone(&it) as Arc<dyn Hook>)
        .build()
        .unwrap();
    orchestrator.run("go").now_or_never().unwrap().unwrap();
    let heard = it.heard.lock().unwrap();
    let texts: Vec<&str> = heard.iter().map(|event| event["text"].as_str().unwrap()).collect();
    assert!(texts[0].starts_with("`p` does not list a model `other`"), "{texts:?}");
    assert!(texts[1].starts_with("the window of `p:other` is unknown"), "{texts:?}");
    assert_eq!(texts[2], "stopped: max_iterations (1) is reached");
    assert_eq!((heard.len(), &heard[0]["agent"]), (3, &json!("one")));
}

/// A user who needs a moment to answer.
struct Slow;

impl Slow {
    async fn think() {
        let mut has_waited = false;
        poll_fn(|context| {
            if has_waited {
                return Poll::Ready(());
            }
            has_waited = true;
            context.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }
}

#[async_trait]
impl Person for Slow {
    async fn answer(&self, _: &Question) -> Result<String, Unanswered> {
        Self::think().await;
        Ok("red".to_owned())
    }

    async fn consent(&self, _: &ConsentRequest<'_>) -> Result<Consent, Unanswered> {
        Self::think().await;
        Ok(Consent::Once)
    }
}

/// A tool that needs consent, and then asks.
struct Inquirer(Arc<dyn Person>);

#[async_trait]
impl ToolService for Inquirer {
    fn definitions(&self, _: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        Ok(Vec::new())
    }

    async fn reach(&self, _: &ToolCall) -> Reach {
        Reach::careful()
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        ToolResult::error(call, "it has no scope")
    }

    async fn call_within(&self, call: &ToolCall, scope: &CallScope) -> ToolResult {
        let question = Question { text: "Which?".to_owned(), options: Vec::new() };
        scope.note_question(&question);
        match self.0.answer(&question).await {
            Ok(answer) => ToolResult::answer(call, answer),
            Err(_) => ToolResult::error(call, "no answer"),
        }
    }
}

#[test]
fn hooks_are_told_that_the_user_is_waited_for() {
    let slow = ["one needs consent to call t", "one asks: Which?"];
    let people = [(Arc::new(Slow) as Arc<dyn Person>, &slow[..]), (Arc::new(Nobody) as Arc<dyn Person>, &[])];
    for (person, expected) in people {
        let it = Arc::new(Ruler::new("it", &[HookPoint::Notification], ""));
        let layers = Layers { project: Some(Source::new("forge.yaml", YAML)), ..Layers::default() };
        let script = Script::new(&[Reply::Calls(&["t"]), Reply::Says("done")]);
        let mut orchestrator = Orchestrator::builder()
            .workflow(load(&layers).unwrap())
            .provider(ProviderId::new("p").unwrap(), script as Arc<dyn Provider>)
            .tools(Arc::new(Inquirer(Arc::clone(&person))))
            .person(person)
            .hook(Arc::clone(&it) as Arc<dyn Hook>)
            .build()
            .unwrap();
        block_on(orchestrator.run("go")).unwrap();
        let heard = it.heard.lock().unwrap();
        let texts: Vec<&str> = heard.iter().map(|event| event["text"].as_str().unwrap()).collect();
        assert_eq!(texts, expected);
    }
}

#[test]
fn what_hooks_told_the_model_is_there_when_the_run_is_resumed() {
    let store: Arc<dyn CheckpointStore> = Arc::new(MemoryCheckpointStore::new());
    let keeping = || Checkpointing::new(Arc::clone(&store), Arc::new(SystemClock), RunId::new("r").unwrap());
    let note = Arc::new(Ruler::new("it", &[HookPoint::PrePrompt], r#"{"decision": "edit", "note": "mind"}"#));
    let (said, tools) = (Arc::default(), Arc::default());
    let mut first =
        orchestrator(vec![note], &[Reply::Calls(&["t"]), Reply::Hangs], &said, &tools, Some(keeping()));
    assert!(first.run("go").now_or_never().is_none());
    first.save_interrupted().now_or_never().unwrap();
    first.close().now_or_never().unwrap();
    let mut second = orchestrator(Vec::new(), &[Reply::Says("done")], &said, &tools, Some(keeping()));
    second.restore(&Resume::from("last")).now_or_never().unwrap().unwrap();
    let report = second.proceed().now_or_never().unwrap().unwrap();
    assert_eq!(report.stop, StopReason::Done);
    assert_eq!(log(&second), ["u go", "n mind", "a ", "r t got {}", "n mind", "a done"]);
    // A note is no turn: the one that the person began goes on.
    let view = second.conversation("one").unwrap().view();
    assert_eq!(view.size().turns, 1);
}

#[test]
fn a_run_that_is_dropped_or_fails_has_an_end_too() {
    for (replies, expected) in [(vec![Reply::Hangs], "interrupted"), (vec![], "failed")] {
        let it = Arc::new(Ruler::new("it", &[HookPoint::WorkflowEnd], ""));
        let (said, tools) = (Arc::default(), Arc::default());
        let mut orchestrator = orchestrator(vec![Arc::clone(&it)], &replies, &said, &tools, None);
        let ran = orchestrator.run("go").now_or_never();
        assert_eq!(ran.is_none(), expected == "interrupted");
        orchestrator.save_interrupted().now_or_never().unwrap();
        let heard = it.heard.lock().unwrap();
        assert_eq!((heard.len(), &heard[0]["stop"]), (1, &json!(expected)));
    }
}
