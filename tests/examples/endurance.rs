//! A run of 1,500 iterations at about 100,000 tokens of context against a server with 10 % faults, which is a process of its
//! own, with a checkpoint before and after every call in SQLite: nothing is lost, and at the end memory, our own time for an
//! iteration and the time of a save are at most 1.2 times what they were at iteration 100.
//!
//! Requests grow and shrink as the context does, and an iteration costs what its request does. So own time is compared for
//! each KiB of the requests; the plain means are printed, too. The same work may take a third longer a second later on a
//! machine that others use, so a save is timed once more at the end, in turns: into a store that has the first 100 iterations,
//! and into the one that has all.
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
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use forge_domain::{
    CheckpointFilter, CheckpointKey, CheckpointReason, CheckpointStore, Claim, ContextMessage,
    ContextSnapshot, Mending, Message, MessageId, NewCheckpoint, ProviderKind, RunId, StoreError, Takeover,
    Tokens,
};
use forge_infra::{SqliteCheckpointStore, SqlitePlace};
use forge_tests::endurance::{Endurance, Moment};
use forge_tests::{Memory, ScriptedServer};
use jiff::Timestamp;

const ENDURANCE: Endurance = Endurance {
    iterations: 1_500,
    percent_faulty: 10,
    window: 160_000,
    first_words: 4_000,
    first_times: 9,
    words: 300,
};

/// The saves into each of two stores.
const TURNS: usize = 400;

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
    let child = Command::new(std::env::current_exe().unwrap()).arg("serve").stdout(Stdio::piped()).spawn();
    let mut child = ChildServer(child.unwrap());
    let mut base_url = String::new();
    BufReader::new(child.0.stdout.take().unwrap()).read_line(&mut base_url).unwrap();
    endure(kind, base_url.trim())
}

/// A server that ends with its owner, also if that panics.
struct ChildServer(Child);

impl Drop for ChildServer {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
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
    let (endured, n_faults, in_turns) = runtime.block_on(async {
        let store: Arc<dyn CheckpointStore> = Arc::new(SqliteCheckpointStore::open(&place).await.unwrap());
        let endured = ENDURANCE.run(kind, base_url, Arc::clone(&store), watch).await;
        let health = store.check(Mending::LookOnly).await.unwrap();
        let early = SqlitePlace::new(folder.path().join("early.db"));
        let early = SqliteCheckpointStore::open(&early).await.unwrap();
        (endured, health.faults.len(), saves_in_turns(&early, store.as_ref()).await)
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
        ("a save in turns, the median", "ms", Some(in_turns)),
        (
            "a save during the run, the median",
            "",
            save_millis(&saves, &early).zip(save_millis(&saves, &late)),
        ),
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
    print_hundreds(&marks);
    for loss in &losses {
        println!("  LOST: {loss}");
    }
    losses.is_empty() && n_faults == 0 && ratios.iter().all(|ratio| *ratio <= MOST)
}

/// Prints how the figures change during the run.
fn print_hundreds(marks: &[Mark]) {
    println!("  own time by hundreds of iterations, in ms: {}", series(marks, own_millis));
    println!("  KiB of a request: {}", series(marks, body_kib));
    println!(
        "  memory, in MiB: {}",
        series(marks, |marks, replies| Some(resident(marks, replies)? / 1_024.0))
    );
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
    median_millis(within.map(|(_, took)| *took).collect())
}

fn median_millis(mut times: Vec<Duration>) -> Option<f64> {
    times.sort_unstable();
    times.get(times.len() / 2).map(|time| time.as_secs_f64() * 1_000.0)
}

/// The medians of the milliseconds of a save into `early`, after the first 100 iterations of the run in `late` were saved there,
/// and into `late`.
async fn saves_in_turns(early: &SqliteCheckpointStore, late: &dyn CheckpointStore) -> (f64, f64) {
    let run = RunId::new("long").unwrap();
    let mut infos = late.list(&CheckpointFilter::of_run(&run)).await.unwrap();
    infos.sort_by_key(|info| info.key);
    let mut early = Saved::new(early, &run).await;
    for info in infos.iter().filter(|info| info.iteration <= 100) {
        early.snapshot = Some(late.load(info.key).await.unwrap().snapshot);
        early.save().await;
    }
    let mut late = Saved::new(late, &run).await;
    late.parent = infos.last().map(|info| info.key);
    late.snapshot = Some(late.store.load(late.parent.unwrap()).await.unwrap().snapshot);
    let (mut early_times, mut late_times) = (Vec::new(), Vec::new());
    for n in 0..TURNS {
        early_times.push(early.append_and_save(n).await);
        late_times.push(late.append_and_save(n).await);
    }
    (median_millis(early_times).unwrap(), median_millis(late_times).unwrap())
}

/// A run in a store that is continued by saves alone.
struct Saved<'a> {
    store: &'a dyn CheckpointStore,
    claim: Claim,
    snapshot: Option<ContextSnapshot>,
    parent: Option<CheckpointKey>,
    n_saves: usize,
}

impl<'a> Saved<'a> {
    /// Takes the run over from its process, which is over.
    async fn new(store: &'a dyn CheckpointStore, run: &RunId) -> Self {
        let claim =
            async |takeover| store.claim(run, "a measurement", takeover, None, Timestamp::UNIX_EPOCH).await;
        let claim = match claim(Takeover::Never).await {
            Err(StoreError::Held { token, .. }) => claim(Takeover::Of(token)).await,
            claimed => claimed,
        };
        Self { store, claim: claim.unwrap(), snapshot: None, parent: None, n_saves: 0 }
    }

    async fn append_and_save(&mut self, nth: usize) -> Duration {
        let words = (0..ENDURANCE.words).map(|word| format!("word{}", (nth * 31 + word) % 997));
        let message = Message::user(words.collect::<Vec<_>>().join(" "));
        let message = ContextMessage::restored(MessageId::FIRST, Tokens::new(400), message);
        self.snapshot.as_mut().unwrap().conversation.append(message);
        self.save().await
    }

    async fn save(&mut self) -> Duration {
        self.n_saves += 1;
        let new = NewCheckpoint {
            snapshot: self.snapshot.clone().unwrap(),
            step: format!("save-{}", self.n_saves),
            reason: CheckpointReason::Iteration,
            created_at: Timestamp::UNIX_EPOCH,
            parent: self.parent,
        };
        let started = Instant::now();
        let info = self.store.save(&self.claim, &new).await.unwrap();
        let took = started.elapsed();
        self.parent = Some(info.key);
        took
    }
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
