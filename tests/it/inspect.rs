//! `forge inspect`: what fills the window, for people and as JSON.

use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, repository};

fn shipped() -> String {
    repository("tests/fixtures/reading.json").to_str().unwrap().to_owned()
}

fn inspect(forge: &Forge, arguments: &[&str]) -> Value {
    let actual = forge.run(&[&["inspect"], arguments, &["--json"]].concat());
    assert_eq!((actual.code, actual.stderr.as_str()), (0, ""), "{arguments:?}");
    serde_json::from_str(&actual.stdout).unwrap()
}

#[test]
fn the_recording_that_ships_is_told_in_full() {
    let report = inspect(&Forge::new(), &[&shipped()]);
    let sum = |list: &str, key: &str| -> u64 {
        report[list].as_array().unwrap().iter().map(|share| share[key].as_u64().unwrap()).sum()
    };
    assert_eq!(report["format"], "openai");
    assert_eq!(json!(sum("by_role", "messages")), report["messages"]);
    assert_eq!(json!(sum("by_role", "tokens") + 3), report["tokens"]);
    assert_eq!(sum("by_tool", "calls"), sum("by_tool", "results"));
    assert_eq!(report["largest"].as_array().unwrap().len(), 10);
    let sizes: Vec<u64> =
        report["largest"].as_array().unwrap().iter().map(|item| item["tokens"].as_u64().unwrap()).collect();
    assert!(sizes.is_sorted_by(|one, next| one >= next));
    assert_eq!((&report["breaches"], &report["compactions"]), (&json!([]), &json!([])));
}

#[test]
fn what_is_there_twice_and_what_is_broken_is_found() {
    let call = |id: &str| {
        json!({"role": "assistant", "content": null, "tool_calls": [{"id": id, "type": "function",
            "function": {"name": "read", "arguments": "{\"path\": \"a\"}"}}]})
    };
    let result =
        |id: &str| json!({"role": "tool", "tool_call_id": id, "content": "the same old lines\n".repeat(20)});
    let session = json!({"messages": [{"role": "user", "content": "hi"}, call("a"), result("a"), call("b"),
        result("b"), result("z"), call("c")]});
    let forge = Forge::new().with_file("session.json", session.to_string());
    let report = inspect(&forge, &["session.json"]);
    let kinds: Vec<&Value> =
        report["duplicates"].as_array().unwrap().iter().map(|duplicate| &duplicate["kind"]).collect();
    assert_eq!(kinds, ["same_result", "same_call"]);
    assert_eq!(report["duplicates"][1]["ids"], json!(["m2", "m4"]));
    assert_eq!(report["breaches"].as_array().unwrap().len(), 2);

    let shown = forge.run(&["inspect", "session.json"]);
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    for words in ["by role", "by tool", "largest", "same result 2×", "broken", "call c has no result"] {
        assert!(shown.stdout.contains(words), "`{words}` is not in:\n{}", shown.stdout);
    }
    assert!(!shown.stdout.contains('\u{1b}'), "no colours where there is no terminal");
}

#[test]
fn several_sessions_are_told_apart() {
    let trial = |task: u32| json!({"task_id": task, "trial": 0, "traj": [{"role": "user", "content": format!("task {task}")}]});
    let forge = Forge::new().with_file("tau.json", json!([trial(3), trial(4)]).to_string());
    assert_eq!(inspect(&forge, &["tau.json"])["sessions"].as_array().unwrap().len(), 2);
    for picked in ["task4.trial0", "1"] {
        assert_eq!(inspect(&forge, &["tau.json", "--session", picked])["id"], "task4.trial0");
    }
    let unknown = forge.run(&["inspect", "tau.json", "--session", "9"]);
    assert_eq!(unknown.code, 2);
}

#[test]
fn bad_input_is_told() {
    let forge = Forge::new().with_file("empty", "");
    for (file, code, words) in
        [("missing", 2, "cannot read the session missing"), ("empty", 1, "empty is empty")]
    {
        let actual = forge.run(&["inspect", file]);
        assert_eq!((actual.code, actual.stdout.as_str()), (code, ""));
        assert!(actual.stderr.contains(words), "{}", actual.stderr);
    }
}

#[test]
fn what_claude_code_added_by_itself_is_shown_and_reported() {
    let line = |n: usize, record: Value| {
        let parent = if n == 0 { Value::Null } else { json!(format!("u{}", n - 1)) };
        let mut line = json!({"uuid": format!("u{n}"), "parentUuid": parent, "sessionId": "s"});
        line.as_object_mut().unwrap().extend(record.as_object().unwrap().clone());
        format!("{line}\n")
    };
    let said = |role: &str, text: &str| json!({"type": role, "message": {"role": role, "content": text}});
    let listing = json!({"type": "attachment", "attachment": {"type": "skill_listing", "content": "a skill. ".repeat(500)}});
    let shown =
        json!({"type": "attachment", "attachment": {"type": "hook_system_message", "content": "shown"}});
    let session: String = [said("user", "Find it."), listing, shown, said("assistant", "Yes.")]
        .into_iter()
        .enumerate()
        .map(|(n, record)| line(n, record))
        .collect();
    let forge = Forge::new().with_file("s.jsonl", session);
    let report = inspect(&forge, &["s.jsonl"]);
    let kinds: Vec<(&Value, &Value, &Value)> = report["attachments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kind| (&kind["kind"], &kind["records"], &kind["in_context"]))
        .collect();
    assert_eq!(
        kinds,
        [
            (&json!("hook_system_message"), &json!(1), &json!(0)),
            (&json!("skill_listing"), &json!(1), &json!(1))
        ]
    );
    assert_eq!((&report["messages"], &report["turns"]), (&json!(3), &json!(1)));
    assert!(report["tokens"].as_u64().unwrap() > 1_000, "what the model sees is counted");
    let shown = forge.run(&["inspect", "s.jsonl"]).stdout;
    assert!(shown.contains("skill_listing · 1 attachment · 1 in the context"), "{shown}");

    let compacted = forge.run(&[
        "compact",
        "s.jsonl",
        "--max-tokens",
        "500",
        "-o",
        "out.jsonl",
        "--report",
        "report.json",
    ]);
    assert_eq!(compacted.code, 0, "{}", compacted.stderr);
    assert!(compacted.stderr.contains(" · 2 attachments"), "{}", compacted.stderr);
    let of_compact: Value =
        serde_json::from_str(&std::fs::read_to_string(forge.path("report.json")).unwrap()).unwrap();
    assert_eq!(of_compact["attachments"], report["attachments"]);
    let replayed = forge.run(&["replay", "s.jsonl", "--json"]);
    let replayed: Value = serde_json::from_str(&replayed.stdout).unwrap();
    assert_eq!(replayed["attachments"], report["attachments"]);
}
