//! `forge doctor`: what is missing, what to do, and the exit code.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::Value;

use crate::forge::{Forge, Outcome, outcome};

fn doctor(yaml: &str, environment: &[(&str, &str)], arguments: &[&str]) -> Outcome {
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let mut command = forge.command(&[&["doctor"], arguments].concat());
    command.envs(environment.iter().copied());
    outcome(&mut command)
}

/// The checks of a JSON report, each as `about: health`, without those of providers that no agent uses.
fn checks(report: &Value) -> Vec<String> {
    let checks = report["checks"].as_array().unwrap().iter();
    let text = |check: &Value, key: &str| check[key].as_str().unwrap_or_default().to_owned();
    let short = |check: &Value| format!("{}: {}", text(check, "about"), text(check, "health"));
    // What the kernel enforces is not the same on every machine.
    let is_sandbox = |line: &String| line.starts_with("sandbox");
    let is_of_use =
        |line: &String| !is_sandbox(line) && (!line.ends_with("note") || !line.starts_with("provider"));
    checks.map(short).filter(is_of_use).collect()
}

#[test]
fn what_an_untrusted_file_lacks_may_be_what_was_left_out() {
    let yaml = "providers: { local: { kind: openai, base_url: 'http://127.0.0.1:9/v1' } }\n\
                agents: [{ id: a, model: 'local:m', tools: [read] }]\n";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let wary = outcome(&mut forge.wary_command(&["doctor"]));
    let words = "→ run `forge trust` first: what is left out may be all that is missing";
    assert!(wary.stdout.contains(words), "{}", wary.stdout);
    let trusting = forge.run(&["doctor"]);
    assert!(!trusting.stdout.contains("forge trust"), "{}", trusting.stdout);
}

#[test]
fn all_that_a_run_needs_is_looked_at() {
    let server = ScriptedServer::start(Vec::<Step>::new());
    let yaml = format!(
        "providers: {{ local: {{ base_url: '{}', api_key_env: LOCAL_KEY }} }}\n\
         models: {{ 'local:scripted': {{ window: 8000, price: {{ input: 1, output: 2, as_of: 2026-11-22 }} }} }}\n\
         agents: [{{ id: a, model: 'local:scripted', tools: [read] }}]\n",
        server.base_url()
    );
    let key = [("LOCAL_KEY", "planted-key-12345")];
    let well = doctor(&yaml, &key, &[]);
    assert_eq!(well.code, 0, "{} {}", well.stdout, well.stderr);
    for words in [
        "✓ configuration: forge.yaml is read",
        "✓ provider local: LOCAL_KEY is set; it offers 1 model",
        "✓ model local:scripted: a window of 8000 tokens",
        "✓ model local:scripted: a million tokens cost $1.00, answers $2.00 (of 2026-11-22)",
        "✓ agents: a: templates render",
        "· checkpoints: none yet at ",
        "· provider openai: OPENAI_API_KEY is not set",
    ] {
        assert!(well.stdout.contains(words), "`{words}` is not in:\n{}", well.stdout);
    }
    assert!(!well.stdout.contains("planted"), "{}", well.stdout);
    let json = doctor(&yaml, &key, &["--json"]);
    let report: Value = serde_json::from_str(&json.stdout).unwrap();
    assert_eq!(report["healthy"], Value::Bool(true));
    assert_eq!(
        checks(&report),
        [
            "configuration: good",
            "agents: good",
            "provider local: good",
            "model local:scripted: good",
            "model local:scripted: good",
            "checkpoints: note",
        ]
    );
}

#[test]
fn what_is_broken_is_a_fault_with_what_to_do() {
    let nobody = "providers: { local: { base_url: 'http://127.0.0.1:9/v1' } }\n";
    let agent = "agents: [{ id: a, model: 'local:m' }]\n";
    for (yaml, words) in [
        (
            format!("{nobody}{agent}"),
            &["✗ provider local", "cannot reach http://127.0.0.1:9", "→ start the server"][..],
        ),
        (
            "agents: [{ id: a, model: gpt-4o }]\n".to_owned(),
            &["✗ provider openai: OPENAI_API_KEY is not set", "→ export OPENAI_API_KEY=..."],
        ),
        (
            format!("{nobody}agents: [{{ id: a, model: 'local:m', budget: {{ cost: 1 }} }}]\n"),
            &["✗ model local:m: its price is unknown", "price: { input: N"],
        ),
        (
            format!("{nobody}agents: [{{ id: a, model: 'local:m', system_prompt: '{{{{nobody}}}}' }}]\n"),
            &["✗ agents: template agent a", "agents.a.system_prompt", "nobody"],
        ),
        (
            format!("{nobody}{agent}"),
            &["! model local:m: its window is unknown; 128000 tokens are assumed", "window: N"],
        ),
    ] {
        let sick = doctor(&yaml, &[], &[]);
        assert_eq!(sick.code, 1, "{yaml}: {} {}", sick.stdout, sick.stderr);
        for word in words {
            assert!(sick.stdout.contains(word), "`{word}` is not in:\n{}", sick.stdout);
        }
    }
    let unreadable = doctor("agents: [", &[], &[]);
    assert_eq!((unreadable.code, unreadable.stdout.as_str()), (2, ""), "{}", unreadable.stderr);
}

#[test]
fn the_store_of_checkpoints_is_read_back() {
    let forge = Forge::new();
    let frozen = crate::forge::repository("tests/fixtures/stores/v2.sqlite");
    std::fs::copy(frozen, forge.path("store.db")).unwrap();
    let url = format!("sqlite://{}", forge.path("store.db").display());
    for arguments in [&["doctor", "--store", &url][..], &["doctor", "--store", &url, "--repair"]] {
        let actual = forge.run(arguments);
        assert!(actual.stdout.contains("✓ checkpoints: "), "{} {}", actual.stdout, actual.stderr);
    }
    let actual = forge.with_file("other.txt", "no store").run(&["doctor", "--store", "sqlite:other.txt"]);
    assert_eq!(actual.code, 1, "{} {}", actual.stdout, actual.stderr);
    assert!(actual.stdout.contains("✗ checkpoints: "), "{}", actual.stdout);
}
