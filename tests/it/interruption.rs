//! Processes that are interrupted, terminated or killed: what they leave can be gone on with.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Output, Stdio};

use forge_domain::{CheckpointFilter, CheckpointInfo, CheckpointStore, Conversation, Role, ToolCall};
use forge_infra::{SqliteCheckpointStore, SqlitePlace};
use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, outcome};

const YAML: &str = "\
agents: [{ id: reader, model: openai:scripted, tools: [read, list], system_prompt: Read., max_repetitions: 100 }]
models: { openai:scripted: { window: 8000 } }
providers: { openai: { retries: 0 } }
";

/// A run of `forge` in a folder, as a process that can be sent signals.
fn start(forge: &Forge, server: &ScriptedServer, arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_forge_under_test"))
        .arg("--trust")
        .args(arguments)
        .env_clear()
        .env("HOME", forge.path(""))
        .env("NO_COLOR", "1")
        .env("OPENAI_BASE_URL", server.base_url())
        .env("OPENAI_API_KEY", "k")
        .env("PATH", std::env::var("PATH").unwrap())
        .current_dir(forge.path(""))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

fn signal(child: &Child, name: &str) {
    let id = child.id().to_string();
    assert!(Command::new("kill").args([name, &id]).status().unwrap().success());
}

/// Waits for the server to have heard `n` requests.
fn until_asked(server: &ScriptedServer, child: &mut Child, n: usize) {
    while server.requests().len() < n {
        assert_eq!(child.try_wait().unwrap(), None, "the run ended before it was stopped");
        std::thread::yield_now();
    }
}

/// Waits until `n` calls of a run with `--json` have their results.
fn until_finished(child: &mut Child, n: usize) {
    let events = BufReader::new(child.stdout.as_mut().unwrap()).lines().map_while(Result::ok);
    let finished = events.filter(|event| event.contains(r#""event":"tool_finished""#));
    assert_eq!(finished.take(n).count(), n, "the run ended before");
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The checkpoints of the folder's store, the newest first, and the newest's conversation.
fn stored(forge: &Forge) -> (Vec<CheckpointInfo>, Conversation) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let place = SqlitePlace::new(forge.path(".local/state/forge/checkpoints.db"));
        let store = SqliteCheckpointStore::open(&place).await.unwrap();
        let infos = store.list(&CheckpointFilter::default()).await.unwrap();
        let conversation = store.load(infos[0].key).await.unwrap().snapshot.conversation;
        assert!(conversation.coverage().is_complete());
        (infos, conversation)
    })
}

fn forge() -> Forge {
    Forge::new().with_file("forge.yaml", YAML).with_file("notes.txt", "the dome was closed on Monday\n")
}

fn read() -> Step {
    Step::calls(&[("read", r#"{"path":"notes.txt"}"#)])
}

/// Resumes the last run of the folder at `server`.
fn resume(forge: &Forge, server: &ScriptedServer, arguments: &[&str]) -> crate::forge::Outcome {
    let mut command = forge.command(arguments);
    outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"))
}

#[cfg(unix)]
#[test]
fn a_run_that_is_stopped_in_mid_stream_goes_on_without_a_word_twice() {
    for (name, code) in [("-INT", Some(130)), ("-TERM", Some(143)), ("-KILL", None)] {
        let forge = forge();
        let server = ScriptedServer::start(vec![read(), Step::Hang]);
        let mut child = start(&forge, &server, &["run", "--json", "When was it closed?"]);
        until_asked(&server, &mut child, 2);
        // A part of the answer has been heard.
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(lines.any(|line| line.unwrap().starts_with(r#"{"event":"text""#)));
        signal(&child, name);
        let last = lines.last();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), code, "{name}: {}", stderr(&output));
        let (infos, log) = stored(&forge);
        assert_eq!((infos[0].id.as_str(), log.messages().count()), ("reader-iteration-1", 4), "{name}");
        if let Some(code) = code {
            let last: Value = serde_json::from_str(&last.unwrap().unwrap()).unwrap();
            assert_eq!((&last["exit_code"], &last["resume"]), (&json!(code), &json!(infos[0].run)), "{last}");
        }

        // Whoever was killed still holds the run; that it is gone is known.
        let undone = forge.run(&["checkpoints", "undo", "last"]);
        assert!(undone.code == 1 && undone.stderr.contains("compaction"), "{}", undone.stderr);
        let second = ScriptedServer::start(vec![Step::text("On Monday.")]);
        let command: &[_] = if name == "-KILL" { &["checkpoints", "resume"] } else { &["run", "--resume"] };
        let actual = resume(&forge, &second, command);
        assert_eq!((actual.code, actual.stdout.as_str()), (0, "On Monday.\n"), "{name}: {}", actual.stderr);
        let goes_on = format!("run {} continues from reader-iteration-1", infos[0].run);
        assert!(actual.stderr.contains(&goes_on), "{}", actual.stderr);
        assert_eq!(second.requests(), server.requests()[1..], "the very request that was not answered");
        let (infos, log) = stored(&forge);
        assert_eq!((infos[0].id.as_str(), log.messages().count()), ("reader-iteration-2", 5));
        assert!(infos.iter().all(|info| info.run == infos[0].run));
    }
}

#[cfg(unix)]
#[test]
fn the_agent_that_an_event_started_goes_on_with_it_once() {
    const TWO: &str = "\
agents: [{ id: coder, model: openai:scripted, emits: [changed] }, { id: reviewer, model: openai:scripted, subscribe: [changed] }]
providers: { openai: { retries: 0 } }
";
    let emit = || Step::calls(&[("emit", &json!({"event": "changed", "value": "Look at it."}).to_string())]);
    let stop = |server: &ScriptedServer, forge: &Forge, name: &str| {
        let mut child = start(forge, server, &["run", "Change it."]);
        until_asked(server, &mut child, 3);
        signal(&child, name);
        child.wait().unwrap();
    };
    let refused = r#"{"error":{"message":"no such key"}}"#;
    for (name, last) in [
        ("-INT", Step::Hang),
        ("-TERM", Step::Hang),
        ("-KILL", Step::Hang),
        ("an error", Step::status(401, refused)),
    ] {
        let forge = Forge::new().with_file("forge.yaml", TWO);
        let server = ScriptedServer::start(vec![emit(), Step::text("Changed."), last]);
        if name.starts_with('-') {
            stop(&server, &forge, name);
        } else {
            let ended = start(&forge, &server, &["run", "Change it."]).wait_with_output().unwrap();
            assert_ne!(ended.status.code(), Some(0), "{name}: {}", stderr(&ended));
        }
        let second = ScriptedServer::start(vec![Step::text("Reviewed."), Step::text("Again.")]);
        let command: &[_] = if name == "-KILL" { &["checkpoints", "resume"] } else { &["run", "--resume"] };
        let actual = resume(&forge, &second, command);
        assert_eq!((actual.code, actual.stdout.as_str()), (0, "Reviewed.\n"), "{name}: {}", actual.stderr);
        assert_eq!(second.requests().len(), 1, "{name}: {}", actual.stderr);
    }
}

/// Waits until the store has the results of `n` calls while others of the same reply still run.
#[cfg(target_os = "linux")]
fn until_kept(forge: &Forge, child: &mut Child, n: usize) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let n_kept = || {
        runtime.block_on(async {
            let place = SqlitePlace::new(forge.path(".local/state/forge/checkpoints.db"));
            let store = SqliteCheckpointStore::open(&place).await.unwrap();
            let newest = store.list(&CheckpointFilter::default()).await.unwrap().remove(0);
            // It may be gone by now, as a later one has taken its place.
            let loaded = store.load(newest.key).await.ok();
            let finished = loaded.and_then(|loaded| loaded.snapshot.progress.extra.get("finished").cloned());
            finished.and_then(|finished| Some(finished.as_object()?.len())).unwrap_or_default()
        })
    };
    while n_kept() < n {
        assert_eq!(child.try_wait().unwrap(), None, "the run ended before it was stopped");
        std::thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn results_that_were_there_survive_a_kill_while_other_calls_of_the_reply_run() {
    const SHELL: &str = "\
agents: [{ id: reader, model: openai:scripted, tools: [shell], permissions: { shell: allow } }]
providers: { openai: { retries: 0 } }
";
    let forge = Forge::new().with_file("forge.yaml", SHELL);
    let lines = [
        "echo one >> effects; echo first",
        "echo $$ > pid.new; mv pid.new pid; exec sleep 1000",
        "echo three >> effects; echo third",
    ]
    .map(|line| json!({ "command": line }).to_string());
    let calls = lines.each_ref().map(|line| ("shell", line.as_str()));
    let server = ScriptedServer::start(vec![Step::calls(&calls)]);
    let mut child = start(&forge, &server, &["run", "Do all of it."]);
    while !forge.path("pid").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "the run ended before it was stopped");
        std::thread::yield_now();
    }
    until_kept(&forge, &mut child, 2);
    signal(&child, "-KILL");
    child.wait().unwrap();
    let pid = std::fs::read_to_string(forge.path("pid")).unwrap();
    let _ = Command::new("kill").args(["-KILL", pid.trim()]).stderr(Stdio::null()).status();

    let second = ScriptedServer::start(vec![Step::text("done")]);
    let actual = resume(&forge, &second, &["run", "--resume"]);
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "done\n"), "{}", actual.stderr);
    let sent = second.requests()[0]["messages"].as_array().unwrap().clone();
    let results: Vec<&str> = sent[2..].iter().map(|message| message["content"].as_str().unwrap()).collect();
    assert_eq!([results[0], results[2]], ["first\n", "third\n"]);
    assert!(results[1].contains("interrupted before this call had answered"), "{results:?}");
    let mut effects: Vec<String> =
        std::fs::read_to_string(forge.path("effects")).unwrap().lines().map(str::to_owned).collect();
    effects.sort();
    assert_eq!(effects, ["one", "three"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_run_that_is_stopped_in_mid_tool_keeps_what_is_there_and_marks_what_is_not() {
    for (name, code) in [("-INT", Some(130)), ("-TERM", Some(143)), ("-KILL", None)] {
        let yaml = YAML.replace("[read, list]", "[read, list, shell], permissions: { shell: allow }");
        let forge = forge().with_file("forge.yaml", yaml);
        let endless = json!({ "command": "echo > begun; exec sleep 1000" }).to_string();
        let two_calls = Step::calls(&[("read", r#"{"path":"notes.txt"}"#), ("shell", &endless)]);
        let server = ScriptedServer::start(vec![read(), two_calls]);
        let mut child = start(&forge, &server, &["run", "--json", "When was it closed?"]);
        until_asked(&server, &mut child, 2);
        until_finished(&mut child, 2);
        while !forge.path("begun").exists() {
            assert_eq!(child.try_wait().unwrap(), None, "the run ended before it was stopped");
            std::thread::yield_now();
        }
        until_kept(&forge, &mut child, 1);
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), code, "{name}: {}", stderr(&output));
        let (infos, _) = stored(&forge);
        let expected = if name == "-KILL" { "reader-calls-2" } else { "reader-interrupt-2" };
        assert_eq!(infos[0].id.as_str(), expected, "{name}");

        // Whoever ran the finished tool again would read this.
        std::fs::write(forge.path("notes.txt"), "something else\n").unwrap();
        let second = ScriptedServer::start(vec![Step::text("On Monday.")]);
        let actual = resume(&forge, &second, &["run", "--resume"]);
        assert_eq!((actual.code, actual.stdout.as_str()), (0, "On Monday.\n"), "{name}: {}", actual.stderr);
        let sent = second.requests()[0]["messages"].as_array().unwrap().clone();
        assert_eq!(sent[..4], server.requests()[1]["messages"].as_array().unwrap()[..], "{name}");
        let roles: Vec<&str> = sent.iter().map(|message| message["role"].as_str().unwrap()).collect();
        assert_eq!(roles, ["system", "user", "assistant", "tool", "assistant", "tool", "tool"], "{name}");
        let results: Vec<&str> =
            sent[5..].iter().map(|message| message["content"].as_str().unwrap()).collect();
        // What had answered is kept, also by a process that is killed.
        let marked = [results[0], results[1]]
            .map(|result| result.contains("interrupted before this call had answered"));
        assert_eq!(marked, [false, true], "{name}: {results:?}");
        assert!(results[0].contains("dome"), "{name}: {results:?}");
        let (infos, log) = stored(&forge);
        assert_eq!((infos[0].id.as_str(), log.messages().count()), ("reader-iteration-3", 8), "{name}");
        assert!(infos.iter().all(|info| info.run == infos[0].run), "{name}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn killed_at_any_moment_a_run_goes_on_and_no_saved_call_is_made_again() {
    const N_CALLS: usize = 12;
    let calls: Vec<Step> = (0..N_CALLS).map(|_| read()).collect();
    for killed_after in [1, 2, 5, 9, 12] {
        let forge = forge();
        let mut script = calls.clone();
        script.push(Step::Hang);
        let server = ScriptedServer::start(script);
        let mut child = start(&forge, &server, &["run", "Read it again and again."]);
        until_asked(&server, &mut child, killed_after);
        signal(&child, "-KILL");
        child.wait().unwrap();
        let (infos, saved) = stored(&forge);
        let known: Vec<ToolCall> =
            saved.messages().flat_map(|message| message.message().calls().to_vec()).collect();
        // The rest of the script, from where the store knows the run to be.
        let mut rest: Vec<Step> = calls[known.len()..].to_vec();
        rest.push(Step::text("done"));
        let second = ScriptedServer::start(rest);
        let actual = resume(&forge, &second, &["run", "--resume", infos[0].run.as_str()]);
        assert_eq!((actual.code, actual.stdout.as_str()), (0, "done\n"), "{killed_after}: {}", actual.stderr);
        let (_, log) = stored(&forge);
        let count = |role: Role| log.messages().filter(|message| message.message().role() == role).count();
        assert_eq!((count(Role::System), count(Role::User)), (1, 1), "{killed_after}");
        assert_eq!((count(Role::Assistant), count(Role::Tool)), (N_CALLS + 1, N_CALLS), "{killed_after}");
        // What was said to the model the second time begins with all that was saved.
        let first: Value = second.requests()[0].clone();
        let sent = first["messages"].as_array().unwrap().len();
        let open = saved.messages().last().is_some_and(|message| !message.message().calls().is_empty());
        assert_eq!(sent, saved.messages().count() + usize::from(open), "{killed_after}");
    }
}

/// Waits until the process is gone; one that nobody has reaped yet is.
#[cfg(target_os = "linux")]
pub(crate) fn until_gone(id: &str) {
    let runs = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
        stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).is_some_and(|state| state != 'Z')
    };
    while runs() {
        std::thread::yield_now();
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_command_that_is_interrupted_is_gone_with_all_that_it_started() {
    const SHELL: &str = "\
agents: [{ id: reader, model: openai:scripted, tools: [read, shell], permissions: { shell: allow } }]
providers: { openai: { retries: 0 } }
";
    // A child in a session of its own, which holds the output, and the command itself.
    let line =
        "setsid sh -c 'echo $$ > child.new; mv child.new child; exec sleep 1000' & echo $$ > own; sleep 1000";
    let arguments = json!({ "command": line }).to_string();
    for (name, code) in [("-INT", 130), ("-TERM", 143)] {
        let forge = Forge::new().with_file("forge.yaml", SHELL).with_file("notes.txt", "dome\n");
        let calls = Step::calls(&[("read", r#"{"path":"notes.txt"}"#), ("shell", &arguments)]);
        let server = ScriptedServer::start(vec![calls]);
        let mut child = start(&forge, &server, &["run", "--json", "Wait."]);
        until_finished(&mut child, 1);
        while !forge.path("child").exists() || !forge.path("own").exists() {
            assert_eq!(child.try_wait().unwrap(), None, "the run ended before it was stopped");
            std::thread::yield_now();
        }
        signal(&child, name);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{name}: {}", stderr(&output));
        for file in ["child", "own"] {
            until_gone(&std::fs::read_to_string(forge.path(file)).unwrap());
        }
        // The conversation is whole: the result that was there is kept, the other call is marked and not made again.
        let second = ScriptedServer::start(vec![Step::text("done")]);
        let actual = resume(&forge, &second, &["run", "--resume"]);
        assert_eq!((actual.code, actual.stdout.as_str()), (0, "done\n"), "{name}: {}", actual.stderr);
        let sent = second.requests()[0]["messages"].as_array().unwrap().clone();
        let results: Vec<&str> =
            sent[2..].iter().map(|message| message["content"].as_str().unwrap()).collect();
        assert_eq!(results[0], "dome\n", "{name}");
        assert!(results[1].contains("interrupted before this call had answered"), "{name}: {results:?}");
    }
}

#[cfg(unix)]
#[test]
fn a_run_that_is_taken_over_ends_with_a_code_of_its_own_before_its_next_call() {
    const SHELL: &str = "\
agents: [{ id: reader, model: openai:scripted, tools: [shell], permissions: { shell: allow } }]
providers: { openai: { retries: 0 } }
";
    let call = |line: &str| Step::calls(&[("shell", &json!({ "command": line }).to_string())]);
    for checkpoint in ["{}", "{ interval: 100 }"] {
        let yaml = format!("{SHELL}checkpoint: {checkpoint}\n");
        let forge = Forge::new().with_file("forge.yaml", yaml);
        // It works until it is told to end, and would then do something else.
        let wait = "echo one >> effects; touch begun; while [ ! -e end ]; do sleep 0.01; done";
        let server = ScriptedServer::start(vec![call(wait), call("echo two >> effects"), Step::text("done")]);
        let mut child = start(&forge, &server, &["run", "Work."]);
        while !forge.path("begun").exists() {
            assert_eq!(child.try_wait().unwrap(), None, "the run ended before it was taken over");
            std::thread::yield_now();
        }
        let second = ScriptedServer::start(vec![Step::text("It is mine.")]);
        let refused = resume(&forge, &second, &["run", "--resume"]);
        assert!(refused.code == 1 && refused.stderr.contains("--take-over"), "{}", refused.stderr);
        let taken = resume(&forge, &second, &["run", "--resume", "--take-over"]);
        assert_eq!((taken.code, taken.stdout.as_str()), (0, "It is mine.\n"), "{}", taken.stderr);
        std::fs::write(forge.path("end"), "").unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(9), "{checkpoint}: {}", stderr(&output));
        assert!(stderr(&output).contains("was taken over by"), "{checkpoint}: {}", stderr(&output));
        assert!(!stderr(&output).contains("to go on:"), "{checkpoint}: {}", stderr(&output));
        assert_eq!(std::fs::read_to_string(forge.path("effects")).unwrap(), "one\n", "{checkpoint}");
        assert_eq!(server.requests().len(), 1, "{checkpoint}");
        let (infos, log) = stored(&forge);
        assert!(infos.iter().all(|info| info.run == infos[0].run), "{checkpoint}: a fork");
        assert!(log.messages().last().unwrap().message().to_text().contains("It is mine"), "{checkpoint}");
    }
}

/// A recorded session of `n` calls with results of all sizes.
#[cfg(target_os = "linux")]
fn recorded(n: usize) -> String {
    let mut messages = vec![json!({"role": "user", "content": "Read it all."})];
    for at in 0..n {
        let arguments = format!("{{\"path\":\"part_{}.txt\"}}", at % 30);
        let function = json!({"name": "read", "arguments": arguments});
        let call = json!({"id": format!("call_{at}"), "type": "function", "function": function});
        let words: String =
            (0..20 + at * 37 % 400).map(|word| format!("word{} ", word * (at + 7) % 997)).collect();
        messages.push(json!({"role": "assistant", "content": "Next.", "tool_calls": [call]}));
        messages.push(json!({"role": "tool", "tool_call_id": format!("call_{at}"), "content": words}));
    }
    messages.push(json!({"role": "assistant", "content": "done"}));
    json!({ "messages": messages }).to_string()
}

/// After how many calls the store in `file` has a checkpoint.
#[cfg(target_os = "linux")]
fn n_calls_saved(file: &std::path::Path) -> i64 {
    let flags = rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY;
    let store = rusqlite::Connection::open_with_flags(file, flags);
    let select = "SELECT max(iteration) FROM checkpoint";
    store.and_then(|store| store.query_row(select, [], |row| row.get(0))).unwrap_or_default()
}

#[cfg(target_os = "linux")]
#[test]
fn a_replay_that_is_killed_goes_on_with_the_prompts_of_the_unbroken_one() {
    let forge = Forge::new().with_file("in.json", recorded(250));
    const REPLAY: [&str; 5] = ["replay", "in.json", "--window", "8k", "--json"];
    let replay = |arguments: &[&str]| -> Value {
        let actual = forge.run(&[&REPLAY[..], arguments].concat());
        assert_eq!(actual.code, 0, "{}", actual.stderr);
        serde_json::from_str(&actual.stdout).unwrap()
    };
    let unbroken = replay(&[]);
    let expected = unbroken["prompt_tokens"].as_array().unwrap();
    assert!(unbroken["compactions"].as_array().unwrap().len() > 3);
    for killed_after in [1, 2, 77, 150] {
        let store = format!("sqlite:{killed_after}.db");
        let mut child = Command::new(env!("CARGO_BIN_EXE_forge_under_test"))
            .args([&REPLAY[..], &["--store", &store]].concat())
            .env_clear()
            .env("HOME", forge.path(""))
            .current_dir(forge.path(""))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        while n_calls_saved(&forge.path(&format!("{killed_after}.db"))) < killed_after
            && child.try_wait().unwrap().is_none()
        {}
        child.kill().unwrap();
        child.wait().unwrap();
        let resumed = replay(&["--store", &store, "--resume"]);
        let actual = resumed["prompt_tokens"].as_array().unwrap();
        assert_eq!(actual[..], expected[expected.len() - actual.len()..], "{killed_after}");
        assert!(actual.len() <= expected.len() - killed_after as usize, "{killed_after}: {}", actual.len());
        assert_eq!(resumed["coverage"], unbroken["coverage"], "{killed_after}");
        assert_eq!(resumed["checkpoints"]["failed"], 0, "{killed_after}");
    }
}

#[test]
fn a_run_with_a_new_task_and_a_changed_configuration() {
    let forge = forge();
    let server = ScriptedServer::start(["one", "two", "three", "four"].map(Step::text).to_vec());
    let run = |arguments: &[&str]| resume(&forge, &server, arguments);
    let first = run(&["run", "first"]);
    assert!(first.stderr.contains("saved as run "), "{}", first.stderr);
    let second = run(&["run", "--resume", "last", "second"]);
    assert_eq!((second.code, second.stdout.as_str()), (0, "two\n"), "{}", second.stderr);
    let asked = server.requests()[1]["messages"].as_array().unwrap().len();
    assert_eq!(asked, 4, "system, first, one, second");
    let over = run(&["run", "--resume"]);
    let actual = (over.code, over.stdout.as_str(), server.requests().len());
    assert_eq!(actual, (0, "two\n", 2), "{}", over.stderr);
    assert!(over.stderr.contains("it had ended"), "{}", over.stderr);
    assert!(!over.stderr.contains("0 calls"), "{}", over.stderr);

    std::fs::write(forge.path("forge.yaml"), YAML.replace("8000", "9000")).unwrap();
    let refused = run(&["run", "--resume", "last", "third", "--on-change", "refuse"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (2, ""), "{}", refused.stderr);
    for words in ["the configuration has changed", "limits.window: 8000 → 9000", "--on-change continue"] {
        assert!(refused.stderr.contains(words), "`{words}` is not in:\n{}", refused.stderr);
    }
    let n_runs = || {
        let (infos, _) = stored(&forge);
        infos.into_iter().map(|info| info.run).collect::<std::collections::BTreeSet<_>>().len()
    };
    let continued = run(&["run", "--resume", "last", "third", "--on-change", "continue"]);
    assert_eq!((continued.code, continued.stdout.as_str()), (0, "three\n"), "{}", continued.stderr);
    assert!(continued.stderr.contains("limits.window: 8000 → 9000"), "{}", continued.stderr);
    assert_eq!(n_runs(), 1);
    std::fs::write(forge.path("forge.yaml"), YAML.replace("8000", "7000")).unwrap();
    let forked = run(&["checkpoints", "resume", "last", "fourth", "--on-change", "fork"]);
    assert_eq!((forked.code, forked.stdout.as_str()), (0, "four\n"), "{}", forked.stderr);
    assert!(forked.stderr.contains("limits.window: 9000 → 7000"), "{}", forked.stderr);
    assert_eq!(n_runs(), 2);
}

#[test]
fn checkpoints_go_where_they_are_told_or_nowhere() {
    let server = || ScriptedServer::start(vec![Step::text("done")]);
    let file = |forge: &Forge| forge.path(".local/state/forge/checkpoints.db").exists();
    let forge = forge();
    let none = resume(&forge, &server(), &["run", "task", "--store", "none"]);
    assert_eq!(
        (none.code, none.stderr.contains("saved as"), file(&forge)),
        (0, false, false),
        "{}",
        none.stderr
    );
    let named = resume(&forge, &server(), &["run", "task", "--store", "sqlite:here/runs.db"]);
    assert_eq!(
        (named.code, forge.path("here/runs.db").exists(), file(&forge)),
        (0, true, false),
        "{}",
        named.stderr
    );
    let mut command = forge.command(&["run", "task"]);
    let server = server();
    let by_variable = outcome(
        command
            .env("OPENAI_BASE_URL", server.base_url())
            .env("OPENAI_API_KEY", "k")
            .env("FORGE_STORE", "sqlite:e.db"),
    );
    assert_eq!((by_variable.code, forge.path("e.db").exists()), (0, true), "{}", by_variable.stderr);
    // A run that was begun with --model is resumed with it.
    std::fs::remove_file(forge.path("forge.yaml")).unwrap();
    let unnamed = forge.run(&["run", "--resume"]);
    assert!(unnamed.code == 2 && unnamed.stderr.contains("forge run --resume --model"), "{unnamed:?}");
    // Whoever looks at runs looks where they are kept.
    std::fs::write(
        forge.path("forge.yaml"),
        format!("{YAML}checkpoint: {{ store: 'sqlite:here/runs.db' }}\n"),
    )
    .unwrap();
    let listed = forge.run(&["checkpoints", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(listed["runs"].as_array().unwrap().len(), 1);
    std::fs::write(forge.path("forge.yaml"), format!("{YAML}checkpoint: {{ store: none }}\n")).unwrap();
    let none = forge.run(&["checkpoints", "list"]);
    assert!(none.code == 2 && none.stderr.contains("name a store with --store"), "{none:?}");
    // A store that cannot be opened costs the checkpoints, not the run; the exit code says so.
    std::fs::write(forge.path("file"), "x").unwrap();
    let broken = ScriptedServer::start(vec![Step::text("done")]);
    let broken = resume(&forge, &broken, &["run", "task", "--store", "sqlite:file/runs.db"]);
    assert_eq!((broken.code, broken.stdout.as_str()), (8, "done\n"), "{}", broken.stderr);
    assert!(
        broken.stderr.contains("not saved:") && broken.stderr.contains("nothing of the run"),
        "{}",
        broken.stderr
    );
    // What names no store is found before anything begins.
    let wrong = forge.run(&["run", "task", "--store", "runs.db"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("sqlite:///PATH"), "{wrong:?}");
}
