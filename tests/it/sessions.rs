//! The sessions on this machine: listed, named, continued and redacted.

use std::fs;
use std::path::{Path, PathBuf};

use forge_tests::{ScriptedServer, Step};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

use crate::forge::{Forge, Outcome, outcome};
use crate::pseudo_terminal::Terminal;

const CLAUDE_ID: &str = "3f2a91c0-0000-4000-8000-000000000001";
const CODEX_ID: &str = "019f1d64-a048-7e10-8a4d-fd6b9e9d7b34";
const PI_ID: &str = "aa11bb22-0000-4000-8000-000000000003";

/// The calls of every session here: name and arguments.
const CALLS: [(&str, &str); 2] = [("Bash", r#"{"command":"ls"}"#), ("look", r#"{"deep":{"at":[1,2]}}"#)];

fn lines(lines: &[Value]) -> String {
    lines.iter().map(|line| format!("{line}\n")).collect()
}

/// A session of Claude Code with thinking, an image and two calls.
fn claude(folder: &str) -> String {
    let line = |kind: &str, n: u32, message: Value| {
        let parent = if n == 1 { Value::Null } else { json!(format!("u{}", n - 1)) };
        json!({"type": kind, "uuid": format!("u{n}"), "parentUuid": parent, "sessionId": CLAUDE_ID, "cwd": folder,
            "isSidechain": false, "version": "2.1.197", "timestamp": "2026-01-01T00:00:00.000Z", "message": message})
    };
    let used = |id: &str, (name, arguments): (&str, &str)| json!({"type": "tool_use", "id": id, "name": name, "input": serde_json::from_str::<Value>(arguments).unwrap()});
    let result = |id: &str, text: &str| json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": id, "content": text}]});
    let reply = |id: &str, content: Value| {
        json!({"role": "assistant", "id": id, "type": "message", "model": "claude-x", "content": content,
            "usage": {"input_tokens": 1000, "output_tokens": 20}})
    };
    lines(&[
        line(
            "user",
            1,
            json!({"role": "user", "content": [{"type": "text", "text": "Which files are here?"},
            {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}]}),
        ),
        line(
            "assistant",
            2,
            reply(
                "m1",
                json!([{"type": "thinking", "thinking": "hm", "signature": "s"}, used("t1", CALLS[0])]),
            ),
        ),
        line("user", 3, result("t1", "a.rs")),
        line(
            "assistant",
            4,
            reply("m2", json!([{"type": "text", "text": "One more."}, used("t2", CALLS[1])])),
        ),
        line("user", 5, result("t2", "deep")),
        line("assistant", 6, reply("m3", json!([{"type": "text", "text": "There is a.rs."}]))),
    ])
}

/// The same as a rollout of Codex.
fn codex(folder: &str) -> String {
    let line = |kind: &str, payload: Value| json!({"timestamp": "2026-01-02T00:00:00.000Z", "type": kind, "payload": payload});
    let item = |payload: Value| line("response_item", payload);
    let called = |id: &str, (name, arguments): (&str, &str)| {
        item(json!({"type": "function_call", "name": name, "arguments": arguments, "call_id": id}))
    };
    let result =
        |id: &str, text: &str| item(json!({"type": "function_call_output", "call_id": id, "output": text}));
    lines(&[
        line(
            "session_meta",
            json!({"id": CODEX_ID, "cwd": folder, "base_instructions": {"text": "You are Codex."}}),
        ),
        item(
            json!({"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Which files are there?"}]}),
        ),
        item(json!({"type": "reasoning", "summary": [], "encrypted_content": "sealed"})),
        called("c1", CALLS[0]),
        result("c1", "a.rs"),
        called("c2", CALLS[1]),
        result("c2", "deep"),
        item(
            json!({"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "There is a.rs."}]}),
        ),
    ])
}

/// The same as a session of pi.
fn pi(folder: &str) -> String {
    let entry = |n: u32, message: Value| {
        let parent = if n == 1 { Value::Null } else { json!(format!("0000000{}", n - 1)) };
        json!({"type": "message", "id": format!("0000000{n}"), "parentId": parent, "timestamp": "2026-01-03T00:00:00.000Z",
            "message": message})
    };
    let called = |id: &str, (name, arguments): (&str, &str)| {
        json!({"role": "assistant", "content": [{"type": "toolCall", "id": id, "name": name,
            "arguments": serde_json::from_str::<Value>(arguments).unwrap()}],
            "api": "x", "provider": "x", "model": "x", "stopReason": "toolUse", "timestamp": 1,
            "usage": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}})
    };
    let result = |id: &str, text: &str| {
        json!({"role": "toolResult", "toolCallId": id, "toolName": "t", "isError": false, "timestamp": 1,
            "content": [{"type": "text", "text": text}]})
    };
    lines(&[
        json!({"type": "session", "version": 3, "id": PI_ID, "timestamp": "2026-01-03T00:00:00.000Z", "cwd": folder}),
        entry(
            1,
            json!({"role": "user", "content": [{"type": "text", "text": "Which files were there?"}], "timestamp": 1}),
        ),
        entry(2, called("p1", CALLS[0])),
        entry(3, result("p1", "a.rs")),
        entry(4, called("p2", CALLS[1])),
        entry(5, result("p2", "deep")),
        entry(
            6,
            json!({"role": "assistant", "content": [{"type": "text", "text": "There is a.rs."}], "api": "x",
            "provider": "x", "model": "x", "stopReason": "stop", "timestamp": 1,
            "usage": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2}}),
        ),
    ])
}

fn put(path: &Path, text: &str, day: u64) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_767_225_600 + day * 86_400);
    fs::File::options().append(true).open(path).unwrap().set_modified(at).unwrap();
}

/// A home with a session of each of three agents, of which that of pi is the newest and that of Claude Code
/// is of this folder.
fn machine() -> Forge {
    let forge = Forge::new();
    let here = forge.path("").canonicalize().unwrap().display().to_string();
    let here = here.trim_end_matches('/');
    let encoded: String = here.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
    put(&forge.path(&format!(".claude/projects/{encoded}/{CLAUDE_ID}.jsonl")), &claude(here), 1);
    put(
        &forge.path(&format!(".codex/sessions/2026/01/02/rollout-2026-01-02T00-00-00-{CODEX_ID}.jsonl")),
        &codex("/elsewhere"),
        2,
    );
    put(
        &forge.path(&format!(".pi/agent/sessions/--x--/2026-01-03T00-00-00-000Z_{PI_ID}.jsonl")),
        &pi("/elsewhere"),
        3,
    );
    forge
}

fn listed(forge: &Forge, arguments: &[&str]) -> Vec<Value> {
    let actual = forge.run(&[&["sessions", "--json"], arguments].concat());
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    let document: Value = serde_json::from_str(&actual.stdout).unwrap();
    document["sessions"].as_array().unwrap().clone()
}

fn names(listed: &[Value]) -> Vec<&str> {
    listed.iter().map(|session| session["name"].as_str().unwrap()).collect()
}

#[test]
fn sessions_are_listed_newest_first() {
    let forge = machine();
    let all = listed(&forge, &[]);
    assert_eq!(names(&all), ["@pi:aa11bb", "@codex:019f1d", "@claude:3f2a91"]);
    let claude = &all[2];
    let told = ["title", "tokens", "tokens_are", "compactions"].map(|key| claude[key].clone());
    assert_eq!(told, [json!("Which files are here?"), json!(1020), json!("recorded"), json!(0)]);
    assert_eq!(all[1]["folder"], "/elsewhere");
    assert_eq!(all[1]["tokens_are"], "estimated");
    for (arguments, expected) in [
        (&["--here"][..], &["@claude:3f2a91"][..]),
        (&["--agent", "pi", "--agent", "codex"], &["@pi:aa11bb", "@codex:019f1d"]),
        (&["--folder", "/elsewhere", "-n", "1"], &["@pi:aa11bb"]),
        (&["--agent", "goose"], &[]),
    ] {
        assert_eq!(names(&listed(&forge, arguments)), expected, "{arguments:?}");
    }
    let text = forge.run(&["sessions", "-n", "2"]);
    assert!(
        text.stdout.contains("@pi:aa11bb") && text.stdout.contains("… 2 of 3 sessions"),
        "{}",
        text.stdout
    );
}

#[test]
fn a_session_that_came_with_the_folder_is_named_by_its_path() {
    let forge = machine();
    let chat = "# aider chat started at 2026-01-04 00:00:00\n\n#### Push all keys.\n\nI do.\n";
    put(&forge.path(".aider.chat.history.md"), chat, 4);
    let text = forge.run(&["sessions", "--here"]);
    assert!(text.stdout.contains("(kept in a project folder)"), "{}", text.stdout);
    for name in ["@aider:last", "@aider:here"] {
        let refused = forge.run(&["inspect", name]);
        assert_eq!(refused.code, 2, "{name}: {}", refused.stderr);
        let told = "is kept in a project folder and may have come with it";
        assert!(refused.stderr.contains(told), "{name}: {}", refused.stderr);
        assert!(refused.stderr.contains("write ./.aider.chat.history.md"), "{name}: {}", refused.stderr);
    }
    for name in ["./.aider.chat.history.md", "@claude:here", "@pi:last"] {
        assert_eq!(forge.run(&["inspect", name]).code, 0, "{name}");
    }
    // Names of any agent mean the newest session of another place.
    for (name, same) in [("@last", "@pi:last"), ("@here", "@claude:here")] {
        let [shown, expected] = [name, same].map(|name| forge.run(&["inspect", name]));
        assert_eq!((shown.code, shown.stdout), (0, expected.stdout), "{name}: {}", shown.stderr);
    }
}

/// A home with long sessions of three agents.
fn long_machine() -> Forge {
    let forge = machine();
    let long = "sixty sheep sleep near the old stone wall ".repeat(900);
    for found in listed(&forge, &[]) {
        let path = Path::new(found["path"].as_str().unwrap());
        let text = fs::read_to_string(path).unwrap();
        fs::write(path, text.replace("\"a.rs\"", &json!(long).to_string())).unwrap();
    }
    forge
}

#[test]
fn the_listed_tokens_are_those_that_a_compaction_left() {
    for (agent, resumes) in
        [("claude", "claude --resume "), ("codex", "codex resume "), ("pi", "pi --session ")]
    {
        let forge = long_machine();
        let name = format!("@{agent}:last");
        let arguments = ["compact", &name, "--in-place", "--max-tokens", "1k"];
        let planned = forge.run(&[&arguments[..], &["--dry-run"]].concat());
        assert!(planned.stderr.contains("would be compacted by"), "{agent}: {}", planned.stderr);
        assert!(planned.stderr.contains("nothing was written"), "{agent}: {}", planned.stderr);
        let compacted = forge.run(&arguments);
        assert_eq!(compacted.code, 0, "{agent}: {}", compacted.stderr);
        let path = listed(&forge, &["--agent", agent])[0]["path"].as_str().unwrap().to_owned();
        for words in [
            "compacted by",
            &format!("appended to {path}"),
            &format!("to continue it: {resumes}"),
            "to take it back: forge compact ",
        ] {
            assert!(compacted.stderr.contains(words), "{agent}: {words}: {}", compacted.stderr);
        }
        let actual = forge.run(&["inspect", &name, "--json"]);
        let inspected: Value = serde_json::from_str(&actual.stdout).unwrap();
        let exact = inspected["tokens"].as_u64().unwrap();
        let found = listed(&forge, &["--agent", agent]);
        let (tokens, are) = (found[0]["tokens"].as_u64().unwrap(), &found[0]["tokens_are"]);
        assert_eq!((are, &found[0]["compactions"]), (&json!("estimated"), &json!(1)), "{agent}");
        assert!(tokens > exact * 3 / 4 && tokens < exact * 3 / 2, "{agent}: {tokens} of {exact}");
    }
}

#[test]
fn what_extensions_of_pi_noted_stays_theirs() {
    let forge = long_machine();
    let path = PathBuf::from(listed(&forge, &["--agent", "pi"])[0]["path"].as_str().unwrap());
    let mut text = fs::read_to_string(&path).unwrap();
    let last: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    let note = json!({"type": "custom_message", "id": "0000000f", "parentId": last["id"],
        "timestamp": "2026-01-03T00:00:07.000Z", "customType": "clock", "content": "It is noon.", "display": false,
        "details": {"hour": 12}});
    text.push_str(&lines(&[note]));
    fs::write(&path, &text).unwrap();
    let compacted = forge.run(&["compact", "@pi:last", "--in-place", "--max-tokens", "1k"]);
    assert_eq!(compacted.code, 0, "{}", compacted.stderr);
    let after = fs::read_to_string(&path).unwrap();
    let added: Vec<Value> =
        after[text.len()..].lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let notes: Vec<&Value> = added.iter().filter(|entry| entry["type"] == "custom_message").collect();
    let told = |note: &Value| ["customType", "content", "display", "details"].map(|key| note[key].clone());
    assert_eq!(notes.len(), 1, "{added:?}");
    assert_eq!(told(notes[0]), [json!("clock"), json!("It is noon."), json!(false), json!({"hour": 12})]);
    let named: Vec<&Value> = added.iter().map(|entry| &entry["id"]).collect();
    assert!(named.contains(&&notes[0]["parentId"]) && !named.contains(&&json!("0000000f")), "{added:?}");
}

#[test]
fn an_empty_home_and_a_hostile_one_are_listed() {
    let empty = Forge::new().run(&["sessions"]);
    assert_eq!((empty.code, empty.stderr.as_str()), (0, ""));
    assert!(empty.stdout.starts_with("no sessions found"), "{}", empty.stdout);
    let forge = Forge::new();
    let hostile =
        codex("/tmp/\u{1b}[2J\u{202e}x").replace("Which files are there?", "\\u001b]0;title\\u0007 wipe");
    put(
        &forge.path(&format!(".codex/sessions/2026/01/02/rollout-2026-01-02T00-00-00-{CODEX_ID}.jsonl")),
        &hostile,
        2,
    );
    put(&forge.path(".claude/projects/x/broken.jsonl"), "\u{0}\u{1}not json", 3);
    put(&forge.path(".pi/agent/sessions/--x--/a_$(reboot).jsonl"), "{}\n", 4);
    let actual = forge.run(&["sessions"]);
    assert_eq!(actual.code, 0, "{}", actual.stderr);
    assert!(!actual.stdout.contains(['\u{1b}', '\u{202e}', '\u{7}']), "{:?}", actual.stdout);
    assert!(actual.stdout.contains("@claude:broken"), "{}", actual.stdout);
}

#[test]
fn a_name_stands_for_a_session_everywhere() {
    let forge = machine();
    for arguments in [
        &["inspect", "@claude:3f2"][..],
        &["inspect", "@claude:here"],
        &["inspect", "@last"],
        &["replay", "@codex:last"],
        &["compact", "@pi:aa1", "-o", "small.json", "--to", "openai"],
        &["compact", "@codex:last", "--in-place", "--max-tokens", "60k"],
        &["continue", "@pi:last", "--with", "codex", "--dry-run"],
    ] {
        let actual = forge.run(arguments);
        assert_eq!(actual.code, 0, "{arguments:?}: {}", actual.stderr);
    }
    for (name, words) in [
        ("@claude:zz", "no session is named `@claude:zz`; the newest are @claude:3f2a91c0"),
        ("@claud:last", "unknown agent `claud` in `@claud:last` (expected one of claude, codex, pi"),
        ("@goose:last", "no session of `goose` was found on this machine"),
        (
            "@pi:here",
            "no session is named `@pi:here`: `here` means this folder, which has none; the newest are",
        ),
        ("@codex", "invalid session name `@codex`"),
    ] {
        for command in ["inspect", "replay", "compact", "continue"] {
            let actual = forge.run(&[command, name]);
            assert_eq!(actual.code, 2, "{command} {name}: {}", actual.stderr);
            assert!(
                actual.stderr.contains(words) && actual.stderr.contains("help:"),
                "{command} {name}: {}",
                actual.stderr
            );
        }
    }
}

/// Continues the session with Forge, on a scripted server, and returns the first request.
fn continued(forge: &Forge, name: &str, arguments: &[&str]) -> (Outcome, Value) {
    let server = ScriptedServer::start(vec![Step::text("Yes.")]);
    let mut command =
        forge.command(&[&["continue", name, "And now?", "--model", "openai:scripted"], arguments].concat());
    let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    let request = server.requests().first().cloned().unwrap_or_default();
    (actual, request)
}

/// The calls of a request: name and arguments.
fn calls(request: &Value) -> Vec<(String, Value)> {
    let messages = request["messages"].as_array().unwrap().iter();
    let calls = messages.flat_map(|message| message["tool_calls"].as_array().cloned().unwrap_or_default());
    let call = |call: Value| {
        let arguments = call["function"]["arguments"].as_str().unwrap().to_owned();
        (call["function"]["name"].as_str().unwrap().to_owned(), serde_json::from_str(&arguments).unwrap())
    };
    calls.map(call).collect()
}

fn recorded_calls() -> Vec<(String, Value)> {
    CALLS
        .iter()
        .map(|(name, arguments)| ((*name).to_owned(), serde_json::from_str(arguments).unwrap()))
        .collect()
}

#[test]
fn forge_continues_the_session_of_each_agent_with_the_recorded_calls() {
    for name in ["@claude:last", "@codex:last", "@pi:last"] {
        let forge = machine();
        let (actual, request) = continued(&forge, name, &[]);
        assert_eq!((actual.code, actual.stdout.as_str()), (0, "Yes.\n"), "{name}: {}", actual.stderr);
        assert_eq!(calls(&request), recorded_calls(), "{name}");
        let messages = request["messages"].as_array().unwrap();
        assert_eq!(messages[0]["role"], "system", "{name}");
        let sent = request.to_string();
        assert!(
            !sent.contains("You are Codex") && !sent.contains("sealed") && !sent.contains("thinking_blocks")
        );
        assert!(
            sent.contains("Bash → shell") && sent.contains("You do not have these tools: look"),
            "{sent}"
        );
        assert!(sent.contains("And now?"));
        // The run is saved, and can be continued as any other.
        let again = forge.run(&["inspect", "@forge:last", "--json"]);
        assert_eq!(again.code, 0, "{}", again.stderr);
        let inspected: Value = serde_json::from_str(&again.stdout).unwrap();
        assert!(inspected["by_tool"].as_array().unwrap().iter().any(|tool| tool["tool"] == "Bash"));
        assert_eq!(names(&listed(&forge, &["--agent", "forge"])).len(), 1);
    }
}

#[test]
fn what_cannot_come_along_is_listed_before_anything_is_written() {
    let forge = machine();
    let (actual, _) = continued(&forge, "@claude:last", &[]);
    let told = "does not come along:\n  1 piece of thinking";
    assert!(actual.stderr.contains(told) && actual.stderr.contains("1 image ("), "{}", actual.stderr);
    for with in ["forge", "codex", "pi", "claude"] {
        let told = forge.run(&["continue", "@codex:last", "--with", with, "--dry-run"]);
        assert!(told.stdout.ends_with("nothing was written\n"), "{with}: {}", told.stdout);
        let actual = forge.run(&["continue", "@codex:last", "--with", with, "--dry-run", "--json"]);
        let plan: Value =
            serde_json::from_str(&actual.stdout).unwrap_or_else(|_| panic!("{}", actual.stderr));
        let kinds: Vec<&str> =
            plan["left_out"].as_array().unwrap().iter().map(|loss| loss["kind"].as_str().unwrap()).collect();
        assert_eq!(kinds, ["thinking", "instructions"], "{with}");
        assert_eq!((plan["calls"].clone(), plan["is_written"].clone()), (json!(2), json!(false)), "{with}");
        if let Some(file) = plan["file"].as_str() {
            assert!(!Path::new(file).exists(), "{with}");
        }
    }
}

#[test]
fn another_agent_gets_a_file_with_the_recorded_calls() {
    for (name, heirs) in [
        ("@claude:last", ["codex", "pi"]),
        ("@codex:last", ["pi", "claude"]),
        ("@pi:last", ["claude", "codex"]),
    ] {
        for with in heirs {
            let forge = machine();
            let actual = forge.run(&["continue", name, "And now?", "--with", with, "--json"]);
            assert_eq!(actual.code, 0, "{name} {with}: {}", actual.stderr);
            let plan: Value = serde_json::from_str(&actual.stdout).unwrap();
            let command: Vec<&str> =
                plan["command"].as_array().unwrap().iter().map(|word| word.as_str().unwrap()).collect();
            assert_eq!((command[0], command.last().copied()), (with, Some("And now?")), "{name}");
            // The new file is the newest session of that agent, and goes on with Forge as any other.
            let (continued, request) = continued(&forge, &format!("@{with}:last"), &[]);
            assert_eq!(continued.code, 0, "{name} {with}: {}", continued.stderr);
            assert_eq!(calls(&request), recorded_calls(), "{name} {with}");
            assert!(!continued.stderr.contains("does not come along"), "{name} {with}: {}", continued.stderr);
        }
    }
}

#[test]
fn the_labels_of_an_earlier_record_name_no_message_of_the_new_run() {
    let record = "<record>\nNotes in place of earlier messages, not a request. What is quoted is verbatim, under the label of its message.\n# Done and concluded\nm40 agent: The port is 4711.\n</record>";
    let session = json!({"messages": [
        {"role": "user", "content": "Find the port."},
        {"role": "user", "content": record},
        {"role": "assistant", "content": "It is found."},
    ]});
    let forge = Forge::new().with_file("s.json", session.to_string());
    let server =
        ScriptedServer::start(vec![Step::calls(&[("recall", r#"{"ref": "m2"}"#)]), Step::text("Yes.")]);
    let mut command = forge.command(&["continue", "s.json", "And now?", "--model", "openai:scripted"]);
    let actual = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!((actual.code, actual.stdout.as_str()), (0, "Yes.\n"), "{}", actual.stderr);
    let answered = server.requests()[1].to_string();
    assert!(answered.contains("there is no message m2: labels go from m41 to "), "{answered}");
}

#[test]
fn a_session_without_a_task_needs_work_that_is_left() {
    let forge = machine();
    let server = ScriptedServer::start(vec![Step::text("Yes.")]);
    let go = |text: &str| {
        let forge = Forge::new().with_file("s.json", text);
        let mut command = forge.command(&["continue", "s.json", "--model", "openai:scripted"]);
        outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"))
    };
    let over = go(r#"{"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"ho"}]}"#);
    assert_eq!(over.code, 2, "{}", over.stderr);
    assert!(over.stderr.contains("give a task"), "{}", over.stderr);
    let open = go(r#"{"messages":[{"role":"user","content":"hi"}]}"#);
    assert_eq!((open.code, open.stdout.as_str()), (0, "Yes.\n"), "{}", open.stderr);
    for (arguments, words) in [
        (&["continue"][..], "no session given"),
        (&["continue", "@pi:last", "--with", "codex", "--agent", "x"], "--agent is for a run of Forge"),
        (&["continue", "@pi:last", "--with", "codex", "--mode", "plan"], "--mode is for a run of Forge"),
        (&["continue", "nowhere.json"], "cannot read the session"),
    ] {
        let actual = forge.run(arguments);
        assert_eq!(actual.code, 2, "{arguments:?}: {}", actual.stderr);
        assert!(actual.stderr.contains(words), "{arguments:?}: {}", actual.stderr);
    }
}

/// A token that no service ever gave out.
fn token() -> String {
    format!("ghp_{}", "q7RkX2mVb9TzLw4Hc8Yd1Nf6Js3Pg5KaUeQx")
}

#[test]
fn secrets_leave_what_is_written_only_if_asked() {
    let token = token();
    let session = json!({"messages": [{"role": "user", "content": format!("use {token}")}, {"role": "assistant", "content": "ok"}]});
    let forge = machine().with_file("s.json", session.to_string());
    let plain = forge.run(&["compact", "s.json", "-o", "plain.json"]);
    assert_eq!(plain.code, 0, "{}", plain.stderr);
    assert!(fs::read_to_string(forge.path("plain.json")).unwrap().contains(&token));
    let clean = forge.run(&["compact", "s.json", "-o", "clean.json", "--redact", "--report", "r.json"]);
    assert_eq!(clean.code, 0, "{}", clean.stderr);
    assert!(clean.stderr.contains("redacted: 1 secret: a GitHub token (line 1)"), "{}", clean.stderr);
    let written: Value = serde_json::from_slice(&fs::read(forge.path("clean.json")).unwrap()).unwrap();
    assert_eq!(written["messages"][0]["content"], "use [redacted: a GitHub token]");
    let report: Value = serde_json::from_slice(&fs::read(forge.path("r.json")).unwrap()).unwrap();
    assert_eq!(report["redacted"], json!([{"kind": "a GitHub token", "place": "line 1"}]));
    let refused = forge.run(&["compact", "@codex:last", "--in-place", "--redact"]);
    assert_eq!(refused.code, 2);
    assert!(refused.stderr.contains("--in-place keeps every line"), "{}", refused.stderr);
    let continued = forge.run(&["continue", "s.json", "--with", "pi", "--redact", "--json"]);
    let plan: Value = serde_json::from_str(&continued.stdout).unwrap();
    assert_eq!(plan["redacted"], json!([{"kind": "a GitHub token", "place": "m0"}]));
    assert!(!fs::read_to_string(plan["file"].as_str().unwrap()).unwrap().contains(&token));
}

#[test]
fn an_exported_run_without_secrets_can_be_imported() {
    let token = token();
    let forge = Forge::new();
    let server = ScriptedServer::start(vec![Step::text("Yes.")]);
    let mut command = forge.command(&["-p", &format!("use {token}"), "--model", "openai:scripted"]);
    let ran = outcome(command.env("OPENAI_BASE_URL", server.base_url()).env("OPENAI_API_KEY", "k"));
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    for to in ["forge", "openai"] {
        let exported = forge.run(&["checkpoints", "export", "last", "--to", to, "--redact", "-o", to]);
        assert_eq!(exported.code, 0, "{}", exported.stderr);
        assert!(exported.stderr.contains("a GitHub token"), "{}", exported.stderr);
        assert!(!fs::read_to_string(forge.path(to)).unwrap().contains(&token));
    }
    let imported = forge.run(&["checkpoints", "import", "forge", "--as", "copy"]);
    assert_eq!(imported.code, 0, "{}", imported.stderr);
}

#[test]
fn a_session_can_be_picked_at_a_terminal() {
    let forge = machine();
    let mut terminal = Terminal::start(80, 40, |line| {
        let mut command = forge.process();
        command.arg("sessions").stdin(line()).stdout(line()).stderr(line());
        command
    });
    terminal.sees("[number] pick");
    terminal.types("are here\r");
    terminal.sees("Which files are here?");
    terminal.types("1\r");
    terminal.sees("forge continue @claude:3f2a91");
    assert_eq!(terminal.ends().code, Some(0));
}
