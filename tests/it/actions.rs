//! `forge log`: what a run did, with whose consent, in order, and what of it is left when the run was killed.
#![cfg(unix)]

use std::fs;
use std::process::Stdio;

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, Outcome, outcome};

const YAML: &str = "\
agents: [{ id: worker, model: openai:scripted, tools: [read, write, shell, fetch] }]
providers: { openai: { retries: 0 } }
hooks: { pre_tool_call: [{ command: 'true', tools: [write] }] }
permissions: { shell: { 'echo *': allow, 'until *': allow }, write: allow }
";

fn forge() -> Forge {
    Forge::new().with_file("forge.yaml", YAML).with_file(".env", "PASSWORD=hunter2\n").with_file("a", "one\n")
}

fn command(forge: &Forge, server: &ScriptedServer, arguments: &[&str]) -> assert_cmd::Command {
    let mut command = forge.command(arguments);
    let address = server.base_url().replace("http://", "http://me:planted-password@");
    command.env("OPENAI_BASE_URL", format!("{address}?key=planted-key")).env("OPENAI_API_KEY", "k");
    command.env("PATH", std::env::var("PATH").unwrap());
    command
}

fn run(forge: &Forge, server: &ScriptedServer, arguments: &[&str]) -> Outcome {
    let actual = outcome(&mut command(forge, server, arguments));
    let expected = if actual.stderr.contains("\ndenied: ") { 7 } else { 0 };
    assert_eq!(actual.code, expected, "{}", actual.stderr);
    actual
}

fn actions(forge: &Forge, run: &str) -> Vec<Value> {
    let log = forge.run(&["log", run, "--actions", "--json"]);
    assert_eq!(log.code, 0, "{}", log.stderr);
    let log: Value = serde_json::from_str(&log.stdout).unwrap();
    log["actions"].as_array().unwrap().clone()
}

/// Kind, what, and what it came to, of each.
fn in_short(actions: &[Value]) -> Vec<(String, String, String)> {
    let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
    let short =
        |action: &Value| (text(&action["kind"]), text(&action["what"]), text(&action["end"]["outcome"]));
    actions.iter().map(short).collect()
}

fn shell(line: &str) -> String {
    json!({ "command": line }).to_string()
}

#[test]
fn every_action_is_listed_with_its_consent_and_its_outcome() {
    let forge = forge();
    fs::create_dir_all(forge.path(".config/forge")).unwrap();
    fs::write(forge.path(".config/forge/forge.yaml"), "permissions: { secrets: { '.env': allow } }\n")
        .unwrap();
    let evil = r#"{"path": "evil\u001b[2J", "content": ""}"#;
    let server = ScriptedServer::start(vec![
        Step::calls(&[("shell", &shell("echo hello"))]),
        Step::calls(&[("write", r#"{"path": "out/b", "content": "12345"}"#)]),
        Step::calls(&[("read", r#"{"path": "a"}"#), ("read", r#"{"path": ".env"}"#)]),
        Step::calls(&[("write", evil), ("shell", &shell("rm a"))]),
        Step::text("done"),
    ]);
    run(&forge, &server, &["run", "Do it."]);
    let all = actions(&forge, "last");
    let own = server.base_url().trim_end_matches('/').to_owned();
    let short = in_short(&all);
    let expected = [
        ("address", own.as_str(), "asked"),
        ("command", "echo hello", "exit code 0, 6 bytes"),
        ("hook", "true", "ended"),
        ("file", "out/b", "5 bytes"),
        ("secret", ".env: an environment file", "shown to the model"),
    ];
    for (actual, expected) in short.iter().zip(expected) {
        assert_eq!(
            (actual.0.as_str(), actual.1.trim_end_matches('/'), actual.2.as_str()),
            expected,
            "{short:?}"
        );
    }
    let consent = |at: usize| &all[at]["consent"];
    // Besides the five replies, the window of the model was asked for.
    assert_eq!(all[0]["end"]["count"], 6);
    assert_eq!(*consent(0), json!({"by": "configured", "key": "`providers.openai`"}));
    let rule = "`permissions.shell: { 'echo *': allow }` of the project's file";
    assert_eq!(*consent(1), json!({"by": "rule", "rules": [rule]}));
    assert_eq!(all[1]["agent"], "worker");
    assert_eq!(
        *consent(2),
        json!({"by": "configured", "key": "`hooks.pre_tool_call` of the project's file"})
    );
    assert_eq!(
        *consent(3),
        json!({"by": "rule", "rules": ["`permissions.write: allow` of the project's file"]})
    );
    let rule = "`permissions.secrets: { '.env': allow }` of the user's own file";
    assert_eq!(*consent(4), json!({"by": "rule", "rules": [rule]}));
    // What was refused was not done.
    assert!(!short.iter().any(|(_, what, _)| what == "rm a"), "{short:?}");
    let shown = forge.run(&["log", "last", "--actions"]);
    for part in
        ["worker  command  echo hello (shell)", "exit code 0, 6 bytes", "asked, 6 times", "\\u{1b}[2J"]
    {
        assert!(shown.stdout.contains(part), "no `{part}` in\n{}", shown.stdout);
    }
    assert!(!shown.stdout.contains("planted") && !shown.stdout.contains('\u{1b}'), "{}", shown.stdout);
    let turns = forge.run(&["log", "last"]);
    assert!(turns.stdout.contains("worker  Do it.\n     6 tool calls · done"), "{}", turns.stdout);
}

#[test]
fn a_run_that_is_killed_shows_what_it_had_begun() {
    let forge = forge();
    let server = ScriptedServer::start(vec![
        Step::calls(&[("shell", &shell("echo first"))]),
        Step::calls(&[("shell", &shell("echo begun > begun; until [ -e never ]; do sleep 1; done"))]),
        Step::text("done"),
    ]);
    let yaml = YAML.replace("shell: { 'echo *': allow, 'until *': allow }", "shell: allow");
    fs::write(forge.path("forge.yaml"), yaml).unwrap();
    let mut process = forge.process();
    process.args(["run", "Do it."]).env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k");
    process.env("PATH", std::env::var("PATH").unwrap());
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = process.spawn().unwrap();
    while !forge.path("begun").exists() {
        assert_eq!(child.try_wait().unwrap(), None, "the run ended before its command had begun");
        std::thread::yield_now();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    let killed = actions(&forge, "last");
    let short = in_short(&killed);
    let ends: Vec<(&str, &str)> = short.iter().map(|(kind, _, end)| (kind.as_str(), end.as_str())).collect();
    assert_eq!(ends, [("address", "asked"), ("command", "exit code 0, 6 bytes"), ("command", "-")]);
    let shown = forge.run(&["log", "last", "--actions"]).stdout;
    assert!(shown.contains("outcome unknown"), "{shown}");
    // Who goes on with the run goes on with its log, and counts the address on.
    run(&forge, &server, &["run", "--resume", "last"]);
    let resumed = actions(&forge, "last");
    assert_eq!(resumed.len(), 3, "{resumed:?}");
    assert_eq!(resumed[2], killed[2]);
    assert_eq!(resumed[0]["end"]["count"], 5);
}

#[test]
fn a_fork_has_the_actions_up_to_where_it_began() {
    let forge = forge();
    let server = ScriptedServer::start(vec![
        Step::calls(&[("shell", &shell("echo first"))]),
        Step::text("one"),
        Step::calls(&[("shell", &shell("echo second"))]),
        Step::text("two"),
        Step::calls(&[("shell", &shell("echo third"))]),
        Step::text("three"),
    ]);
    run(&forge, &server, &["run", "Begin."]);
    let listed = forge.run(&["checkpoints", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed.stdout).unwrap();
    let origin = listed["runs"][0]["run"].as_str().unwrap().to_owned();
    let early = forge.run(&["checkpoints", "fork", "last", "--as", "early"]);
    assert_eq!(early.code, 0, "{}", early.stderr);
    run(&forge, &server, &["run", "--resume", &origin, "Go on."]);
    run(&forge, &server, &["run", "--resume", "early", "Go elsewhere."]);
    let commands = |run: &str| -> Vec<String> {
        let all = in_short(&actions(&forge, run)).into_iter();
        all.filter(|(kind, _, _)| kind == "command").map(|(_, what, _)| what).collect()
    };
    assert_eq!(commands(&origin), ["echo first", "echo second"]);
    assert_eq!(commands("early"), ["echo first", "echo third"]);
    // A log goes with its run, and only with it.
    assert_eq!(forge.run(&["checkpoints", "delete", &origin, "--yes"]).code, 0);
    assert_eq!(commands("early"), ["echo first", "echo third"]);
}

#[test]
fn servers_and_calls_of_sub_agents_are_actions_too() {
    let yaml = format!(
        "agents:\n  - {{ id: boss, model: openai:scripted, tools: [helper], subscribe: [user_task_init] }}\n  \
         - {{ id: helper, model: openai:scripted, description: helps, tools: [shell, 's__*'] }}\n\
         providers: {{ openai: {{ retries: 0 }} }}\npermissions: {{ shell: allow, 's__*': allow }}\n\
         mcp_servers: {{ s: {{ command: {} }} }}\n",
        json!(env!("CARGO_BIN_EXE_mcp_under_test"))
    );
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let server = ScriptedServer::start(vec![
        Step::calls(&[("helper", r#"{"task": "help"}"#)]),
        Step::calls(&[("shell", &shell("echo x")), ("s__echo", r#"{"text": "hi"}"#)]),
        Step::text("helped"),
        Step::text("done"),
    ]);
    run(&forge, &server, &["run", "Do it."]);
    let all = actions(&forge, "last");
    let find = |kind: &str| {
        all.iter().find(|action| action["kind"] == kind).unwrap_or_else(|| panic!("{kind}: {all:?}"))
    };
    assert_eq!(find("server")["what"], env!("CARGO_BIN_EXE_mcp_under_test"));
    assert_eq!(find("server")["consent"]["key"], "`mcp_servers.s`");
    assert_eq!((&find("command")["agent"], &find("command")["what"]), (&json!("helper~1"), &json!("echo x")));
    assert_eq!(find("call")["consent"]["rules"], json!(["`permissions.s__*: allow` of the project's file"]));
}

#[test]
fn what_cannot_be_shown_says_why() {
    let forge = forge();
    for (arguments, code, part) in [
        (&["log", "last", "--actions"][..], 2, "there are no checkpoints at"),
        (&["log", "last", "--actions", "--store", "none"], 2, "there is no log"),
        (&["log", "last", "--store", "memory:"], 2, "memory: ends with the process"),
    ] {
        let actual = forge.run(arguments);
        assert_eq!(actual.code, code, "{arguments:?}: {}", actual.stderr);
        assert!(actual.stderr.contains(part), "{arguments:?}: {}", actual.stderr);
    }
    let server = ScriptedServer::start(vec![Step::text("done"), Step::text("done")]);
    run(&forge, &server, &["run", "Do it."]);
    let unknown = forge.run(&["log", "nobody", "--actions"]);
    assert_eq!(unknown.code, 2, "{}", unknown.stderr);
    assert!(
        unknown.stderr.contains("nobody") && unknown.stderr.contains("existing runs"),
        "{}",
        unknown.stderr
    );
    run(&forge, &server, &["run", "--store", "none", "Do it."]);
}

#[test]
fn the_command_line_does_not_loosen_the_administrators_sandbox() {
    let forge = forge();
    let yaml = YAML.replace("shell: { 'echo *': allow, 'until *': allow }", "shell: allow");
    fs::write(forge.path("forge.yaml"), format!("{yaml}sandbox: {{ off: true, network: all }}\n")).unwrap();
    let outside = tempfile::tempdir().unwrap();
    let target = outside.path().join("made");
    let touch = || shell(&format!("touch {}", target.display()));
    let server = ScriptedServer::start(vec![
        Step::calls(&[("shell", &touch())]),
        Step::text("done"),
        Step::calls(&[("shell", &touch())]),
        Step::text("done"),
    ]);
    let system = forge.path("system.yaml");
    let off = |says: &str| {
        fs::write(&system, says).unwrap();
        let mut command = command(&forge, &server, &["run", "--sandbox", "off", "Do it."]);
        outcome(command.env("FORGE_UNDER_TEST_SYSTEM_FILE", &system))
    };
    let held = off("sandbox: { network: none }\n");
    assert!(
        held.stderr.contains("--sandbox does not loosen what") && held.stderr.contains("`sandbox.off`"),
        "{}",
        held.stderr
    );
    // What the project's file asks for is told with its place.
    for part in ["forge.yaml:5: `sandbox.off` would loosen the sandbox", "forge.yaml:5: `sandbox.network`"] {
        assert!(held.stderr.contains(part), "no `{part}` in {}", held.stderr);
    }
    let free = off("{}\n");
    assert!(!free.stderr.contains("--sandbox does not"), "{}", free.stderr);
    assert!(target.exists(), "{}", free.stderr);
}

#[test]
fn the_last_run_is_that_of_this_folder() {
    let forge = Forge::new();
    for (folder, task) in [("a", "first task"), ("b", "second task")] {
        fs::create_dir(forge.path(folder)).unwrap();
        fs::write(forge.path(folder).join("forge.yaml"), YAML).unwrap();
        let server = ScriptedServer::start(vec![Step::text("done")]);
        let mut command = command(&forge, &server, &["run", task]);
        let actual = outcome(command.current_dir(forge.path(folder)));
        assert_eq!(actual.code, 0, "{}", actual.stderr);
    }
    for arguments in [&["log", "last"][..], &["checkpoints", "show", "last"]] {
        for (folder, task, other) in [("a", "first task", "second task"), ("b", "second task", "first task")]
        {
            let shown = outcome(forge.command(arguments).current_dir(forge.path(folder)));
            assert_eq!(shown.code, 0, "{}", shown.stderr);
            assert!(
                shown.stdout.contains(task) && !shown.stdout.contains(other),
                "{folder}: {}",
                shown.stdout
            );
        }
    }
    fs::create_dir(forge.path("c")).unwrap();
    let none = outcome(forge.command(&["log", "last"]).current_dir(forge.path("c")));
    assert!(none.code == 2 && none.stderr.contains("no run of this folder"), "{none:?}");
}
