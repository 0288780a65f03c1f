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
    let expected = "started woken message checkpointed fitted sending replied message checkpointed tool_call tool_started \
                    tool_finished tool_result checkpointed fitted sending text replied message checkpointed stopped report";
    let mut actual = words(&events);
    actual.dedup();
    assert_eq!(actual.join(" "), expected);
    let of = |word: &str| events.iter().find(|event| event["event"] == word).unwrap();
    assert_eq!(of("woken")["agent"], "reader");
    let agents = json!([{"id": "reader", "model": "openai:gpt-4o", "tools": ["read"]}]);
    assert_eq!((&of("started")["agents"], &of("started")["run"].is_string()), (&agents, &true));
    let messages: Vec<&Value> =
        events.iter().filter(|event| event["event"] == "message").map(|event| &event["message"]).collect();
    assert_eq!(messages[0], &json!({"role": "user", "content": "When was it closed?"}));
    assert_eq!(
        (&messages[1]["role"], &messages[1]["calls"][0]["name"]),
        (&json!("assistant"), &json!("read"))
    );
    assert_eq!(messages[2], &json!({"role": "assistant", "content": "On \u{1b}[2JMonday."}));
    assert_eq!(of("tool_call")["call"]["name"], "read");
    assert_eq!(of("tool_result")["result"]["is_error"], false);
    assert_eq!(of("stopped")["why"], "done");
    let text: String = events.iter().filter_map(|event| event["text"].as_str()).collect();
    assert_eq!((text.as_str(), &of("report")["report"]["response"]), ("On \u{1b}[2JMonday.", &json!(text)));
    assert_eq!(of("report")["report"]["iterations"], 2);
    assert!(!told.stdout.contains('\u{1b}'), "JSON escapes what steers a terminal");

    // What a sub-agent does has its name.
    let yaml =
        "agents:\n  boss: { model: 'openai:gpt-4o', tools: [scout] }\n  scout: { model: 'openai:gpt-4o' }\n";
    let helped = Forge::new().with_file("forge.yaml", yaml);
    let call = Step::calls(&[("scout", r#"{"task":"Look."}"#)]);
    let asking = ScriptedServer::start(vec![call, Step::text("Found."), Step::text("Done.")]);
    let told = run(&helped, &asking, &["run", "--json", "--agent", "boss", "Go."]);
    let sent: Vec<Value> = self::events(&told)
        .into_iter()
        .filter(|event| event["event"] == "sending")
        .map(|event| event["agent"].clone())
        .collect();
    assert_eq!(sent, [Value::Null, json!("scout~1"), Value::Null], "{}", told.stdout);

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
fn records_have_the_shape_of_claude_code() {
    let yaml = "agents: [{ id: reader, model: 'openai:gpt-4o', tools: [read] }]";
    let forge = Forge::new().with_file("forge.yaml", yaml).with_file("notes.txt", "closed on Monday\n");
    let steps = || vec![Step::calls(&[("read", r#"{"path":"notes.txt"}"#)]), Step::text("On Monday.")];
    let server = ScriptedServer::start(steps());
    let told = run(&forge, &server, &["run", "--output-format", "stream-json", "When was it closed?"]);
    assert_eq!(told.code, 0, "{}", told.stderr);
    let records = events(&told);
    let kinds: Vec<&str> = records.iter().map(|record| record["type"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["system", "assistant", "user", "assistant", "result"]);
    let session = &records[0]["session_id"];
    assert!(records.iter().all(|record| record["session_id"] == *session && record["uuid"].is_string()));
    let init = &records[0];
    assert_eq!(
        (&init["subtype"], &init["tools"], &init["model"]),
        (&json!("init"), &json!(["read"]), &json!("openai:gpt-4o"))
    );
    let call = &records[1]["message"]["content"][0];
    assert_eq!(
        (&call["type"], &call["name"], &call["input"]),
        (&json!("tool_use"), &json!("read"), &json!({"path": "notes.txt"}))
    );
    let result = &records[2]["message"]["content"][0];
    assert_eq!((&result["type"], &result["tool_use_id"]), (&json!("tool_result"), &call["id"]));
    assert!(result["content"].as_str().unwrap().contains("closed on Monday"), "{result}");
    assert_eq!(records[3]["message"]["content"], json!([{"type": "text", "text": "On Monday."}]));
    let end = &records[4];
    assert_eq!(
        (&end["subtype"], &end["result"], &end["num_turns"]),
        (&json!("success"), &json!("On Monday."), &json!(2))
    );
    assert_eq!((&end["is_error"], &end["permission_denials"]), (&json!(false), &json!([])));
    assert!(end["usage"]["output_tokens"].is_u64() && end["total_cost_usd"].is_number(), "{end}");
    // Anthropic's SDK for Python refuses a result without these.
    assert!(end["duration_ms"].is_u64() && end["duration_api_ms"].is_u64(), "{end}");
    assert_eq!((&init["permissionMode"], &init["apiKeySource"]), (&json!("default"), &json!("user")));

    let server = ScriptedServer::start(steps());
    let told = run(&forge, &server, &["-p", "--output-format", "json", "When was it closed?"]);
    let only = events(&told);
    assert_eq!((told.code, only.len(), &only[0]["result"]), (0, 1, &json!("On Monday.")), "{}", told.stderr);

    // What ends otherwise is a result, too.
    for (step, arguments, code, subtype) in [
        (Step::status(400, "no"), &["--budget-tokens", "90k"][..], 1, "error_during_execution"),
        (Step::text("x"), &["--budget-tokens", "10"], 3, "error_max_budget_usd"),
    ] {
        let server = ScriptedServer::start(vec![step]);
        let all = [&["run", "--output-format", "stream-json", "task"], arguments].concat();
        let told = run(&forge, &server, &all);
        let records = events(&told);
        let end = records.last().unwrap();
        assert_eq!(
            (told.code, &end["subtype"], &end["is_error"]),
            (code, &json!(subtype), &json!(true)),
            "{end}"
        );
        assert_eq!(end["exit_code"], code, "{end}");
    }
}

#[test]
fn a_denied_call_is_told_with_its_arguments_and_what_would_have_allowed_it() {
    let yaml = "agents: [{ id: worker, model: 'openai:unheard-of', tools: [shell, write] }]";
    let forge = Forge::new().with_file("forge.yaml", yaml);
    let arguments = json!({"command": "echo planted"});
    let steps = || vec![Step::calls(&[("shell", &arguments.to_string())]), Step::text("Not done.")];
    for (flags, mode) in [
        (&["--mode", "edits"][..], "acceptEdits"),
        (&["--mode", "plan"], "plan"),
        (&["--mode", "ask"], "default"),
    ] {
        let server = ScriptedServer::start(steps());
        let all = [&["run", "--output-format", "stream-json", "Do it."], flags].concat();
        let told = run(&forge, &server, &all);
        let records = events(&told);
        let end = records.last().unwrap();
        assert_eq!(records[0]["permissionMode"], mode);
        assert_eq!(end["permission_denials"][0]["tool_input"], arguments, "{end}");
        // Its price is not known.
        assert_eq!((&end["total_cost_usd"], end["num_turns"].as_u64()), (&Value::Null, Some(2)), "{end}");
    }
    let server = ScriptedServer::start(vec![Step::text("Nothing to do.")]);
    let told = run(&forge, &server, &["run", "--yes", "--output-format", "stream-json", "Do it."]);
    assert_eq!(events(&told)[0]["permissionMode"], "bypassPermissions", "{}", told.stderr);

    let write = || Step::calls(&[("write", r#"{"path":"a.txt","content":"x"}"#)]);
    let git = || Step::calls(&[("write", r#"{"path":".git/config","content":"x"}"#)]);
    for (step, flags, expected) in [
        (
            steps().remove(0),
            &["--mode", "edits"][..],
            Some("`--allow shell` or `--yes` allows it in advance"),
        ),
        (write(), &[], Some("`--mode edits`, `--allow write` or `--yes` allows it in advance")),
        (git(), &["--yes"], Some("this call: `--allow write:.git/config` allows it in advance")),
        (steps().remove(0), &["--mode", "plan"], None),
    ] {
        let server = ScriptedServer::start(vec![step, Step::text("Not done.")]);
        let told = run(&forge, &server, &[&["run", "Do it."], flags].concat());
        let hint = told.stderr.lines().find(|line| line.contains("in advance"));
        assert_eq!(hint.is_some(), expected.is_some(), "{}", told.stderr);
        assert!(hint.unwrap_or_default().ends_with(expected.unwrap_or_default()), "{}", told.stderr);
    }
}

#[test]
fn an_answer_matches_its_schema_or_is_asked_for_again() {
    let schema = r#"{"type": "object", "required": ["day"], "properties": {"day": {"type": "string"}}}"#;
    let yaml = "agents: [{ id: reader, model: 'openai:gpt-4o' }]";
    let forge = Forge::new().with_file("forge.yaml", yaml).with_file("day.json", schema);
    let right = || Step::text("<think>Which?</think>\n```json\n{\"day\": \"Monday\"}\n```");
    let wrong = || Step::text("{\"day\": 1}");
    let task = ["run", "--output-schema", "day.json", "--report", "report.json", "When was it closed?"];
    let report =
        || -> Value { serde_json::from_slice(&std::fs::read(forge.path("report.json")).unwrap()).unwrap() };

    let server = ScriptedServer::start(vec![Step::text("On Monday."), wrong(), right()]);
    let told = run(&forge, &server, &task);
    let answer: Value = serde_json::from_str(&told.stdout).unwrap();
    assert_eq!((told.code, answer), (0, json!({"day": "Monday"})), "{}", told.stderr);
    assert_eq!((&report()["answer"], &report()["iterations"]), (&json!({"day": "Monday"}), &json!(3)));
    let requests = server.requests();
    // Without tools, the server is told the schema; the model always is.
    assert_eq!(requests[0]["response_format"]["json_schema"]["schema"]["required"], json!(["day"]));
    assert!(requests[0]["messages"].to_string().contains("must be JSON that matches"), "{}", requests[0]);
    assert!(requests[1]["messages"].to_string().contains("it is not JSON"), "{}", requests[1]);
    assert!(requests[2]["messages"].to_string().contains("want string, but got number"), "{}", requests[2]);

    let server = ScriptedServer::start(vec![wrong(), wrong(), wrong()]);
    let told = run(&forge, &server, &task);
    assert_eq!((told.code, told.stdout.as_str(), server.requests().len()), (11, "", 3), "{}", told.stderr);
    assert!(told.stderr.contains("does not match the schema\n  `day`: want string"), "{}", told.stderr);
    assert_eq!((&report()["answer"], &report()["exit_code"]), (&Value::Null, &json!(11)));

    let server = ScriptedServer::start(vec![right()]);
    let told = run(&forge, &server, &["run", "--json", "--output-schema", "day.json", "When?"]);
    let told = events(&told);
    let answer = &told[told.len() - 2];
    assert_eq!((&answer["event"], &answer["answer"]), (&json!("answer"), &json!({"day": "Monday"})));

    let server = ScriptedServer::start(vec![right()]);
    let told =
        run(&forge, &server, &["run", "--output-format", "json", "--output-schema", "day.json", "When?"]);
    assert_eq!(events(&told)[0]["structured_output"], json!({"day": "Monday"}));

    // A schema that is none is said before anything is sent.
    let server = ScriptedServer::start(vec![]);
    for (text, words) in
        [("{", "not JSON"), (r#"{"type": "objekt"}"#, "not a JSON Schema"), ("true", "a JSON object")]
    {
        std::fs::write(forge.path("bad.json"), text).unwrap();
        let told = run(&forge, &server, &["run", "--output-schema", "bad.json", "task"]);
        assert_eq!((told.code, told.stdout.as_str()), (2, ""), "{text}");
        assert!(told.stderr.contains(words), "{text}: {}", told.stderr);
    }
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
