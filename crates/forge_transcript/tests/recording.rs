//! The rules of the normal form, each with the smallest session that shows it.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

use forge_domain::{
    Body, ContextMessage, Message, MessageId, Replacement, Role, TokenCounter, Tokens, speaker,
};
use forge_transcript::{Draft, Format, Recording, read, read_as, write_messages};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// The normal form of a list of chat-completions messages.
fn openai(messages: &Value) -> Recording {
    let request = json!({"messages": messages}).to_string();
    read(request.as_bytes(), "session.json").unwrap()[0].recording()
}

/// The normal form of records of Claude Code, each the successor of the one before it.
fn claude_code(records: &[Value]) -> Recording {
    let mut lines = String::new();
    let mut parent = Value::Null;
    for (n, record) in records.iter().enumerate() {
        let mut line = json!({"uuid": format!("u{n}"), "parentUuid": parent, "sessionId": "s"});
        line.as_object_mut().unwrap().extend(record.as_object().unwrap().clone());
        parent = line["uuid"].clone();
        lines += &format!("{line}\n");
    }
    read_as(own_format(), lines.as_bytes(), "session.jsonl").unwrap()[0].recording()
}

fn own_format() -> Format {
    Format::named("claude-code").unwrap()
}

fn user(content: impl Into<Value>) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": content.into()}})
}

fn assistant(id: &str, content: impl Into<Value>) -> Value {
    json!({"type": "assistant", "message": {"role": "assistant", "id": id, "content": content.into()}})
}

/// A recording in short: `s`, `u`, `a` and a text, `a+id(arguments)…` with calls, `r` with call id and output, marked
/// `!` for an error.
fn short(recording: &Recording) -> Vec<String> {
    let line = |message: &Message| {
        let text = message.content().map(forge_domain::Content::to_text).unwrap_or_default();
        let role = match message.role() {
            Role::System => "s",
            Role::User => "u",
            Role::Assistant => "a",
            Role::Tool => "r",
        };
        let calls = message.calls().iter().map(|call| format!("+{}{}", call.id, call.arguments));
        let told = match &message.body {
            Body::Tool(result) => format!("{}{}:", result.call_id, if result.is_error { "!" } else { "" }),
            _ => String::new(),
        };
        format!("{role} {told}{text}{}", calls.collect::<String>())
    };
    recording.messages.iter().map(line).collect()
}

fn call(id: &str, arguments: impl Into<Value>) -> Value {
    json!({"id": id, "type": "function", "function": {"name": "f", "arguments": arguments.into()}})
}

fn calls(calls: &[Value]) -> Value {
    json!({"role": "assistant", "content": null, "tool_calls": calls})
}

fn result(id: &str, content: impl Into<Value>) -> Value {
    json!({"role": "tool", "tool_call_id": id, "content": content.into()})
}

#[test]
fn texts_are_stripped_and_merged() {
    for (name, messages, expected) in [
        (
            "newlines around, not blanks",
            json!([{"role": "user", "content": "\n hi \n\n"}, {"role": "assistant", "content": "\nyes"}]),
            vec!["u  hi ", "a yes"],
        ),
        (
            "blank",
            json!([{"role": "user", "content": " \n\t"}, {"role": "user", "content": "hi"}]),
            vec!["u hi"],
        ),
        (
            "system and user messages stay apart",
            json!([{"role": "developer", "content": "x"}, {"role": "system", "content": "y"},
                {"role": "user", "content": "a"}, {"role": "user", "content": "b"}]),
            vec!["s x", "s y", "u a", "u b"],
        ),
        (
            "assistant messages are one",
            json!([{"role": "assistant", "content": "a"}, {"role": "assistant", "content": ""},
                {"role": "assistant", "content": "b"}]),
            vec!["a a\n\nb"],
        ),
        (
            "but not behind a result",
            json!([calls(&[call("1", "{}")]), result("1", "x"), {"role": "assistant", "content": "b"}]),
            vec!["a +1{}", "r 1:x", "a b"],
        ),
        (
            "parts and images",
            json!([{"role": "user", "content": [{"type": "text", "text": "see"}, {"type": "text", "text": ""},
                {"type": "image_url", "image_url": {"url": "data:"}}]}]),
            vec!["u see\n[image]"],
        ),
        ("reasoning", json!([{"role": "assistant", "content": "b", "reasoning_content": "hm"}]), vec!["a b"]),
        (
            "reasoning as parts",
            json!([{"role": "assistant", "content": [{"type": "reasoning", "text": "hm"}], "tool_calls": [call("1", "{}")]},
                result("1", "x"), {"role": "assistant", "content": "b"}]),
            vec!["a +1{}", "r 1:x", "a b"],
        ),
        ("thoughts", json!([{"role": "assistant", "content": "hm\n</think>\n\nb"}]), vec!["a b"]),
    ] {
        let actual = openai(&messages);
        assert_eq!(short(&actual), expected, "{name}");
        assert!(actual.messages.iter().all(|message| message.extra.is_empty()), "{name}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn results_stand_behind_their_calls_in_the_calls_order() {
    for (name, messages, expected, orphans, missing) in [
        (
            "parallel calls, answered in another order",
            json!([calls(&[call("1", "{}"), call("2", "{}")]), result("2", "b"), result("1", "a")]),
            vec!["a +1{}+2{}", "r 1:a", "r 2:b"],
            0,
            0,
        ),
        (
            "calls of two messages without results between",
            json!([calls(&[call("1", "{}")]), calls(&[call("2", "{}")]), result("1", "a"), result("2", "b")]),
            vec!["a +1{}+2{}", "r 1:a", "r 2:b"],
            0,
            0,
        ),
        (
            "a result behind a user message",
            json!([calls(&[call("1", "{}")]), {"role": "user", "content": "wait"}, result("1", "a")]),
            vec!["a +1{}", "r 1:a", "u wait"],
            0,
            0,
        ),
        (
            "an id used twice over the session",
            json!([calls(&[call("1", "{}")]), result("1", "a"), calls(&[call("1", "{}")]), result("1", "b")]),
            vec!["a +1{}", "r 1:a", "a +1{}", "r 1:b"],
            0,
            0,
        ),
        (
            "an id used twice in a message",
            json!([
                calls(&[call("1", "{}"), call("1", "{}"), call("1", "{}")]),
                result("1", "a"),
                result("1", "b")
            ]),
            vec!["a +1{}+1_2{}+1_3{}", "r 1:a", "r 1_2:b", "r 1_3:[no result recorded]"],
            0,
            1,
        ),
        (
            "a late result goes to the earlier call that has none",
            json!([
                calls(&[call("1", "{}"), call("2", "{}")]),
                result("2", "b"),
                calls(&[call("1", "{}")]),
                result("1", "new"),
                result("1", "old")
            ]),
            vec!["a +1{}+2{}", "r 1:old", "r 2:b", "a +1{}", "r 1:new"],
            0,
            0,
        ),
        (
            "a result of no call",
            json!([result("9", "x"), {"role": "user", "content": "hi"}, result("9", "y")]),
            vec!["u hi"],
            2,
            0,
        ),
        (
            "nothing put out",
            json!([calls(&[call("1", "{}"), call("2", "{}")]), result("1", " \n"), result("2", Value::Null)]),
            vec!["a +1{}+2{}", "r 1:(no output)", "r 2:(no output)"],
            0,
            0,
        ),
        (
            "newlines of a result stay",
            json!([calls(&[call("1", "{}")]), result("1", "\na\n")]),
            vec!["a +1{}", "r 1:\na\n"],
            0,
            0,
        ),
        (
            "an error",
            json!([calls(&[call("1", "{}")]), {"role": "tool", "tool_call_id": "1", "content": null, "error": "no"}]),
            vec!["a +1{}", "r 1!:no"],
            0,
            0,
        ),
        (
            "no error",
            json!([calls(&[call("1", "{}")]), {"role": "tool", "tool_call_id": "1", "content": "a", "error": false}]),
            vec!["a +1{}", "r 1:a"],
            0,
            0,
        ),
        (
            "calls and results repeated as parts",
            json!([{"role": "assistant", "content": [{"type": "text", "text": "I look."},
                    {"type": "tool_call", "tool_call_id": "1", "name": "f", "arguments": "{}"}], "tool_calls": [call("1", "{}")]},
                {"role": "tool", "tool_call_id": "1", "content": [{"type": "tool_output", "text": "a"}]}]),
            vec!["a I look.+1{}", "r 1:a"],
            0,
            0,
        ),
        (
            "ids in a list, numbers, or missing",
            json!([calls(&[call("1", "{}"), json!({"id": 2, "function": {"name": "f", "arguments": "{}"}}),
                json!({"function": "f", "args": {"a": 1}})]),
                {"role": "tool", "tool_call_ids": ["1"], "content": "a"}, {"role": "tool", "tool_call_id": 2, "content": "b"},
                {"role": "tool", "content": "c"}]),
            vec!["a +1{}+2{}+call_1_2{\"a\": 1}", "r 1:a", "r 2:b", "r call_1_2:[no result recorded]"],
            1,
            1,
        ),
    ] {
        let actual = openai(&messages);
        assert_eq!(short(&actual), expected, "{name}");
        assert_eq!((actual.orphans, actual.missing_results), (orphans, missing), "{name}");
    }
}

#[test]
fn a_flat_call_keeps_its_name() {
    let call = json!({"name": "read_file", "args": {"path": "a"}, "id": "1", "type": "tool_call"});
    let messages = json!([{"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "1", "name": "read_file", "content": "a"}]);
    let actual = openai(&messages);
    assert_eq!(actual.messages[0].calls()[0].name.as_str(), "read_file");
    assert_eq!(short(&actual), ["a +1{\"path\": \"a\"}", "r 1:a"]);
}

#[test]
fn calls_in_the_older_form_keep_their_results() {
    let called = |name: &str| json!({"role": "assistant", "content": null, "function_call": {"name": name, "arguments": "{}"}});
    let answered = |name: &str, text: &str| json!({"role": "function", "name": name, "content": text});
    for (name, messages, expected, orphans) in [
        ("a call", json!([called("f"), answered("f", "a")]), vec!["a +call_0{}", "r call_0:a"], 0),
        (
            "twice, and one that nothing answers",
            json!([called("f"), answered("f", "a"), called("g"), called("f"), answered("f", "b")]),
            vec![
                "a +call_0{}",
                "r call_0:a",
                "a +call_2{}+call_3{}",
                "r call_2:[no result recorded]",
                "r call_3:b",
            ],
            0,
        ),
        (
            "a result of no call",
            json!([called("f"), answered("h", "a")]),
            vec!["a +call_0{}", "r call_0:[no result recorded]"],
            1,
        ),
    ] {
        let actual = openai(&messages);
        assert_eq!(short(&actual), expected, "{name}");
        assert_eq!(actual.orphans, orphans, "{name}");
    }
}

#[test]
fn arguments_are_objects() {
    for (arguments, expected) in [
        (json!("{\"a\":1e-5}"), r#"{"a": 1e-05}"#),
        (json!("ls"), r#"{"input": "ls"}"#),
        (json!(null), "{}"),
        (json!({"b": [1, 2.0]}), r#"{"b": [1, 2.0]}"#),
        (json!([1]), r#"{"input": [1]}"#),
        (json!(""), r#"{"input": ""}"#),
    ] {
        let actual =
            openai(&json!([calls(&[call("1", arguments)])])).messages[0].calls()[0].arguments.clone();
        assert_eq!(actual, expected);
    }
}

#[test]
fn a_role_that_also_names_its_author_is_read_and_kept() {
    let entries = json!([
        {"role": "user", "content": "Find it."},
        {"role": "assistant-sub-7", "content": "Look in a.", "_metadata": {"original_role": "user"}},
        {"role": "assistant-sub-7", "content": null, "tool_calls": [call("1", "{}")]},
        {"role": "assistant-sub-7", "tool_call_id": "1", "content": "out"},
        {"role": "assistant:sub-7", "content": "It is there."},
    ]);
    let text = json!({"messages": entries}).to_string();
    let session = read(text.as_bytes(), "f").unwrap().remove(0);
    let author = |message: Message| {
        let name = speaker(&message).unwrap_or_default().to_owned();
        (message.role(), message.note_by().is_some(), name)
    };
    let actual: Vec<(Role, bool, String)> = session.messages().map(author).collect();
    let expected = [
        (Role::User, false, ""),
        (Role::User, true, ""),
        (Role::Assistant, false, "sub-7"),
        (Role::Tool, false, ""),
        (Role::Assistant, false, "sub-7"),
    ];
    assert_eq!(actual, expected.map(|(role, is_note, name)| (role, is_note, name.to_owned())));

    let draft = Draft::open(&session, 0);
    assert_eq!(draft.repairs(), []);
    let id = std::iter::successors(Some(MessageId::FIRST), |id| Some(id.next())).nth(3).unwrap();
    let less = ContextMessage::count(draft.messages().nth(3).unwrap().with_content("less"), &Characters);
    let replacements = [Replacement { replaces: vec![id], with: vec![less] }];
    let written = draft.rewrite(text.as_bytes(), &replacements, draft.format()).unwrap();
    let mut expected = entries;
    expected[3]["content"] = json!("less");
    assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), json!({"messages": expected}));
}

#[test]
fn thoughts_in_a_text_are_reasoning_and_stay_in_the_file() {
    for said in ["hm\n</think>\n\nHere.", "<think>hm</think>\nHere."] {
        let mut entries =
            json!([{"role": "user", "content": "Find it."}, {"role": "assistant", "content": said}]);
        let text = json!({"messages": entries}).to_string();
        let session = read(text.as_bytes(), "f").unwrap().remove(0);
        let draft = Draft::open(&session, 0);
        let messages: Vec<Message> = draft.messages().collect();
        assert_eq!(messages[1].to_text(), "Here.");
        assert_eq!(messages[1].extra["reasoning_content"], json!("hm"));

        let less = ContextMessage::count(messages[0].with_content("less"), &Characters);
        let replacements = [Replacement { replaces: vec![MessageId::FIRST], with: vec![less] }];
        let written = draft.rewrite(text.as_bytes(), &replacements, draft.format()).unwrap();
        entries[0]["content"] = json!("less");
        assert_eq!(serde_json::from_slice::<Value>(&written).unwrap(), json!({"messages": entries}));
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn records_of_claude_code_become_messages() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let tool = |id: &str| json!({"type": "tool_use", "id": id, "name": "f", "input": {"a": 1}});
    let told =
        |id: &str, content: Value| json!({"type": "tool_result", "tool_use_id": id, "content": content});
    let with = |mut record: Value, key: &str, value: Value| {
        record[key] = value;
        record
    };
    for (name, records, expected) in [
        (
            "a reply in pieces, with results between them",
            vec![
                user(json!("hi")),
                assistant("m1", json!([{"type": "thinking", "thinking": "hm", "signature": "s"}])),
                assistant("m1", json!([text("one")])),
                assistant("m1", json!([tool("1")])),
                user(json!([told("1", json!("a"))])),
                assistant("m1", json!([tool("2")])),
                user(json!([told("2", json!([text("b"), {"type": "image", "source": {}}]))])),
                assistant("m2", json!([text("done")])),
            ],
            vec!["u hi", "a one+1{\"a\": 1}+2{\"a\": 1}", "r 1:a", "r 2:b\n[image]", "a done"],
        ),
        (
            "results first, then the user's text",
            vec![
                assistant("m1", json!([tool("1")])),
                user(
                    json!([text("and"), told("1", json!(null)), {"type": "document", "source": {}}, text("go")]),
                ),
            ],
            vec!["a +1{\"a\": 1}", "r 1:(no output)", "u and\n[image]\ngo"],
        ),
        (
            "an error, and one that says null",
            vec![
                assistant("m1", json!([tool("1"), tool("2")])),
                user(json!([with(told("1", json!("x")), "is_error", json!(true))])),
                user(json!([with(told("2", json!("y")), "is_error", json!(null))])),
            ],
            vec!["a +1{\"a\": 1}+2{\"a\": 1}", "r 1!:x", "r 2:y"],
        ),
        (
            "a compaction",
            vec![
                user(json!("hi")),
                assistant("m1", json!([text("yes")])),
                json!({"type": "system", "subtype": "compact_boundary", "parentUuid": null, "logicalParentUuid": "u1"}),
                with(user(json!("summary")), "isCompactSummary", json!(true)),
                user(json!("go on")),
            ],
            vec!["u hi", "a yes", "u go on"],
        ),
        (
            "a side chain",
            vec![
                user(json!("hi")),
                with(user(json!("task")), "isSidechain", json!(true)),
                with(assistant("m1", json!([text("yes")])), "parentUuid", json!("u0")),
            ],
            vec!["u hi", "a yes"],
        ),
        ("a side chain alone", vec![with(user(json!("task")), "isSidechain", json!(true))], vec!["u task"]),
        (
            "an abandoned branch",
            vec![
                user(json!("hi")),
                user(json!("wrong")),
                with(assistant("m1", json!([text("yes")])), "parentUuid", json!("u0")),
            ],
            vec!["u hi", "a yes"],
        ),
        (
            "input that is no object",
            vec![assistant(
                "m1",
                json!([
                    {"type": "tool_use", "id": "1", "name": "", "input": "{\"a\":1}"},
                    {"type": "server_tool_use", "id": "2", "name": "web", "input": [1]},
                    {"type": "tool_use", "id": "3", "name": "f"},
                ]),
            )],
            vec![
                "a +1{\"a\": 1}+2{\"input\": [1]}+3{}",
                "r 1:[no result recorded]",
                "r 2:[no result recorded]",
                "r 3:[no result recorded]",
            ],
        ),
    ] {
        assert_eq!(short(&claude_code(&records)), expected, "{name}");
    }
}

#[test]
fn long_numbers_and_half_characters_of_claude_code_survive() {
    let line = r#"{"type":"assistant","uuid":"1","parentUuid":null,"message":{"role":"assistant","id":"m","content":[{"type":"text","text":"cut \ud83d"},{"type":"tool_use","id":"t","name":"f","input":{"n":123456789012345678901234567890,"s":"\udc00"}}]}}"#;
    let session = read(line.as_bytes(), "s.jsonl").unwrap().remove(0);
    let expected = vec![
        "a cut \u{fffd}+t{\"n\": 123456789012345678901234567890, \"s\": \"\u{fffd}\"}",
        "r t:[no result recorded]",
    ];
    assert_eq!(short(&session.recording()), expected);
    assert_eq!(session.records[0].raw(), line);
}

#[test]
fn the_facts_of_a_session_are_kept() {
    let first = r#"{"type":"user","uuid":"1","parentUuid":null,"sessionId":"abc","timestamp":"2026-01-02T03:04:05.678Z","message":{"role":"user","content":"hi"}}"#;
    let text = format!("{first}\n\n{first}{first}\n{{\"type\":\"mode\"}}\n{{\"type\":\"assis");
    let session = read(text.as_bytes(), "x/abc.jsonl").unwrap().remove(0);
    assert_eq!((session.id.as_str(), session.skipped_lines, session.records.len()), ("abc", 1, 4));
    let timestamp = session.messages().next().unwrap().timestamp.map(|timestamp| timestamp.to_string());
    assert_eq!(timestamp.as_deref(), Some("2026-01-02T03:04:05.678Z"));

    // Cut in the middle of a character.
    let cut = [first.as_bytes(), b"\n{\"type\":\"user\",\"x\":\"\xf0\x9f"].concat();
    let session = read(&cut, "x").unwrap().remove(0);
    assert_eq!((session.skipped_lines, session.records.len()), (1, 1));

    let tau = json!([
        {"task_id": 3, "trial": 0, "reward": 1.0, "traj": [{"role": "user", "content": "a"}]},
        {"task_id": 4, "trial": 1, "traj": []},
    ]);
    let sessions = read(tau.to_string().as_bytes(), "results.json").unwrap();
    let ids: Vec<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
    assert_eq!(ids, ["task3.trial0", "task4.trial1"]);

    let bare = br#"[ {"role": "user",  "content": "\u00e9"} ]"#;
    let session = read(bare, "logs/run 1.json").unwrap().remove(0);
    assert_eq!(session.id, "run 1.json");
    assert_eq!(session.records[0].raw(), r#"{"role": "user",  "content": "\u00e9"}"#);
}

#[test]
fn results_know_their_tool() {
    let messages = json!([calls(&[call("1", "{}")]), result("1", "a"), result("2", "b")]);
    let request = json!({"messages": messages}).to_string();
    let session = read(request.as_bytes(), "x").unwrap().remove(0);
    let names: Vec<Option<String>> = session
        .messages()
        .filter_map(|message| match &message.body {
            Body::Tool(result) => Some(result.name.as_ref().map(ToString::to_string)),
            _ => None,
        })
        .collect();
    assert_eq!(names, [Some("f".to_owned()), None]);
}

#[test]
fn normal_form_is_normal() {
    let messages = json!([{"role": "user", "content": "\nhi"}, calls(&[call("1", "x"), call("1", "{\"a\":1}")]),
        result("1", ""), {"role": "assistant", "content": "done"}]);
    let once = openai(&messages);
    let again = read(&write_messages(&once.messages), "again").unwrap()[0].recording();
    assert_eq!(again.messages, once.messages);
}

/// A line of Claude Code that hangs on the one before it.
fn line(n: usize, record: &Value) -> String {
    let parent = if n == 0 { Value::Null } else { json!(format!("u{}", n - 1)) };
    let mut line = json!({"uuid": format!("u{n}"), "parentUuid": parent, "sessionId": "s"});
    line.as_object_mut().unwrap().extend(record.as_object().unwrap().clone());
    format!("{line}\n")
}

fn attachment(fields: &Value) -> Value {
    json!({"type": "attachment", "attachment": fields})
}

#[test]
fn what_was_typed_during_a_turn_is_the_users_and_comes_behind_the_results() {
    let queue = |operation: &str, words: Option<&str>| {
        let mut record = json!({"type": "queue-operation", "operation": operation, "sessionId": "s"});
        record.as_object_mut().unwrap().extend(words.map(|words| ("content".to_owned(), json!(words))));
        format!("{record}\n")
    };
    let call = json!([{"type": "tool_use", "id": "c", "name": "look", "input": {}}]);
    let result = json!([{"type": "tool_result", "tool_use_id": "c", "content": "nothing"}]);
    let text = [
        line(0, &user(json!("Find it."))),
        line(1, &assistant("m", call)),
        queue("enqueue", Some("Not there!")),
        queue("remove", None),
        line(2, &user(result)),
        line(3, &assistant("n", json!([{"type": "text", "text": "I look elsewhere."}]))),
        queue("enqueue", Some("And now?")),
        queue("dequeue", None),
        line(4, &user(json!("And now?"))),
    ]
    .concat();
    let session = read(text.as_bytes(), "s.jsonl").unwrap().remove(0);
    let actual: Vec<(bool, String)> =
        session.messages().map(|message| (message.starts_turn(), message.to_text())).collect();
    let expected = [
        (true, "Find it."),
        (false, ""),
        (false, "nothing"),
        (true, "Not there!"),
        (false, "I look elsewhere."),
        (true, "And now?"),
    ];
    assert_eq!(actual, expected.map(|(turn, text)| (turn, text.to_owned())));
}

#[test]
fn what_claude_code_adds_is_in_the_context_and_no_turn() {
    let file = json!({"type": "file", "filename": "a.rs", "content": {"type": "text", "file": {"filePath": "a.rs",
        "content": "fn main() {}"}}, "displayPath": "a.rs"});
    let records = [
        user(json!("Find it.")),
        attachment(&file),
        attachment(&json!({"type": "hook_system_message", "content": "only shown"})),
        attachment(&json!({"type": "hook_success", "content": "", "stdout": "{}"})),
        attachment(&json!({"type": "hook_success", "content": "It is Monday.", "stdout": "It is Monday."})),
        attachment(&json!({"type": "skill_listing", "content": "- plan"})),
        attachment(&json!({"type": "brand_new", "lines": ["one", "two"], "count": 2})),
        attachment(&json!({"type": "total_tokens_reminder", "content": "9 tokens left"})),
        assistant("m", json!([{"type": "text", "text": "Yes."}])),
        json!({"type": "user", "isMeta": true, "message": {"role": "user", "content": "A skill says."}}),
        json!({"type": "assistant", "isApiErrorMessage": true, "message": {"role": "assistant", "id": "e",
            "model": "<synthetic>", "content": [{"type": "text", "text": "You've hit your limit."}]}}),
        user(json!("And now?")),
    ];
    let text: String = records.iter().enumerate().map(|(n, record)| line(n, record)).collect();
    let session = read(text.as_bytes(), "s.jsonl").unwrap().remove(0);
    let expected = [
        (true, "Find it."),
        (false, "<system-reminder>\nfile\na.rs\na.rs\nfn main() {}\n</system-reminder>"),
        (false, "<system-reminder>\nhook_success\nIt is Monday.\n</system-reminder>"),
        (false, "<system-reminder>\nskill_listing\n- plan\n</system-reminder>"),
        (false, "<system-reminder>\nbrand_new\none\ntwo\n</system-reminder>"),
        (false, "<system-reminder>\ntotal_tokens_reminder\n9 tokens left\n</system-reminder>"),
        (false, "Yes."),
        (false, "A skill says."),
        (true, "And now?"),
    ];
    let actual: Vec<(bool, String)> =
        session.messages().map(|message| (message.starts_turn(), message.to_text())).collect();
    assert_eq!(actual, expected.map(|(turn, text)| (turn, text.to_owned())));
    let renewed: Vec<usize> = session
        .messages()
        .enumerate()
        .filter(|(_, message)| message.is_renewed())
        .map(|(at, _)| at)
        .collect();
    assert_eq!(renewed, [3, 5]);
    let recording = session.recording();
    let replayed: Vec<(bool, String)> =
        recording.messages.iter().map(|message| (message.starts_turn(), message.to_text())).collect();
    assert_eq!(replayed, actual);

    let sums: Vec<(String, usize, usize)> =
        session.attachments().into_iter().map(|kind| (kind.kind, kind.records, kind.in_context)).collect();
    let expected = [
        ("brand_new", 1, 1),
        ("file", 1, 1),
        ("hook_success", 2, 1),
        ("hook_system_message", 1, 0),
        ("skill_listing", 1, 1),
        ("total_tokens_reminder", 1, 1),
    ];
    assert_eq!(sums, expected.map(|(kind, records, seen)| (kind.to_owned(), records, seen)));
}

#[test]
fn attachments_stay_as_they_are_or_go_with_what_is_folded() {
    let records = [
        user(json!("Find it.")),
        attachment(&json!({"type": "file", "content": "fn main() {}"})),
        assistant("m", json!([{"type": "text", "text": "Yes."}])),
        attachment(&json!({"type": "nested_memory", "content": "Always test."})),
        user(json!("And now?")),
    ];
    let text: String = records.iter().enumerate().map(|(n, record)| line(n, record)).collect();
    let sessions = read(text.as_bytes(), "s.jsonl").unwrap();
    let draft = Draft::open(&sessions[0], 0);
    let ids: Vec<MessageId> =
        std::iter::successors(Some(MessageId::FIRST), |id| Some(id.next())).take(5).collect();
    let short = ContextMessage::count(draft.messages().nth(3).unwrap().with_content("less"), &Characters);
    let folded =
        ContextMessage::count(Message::user("[... 2 messages omitted ...]").compacted(), &Characters);
    let replacements = [
        Replacement { replaces: vec![ids[1], ids[2]], with: vec![folded] },
        Replacement { replaces: vec![ids[3]], with: vec![short] },
    ];
    let written = draft.rewrite(text.as_bytes(), &replacements, own_format()).unwrap();
    let again = read(&written, "s.jsonl").unwrap().remove(0);
    let actual: Vec<(bool, String)> =
        again.messages().map(|message| (message.starts_turn(), message.to_text())).collect();
    let expected =
        [(true, "Find it."), (false, "[... 2 messages omitted ...]"), (false, "less"), (true, "And now?")];
    assert_eq!(actual, expected.map(|(turn, text)| (turn, text.to_owned())));
    let kept = draft.rewrite(text.as_bytes(), &replacements[..1], own_format()).unwrap();
    assert!(String::from_utf8(kept.into_owned()).unwrap().contains("\"nested_memory\""));
}

struct Characters;
impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.chars().count() as u64)
    }
}
