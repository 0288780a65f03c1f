//! Prints recorded sessions in normal form, as `{"messages": [...]}` each.
//!
//! `cargo run -p forge_transcript --example normalise -- session.jsonl …` reads the files it is given; with several
//! sessions in all, each is printed behind the one before it. What had to be repaired is told on standard error.

use std::io::Write;
use std::process::ExitCode;

use forge_transcript::{read, write_messages};

#[expect(clippy::disallowed_methods, reason = "an example reads the files it is given")]
fn main() -> ExitCode {
    for file in std::env::args().skip(1) {
        let bytes = match std::fs::read(&file) {
            Ok(bytes) => bytes,
            Err(error) => return fail(&format!("{file}: {error}")),
        };
        let sessions = match read(&bytes, &file) {
            Ok(sessions) => sessions,
            Err(error) => return fail(&error.to_string()),
        };
        for session in sessions {
            let recording = session.recording();
            eprintln!(
                "{}: {} messages, {} results without a call, {} calls without a result, {} lines skipped",
                session.id,
                recording.messages.len(),
                recording.orphans,
                recording.missing_results,
                session.skipped_lines,
            );
            if let Err(error) = std::io::stdout().write_all(&write_messages(&recording.messages)) {
                return fail(&error.to_string());
            }
        }
    }
    ExitCode::SUCCESS
}

fn fail(why: &str) -> ExitCode {
    eprintln!("{why}");
    ExitCode::FAILURE
}
