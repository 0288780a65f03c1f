//! Compacts recorded sessions in every way and says what came of it; `tests/acceptance/corpus.sh` drives it.
//!
//! ```text
//! corpus FILE... [--openai-lines FILE] > what-judges-look-at.jsonl
//! ```
//!
//! A `FILE` is of a format that forge reads. The lines of the other file are sessions of other formats, each as
//! `{"id": ..., "messages": [...]}` with OpenAI messages. Progress and the tally go to standard error; it fails where a
//! promise was broken.

#![allow(clippy::disallowed_methods, reason = "an example reads files and the time")]

use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::time::Instant;

use forge_domain::Message;
use forge_tests::sweep::{Tally, sweep};
use forge_transcript::{Draft, read};
use serde_json::Value;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<ExitCode> {
    let started = Instant::now();
    let mut out = BufWriter::new(std::io::stdout().lock());
    let mut tally = Tally::default();
    let mut arguments = std::env::args().skip(1);
    while let Some(file) = arguments.next() {
        let is_lines = file == "--openai-lines";
        let file = if is_lines { arguments.next().ok_or("--openai-lines needs a file")? } else { file };
        let bytes = std::fs::read(&file).map_err(|error| format!("{file}: {error}"))?;
        let mut run = |id: &str, messages: Vec<Message>| -> Result<()> {
            let mut written = Ok(());
            sweep(id, messages, &mut tally, &mut |judged| {
                if written.is_ok() {
                    written = writeln!(out, "{}", judged.to_json());
                }
            });
            Ok(written?)
        };
        if is_lines {
            for line in String::from_utf8(bytes)?.lines() {
                let session: Value = serde_json::from_str(line)?;
                let id = session["id"].as_str().unwrap_or("?").to_owned();
                run(&id, drafted(line.as_bytes(), &id)?.remove(0))?;
            }
        } else {
            for (nth, messages) in drafted(&bytes, &file)?.into_iter().enumerate() {
                run(&format!("{file}#{nth}"), messages)?;
            }
        }
        eprintln!("{:>5.0} s  {tally}  {file}", started.elapsed().as_secs_f64());
    }
    out.flush()?;
    for fault in &tally.faults {
        eprintln!("FAULT {fault}");
    }
    eprintln!("{tally}");
    Ok(if tally.faults.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The messages of each session in `bytes`, repaired as `forge compact` does.
fn drafted(bytes: &[u8], name: &str) -> Result<Vec<Vec<Message>>> {
    let sessions = read(bytes, name)?;
    let drafts = sessions.iter().enumerate().map(|(nth, session)| Draft::open(session, nth));
    Ok(drafts.map(|draft| draft.messages().collect()).collect())
}
