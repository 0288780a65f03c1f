//! `forge replay` over the recording that ships, and over a sample of the recorded sessions where these are at hand.

use forge_services::O200kCounter;
use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, outcome, repository};
use crate::recorded_sample::recorded_sample;

fn replay(forge: &Forge, arguments: &[&str]) -> Value {
    let mut all = vec!["replay"];
    all.extend(arguments);
    all.push("--json");
    let actual = forge.run(&all);
    let report: Value = serde_json::from_str(&actual.stdout).unwrap();
    let expected = if report["refused"] == 0 { (0, true) } else { (1, false) };
    assert_eq!((actual.code, actual.stderr.is_empty()), expected, "{arguments:?}: {}", actual.stderr);
    report
}

fn shipped() -> String {
    repository("tests/fixtures/reading.json").to_str().unwrap().to_owned()
}

#[test]
fn the_recording_that_ships_compacts_several_times_in_a_small_window() {
    let forge = Forge::new();
    let whole = replay(&forge, &[&shipped(), "--window", "1000k"]);
    assert_eq!((&whole["calls"], &whole["compactions"]), (&json!(33), &json!([])));
    assert_eq!(whole["total_prompt_tokens"], whole["total_prompt_tokens_uncompacted"]);

    let small = replay(&forge, &[&shipped(), "--window", "8k"]);
    assert!(small["compactions"].as_array().unwrap().len() >= 5, "{}", small["compactions"]);
    for (key, expected) in [("calls", 33), ("refused", 0), ("over_window", 0), ("split_exchanges", 0)] {
        assert_eq!(small[key], json!(expected), "{key}");
    }
    assert_eq!(small["total_prompt_tokens_uncompacted"], whole["total_prompt_tokens"]);
    assert!(small["peak_prompt_tokens"].as_u64().unwrap() <= 8_000);
    let first = &small["compactions"][0];
    assert_eq!(
        (&first["trigger"], &first["strategies"]),
        (&json!("tokens"), &json!(["clear_tool_results", "extraction"]))
    );
    let record = &small["strategies"]["extraction"];
    let n_compactions = small["compactions"].as_array().unwrap().len();
    assert_eq!((&record["applied"], &record["failed"]), (&json!(n_compactions), &json!(0)));
    assert!(record["tokens_saved"].as_u64().unwrap() > 5_000, "{record}");
}

#[test]
fn a_replay_takes_the_compact_block_of_the_agent_it_is_given() {
    let yaml = "agents: [{ id: a, compact: { message_threshold: 12, max_messages: 6 } }]";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let report = replay(&forge, &[&shipped(), "--agent", "a"]);
    let compactions = report["compactions"].as_array().unwrap();
    assert!(compactions.len() > 5);
    assert!(compactions.iter().all(|compaction| compaction["trigger"] == "messages"));
    assert!(compactions.iter().all(|compaction| compaction["after"]["messages"].as_u64().unwrap() <= 6));
}

#[test]
fn a_replay_asks_no_model_unless_it_is_told_to() {
    let yaml = "{ providers: { openai: { retries: 0 } }, agents: [{ id: a, compact: { model: 'openai:gpt-4o', strategies: [summarization] } }] }";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let report = replay(&forge, &[&shipped(), "--agent", "a", "--window", "8k"]);
    let attempts = |report: &Value| {
        let compactions = report["compactions"].as_array().unwrap().clone();
        compactions.iter().flat_map(|c| c["attempts"].as_array().unwrap().clone()).collect::<Vec<_>>()
    };
    let of = |attempt: &Value| (attempt["strategy"] == "summarization").then(|| attempt["verdict"].clone());
    let verdicts: Vec<Value> = attempts(&report).iter().filter_map(of).collect();
    assert!(
        !verdicts.is_empty() && verdicts.iter().all(|verdict| verdict == "not_applicable"),
        "{verdicts:?}"
    );
    // Told to, it needs the key before it begins.
    let shipped = shipped();
    let arguments = ["replay", &shipped, "--agent", "a", "--window", "8k", "--summarizer", "openai:gpt-4o"];
    let refused = forge.run(&arguments);
    assert!(refused.code == 2 && refused.stderr.contains("OPENAI_API_KEY"), "{refused:?}");
    // With one it asks; a server that fails is an attempt with its reason, and the next rung takes over.
    let server = ScriptedServer::start(vec![
        Step::status(500, "{}"),
        Step::text(
            "<forge_context_summary>read the nights of 2025-09-01 and 2025-09-02</forge_context_summary>",
        ),
    ]);
    let mut command = forge.command(&[&arguments[..], &["--json"]].concat());
    let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    let report: Value = serde_json::from_str(&actual.stdout).unwrap();
    let verdicts: Vec<Value> = attempts(&report).iter().filter_map(of).collect();
    assert!(verdicts[0]["failed"]["reason"].as_str().unwrap().contains("500"), "{}", verdicts[0]);
    assert_eq!(verdicts[1]["significant"]["model_calls"], json!(1), "{}", verdicts[1]);
}

#[test]
fn a_refusal_is_counted_with_its_terms_and_the_replay_goes_on() {
    let long = "word ".repeat(3_000);
    let session = json!({"messages": [
        {"role": "system", "content": long},
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": null, "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "c", "content": "fine"},
        {"role": "assistant", "content": "done"},
    ]});
    let forge = Forge::new().with_file("session.json", session.to_string());
    for json in [&[][..], &["--json"]] {
        let refused = forge.run(&[&["replay", "session.json", "--window", "2k"], json].concat());
        assert_eq!(refused.code, 1, "what a run would fail at is no success");
        assert!(!refused.stdout.is_empty(), "the report is whole");
        for words in ["2 of 2 calls were refused", "larger --window"] {
            assert!(refused.stderr.contains(words), "`{words}` is not in:\n{}", refused.stderr);
        }
    }
    let report = replay(&forge, &["session.json", "--window", "2k"]);
    assert_eq!((&report["calls"], &report["refused"]), (&json!(2), &json!(2)));
    let terms: Vec<&str> = report["refusals"][0]["because"]
        .as_array()
        .unwrap()
        .iter()
        .map(|term| term["part"].as_str().unwrap())
        .collect();
    assert_eq!(terms, ["request", "system_messages", "first_user_message"]);
    assert_eq!(report["coverage"]["appended"], json!(5));
}

#[test]
fn several_sessions_are_summed_and_one_can_be_picked() {
    let session = |id: u32, n: usize| {
        let mut messages = vec![json!({"role": "user", "content": "hi"})];
        messages.extend((0..n).flat_map(|_| {
            [json!({"role": "assistant", "content": "yes"}), json!({"role": "user", "content": "go on"})]
        }));
        json!({"task_id": id, "trial": 0, "reward": 1.0, "info": {}, "traj": messages})
    };
    let forge = Forge::new().with_file("tau.json", json!([session(3, 2), session(4, 5)]).to_string());
    let both = replay(&forge, &["tau.json"]);
    let calls: Vec<&Value> = both["sessions"].as_array().unwrap().iter().map(|one| &one["calls"]).collect();
    assert_eq!((calls, &both["calls"]), (vec![&json!(2), &json!(5)], &json!(7)));
    assert_eq!(both["peak_prompt_tokens"], both["sessions"][1]["peak_prompt_tokens"]);
    for picked in ["task4.trial0", "1"] {
        assert_eq!(replay(&forge, &["tau.json", "--session", picked])["calls"], json!(5), "{picked}");
    }
}

/// Recorded sessions of every format at three windows: nothing over the window, no split exchange, and each refusal is
/// impossible by its fixed part.
#[test]
fn a_sample_of_recorded_sessions_replays_at_every_window() {
    let forge = Forge::new();
    for (file, path) in recorded_sample("replay") {
        for window in ["2k", "8k", "32k", "128k"] {
            let report = replay(&forge, &[path.to_str().unwrap(), "--window", window]);
            let one = [report.clone()];
            let sessions = report["sessions"].as_array().map_or(&one[..], Vec::as_slice);
            for session in sessions {
                assert_eq!(
                    (&session["over_window"], &session["split_exchanges"]),
                    (&json!(0), &json!(0)),
                    "{file}"
                );
                for refusal in session["refusals"].as_array().unwrap() {
                    let need: u64 = refusal["because"]
                        .as_array()
                        .unwrap()
                        .iter()
                        .map(|t| t["tokens"].as_u64().unwrap())
                        .sum();
                    assert!(need > refusal["have"].as_u64().unwrap(), "{file} at {window}: {refusal}");
                }
                let coverage = &session["coverage"];
                let sum = coverage["verbatim"].as_u64().unwrap() + coverage["replaced"].as_u64().unwrap();
                assert_eq!(json!(sum), coverage["appended"], "{file} at {window}");
            }
        }
    }
}

/// What the report says of a prompt is what an independent count of the same messages gives.
#[test]
fn uncompacted_totals_are_counted_independently() {
    let bytes = std::fs::read(shipped()).unwrap();
    let messages = forge_transcript::read(&bytes, "reading").unwrap()[0].recording().messages;
    let mut so_far = 3;
    let mut expected = Vec::new();
    for message in &messages {
        if message.role() == forge_domain::Role::Assistant {
            expected.push(so_far);
        }
        so_far += forge_domain::message_tokens(message, &O200kCounter).as_u64();
    }
    let report = replay(&Forge::new(), &[&shipped(), "--window", "1000k"]);
    assert_eq!(report["prompt_tokens"], json!(expected));
}

#[test]
fn a_replay_goes_on_with_its_own_session_alone_and_says_if_nothing_was_saved() {
    let other = json!([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "yes"},
        {"role": "user", "content": "and now?"}, {"role": "assistant", "content": "no"}]);
    let forge = Forge::new()
        .with_file("other.json", json!({"messages": other}).to_string())
        .with_file("notes.txt", "no store");
    let url = |name: &str| format!("sqlite://{}", forge.path(name).display());
    let begun = forge.run(&["replay", &shipped(), "--window", "8k", "--store", &url("a.db"), "--calls", "2"]);
    assert_eq!(begun.code, 0, "{}", begun.stderr);
    let refused = forge.run(&["replay", "other.json", "--store", &url("a.db"), "--resume"]);
    assert_ne!(refused.code, 0);
    assert!(refused.stderr.contains("is the replay of another session"), "{}", refused.stderr);
    let resumed = forge.run(&["replay", &shipped(), "--window", "8k", "--store", &url("a.db"), "--resume"]);
    assert_eq!(resumed.code, 0, "{}", resumed.stderr);
    let unsaved = forge.run(&["replay", "other.json", "--store", &url("notes.txt")]);
    assert_eq!(unsaved.code, 1, "{}", unsaved.stdout);
    assert!(
        unsaved.stderr.contains("not in the store") && unsaved.stderr.contains("is not a checkpoint store")
    );
}
