//! Real sessions of other agents: all of the formats known here must be readable and become legal requests.
//!
//! `FORGE_CORPUS` names the folder of the sessions, which are no part of this repository. Without it the test passes
//! and says what it skipped.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use forge_domain::{ContextMessage, Message, MessageId, Replacement, Role, TokenCounter, Tokens};
use forge_transcript::{
    Draft, Format, Session, TranscriptError, read, read_held, request_tools, stream, write_messages,
};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

/// Counts characters.
struct Characters;

impl TokenCounter for Characters {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.chars().count() as u64)
    }
}

#[test]
fn every_recorded_session_becomes_a_legal_request() {
    #[expect(clippy::disallowed_methods, reason = "a test may know where the sessions are")]
    let Some(root) = std::env::var_os("FORGE_CORPUS").map(PathBuf::from) else {
        skipped_tests::skip("FORGE_CORPUS is not set", "reading recorded sessions");
        return;
    };
    let mut n_messages = 0;
    let files = files(&root);
    for (file, bytes) in &files {
        let sessions = read(bytes, file).unwrap_or_else(|error| panic!("{error}"));
        assert!(!sessions.is_empty(), "{file}: no session");
        for session in sessions {
            n_messages += check(&session, file);
        }
    }
    eprintln!("read {} files, {n_messages} messages", files.len());
    assert!(files.len() > 50, "sessions are missing");
}

#[test]
fn every_recorded_file_is_read_whole_or_refused_by_name() {
    #[expect(clippy::disallowed_methods, reason = "a test may know where the sessions are")]
    let Some(root) = std::env::var_os("FORGE_CORPUS").map(PathBuf::from) else {
        skipped_tests::skip("FORGE_CORPUS is not set", "accounting for every recorded file");
        return;
    };
    let mut table = Table::default();
    for (file, format, bytes) in all_files(&root) {
        match read(&bytes, &file) {
            Ok(sessions) => {
                table.add(&format, &sessions);
                survives_damage(&bytes, &file, &sessions);
                streams_the_same(&bytes, &file, &sessions);
                holds_the_same(bytes, &file, &sessions);
                for session in &sessions {
                    check(session, &file);
                    says_all(session, &file);
                }
            }
            // Tables of questions and answers, and the answers of a provider, are no sessions of any agent.
            Err(TranscriptError::UnknownFormat { .. } | TranscriptError::Json { .. })
                if format.starts_with("memorybank") =>
            {
                table
                    .refused
                    .push(format!("{file}: a table of questions or answers, which is not a session"));
            }
            Err(error) => {
                table.refused.push(error.to_string().lines().next().unwrap_or_default().to_owned());
                assert!(matches!(error, TranscriptError::Foreign { .. }), "{file} ({format}): {error}");
            }
        }
    }
    table.print();
    // The others are cassettes, single answers of a provider, and tables of questions.
    assert!(table.n_read() >= 183, "{} files were read", table.n_read());
}

/// What was read of the corpus, by its own names of formats, and what was refused.
#[derive(Default)]
struct Table {
    /// The files, sessions, messages and compactions of each format, under the name that it is read as.
    read: BTreeMap<(String, &'static str), [usize; 4]>,
    refused: Vec<String>,
}

impl Table {
    fn add(&mut self, format: &str, sessions: &[Session]) {
        let row = self.read.entry((format.to_owned(), sessions[0].format.id())).or_default();
        let messages: usize = sessions.iter().map(|session| session.messages().count()).sum();
        let compactions: usize = sessions.iter().map(|session| session.compactions().len()).sum();
        for (sum, more) in row.iter_mut().zip([1, sessions.len(), messages, compactions]) {
            *sum += more;
        }
    }

    fn n_read(&self) -> usize {
        self.read.values().map(|row| row[0]).sum()
    }

    fn print(&self) {
        eprintln!("{:<28} {:<18} files sessions messages compactions", "format of the corpus", "read as");
        for ((format, read), [files, sessions, messages, compactions]) in &self.read {
            eprintln!("{format:<28} {read:<18} {files:>5} {sessions:>8} {messages:>8} {compactions:>11}");
        }
        eprintln!("{} files were read, {} refused:", self.n_read(), self.refused.len());
        self.refused.iter().for_each(|line| eprintln!("  {line}"));
    }
}

/// Checks that a file of lines that is cut off, has records run together and holds unknown ones still says what
/// it says elsewhere.
fn survives_damage(bytes: &[u8], file: &str, sessions: &[Session]) {
    let ([session], Ok(text)) = (sessions, std::str::from_utf8(bytes)) else { return };
    let lines: Vec<&str> = text.lines().collect();
    let is_object = |line: &&str| line.starts_with('{') && serde_json::from_str::<Value>(line).is_ok();
    let is_lines = lines.len() > 4 && lines.iter().all(is_object) && session.format.id() != "openai-lines";
    if !is_lines {
        return;
    }
    let unknown = "{\"type\":\"from_the_future\",\"said\":\"x\"}";
    let (first, rest) = lines.split_at(2);
    let (together, last) = rest.split_at(rest.len() / 2);
    let damaged = format!(
        "{}\n{}{}\n{}\n{unknown}\n{{\"type\":\"cut off",
        first.join("\n"),
        together[0],
        together[1..].join("\n"),
        last.join("\n")
    );
    let again = read(damaged.as_bytes(), file).unwrap().remove(0);
    let said = |session: &Session| -> Vec<String> {
        Draft::messages_of(session).iter().map(Message::to_text).collect()
    };
    assert_eq!(said(&again).len(), said(session).len(), "{file}: damage took messages with it");
    assert!(said(&again) == said(session), "{file}: damage changed messages");
    assert_eq!(again.skipped_lines, session.skipped_lines + 1, "{file}");
}

/// The formats that are read message by message.
const STREAMED: [&str; 6] = ["openai", "anthropic", "claude-code", "codex", "pi", "copilot"];

/// Checks that a session that is read message by message says what it says where it is read at once.
fn streams_the_same(bytes: &[u8], file: &str, sessions: &[Session]) {
    let mut messages = Vec::new();
    let bytes: std::sync::Arc<[u8]> = bytes.into();
    let streamed = stream(
        &mut || Ok(Box::new(std::io::Cursor::new(std::sync::Arc::clone(&bytes)))),
        file,
        &mut |message| messages.push(message.clone()),
    );
    match (streamed.unwrap(), sessions) {
        (Some(streamed), [session]) => {
            assert_eq!(messages, Draft::messages_of(session), "{file}");
            let facts = (&*session.id, session.format, session.records.len(), session.skipped_lines);
            assert_eq!(
                (&*streamed.id, streamed.format, streamed.records, streamed.skipped_lines),
                facts,
                "{file}"
            );
            assert_eq!(streamed.compactions, session.compactions(), "{file}");
            assert_eq!(streamed.attachments, session.attachments(), "{file}");
            assert_eq!(streamed.calls, session.calls(), "{file}");
            assert_eq!(streamed.tools, request_tools(&bytes), "{file}");
        }
        (None, sessions) => {
            let format = sessions[0].format.id();
            assert!(!STREAMED.contains(&format), "{file} ({format}) was not streamed");
        }
        (Some(_), _) => panic!("{file} has several sessions"),
    }
}

/// Checks that a session of a file that is held but once is the same, and is written the same.
fn holds_the_same(bytes: Vec<u8>, file: &str, sessions: &[Session]) {
    let bytes = std::sync::Arc::new(bytes);
    let held = read_held(None, &bytes, file).unwrap();
    assert_eq!(held.len(), sessions.len(), "{file}");
    for (nth, (held, session)) in held.iter().zip(sessions).enumerate() {
        assert!(held == session, "{file}: session {nth} is another one where its file is held");
        let (held, draft) = (Draft::open(held, nth), Draft::open(session, nth));
        assert!(held.messages().eq(draft.messages()), "{file}: session {nth} is opened in another way");
        assert_eq!((held.repairs(), held.breaches()), (draft.repairs(), draft.breaches()), "{file}");
        let counted = |draft: &Draft<'_>| -> Vec<(Tokens, bool, Message)> {
            let messages = draft.counted_messages(&Characters);
            messages.map(|one| (one.tokens(), one.starts_turn(), one.message().clone())).collect()
        };
        assert!(counted(&held) == counted(&draft), "{file}: session {nth} is counted in another way");
        // The first of every five messages says less, and the second left.
        let messages: Vec<Message> = draft.messages().collect();
        let replacement = |(first, pair): (usize, &[Message])| {
            let with = ContextMessage::count(pair[0].with_content("less"), &Characters);
            let id = |nth: usize| MessageId::new((5 * first + nth) as u64);
            let replaces = (0..pair.len().min(2)).map(id).collect();
            Replacement { replaces, with: vec![with] }
        };
        let replacements: Vec<Replacement> = messages.chunks(5).enumerate().map(replacement).collect();
        for to in
            ["openai", "anthropic"].map(|id| Format::named(id).unwrap()).into_iter().chain([draft.format()])
        {
            for replacements in [&[], replacements.as_slice()] {
                let [held, whole] = [&held, &draft]
                    .map(|draft| draft.rewrite(&bytes, replacements, to).map_err(|error| error.to_string()));
                assert!(held == whole, "{file}: session {nth} is written to {to} in another way");
            }
        }
    }
}

/// Checks that each text in the content of a message of the file is in what was read.
fn says_all(session: &Session, file: &str) {
    for record in session.records.iter().filter(|record| record.n_messages() > 0) {
        let raw: Value = serde_json::from_str(record.raw()).unwrap_or_default();
        let message = raw.get("message").unwrap_or(&raw);
        let mut texts = Vec::new();
        leaves(message.get("content").unwrap_or(&Value::Null), &mut texts);
        let mut said = String::new();
        for message in record.messages().iter() {
            said += &message.to_text();
            let arguments = message.calls().iter().map(|call| serde_json::from_str(&call.arguments));
            let mut read = Vec::new();
            arguments.for_each(|arguments| leaves(&arguments.unwrap_or_default(), &mut read));
            leaves(&serde_json::to_value(message.content()).unwrap(), &mut read);
            said += &read.concat();
        }
        for text in texts {
            // What a result has in objects of its own is printed as JSON.
            let printed = Value::String(text.clone()).to_string();
            let is_said = |text: &str| said.contains(text) || said.contains(printed.trim_matches('"'));
            // A call that an agent wrote into its text has its marks there: around each, a line.
            let is_mark = |line: &str| line.starts_with("```") || line.starts_with('<');
            let has_call = record.raw().contains("\"action\"");
            let is_said =
                is_said(&text) || has_call && text.lines().all(|line| is_mark(line) || is_said(line.trim()));
            assert!(is_said, "{file}: this was left out:\n{text}\nof {}", record.raw());
        }
    }
}

/// The texts in `value`, without ids, kinds, and what only the provider can read.
fn leaves(value: &Value, texts: &mut Vec<String>) {
    match value {
        Value::String(text) => texts.push(text.clone()),
        Value::Array(items) => items.iter().for_each(|item| leaves(item, texts)),
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| {
                !matches!(
                    key.as_str(),
                    "type"
                        | "id"
                        | "tool_use_id"
                        | "name"
                        | "signature"
                        | "thinking"
                        | "data"
                        | "thinkingSignature"
                        | "textSignature"
                        | "mimeType"
                        | "partialJson"
                )
            })
            .for_each(|(_, field)| leaves(field, texts)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// Every file of the corpus, with its format.
#[expect(clippy::disallowed_methods, reason = "a test may read the sessions")]
fn all_files(root: &Path) -> Vec<(String, String, Vec<u8>)> {
    let manifest = std::fs::read(root.join("MANIFEST.json")).unwrap();
    let manifest: Vec<Value> = serde_json::from_slice(&manifest).unwrap();
    let text = |entry: &Value, key: &str| entry[key].as_str().unwrap_or_default().to_owned();
    let entries = manifest.iter().map(|entry| (text(entry, "file"), text(entry, "format")));
    entries
        .filter_map(|(file, format)| std::fs::read(root.join(&file)).ok().map(|bytes| (file, format, bytes)))
        .collect()
}

/// Checks the normal form of `session`; returns how many messages it has.
fn check(session: &Session, file: &str) -> usize {
    let recording = session.recording();
    assert!(session.records.is_empty() || !recording.messages.is_empty(), "{file}: nothing was said");
    let mut open: Vec<String> = Vec::new();
    for message in &recording.messages {
        if message.role() == Role::Tool {
            let forge_domain::Body::Tool(result) = &message.body else { panic!("a role and a body differ") };
            assert!(!open.is_empty(), "{file}: a result without a call");
            assert_eq!(result.call_id, open.remove(0), "{file}: results out of order");
            continue;
        }
        assert!(open.is_empty(), "{file}: calls without results: {open:?}");
        open = message.calls().iter().map(|call| call.id.clone()).collect();
        for call in message.calls() {
            assert!(call.arguments.starts_with('{'), "{file}: arguments are no object");
        }
    }
    assert!(open.is_empty(), "{file}: calls without results at the end");
    assert_eq!(read_again(&recording.messages), recording.messages, "{file}");
    recording.messages.len()
}

/// The messages as they come back from being written; errors, and who made a note, are no part of the written
/// form, and the tags around a note or a summary are none of the message.
fn read_again(messages: &[Message]) -> Vec<Message> {
    let mut written = read(&write_messages(messages), "written").unwrap();
    let mut again: Vec<Message> = written.remove(0).messages().collect();
    for (again, message) in again.iter_mut().zip(messages) {
        again.metadata = message.metadata.clone();
        let is_marked = message.note_by().is_some() || message.is_compacted;
        if is_marked && again.role() == message.role() && again.to_text().contains(&message.to_text()) {
            again.body = message.body.clone();
        }
        if let (forge_domain::Body::Tool(again), forge_domain::Body::Tool(result)) =
            (&mut again.body, &message.body)
        {
            again.is_error = result.is_error;
        }
    }
    again
}

/// The files of the formats known here. SWE-agent's hold their messages under a key of their own.
#[expect(clippy::disallowed_methods, reason = "a test may read the sessions")]
fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let manifest = std::fs::read(root.join("MANIFEST.json")).unwrap();
    let manifest: Vec<Value> = serde_json::from_slice(&manifest).unwrap();
    let mut files = Vec::new();
    for entry in manifest {
        let file = entry["file"].as_str().unwrap().to_owned();
        let Ok(bytes) = std::fs::read(root.join(&file)) else {
            skipped_tests::skip("a file of FORGE_CORPUS is missing", &file);
            continue;
        };
        match entry["format"].as_str().unwrap() {
            "claude-code-jsonl" | "tau-bench-json" | "openhands-llm-log-json" => files.push((file, bytes)),
            "swe-agent-traj" => {
                let trajectory: Value = serde_json::from_slice(&bytes).unwrap();
                let request = json!({"messages": trajectory["history"]});
                files.push((file, request.to_string().into_bytes()));
            }
            _ => (),
        }
    }
    files
}
