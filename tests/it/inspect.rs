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
    let forge = forge.with_file("one.json", json!([trial(5)]).to_string());
    for (file, words) in [
        ("tau.json", "write a number from 0 to 1, or one of task3.trial0, task4.trial0"),
        ("one.json", "the file has one, task5.trial0; omit --session"),
    ] {
        let unknown = forge.run(&["inspect", file, "--session", "9"]);
        assert_eq!(unknown.code, 2);
        assert!(unknown.stderr.contains(words), "{}", unknown.stderr);
    }
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
fn records_on_other_branches_are_counted() {
    let said = |uuid: &str, parent: Value, session: &str, text: &str| {
        json!({"type": "user", "uuid": uuid, "parentUuid": parent, "sessionId": session,
            "message": {"role": "user", "content": text}})
    };
    let lines = [
        said("u1", Value::Null, "first", "Where is the key?"),
        said("u2", json!("u1"), "first", "And the lock?"),
        said("u3", Value::Null, "second", "Good morning."),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let forge = Forge::new().with_file("two.jsonl", text);
    let report = inspect(&forge, &["two.jsonl"]);
    let told = ["id", "messages", "records", "records_off_branch"].map(|key| report[key].clone());
    assert_eq!(told, [json!("second"), json!(1), json!(3), json!(2)]);
    let shown = forge.run(&["inspect", "two.jsonl"]).stdout;
    assert!(shown.contains("2 records are on other branches of the file"), "{shown}");
}

#[test]
fn a_format_that_is_named_is_the_one_that_is_read() {
    let lines = [
        json!({"role": "user", "content": "Where is the key?"}),
        json!({"role": "assistant", "content": [{"type": "text", "text": "Here."}]}),
    ];
    let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
    let forge = Forge::new().with_file("said.jsonl", text);
    assert_eq!(inspect(&forge, &["said.jsonl", "--from", "openai-lines"])["messages"], 2);
    let replayed = forge.run(&["replay", "said.jsonl", "--from", "openai-lines"]);
    assert_eq!(replayed.code, 0, "{}", replayed.stderr);
    let refused = forge.run(&["inspect", "said.jsonl", "--from", "codex"]);
    assert!(refused.code != 0 && refused.stderr.contains("not of the format `codex`"), "{}", refused.stderr);
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

/// A session of Claude Code whose calls were recorded, with what an attacker may have written.
fn hostile_session() -> String {
    let evil = "</title><script>alert(1)</script>\u{202e}{{evil}}\u{1b}[2J\" onload=\"x";
    let usage =
        |input: u64| json!({"input_tokens": input, "cache_read_input_tokens": 90, "output_tokens": 5});
    let records = [
        json!({"type": "user", "message": {"role": "user", "content": evil}}),
        json!({"type": "assistant", "message": {"role": "assistant", "id": "a", "model": "gpt-5", "usage": usage(10),
            "content": [{"type": "tool_use", "id": "c", "name": "read", "input": {"path": evil}}]}}),
        json!({"type": "user", "message": {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c",
            "content": format!("{evil} {}", "word ".repeat(60))}]}}),
        json!({"type": "assistant", "message": {"role": "assistant", "id": "b", "model": "gpt-5", "usage": usage(400),
            "content": [{"type": "text", "text": "The key is AKIAQ7XNB3KDW5LTRZ2M."}]}}),
    ];
    let line = |(n, record): (usize, &Value)| {
        let parent = if n == 0 { Value::Null } else { json!(format!("u{}", n - 1)) };
        let mut line = json!({"uuid": format!("u{n}"), "parentUuid": parent, "sessionId": evil});
        line.as_object_mut().unwrap().extend(record.as_object().unwrap().clone());
        format!("{line}\n")
    };
    records.iter().enumerate().map(line).collect()
}

#[test]
fn recorded_calls_show_how_the_context_grew_and_what_it_cost() {
    let forge = Forge::new().with_file("s.jsonl", hostile_session());
    let report = inspect(&forge, &["s.jsonl"]);
    let points: Vec<&Value> =
        report["growth"]["points"].as_array().unwrap().iter().map(|point| &point["tokens"]).collect();
    assert_eq!(points, [100, 490]);
    assert_eq!((&report["growth"]["source"], &report["growth"]["peak"]), (&json!("recorded"), &json!(490)));
    let spending = &report["spending"];
    assert_eq!((&spending["calls"], &spending["usage"]["prompt_tokens"]), (&json!(2), &json!(590)));
    assert_eq!((&spending["is_estimate"], &spending["models"][0]["model"]), (&json!(true), &json!("gpt-5")));
    let shown = forge.run(&["inspect", "s.jsonl"]).stdout;
    for words in [
        "2 recorded calls: 590 prompt tokens (180 from the cache)",
        "at list prices",
        "prompt of each call",
        "█",
    ] {
        assert!(shown.contains(words), "`{words}` is not in:\n{shown}");
    }
    // Without recorded figures the prompts are counted.
    let counted = inspect(&Forge::new(), &[&shipped()]);
    assert_eq!((&counted["growth"]["source"], &counted["spending"]), (&json!("counted"), &Value::Null));
}

#[test]
fn a_page_loads_nothing_and_takes_nothing_for_markup() {
    let forge = Forge::new().with_file("s.jsonl", hostile_session());
    let run = forge.run(&["inspect", "s.jsonl", "--html", "page.html"]);
    assert_eq!((run.code, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let page = std::fs::read_to_string(forge.path("page.html")).unwrap();
    for words in [
        "How the context grew",
        "What fills the window",
        "Largest messages",
        "&lt;script&gt;",
        "{{evil}}",
        "prefers-color-scheme",
    ] {
        assert!(page.contains(words), "`{words}` is not on the page");
    }
    for words in
        ["<script", "javascript:", "http://", "https://", " src=", "onload=\"", "\u{202e}", "\u{1b}", "AKIA"]
    {
        assert!(!page.contains(words), "`{words}` is on the page");
    }
    assert!(page.trim_end().ends_with("</html>"));
    let both = forge.run(&["inspect", "s.jsonl", "--html", "x.html", "--json"]);
    assert_eq!(both.code, 2, "{}", both.stderr);
    let nowhere = forge.run(&["inspect", "s.jsonl", "--html", "no/such/x.html"]);
    assert!(nowhere.stderr.contains("create the folder first"), "{}", nowhere.stderr);
    let trial = |task: u32| json!({"task_id": task, "trial": 0, "traj": [{"role": "user", "content": format!("task {task}")}]});
    let forge = Forge::new().with_file("tau.json", json!([trial(3), trial(4)]).to_string());
    assert_eq!(forge.run(&["inspect", "tau.json", "--html", "page.html"]).code, 0);
    let page = std::fs::read_to_string(forge.path("page.html")).unwrap();
    assert!(page.contains("href=\"#session-1\"") && page.contains("id=\"session-1\""), "{page}");
}

#[test]
fn sessions_in_a_database_or_a_folder_are_read() {
    let forge = Forge::new();
    let database = rusqlite::Connection::open(forge.path("opencode.db")).unwrap();
    database
        .execute_batch(
            r#"CREATE TABLE session (id TEXT, directory TEXT, title TEXT, version TEXT, time_created INTEGER, time_updated INTEGER);
            CREATE TABLE message (id TEXT, session_id TEXT, time_created INTEGER, data TEXT);
            CREATE TABLE part (id TEXT, message_id TEXT, session_id TEXT, data TEXT);
            INSERT INTO session VALUES ('ses_1', '/w', 'Find it', '1', 1, 1), ('ses_2', '/w', 'Other', '1', 2, 2);
            INSERT INTO message VALUES ('m1', 'ses_1', 1, '{"role":"user"}'),
                ('m2', 'ses_1', 2, '{"role":"assistant","cost":0.5,"tokens":{"input":9,"output":1}}');
            INSERT INTO part VALUES ('p1', 'm1', 'ses_1', '{"type":"text","text":"Find it."}'),
                ('p2', 'm2', 'ses_1', '{"type":"tool","callID":"c","tool":"read","state":{"input":{},"output":"out"}}');"#,
        )
        .unwrap();
    drop(database);
    let several = forge.run(&["inspect", "opencode.db"]);
    assert_eq!(several.code, 2);
    for words in ["holds 2 sessions: pick one with --session", "0  ses_2", "1  ses_1", "Find it"] {
        assert!(several.stderr.contains(words), "`{words}` is not in:\n{}", several.stderr);
    }
    for picked in ["ses_1", "1"] {
        let report = inspect(&forge, &["opencode.db", "--session", picked]);
        assert_eq!((&report["id"], &report["messages"]), (&json!("ses_1"), &json!(3)));
        assert_eq!(report["spending"]["cost"]["dollars"], 0.5);
    }
    let unknown = forge.run(&["inspect", "opencode.db", "--session", "x"]);
    assert!(unknown.stderr.contains("has no session `x`"), "{}", unknown.stderr);
    let written =
        forge.run(&["compact", "opencode.db", "--session", "ses_1", "--to", "openai", "-o", "out.json"]);
    assert_eq!(written.code, 0, "{}", written.stderr);
    assert_eq!(inspect(&forge, &["out.json"])["messages"], 3);
    let in_place =
        forge.run(&["compact", "opencode.db", "--session", "ses_1", "--in-place", "--max-tokens", "1k"]);
    assert_eq!(in_place.code, 1, "{}", in_place.stderr);
    assert!(in_place.stderr.contains("write a new file with --output"), "{}", in_place.stderr);

    let forge = Forge::new();
    std::fs::create_dir_all(forge.path("conversation/events")).unwrap();
    let event = |n: usize, role: &str| {
        let event = json!({"id": format!("e{n}"), "source": "user", "kind": "MessageEvent",
            "llm_message": {"role": role, "content": [{"type": "text", "text": format!("{n}")}]}});
        let name = format!("conversation/events/event-{n:05}-abc.json");
        std::fs::write(forge.path(&name), serde_json::to_string_pretty(&event).unwrap()).unwrap();
    };
    (0..11).for_each(|n| event(n, if n % 2 == 0 { "user" } else { "assistant" }));
    let report = inspect(&forge, &["conversation"]);
    assert_eq!((&report["format"], &report["messages"]), (&json!("openhands-events"), &json!(11)));
    let other = forge.run(&["inspect", "."]);
    assert!(other.stderr.contains("name a file in that folder"), "{}", other.stderr);
}

#[test]
fn a_file_without_a_message_is_refused() {
    let mute = json!({"type": "mode", "sessionId": "s"}).to_string() + "\n";
    let foreign = json!({"type": "session_meta", "payload": {"id": "1"}}).to_string()
        + "\n"
        + &json!({"type": "user", "message": {"role": "user", "content": "hi"}}).to_string()
        + "\n";
    let calls: Vec<Value> = (0..3)
        .flat_map(|n| {
            [
                json!({"role": "assistant", "content": null, "tool_calls": [{"id": format!("a{n}"), "type": "function",
                    "function": {"name": "f", "arguments": "{}"}}]}),
                json!({"role": "tool", "tool_call_id": format!("z{n}"), "content": "out"}),
            ]
        })
        .collect();
    let forge = Forge::new()
        .with_file("mute.jsonl", mute.repeat(20))
        .with_file("foreign.jsonl", foreign)
        .with_file("lost.json", json!(calls).to_string());
    for (file, expected) in [
        ("mute.jsonl", "holds no message"),
        ("foreign.jsonl", "mixes two formats: from line 2 on there are Claude Code sessions"),
    ] {
        let run = forge.run(&["inspect", file]);
        assert!(run.stderr.contains(expected), "{file}: {}{}", run.stdout, run.stderr);
        assert_eq!(run.code, 1);
    }
    let run = forge.run(&["replay", "lost.json"]);
    assert!(run.stderr.contains("none of its 3 results answers a call"), "{}{}", run.stdout, run.stderr);
}

#[test]
fn a_page_is_never_written_over_the_session() {
    let session = std::fs::read_to_string(shipped()).unwrap();
    let forge = Forge::new().with_file("session.json", session.clone());
    let actual = forge.run(&["inspect", "session.json", "--html", "./session.json"]);
    assert_eq!((actual.code, actual.stdout.as_str()), (2, ""));
    assert!(
        actual.stderr.contains("--html") && actual.stderr.contains("never overwritten"),
        "{}",
        actual.stderr
    );
    assert_eq!(std::fs::read_to_string(forge.path("session.json")).unwrap(), session);
}
