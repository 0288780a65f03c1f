//! A run of 1,000 iterations at about 100,000 tokens of context against a server with 5 % faults, which is a process of its
//! own: nothing lost, memory that grows with the log alone, and the time that forge itself takes for an iteration.
//!
//! `cargo run --release -p forge_tests --example endurance`
#![allow(
    clippy::disallowed_methods,
    reason = "it starts a process and reads what the system says of this one"
)]
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::unwrap_used, reason = "a panic is how it fails")]

use std::io::{BufRead, BufReader};
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};

use forge_domain::ProviderKind;
use forge_tests::endurance::Endurance;
use forge_tests::{Memory, ScriptedServer};

const ENDURANCE: Endurance = Endurance {
    iterations: 1_000,
    percent_faulty: 5,
    window: 160_000,
    first_words: 4_000,
    first_times: 9,
    words: 300,
};

/// What the process had used when the request after so many replies went out.
#[derive(Clone, Copy)]
struct Mark {
    replies: usize,
    prompt_tokens: u64,
    cpu_micros: u64,
    resident_kib: u64,
}

fn main() -> ExitCode {
    if std::env::args().nth(1).as_deref() == Some("serve") {
        let server = ScriptedServer::start_with(0, ENDURANCE.script(), Memory::Count).unwrap();
        println!("{}", server.base_url());
        server.wait();
        return ExitCode::SUCCESS;
    }
    let mut failed = false;
    for kind in [ProviderKind::Openai, ProviderKind::Anthropic, ProviderKind::Ollama] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .arg("serve")
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut base_url = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut base_url).unwrap();
        failed |= !endure(kind, base_url.trim());
        child.kill().unwrap();
        child.wait().unwrap();
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Whether all that must hold does.
fn endure(kind: ProviderKind, base_url: &str) -> bool {
    let marks = Arc::new(Mutex::new(Vec::<Mark>::new()));
    let noted = Arc::clone(&marks);
    let sending = move |replies, prompt_tokens| {
        let mark = Mark { replies, prompt_tokens, cpu_micros: cpu_micros(), resident_kib: resident_kib() };
        noted.lock().unwrap().push(mark);
    };
    // One thread, so that all the time of it is known.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let endured = runtime.block_on(ENDURANCE.run(kind, base_url, sending));
    let losses = endured.losses(&ENDURANCE);
    let marks = marks.lock().unwrap();
    let log_kib: usize =
        endured.conversation.messages().map(|message| message.message().to_text().len()).sum::<usize>()
            / 1_024;
    println!("{kind:?}: {} faults, {:?}", ENDURANCE.n_faults(), endured.seen);
    if let Ok(report) = &endured.outcome {
        println!("  {} compactions; the log's text is {log_kib} KiB", report.outcomes.len());
    }
    let early = window(&marks, 10, 110);
    let late = window(&marks, 900, 1_000);
    for (name, (millis, tokens, kib)) in [("iterations 10 to 110", early), ("iterations 900 to 1000", late)] {
        println!("  {name}: {millis:.2} ms of our own each, at {tokens} tokens, {kib} KiB resident");
    }
    println!("  ratio of late to early: {:.2}", late.0 / early.0);
    for loss in &losses {
        println!("  LOST: {loss}");
    }
    let is_fast = early.0 < 5.0 && late.0 < 5.0;
    losses.is_empty() && is_fast
}

/// Milliseconds of our own for each reply between the two, the mean of the prompts' tokens, and the memory at the end.
fn window(marks: &[Mark], from: usize, to: usize) -> (f64, u64, u64) {
    let within: Vec<&Mark> = marks.iter().filter(|mark| (from..=to).contains(&mark.replies)).collect();
    let (Some(first), Some(last)) = (within.first(), within.last()) else { return (f64::NAN, 0, 0) };
    let replies = (last.replies - first.replies).max(1) as f64;
    let millis = (last.cpu_micros - first.cpu_micros) as f64 / 1_000.0 / replies;
    let tokens = within.iter().map(|mark| mark.prompt_tokens).sum::<u64>() / within.len() as u64;
    (millis, tokens, last.resident_kib)
}

/// Processor time of this process, by the scheduler's own count.
fn cpu_micros() -> u64 {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap();
    let nanos = |task: std::fs::DirEntry| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|nanos| nanos.parse::<u64>().ok()).unwrap_or_default()
    };
    tasks.flatten().map(nanos).sum::<u64>() / 1_000
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
