//! Each value with the layer that says it.

use forge_tests::{SHOWN_WINDOW, ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, outcome};

const YAML: &str = "\
providers:
  mine: { base_url: 'http://me:planted@host/v1', headers: { x-key: planted } }
models:
  mine:small: { window: 8000, max_output: 1000 }
agents:
  - id: one
    model: mine:small
    temperature: 0.5
    compact:
      token_threshold: 75%
      message_threshold: 60
  - id: two
    model: gpt-4o
";

#[test]
fn each_value_has_its_layer_and_limits_come_to_numbers() {
    let forge = Forge::new().with_file("forge.yaml", YAML);
    let actual = forge.run(&["config", "show", "--resolved", "--agent", "one"]);
    assert_eq!((actual.code, actual.stderr.as_str()), (0, ""));
    insta::assert_snapshot!("resolved", actual.stdout);
}

#[test]
fn the_environment_and_flags_are_layers() {
    let forge = Forge::new().with_file("forge.yaml", YAML);
    let origin = |arguments: &[&str], environment: &[(&str, &str)]| -> Value {
        let base = ["config", "show", "--resolved", "--json", "--agent", "two"];
        let mut command = forge.command(&[&base[..], arguments].concat());
        let actual = outcome(command.envs(environment.iter().copied()));
        assert_eq!((actual.code, actual.stderr.as_str()), (0, ""));
        assert!(!actual.stdout.contains("planted"), "{}", actual.stdout);
        let shown: Value = serde_json::from_str(&actual.stdout).unwrap();
        let lines = shown["agents"][0]["values"].as_array().unwrap();
        lines.iter().find(|line| line["path"] == "agents.two.model").unwrap()["origin"].clone()
    };
    let variable = ("FORGE_MODEL", "mine:small");
    assert_eq!(origin(&[], &[]), json!({ "layer": "file", "source": "forge.yaml", "line": 13 }));
    assert_eq!(origin(&[], &[variable]), json!({ "layer": "environment", "variable": "FORGE_MODEL" }));
    assert_eq!(origin(&["--model", "gpt-5"], &[variable]), json!({ "layer": "flag", "flag": "--model" }));
}

#[test]
fn a_limit_of_the_run_that_a_flag_says_is_one_too() {
    let forge = Forge::new().with_file("forge.yaml", format!("{YAML}budget: {{ tokens: 9000, cost: 1 }}\n"));
    let arguments = ["config", "show", "--resolved", "--agent", "two", "--budget-cost", "2.50"];
    let actual = forge.run(&arguments);
    assert_eq!((actual.code, actual.stderr.as_str()), (0, ""));
    let budget: Vec<Vec<&str>> = actual
        .stdout
        .lines()
        .filter(|line| line.trim().starts_with("budget"))
        .map(|line| line.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect())
        .collect();
    assert_eq!(
        budget,
        [["budget.tokens", "9000", "forge.yaml:14"], ["budget.cost", "2.5", "flag --budget-cost"]]
    );
    let merged = forge.run(&["config", "show", "--budget-tokens", "8k"]);
    assert!(merged.stdout.contains("tokens: 8000"), "{}", merged.stdout);
}

#[test]
fn numbers_are_those_that_a_run_goes_by() {
    let forge = Forge::new().with_file("forge.yaml", YAML);
    let shown = forge.run(&["config", "show", "--resolved", "--json"]);
    let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
    let numbers = &shown["agents"][0]["numbers"];
    let expected = json!({
        "model": { "provider": "mine", "model": "small" }, "window": 8000, "is_window_assumed": false,
        "is_window_told": false, "reserve": 1000,
        "tool_schemas": 0, "room": 7000, "auto_compact": true, "trigger": 5250, "target": 3281, "message_threshold": 60, "max_messages": 30,
        "turn_threshold": null, "max_turns": null,
        "strategies": ["clear_tool_results", "extraction", "sliding_window", "truncation"],
    });
    assert_eq!(numbers, &expected);
    assert_eq!(shown["agents"][1]["agent"], "two");
    let unknown = forge.run(&["config", "show", "--resolved", "--agent", "three"]);
    assert_eq!((unknown.code, unknown.stdout.as_str()), (2, ""));
    assert!(unknown.stderr.contains("no agent `three` (expected one of one, two)"), "{}", unknown.stderr);
}

#[test]
fn the_window_that_is_shown_is_the_one_that_is_sent() {
    for (set, source, window) in [
        ("{}", "is_window_told", SHOWN_WINDOW),
        ("{ 'o:scripted': { window: 128000 } }", "", 128_000),
        ("{ 'o:scripted': { window: 5000, max_output: 700 } }", "", 5_000),
    ] {
        let server = ScriptedServer::start(vec![Step::text("hi")]);
        let yaml = format!(
            "providers: {{ o: {{ kind: ollama, base_url: '{}' }} }}\nmodels: {set}\n\
             agents: [{{ id: a, model: 'o:scripted' }}]\n",
            server.base_url()
        );
        let forge = Forge::new().with_file("forge.yaml", yaml);
        let shown = forge.run(&["config", "show", "--resolved", "--json"]);
        let shown: Value = serde_json::from_str(&shown.stdout).unwrap();
        let numbers = &shown["agents"][0]["numbers"];
        assert_eq!(numbers["window"], json!(window), "{set}");
        for key in ["is_window_told", "is_window_assumed"] {
            assert_eq!(numbers[key], json!(key == source), "{set}");
        }
        let ran = forge.run(&["run", "go"]);
        assert_eq!((ran.code, ran.stdout.trim()), (0, "hi"), "{}", ran.stderr);
        let sent = &server.requests()[0]["options"];
        assert_eq!(sent["num_ctx"], json!(window), "{set}");
        let most = if window == 5_000 { json!(700) } else { Value::Null };
        assert_eq!(sent["num_predict"], most, "{set}");
    }
}

#[test]
fn a_window_that_the_server_has_no_memory_for_is_halved() {
    let refused = r#"{"error": "model requires more system memory (38.6 GiB) than is available (14.2 GiB)"}"#;
    let server =
        ScriptedServer::start(vec![Step::status(500, refused), Step::status(500, refused), Step::text("hi")]);
    let yaml = format!(
        "providers: {{ o: {{ kind: ollama, base_url: '{}', retries: 0 }} }}\nagents: [{{ id: a, model: 'o:scripted' }}]\n",
        server.base_url()
    );
    let ran = Forge::new().with_file("forge.yaml", yaml).run(&["run", "go"]);
    assert_eq!((ran.code, ran.stdout.trim()), (0, "hi"), "{}", ran.stderr);
    let sent: Vec<_> =
        server.requests().iter().map(|request| request["options"]["num_ctx"].as_u64()).collect();
    assert_eq!(sent, [Some(SHOWN_WINDOW), Some(SHOWN_WINDOW / 2), Some(SHOWN_WINDOW / 4)]);
}
