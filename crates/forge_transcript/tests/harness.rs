//! What a harness put under the user's role is told apart from what the user wrote, and every byte stays.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

use forge_domain::{
    Body, ContextMessage, Message, MessageId, Replacement, Role, TokenCounter, Tokens, user_words,
};
use forge_transcript::{Draft, Format, read};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

struct Characters;
impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.chars().count() as u64)
    }
}

fn text(text: &str) -> Value {
    json!({"type": "text", "text": text})
}

fn entry(content: &Value) -> Value {
    json!({"role": "user", "content": content})
}

fn openai(entries: &[Value]) -> String {
    json!({"messages": entries}).to_string()
}

/// A session of Claude Code: each record hangs on the one before it.
fn claude_code(records: &[Value]) -> String {
    let line = |(n, record): (usize, &Value)| {
        let parent = if n == 0 { Value::Null } else { json!(format!("u{}", n - 1)) };
        let mut line = json!({"uuid": format!("u{n}"), "parentUuid": parent, "sessionId": "s"});
        line.as_object_mut().unwrap().extend(record.as_object().unwrap().clone());
        format!("{line}\n")
    };
    records.iter().enumerate().map(line).collect()
}

fn record(content: &Value) -> Value {
    json!({"type": "user", "message": entry(content)})
}

/// The user messages of a file in short: a letter for the author (`u`ser, `h`arness, `c`ompaction), and the
/// text.
fn authors(file: &str) -> Vec<String> {
    let session = read(file.as_bytes(), "f").unwrap().remove(0);
    session
        .messages()
        .filter(|message| message.role() == Role::User)
        .map(|message| author(&message))
        .collect()
}

fn author(message: &Message) -> String {
    let letter = match (message.is_compacted, message.note_by()) {
        (true, _) => 'c',
        (false, Some(_)) => 'h',
        (false, None) => 'u',
    };
    assert_eq!(message.starts_turn(), letter == 'u', "{message:?}");
    format!("{letter} {}", message.to_text())
}

#[test]
fn a_reminder_that_is_sent_again_is_known_by_its_kind() {
    let reminder = |kind: &str| format!("<system-reminder>\n{kind}\n- plan\n</system-reminder>");
    let [list, file] = ["skill_listing", "file"].map(reminder);
    for (content, expected) in [
        (json!(list), true),
        (json!([text(&list)]), true),
        (json!(file), false),
        (json!(format!("{list}\n{file}")), false),
        (json!([text(&list), text(&file)]), false),
        (json!("<system-reminder>skill_listing</system-reminder>"), false),
        (json!(format!("{list}\n\n{list}")), true),
        (json!([text(&list), text(&list)]), true),
        (json!(reminder("The following deferred tools are now available via ToolSearch:")), true),
        (json!(reminder("# MCP Server Instructions")), true),
    ] {
        let file = openai(&[entry(&json!("Fix it.")), entry(&content)]);
        let session = read(file.as_bytes(), "f").unwrap().remove(0);
        let last = session.messages().last().unwrap();
        assert_eq!((last.note_by().is_some(), last.is_renewed()), (true, expected), "{content}");
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn the_form_of_a_text_shows_its_author() {
    let reminder = "<system-reminder>\nBe <b>brief</b>.\n\nThe list is empty.\n</system-reminder>";
    let rules = "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\n# Rules\nTest.\n</INSTRUCTIONS>";
    let context = "<environment_context>\n  <cwd>/w</cwd>\n</environment_context>";
    let prompt = "<command-message>plan</command-message>\n<command-name>/plan</command-name>";
    let own = "<command-name>/model</command-name>\n    <command-message>model</command-message>\n    \
        <command-args>small</command-args>";
    let hermes =
        "[SYSTEM: The user has invoked the \"plan\" skill, indicating they want you to follow it.]\n# Plan";
    let task = "<task-notification>\n<result>a </task-notification> b</result>\n</task-notification>\n\
        Its text is at: /tmp/tasks/a1.output";
    let summary =
        "This session is being continued from a previous conversation that ran out of context. It was long.";
    let too_large = "Note: /w/a.rs was read before the last conversation was summarized, but the contents are too \
        large to include.";
    let modified = "Note: /w/a.rs was modified, either by the user or by a linter. This change was intentional, so \
        make sure to take it into account.\n";
    for (content, expected) in [
        (json!("Fix it."), vec!["u Fix it."]),
        (json!("<div>\nmine\n</div>"), vec!["u <div>\nmine\n</div>"]),
        (json!("<system-reminder> is a tag"), vec!["u <system-reminder> is a tag"]),
        (json!(format!("Why?\n{reminder}\nAnd now?")), vec![&format!("u Why?\n{reminder}\nAnd now?")]),
        (json!(reminder), vec![&format!("h {reminder}")]),
        (json!(format!(" {reminder}\n")), vec![&format!("h  {reminder}\n")]),
        (json!(format!("修复它\n\n{reminder}")), vec!["u 修复它", &format!("h \n\n{reminder}")]),
        (json!(format!("{reminder}\nFix it.")), vec![&format!("h {reminder}\n"), "u Fix it."]),
        (
            json!(format!("{reminder}\n\nFix it.\n\n{reminder}\n{context}")),
            vec![&format!("h {reminder}\n\n"), "u Fix it.", &format!("h \n\n{reminder}\n{context}")],
        ),
        (json!(format!("{rules}\n{context}")), vec![&format!("h {rules}\n{context}")]),
        (
            json!(rules.replace("</INSTRUCTIONS>", "")),
            vec![&format!("u {}", rules.replace("</INSTRUCTIONS>", ""))],
        ),
        (json!(prompt), vec![&format!("h {prompt}")]),
        (
            json!(format!("{prompt}\n<command-args>in small steps</command-args>")),
            vec![&format!("h {prompt}\n"), "u <command-args>in small steps</command-args>"],
        ),
        (
            json!(format!("{prompt}\n<command-args></command-args>")),
            vec![&format!("h {prompt}\n<command-args></command-args>")],
        ),
        (json!(own), vec![&format!("h {own}")]),
        (
            json!(own.replace("small", "PR 88, only the SQL")),
            vec![
                &format!("h {}", &own[..own.find("<command-args>").unwrap()]),
                "u <command-args>PR 88, only the SQL</command-args>",
            ],
        ),
        (
            json!("<local-command-stdout>Bye!</local-command-stdout>"),
            vec!["h <local-command-stdout>Bye!</local-command-stdout>"],
        ),
        (
            json!("<bash-stdout></bash-stdout><bash-stderr>a</bash-stderr>"),
            vec!["h <bash-stdout></bash-stdout><bash-stderr>a</bash-stderr>"],
        ),
        (json!(task), vec![&format!("h {task}")]),
        (json!("[Request interrupted by user]"), vec!["h [Request interrupted by user]"]),
        (json!("Why?\n[Image: source: /w/a.png]"), vec!["u Why?", "h \n[Image: source: /w/a.png]"]),
        (json!("[Image: source] is what?"), vec!["u [Image: source] is what?"]),
        (
            json!("Base directory for this skill: /s\n\n# Plan"),
            vec!["h Base directory for this skill: /s\n\n# Plan"],
        ),
        (json!(too_large), vec![&format!("h {too_large}")]),
        (json!(format!("{modified}1→a")), vec![&format!("h {modified}1→a")]),
        (
            json!("Note: a.rs was modified, either by the user or by a linter. Look why."),
            vec!["u Note: a.rs was modified, either by the user or by a linter. Look why."],
        ),
        (json!("Note: a.rs was read before."), vec!["u Note: a.rs was read before."]),
        (
            json!("Result of calling the Read tool: \"1→a\""),
            vec!["h Result of calling the Read tool: \"1→a\""],
        ),
        (
            json!("The TodoWrite tool hasn't been used recently. If it helps, use it."),
            vec!["h The TodoWrite tool hasn't been used recently. If it helps, use it."],
        ),
        (json!(summary), vec![&format!("c {summary}")]),
        (json!("EXECUTION RESULT of [run]:\nok"), vec!["h EXECUTION RESULT of [run]:\nok"]),
        (
            json!("<returncode>1</returncode>\n<output>\nno\n</output>"),
            vec!["h <returncode>1</returncode>\n<output>\nno\n</output>"],
        ),
        (json!("<returncode> is which tag?"), vec!["u <returncode> is which tag?"]),
        (json!(hermes), vec![&format!("h {hermes}")]),
        (
            json!("[read_file for 'a.rs'] Result:\nfn a() {}"),
            vec!["h [read_file for 'a.rs'] Result:\nfn a() {}"],
        ),
        (
            json!("[ask for 'This\n\nor that?'] Result:\n<answer>\nThe first.\n</answer>"),
            vec!["h [ask for 'This\n\nor that?'] Result:\n", "u <answer>\nThe first.\n</answer>"],
        ),
        (json!("[ask] Result: The first."), vec!["u [ask] Result: The first."]),
        (
            json!("New instructions for task continuation:\n<user_message>\nGo on.\n</user_message>"),
            vec!["h New instructions for task continuation:\n", "u <user_message>\nGo on.\n</user_message>"],
        ),
    ] {
        let expected: Vec<String> = expected.into_iter().map(str::to_owned).collect();
        let whole: String = expected.iter().map(|piece| &piece[2..]).collect();
        assert_eq!(json!(whole), content, "the pieces add up");
        let (answer, again) = (json!({"role": "assistant", "content": "Yes."}), json!("Go on."));
        let entries = [entry(&content), answer.clone(), entry(&again)];
        let reply = json!({"type": "assistant", "message": answer});
        for file in [
            openai(&entries),
            json!({"system": "s", "messages": entries}).to_string(),
            claude_code(&[record(&content), reply, record(&again)]),
        ] {
            let mut expected = expected.clone();
            expected.push("u Go on.".to_owned());
            assert_eq!(authors(&file), expected);
            keeps_every_byte(&file);
        }
    }
}

/// Checks that the file is written as it is, and that its texts and their authors survive a conversion.
fn keeps_every_byte(file: &str) {
    let sessions = read(file.as_bytes(), "f").unwrap();
    let draft = Draft::open(&sessions[0], 0);
    assert_eq!((draft.repairs(), draft.breaches().len()), (&[][..], 0), "{file}");
    assert_eq!(draft.rewrite(file.as_bytes(), &[], draft.format()).unwrap(), file.as_bytes());
    for to in ["openai", "anthropic"] {
        let written = draft.rewrite(file.as_bytes(), &[], Format::named(to).unwrap()).unwrap();
        let written = std::str::from_utf8(&written).unwrap();
        assert_eq!(authors(written).concat(), authors(file).concat(), "{to}");
    }
}

#[test]
fn each_part_has_its_own_author() {
    let image =
        json!({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA=="}});
    let details = "<environment_details>\n# Time\n12:00\n</environment_details>";
    for (content, expected) in [
        (
            json!([text("<ide_opened_file>a.rs</ide_opened_file>"), text("Fix"), text("it.")]),
            vec!["h <ide_opened_file>a.rs</ide_opened_file>", "u Fix\nit."],
        ),
        (
            json!([image, text("Fix it."), text("<system-reminder>a</system-reminder>")]),
            vec!["u Fix it.", "h <system-reminder>a</system-reminder>"],
        ),
        (
            json!([text("[read_file for 'a.rs'] Result:"), text("fn a() {}"), text(details)]),
            vec!["h [read_file for 'a.rs'] Result:\nfn a() {}", &format!("h {details}")],
        ),
        (
            json!([
                text("Fix it."),
                text("Called the Read tool with the following input: {\"filePath\":\"a.rs\"}"),
                text("<file>\n00001| fn a() {}\n</file>"),
                text("Now.")
            ]),
            vec![
                "u Fix it.",
                "h Called the Read tool with the following input: {\"filePath\":\"a.rs\"}\n<file>\n00001| fn a() {}\n</file>",
                "u Now.",
            ],
        ),
        (
            json!([text("[TASK RESUMPTION] This task was interrupted just now."), text(details)]),
            vec![&format!("h [TASK RESUMPTION] This task was interrupted just now.\n{details}")],
        ),
        (
            json!([text("[TASK RESUMPTION] It was.\n<user_message>\nGo on.\n</user_message>")]),
            vec!["h [TASK RESUMPTION] It was.\n", "u <user_message>\nGo on.\n</user_message>"],
        ),
        (
            json!([{"type": "tool_result", "tool_use_id": "t", "content": "out"}, text("Not that one."),
                text("<system-reminder>a</system-reminder>")]),
            vec!["u Not that one.", "h <system-reminder>a</system-reminder>"],
        ),
    ] {
        let call = json!({"type": "tool_use", "id": "t", "name": "f", "input": {}});
        let blocks = if content[0]["type"] == "tool_result" { json!([call]) } else { json!([text("Yes.")]) };
        let reply = json!({"role": "assistant", "content": blocks});
        let mut entries = vec![entry(&json!("Hi.")), reply.clone()];
        let mut records = vec![record(&json!("Hi.")), json!({"type": "assistant", "message": reply})];
        entries.push(entry(&content));
        records.push(record(&content));
        for file in [json!({"system": "s", "messages": entries}).to_string(), claude_code(&records)] {
            assert_eq!(authors(&file)[1..], expected, "{file}");
            keeps_every_byte(&file);
        }
    }
}

#[test]
fn what_the_user_typed_after_a_command_is_told_from_its_prompt() {
    let head = "\n## User Input\n\n```text\n";
    let rest =
        "\n```\n\nYou **MUST** consider the user input before proceeding (if not empty).\n\n1. Plan.\n";
    let [head_of_windows, rest_of_windows] = [head, rest].map(|part| part.replace('\n', "\r\n"));
    let answer = json!({"role": "assistant", "content": "Yes."});
    let code = "Use this:\n```sh\nmake\n```\nIt works.";
    for (head, typed, rest) in [
        (head, "Put it above.", rest),
        (head_of_windows.as_str(), "画像を上に", rest_of_windows.as_str()),
        (head, code, rest),
    ] {
        let file = openai(&[entry(&json!(format!("{head}{typed}{rest}"))), answer.clone()]);
        assert_eq!(authors(&file), [format!("h {head}"), format!("u {typed}"), format!("h {rest}")]);
        keeps_every_byte(&file);
    }
    for prompt in [
        format!("{head}{rest}"),
        format!("{head}Put it above.\n```\n"),
        format!("Look at this:{head}Put it above.{rest}"),
        "## User Input\n\nPut it above.".to_owned(),
    ] {
        let file = openai(&[entry(&json!(prompt)), answer.clone()]);
        assert_eq!(authors(&file), [format!("u {prompt}")]);
        keeps_every_byte(&file);
    }
}

#[test]
fn what_cline_announces_is_the_result_of_a_call() {
    let call =
        |id: &str| json!({"type": "tool_use", "id": id, "name": "read_file", "input": {"path": "a.rs"}});
    let said = |role: &str, content: Value| json!({"role": role, "content": content, "ts": 1, "metrics": {}});
    let file = json!([
        said("user", json!([text("<task>\nLook.\n</task>")])),
        said("assistant", json!([call("a"), call("b")])),
        said(
            "user",
            json!([
                text("[read_file for 'a.rs'] Result:\nfn a() {}"),
                text("[read_file for 'b.rs'] Result:"),
                text("fn b() {}"),
                text("# TODO LIST UPDATE REQUIRED"),
                text("<environment_details>\n12:00\n</environment_details>"),
            ])
        ),
        said("assistant", json!([text("Done.")])),
    ]);
    let sessions = read(file.to_string().as_bytes(), "f").unwrap();
    let draft = Draft::open(&sessions[0], 0);
    assert_eq!(draft.repairs(), []);
    let results = draft.messages().filter_map(|message| match message.body {
        Body::Tool(result) => Some((result.call_id, result.content.to_text())),
        _ => None,
    });
    let expected = [("a", "fn a() {}"), ("b", "fn b() {}")];
    assert_eq!(results.collect::<Vec<_>>(), expected.map(|(id, text)| (id.to_owned(), text.to_owned())));
    let people = draft.messages().filter(Message::starts_turn).count();
    assert_eq!(people, 1);
}

/// Returns the calls and results of a file in short, after it was checked that nothing had to be repaired.
fn exchanges(file: &Value) -> Vec<String> {
    let bytes = file.to_string().into_bytes();
    let sessions = read(&bytes, "f").unwrap();
    let draft = Draft::open(&sessions[0], 0);
    assert_eq!(draft.repairs(), [], "{file}");
    assert_eq!(draft.rewrite(&bytes, &[], draft.format()).unwrap(), bytes);
    let told = |message: Message| match &message.body {
        Body::Tool(result) => Some(format!("{}: {}", result.call_id, message.to_text())),
        Body::Assistant { calls, .. } => {
            let calls = calls.iter().map(|call| format!("+{}{}", call.name, call.arguments));
            Some(format!("{}{}", message.to_text(), calls.collect::<String>()))
        }
        _ => None,
    };
    draft.messages().filter_map(told).collect()
}

#[test]
fn a_call_in_tags_counts_if_its_result_is_announced() {
    let details = text("<environment_details>\n12:00\n</environment_details>");
    let reads = "I look.\n\n<read_file>\n<path>a.rs</path>\n</read_file>";
    let said = |role: &str, content: Value| json!({"role": role, "content": content});
    let task = || said("user", json!([text("<task>\nLook.\n</task>"), details]));
    let result = || said("user", json!([text("[read_file for 'a.rs'] Result:"), text("fn a() {}"), details]));
    let taken = ["I look.+read_file{\"path\":\"a.rs\"}", "call_1: fn a() {}"];
    let done = "<attempt_completion>\n<result>\nDone.\n</result>\n</attempt_completion>";
    let one_text = "[read_file for 'a.rs'] Result:\nfn a() {}";
    for (messages, expected) in [
        (vec![task(), said("assistant", json!(reads)), result()], taken.to_vec()),
        (
            vec![
                said("user", json!("Look.")),
                said("assistant", json!(reads)),
                said("user", json!(one_text)),
            ],
            taken.to_vec(),
        ),
        (vec![task(), said("assistant", json!(done))], vec!["Done."]),
        // It did not run, or is no call at all.
        (vec![task(), said("assistant", json!(reads))], vec![reads]),
        (vec![task(), said("assistant", json!(reads)), said("user", json!("No."))], vec![reads]),
        (vec![said("user", json!("Look.")), said("assistant", json!(done))], vec![done]),
        (
            vec![task(), said("assistant", json!("<ul>\n<li>a</li>\n</ul>")), result()],
            vec!["<ul>\n<li>a</li>\n</ul>"],
        ),
    ] {
        assert_eq!(exchanges(&json!({"messages": messages})), expected);
    }
    let timed = [task(), said("assistant", json!(reads)), result(), said("assistant", json!(done))];
    let timed: Vec<Value> = timed
        .into_iter()
        .map(|mut message| {
            message["ts"] = json!(1);
            message["metrics"] = json!({});
            message
        })
        .collect();
    assert_eq!(exchanges(&json!(timed)), [taken[0], "call_0: fn a() {}", "Done."]);
}

#[test]
fn an_answer_to_clines_question_is_the_users_and_its_result_says_where_it_stands() {
    let call = |id: &str, name: &str| json!({"type": "tool_use", "id": id, "name": name, "input": {}});
    let said = |role: &str, content: Value| json!({"role": role, "content": content, "ts": 1, "metrics": {}});
    let details = text("<environment_details>\n12:00\n</environment_details>");
    let file = json!([
        said("user", json!([text("<task>\nLook.\n</task>")])),
        said("assistant", json!([call("a", "ask_followup_question")])),
        said(
            "user",
            json!([
                text("[ask_followup_question for 'One\n\nor two?'] Result:\n<answer>\nTwo.\n</answer>"),
                details
            ])
        ),
        said("assistant", json!([call("b", "attempt_completion")])),
        said(
            "user",
            json!([
                text("[attempt_completion] Result: Done"),
                text("The user has provided feedback on the results. Consider their input to continue."),
                text("<feedback>\nTest it.\n</feedback>"),
                details
            ])
        ),
        said("assistant", json!([text("Done.")])),
    ]);
    let sessions = read(file.to_string().as_bytes(), "f").unwrap();
    let draft = Draft::open(&sessions[0], 0);
    assert_eq!(draft.repairs(), []);
    let results: Vec<String> = draft
        .messages()
        .filter(|message| message.role() == Role::Tool)
        .map(|message| message.to_text())
        .collect();
    let feedback = "The user has provided feedback on the results. Consider their input to continue.";
    assert_eq!(results, ["[answered in the user's next message]".to_owned(), format!("Done\n{feedback}")]);
    let said: Vec<String> =
        draft.messages().filter(Message::starts_turn).map(|message| message.to_text()).collect();
    assert_eq!(
        said,
        ["<task>\nLook.\n</task>", "<answer>\nTwo.\n</answer>", "<feedback>\nTest it.\n</feedback>"]
    );
}

#[test]
fn claude_code_says_which_records_it_made() {
    let said = |fields: Value| {
        let mut record = record(&json!("words"));
        record.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        record
    };
    let queued = |fields: Value| {
        let mut queued = json!({"type": "queued_command", "prompt": "words"});
        queued.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        json!({"type": "attachment", "attachment": queued})
    };
    for (record, expected) in [
        (said(json!({})), "u words"),
        (said(json!({"isMeta": false})), "u words"),
        (said(json!({"isMeta": true})), "h words"),
        (said(json!({"isVisibleInTranscriptOnly": true})), "h words"),
        (said(json!({"isVisibleInTranscriptOnly": true, "isCompactSummary": true})), "c words"),
        (said(json!({"sourceToolUseID": "t"})), "h words"),
        (said(json!({"origin": {"kind": "human"}})), "u words"),
        (said(json!({"origin": {"kind": "task-notification"}})), "h words"),
        (said(json!({"origin": {"kind": "peer", "from": "a"}})), "h words"),
        (queued(json!({"commandMode": "prompt"})), "u words"),
        (queued(json!({"commandMode": "prompt", "origin": {"kind": "human"}})), "u words"),
        (
            queued(json!({"commandMode": "task-notification"})),
            "h <system-reminder>\nqueued_command\nwords\ntask-notification\n</system-reminder>",
        ),
    ] {
        let file = claude_code(&[crate::record(&json!("Fix it.")), record]);
        assert_eq!(authors(&file), ["u Fix it.", expected]);
        keeps_every_byte_of_lines(&file);
    }
}

fn keeps_every_byte_of_lines(file: &str) {
    let sessions = read(file.as_bytes(), "f").unwrap();
    let draft = Draft::open(&sessions[0], 0);
    assert_eq!(draft.rewrite(file.as_bytes(), &[], draft.format()).unwrap(), file.as_bytes());
}

#[test]
fn observations_are_no_words_of_the_user() {
    let user = |text: &str, more: Value| {
        let mut entry = entry(&json!(text));
        entry.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        entry
    };
    let acts = json!({"role": "assistant", "content": "I look", "thought": "I look", "action": "ls"});
    let idles = json!({"role": "assistant", "content": "I look", "thought": "I look", "action": ""});
    let answers = json!({"role": "assistant", "content": "ls"});
    for (entries, expected) in [
        (
            vec![
                user("An example.", json!({"is_demo": true})),
                user("Fix it.", json!({"message_type": "observation"})),
                acts.clone(),
                // The first answers the call in the text.
                user("a.rs", json!({"message_type": "observation"})),
                user("b.rs", json!({"message_type": "observation"})),
            ],
            ["h An example.", "u Fix it.", "h b.rs"].as_slice(),
        ),
        (vec![user("Fix it.", json!({})), acts, user("a.rs", json!({"agent": "primary"}))], &["u Fix it."]),
        (
            vec![user("Fix it.", json!({})), idles, user("No action.", json!({"agent": "primary"}))],
            &["u Fix it.", "h No action."],
        ),
        (
            vec![
                user("Fix it.", json!({})),
                answers.clone(),
                user("a.rs", json!({"extra": {"returncode": 0}})),
            ],
            &["u Fix it.", "h a.rs"],
        ),
        (
            vec![user("Fix it.", json!({})), answers, user("Go on.", json!({"agent": "a"}))],
            &["u Fix it.", "u Go on."],
        ),
    ] {
        let file = openai(&entries);
        assert_eq!(authors(&file), expected);
        keeps_every_byte_of_lines(&file);
    }
}

#[test]
fn the_users_words_in_a_refused_calls_result_are_marked() {
    let refused = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a \
                   file edit, the new_string was NOT written to the file).";
    for (said, expected) in [
        (
            format!("{refused} To tell you how to proceed, the user said:\nFirst\n\nthe tests."),
            Some("First\n\nthe tests."),
        ),
        (
            format!(
                "{refused} To tell you how to proceed, the user said:\nやめて\n\nNote: The user's next message may \
                     contain a correction or preference."
            ),
            Some("やめて"),
        ),
        (
            format!(
                "{refused} To tell you how to proceed, the user said:\nThe user wants to clarify these questions."
            ),
            None,
        ),
        (
            format!(
                "{refused} The user provided the following reason for the rejection:  Use the copy, the user said: ok"
            ),
            Some("Use the copy, the user said: ok"),
        ),
        (format!("{refused} STOP what you are doing and wait."), None),
        (
            "The user rejected this tool call. User feedback: Why that folder?".to_owned(),
            Some("Why that folder?"),
        ),
        ("The user rejected this tool call.".to_owned(), None),
        (
            "The user rejected permission to use this specific tool call with the following feedback: use rg"
                .to_owned(),
            Some("use rg"),
        ),
        (format!("1: {refused} the user said: x"), None),
    ] {
        let result = json!({"type": "tool_result", "tool_use_id": "c", "is_error": true, "content": said});
        let call = json!({"type": "tool_use", "id": "c", "name": "Bash", "input": {"command": "ls"}});
        let made = json!({"role": "assistant", "content": [call]});
        let calls = json!([{"id": "c", "type": "function", "function": {"name": "Bash", "arguments": "{}"}}]);
        for file in [
            claude_code(&[
                record(&json!("Go.")),
                json!({"type": "assistant", "message": made}),
                record(&json!([result])),
            ]),
            json!({"messages": [entry(&json!("Go.")), made, entry(&json!([result]))]}).to_string(),
            openai(&[
                entry(&json!("Go.")),
                json!({"role": "assistant", "content": null, "tool_calls": calls}),
                json!({"role": "tool", "tool_call_id": "c", "content": said}),
            ]),
        ] {
            let session = read(file.as_bytes(), "f").unwrap().remove(0);
            let result = session.messages().find(|message| message.role() == Role::Tool).unwrap();
            assert_eq!(user_words(&result), expected, "{file}");
        }
    }
}

#[test]
fn a_session_without_a_users_word_begins_with_one() {
    let reminder = json!("<system-reminder>a</system-reminder>");
    let answer = json!({"role": "assistant", "content": "Yes."});
    for file in [
        openai(&[entry(&reminder), answer.clone(), entry(&reminder)]),
        claude_code(&[record(&reminder), json!({"type": "assistant", "message": answer}), record(&reminder)]),
    ] {
        let held = forge_transcript::read_held(None, &file.clone().into_bytes().into(), "f").unwrap();
        let sessions = read(file.as_bytes(), "f").unwrap();
        for session in [&held[0], &sessions[0]] {
            let draft = Draft::open(session, 0);
            let turns: Vec<bool> = draft.messages().map(|message| message.starts_turn()).collect();
            assert_eq!(turns, [true, false, false]);
            assert_eq!(draft.rewrite(file.as_bytes(), &[], draft.format()).unwrap(), file.as_bytes());
            let replayed: Vec<bool> = session.recording().messages.iter().map(Message::starts_turn).collect();
            assert_eq!(replayed, [true, false, false]);
        }
    }
    let order = |text: &str| {
        entry(&json!(format!("<teammate-message teammate_id=\"team-lead\">\n{text}\n</teammate-message>")))
    };
    let idle = order("{\"type\":\"idle\"}");
    let file = openai(&[order("Find it."), answer.clone(), order("Fix it."), answer.clone(), idle]);
    let session = read(file.as_bytes(), "f").unwrap().remove(0);
    let turns: Vec<bool> = Draft::open(&session, 0).messages().map(|message| message.starts_turn()).collect();
    assert_eq!(turns, [true, false, true, false, false]);
    let summary = json!({"type": "user", "isCompactSummary": true, "message": entry(&json!("It was long."))});
    let file = claude_code(&[summary, record(&reminder)]);
    let sessions = read(file.as_bytes(), "f").unwrap();
    assert!(Draft::open(&sessions[0], 0).messages().all(|message| !message.starts_turn()));
}

#[test]
fn a_note_leaves_and_the_users_words_stay() {
    let content = json!([text("<system-reminder>long</system-reminder>"), text("Fix it.")]);
    let one = json!("<system-reminder>long</system-reminder>\nFix it.");
    let answer = json!({"role": "assistant", "content": "Yes."});
    for (file, at) in [
        (openai(&[entry(&one), answer.clone()]), 0),
        (json!({"system": "s", "messages": [entry(&content), answer.clone()]}).to_string(), 1),
        (claude_code(&[record(&content), json!({"type": "assistant", "message": answer})]), 0),
    ] {
        let sessions = read(file.as_bytes(), "f").unwrap();
        let draft = Draft::open(&sessions[0], 0);
        let marker = Message::user("[... 2 messages omitted ...]").compacted();
        let with = vec![ContextMessage::count(marker, &Characters)];
        let replacement = Replacement { replaces: vec![MessageId::new(at)], with };
        let written = draft.rewrite(file.as_bytes(), &[replacement], draft.format()).unwrap();
        let written = std::str::from_utf8(&written).unwrap();
        assert_eq!(authors(written), ["c [... 2 messages omitted ...]", "u Fix it."]);
        assert!(!written.contains("system-reminder"), "{written}");
    }
}
