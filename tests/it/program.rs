//! What programs get of `forge`: events of a run line by line, scripts for shells, manual pages.

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, Outcome, outcome};

fn events(outcome: &Outcome) -> Vec<Value> {
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn run(forge: &Forge, server: &ScriptedServer, arguments: &[&str]) -> Outcome {
    let mut command = forge.command(arguments);
    outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"))
}

fn words(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["event"].as_str().unwrap()).collect()
}

#[test]
fn a_run_is_told_event_by_event() {
    let yaml = "agents: [{ id: reader, model: 'openai:gpt-4o', tools: [read] }]";
    let forge = Forge::new().with_file("forge.yaml", yaml).with_file("notes.txt", "closed on Monday\n");
    let steps =
        || vec![Step::calls(&[("read", r#"{"path":"notes.txt"}"#)]), Step::text("On \u{1b}[2JMonday.")];
    let server = ScriptedServer::start(steps());
    let told = run(&forge, &server, &["run", "--json", "When was it closed?"]);
    assert_eq!((told.code, told.stderr.as_str()), (0, ""));
    let events = events(&told);
    let expected = "started woken checkpointed fitted sending replied checkpointed tool_call tool_finished tool_result checkpointed \
                    fitted sending text replied message checkpointed stopped report";
    let mut actual = words(&events);
    actual.dedup();
    assert_eq!(actual.join(" "), expected);
    let of = |word: &str| events.iter().find(|event| event["event"] == word).unwrap();
    assert_eq!(of("woken")["agent"], "reader");
    let agents = json!([{"id": "reader", "model": "openai:gpt-4o", "tools": ["read"]}]);
    assert_eq!((&of("started")["agents"], &of("started")["run"].is_string()), (&agents, &true));
    assert_eq!(of("message")["message"], json!({"role": "assistant", "content": "On \u{1b}[2JMonday."}));
    assert_eq!(of("tool_call")["call"]["name"], "read");
    assert_eq!(of("tool_result")["result"]["is_error"], false);
    assert_eq!(of("stopped")["why"], "done");
    let text: String = events.iter().filter_map(|event| event["text"].as_str()).collect();
    assert_eq!((text.as_str(), &of("report")["report"]["response"]), ("On \u{1b}[2JMonday.", &json!(text)));
    assert_eq!(of("report")["report"]["iterations"], 2);
    assert!(!told.stdout.contains('\u{1b}'), "JSON escapes what steers a terminal");

    // What fails is told in the same way, with what to go on from.
    let failing = ScriptedServer::start(vec![steps().remove(0), Step::status(400, "no")]);
    let failed = run(&forge, &failing, &["run", "--json", "When was it closed?"]);
    assert_eq!(failed.code, 1, "{}", failed.stderr);
    let told = self::events(&failed);
    let last = told.last().unwrap();
    assert_eq!((&last["event"], &last["resume"]), (&json!("broke_off"), &last["checkpoints"]["run"]));
    assert!(last["why"].as_str().unwrap().contains("status 400"), "{last}");

    let third = ScriptedServer::start(vec![Step::text("On Monday.")]);
    let resumed = run(&forge, &third, &["checkpoints", "resume", "--json"]);
    let told = self::events(&resumed);
    assert_eq!((resumed.code, &words(&told)[..2]), (0, &["started", "resumed"][..]), "{}", resumed.stderr);
    assert_eq!((&told[0]["run"], &told[0]["agents"][0]["id"]), (&last["resume"], &json!("reader")));
    assert_eq!((&told[1]["run"], &told[1]["is_over"]), (&last["resume"], &json!(false)));
}

#[test]
fn shells_and_man_know_every_command() {
    let forge = Forge::new();
    for (shell, expected) in
        [("bash", "complete -F"), ("zsh", "#compdef forge"), ("fish", "complete -c forge")]
    {
        let script = forge.run(&["completions", shell]);
        assert!(script.code == 0 && script.stdout.contains(expected), "{shell}: {}", script.stderr);
        for word in ["checkpoints", "--on-change", "inspect"] {
            let word = if shell == "fish" { word.trim_start_matches("--") } else { word };
            assert!(script.stdout.contains(word), "{shell} does not know {word}");
        }
    }
    let page = forge.run(&["man"]);
    assert!(page.code == 0 && page.stdout.contains(".TH forge 1"), "{}", page.stdout);
    let written = forge.run(&["man", "--output", "man"]);
    assert_eq!((written.code, written.stdout.as_str()), (0, ""), "{}", written.stderr);
    for name in ["forge.1", "forge-run.1", "forge-checkpoints-undo.1"] {
        assert!(forge.path("man").join(name).exists(), "{name}");
    }
    let file = forge.with_file("taken", "");
    let refused = file.run(&["man", "--output", "taken"]);
    assert!(refused.code == 1 && refused.stderr.contains("manual pages into taken"), "{}", refused.stderr);
}
