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
