//! Real sessions of other agents: all of the formats known here must be readable and become legal requests.
//!
//! `FORGE_CORPUS` names the folder of the sessions, which are no part of this repository. Without it the test passes
//! and says what it skipped.

#![expect(clippy::unwrap_used, reason = "a test panics on what must not happen")]

use std::path::{Path, PathBuf};

use forge_domain::{Message, Role};
use forge_transcript::{Session, read, write_messages};
use pretty_assertions::assert_eq;
use serde_json::{Value, json};

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

/// The messages as they come back from being written; errors are no part of the written form.
fn read_again(messages: &[Message]) -> Vec<Message> {
    let mut written = read(&write_messages(messages), "written").unwrap();
    let mut again: Vec<Message> = written.remove(0).messages().cloned().collect();
    for (again, message) in again.iter_mut().zip(messages) {
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
