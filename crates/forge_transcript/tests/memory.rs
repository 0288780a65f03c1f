//! A session that is read message by message takes hardly any memory, however large its file is; one that is opened from a file
//! that is held, little beside it.
//!
//! The allocator counts for the whole process, so this is the only test here.

use std::io::{self, Read};
use std::sync::Arc;

use forge_domain::{ContextMessage, TokenCounter, Tokens};
use forge_transcript::{Draft, read_held, stream};
use peak_alloc::PeakAlloc;
use serde_json::json;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Exchanges of a session.
const N_EXCHANGES: usize = 6_000;
/// Bytes of each result.
const RESULT: usize = 5_000;

/// A file that is made while it is read.
struct Made<I> {
    pieces: I,
    piece: Vec<u8>,
    at: usize,
}

impl<I: Iterator<Item = String>> Read for Made<I> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.piece.len() {
            let Some(piece) = self.pieces.next() else { return Ok(0) };
            (self.piece, self.at) = (piece.into_bytes(), 0);
        }
        let n = buffer.len().min(self.piece.len() - self.at);
        buffer[..n].copy_from_slice(&self.piece[self.at..self.at + n]);
        self.at += n;
        Ok(n)
    }
}

/// The pieces of the file of a session of `format`.
fn pieces(format: &'static str) -> Box<dyn Iterator<Item = String>> {
    let exchange = move |n: usize| match format {
        "anthropic" => {
            let call = json!({"role": "assistant", "content": [{"type": "tool_use", "id": format!("c{n}"), "name": "read",
                "input": {"path": format!("{n}.rs")}}]});
            let result = json!({"role": "user", "content": [{"type": "tool_result", "tool_use_id": format!("c{n}"),
                "content": "x".repeat(RESULT)}]});
            format!(",\n{call},\n{result}")
        }
        "claude-code" => {
            let line = |n: usize, role: &str, content: serde_json::Value| {
                json!({"type": role, "uuid": format!("u{n}"), "parentUuid": n.checked_sub(1).map(|n| format!("u{n}")),
                    "sessionId": "s", "message": {"role": role, "content": content}})
            };
            let call = json!([{"type": "tool_use", "id": format!("c{n}"), "name": "read", "input": {}}]);
            let result = json!([{"type": "tool_result", "tool_use_id": format!("c{n}"), "content": "x".repeat(RESULT)}]);
            format!("{}\n{}\n", line(2 * n, "assistant", call), line(2 * n + 1, "user", result))
        }
        "codex" => {
            let line = |item: serde_json::Value| json!({"timestamp": "2026-01-01T10:00:00Z", "type": "response_item", "payload": item});
            let call = json!({"type": "function_call", "name": "read", "arguments": "{}", "call_id": format!("c{n}")});
            let result = json!({"type": "function_call_output", "call_id": format!("c{n}"), "output": "x".repeat(RESULT)});
            format!("{}\n{}\n", line(call), line(result))
        }
        _ => {
            let call = json!({"role": "assistant", "content": null, "tool_calls": [{"id": format!("c{n}"), "type": "function",
                "function": {"name": "read", "arguments": "{}"}}]});
            let result =
                json!({"role": "tool", "tool_call_id": format!("c{n}"), "content": "x".repeat(RESULT)});
            format!(",\n{call},\n{result}")
        }
    };
    let exchanges = (0..N_EXCHANGES).map(exchange);
    if matches!(format, "claude-code" | "codex") {
        return Box::new(exchanges);
    }
    let head = "{\"messages\": [\n{\"role\": \"user\", \"content\": \"hi\"}".to_owned();
    Box::new(std::iter::once(head).chain(exchanges).chain(std::iter::once("\n]}\n".to_owned())))
}

#[test]
fn a_session_is_larger_than_what_it_takes_to_read_it() {
    for format in ["openai", "anthropic", "claude-code", "codex"] {
        let length: usize = pieces(format).map(|piece| piece.len()).sum();
        let before = HEAP.current_usage();
        HEAP.reset_peak_usage();
        let mut n_messages = 0;
        let session = stream(
            &mut || Ok(Box::new(Made { pieces: pieces(format), piece: Vec::new(), at: 0 })),
            "session",
            &mut |_| n_messages += 1,
        );
        let session = session.unwrap().unwrap();
        let taken = HEAP.peak_usage() - before;
        assert_eq!(session.format.id(), format);
        assert!(n_messages >= 2 * N_EXCHANGES, "{format}: {n_messages} messages");
        assert!(taken < length / 4, "{format}: {taken} bytes for a file of {length}");
        let mut file = Vec::with_capacity(length);
        pieces(format).for_each(|piece| file.extend_from_slice(piece.as_bytes()));
        let file = Arc::new(file);
        let before = HEAP.current_usage();
        HEAP.reset_peak_usage();
        let sessions = read_held(None, &file, "session").unwrap();
        let draft = Draft::open(&sessions[0], 0);
        let counted: Vec<ContextMessage> = draft.counted_messages(&Bytes).collect();
        let taken = HEAP.peak_usage() - before;
        assert_eq!(counted.len(), n_messages);
        assert!(taken < length / 2, "{format}: {taken} bytes beside a file of {length}");
    }
}

/// Counts bytes.
struct Bytes;

impl TokenCounter for Bytes {
    fn count(&self, text: &str) -> Tokens {
        Tokens::new(text.len() as u64)
    }
}
