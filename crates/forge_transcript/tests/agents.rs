//! Sessions of other agents: read whole, told apart, and written back byte for byte where nothing changed.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

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
    vec![
        sample("codex", lines(&whole), seen),
        Sample {
            format: "codex",
            text: lines(&long),
            expected: "s:Be brief. | u:Find it. | u*:[summary of earlier messages, encrypted by the provider] | u:And now?",
            before: "s:Be brief. | n:<environment_context>x</environment_context> | u:Find it. | a:I look.+f(a)+f(b) | r(b):out | r(a):out | a:Here. | u:And now?",
        },
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
    ]
}

fn samples() -> Vec<Sample> {
    [codex_samples(), team_samples()].into_iter().flatten().collect()
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
        for bytes in [text.clone().into_bytes(), packed] {
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
        if lines.len() < 3 {
            continue;
        }
        let unknown = "{\"type\":\"from_the_future\",\"said\":\"x\"}";
        let damaged = format!(
            "{}\n{unknown}\n{}{}\n{}\n{{\"type\":\"cut off",
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
