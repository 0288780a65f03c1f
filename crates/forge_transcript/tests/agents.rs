//! Sessions of other agents: read whole, told apart, and written back byte for byte where nothing changed.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

use std::io::Write as _;

use flate2::Compression;
use flate2::write::GzEncoder;
use forge_domain::{Body, Message, openai_breaches};
use forge_transcript::{Draft, Session, read, read_held, stream};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// A small file of a format.
struct Sample {
    /// The format that it is recognized as.
    format: &'static str,
    text: String,
    /// What a model would see of it.
    expected: &'static str,
    /// What it would see if the agent had never compacted it; empty if that is the same.
    before: &'static str,
}

fn sample(format: &'static str, text: String, expected: &'static str) -> Sample {
    Sample { format, text, expected, before: "" }
}

/// Returns a sample of a session that its agent compacted.
fn folded(format: &'static str, text: String, expected: &'static str, before: &'static str) -> Sample {
    Sample { format, text, expected, before }
}

fn lines(records: &[Value]) -> String {
    records.iter().map(|record| format!("{record}\n")).collect()
}

/// Returns messages in short: `u`ser, `n`ote, `s`ystem, `a`ssistant, tool `r`esult, `*` if a compaction made
/// it, with the text and the ids of calls and results.
fn short(messages: &[Message]) -> String {
    let word = |message: &Message| {
        let mark = if message.is_compacted { "*" } else { "" };
        let text = message.to_text();
        match &message.body {
            Body::System(_) => format!("s{mark}:{text}"),
            Body::User(_) if message.note_by().is_some() => format!("n{mark}:{text}"),
            Body::User(_) => format!("u{mark}:{text}"),
            Body::Assistant { calls, .. } => {
                let calls: String = calls.iter().map(|call| format!("+{}({})", call.name, call.id)).collect();
                format!("a{mark}:{text}{calls}")
            }
            Body::Tool(result) => {
                format!("r{}({}):{text}", if result.is_error { "!" } else { "" }, result.call_id)
            }
        }
    };
    messages.iter().map(word).collect::<Vec<_>>().join(" | ")
}

fn messages(session: &Session) -> Vec<Message> {
    Draft::messages_of(session)
}

fn codex(kind: &str, payload: &Value) -> Value {
    json!({"timestamp": "2026-01-01T10:00:00Z", "type": kind, "payload": payload})
}

fn codex_message(role: &str, text: &str) -> Value {
    let kind = if role == "assistant" { "output_text" } else { "input_text" };
    json!({"type": "message", "role": role, "content": [{"type": kind, "text": text}]})
}

fn codex_call(id: &str) -> Value {
    json!({"type": "function_call", "name": "f", "arguments": "{}", "call_id": id})
}

fn codex_output(id: &str) -> Value {
    json!({"type": "function_call_output", "call_id": id, "output": "out"})
}

fn codex_samples() -> Vec<Sample> {
    let item = |payload: &Value| codex("response_item", payload);
    let meta = codex("session_meta", &json!({"id": "1", "base_instructions": {"text": "Be brief."}}));
    let whole = [
        meta.clone(),
        item(&codex_message("user", "<environment_context>x</environment_context>")),
        item(&codex_message("user", "Find it.")),
        codex("event_msg", &json!({"type": "user_message", "message": "Find it."})),
        item(&json!({"type": "reasoning", "summary": [], "encrypted_content": "x"})),
        item(&codex_message("assistant", "I look.")),
        item(&codex_call("a")),
        item(&codex_call("b")),
        item(&codex_output("b")),
        item(&codex_output("a")),
        item(&codex_message("assistant", "Here.")),
    ];
    let compacted = codex(
        "compacted",
        &json!({"message": "", "replacement_history": [codex_message("user", "Find it."),
        {"type": "compaction", "encrypted_content": "x"}]}),
    );
    let mut long = whole.to_vec();
    long.extend([compacted, item(&codex_message("user", "And now?"))]);
    let other_meta = |id: &str| {
        codex(
            "session_meta",
            &json!({"id": id, "forked_from_id": "1", "base_instructions": {"text": "Be long."}}),
        )
    };
    let mut forked = vec![meta.clone(), other_meta("2")];
    forked.extend_from_slice(&long[1..]);
    forked.push(other_meta("3"));
    let rolled = [
        meta,
        item(&codex_message("user", "One.")),
        item(&codex_message("assistant", "1")),
        item(&codex_message("user", "Two.")),
        item(&codex_message("assistant", "2")),
        codex("event_msg", &json!({"type": "thread_rolled_back", "num_turns": 1})),
        item(&codex_message("user", "Three.")),
    ];
    let seen = "s:Be brief. | n:<environment_context>x</environment_context> | u:Find it. | a:I look.+f(a)+f(b) | r(b):out | r(a):out | a:Here.";
    let left =
        "s:Be brief. | u:Find it. | u*:[summary of earlier messages, encrypted by the provider] | u:And now?";
    let before = "s:Be brief. | n:<environment_context>x</environment_context> | u:Find it. | a:I look.+f(a)+f(b) | r(b):out | r(a):out | a:Here. | u:And now?";
    vec![
        sample("codex", lines(&whole), seen),
        sample("codex", json!(whole).to_string(), seen),
        folded("codex", lines(&long), left, before),
        folded("codex", lines(&forked), left, before),
        told_rules(),
        sample("codex", lines(&rolled), "s:Be brief. | u:One. | a:1 | u:Three."),
        sample(
            "codex",
            lines(&[
                json!({"id": "1", "timestamp": "t", "instructions": "Be brief."}),
                codex_message("user", "Find it."),
                codex_call("a"),
                codex_output("a"),
            ]),
            "s:Be brief. | u:Find it. | a:+f(a) | r(a):out",
        ),
    ]
}

/// Returns a rollout with the rules of its project as instructions of the session, and as what was sent.
fn told_rules() -> Sample {
    let meta = |rules: &str| codex("session_meta", &json!({"id": "1", "instructions": rules}));
    let sent = "# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nBe brief.\r\n\n</INSTRUCTIONS>";
    let text = lines(&[
        meta("Be brief.\r\n"),
        meta("Be long."),
        codex("response_item", &codex_message("user", sent)),
        codex("response_item", &codex_message("user", "Find it.")),
    ]);
    let seen =
        "n:# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nBe brief.\r\n\n</INSTRUCTIONS> | u:Find it.";
    let whole = "s:Be brief.\r\n | n:# AGENTS.md instructions for /w\n\n<INSTRUCTIONS>\nBe brief.\r\n\n</INSTRUCTIONS> | u:Find it.";
    folded("codex", text, seen, whole)
}

fn team_samples() -> Vec<Sample> {
    let log =
        |history: &Value| json!({"question": "Who?", "mistake_agent": "x", "history": history}).to_string();
    vec![
        sample(
            "who-and-when",
            log(
                &json!([{"role": "human", "content": "Who?"}, {"role": "Orchestrator (thought)", "content": "Hm."},
                {"role": "assistant", "name": "Computer_terminal", "content": "42"}]),
            ),
            "u:Who? | a:Hm. | n:42",
        ),
        sample(
            "who-and-when",
            log(&json!([{"role": "user", "name": "Expert", "content": "Me."}])),
            "u:Who? | a:Me.",
        ),
        sample(
            "swe-agent",
            json!({"environment": "main", "history": [{"role": "user", "content": "hi"},
                {"role": "assistant", "content": "", "tool_calls": [{"id": "a", "type": "function",
                    "function": {"name": "f", "arguments": "{}"}}]},
                {"role": "tool", "tool_call_ids": ["a"], "content": "out"}]})
            .to_string(),
            "u:hi | a:+f(a) | r(a):out",
        ),
        trae_sample(),
        trae_chat(),
        sample("swe-agent", call_in_text(), "u:hi | a:I look.+bash(call_1) | r(call_1):a.rs | a:Done."),
    ]
}

/// Returns a trajectory of a Trae agent that got a second task. If the model says nothing, the last message
/// is repeated as its words.
fn trae_sample() -> Sample {
    let say = |role: &str, text: &str| json!({"role": role, "content": text});
    let call = |id: &str| json!({"id": id, "type": "function", "function": {"name": "f", "arguments": "{}"}});
    let done = r#"{"success":true,"result":"out"}"#;
    let result = json!({"role": "tool", "tool_call_id": "c", "content": done});
    let calling =
        |text: &str, id: &str| json!({"role": "assistant", "content": text, "tool_calls": [call(id)]});
    let asked = [say("system", "You are Trae Agent."), say("user", "Find it.")];
    let sent = [&asked[..], &[calling("Find it.", "c"), result]].concat();
    let repeated = json!({"role": "tool", "tool_call_id": "d", "content": done});
    let later = [&sent[..], &[calling(done, "d"), repeated]].concat();
    let step = |messages: &[Value], more: Value| {
        let mut step = json!({"step_id": "1", "messages": messages, "tool_calls": [], "tool_results": []});
        step.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        step
    };
    let failed = json!({"success": false, "error": "late"});
    let steps = json!([
        step(&asked, json!({})),
        step(&asked, json!({"tool_calls": [call("c")]})),
        step(&sent, json!({"tool_calls": [call("d")]})),
        step(
            &later,
            json!({"llm_response_content": "Once more.", "tool_calls": [call("e")], "tool_results": [failed]})
        ),
        step(&[say("user", "And now?")], json!({})),
    ]);
    sample(
        "trae-agent",
        json!({"agent_id": "t", "task": "Find it.", "steps": steps}).to_string(),
        "s:You are Trae Agent. | u:Find it. | a:+f(c) | r(c):{\"success\":true,\"result\":\"out\"} | a:+f(d) | \
         r(d):{\"success\":true,\"result\":\"out\"} | a:Once more.+f(e) | r(e):{\"success\":false,\"error\":\"late\"}",
    )
}

/// Returns a trajectory of a Trae agent that answers with the user's words, and makes no call.
fn trae_chat() -> Sample {
    let say = |role: &str, text: &str| json!({"role": role, "content": text});
    let sent = [say("user", "OK"), say("assistant", "OK"), say("user", "More.")];
    let step = json!({"step_id": "1", "messages": sent, "tool_calls": [], "tool_results": [], "llm_response_content": "Here."});
    sample(
        "trae-agent",
        json!({"agent_id": "t", "task": "OK", "steps": [step]}).to_string(),
        "u:OK | a:OK | u:More. | a:Here.",
    )
}

/// A trajectory of SWE-agent whose model writes its calls into its text.
fn call_in_text() -> String {
    json!({"environment": "main", "history": [{"role": "user", "content": "hi"},
        {"role": "assistant", "content": "I look.\n```\nls\n```", "thought": "I look.\n", "action": "ls\n"},
        {"role": "user", "content": "a.rs", "message_type": "observation"},
        {"role": "assistant", "content": "Done.", "thought": "Done.", "action": ""}]})
    .to_string()
}

fn pi_samples() -> Vec<Sample> {
    let head =
        json!({"type": "session", "version": 3, "id": "s", "timestamp": "2026-01-01T10:00:00Z", "cwd": "/"});
    let entry = |id: &str, parent: Option<&str>, message: Value| json!({"type": "message", "id": id, "parentId": parent, "timestamp": "2026-01-01T10:00:00Z", "message": message});
    let user = |text: &str| json!({"role": "user", "content": [{"type": "text", "text": text}]});
    let call = json!({"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."},
        {"type": "toolCall", "id": "c", "name": "f", "arguments": {}}]});
    let result = json!({"role": "toolResult", "toolCallId": "c", "toolName": "f", "content": [{"type": "text", "text": "out"}]});
    let exchange = |id: &str| [entry("b", Some(id), call.clone()), entry("c", Some("b"), result.clone())];
    let compaction = json!({"type": "compaction", "id": "e", "parentId": "d", "summary": "It was sought.",
        "firstKeptEntryId": "d", "tokensBefore": 99});
    let mut long = vec![head.clone(), entry("a", None, user("Find it."))];
    long.extend(exchange("a"));
    let mut branched = long.clone();
    let half = json!({"role": "assistant", "stopReason": "aborted", "content": [{"type": "toolCall", "id": "h", "name": "f", "arguments": {}}]});
    branched.push(entry("h", Some("c"), half));
    branched.extend([
        json!({"type": "label", "id": "l", "parentId": "h", "label": "x"}),
        entry("x", Some("l"), user("Not so.")),
        entry("d", Some("l"), user("So.")),
    ]);
    long.extend([entry("d", Some("c"), user("Now.")), compaction, entry("g", Some("e"), user("And?"))]);
    let old =
        |message: Value| json!({"type": "message", "timestamp": "2026-01-01T10:00:00Z", "message": message});
    vec![
        sample("pi", lines(&branched), "u:Find it. | a:+f(c) | r(c):out | u:So."),
        sample("pi", json!(branched).to_string(), "u:Find it. | a:+f(c) | r(c):out | u:So."),
        sample(
            "pi",
            lines(&[
                head.clone(),
                entry("a", None, user("<skill name=\"tidy\" location=\"/s\">\nTidy it.\n</skill>")),
                entry(
                    "b",
                    Some("a"),
                    json!({"role": "assistant", "content": [{"type": "text", "text": "Done."}]}),
                ),
                entry(
                    "c",
                    Some("b"),
                    user("<skill name=\"tidy\" location=\"/s\">\nTidy it.\n</skill>\n\nonly a.rs"),
                ),
                // It was written again, as a message of its own.
                entry("d", Some("c"), user("<skill name=\"tidy\" location=\"/s\">\nTidy it.\n</skill>\n")),
            ]),
            "u:/skill:tidy | n:<skill name=\"tidy\" location=\"/s\">\nTidy it.\n</skill>\n | a:Done. | u:/skill:tidy only a.rs | n:<skill name=\"tidy\" location=\"/s\">\nTidy it.\n</skill>\n | n:<skill name=\"tidy\" location=\"/s\">\nTidy it.\n</skill>\n",
        ),
        Sample {
            format: "pi",
            text: lines(&long),
            expected: "u*:It was sought. | u:Now. | u:And?",
            before: "u:Find it. | a:+f(c) | r(c):out | u:Now. | u:And?",
        },
        Sample {
            format: "pi",
            text: lines(&[
                head,
                old(user("One.")),
                old(user("Two.")),
                json!({"type": "compaction", "summary": "One.", "firstKeptEntryIndex": 2, "tokensBefore": 9}),
                old(json!({"role": "bashExecution", "command": "ls", "output": "x"})),
            ]),
            expected: "u*:One. | u:Two. | n:Ran `ls`\nx",
            before: "u:One. | u:Two. | n:Ran `ls`\nx",
        },
    ]
}

fn gemini_cli_samples() -> Vec<Sample> {
    let head = json!({"sessionId": "s", "projectHash": "h", "startTime": "t"});
    let user = |id: &str, text: &str| json!({"id": id, "timestamp": "2026-01-01T10:00:00Z", "type": "user", "content": [{"text": text}]});
    let reply = |result: Value| {
        json!({"id": "b", "timestamp": "2026-01-01T10:00:00Z", "type": "gemini", "content": "I look.",
            "toolCalls": [{"id": "c", "name": "f", "args": {}, "status": "success", "result": result}]})
    };
    let result = json!([{"functionResponse": {"id": "c", "name": "f", "response": {"output": "out"}}}]);
    let all = [
        user("a", "Find it."),
        reply(result.clone()),
        json!({"id": "i", "type": "info", "content": "Update!"}),
    ];
    let document = json!({"sessionId": "s", "projectHash": "h", "messages": all}).to_string();
    vec![
        sample("gemini-cli", document, "u:Find it. | a:I look.+f(c) | r(c):out"),
        sample(
            "gemini-cli",
            lines(&[
                head.clone(),
                user("a", "Find it."),
                reply(Value::Null),
                reply(result.clone()),
                json!({"$set": {"summary": "x"}}),
                user("d", "No."),
                json!({"$rewindTo": "d"}),
                user("e", "Yes."),
            ]),
            "u:Find it. | a:I look.+f(c) | r(c):out | u:Yes.",
        ),
        sample(
            "gemini-cli",
            lines(&[
                head.clone(),
                user("a", "Find it."),
                json!({"$set": {"messages": [user("z", "Sum.")]}}),
                user("d", "Now."),
            ]),
            "u:Sum. | u:Now.",
        ),
        // An update, such as a result that was masked, stays where the message was.
        sample(
            "gemini-cli",
            lines(&[
                head.clone(),
                user("a", "Find it."),
                reply(Value::Null),
                user("d", "Now."),
                reply(result.clone()),
            ]),
            "u:Find it. | a:I look.+f(c) | r(c):out | u:Now.",
        ),
        folded(
            "gemini-cli",
            lines(&[
                head,
                user("a", "Find it."),
                reply(result),
                json!({"$set": {"messages": [user("z", "<state_snapshot>Sum.</state_snapshot>"), user("k", "Kept.")]}}),
                user("d", "Now."),
            ]),
            "u*:<state_snapshot>Sum.</state_snapshot> | u:Kept. | u:Now.",
            "u:Find it. | a:I look.+f(c) | r(c):out | u:Now.",
        ),
    ]
}

fn antigravity_samples() -> Vec<Sample> {
    let step = |number: usize, source: &str, kind: &str, content: &str| {
        json!({"step_index": number, "source": source, "type": kind, "status": "DONE",
            "created_at": "2026-01-01T10:00:00Z", "content": content})
    };
    let said = "<USER_REQUEST>\nFind it.\n</USER_REQUEST>\n<ADDITIONAL_METADATA>\nx\n</ADDITIONAL_METADATA>";
    let mut planned = step(3, "MODEL", "PLANNER_RESPONSE", "I look.");
    planned["thinking"] = json!("Hm.");
    planned["tool_calls"] =
        json!([{"name": "view_file", "args": {"Path": "\"a\""}}, {"name": "list_dir", "args": {}}]);
    let steps = [
        step(0, "USER_EXPLICIT", "USER_INPUT", said),
        json!({"step_index": 1, "source": "SYSTEM", "type": "CONVERSATION_HISTORY", "status": "DONE"}),
        step(2, "SYSTEM", "EPHEMERAL_MESSAGE", "Be brief."),
        planned,
        step(4, "MODEL", "VIEW_FILE", "Created At: 1\nCompleted At: 2\nout"),
        step(5, "SYSTEM", "ERROR_MESSAGE", "Created At: 1\nno"),
        json!({"step_index": 6, "source": "SYSTEM", "type": "ERROR_MESSAGE", "error": "busy"}),
        step(7, "MODEL", "PLANNER_RESPONSE", "Here."),
    ];
    let seen = "u:Find it. | n:<ADDITIONAL_METADATA>\nx\n</ADDITIONAL_METADATA> | n:Be brief. | a:I look.+view_file(step_4)+list_dir(step_5) | r(step_4):out | r!(step_5):no | a:Here.";
    let mut thought = step(1, "MODEL", "PLANNER_RESPONSE", "thought\nHm.");
    thought["tool_calls"] = json!([{"name": "list_dir", "args": {}}]);
    let thoughtful = [
        step(0, "USER_EXPLICIT", "USER_INPUT", "Find it."),
        thought,
        step(2, "MODEL", "LIST_DIRECTORY", "out"),
        step(3, "MODEL", "PLANNER_RESPONSE", "thought\nSo it is a.rs.Here."),
    ];
    vec![
        sample("antigravity", lines(&steps), seen),
        sample(
            "antigravity",
            lines(&thoughtful),
            "u:Find it. | a:+list_dir(step_2) | r(step_2):out | a:So it is a.rs.Here.",
        ),
    ]
}

fn copilot_samples() -> Vec<Sample> {
    let event = |kind: &str, data: Value| json!({"type": kind, "data": data, "id": "1", "timestamp": "2026-01-01T10:00:00Z"});
    let mut events = vec![
        event("session.start", json!({"sessionId": "s", "producer": "copilot-agent"})),
        event("system.message", json!({"role": "system", "content": "Be brief."})),
        event(
            "user.message",
            json!({"content": "Find it.", "transformedContent": "<current_datetime>x</current_datetime>\n\nFind it."}),
        ),
        event(
            "assistant.message",
            json!({"content": "", "toolRequests": [{"toolCallId": "c", "name": "f", "arguments": {}}]}),
        ),
        event(
            "tool.execution_complete",
            json!({"toolCallId": "c", "success": false, "error": {"message": "no", "code": "x"}}),
        ),
        event("system.message", json!({"role": "system", "content": "Be brief."})),
        event("user.message", json!({"content": "And?"})),
    ];
    let seen = "s:Be brief. | n:<current_datetime>x</current_datetime>\n\n | u:Find it. | a:+f(c) | r!(c):{\"message\": \"no\", \"code\": \"x\"} | u:And?";
    let plain = sample("copilot", lines(&events), seen);
    events.push(event(
        "session.compaction_complete",
        json!({"success": true, "summaryContent": "It was sought.", "preCompactionTokens": 9}),
    ));
    let compacted = Sample {
        format: "copilot",
        text: lines(&events),
        expected: "s:Be brief. | u*:It was sought.",
        before: seen,
    };
    vec![plain, compacted]
}

#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn openhands_samples() -> Vec<Sample> {
    let metadata = json!({"function_name": "f", "tool_call_id": "c", "model_response": {"id": "m",
        "choices": [{"message": {"tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{\"a\": 1}"}}]}}]}});
    let history = json!([
        {"id": 0, "source": "agent", "action": "system", "args": {"content": "Be brief."}},
        {"id": 1, "source": "user", "action": "message", "args": {"content": "Find it."}},
        {"id": 2, "source": "user", "action": "recall", "args": {"query": "Find it."}},
        {"id": 3, "source": "agent", "action": "run", "args": {"command": "ls", "thought": "I look."}, "tool_call_metadata": metadata},
        {"id": 4, "source": "agent", "observation": "run", "content": "out", "cause": 3, "tool_call_metadata": metadata},
        {"id": 5, "source": "agent", "action": "finish", "args": {"final_thought": "Here."},
            "tool_call_metadata": {"function_name": "finish", "tool_call_id": "d", "model_response": {"id": "n"}}},
    ]);
    let seen = "s:Be brief. | u:Find it. | a:I look.+f(c) | r(c):out | a:Here.";
    let recall = |id: usize, extras: Value| {
        json!({"id": id, "source": "environment", "observation": "recall", "cause": 2,
        "content": "Added workspace context", "extras": extras})
    };
    let recalled = json!([
        history[0],
        history[1],
        history[2],
        recall(
            6,
            json!({"repo_name": "a/b", "repo_directory": "", "runtime_hosts": {}, "date": "",
            "repo_instructions": "Test all.\n", "microagent_knowledge": []})
        ),
        recall(
            7,
            json!({"repo_name": "", "microagent_knowledge": [{"name": "git", "content": "Push nothing."}]})
        ),
        recall(8, json!({"repo_name": ""})),
        history[3],
        history[4],
        history[5]
    ]);
    let older = json!({"issue": {}, "instruction": "x", "history": [
        {"action": "message", "content": "Find it."},
        {"action": "run", "command": "ls", "thought": "I look."},
        {"observation": "run", "command": "ls", "content": "out"}]});
    let event = |kind: &str, more: Value| {
        let mut event =
            json!({"id": kind, "timestamp": "2026-01-01T10:00:00Z", "source": "agent", "kind": kind});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let action = |id: &str| {
        event(
            "ActionEvent",
            json!({"id": id, "thought": [], "tool_name": "f", "tool_call_id": id,
            "tool_call": {"id": id, "name": "f", "arguments": "{}"}, "llm_response_id": "m"}),
        )
    };
    let result = |id: &str| {
        event(
            "ObservationEvent",
            json!({"id": format!("{id}r"), "tool_call_id": id,
            "observation": {"content": [{"type": "text", "text": "out"}]}}),
        )
    };
    let mut events = vec![
        event("SystemPromptEvent", json!({"system_prompt": {"type": "text", "text": "Be brief."}})),
        event(
            "MessageEvent",
            json!({"llm_message": {"role": "user", "content": [{"type": "text", "text": "Find it."}]}}),
        ),
        action("a"),
        action("b"),
        result("a"),
        result("b"),
    ];
    let plain = sample(
        "openhands-events",
        lines(&events),
        "s:Be brief. | u:Find it. | a:+f(a)+f(b) | r(a):out | r(b):out",
    );
    events.push(event(
        "Condensation",
        json!({"forgotten_event_ids": ["a", "b", "ar", "br"], "summary": "It was sought."}),
    ));
    let (condensed, condensed_before) = (
        "s:Be brief. | u:Find it. | u*:It was sought.",
        "s:Be brief. | u:Find it. | a:+f(a)+f(b) | r(a):out | r(b):out",
    );
    // The second summary takes the place of the first, and stands where it says.
    let mut twice = events.clone();
    twice.push(event(
        "MessageEvent",
        json!({"id": "m2", "llm_message": {"role": "user", "content": [{"type": "text", "text": "And?"}]}}),
    ));
    twice.push(event(
        "Condensation",
        json!({"id": "c2", "forgotten_event_ids": ["MessageEvent"], "summary": "Twice sought.", "summary_offset": 1}),
    ));
    vec![
        sample("openhands", history.to_string(), seen),
        sample("openhands", recalled.to_string(), "s:Be brief. | u:Find it. | n:<REPOSITORY_INFO>\na/b\n</REPOSITORY_INFO>\n<REPOSITORY_INSTRUCTIONS>\nTest all.\n</REPOSITORY_INSTRUCTIONS> | n:<EXTRA_INFO>\nPush nothing.\n</EXTRA_INFO> | a:I look.+f(c) | r(c):out | a:Here."),
        sample("openhands", format!("{}\n{older}\n", json!({"instance_id": "i", "history": history})), seen),
        sample("openhands", older.to_string(), "u:Find it. | a:I look.+run(call_0) | r(call_0):out"),
        plain,
        folded("openhands-events", lines(&events), condensed, condensed_before),
        folded("openhands-events", json!(events).to_string(), condensed, condensed_before),
        folded("openhands-events", lines(&twice), "s:Be brief. | u*:Twice sought. | u:And?", "s:Be brief. | u:Find it. | a:+f(a)+f(b) | r(a):out | r(b):out | u:And?"),
        folded(
            "openhands",
            json!([history[0], history[1], history[3], history[4],
                {"id": 6, "source": "agent", "action": "condensation", "args": {"summary": "It was sought.",
                    "forgotten_events_start_id": 3, "forgotten_events_end_id": 4, "summary_offset": 1}},
                history[5]]).to_string(),
            "s:Be brief. | u*:It was sought. | u:Find it. | a:Here.",
            seen,
        ),
        sample(
            "inspect",
            json!({"version": 2, "eval": {}, "samples": [{"id": 1, "epoch": 1, "messages": [
                {"role": "user", "content": "Find it."},
                {"role": "assistant", "content": [{"type": "reasoning", "reasoning": "Hm."}, {"type": "text", "text": "I look."}],
                    "tool_calls": [{"id": "c", "function": "f", "arguments": {}}]},
                {"role": "tool", "tool_call_id": "c", "content": "", "error": {"type": "timeout", "message": "late"}}]}]})
            .to_string(),
            "u:Find it. | a:I look.+f(c) | r!(c):{\"type\": \"timeout\", \"message\": \"late\"}",
        ),
    ]
}

/// The same short exchange in formats that differ in their containers and blocks.
#[expect(clippy::too_many_lines, reason = "a table of cases")]
fn block_samples() -> Vec<Sample> {
    let seen = "u:Find it. | a:I look.+f(c) | r(c):out | a:Here.";
    let nameless = "u:Find it. | a:I look.+f(call_0) | r(call_0):out | a:Here.";
    let tool_use = json!({"type": "tool_use", "id": "c", "name": "f", "input": {}});
    let tool_result = json!({"type": "tool_result", "tool_use_id": "c", "content": "out"});
    let say = |text: &str| json!({"type": "text", "text": text});
    let cline = json!([
        {"role": "user", "content": [say("Find it.")], "ts": 1},
        {"role": "assistant", "content": [say("I look."), tool_use], "ts": 2},
        {"role": "user", "content": [tool_result], "ts": 3},
        {"role": "assistant", "content": [say("Here.")], "ts": 4},
    ]);
    let mut attached = cline.clone();
    let file = json!({"type": "file", "path": "a.rs", "content": "fn a() {}"});
    attached[0]["content"].as_array_mut().unwrap().push(file);
    let mut roo = cline.clone();
    for message in roo.as_array_mut().unwrap() {
        message["condenseParent"] = json!("k");
    }
    roo.as_array_mut().unwrap().extend([
        json!({"role": "user", "content": [say("It was sought.")], "ts": 5, "isSummary": true, "condenseId": "k"}),
        json!({"role": "user", "content": [say("And?")], "ts": 6}),
    ]);
    let turn =
        |kind: &str, content: Value| json!({"type": kind, "message": {"role": kind, "content": content}});
    let vercel = json!([
        {"role": "user", "content": "Find it."},
        {"role": "assistant", "content": [say("I look."), {"type": "tool-call", "toolCallId": "c", "toolName": "f", "input": {}}]},
        {"role": "tool", "content": [{"type": "tool-result", "toolCallId": "c", "toolName": "f", "output": {"type": "text", "value": "out"}}]},
        {"role": "assistant", "content": "Here."}]);
    let vercel_ui = json!([
        {"id": "1", "role": "user", "parts": [say("Find it.")]},
        {"id": "2", "role": "assistant", "parts": [{"type": "step-start"}, say("I look."),
            {"type": "tool-f", "toolCallId": "c", "state": "output-available", "input": {}, "output": "out"},
            {"type": "step-start"}, say("Here.")]}]);
    let responses = json!([
        {"role": "user", "content": [{"type": "input_text", "text": "Find it."}]},
        {"type": "reasoning", "summary": []},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "I look."}]},
        {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "out"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Here."}]}]);
    let contents = json!([
        {"role": "user", "parts": [{"text": "Find it."}]},
        {"role": "model", "parts": [{"text": "Hm.", "thought": true}, {"text": "I look."}, {"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"output": "out"}}}]},
        {"role": "model", "parts": [{"text": "Here."}]}]);
    let langchain = json!([
        {"type": "human", "content": "Find it."},
        {"type": "ai", "content": "I look.", "tool_calls": [{"name": "f", "args": {}, "id": "c", "type": "tool_call"}]},
        {"type": "tool", "content": "out", "tool_call_id": "c"},
        {"type": "ai", "content": "Here.", "tool_calls": []}]);
    let wrapped: Vec<Value> = langchain
        .as_array()
        .unwrap()
        .iter()
        .map(|message| json!({"type": message["type"], "data": message}))
        .collect();
    let built: Vec<Value> = langchain.as_array().unwrap().iter().zip(["HumanMessage", "AIMessage", "ToolMessage", "AIMessage"])
        .map(|(message, class)| json!({"lc": 1, "type": "constructor", "id": ["langchain", "schema", class], "kwargs": message})).collect();
    let openai = [
        json!({"role": "user", "content": "Find it."}),
        json!({"role": "assistant", "content": "I look.", "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]}),
        json!({"role": "tool", "tool_call_id": "c", "content": "out"}),
        json!({"role": "assistant", "content": "Here."}),
    ];
    let conversation = json!({"messages": openai});
    let batch = |body: &Value| json!({"custom_id": "1", "method": "POST", "body": body});
    vec![
        sample("cline", cline.to_string(), seen),
        sample(
            "cline",
            attached.to_string(),
            "u:Find it. | n:<file_content path=\"a.rs\">\nfn a() {}\n</file_content> | a:I look.+f(c) | r(c):out | a:Here.",
        ),
        sample("cline", json!({"version": 1, "system_prompt": "Be brief.", "messages": cline}).to_string(), "s:Be brief. | u:Find it. | a:I look.+f(c) | r(c):out | a:Here."),
        folded("cline", roo.to_string(), "u*:It was sought. | u:And?", "u:Find it. | a:I look.+f(c) | r(c):out | a:Here. | u:And?"),
        sample("claude-turns", json!([{"type": "system", "subtype": "init"}, turn("user", json!("Find it.")),
            turn("assistant", json!([say("I look."), tool_use])), turn("user", json!([tool_result])),
            turn("assistant", json!([say("Here.")])), {"type": "result", "result": "Here."}]).to_string(), seen),
        sample("forge-code", json!({"id": "1", "context": {"messages": [
            {"text": {"role": "User", "content": "Find it."}},
            {"text": {"role": "Assistant", "content": "I look.", "tool_calls": [{"name": "f", "call_id": "c", "arguments": {}}]}},
            {"tool": {"name": "f", "call_id": "c", "output": {"is_error": false, "values": [{"text": "out"}]}}},
            {"text": {"role": "Assistant", "content": "Here."}}]}}).to_string(), seen),
        sample("vercel", vercel.to_string(), seen),
        sample("vercel", json!({"messages": vercel}).to_string(), seen),
        sample("vercel", vercel_ui.to_string(), seen),
        sample("responses", responses.to_string(), seen),
        sample("responses", json!({"model": "m", "instructions": "Be brief.", "input": responses}).to_string(),
            "s:Be brief. | u:Find it. | a:I look.+f(c) | r(c):out | a:Here."),
        sample("gemini", contents.to_string(), nameless),
        sample("gemini", json!({"systemInstruction": {"parts": [{"text": "Be brief."}]}, "contents": contents}).to_string(),
            "s:Be brief. | u:Find it. | a:I look.+f(call_0) | r(call_0):out | a:Here."),
        sample("langchain", langchain.to_string(), seen),
        sample("langchain", json!({"values": {"messages": langchain}}).to_string(), seen),
        sample("langchain", json!({"messages": langchain}).to_string(), seen),
        sample("langchain", json!(wrapped).to_string(), seen),
        sample("langchain", json!(built).to_string(), seen),
        sample("openai-lines", lines(&openai), seen),
        sample("openai-lines", lines(&[conversation.clone(), conversation.clone()]), seen),
        sample("openai-lines", lines(&[batch(&conversation), batch(&conversation)]), seen),
        sample("aider", "\n# aider chat started at 2026-01-01 10:00:00\n\n> Added a.rs.\n\n#### find it  \n#### now\n\nI look.\n\nThere.\n\n> Done.\n\n# aider chat started at 2026-01-02 10:00:00\n".to_owned(),
            "n:Added a.rs. | u:find it\nnow | a:I look.\n\nThere. | n:Done."),
        sample("aider", "# aider chat started at 2026-01-01 10:00:00\n\n#### find it  \n#### now  \n\nI look.\n\n#### Found\n\n    <p\n    >\nThere.\n".to_owned(),
            "u:find it\nnow | a:I look.\n\n#### Found\n\n    <p\n    >\nThere."),
        sample("aider", "# aider chat started at 2026-01-01 10:00:00\n\n#### find it  \n#### now  \n\n#### Found\n\nThere.\n\n> Done.\n".to_owned(),
            "u:find it\nnow | a:#### Found\n\nThere. | n:Done."),
        // The reply is what a second model is asked to do.
        sample("aider", "# aider chat started at 2026-01-01 10:00:00\n\n#### find it  \n\nI look.\n\nThere.\n\n#### I look.  \n####   \n#### There.  \n\nDone.\n".to_owned(),
            "u:find it | a:I look.\n\nThere. | n:I look.\n\nThere. | a:Done."),
        sample("aider", "# aider chat started at 2026-01-01 10:00:00\n\n#### /code find it  \n\n#### find it  \n\n<thinking-content-1a2>\nHm.\n</thinking-content-1a2>\n\nThere.\n\n#### /map  \n> Files:\na.rs:\n│f\n".to_owned(),
            "u:/code find it | a:There. | n:/map | n:Files:\na.rs:\n│f"),
        sample("aider", "# aider chat started at 2026-01-01 10:00:00\n\n#### /map  \n\na.rs:\n│f\n\n#### find it  \n\nThere.\n".to_owned(),
            "n:/map | n:a.rs:\n│f | u:find it | a:There."),
        sample("aider", "# aider chat started at 2026-01-01 10:00:00\n\n> /bin/aider --model m  \n> Aider v0.86.2  \n> Repo-map: off  \n> Added a.rs.  \n\n#### find it  \n\nI look.\n\n> # 1 SEARCH/REPLACE block failed to match!\n\n## SearchReplaceNoExactMatch: It is not in a.rs\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n\nThe SEARCH section must exactly match it\n\n# The other block was applied.\nDon't re-send them.\nJust reply with fixed versions of it.  \n> Commit 1a2b3c4 x  \n\nHere.\n".to_owned(),
            "n:/bin/aider --model m\nAider v0.86.2\nRepo-map: off | n:Added a.rs. | u:find it | a:I look. | n:# 1 SEARCH/REPLACE block failed to match!\n\n## SearchReplaceNoExactMatch: It is not in a.rs\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE\n\nThe SEARCH section must exactly match it\n\n# The other block was applied.\nDon't re-send them.\nJust reply with fixed versions of it.\nCommit 1a2b3c4 x | a:Here."),
        // Without its end, a report is not told from a reply.
        sample("aider", "# aider chat started at 2026-01-01 10:00:00\n\n#### find it  \n\n> It failed.\n\n## SearchReplaceNoExactMatch: It is not in a.rs\n\n#### And?  \n\nHere.\n".to_owned(),
            "u:find it | n:It failed. | a:## SearchReplaceNoExactMatch: It is not in a.rs | u:And? | a:Here."),
        // Of several reports without an end, only the first is read to where it might be.
        sample("aider", "# aider chat started at 2026-01-01 10:00:00\n\n#### find it  \n\n> It failed.\n\n## SearchReplaceNoExactMatch: It is not in a.rs\n\n## SearchReplaceNoExactMatch: Nor in b.rs\n\n#### And?  \n\nHere.\n".to_owned(),
            "u:find it | n:It failed. | a:## SearchReplaceNoExactMatch: It is not in a.rs\n\n## SearchReplaceNoExactMatch: Nor in b.rs | u:And? | a:Here."),
        // The manual that a question about aider gets is no word of the user's.
        sample("aider", "# aider chat started at 2026-01-01 10:00:00\n\n#### /help how?  \n\n#### # Question: how?  \n####   \n#### # Relevant docs:  \n####   \n#### <doc>  \n#### ## Maps  \n#### </doc>  \n\nSo.\n\n> Tokens: 1  \n> Add these files to the chat? y  \n\nGreat.\n".to_owned(),
            "u:/help how? | n:# Question: how?\n\n# Relevant docs:\n\n<doc>\n## Maps\n</doc> | a:So. | n:Tokens: 1\nAdd these files to the chat? y | a:Great."),
        // Of a command that it offers to run, aider marks the first line.
        sample("aider", "# aider chat started at 2026-01-01 10:00:00\n\n#### find it  \n\nI look.\n\n> Tokens: 1  \n> let a =  \n    b;  \n> Run shell command? (Y)es/(N)o [Yes]: n  \n\n#### And?  \n\nHere.\n".to_owned(),
            "u:find it | a:I look. | n:Tokens: 1\nlet a =\n    b;\nRun shell command? (Y)es/(N)o [Yes]: n | u:And? | a:Here."),
        // A formatter was at it.
        sample("aider", "# aider chat started at 2026-01-01 10:00:00\n\n#### find it\n\n####\n\n#### now\n\nI look.\n".to_owned(),
            "u:find it\n\n\n\nnow | a:I look."),
    ]
}

#[expect(clippy::needless_pass_by_value, reason = "a call reads as the message does")]
fn message(id: &str, role: &str, parts: Value) -> Value {
    json!({"info": {"id": id, "role": role}, "parts": parts})
}

/// Returns a session of opencode with a compaction, of which one failed, and replies that failed.
fn compacted_opencode(request: &Value) -> String {
    let say = |text: &str| json!({"type": "text", "text": text});
    let reply = |id: &str, facts: Value, parts: Value| {
        let mut reply = message(id, "assistant", parts);
        reply["info"].as_object_mut().unwrap().extend(facts.as_object().unwrap().clone());
        reply
    };
    let cleared = json!({"type": "tool", "callID": "d", "tool": "f", "state": {"status": "completed", "input": {},
        "output": "out", "time": {"start": 1, "end": 2, "compacted": 3}}});
    let read = json!({"type": "text", "text": "Read a.rs", "synthetic": true});
    let facts = |more: Value| {
        let mut facts = json!({"summary": true, "parentID": "m5", "finish": "stop"});
        facts.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        facts
    };
    json!({"info": {"id": "s"}, "messages": [
        message("m1", "user", json!([say("One.")])),
        message("m2", "assistant", json!([say("1")])),
        message("m3", "user", json!([say("Two."), {"type": "text", "text": "seen by nobody", "ignored": true}])),
        reply("m4a", json!({"error": {"name": "APIError"}}), json!([say("lost")])),
        message("m4", "assistant", json!([say("2")])),
        message("m5", "user", json!([request])),
        reply("m6a", facts(json!({"error": {"name": "APIError"}})), json!([say("half")])),
        reply("m6", facts(json!({})), json!([say("It was sought.")])),
        message("m7", "user", json!([say("And?"), read])),
        reply("m8", json!({"error": {"name": "MessageAbortedError"}}), json!([{"type": "step-start"}, cleared])),
    ]})
    .to_string()
}

/// Returns a session of opencode with commands: one failed, one went well, and one was stopped.
fn commands_of_opencode() -> String {
    let tool = |id: &str, name: &str, output: &str, metadata: Value| {
        json!({"type": "tool", "callID": id, "tool": name,
            "state": {"status": "completed", "input": {}, "output": output, "metadata": metadata}})
    };
    let parts = json!([
        tool("c", "bash", "1 failed", json!({"exit": 1, "output": "1 failed"})),
        tool("d", "bash", "", json!({"exit": 0})),
        tool("e", "bash", "half", json!({"exit": null})),
        tool("f", "read", "out", json!({"truncated": false})),
    ]);
    let asked = json!([{"type": "text", "text": "Test it."}]);
    json!({"info": {"id": "s"}, "messages": [message("m1", "user", asked), message("m2", "assistant", parts)]})
        .to_string()
}

/// Returns logs of opencode's events: a reply that grows, a call and its result, and a sub-agent's session.
fn opencode_logs() -> Vec<Sample> {
    let event = |kind: &str, properties: Value| json!({"type": kind, "properties": properties});
    let session = |id: &str, parent: Value| {
        event("session.updated", json!({"info": {"id": id, "parentID": parent, "title": "x"}}))
    };
    let info = |id: &str, role: &str, session: &str| {
        event("message.updated", json!({"info": {"id": id, "sessionID": session, "role": role}}))
    };
    let part = |id: &str, message: &str, more: Value| {
        let mut part = json!({"id": id, "sessionID": "s", "messageID": message});
        part.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event("message.part.updated", json!({"part": part}))
    };
    let text = |said: &str| json!({"type": "text", "text": said});
    let tool = |state: Value| json!({"type": "tool", "callID": "c", "tool": "f", "state": state});
    let grown = |said: &str| {
        event(
            "message.part.delta",
            json!({"sessionID": "s", "messageID": "m2", "partID": "p2", "field": "text", "delta": said}),
        )
    };
    let events = vec![
        session("s", Value::Null),
        info("m1", "user", "s"),
        part("p1", "m1", text("Find it.")),
        info("m2", "assistant", "s"),
        part("p2", "m2", text("")),
        grown("I "),
        grown("look."),
        part("p3", "m2", tool(json!({"status": "pending", "input": {}}))),
        session("t", json!("s")),
        info("n1", "user", "t"),
        part("p3", "m2", tool(json!({"status": "completed", "input": {}, "output": "out"}))),
        part("p4", "m2", text("Not so.")),
        event("message.part.removed", json!({"sessionID": "s", "messageID": "m2", "partID": "p4"})),
        info("m3", "assistant", "s"),
        part("p5", "m3", text("Here.")),
        info("m4", "user", "s"),
        part("p6", "m4", text("No.")),
        event("message.removed", json!({"sessionID": "s", "messageID": "m4"})),
        // These belong to no session of the log.
        session("u", Value::Null),
        event("message.removed", json!({"sessionID": "v", "messageID": "w"})),
        event("message.updated", json!({})),
        info("m1", "user", "s"),
    ];
    let seen = "u:Find it. | a:I look.+f(c) | r(c):out | a:Here.";
    let logged: Vec<Value> =
        events.iter().map(|event| json!({"timestamp": 1, "threadId": "1", "event": event})).collect();
    vec![sample("opencode", lines(&events), seen), sample("opencode", lines(&logged), seen)]
}

fn export_samples() -> Vec<Sample> {
    let seen = "u:Find it. | a:I look.+f(c) | r(c):out | a:Here.";
    let say = |text: &str| json!({"type": "text", "text": text});
    let goose = |role: &str, content: Value| json!({"role": role, "created": 1, "content": content, "metadata": {"agentVisible": true}});
    let value = |name: &str, value: Value| json!({"status": "success", name: value});
    let code = |role: &str, parts: Value| json!({"info": {"id": "m", "role": role}, "parts": parts});
    let part = |role: &str, parts: Value| json!({"role": role, "parts": parts});
    let input = json!([
        part("user", json!([{"type": "text", "content": "Find it."}])),
        part(
            "assistant",
            json!([{"type": "text", "content": "I look."}, {"type": "tool_call", "id": "c", "name": "f", "arguments": {}}])
        ),
        part("tool", json!([{"type": "tool_call_response", "id": "c", "response": "out"}])),
    ]);
    let output = json!([part("assistant", json!([{"type": "text", "content": "Here."}]))]);
    let attribute = |key: &str, list: &Value| json!({"key": key, "value": {"stringValue": list.to_string()}});
    let span = |input: &Value| {
        json!({"name": "chat", "attributes": [attribute("gen_ai.input.messages", input),
        attribute("gen_ai.output.messages", &output)]})
    };
    let spans = json!({"resourceSpans": [{"scopeSpans": [{"spans": [span(&json!([])), span(&input), {"name": "other"}]}]}]});
    vec![
        sample("goose", json!({"id": "g", "working_dir": "/", "conversation": [goose("user", json!([say("Find it.")])),
            goose("assistant", json!([say("I look."), {"type": "toolRequest", "id": "c", "toolCall": value("value", json!({"name": "f", "arguments": {}}))}])),
            goose("user", json!([{"type": "toolResponse", "id": "c", "toolResult": value("value", json!([say("out")]))}])),
            goose("assistant", json!([say("Here.")]))]}).to_string(), seen),
        sample("opencode", json!({"info": {"id": "s"}, "messages": [code("user", json!([say("Find it.")])),
            code("assistant", json!([{"type": "step-start"}, say("I look."), {"type": "tool", "callID": "c", "tool": "f",
                "state": {"status": "completed", "input": {}, "output": "out"}}, {"type": "step-finish"},
                {"type": "step-start"}, say("Here.")]))]}).to_string(), seen),
        folded("goose", json!({"id": "g", "working_dir": "/", "conversation": [
            {"role": "user", "content": [say("Find it.")], "metadata": {"userVisible": true, "agentVisible": false}},
            {"role": "assistant", "content": [say("Here.")], "metadata": {"userVisible": true, "agentVisible": false}},
            {"role": "user", "content": [say("It was sought.")], "metadata": {"userVisible": false, "agentVisible": true}},
            {"role": "assistant", "content": [say("I go on.")], "metadata": {"userVisible": false, "agentVisible": true}},
            goose("user", json!([say("And?")]))]}).to_string(),
            "u*:It was sought. | a*:I go on. | u:And?", "u:Find it. | a:Here. | u:And?"),
        folded("opencode", compacted_opencode(&json!({"type": "compaction", "auto": true})),
            "n:What did we do so far? | a*:It was sought. | u:And? | n:Read a.rs | a:+f(d) | r(d):[Old tool result content cleared]",
            "u:One. | a:1 | u:Two. | a:2 | u:And? | n:Read a.rs | a:+f(d) | r(d):[Old tool result content cleared]"),
        folded("opencode", compacted_opencode(&json!({"type": "compaction", "auto": true, "tail_start_id": "m3"})),
            "u:Two. | a:2 | n:What did we do so far? | a*:It was sought. | u:And? | n:Read a.rs | a:+f(d) | r(d):[Old tool result content cleared]",
            "u:One. | a:1 | u:Two. | a:2 | u:And? | n:Read a.rs | a:+f(d) | r(d):[Old tool result content cleared]"),
        sample("opencode", json!({"info": {"id": "s", "revert": {"messageID": "m3"}}, "messages": [
            message("m1", "user", json!([say("One.")])), message("m2", "assistant", json!([say("1")])),
            message("m3", "user", json!([say("Two.")]))]}).to_string(), "u:One. | a:1"),
        sample("opencode", commands_of_opencode(), "u:Test it. | a:+bash(c)+bash(d)+bash(e)+read(f) | \
            r(c):Exit code: 1\nOutput:\n1 failed | r(d):Exit code: 0\nOutput:\n | r(e):half | r(f):out"),
        sample("opencode", format!("Exporting session: s\n{}", json!({"info": {"id": "s"}, "messages": [
            message("m1", "user", json!([say("One.")]))]})), "u:One."),
        sample("otel", spans.to_string(), seen),
        sample("atif", json!({"schema_version": "ATIF-v1.4", "session_id": "s", "agent": {"name": "x", "version": "1"}, "steps": [
            {"step_id": 1, "source": "user", "message": "Find it."},
            {"step_id": 2, "source": "agent", "message": "I look.", "tool_calls": [{"tool_call_id": "c", "function_name": "f", "arguments": {}}],
                "observation": {"results": [{"source_call_id": "c", "content": "out"}]}},
            {"step_id": 3, "source": "agent", "message": "Here."}]}).to_string(), seen),
    ]
}

fn log_samples() -> Vec<Sample> {
    let seen = "u:Find it. | a:I look.+f(c) | r(c):out | a:Here.";
    let said = |role: &str, content: Value| json!({"timestamp": "2026-01-01T10:00:00Z", "role": role, "content": content});
    let say = |text: &str| json!([{"type": "text", "text": text}]);
    let anthropic = [
        said("user", json!("Find it.")),
        said("assistant", json!([])),
        said("assistant", say("I look.")),
        said("assistant", json!([{"type": "tool_use", "id": "c", "name": "f", "input": {}}])),
        said("user", json!([{"type": "tool_result", "tool_use_id": "c", "content": "out"}])),
        said("assistant", say("Here.")),
    ];
    let piece = |text: &str| json!({"type": "message", "role": "assistant", "content": text, "delta": true});
    let gemini = [
        json!({"type": "init", "session_id": "s", "model": "m"}),
        json!({"type": "message", "role": "user", "content": "Find it."}),
        piece("I "),
        piece("lo"),
        piece("ok."),
        json!({"type": "tool_use", "tool_name": "f", "tool_id": "c", "parameters": {}}),
        json!({"type": "tool_result", "tool_id": "c", "status": "success", "output": "out"}),
        piece("Here."),
        json!({"type": "result", "status": "success", "stats": {"total_tokens": 9}}),
    ];
    let mut silent = gemini[..2].to_vec();
    for (id, output) in [("read_file-1", json!("")), ("write_file-1", Value::Null)] {
        silent.push(json!({"type": "tool_use", "tool_name": "f", "tool_id": id, "parameters": {}}));
        silent.push(json!({"type": "tool_result", "tool_id": id, "status": "success", "output": output}));
    }
    let call = json!({"id": "c", "name": "f", "arguments": {}, "requestor": "assistant"});
    let simulation = json!({"id": "1", "task_id": "7", "trial": 0, "messages": [
        {"role": "user", "content": "Find it.", "tool_calls": null},
        {"role": "assistant", "content": "I look.", "tool_calls": [call]},
        {"role": "tool", "id": "c", "content": "out", "requestor": "assistant", "error": false},
        {"role": "user", "content": null, "tool_calls": [{"id": "d", "name": "restart", "arguments": {}, "requestor": "user"}]},
        {"role": "tool", "id": "d", "content": "done", "requestor": "user", "error": false},
        {"role": "assistant", "content": "Here.", "tool_calls": null}]});
    let header = json!({"_type": "metadata", "key": "session", "last_consolidated": 0});
    let plain =
        [json!({"role": "user", "content": "Find it."}), json!({"role": "assistant", "content": "Here."})];
    let made = |id: &str, name: &str| json!({"id": id, "type": "function", "function": {"name": name, "arguments": "{}"}});
    let state = |id: &str, status: &str, printed: &str| json!({"toolCallId": id, "status": status, "output": [{"name": "Terminal", "description": "x", "content": printed}]});
    let continued = json!({"sessionId": "s", "title": "Find it", "workspaceDirectory": "/w", "history": [
        {"message": {"role": "user", "content": say("Find it.")}, "contextItems": [{"name": "a.rs", "content": "fn a() {}"}]},
        {"message": {"role": "assistant", "content": "I look.", "toolCalls": [made("c", "f"), made("d", "g")]}, "contextItems": [],
            "toolCallStates": [state("c", "done", "out"), state("d", "errored", "late")]},
        {"message": {"role": "thinking", "content": "Hm."}, "contextItems": []},
        {"message": {"role": "assistant", "content": "Here."}, "contextItems": []}]});
    vec![
        sample("anthropic-lines", lines(&anthropic), seen),
        sample("gemini-events", lines(&gemini), seen),
        sample(
            "gemini-events",
            lines(&silent),
            "u:Find it. | a:+f(read_file-1) | r(read_file-1):[no result recorded] | a:+f(write_file-1) | r(write_file-1):success",
        ),
        sample("tau2-bench", json!({"info": {}, "tasks": [], "simulations": [simulation]}).to_string(), seen),
        sample("openai-lines", lines(&[&[header][..], &plain].concat()), "u:Find it. | a:Here."),
        sample(
            "openai-lines",
            lines(&[
                json!({"role": "_checkpoint", "id": 0}),
                plain[0].clone(),
                json!({"role": "_usage", "token_count": 9}),
                json!({"role": "assistant", "content": [{"type": "think", "think": "Hm.", "encrypted": null}, {"type": "text", "text": "I look."}],
                    "tool_calls": [{"type": "function", "id": "c", "function": {"name": "f", "arguments": "{}"}}]}),
                json!({"role": "tool", "content": [{"type": "text", "text": "out"}], "tool_call_id": "c"}),
                json!({"role": "assistant", "content": [{"type": "think", "think": "Hm."}, {"type": "text", "text": "Here."}]}),
                json!({"role": "_checkpoint", "id": 1}),
            ]),
            seen,
        ),
        sample(
            "openai-conversations",
            json!({"active_id": "a", "conversations": [{"id": "a", "title": "Find it", "messages": plain}, {"title": "b", "messages": []}]}).to_string(),
            "u:Find it. | a:Here.",
        ),
        sample("continue-dev", continued.to_string(), "n:fn a() {} | u:Find it. | a:I look.+f(c)+g(d) | r(c):out | r!(d):late | a:Here."),
    ]
}

/// Returns a transcript of oh-my-opencode, in which a result names its call by what the call was given.
fn plugin_samples() -> Vec<Sample> {
    let line = |kind: &str, more: Value| {
        let mut line = json!({"type": kind, "timestamp": "2026-01-01T10:00:00Z"});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    let call = |tool: &str, input: Value| line("tool_use", json!({"tool_name": tool, "tool_input": input}));
    let result = |tool: &str, input: Value, output: Value| {
        line("tool_result", json!({"tool_name": tool, "tool_input": input, "tool_output": output}))
    };
    let transcript = [
        line("user", json!({"content": "Find it."})),
        call("read", json!({"filePath": "a.rs"})),
        call("read", json!({"filePath": "b.rs"})),
        result("read", json!({"filePath": "b.rs"}), json!({"preview": "fn b() {}", "truncated": false})),
        call("bash", json!({"command": "make"})),
        result("bash", json!({}), json!({"output": "no rule", "exit": 2})),
        line("user", json!({"content": "[SYSTEM REMINDER - TODO CONTINUATION]\n\nContinue."})),
        call("write", json!({"filePath": "a.rs", "content": "x"})),
        result(
            "write",
            json!({"filePath": "a.rs", "content": "x"}),
            json!({"filepath": "a.rs", "exists": true}),
        ),
        call("glob", json!({"pattern": "*"})),
        result("glob", json!({"pattern": "*"}), json!({"truncated": false})),
    ];
    vec![sample(
        "oh-my-opencode",
        lines(&transcript),
        "u:Find it. | a:+read(1ba72979cde1)+read(a7a7beec7c76) | r(a7a7beec7c76):fn b() {} | a:+bash(bf6d060d42a7) | r(bf6d060d42a7):Exit code: 2\nOutput:\nno rule | \
             n:[SYSTEM REMINDER - TODO CONTINUATION]\n\nContinue. | a:+write(54b3ff47f40e) | r(54b3ff47f40e): | a:+glob(23e296c7f834) | r(23e296c7f834):[no result recorded]",
    )]
}

/// Returns messages of Anthropic's form whose content is one block, a line each.
fn blocks_in_lines() -> Vec<Sample> {
    let said = |role: &str, block: Value| json!({"timestamp": "2026-01-01T10:00:00Z", "role": role, "content": block});
    let say = |text: &str| json!({"type": "text", "text": text});
    let blocks = [
        said("user", say("Find it.")),
        said("assistant", json!({"type": "thinking", "text": "Hm."})),
        said("assistant", say("I look.")),
        said("assistant", json!({"type": "tool_use", "tool_name": "f", "tool_id": "c", "input": {}})),
        said("tool", json!({"type": "tool_result", "tool_id": "c", "output": "out", "is_error": true})),
        said("assistant", say("Here.")),
    ];
    vec![sample("anthropic-lines", lines(&blocks), "u:Find it. | a:I look.+f(c) | r!(c):out | a:Here.")]
}

fn managed_samples() -> Vec<Sample> {
    let event = |kind: &str, more: Value| {
        let mut event =
            json!({"id": format!("sevt_{kind}"), "processed_at": "2026-01-01T10:00:00Z", "type": kind});
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        event
    };
    let say = |text: &str| json!({"content": [{"type": "text", "text": text}]});
    let (span, end) = ("span.model_request_start", "span.model_request_end");
    let events = vec![
        event("session.status_running", json!({})),
        event(
            "user.define_outcome",
            json!({"description": "Find it.", "rubric": {"type": "text", "content": "It is found."}}),
        ),
        event(span, json!({})),
        event("agent.thinking", json!({})),
        event("agent.message", say("I look.")),
        event("agent.tool_use", json!({"id": "c", "name": "f", "input": {}})),
        event("agent.mcp_tool_use", json!({"id": "d", "name": "g", "input": {}})),
        event("agent.tool_use", json!({"id": "e", "name": "g", "input": {}, "session_thread_id": "sthr_1"})),
        event(end, json!({"model_usage": {"input_tokens": 2, "output_tokens": 3}})),
        event("agent.tool_result", json!({"tool_use_id": "c", "content": say("out")["content"]})),
        event(
            "agent.mcp_tool_result",
            json!({"mcp_tool_use_id": "d", "is_error": true, "content": say("no")["content"]}),
        ),
        event("user.tool_confirmation", json!({"tool_use_id": "c", "result": "allow"})),
        event(
            "user.tool_confirmation",
            json!({"tool_use_id": "d", "result": "deny", "deny_message": "Not there."}),
        ),
        event("agent.message", say("Here.")),
        event(
            "span.outcome_evaluation_end",
            json!({"result": "needs_revision", "explanation": "It is not found."}),
        ),
        event("user.message", say("And?")),
    ];
    let logged = |event: &Value| {
        let kind = event["type"].as_str().unwrap();
        let (role, kind) = kind.split_once('.').unwrap();
        json!({"role": role, "kind": kind, "content": "shown", "time": "2026-01-01T10:00:00Z", "raw": event})
    };
    let log: Vec<Value> = events.iter().map(logged).collect();
    let seen = "u:Find it.\n\nIt is found. | a:I look.+f(c)+g(d) | r(c):out | r!(d):no | u:Not there. | a:Here. | \
        n:Evaluation of the outcome: needs_revision\nIt is not found. | u:And?";
    vec![
        sample("managed-agents", lines(&log), seen),
        sample("managed-agents", lines(&events), seen),
        sample("managed-agents", json!(events).to_string(), seen),
        sample("managed-agents", json!({"data": events, "next_page": null}).to_string(), seen),
    ]
}

fn vscode_samples() -> Vec<Sample> {
    let shown = |text: &str| json!({"value": text, "supportThemeIcons": false});
    let made = |id: &str, name: &str| json!({"name": name, "arguments": "{}", "id": id});
    let printed = |value: &Value| json!({"$mid": 20, "content": [{"$mid": 23, "value": value}]});
    let leaf = |text: &str, breaks: bool| json!({"type": 2, "text": text, "lineBreakBefore": breaks});
    let tree = json!({"node": {"type": 1, "ctor": 2, "children": [
        {"type": 1, "children": [leaf("out\n", true)]}, {"type": 1, "children": [leaf("and", true), leaf(" more", false)]},
        {"type": 1, "children": [leaf("end", false)]}]}});
    let rendered = |text: &str| json!([{"type": 1, "text": text}, {"type": 3, "cacheType": "ephemeral"}]);
    let called = json!({"kind": "toolInvocationSerialized", "toolCallId": "c", "toolId": "f"});
    let named = json!({"kind": "inlineReference", "name": "a.rs", "inlineReference": {"path": "/w/a.rs"}});
    let asked = json!({"requestId": "1", "timestamp": 1_773_720_267_846_i64, "message": {"text": "Find it.", "parts": []},
        "response": [shown("I look."), called, {"kind": "thinking", "value": "Hm."}, shown("Here."), named],
        "result": {"metadata": {
            "renderedGlobalContext": rendered("<environment_info>x</environment_info>\n"),
            "renderedUserMessage": rendered("<context>\ntoday\n</context>\n<userRequest>\nFind it.\n</userRequest>\n"),
            "toolCallRounds": [
                {"id": "r", "response": "I look.", "thinking": {"text": "Hm."}, "toolCalls": [made("c", "f"), made("d", "g")]},
                {"id": "s", "response": "Here: `a.rs`", "toolCalls": []}],
            "toolCallResults": {"c": printed(&tree), "d": printed(&json!("ERROR while calling tool: late"))}}}});
    let stopped = json!({"requestId": "2", "message": {"text": "And now?"}, "isCanceled": true, "response": [shown("I see "), named],
        "modelState": {"value": 2}});
    let document = json!({"initialLocation": "panel", "responderUsername": "GitHub Copilot", "requests": [asked, stopped,
        {"requestId": "3", "message": {"text": "Taken back."}, "response": [], "shouldBeRemovedOnSend": {"requestId": "3"}},
        {"requestId": "4", "message": {"text": "@agent Continue: \"Continue to iterate?\""}, "confirmation": "Continue", "response": [],
            "result": {"metadata": {"renderedUserMessage": rendered("<context>\nlater\n</context>\n@agent Continue: \"Continue to iterate?\""),
                "toolCallRounds": [{"response": "On.", "toolCalls": [made("e", "f")]}, {"response": "", "toolCalls": []}]}}}]});
    let new =
        json!({"requestId": "5", "message": {"text": "Find it."}, "response": [shown("I"), shown("gone")]});
    let rounds = json!({"metadata": {"toolCallRounds": [{"response": "I look.", "toolCalls": [made("c", "f")]}],
        "toolCallResults": {"c": printed(&json!("out"))}}});
    let log = [
        json!({"kind": 0, "v": {"version": 3, "sessionId": "s", "responderUsername": "x", "requests": [], "inputState": {"inputText": "draft"}}}),
        json!({"kind": 1, "k": ["inputState", "inputText"], "v": ""}),
        json!({"kind": 2, "k": ["requests"], "v": [new, stopped]}),
        json!({"kind": 2, "k": ["requests", 0, "response"], "i": 0, "v": [shown("I look."), called, shown("Here.")]}),
        json!({"kind": 1, "k": ["requests", 0, "result"], "v": rounds}),
        json!({"kind": 1, "k": ["requests", 7, "result"], "v": rounds}),
        json!({"kind": 2, "k": ["requests", 0, "followups"], "v": [{"kind": "reply"}]}),
        json!({"kind": 1, "k": ["requests", 0, "shouldBeRemovedOnSend"], "v": {"requestId": "5"}}),
        json!({"kind": 3, "k": ["requests", 0, "shouldBeRemovedOnSend"]}),
        json!({"kind": 2, "k": ["requests"], "i": 1}),
    ];
    vec![
        sample(
            "vscode-chat",
            document.to_string(),
            "n:<environment_info>x</environment_info> | n:<context>\ntoday\n</context> | u:Find it. | a:I look.+f(c)+g(d) | \
             r(c):out\nand more\nend | r!(d):ERROR while calling tool: late | a:Here: `a.rs` | u:And now? | a:I see a.rs | \
             n:<context>\nlater\n</context> | n:@agent Continue: \"Continue to iterate?\" | a:On.+f(e)",
        ),
        sample("vscode-chat", lines(&log), "u:Find it. | a:I look.+f(c) | r(c):out | a:Here."),
        vscode_without_rounds(),
    ]
}

/// Returns a session of VS Code with a request that was stopped, which leaves no rounds of the model.
fn vscode_without_rounds() -> Sample {
    let shown = |text: &str| json!({"value": text, "supportThemeIcons": false});
    let call = |id: &str, tool: &str, more: Value| {
        let mut call = json!({"kind": "toolInvocationSerialized", "toolCallId": id, "toolId": tool});
        call.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        call
    };
    let message = |text: &str| {
        let uris = json!({"file:///c%3A/w/a.js": {"path": "/c:/w/a.js"}});
        json!({"value": format!("{text} [](file:///c%3A/w/a.js)"), "uris": uris})
    };
    let edit = |path: &str| json!({"kind": "textEditGroup", "uri": {"path": path}, "edits": [[{"text": "let a;"}], []], "done": true});
    let response = json!([
        shown("I look."),
        {"kind": "thinking", "value": "Hm."},
        shown("Then I edit."),
        call("r", "copilot_readFile", json!({"invocationMessage": message("Reading"), "pastTenseMessage": message("Read")})),
        call("p", "copilot_applyPatch", json!({"invocationMessage": message("Patching"), "isConfirmed": {"type": 1}})),
        shown("\n```\n"),
        edit("/c:/w/a.js"),
        shown("\n```\n\n```\n"),
        edit("/w/b.js"),
        shown("Now the test."),
        call("t", "run_in_terminal", json!({"toolSpecificData": {"kind": "terminal", "commandLine": {"original": "npm test"},
            "terminalCommandState": {"exitCode": 1}, "terminalCommandOutput": {"text": "1 failed"}}})),
        call("u", "run_in_terminal", json!({"isConfirmed": {"type": 0}, "toolSpecificData": {"kind": "terminal"}})),
        shown("It fails."),
    ]);
    let request =
        json!({"requestId": "1", "message": {"text": "Test it."}, "response": response, "result": {}});
    sample(
        "vscode-chat",
        json!({"responderUsername": "GitHub Copilot", "requests": [request]}).to_string(),
        "u:Test it. | a:I look.\nThen I edit.+read_file(r)+apply_patch(p)+edit_file(call_0) | r(r):Read c:\\w\\a.js | \
         r(p):The following files were successfully edited:\nc:\\w\\a.js | \
         r(call_0):The following files were successfully edited:\n/w/b.js | \
         a:Now the test.+run_in_terminal(t)+run_in_terminal(u) | r(t):Exit code: 1\nOutput:\n1 failed | \
         r!(u):The call was declined or cancelled. | a:It fails.",
    )
}

#[test]
fn reasoning_in_a_content_stays_in_its_agents_file() {
    let openai = forge_transcript::Format::named("openai").unwrap();
    let text = lines(&[
        json!({"role": "user", "content": "Find it."}),
        json!({"role": "assistant", "content": [{"type": "think", "think": "Hm."}, {"type": "text", "text": "Here."}]}),
        json!({"role": "_usage", "token_count": 9}),
    ]);
    let session = read(text.as_bytes(), "f").unwrap().remove(0);
    let written = Draft::open(&session, 0).rewrite(text.as_bytes(), &[], openai).unwrap();
    let written: Value = serde_json::from_slice(&written).unwrap();
    let reply = json!({"role": "assistant", "content": [{"type": "text", "text": "Here."}], "reasoning_content": "Hm."});
    assert_eq!(written, json!({"messages": [{"role": "user", "content": "Find it."}, reply]}));
}

/// What is written as ATIF says the same as what it was written from.
#[test]
fn every_session_can_be_written_as_atif() {
    let atif = forge_transcript::Format::named("atif").unwrap();
    for Sample { text, .. } in samples() {
        for (nth, session) in read(text.as_bytes(), "f").unwrap().iter().enumerate() {
            let draft = Draft::open(session, nth);
            let written = draft.rewrite(text.as_bytes(), &[], atif).unwrap();
            let again = read(&written, "f").unwrap().remove(0);
            let texts =
                |messages: Vec<Message>| -> Vec<String> { messages.iter().map(Message::to_text).collect() };
            assert_eq!(texts(messages(&again)), texts(draft.messages().collect()), "{text}");
        }
    }
}

/// Returns chats of aider with commands, and with what it writes with the user's mark itself.
fn aider_samples() -> Vec<Sample> {
    let chat = |text: &str| format!("# aider chat started at 2026-01-01 10:00:00\n\n{text}");
    vec![
        sample(
            "aider",
            chat(
                "#### /drop a/  \n\n#### /ask is it?  \n\n#### /add a.rs  \n> Added a.rs  \n\n#### is it?  \n\nYes.\n\n\
                 > Tokens: 1  \n\n#### /add b.rs  \n\n#### Then do it  \n\nDone.\n\n#### /ask  \n",
            ),
            "n:/drop a/ | u:/ask is it? | n:/add a.rs | n:Added a.rs | u:is it? | a:Yes. | n:Tokens: 1 | \
             n:/add b.rs | u:Then do it | a:Done. | n:/ask",
        ),
        sample(
            "aider",
            chat("#### /ask is it?  \n\n#### /add a.rs  \n\n#### is it?  \n\n#### Why?  \n\nYes.\n"),
            "u:/ask is it? | n:/add a.rs | u:Why? | a:Yes.",
        ),
        // What the reply quotes is not printed by aider.
        sample(
            "aider",
            chat(
                "#### find it  \n\nIt asks:\n\n> Is it\n> there?\n\nSo it is.\n\n> Tokens: 1  \n> Commit 1a2b3c4 x  \n> Commit 2b3c4d5 y  \n> Commit 3c4d5e6 z  \n\n\
                 More.\n\n> unfinished\n\n#### And?  \n",
            ),
            "u:find it | a:It asks:\n\n> Is it\n> there?\n\nSo it is. | n:Tokens: 1\nCommit 1a2b3c4 x\nCommit 2b3c4d5 y\nCommit 3c4d5e6 z | a:More. | \
             n:unfinished | u:And?",
        ),
        // The reply is what a second model is asked to do, without what the first one thought.
        sample(
            "aider",
            chat(
                "#### find it  \n\n<thinking-content-1a2>\nHm.\n</thinking-content-1a2>\n\nI look.\n\n> Tokens: 1  \n\n\
                 #### I look.  \n\nDone.\n",
            ),
            "u:find it | a:I look. | n:Tokens: 1 | n:I look. | a:Done.",
        ),
        sample(
            "aider",
            chat(
                "#### Find the \"AI\" comments below (marked with █) in the files.  \n####   \n#### a.rs:  \n#### │  \n\
                 #### █// AI? What is missing?  \n\nNothing.\n\n> Edit it? (Y)es/(N)o [Yes]: a  \n\n\
                 #### Edit it? (Y)es/(N)o [Yes]: all  \n",
            ),
            "n:Find the \"AI\" comments below (marked with █) in the files.\n\na.rs:\n│\n█// AI? What is missing? | \
             u:// AI? What is missing? | a:Nothing. | n:Edit it? (Y)es/(N)o [Yes]: a | \
             n:Edit it? (Y)es/(N)o [Yes]: all",
        ),
    ]
}

/// Returns histories of SpecStory: in the form for agents of the terminal, and in that for editors.
fn specstory_samples() -> Vec<Sample> {
    let history =
        |text: &str| format!("<!-- Generated by SpecStory, Markdown v2.1.0 -->\n\n# Title\n\n{text}");
    vec![
        sample(
            "specstory",
            history(
                "<!-- Claude Code Session 1-2 (2026-01-01 10:00:00Z) -->\n\n_**User (2026-01-01 10:00:00Z)**_\n\nFind it.\n\n\
                 ---\n\nHere or there.\n\n---\n\n_**Agent (m 2026-01-01 10:00:01Z)**_\n\n<think><details><summary>Thought \
                 Process</summary>\nHm.\n</details></think>\n\n_**Agent (m 2026-01-01 10:00:02Z)**_\n<!-- message-id: 5 -->\n\n\
                 I look.\n\n_**Agent (m 2026-01-01 10:00:03Z)**_\n\n<tool-use data-tool-type=\"shell\" data-tool-name=\"Bash\">\
                 <details>\n<summary>Tool use: **Bash**</summary>\nList\n\n`ls`\n\n```text\na.rs\n\n_**User**_\n\nb.rs\n```\n\
                 </details></tool-use>\n\n_**Agent - sidechain (m)**_\n\nElsewhere.\n\n<tool-use data-tool-type=\"read\" \
                 data-tool-name=\"Read\"><details>\n</details></tool-use>\n\n_**Agent (m)**_\n\n<tool-use data-tool-type=\"generic\" \
                 data-tool-name=\"Find\"><details>\n<summary>Tool use: **Find** `x`</summary>\n\n**Input:**\n\n- q: `x`\n\n\
                 **Error:**\n\n```\nlate\n```\n</details></tool-use>\n\n_**Agent (m)**_\n\n<tool-use \
                 data-tool-type=\"shell\" data-tool-name=\"Bash\"><details>\n<summary>Tool use: **Bash**</summary>\n`true`\n\
                 </details></tool-use>\n\n_**Agent (m)**_\n\nHere.\n",
            ),
            "u:Find it.\n\n---\n\nHere or there. | a:I look.+Bash(call_0) | r(call_0):a.rs\n\n_**User**_\n\nb.rs | \
             a:+Find(call_1) | r!(call_1):late | a:+Bash(call_2) | r(call_2): | a:Here.",
        ),
        sample(
            "specstory",
            history(
                "_**User**_\n\nFind it.\n\n---\n\n_**Assistant**_\n\nI look.\n\n---\n\n<tool-use data-tool-type=\"read\" \
                 data-tool-name=\"read_file\">\n<details><summary>Tool use: **read_file** • Read file: a.rs</summary>\n\nfn a() {}\n\n\
                 </details>\n</tool-use>\n\n---\n\nHere. Tags such as <tool-use\n\n---\n\n_**User**_\n\n\n\n---\n\n_**Agent (m, mode Agent)**_\n\nMore?\n",
            ),
            "u:Find it. | a:I look.+read_file(call_0) | r(call_0):fn a() {} | a:Here. Tags such as <tool-use | a:More?",
        ),
        sample(
            "specstory",
            "<!-- Generated by SpecStory -->\n\n# Title\n\n_**User**_\n\nFind it.\n\n---\n\n_**Assistant**_\n\nI look.\n\n---\n\n\
             Read file: src/a.rs\n\n---\n\nTool use: **run**\n\n```bash\nls\n```\n\n```\na.rs\n```\n\n---\n\nHere.\n"
                .to_owned(),
            "u:Find it. | a:I look.+Read(call_0) | r(call_0): | a:+run(call_1) | r(call_1):a.rs | a:Here.",
        ),
    ]
}

#[test]
fn a_history_keeps_what_is_shown_of_a_call() {
    let history = specstory_samples().remove(0).text;
    let session = read(history.as_bytes(), "f").unwrap().remove(0);
    let calls: Vec<String> = messages(&session)
        .iter()
        .flat_map(|message| message.calls().iter().map(|call| call.arguments.clone()).collect::<Vec<_>>())
        .collect();
    let shown =
        [json!({"command": "ls", "description": "List"}), json!({"q": "x"}), json!({"command": "true"})];
    assert_eq!(calls, shown.map(|arguments| arguments.to_string()));
    assert_eq!(session.id, "1-2");
}

fn samples() -> Vec<Sample> {
    [
        aider_samples(),
        specstory_samples(),
        codex_samples(),
        team_samples(),
        pi_samples(),
        gemini_cli_samples(),
        antigravity_samples(),
        copilot_samples(),
        openhands_samples(),
        block_samples(),
        export_samples(),
        opencode_logs(),
        log_samples(),
        blocks_in_lines(),
        plugin_samples(),
        managed_samples(),
        vscode_samples(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[test]
fn each_format_is_recognized_and_read() {
    for Sample { format, text, expected, before } in samples() {
        let sessions = read(text.as_bytes(), "f").unwrap_or_else(|error| panic!("{error}\n{text}"));
        let session = &sessions[0];
        assert_eq!(session.format.id(), format, "{text}");
        assert_eq!(short(&messages(session)), expected, "{text}");
        let whole = if before.is_empty() { expected } else { before };
        assert_eq!(short(&messages(&session.clone().before_compaction())), whole, "{text}");
    }
}

#[test]
fn what_is_not_changed_is_written_byte_for_byte() {
    for Sample { text, .. } in samples() {
        for (nth, session) in read(text.as_bytes(), "f").unwrap().iter().enumerate() {
            let draft = Draft::open(session, nth);
            assert_eq!(draft.rewrite(text.as_bytes(), &[], draft.format()).unwrap(), text.as_bytes());
        }
    }
}

#[test]
fn a_draft_and_a_recording_are_legal() {
    for Sample { text, .. } in samples() {
        for (nth, session) in read(text.as_bytes(), "f").unwrap().iter().enumerate() {
            let opened: Vec<Message> = Draft::open(session, nth).messages().collect();
            assert_eq!(openai_breaches(&opened), [], "{text}");
            assert_eq!(openai_breaches(&session.recording().messages), [], "{text}");
        }
    }
}

/// A file is held as its text, streamed, compressed and read from its pieces with the same result.
#[test]
fn every_way_to_read_is_the_same() {
    for Sample { format, text, expected, .. } in samples() {
        let file = std::sync::Arc::new(text.clone().into_bytes());
        let held = read_held(None, &file, "f").unwrap();
        assert_eq!(short(&messages(&held[0])), expected, "{text}");
        let packed = zstd::encode_all(text.as_bytes(), 3).unwrap();
        let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
        gzip.write_all(text.as_bytes()).unwrap();
        for bytes in [text.clone().into_bytes(), packed, gzip.finish().unwrap()] {
            let sessions = read(&bytes, "f").unwrap();
            let mut seen = Vec::new();
            let mut open = || Ok(Box::new(std::io::Cursor::new(bytes.clone())) as Box<dyn std::io::Read>);
            let streamed = stream(&mut open, "f", &mut |message| seen.push(message.clone())).unwrap();
            let Some(streamed) = streamed else { continue };
            assert_eq!(streamed.format.id(), format);
            assert_eq!(seen, messages(&sessions[0]), "{text}");
            assert_eq!(streamed.compactions, sessions[0].compactions());
            assert_eq!(
                (streamed.id, streamed.records, streamed.skipped_lines),
                (sessions[0].id.clone(), sessions[0].records.len(), sessions[0].skipped_lines)
            );
        }
    }
}

/// Records run together, unknown ones and one that is cut off take nothing else with them.
#[test]
fn damaged_lines_leave_the_others() {
    for Sample { format, text, expected, .. } in samples() {
        let lines: Vec<&str> = text.lines().collect();
        // Lines of plain messages say nothing of records that are none, so these are refused.
        if lines.len() < 3 || ["aider", "specstory", "openai-lines"].contains(&format) {
            continue;
        }
        let unknown = "{\"type\":\"from_the_future\",\"said\":\"x\"}";
        let damaged = format!(
            "{}\n{}{}\n{}\n{unknown}\n{{\"type\":\"cut off",
            lines[0],
            lines[1],
            lines[2],
            lines[3..].join("\n")
        );
        let session = read(damaged.as_bytes(), "f").unwrap().remove(0);
        assert_eq!(session.format.id(), format);
        assert_eq!(short(&messages(&session)), expected, "{damaged}");
        assert_eq!(session.skipped_lines, 1, "{damaged}");
    }
}

/// A line that is not text is invalid, and takes nothing else with it: a killed agent leaves half a
/// character.
#[test]
fn lines_that_are_not_text_leave_the_others() {
    for Sample { format, text, expected, .. } in samples() {
        let (first, rest) = text.split_once('\n').unwrap_or_default();
        if !text.starts_with('{') || rest.lines().count() < 2 {
            continue;
        }
        let pieces: [&[u8]; 5] = [
            first.as_bytes(),
            b"\n{\"said\":\"caf\xe9\"}\n",
            rest.trim_end().as_bytes(),
            b"\n{\"said\":\"\xe2\x86{\"type\":\"x\"}\n",
            b"{\"said\":\0\"x\"}\n",
        ];
        let damaged = pieces.concat();
        let session = read(&damaged, "f").unwrap_or_else(|error| panic!("{format}: {error}")).remove(0);
        assert_eq!(session.format.id(), format);
        assert_eq!((short(&messages(&session)).as_str(), session.skipped_lines), (expected, 3), "{text}");
        let mut seen = Vec::new();
        let mut open = || Ok(Box::new(std::io::Cursor::new(damaged.clone())) as Box<dyn std::io::Read>);
        let streamed = stream(&mut open, "f", &mut |message| seen.push(message.clone())).unwrap();
        if let Some(streamed) = streamed {
            assert_eq!((seen, streamed.skipped_lines), (messages(&session), 3), "{text}");
        }
    }
}

#[test]
fn text_after_a_conversation_is_an_invalid_line() {
    let text = r#"{"messages": [{"role": "user", "content": "hi"}]} and more"#;
    let session = read(text.as_bytes(), "f").unwrap().remove(0);
    assert_eq!((session.format.id(), session.skipped_lines), ("openai-lines", 1));
}

/// The messages of the second format would be lost without a word, so such a file is an error that names the
/// line at which it begins.
#[test]
fn two_formats_in_one_file_are_told_apart() {
    const MIXED: [&str; 5] = ["codex", "pi", "gemini-cli", "copilot", "openhands-events"];
    let first_of = |format: &str| {
        let text =
            samples().into_iter().find(|sample| sample.format == format && sample.text.lines().count() > 2);
        text.unwrap().text
    };
    let claude = json!({"type": "user", "uuid": "1", "parentUuid": null, "sessionId": "s",
        "message": {"role": "user", "content": "hi"}});
    let claude = format!("{claude}\n{claude}\n");
    for format in MIXED {
        let other = first_of(format);
        for (first, second) in [(&other, &claude), (&claude, &other)] {
            let line = first.lines().count() + 1;
            let text = format!("{first}{second}");
            let expected = format!("f mixes two formats: from line {line} on there are ");
            let error = read(text.as_bytes(), "f").unwrap_err().to_string();
            assert!(error.starts_with(&expected), "{format}: {error}");
            let mut open = || Ok(Box::new(std::io::Cursor::new(text.clone())) as Box<dyn std::io::Read>);
            let streamed = stream(&mut open, "f", &mut |_| {}).map(|session| session.is_some());
            assert!(!matches!(streamed, Ok(true)), "{format}");
        }
    }
}

/// A source of numbers that is the same each time.
struct Numbers(u64);

impl Numbers {
    /// Returns a number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}

/// Returns `bytes` with a few places changed, as damage, other versions and other programs do.
fn mutated(bytes: &[u8], other: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    const WORDS: [&str; 12] = [
        "null",
        "{}",
        "[]",
        "\"\"",
        "-1",
        "\"\\ud800\"",
        "}{",
        "\n",
        "\u{feff}",
        "1e999",
        "\"tool\"",
        "[[[[",
    ];
    let mut bytes = bytes.to_vec();
    for _ in 0..=numbers.below(4) {
        let start = numbers.below(bytes.len());
        let end = (start + 1 + numbers.below(40)).min(bytes.len());
        match numbers.below(8) {
            0 => bytes.truncate(start),
            1 => drop(bytes.drain(start..end)),
            2 => drop(bytes.splice(start..start, WORDS[numbers.below(WORDS.len())].bytes())),
            3 => {
                // A value of another place.
                let quotes: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at] == b'"').collect();
                let (from, to) = (numbers.below(quotes.len()), numbers.below(quotes.len()));
                if let (Some(from), Some(to)) = (quotes.get(from), quotes.get(to)) {
                    let word: Vec<u8> = bytes[*from..].iter().copied().take(12).collect();
                    let end = (to + word.len()).min(bytes.len());
                    bytes.splice(*to..end, word);
                }
            }
            4 | 5 => {
                // Lines are repeated, lost or come in another order.
                let mut lines: Vec<&[u8]> = bytes.split_inclusive(|byte| *byte == b'\n').collect();
                let (from, to) = (numbers.below(lines.len()), numbers.below(lines.len()));
                match numbers.below(3) {
                    0 => lines.swap(from, to),
                    1 => lines.insert(to, lines[from]),
                    _ => drop(lines.remove(from)),
                }
                bytes = lines.concat();
            }
            6 => {
                let from = numbers.below(other.len());
                let piece = other[from..].iter().copied().take(200);
                bytes.splice(start..start, piece);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(start) {
                    *byte ^= 1 << numbers.below(7);
                }
            }
        }
        if bytes.is_empty() {
            break;
        }
    }
    bytes
}

/// Checks what must hold of any bytes that are read.
fn check_any(bytes: &[u8]) -> bool {
    let sessions = match read(bytes, "f") {
        Ok(sessions) => sessions,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return false;
        }
    };
    let mut seen = Vec::new();
    let mut open = || Ok(Box::new(std::io::Cursor::new(bytes.to_vec())) as Box<dyn std::io::Read>);
    let streamed = stream(&mut open, "f", &mut |message| seen.push(message.clone()));
    if let (Ok(Some(streamed)), [session]) = (streamed, sessions.as_slice())
        && streamed.format == session.format
    {
        assert_eq!(seen, messages(session));
        assert_eq!(streamed.calls, session.calls());
    }
    for (nth, session) in sessions.iter().enumerate() {
        messages(&session.clone().before_compaction());
        let draft = Draft::open(session, nth);
        let opened: Vec<Message> = draft.messages().collect();
        let mut breaches = openai_breaches(&opened);
        breaches.retain(|breach| breach.rule != forge_domain::Rule::Empty);
        assert_eq!(breaches, []);
        let recording = session.recording();
        assert!(
            recording.messages.iter().flat_map(Message::calls).all(|call| call.arguments.starts_with('{'))
        );
        if draft.repairs().is_empty() {
            assert_eq!(draft.rewrite(bytes, &[], draft.format()).unwrap(), bytes);
        }
        for to in forge_transcript::Format::all() {
            if let Err(error) = draft.rewrite(bytes, &[], to) {
                assert!(!error.to_string().is_empty());
            }
        }
    }
    true
}

/// Returns a session of Claude Code with a reply in two pieces, another branch, an attachment and a compaction.
fn claude_code_sample() -> Sample {
    let line = |id: &str, parent: Option<&str>, kind: &str, message: Value| {
        json!({"type": kind, "uuid": id, "parentUuid": parent, "sessionId": "s", "timestamp": "2026-01-01T10:00:00Z",
            "message": message})
    };
    let said = |role: &str, content: Value| json!({"role": role, "id": "m", "content": content});
    let call = json!([{"type": "tool_use", "id": "c", "name": "f", "input": {"n": 1}}]);
    let result = json!([{"type": "tool_result", "tool_use_id": "c", "content": "out"}]);
    let text = lines(&[
        line("1", None, "user", said("user", json!("Find it."))),
        line("2", Some("1"), "assistant", said("assistant", json!([{"type": "text", "text": "I look."}]))),
        line("3", Some("2"), "assistant", said("assistant", call)),
        line("4", Some("3"), "user", said("user", result)),
        line("5", Some("4"), "user", said("user", json!("No."))),
        json!({"type": "attachment", "uuid": "6", "parentUuid": "4", "sessionId": "s", "attachment": {"type": "file", "content": "x"}}),
        json!({"type": "system", "subtype": "compact_boundary", "uuid": "7", "parentUuid": null, "logicalParentUuid": "6",
            "sessionId": "s", "compactMetadata": {"trigger": "auto", "preTokens": 9}}),
        json!({"type": "user", "uuid": "8", "parentUuid": "7", "sessionId": "s", "isCompactSummary": true,
            "message": {"role": "user", "content": "Sum."}}),
        line("9", Some("8"), "user", said("user", json!("Now."))),
    ]);
    sample("claude-code", text, "u*:Sum. | u:Now.")
}

/// Any damage to the file of any format is read or refused in words, and what is read is legal. `FORGE_CASES` is the number of
/// damaged files of each sample.
#[test]
#[expect(clippy::disallowed_methods, reason = "a test reads how many cases it tries")]
fn mutations_are_read_or_refused() {
    let cases = std::env::var("FORGE_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(40);
    let mut all = samples();
    all.push(claude_code_sample());
    let mut told: std::collections::BTreeMap<&str, (usize, usize)> = std::collections::BTreeMap::new();
    for (nth, sample) in all.iter().enumerate() {
        let mut numbers = Numbers(0x9e37_79b9_7f4a_7c15 ^ (nth as u64 + 1));
        let other = &all[(nth + 7) % all.len()].text;
        for case in 0..cases {
            let bytes = mutated(sample.text.as_bytes(), other.as_bytes(), &mut numbers);
            let is_read = std::panic::catch_unwind(|| check_any(&bytes)).unwrap_or_else(|_| {
                panic!(
                    "case {case} of sample {nth} ({}):\n{}",
                    sample.format,
                    String::from_utf8_lossy(&bytes)
                )
            });
            let of_format = told.entry(sample.format).or_default();
            of_format.0 += 1;
            of_format.1 += usize::from(is_read);
        }
    }
    for (format, (files, read)) in told {
        println!("{format}: {files} files, {read} read, {} refused", files - read);
    }
}
