//! Hooks around compactions: what each answer does, what a broken one does, and commands of a real shell.

mod points;

use std::process::Stdio;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use forge_app::{Orchestrator, RunError, RunEvent, RunReport};
use forge_domain::*;
use forge_services::workflow::{Layers, Source, load};
use forge_tests::{ScriptedServer, Step};
use futures::FutureExt;
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, Outcome, outcome, repository};
use crate::orchestrator::{Echo, Reply, Script};

/// A hook that always answers the same and remembers what it heard.
struct Answers {
    answer: fn() -> Result<HookAnswer, HookError>,
    heard: Mutex<Vec<Value>>,
}

impl Answers {
    fn new(answer: fn() -> Result<HookAnswer, HookError>) -> Arc<Self> {
        Arc::new(Self { answer, heard: Mutex::default() })
    }

    /// The words of what it heard: the point, and for what was told the outcome.
    fn heard(&self) -> Vec<String> {
        let word = |event: &Value| match &event["report"]["outcome"] {
            Value::Null => event["event"].as_str().unwrap().to_owned(),
            Value::String(outcome) => outcome.clone(),
            outcome => outcome.as_object().unwrap().keys().next().unwrap().clone(),
        };
        self.heard.lock().unwrap().iter().map(word).collect()
    }
}

#[async_trait]
impl Hook for Answers {
    fn name(&self) -> &str {
        "scripted"
    }

    fn listens_at(&self, point: HookPoint) -> bool {
        matches!(point, HookPoint::PreCompact | HookPoint::PostCompact)
    }

    async fn call(&self, event: &HookEvent<'_>) -> Result<HookAnswer, HookError> {
        self.heard.lock().unwrap().push(serde_json::to_value(event).unwrap());
        // What is told is not answered.
        if event.point().is_question() {
            (self.answer)()
        } else {
            (self.answer)().map(|_| HookAnswer::Proceed)
        }
    }
}

/// What came of a run with one hook.
struct Ran {
    report: Result<RunReport, RunError>,
    script: Arc<Script>,
    hook: Arc<Answers>,
    /// What was said of hooks.
    said: Vec<String>,
    orchestrator: Orchestrator,
}

/// Runs an agent whose tool says about 800 tokens at each of `n_calls` calls.
fn run(compact: &str, n_calls: usize, answer: fn() -> Result<HookAnswer, HookError>) -> Ran {
    let yaml = format!(
        "agents: [{{ id: one, model: 'p:m', compact: {compact} }}]\nproviders: {{ p: {{}} }}\n\
         models: {{ 'p:m': {{ window: 4000, max_output: 100 }} }}\n"
    );
    let layers = Layers { project: Some(Source::new("forge.yaml", yaml)), ..Layers::default() };
    let mut replies = vec![Reply::Calls(&["big"]); n_calls];
    replies.push(Reply::Says("<forge_context_summary>done</forge_context_summary>"));
    replies.extend(vec![Reply::Says("done"); 3]);
    let script = Script::new(&replies);
    let hook = Answers::new(answer);
    let said = Arc::new(Mutex::new(Vec::new()));
    let told = Arc::clone(&said);
    let mut orchestrator = Orchestrator::builder()
        .workflow(load(&layers).unwrap())
        .provider(ProviderId::new("p").unwrap(), Arc::clone(&script) as Arc<dyn Provider>)
        .tools(Arc::new(Echo))
        .hook(Arc::clone(&hook) as Arc<dyn Hook>)
        .watcher(move |event| match event {
            RunEvent::HookFailed { hook, error } => told.lock().unwrap().push(format!("{hook}: {error}")),
            RunEvent::Notice(notice) => told.lock().unwrap().push((*notice).to_owned()),
            _ => {}
        })
        .build()
        .unwrap();
    let report = orchestrator.run("go").now_or_never().unwrap();
    let said = std::mem::take(&mut *said.lock().unwrap());
    Ran { report, script, hook, said, orchestrator }
}

fn proceed() -> Result<HookAnswer, HookError> {
    Ok(HookAnswer::Proceed)
}

fn deny() -> Result<HookAnswer, HookError> {
    Ok(HookAnswer::Deny { reason: "in the middle of something".to_owned() })
}

fn broken() -> Result<HookAnswer, HookError> {
    Err(HookError("out of order".into()))
}

const EARLY: &str = "{ token_threshold: 1300, max_tokens: 1000, strategies: [sliding_window] }";

#[test]
fn each_answer_before_a_compaction_has_its_effect() {
    let (applied, asked) = ("applied", "pre_compact");
    for (name, answer, expected) in [
        ("proceed", proceed as fn() -> _, (vec![asked, applied], 1, vec![])),
        ("deny", deny, (vec![asked, "vetoed"], 0, vec![])),
        ("broken", broken, (vec![asked, applied], 1, vec!["scripted: out of order"; 2])),
    ] {
        let ran = run(EARLY, 2, answer);
        let report = ran.report.unwrap();
        let log = ran.orchestrator.conversation("one").unwrap();
        let actual = (ran.hook.heard(), log.compactions().count(), ran.said);
        let expected = (
            expected.0.into_iter().map(str::to_owned).collect::<Vec<_>>(),
            expected.1,
            expected.2.into_iter().map(str::to_owned).collect::<Vec<_>>(),
        );
        assert_eq!(actual, expected, "{name}");
        assert_eq!((report.outcomes.len(), report.iterations), (1, 3), "{name}");
    }
}

#[test]
fn a_compaction_that_is_denied_is_only_put_off() {
    let ran = run(EARLY, 4, deny);
    let expected = ["pre_compact", "vetoed"].repeat(3).into_iter().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(ran.hook.heard(), expected);
    assert!(ran.report.unwrap().outcomes.iter().all(|fit| fit.outcome.name() == "vetoed"));
    // Over the window there is no later: nothing is sent.
    let ran = run("{ token_threshold: 100% }", 6, deny);
    let error = ran.report.unwrap_err();
    let over = error.still_over().expect("it is over the window");
    assert!(over.need > over.have, "{over}");
    let expected = format!(
        "the hook `scripted` denied a compaction that the window demands (in the middle of something): {over}"
    );
    assert_eq!((error.to_string(), ran.said), (expected, Vec::new()));
    assert_eq!(ran.hook.heard(), ["pre_compact", "still_over"].map(str::to_owned));
    assert_eq!(ran.script.said().len(), 5, "the calls before");
}

#[test]
fn an_edit_keeps_messages_that_would_have_gone() {
    fn keep() -> Result<HookAnswer, HookError> {
        let edit = HookAnswer::read(HookPoint::PreCompact, r#"{"decision": "edit", "keep": ["m2"]}"#);
        Ok(edit.unwrap())
    }
    let compact =
        "{ token_threshold: 2200, max_tokens: 1900, strategies: [sliding_window], retention_window: 1 }";
    let in_view = |ran: &Ran| -> Vec<String> {
        let view = ran.orchestrator.conversation("one").unwrap().view();
        // Without the marker and the last answer.
        let messages = view.messages().iter().filter(|message| !message.message().is_compacted);
        messages.take(5).map(|message| message.id().unwrap().to_string()).collect()
    };
    // m0 asks; m1 and m2, m3 and m4, m5 and m6 are calls with their results.
    assert_eq!(in_view(&run(compact, 3, proceed)), ["m0", "m3", "m4", "m5", "m6"].map(str::to_owned));
    assert_eq!(in_view(&run(compact, 3, keep)), ["m0", "m1", "m2", "m5", "m6"].map(str::to_owned));
}

#[test]
fn an_edit_says_what_a_summary_is_to_preserve() {
    fn focus() -> Result<HookAnswer, HookError> {
        let edit = r#"{"decision": "edit", "focus": "the harbour lamps"}"#;
        Ok(HookAnswer::read(HookPoint::PreCompact, edit).unwrap())
    }
    let compact = "{ token_threshold: 2200, max_tokens: 1900, model: 'p:m', retention_window: 1 }";
    for (answer, expected) in [(proceed as fn() -> _, 0), (focus, 1)] {
        let ran = run(compact, 3, answer);
        let told: Vec<String> = ran.script.said().concat();
        let asked = told.iter().filter(|text| text.contains("that bears on this: the harbour lamps")).count();
        assert_eq!(asked, expected);
        assert_eq!(ran.report.unwrap().summary_calls, 1);
    }
}

/// An agent that is compacted at every call from the third on, with these hooks.
fn yaml(hooks: &str) -> String {
    format!(
        "{hooks}agents:\n  - id: reader\n    model: openai:scripted\n    tools: [list]\n    compact: {{ message_threshold: \
         4, max_messages: 3, strategies: [sliding_window], retention_window: 0 }}\n"
    )
}

fn forge_run(yaml: &str) -> (Forge, Outcome) {
    let calls = Step::calls(&[("list", "{}")]);
    let server = ScriptedServer::start(vec![calls.clone(), calls, Step::text("done")]);
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let mut command = forge.command(&["run", "task"]);
    let path = std::env::var("PATH").unwrap();
    let command = command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "sk-planted");
    let ran = outcome(command.env("PATH", path).env("NAMED", "yes"));
    (forge, ran)
}

#[test]
fn commands_of_the_shell_are_told_and_asked() {
    let hooks = "hooks:\n  pre_compact: [{ command: 'cat > pre.json' }]\n  post_compact:\n    \
                 - { command: 'cat > post.json; env > env.txt', timeout: 20s, env: [NAMED] }\n";
    let (forge, ran) = forge_run(&yaml(hooks));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("compacted by sliding_window"), "{}", ran.stderr);
    let read = |name: &str| std::fs::read_to_string(forge.path(name)).unwrap();
    let pre: Value = serde_json::from_str(&read("pre.json")).unwrap();
    assert_eq!(
        (&pre["event"], &pre["agent"], &pre["trigger"]),
        (&json!("pre_compact"), &json!("reader"), &json!("messages"))
    );
    assert_eq!((&pre["before"]["messages"], &pre["messages"][0]["text"]), (&json!(5), &json!("task")));
    let post: Value = serde_json::from_str(&read("post.json")).unwrap();
    assert_eq!(post["report"]["outcome"]["applied"]["strategies"], json!(["sliding_window"]));
    assert!(post["duration_ms"].is_u64());
    // The page says what a command is given, all of it.
    let page = std::fs::read_to_string(repository("docs/hooks.md")).unwrap();
    for part in [&pre, &post, &pre["before"], &pre["messages"][0]] {
        for key in part.as_object().unwrap().keys() {
            assert!(page.contains(&format!("`{key}`")), "docs/hooks.md does not name `{key}`");
        }
    }
    let env = read("env.txt");
    assert!(env.contains("NAMED=yes") && env.contains("FORGE_HOOK=post_compact"), "{env}");
    assert!(!env.contains("planted"), "{env}");
}

#[test]
fn commands_guard_tools_add_to_results_and_hear_of_the_end() {
    let yaml = r#"
hooks:
  pre_tool_call:
    - tools: [list]
      command: |
        grep -q secret && echo '{"decision": "deny", "reason": "look elsewhere"}' || true
      timeout: 20s
  post_tool_call:
    - { tools: ['l*'], command: 'touch formatted && echo "{\"decision\": \"edit\", \"note\": \"(formatted)\"}"', timeout: 20s }
  workflow_end: [{ command: 'cat > end.json', timeout: 20s }]
agents:
  - id: reader
    model: openai:scripted
    tools: [list]
    hooks: { pre_tool_call: [{ command: 'exit 1', tools: [read] }], workflow_start: [{ command: 'cat > start.json' }] }
"#;
    let server = ScriptedServer::start(vec![
        Step::calls(&[("list", r#"{"path": "secret"}"#), ("list", "{}")]),
        Step::text("done"),
    ]);
    let forge = Forge::new().with_file("forge.yaml", yaml).with_file("a.txt", "x");
    let mut command = forge.command(&["run", "task"]);
    let command = command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "sk-planted");
    let ran = outcome(command.env("PATH", std::env::var("PATH").unwrap()));
    assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{}", ran.stderr);
    assert!(ran.stderr.contains("denied: pre_tool_call of list, by the hook"), "{}", ran.stderr);
    let sent = &server.requests()[1]["messages"];
    let said: Vec<&str> =
        sent.as_array().unwrap().iter().filter_map(|message| message["content"].as_str()).collect();
    assert!(said.iter().any(|text| text.ends_with("did not run. The reason: look elsewhere")), "{said:?}");
    assert!(said.iter().any(|text| text.contains("a.txt") && text.ends_with("\n(formatted)")), "{said:?}");
    assert!(forge.path("formatted").exists());
    let read = |name: &str| -> Value {
        serde_json::from_str(&std::fs::read_to_string(forge.path(name)).unwrap()).unwrap()
    };
    assert_eq!(read("start.json")["task"], "task");
    assert_eq!((&read("end.json")["stop"], &read("end.json")["response"]), (&json!("done"), &json!("done")));
    assert!(!ran.stderr.contains("hook failed"), "{}", ran.stderr);
}

#[test]
fn a_command_denies_and_a_broken_one_is_said() {
    let of_agent = |command: &str| {
        yaml("") + &format!("    hooks: {{ pre_compact: [{{ command: '{command}', timeout: 20s }}] }}\n")
    };
    for (command, expected) in [
        (r#"echo "{\"decision\": \"deny\", \"reason\": \"busy\"}""#, "denied by the hook"),
        ("echo broken >&2; exit 3", "it ended with exit status: 3: broken"),
        ("echo no JSON", "its output is not a valid answer"),
    ] {
        let (_, ran) = forge_run(&of_agent(command));
        assert_eq!((ran.code, ran.stdout.as_str()), (0, "done\n"), "{command}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{command}: {}", ran.stderr);
        let is_denied = expected.starts_with("denied");
        assert_eq!(ran.stderr.contains("compacted by"), !is_denied, "{command}: {}", ran.stderr);
    }
}

#[test]
fn a_denial_that_the_window_does_not_allow_names_the_hook_and_the_way_out() {
    let command = r#"echo "{\"decision\": \"deny\", \"reason\": \"busy until noon\"}""#;
    let yaml = format!(
        "models: {{ 'openai:scripted': {{ window: 600, max_output: 50 }} }}\nhooks: {{ pre_compact: [{{ command: '{command}' }}] }}\n\
         agents: [{{ id: reader, model: openai:scripted, tools: [list], max_result_tokens: 9999, compact: {{ token_threshold: 100% }} }}]\n"
    );
    let files = (0..300).map(|n| format!("some-night-of-observation-{n}.log"));
    let forge = files.fold(Forge::new(), |forge, name| forge.with_file(&name, "x"));
    let forge = forge.with_file("forge.yaml", yaml);
    let server = ScriptedServer::start(vec![Step::calls(&[("list", "{}")]), Step::text("never")]);
    let mut command = forge.command(&["run", "task"]);
    let command = command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k");
    let ran = outcome(command.env("PATH", std::env::var("PATH").unwrap()));
    assert_eq!((ran.code, server.requests().len()), (7, 1), "{}", ran.stderr);
    for words in
        ["denied a compaction", "busy until noon", "echo", "`trigger` is `window`", "hooks.pre_compact"]
    {
        assert!(ran.stderr.contains(words), "`{words}` is not in:\n{}", ran.stderr);
    }
}

#[test]
fn a_compaction_that_is_switched_off_is_named_in_the_refusal() {
    let ran = run("{ auto_compact: false }", 6, proceed);
    let error = ran.report.unwrap_err();
    let over = error.still_over().expect("it is over the window");
    let expected =
        format!("`auto_compact: false` of agent `one` forbids a compaction that the window demands: {over}");
    assert_eq!((error.to_string(), ran.hook.heard()), (expected, vec!["still_over".to_owned()]));
}

/// Whether this process was started with hang-ups ignored, as by `nohup`; those that it starts inherit that.
#[cfg(target_os = "linux")]
fn hang_ups_are_ignored() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(mask.trim(), 16).unwrap() & 1 == 1
}

#[cfg(target_os = "linux")]
#[test]
fn a_signal_kills_the_command_that_runs() {
    for (signals, code) in [(&["-INT"][..], 130), (&["-TERM"], 143), (&["-HUP"], 129)] {
        if signals == ["-HUP"] && hang_ups_are_ignored() {
            skipped_tests::skip("hang-ups are ignored", "a hang-up kills the command");
            continue;
        }
        signalled("exec \"$0\" --trust run task", signals, code);
    }
    // Who had it ignored, as `nohup` does, is not ended by it.
    signalled("trap '' HUP; exec \"$0\" --trust run task", &["-HUP", "-TERM"], 143);
}

/// Starts a run by `script`, sends it `signals` once its hook runs, and awaits its end and the hook's.
#[cfg(target_os = "linux")]
fn signalled(script: &str, signals: &[&str], code: i32) {
    let calls = Step::calls(&[("list", "{}")]);
    let server = ScriptedServer::start(vec![calls.clone(), calls, Step::text("never")]);
    let command = "sleep 1000 & echo $! > id.new; mv id.new id; wait";
    let hooks = format!("hooks: {{ pre_compact: [{{ command: '{command}', timeout: 10m }}] }}\n");
    let forge = Forge::new().with_file("forge.yaml", yaml(&hooks));
    let mut child = std::process::Command::new("sh")
        .args(["-c", script, env!("CARGO_BIN_EXE_forge_under_test")])
        .env_clear()
        .env("PATH", std::env::var("PATH").unwrap())
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", "k")
        .current_dir(forge.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    while !forge.path("id").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "the run ended before it was interrupted");
        std::thread::yield_now();
    }
    for signal in signals {
        std::process::Command::new("kill").arg(signal).arg(child.id().to_string()).status().unwrap();
    }
    assert_eq!(child.wait_with_output().unwrap().status.code(), Some(code), "{signals:?}");
    let id = std::fs::read_to_string(forge.path("id")).unwrap();
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| !rest.is_empty() && !rest.starts_with('Z'))
    };
    while runs() {
        std::thread::yield_now();
    }
    assert_eq!(server.requests().len(), 2, "nothing was sent after it");
}
