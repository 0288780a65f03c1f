//! Effort and the other options of requests: the flag, the file, what a model refuses, and the tables of models.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, outcome};

/// A workflow with one agent, whose model has the facts of `model` and which has the keys of `agent`.
fn yaml(server: &ScriptedServer, model: &str, agent: &str) -> String {
    format!(
        "providers: {{ p: {{ base_url: '{}', retries: 0 }} }}\nmodels: {{ m: {{ provider: p, window: 9000{model} }} }}\n\
         agents: [{{ id: a, model: m{agent} }}]\n",
        server.base_url()
    )
}

#[test]
fn an_effort_is_sent_and_the_flag_comes_first() {
    for (agent, flags, expected) in [
        ("", &[][..], Value::Null),
        ("", &["--effort", "high"], json!("high")),
        (", reasoning: { effort: low }", &[], json!("low")),
        (", reasoning: { effort: low }", &["--effort", "none"], json!("none")),
    ] {
        let server = ScriptedServer::start(vec![Step::text("hi")]);
        let forge = Forge::new().with_file("forge.yaml", yaml(&server, "", agent));
        let ran = forge.run(&[&["run"], flags, &["go"]].concat());
        assert_eq!((ran.code, ran.stdout.trim()), (0, "hi"), "{}", ran.stderr);
        assert_eq!(server.requests()[0]["reasoning_effort"], expected, "{agent} {flags:?}");
    }
}

#[test]
fn what_a_model_does_not_have_is_refused_before_anything_is_sent() {
    let facts = ", efforts: [low, high], thinking_budget: false, tools: false";
    for (agent, flags, expected) in [
        (
            ", reasoning: { effort: max }",
            &[][..],
            "has no effort `max`: it has low, high\n  --> forge.yaml:3:",
        ),
        ("", &["--effort", "max"], "flag --effort"),
        (
            "",
            &["--effort", "much"],
            "unknown effort `much` (expected none, minimal, low, medium, high or max)",
        ),
        (", reasoning: { budget_tokens: 9 }", &[], "accepts no `budget_tokens`: set `effort` instead"),
        (", tools: [read]", &[], "the model `p:m` cannot call tools"),
        (", extra_body: { messages: [] }", &[], "`extra_body` cannot replace `messages`, which Forge sends"),
        (", extra_body: { stop: x }", &[], "set `stop` instead"),
    ] {
        let server = ScriptedServer::start(vec![Step::text("hi")]);
        let forge = Forge::new().with_file("forge.yaml", yaml(&server, facts, agent));
        let ran = forge.run(&[&["run"], flags, &["go"]].concat());
        assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{agent} {flags:?}: {}", ran.stderr);
        assert!(ran.stderr.contains(expected), "{agent} {flags:?}: {}", ran.stderr);
        assert_eq!(server.requests(), Vec::<Value>::new(), "{agent} {flags:?}");
    }
}

#[test]
fn what_is_not_sent_is_told_once() {
    let server = ScriptedServer::start(vec![Step::text("hi")]);
    let agent = ", temperature: 0.5, top_p: 0.5, cache: 1h";
    let forge = Forge::new().with_file("forge.yaml", yaml(&server, ", sampling: false", agent));
    let ran = forge.run(&["run", "go"]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for told in [
        "`p:m` refuses to have its sampling set; not sent: temperature, top_p",
        "the protocol of `p:m` has no field for these; not sent: cache",
    ] {
        assert_eq!(ran.stderr.matches(told).count(), 1, "{}", ran.stderr);
    }
    let request = &server.requests()[0];
    assert_eq!((&request["temperature"], &request["top_p"]), (&Value::Null, &Value::Null));
}

#[test]
fn a_probe_says_what_came_back() {
    for (step, code, expected) in [
        (Step::calls(&[("ping", r#"{"word":"pong"}"#)]), 0, "it called the tool with {\"word\":\"pong\"}"),
        (Step::text("I cannot."), 0, "it called nothing, and wrote: I cannot."),
        (Step::status(400, r#"{"error": {"message": "no tools here"}}"#), 1, "no tools here"),
    ] {
        let server = ScriptedServer::start(vec![step]);
        let forge = Forge::new().with_file("forge.yaml", yaml(&server, "", ", tools: [read]"));
        let probed = forge.run(&["doctor", "--probe"]);
        assert_eq!(probed.code, code, "{} {}", probed.stdout, probed.stderr);
        assert!(probed.stdout.contains(expected), "{}", probed.stdout);
        assert_eq!(server.requests()[0]["tools"][0]["function"]["name"], "ping");
    }
}

#[test]
fn a_fetched_table_comes_before_the_shipped_one() {
    let table = "{ as_of: 2026-12-01, source: the team, models: { gpt-5: { window: 4321 } } }";
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/models.yaml", listener.local_addr().unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while lines.next().is_some_and(|line| !line.unwrap().is_empty()) {}
        let head =
            format!("HTTP/1.1 200 OK\r\ncontent-type: text/yaml\r\ncontent-length: {}\r\n\r\n", table.len());
        stream.write_all(head.as_bytes()).unwrap();
        stream.write_all(table.as_bytes()).unwrap();
    });
    let forge = Forge::new().with_file("forge.yaml", "agents: [{ id: a, model: 'openai:gpt-5' }]\n");
    let folder = forge.path("data");
    let run = |arguments: &[&str], url: &str| {
        let mut command = forge.command(arguments);
        outcome(command.env("XDG_DATA_HOME", &folder).env("FORGE_MODELS_URL", url))
    };
    let nowhere = run(&["models", "--update"], "");
    assert_eq!(nowhere.code, 2, "{}", nowhere.stderr);
    assert!(nowhere.stderr.contains("set FORGE_MODELS_URL"), "{}", nowhere.stderr);
    let updated = run(&["models", "--update"], &url);
    served.join().unwrap();
    assert_eq!(updated.code, 0, "{}", updated.stderr);
    assert!(updated.stderr.contains("1 model of 2026-12-01, from the team"), "{}", updated.stderr);
    let shown = run(&["config", "show", "--resolved", "--json"], "");
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    assert_eq!(shown["agents"][0]["numbers"]["window"], 4_321);
}
