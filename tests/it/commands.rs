//! Commands of tools, hooks and MCP servers: nothing that they start outlives them, or the `forge` that ran them.
#![cfg(target_os = "linux")]

use std::process::{Child, Command, Stdio};

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::json;

use crate::forge::{Forge, outcome};

/// Writes down its number under a name, and has an effect until somebody ends it.
const EFFECT: &str =
    "trap '' TERM HUP INT\necho $$ > $1.new; mv $1.new $1\nwhile :; do date >> effects; sleep 0.1; done\n";

/// Ways to start a process in the background: each leaves more of its origin behind.
const ESCAPES: [(&str, &str); 5] = [
    ("plain", "sh effect plain &"),
    ("session", "setsid sh effect session >/dev/null 2>&1 &"),
    ("empty", "env -i setsid sh effect empty >/dev/null 2>&1 </dev/null &"),
    ("twice", "(env -i setsid sh -c 'sh effect twice >/dev/null 2>&1 &' &) &"),
    // Its parents are gone, and it goes on from there.
    (
        "thrice",
        "(setsid sh -c '(env -i setsid sh -c \"(setsid sh effect thrice &) &\" &) &' >/dev/null 2>&1 &) &",
    ),
];

/// Starts a process in each way, and waits until all of them run.
fn escapes() -> String {
    let starts: Vec<&str> = ESCAPES.iter().map(|(_, line)| *line).collect();
    let files: Vec<String> = ESCAPES.iter().map(|(name, _)| format!("[ -e {name} ]")).collect();
    format!("{}\nuntil {}; do sleep 0.01; done", starts.join("\n"), files.join(" && "))
}

const AGENT: &str = "\
agents: [{ id: one, model: openai:scripted, tools: [read, shell], permissions: { '*': allow } }]
providers: { openai: { retries: 0 } }
";

fn forge(yaml: &str) -> Forge {
    Forge::new().with_file("forge.yaml", yaml).with_file("effect", EFFECT)
}

fn shell(line: &str) -> String {
    json!({ "command": line }).to_string()
}

/// Starts a run that can be sent signals.
fn start(forge: &Forge, server: &ScriptedServer) -> Child {
    let mut command = forge.process();
    command.args(["run", "Do it."]).env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k");
    command.env("PATH", std::env::var("PATH").unwrap());
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until all files are there.
fn until_there(forge: &Forge, child: &mut Child, names: &[&str]) {
    while !names.iter().all(|name| forge.path(name).exists()) {
        assert_eq!(child.try_wait().unwrap(), None, "the run ended before its commands had begun");
        std::thread::yield_now();
    }
}

/// Waits until the processes that the files name are gone; one that nobody has reaped yet is.
fn until_gone(forge: &Forge, names: &[&str]) {
    for name in names {
        let id = std::fs::read_to_string(forge.path(name)).unwrap();
        let runs = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", id.trim())).unwrap_or_default();
            stat.rsplit(") ").next().and_then(|rest| rest.chars().next()).is_some_and(|state| state != 'Z')
        };
        while runs() {
            std::thread::yield_now();
        }
        std::fs::remove_file(forge.path(name)).unwrap();
    }
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

const EVERYBODY: [&str; 6] = ["plain", "session", "empty", "twice", "thrice", "own"];

#[test]
fn a_command_dies_with_the_run_that_is_killed() {
    let forge = forge(AGENT);
    let line = shell(&format!("{}\nsh effect own", escapes()));
    let server = ScriptedServer::start(vec![Step::calls(&[("shell", &line)])]);
    let mut child = start(&forge, &server);
    until_there(&forge, &mut child, &EVERYBODY);
    kill(&mut child);
    until_gone(&forge, &EVERYBODY);
}

#[test]
fn a_hook_dies_with_the_run_that_is_killed() {
    let hooks = format!(
        "{AGENT}hooks: {{ pre_tool_call: [{{ command: {}, timeout: 10m }}] }}\n",
        json!(format!("{}\nsh effect own", escapes()))
    );
    let forge = forge(&hooks);
    let server = ScriptedServer::start(vec![Step::calls(&[("read", r#"{"path": "effect"}"#)])]);
    let mut child = start(&forge, &server);
    until_there(&forge, &mut child, &EVERYBODY);
    kill(&mut child);
    until_gone(&forge, &EVERYBODY);
}

#[test]
fn an_mcp_server_dies_with_the_run_that_is_killed() {
    // It is not the end of its input that ends it.
    let server = format!(
        "{}\necho $$ > own; trap '' HUP\n'{}' --mute\nsh effect own",
        escapes(),
        env!("CARGO_BIN_EXE_mcp_under_test")
    );
    let yaml = format!(
        "mcp_servers: {{ s: {{ command: sh, args: [-c, {}] }} }}\n{}",
        json!(server),
        AGENT.replace("[read, shell]", "['s__*']")
    );
    let forge = forge(&yaml);
    let server = ScriptedServer::start(vec![Step::Hang]);
    let mut child = start(&forge, &server);
    until_there(&forge, &mut child, &EVERYBODY);
    kill(&mut child);
    until_gone(&forge, &EVERYBODY);
}

#[test]
fn what_a_command_leaves_behind_ends_with_its_call() {
    let forge = forge(AGENT);
    let escaped: Vec<&str> = ESCAPES.iter().map(|(name, _)| *name).collect();
    let quick = shell(&format!("{}; echo done", escapes()));
    let slow = json!({"command": format!("{}; sh effect own", escapes()), "timeout_seconds": 1}).to_string();
    let failed = shell("kill -TERM $$");
    // Who kills the one above it is not rid of the others.
    let shameless =
        shell("sh effect plain & until [ -e plain ]; do sleep 0.01; done; kill -9 $PPID; sh effect own");
    let stopping =
        json!({"command": "sh effect plain & kill -STOP $PPID; sh effect own", "timeout_seconds": 1});
    let stopping = stopping.to_string();
    let late = "[it printed nothing]\n[not done after 1 seconds: it was killed with all that it had started]";
    for (line, left, expected) in [
        (&quick, &escaped[..], "done\n"),
        (&slow, &EVERYBODY[..], late),
        (&stopping, &["plain", "own"], late),
        (&failed, &[], "[it printed nothing]\n[killed by signal 15]"),
        (&shameless, &["plain"], "the command cannot be waited for: its supervisor was killed"),
    ] {
        let server = ScriptedServer::start(vec![Step::calls(&[("shell", line)]), Step::text("done")]);
        // In the sandbox a supervisor cannot be killed or stopped.
        let mode = if line.contains("$PPID") { "off" } else { "on" };
        let mut command = forge.command(&["run", "Do it.", "--sandbox", mode]);
        command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k");
        let actual = outcome(command.env("PATH", std::env::var("PATH").unwrap()));
        assert_eq!(actual.code, 0, "{line}: {}", actual.stderr);
        let requests = server.requests();
        let result = requests[1]["messages"].as_array().unwrap().last().unwrap()["content"].clone();
        // How far it had come when its supervisor was killed is not certain.
        let result = result.as_str().unwrap().replace("cannot be started", "cannot be waited for");
        assert_eq!(result, expected, "{line}");
        // A process that the limit caught before it had written its number down is not named.
        let left: Vec<&str> = left.iter().copied().filter(|name| forge.path(name).exists()).collect();
        until_gone(&forge, &left);
    }
}

/// What a person who tries the supervisor's argument reads.
#[test]
fn the_supervisor_is_for_nobody_to_call() {
    let folder = Forge::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_forge_under_test"));
    let output = command
        .args(["__supervise", "sh", "-c", "touch ran"])
        .current_dir(folder.path(""))
        .stdin(Stdio::null());
    let output = output.output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("error: Forge starts `__supervise` itself"), "{stderr}");
    assert!(!folder.path("ran").exists());
}
