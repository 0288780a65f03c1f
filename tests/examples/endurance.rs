//! A run of 1,500 iterations at about 100,000 tokens of context against a server with 10 % faults, which is a process of its
//! own, with a checkpoint before and after every call in SQLite: nothing is lost, and at the end memory, our own time for an
//! iteration and the time of a save are at most 1.2 times what they were at iteration 100.
//!
//! Requests grow and shrink as the context does, and an iteration costs what its request does. So own time is compared for
//! each KiB of the requests; the plain means are printed, too.
//!
//! `cargo run --release -p forge_tests --example endurance [PROTOCOL]`
#![allow(
    clippy::disallowed_methods,
    reason = "it starts a process and reads what the system says of this one"
)]
#![allow(clippy::print_stdout, reason = "its output is what it is for")]
#![allow(clippy::unwrap_used, reason = "a panic is how it fails")]

use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::process::{Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use forge_domain::{CheckpointStore, Mending, ProviderKind};
use forge_infra::{SqliteCheckpointStore, SqlitePlace};
use forge_tests::endurance::{Endurance, Moment};
use forge_tests::{Memory, ScriptedServer};

const ENDURANCE: Endurance = Endurance {
    iterations: 1_500,
    percent_faulty: 10,
    window: 160_000,
    first_words: 4_000,
    first_times: 9,
    words: 300,
};

/// Most that anything may have grown by between iteration 100 and the end.
const MOST: f64 = 1.2;

/// The resources that the process had used when the request after so many replies went out, without those of
/// the checks.
#[derive(Clone, Copy)]
struct Mark {
    replies: usize,
    prompt_tokens: u64,
    body_bytes: usize,
    cpu_micros: u64,
    resident_kib: u64,
}

fn main() -> ExitCode {
    let protocols = [
        ("openai", ProviderKind::OpenAiChat),
        ("responses", ProviderKind::Responses),
        ("anthropic", ProviderKind::Anthropic),
        ("ollama", ProviderKind::Ollama),
        ("gemini", ProviderKind::Gemini),
    ];
    let argument = std::env::args().nth(1);
    match argument.as_deref() {
        Some("serve") => {
            let server = ScriptedServer::start_with(0, ENDURANCE.script(), Memory::Count).unwrap();
            println!("{}", server.base_url());
            server.wait();
            ExitCode::SUCCESS
        }
        Some(name) => {
            let (_, kind) = protocols.iter().find(|(known, _)| *known == name).expect("a protocol");
            if endure_server(*kind) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        // Each in a process of its own, so that none finds memory that another one left.
        None => {
            let mut has_failed = false;
            for (name, _) in protocols {
                let status = Command::new(std::env::current_exe().unwrap()).arg(name).status().unwrap();
                has_failed |= !status.success();
            }
            if has_failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
        }
    }
}

/// Starts a server and runs against it. Returns true if all that must hold does.
fn endure_server(kind: ProviderKind) -> bool {
    let mut child =
        Command::new(std::env::current_exe().unwrap()).arg("serve").stdout(Stdio::piped()).spawn().unwrap();
    let mut base_url = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut base_url).unwrap();
    let holds = endure(kind, base_url.trim());
    child.kill().unwrap();
    child.wait().unwrap();
    holds
}

/// Returns true if all that must hold does.
fn endure(kind: ProviderKind, base_url: &str) -> bool {
    let marks = Arc::new(Mutex::new(Vec::<Mark>::new()));
    let saves = Arc::new(Mutex::new(Vec::<(usize, Duration)>::new()));
    let (noted, timed) = (Arc::clone(&marks), Arc::clone(&saves));
    // What our own checks took: all of it, and when the last one began.
    let checks = Mutex::new((0, 0));
    let watch = move |replies, moment| match moment {
        Moment::Checking => checks.lock().unwrap().1 = cpu_micros(),
        Moment::Sending { prompt_tokens, body_bytes } => {
            let now = cpu_micros();
            let spent_on_checks = {
                let (spent, began) = &mut *checks.lock().unwrap();
                *spent += now - *began;
                *spent
            };
            let cpu_micros = now - spent_on_checks;
            noted.lock().unwrap().push(Mark {
                replies,
                prompt_tokens,
                body_bytes,
                cpu_micros,
                resident_kib: resident_kib(),
            });
        }
        Moment::Saved { took } => timed.lock().unwrap().push((replies, took)),
    };
    let folder = tempfile::tempdir().unwrap();
    let place = SqlitePlace::new(folder.path().join("runs.db"));
    // One thread, beside that of the store, so that all the time of it is known.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let (endured, n_faults) = runtime.block_on(async {
        let store: Arc<dyn CheckpointStore> = Arc::new(SqliteCheckpointStore::open(&place).await.unwrap());
        let endured = ENDURANCE.run(kind, base_url, Arc::clone(&store), watch).await;
        let health = store.check(Mending::LookOnly).await.unwrap();
        (endured, health.faults.len())
    });
    let losses = endured.losses(&ENDURANCE);
    let (marks, saves) = (marks.lock().unwrap(), saves.lock().unwrap());
    let log_kib: usize =
        endured.conversation.messages().map(|message| message.message().to_text().len()).sum::<usize>()
            / 1_024;
    println!("{kind:?}: {} faults, {:?}", ENDURANCE.n_faults(), endured.seen);
    if let Ok(report) = &endured.outcome {
        println!("  {} compactions; the log's text is {log_kib} KiB", report.outcomes.len());
    }
    // Two compactions each: most of what is done, and of what is freed, is done there.
    let (early, late) = (15..185, 1_330..1_500);
    let mut ratios = Vec::new();
    for (name, unit, figure) in [
        ("own time of an iteration, in ms", "", own_millis(&marks, &early).zip(own_millis(&marks, &late))),
        (
            "own time of a KiB of a request",
            "µs",
            own_micros_of_a_kib(&marks, &early).zip(own_micros_of_a_kib(&marks, &late)),
        ),
        ("a save, the median", "ms", save_millis(&saves, &early).zip(save_millis(&saves, &late))),
        ("memory", "KiB", resident(&marks, &early).zip(resident(&marks, &late))),
        ("tokens of a prompt", "", tokens(&marks, &early).zip(tokens(&marks, &late))),
        ("KiB of a request", "", body_kib(&marks, &early).zip(body_kib(&marks, &late))),
    ] {
        let (early, late) = figure.unwrap_or((f64::NAN, f64::NAN));
        println!(
            "  {name}: {early:.2} {unit} at iteration 100, {late:.2} {unit} at the end: {:.2}",
            late / early
        );
        if !unit.is_empty() {
            ratios.push(late / early);
        }
    }
    println!("  own time by hundreds of iterations, in ms: {}", series(&marks, own_millis));
    println!("  KiB of a request: {}", series(&marks, body_kib));
    println!(
        "  memory, in MiB: {}",
        series(&marks, |marks, replies| Some(resident(marks, replies)? / 1_024.0))
    );
    for loss in &losses {
        println!("  LOST: {loss}");
    }
    losses.is_empty() && n_faults == 0 && ratios.iter().all(|ratio| *ratio <= MOST)
}

/// One figure for each hundred iterations.
fn series(marks: &[Mark], figure: impl Fn(&[Mark], &Range<usize>) -> Option<f64>) -> String {
    let hundreds =
        (0..ENDURANCE.iterations).step_by(100).filter_map(|from| figure(marks, &(from..from + 100)));
    hundreds.map(|figure| format!("{figure:.1}")).collect::<Vec<_>>().join(" ")
}

/// Milliseconds of our own for each reply between the two.
fn own_millis(marks: &[Mark], replies: &Range<usize>) -> Option<f64> {
    let mut within = marks.iter().filter(|mark| replies.contains(&mark.replies));
    let (first, last) = (within.next()?, within.next_back()?);
    let n = (last.replies - first.replies).max(1) as f64;
    Some((last.cpu_micros - first.cpu_micros) as f64 / 1_000.0 / n)
}

/// Microseconds of our own for each KiB of the requests between the two.
fn own_micros_of_a_kib(marks: &[Mark], replies: &Range<usize>) -> Option<f64> {
    Some(own_millis(marks, replies)? * 1_000.0 / body_kib(marks, replies)?)
}

/// The median of the milliseconds of a save.
fn save_millis(saves: &[(usize, Duration)], replies: &Range<usize>) -> Option<f64> {
    let within = saves.iter().filter(|(n, _)| replies.contains(n));
    let mut times: Vec<Duration> = within.map(|(_, took)| *took).collect();
    times.sort_unstable();
    times.get(times.len() / 2).map(|time| time.as_secs_f64() * 1_000.0)
}

/// The memory at the end of the replies.
fn resident(marks: &[Mark], replies: &Range<usize>) -> Option<f64> {
    marks.iter().rfind(|mark| replies.contains(&mark.replies)).map(|mark| mark.resident_kib as f64)
}

/// The mean of the prompts' tokens.
fn tokens(marks: &[Mark], replies: &Range<usize>) -> Option<f64> {
    mean(marks, replies, |mark| mark.prompt_tokens as f64)
}

/// The mean of the requests' KiB.
fn body_kib(marks: &[Mark], replies: &Range<usize>) -> Option<f64> {
    mean(marks, replies, |mark| mark.body_bytes as f64 / 1_024.0)
}

fn mean(marks: &[Mark], replies: &Range<usize>, figure: impl Fn(&Mark) -> f64) -> Option<f64> {
    let within: Vec<f64> = marks.iter().filter(|mark| replies.contains(&mark.replies)).map(figure).collect();
    (!within.is_empty()).then(|| within.iter().sum::<f64>() / within.len() as f64)
}

/// Processor time of this process.
#[cfg(unix)]
fn cpu_micros() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    time.tv_sec as u64 * 1_000_000 + time.tv_nsec as u64 / 1_000
}

/// Processor time is read on Unix alone.
#[cfg(not(unix))]
fn cpu_micros() -> u64 {
    0
}

fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
