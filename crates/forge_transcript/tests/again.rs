//! What Forge wrote into a file is known again when the file is read.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

use forge_domain::{ContextMessage, Message, MessageId, Replacement, TokenCounter, Tokens};
use forge_transcript::{Draft, Format, Loss, read, read_as, request_tools, write_messages};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

const RECORD: &str = "<record>\nNotes in place of earlier messages, not a request. What is quoted is verbatim, under the label \
of its message.\n# Said by the user\n- fix it\n</record>";
const MARKER: &str = "[... 47 messages omitted ...]";
const SUMMARY: &str = "<forge_context_summary>\nDone.\n</forge_context_summary>";

/// The messages of a file in short: role, a mark where compaction made it, and how it begins.
fn short(text: &str) -> Vec<String> {
    let session = read(text.as_bytes(), "f").unwrap().remove(0);
    let line = |message: Message| {
        let mark = if message.is_compacted { "*" } else { "" };
        let said: String = message.to_text().chars().take(10).collect();
        format!("{}{mark} {said}{}", message.role().as_str(), "+".repeat(message.calls().len()))
    };
    session.messages().map(line).collect()
}

fn openai(messages: &Value) -> String {
    json!({"messages": messages}).to_string()
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

#[test]
fn what_compaction_wrote_is_no_persons_word() {
    let call = json!([{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]);
    for (name, file, expected) in [
        (
            "messages of their own",
            openai(&json!([{"role": "user", "content": "Find it."}, {"role": "user", "content": RECORD},
                {"role": "user", "content": MARKER}, {"role": "assistant", "content": SUMMARY},
                {"role": "user", "content": "And now?"}])),
            vec!["user Find it.", "user* <record>\nN", "user* [... 47 me", "assistant* <forge_con", "user And now?"],
        ),
        (
            "sent as one text, since many templates take no two messages of one role",
            openai(&json!([{"role": "user", "content": format!("Find it.\n\n{RECORD}\n\nAnd now?")},
                {"role": "assistant", "content": format!("{SUMMARY}\n\nI look."), "tool_calls": call},
                {"role": "tool", "tool_call_id": "c", "content": RECORD}])),
            vec![
                "user Find it.",
                "user* <record>\nN",
                "user And now?",
                "assistant* <forge_con",
                "assistant I look.+",
                "tool <record>\nN",
            ],
        ),
        (
            "blocks of one entry of Anthropic's",
            json!({"system": "s", "messages": [
                {"role": "user", "content": [text("Find it."), text(RECORD), text("And"), text("now?")]},
                {"role": "assistant", "content": [text(SUMMARY), {"type": "tool_use", "id": "c", "name": "f", "input": {}}]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "x"}, text(MARKER)]}]})
            .to_string(),
            vec![
                "system s",
                "user Find it.",
                "user* <record>\nN",
                "user And\nnow?",
                "assistant* <forge_con",
                "assistant +",
                "tool x",
                "user* [... 47 me",
            ],
        ),
    ] {
        assert_eq!(short(&file), expected, "{name}");
        let sessions = read(file.as_bytes(), "f").unwrap();
        let draft = Draft::open(&sessions[0], 0);
        assert_eq!(draft.repairs(), [], "{name}");
        assert_eq!(draft.rewrite(file.as_bytes(), &[], draft.format()).unwrap(), file.as_bytes(), "{name}");
    }
}

struct Characters;
impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.chars().count() as u64)
    }
}

#[test]
fn of_what_was_sent_as_one_a_part_can_go() {
    let merged = openai(&json!([{"role": "user", "content": format!("Find it.\n\n{RECORD}\n\nAnd now?")},
        {"role": "assistant", "content": "Yes."}]));
    let entry = json!({"system": "s", "messages": [
        {"role": "user", "content": [text("Find it."), text(RECORD), text("And now?")]},
        {"role": "assistant", "content": "Yes."}]})
    .to_string();
    let second = |n: usize| (0..n).fold(MessageId::FIRST, |id, _| id.next());
    for (format, file, place, expected) in [
        ("openai", merged, 1, vec!["user Find it.", "user* [... 47 me", "user And now?", "assistant Yes."]),
        (
            "anthropic",
            entry,
            2,
            vec!["system s", "user Find it.", "user* [... 47 me", "user And now?", "assistant Yes."],
        ),
    ] {
        let format = Format::named(format).unwrap();
        let sessions = read_as(format, file.as_bytes(), "f").unwrap();
        let draft = Draft::open(&sessions[0], 0);
        let with = ContextMessage::count(Message::user(MARKER).compacted(), &Characters);
        let replacement = Replacement { replaces: vec![second(place)], with: vec![with] };
        let written = draft.rewrite(file.as_bytes(), &[replacement], format).unwrap();
        assert_eq!(short(std::str::from_utf8(&written).unwrap()), expected);
    }
}

#[test]
fn a_replay_keeps_what_stands_for_messages_that_are_gone() {
    let file =
        openai(&json!([{"role": "user", "content": RECORD}, {"role": "assistant", "content": SUMMARY},
        {"role": "assistant", "content": "I look."}, {"role": "user", "content": "And now?"}]));
    let recording = read(file.as_bytes(), "f").unwrap()[0].recording();
    let texts: Vec<(bool, String)> =
        recording.messages.iter().map(|message| (message.is_compacted, message.to_text())).collect();
    let expected = [(true, RECORD), (true, SUMMARY), (false, "I look."), (false, "And now?")]
        .map(|(is, text)| (is, text.to_owned()));
    assert_eq!(texts, expected);
}

/// A session in each format that is written: a question, two answers and two more questions.
fn sessions() -> [(&'static str, String); 4] {
    let said = ["Find it.", "I look.", "And there?", "I look there.", "And now?"];
    let role = |n: usize| if n.is_multiple_of(2) { "user" } else { "assistant" };
    let entries: Vec<Value> =
        said.iter().enumerate().map(|(n, said)| json!({"role": role(n), "content": said})).collect();
    let line = |(n, entry): (usize, &Value)| {
        let parent = n.checked_sub(1).map(|before| format!("u{before}"));
        let line = json!({"type": role(n), "uuid": format!("u{n}"), "parentUuid": parent, "sessionId": "s", "message": entry});
        format!("{line}\n")
    };
    [
        ("openai", openai(&json!(entries))),
        ("anthropic", json!({"system": "s", "messages": entries}).to_string()),
        ("tau-bench", json!([{"task_id": 3, "trial": 0, "traj": entries}]).to_string()),
        ("claude-code", entries.iter().enumerate().map(line).collect()),
    ]
}

#[test]
fn what_compaction_writes_is_known_again_in_every_format() {
    for (from, file) in sessions() {
        let sessions = read(file.as_bytes(), "f").unwrap();
        let draft = Draft::open(&sessions[0], 0);
        // The system prompt of Anthropic's is a message.
        let first = u64::from(from == "anthropic");
        let with = |n: u64, message: Message| Replacement {
            replaces: vec![MessageId::new(first + n)],
            with: vec![ContextMessage::count(message.compacted(), &Characters)],
        };
        let replacements = [
            with(1, Message::assistant(SUMMARY)),
            with(2, Message::user(RECORD)),
            with(3, Message::user(MARKER)),
        ];
        for to in Format::all().filter(|to| to.id() == from || ["openai", "anthropic"].contains(&to.id())) {
            let written = draft.rewrite(file.as_bytes(), &replacements, to).unwrap();
            let mut actual = short(std::str::from_utf8(&written).unwrap());
            actual.retain(|message| !message.starts_with("system"));
            let expected = [
                "user Find it.",
                "assistant* <forge_con",
                "user* <record>\nN",
                "user* [... 47 me",
                "user And now?",
            ];
            assert_eq!(actual, expected, "{from} to {}", to.id());
        }
    }
}

/// A session of pi: a summary, words of the user, a note of an extension, and a reply.
fn noted_session() -> String {
    let entry = |id: &str, parent: Option<&str>, rest: Value| {
        let mut entry = json!({"id": id, "parentId": parent, "timestamp": "2026-01-01T10:00:00Z"});
        entry.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        format!("{entry}\n")
    };
    let said = |role: &str, said: &str| json!({"type": "message", "message": {"role": role, "content": [text(said)]}});
    [
        json!({"type": "session", "version": 3, "id": "s", "cwd": "/w"}).to_string() + "\n",
        entry("a", None, json!({"type": "branch_summary", "summary": "It was sought."})),
        entry("b", Some("a"), said("user", "Find it.")),
        entry(
            "c",
            Some("b"),
            json!({"type": "custom_message", "customType": "clock", "content": "It is noon."}),
        ),
        entry("d", Some("c"), said("assistant", "Here.")),
    ]
    .concat()
}

/// Returns a letter for the author of each message: `u`ser, `n`ote, `a`ssistant, `*` if a compaction made it.
fn authors(file: &[u8]) -> String {
    let session = read(file, "f").unwrap().remove(0);
    let letter = |message: Message| match message.note_by() {
        _ if message.is_compacted => '*',
        Some(_) => 'n',
        None if message.starts_turn() => 'u',
        None => 'a',
    };
    session.messages().map(letter).collect()
}

#[test]
fn an_author_is_known_again_in_every_format() {
    let file = noted_session();
    assert_eq!(authors(file.as_bytes()), "*una");
    let sessions = read(file.as_bytes(), "f").unwrap();
    let draft = Draft::open(&sessions[0], 0);
    for to in Format::targets() {
        let written = draft.rewrite(file.as_bytes(), &[], to).unwrap();
        assert_eq!(authors(&written), "*una", "{}", to.id());
        assert_eq!(draft.author_tokens(to, &Characters) == Tokens::ZERO, to.id() == "atif", "{}", to.id());
    }
    let messages: Vec<Message> = draft.messages().collect();
    assert_eq!(authors(&write_messages(&messages)), "*una");
}

#[test]
fn tool_schemas_come_along_to_atif_and_back() {
    let function = json!({"name": "f", "description": "d", "parameters": {"type": "object"}, "strict": true});
    let tools = json!([{"type": "function", "function": function}]);
    let messages =
        json!([{"role": "user", "content": "Find it."}, {"role": "assistant", "content": "Here."}]);
    let file = json!({"messages": messages, "tools": tools}).to_string();
    let converted = |file: &[u8], to: &str| -> Vec<u8> {
        let sessions = read(file, "f").unwrap();
        Draft::open(&sessions[0], 0).rewrite(file, &[], Format::named(to).unwrap()).unwrap().into_owned()
    };
    let atif = converted(file.as_bytes(), "atif");
    assert_eq!(request_tools(&atif), Some(tools.to_string()));
    let back: Value = serde_json::from_slice(&converted(&atif, "openai")).unwrap();
    assert_eq!(back, json!({"messages": messages, "tools": tools}));
}

#[test]
fn each_line_with_a_request_has_its_own_tools() {
    let tool = |name: &str| json!([{"type": "function", "function": {"name": name, "parameters": {}}}]);
    let messages = json!([{"role": "user", "content": "Find it."}]);
    let file = [
        json!({"messages": messages, "tools": tool("f")}),
        json!({"custom_id": "b", "body": {"messages": messages, "tools": tool("g")}}),
        json!({"messages": messages}),
    ]
    .map(|line| format!("{line}\n"))
    .concat()
    .into_bytes();
    let sessions = read(&file, "f").unwrap();
    assert_eq!(sessions[0].format.id(), "openai-lines");
    for (nth, expected) in [Some(tool("f")), Some(tool("g")), None].into_iter().enumerate() {
        let written =
            Draft::open(&sessions[nth], nth).rewrite(&file, &[], Format::named("openai").unwrap()).unwrap();
        let written: Value = serde_json::from_slice(&written).unwrap();
        assert_eq!(written.get("tools"), expected.as_ref(), "line {}", nth + 1);
        assert_eq!(sessions[nth].tools(&file), expected.map(|tools| tools.to_string()));
    }
}

#[test]
fn a_tool_without_a_name_is_reported_as_lost() {
    let function = json!({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}});
    let search = json!({"type": "web_search"});
    let messages =
        json!([{"role": "user", "content": "Find it."}, {"role": "assistant", "content": "Here."}]);
    for (tools, expected) in [(json!([function, search]), 1), (json!([function]), 0), (json!([]), 0)] {
        let file = json!({"messages": messages, "tools": tools}).to_string().into_bytes();
        let sessions = read(&file, "f").unwrap();
        let draft = Draft::open(&sessions[0], 0);
        for to in ["atif", "anthropic"].map(|to| Format::named(to).unwrap()) {
            let written = draft.rewrite(&file, &[], to).unwrap();
            let losses = draft.losses(&file, &[], &written, to);
            let told: Vec<String> = losses.iter().map(Loss::what).collect();
            let expected: Vec<&str> = vec!["1 tool that the provider runs itself"; expected];
            assert_eq!(told, expected, "{tools}");
        }
    }
}

/// Returns the replacement of a session's first result, its third message, by a line.
fn cleared_result(draft: &Draft<'_>) -> Replacement {
    let cleared = draft.messages().nth(2).unwrap().with_content("[1 line cleared]");
    Replacement {
        replaces: vec![MessageId::FIRST.next().next()],
        with: vec![ContextMessage::count(cleared, &Characters)],
    }
}

#[test]
fn a_call_in_tags_stays_there_in_its_file() {
    let text = |text: &str| json!({"type": "text", "text": text});
    let details = "<environment_details>\n12:00\n</environment_details>";
    let file = json!({"messages": [{"role": "user", "content": "hi"},
        {"role": "assistant", "content": "I look.\n<read_file><path>a.rs</path></read_file>"},
        {"role": "user", "content": [text("[read_file for 'a.rs'] Result:"), text("fn a() {}"), text(details)]},
        {"role": "assistant", "content": "Here."}]});
    let bytes = file.to_string().into_bytes();
    let sessions = read(&bytes, "f").unwrap();
    let draft = Draft::open(&sessions[0], 0);
    let replacement = cleared_result(&draft);
    let written = |to: &str, replacements: &[Replacement]| -> Vec<Value> {
        let bytes = draft.rewrite(&bytes, replacements, Format::named(to).unwrap()).unwrap();
        let body: Value = serde_json::from_slice(&bytes).unwrap();
        body["messages"].as_array().unwrap().clone()
    };
    let again = written("openai", &[replacement]);
    assert_eq!((&again[1], &again[4]), (&file["messages"][1], &file["messages"][3]));
    let result = json!({"role": "user", "content": "[read_file for 'a.rs'] Result:\n[1 line cleared]"});
    assert_eq!((&again[2], &again[3]["content"]), (&result, &json!(details)));
    let blocks = &written("anthropic", &[])[1]["content"];
    assert_eq!((&blocks[0]["text"], &blocks[1]["input"]), (&json!("I look."), &json!({"path": "a.rs"})));
}

#[test]
fn a_call_in_a_text_stays_there_in_its_agents_file() {
    let file = json!({"environment": "main", "history": [{"role": "user", "content": "hi"},
        {"role": "assistant", "content": "I look.\n```\nls\n```", "thought": "I look.\n", "action": "ls\n"},
        {"role": "user", "content": "a.rs", "message_type": "observation"},
        {"role": "assistant", "content": "Done.\n```\nsubmit\n```", "thought": "Done.", "action": "submit"}]});
    let bytes = file.to_string().into_bytes();
    let sessions = read(&bytes, "f").unwrap();
    let draft = Draft::open(&sessions[0], 0);
    let replacement = cleared_result(&draft);
    let written = |to: &str| -> Value {
        let to = Format::named(to).unwrap();
        serde_json::from_slice(&draft.rewrite(&bytes, std::slice::from_ref(&replacement), to).unwrap())
            .unwrap()
    };
    let written_again = written("swe-agent");
    let history = written_again["history"].as_array().unwrap();
    assert_eq!(history[2]["content"], "[1 line cleared]");
    // So does the result that the last call lacks.
    assert_eq!((&history[1], &history[3]), (&file["history"][1], &file["history"][3]));
    assert_eq!(history.iter().filter(|entry| entry["role"] == "user").count(), 3);
    assert_eq!(history.len(), 5);
    let messages = &written("openai")["messages"];
    assert_eq!(messages[1]["tool_calls"][0]["id"], messages[2]["tool_call_id"]);
    assert_eq!((&messages[1]["content"], &messages[2]["role"]), (&json!("I look."), &json!("tool")));
}
