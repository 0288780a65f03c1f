//! What forge sends by OTLP, built with the feature `otel`: names, parents and attributes by the conventions for GenAI, and
//! nothing that anybody said.
#![allow(clippy::disallowed_methods, reason = "tests read files and the environment")]
#![allow(clippy::unwrap_used, reason = "a panic is how a test fails")]

mod collector;

use std::collections::BTreeMap;
use std::net::TcpListener;

use assert_cmd::Command;
use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use tempfile::TempDir;

use self::collector::{Collector, Point, Span};

const YAML: &str = "\
agents:
  - id: reader
    model: openai:scripted
    tools: [read]
    system_prompt: Planted in the system prompt.
    temperature: 0.5
    compact: { message_threshold: 6, max_messages: 5, retention_window: 1, strategies: [sliding_window], min_reduction: 5% }
models: { openai:scripted: { window: 8000, max_output: 1000 } }
providers: { openai: { retries: 0 } }
hooks: { pre_tool_call: [{ command: 'true # planted-in-a-command' }] }
";
/// What must not be in anything that is sent.
const PLANTED: [&str; 6] = [
    "Planted in the system prompt",
    "planted-in-a-command",
    "planted-in-a-file",
    "planted-in-a-task",
    "planted-in-an-answer",
    "sk-planted-0123",
];

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("forge.yaml"), YAML).unwrap();
    std::fs::write(folder.path().join("notes.txt"), "planted-in-a-file\n").unwrap();
    folder
}

fn server() -> ScriptedServer {
    let read = Step::calls(&[("read", r#"{"path":"notes.txt"}"#)]);
    let missing = Step::calls(&[("read", r#"{"path":"missing.txt"}"#)]);
    ScriptedServer::start(vec![read.clone(), missing, read, Step::text("planted-in-an-answer")])
}

/// Runs the task with these variables; exit code, standard output and standard error.
fn run(folder: &TempDir, server: &ScriptedServer, variables: &[(&str, &str)]) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forge_under_test"));
    command.env_clear().env("HOME", folder.path()).env("NO_COLOR", "1").env("PATH", "/usr/bin:/bin");
    command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "sk-planted-0123");
    command.envs(variables.iter().copied()).current_dir(folder.path());
    let output = command.args(["--trust", "run", "planted-in-a-task"]).write_stdin("").output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

/// The spans of a name, in the order in which they ended.
fn named<'s>(spans: &'s [Span], name: &str) -> Vec<&'s Span> {
    spans.iter().filter(|span| span.name == name).collect()
}

/// These attributes of a span.
fn attributes<'s>(span: &'s Span, keys: &[&'static str]) -> BTreeMap<&'static str, &'s str> {
    keys.iter().filter_map(|key| Some((*key, span.attributes.get(*key)?.as_str()))).collect()
}

#[test]
fn a_run_is_spans_and_metrics_by_the_conventions() {
    let (folder, server, collector) = (folder(), server(), Collector::start());
    let endpoint = collector.endpoint();
    let (code, stdout, stderr) = run(&folder, &server, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]);
    assert_eq!((code, stdout.as_str()), (0, "planted-in-an-answer\n"), "{stderr}");
    assert!(!stderr.contains("not delivered"), "{stderr}");

    let spans = collector.spans();
    let agents = named(&spans, "invoke_agent reader");
    let [agent] = agents.as_slice() else { panic!("{spans:?}") };
    assert_eq!((agent.parent.as_str(), agent.kind.as_str(), agent.is_error), ("", "internal", false));
    let run = agent.attributes["gen_ai.conversation.id"].clone();
    assert!(stderr.contains(&format!("saved as run {run}")), "{run} is not the run of {stderr}");
    let expected = [
        ("gen_ai.operation.name", "invoke_agent"),
        ("gen_ai.agent.name", "reader"),
        ("gen_ai.provider.name", "openai"),
        ("gen_ai.request.model", "scripted"),
        ("forge.iterations", "4"),
        ("forge.stop", "done"),
    ];
    assert_eq!(attributes(agent, &expected.map(|(key, _)| key)), expected.into());
    let sum = |key: &str| -> u64 {
        let chats = named(&spans, "chat scripted");
        chats.iter().map(|chat| chat.attributes[key].parse::<u64>().unwrap()).sum()
    };
    for key in ["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"] {
        assert_eq!(agent.attributes[key], sum(key).to_string(), "{key}");
    }

    let chats = named(&spans, "chat scripted");
    assert_eq!(chats.len(), 4);
    for chat in chats {
        assert_eq!((chat.parent.as_str(), chat.kind.as_str()), (agent.id.as_str(), "client"));
        let expected = [
            ("gen_ai.operation.name", "chat"),
            ("gen_ai.provider.name", "openai"),
            ("gen_ai.request.model", "scripted"),
            ("gen_ai.response.model", "scripted"),
            ("gen_ai.request.temperature", "0.5"),
            ("gen_ai.conversation.id", &run),
        ];
        assert_eq!(attributes(chat, &expected.map(|(key, _)| key)), expected.into());
    }

    let tools = named(&spans, "execute_tool read");
    let failed: Vec<_> =
        tools.iter().map(|tool| tool.attributes.get("error.type").map(String::as_str)).collect();
    assert_eq!(failed, [None, Some("tool_error"), None]);
    assert_eq!(tools.iter().map(|tool| tool.is_error).collect::<Vec<_>>(), [false, true, false]);
    for (tool, id) in tools.iter().zip(["call_1", "call_2", "call_3"]) {
        assert_eq!(tool.parent, agent.id);
        let expected = [
            ("gen_ai.operation.name", "execute_tool"),
            ("gen_ai.tool.name", "read"),
            ("gen_ai.tool.call.id", id),
        ];
        assert_eq!(attributes(tool, &expected.map(|(key, _)| key)), expected.into());
        let hooks = named(&spans, "hook pre_tool_call");
        assert_eq!(hooks.iter().filter(|hook| hook.parent == tool.id).count(), 1, "each has its hook");
    }

    let compactions = named(&spans, "compact");
    assert!(!compactions.is_empty(), "{spans:?}");
    for compaction in &compactions {
        assert_eq!(compaction.parent, agent.id);
        let tokens = |key: &str| -> u64 { compaction.attributes[key].parse().unwrap() };
        let (before, after) =
            (tokens("forge.compaction.before.tokens"), tokens("forge.compaction.after.tokens"));
        assert!(after < before, "{before} {after}");
        let expected =
            [("forge.compaction.outcome", "applied"), ("forge.compaction.strategies", "sliding_window")];
        assert_eq!(attributes(compaction, &expected.map(|(key, _)| key)), expected.into());
    }
    assert!(!named(&spans, "checkpoint").is_empty());
    assert!(spans.iter().all(|span| span.service == "forge"), "{spans:?}");

    let points = collector.points();
    let of = |name: &str, attributes: &[(&str, &str)]| -> Vec<Point> {
        let has = |point: &&Point| {
            point.name == name
                && attributes
                    .iter()
                    .all(|(key, value)| point.attributes.get(*key).is_some_and(|known| known == value))
        };
        points.iter().filter(has).cloned().collect()
    };
    let of_one = |name: &str, attributes: &[(&str, &str)]| -> (u64, String) {
        let found = of(name, attributes);
        let [point] = found.as_slice() else { panic!("{name} {attributes:?}: {points:?}") };
        (point.count, point.unit.clone())
    };
    let chat = ("gen_ai.operation.name", "chat");
    assert_eq!(of_one("gen_ai.client.operation.duration", &[chat]), (4, "s".to_owned()));
    for kind in ["input", "output"] {
        let found = of_one("gen_ai.client.token.usage", &[chat, ("gen_ai.token.type", kind)]);
        assert_eq!(found, (4, "{token}".to_owned()), "{kind}");
    }
    let failed = [("gen_ai.tool.name", "read"), ("error.type", "tool_error")];
    assert_eq!(of_one("gen_ai.client.operation.duration", &failed), (1, "s".to_owned()));
    let applied = [("forge.compaction.outcome", "applied")];
    let n = compactions.len() as u64;
    assert_eq!(of_one("forge.compactions", &applied), (n, "{compaction}".to_owned()));
    assert_eq!(of_one("forge.compaction.removed", &applied), (n, "{token}".to_owned()));

    for (path, body) in collector.received() {
        let body = String::from_utf8_lossy(&body).into_owned();
        for planted in PLANTED {
            assert!(!body.contains(planted), "{planted} was sent to {path}");
        }
    }
}

#[test]
fn a_call_that_fails_says_what_it_was_and_not_in_whose_words() {
    let (folder, collector) = (folder(), Collector::start());
    let server = ScriptedServer::start(vec![Step::status(401, "bad key sk-planted-0123")]);
    let endpoint = format!("{}/v1/traces", collector.endpoint());
    let (code, ..) = run(&folder, &server, &[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &endpoint)]);
    assert_eq!(code, 1);
    let spans = collector.spans();
    for name in ["chat scripted", "invoke_agent reader"] {
        let found = named(&spans, name);
        let [span] = found.as_slice() else { panic!("{name}: {spans:?}") };
        assert_eq!((span.attributes["error.type"].as_str(), span.is_error), ("auth", true), "{name}");
    }
    assert_eq!(collector.points(), [], "metrics have no endpoint");
    assert!(!format!("{spans:?}").contains("sk-planted"));
}

#[test]
fn nobody_who_listens_is_a_note_and_no_failure() {
    // A port that nobody listens on, and one where nobody answers.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    for address in [closed, silent.local_addr().unwrap()] {
        let endpoint = format!("http://{address}");
        let (code, stdout, stderr) =
            run(&folder(), &server(), &[("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str())]);
        assert_eq!((code, stdout.as_str()), (0, "planted-in-an-answer\n"), "{stderr}");
        assert!(stderr.contains("note: traces or metrics were not delivered: "), "{stderr}");
    }
    for variables in [
        &[][..],
        &[("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"), ("OTEL_SDK_DISABLED", "true")],
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
            ("OTEL_TRACES_EXPORTER", "none"),
            ("OTEL_METRICS_EXPORTER", "none"),
        ],
    ] {
        let (code, _, stderr) = run(&folder(), &server(), variables);
        assert!(code == 0 && !stderr.contains("delivered"), "{variables:?}: {stderr}");
    }
}
