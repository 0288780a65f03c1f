//! The process of a slice: restores the run, continues it until it pauses, and says how it ended.

use std::io::BufRead;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use forge_app::{
    CheckpointTally, CheckpointsError, Correspondence, Engine, OutcomeEnd, PauseHandle, Restored, Resume,
    ResumeError, RunError, RunEvent, RunReport, SliceEnd, SliceFailure, SliceOutcome, SlicedRun, TakeFrom,
    Word,
};
use forge_domain::{Lease, OnChange, Retry, RunId, StoreError, StoreSetting};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use super::lines::{PAUSE, SliceLine, SliceRequest, TICK};
use crate::arguments::RunFlags;
use crate::failure::Exit;
use crate::output;
use crate::run::{Break, RunRequest, RunView, prepare, runtime};

/// Runs the slice that the first line of stdin asks for, and prints its end as the last line of stdout.
pub(crate) fn run_slice(store: StoreSetting, flags: RunFlags) -> anyhow::Result<ExitCode> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("the request cannot be read")?;
    let request: SliceRequest = serde_json::from_str(&line).context("the request is not one of a worker")?;
    let runtime = runtime()?;
    let end = runtime.block_on(slice(request, store, flags));
    runtime.shutdown_background();
    let line = match end {
        Ok(outcome) => SliceLine::Outcome(outcome),
        Err(SliceFailure::Again(why)) => SliceLine::Again(why),
        Err(SliceFailure::Final(why)) => SliceLine::Final(why),
    };
    say(&line);
    Ok(ExitCode::SUCCESS)
}

async fn slice(
    request: SliceRequest,
    store: StoreSetting,
    flags: RunFlags,
) -> Result<SliceOutcome, SliceFailure> {
    let lease = Lease::new(Duration::from_millis(request.lease_ms));
    let lease = lease.ok_or_else(|| SliceFailure::Final("the lease is too short".to_owned()))?;
    let limits = request.limits();
    let run = request.order.run.clone();
    let person = Arc::<Correspondence>::default();
    let run_request = RunRequest { slice: Some(lease), ..RunRequest::new(Some(store), flags) };
    let view: Arc<dyn RunView> = Arc::new(SliceView(run.clone()));
    let orchestrator = prepare(&run_request, &view, Arc::clone(&person) as _)
        .map_err(|error| SliceFailure::Final(format!("{error:#}")))?;
    let mut sliced = SlicedRun::new(orchestrator);
    let resume = Resume {
        which: run.to_string(),
        on_change: Some(OnChange::Continue),
        take_from: TakeFrom::TheGone,
        anywhere: true,
    };
    sliced.orchestrator_mut().restore(&resume).await.map_err(|error| failure_to_resume(&error))?;
    listen(sliced.orchestrator().engine());
    hear(&mut sliced, &person, request.order.words);
    let done = sliced.run(limits).await;
    let (calls, cost) = sliced.totals();
    let last = sliced.orchestrator().checkpoints().and_then(|tally| tally.last);
    sliced.orchestrator().close().await;
    let slice = done.map_err(|error| failure_of_run(&error))?;
    Ok(SliceOutcome {
        end: match slice.end {
            SliceEnd::Paused => OutcomeEnd::Paused,
            SliceEnd::Waiting(awaited) => {
                OutcomeEnd::Waiting(awaited.into_iter().map(|awaited| awaited.id).collect())
            }
            SliceEnd::Done => OutcomeEnd::Done(slice.report.stop.as_str().to_owned()),
        },
        checkpoint: last.map(|(key, _)| key),
        token: last.map(|(_, token)| token),
        calls,
        cost,
    })
}

/// Gives the run what people have said. An answer that comes too late is left out.
fn hear(sliced: &mut SlicedRun, person: &Correspondence, words: Vec<Word>) {
    let mut answers = Vec::new();
    for word in words {
        match word {
            Word::Steer { number, text } => sliced.say(number, text),
            Word::Answer(answer) => answers.push(answer),
        }
    }
    for late in person.receive(&sliced.awaited(), answers) {
        tracing::info!(id = late.id, "an answer came that nothing waits for");
    }
}

/// Listens to the worker while the slice runs. If the worker is gone, so is the slice: whatever it holds ends
/// with its lease.
fn listen(engine: &Engine) {
    let (sender, lines) = unbounded_channel();
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    tokio::spawn(follow(engine.clone(), lines, engine.conduct.pacing.handle()));
}

async fn follow(engine: Engine, mut lines: UnboundedReceiver<String>, pause: PauseHandle) {
    while let Some(line) = lines.recv().await {
        match line.as_str() {
            TICK => {
                if let Some(checkpointing) = engine.checkpointing() {
                    checkpointing.renew().await;
                }
                say(&SliceLine::Beat);
            }
            PAUSE => pause.pause(),
            _ => {}
        }
    }
    std::process::exit(Exit::Failed.code().into());
}

fn say(line: &SliceLine) {
    if let Ok(line) = serde_json::to_string(line) {
        output::print_line(&line);
    }
}

/// Returns the failure of a slice whose run cannot be resumed.
fn failure_to_resume(error: &ResumeError) -> SliceFailure {
    match error {
        ResumeError::Store(cause) | ResumeError::Unclear(CheckpointsError::Store(cause)) => {
            failure_of_store(cause)
        }
        ResumeError::Work(cause) => failure_of_run(cause),
        ResumeError::Moved(_) => SliceFailure::Again(error.to_string()),
        _ => SliceFailure::Final(error.to_string()),
    }
}

/// Returns the failure of a slice whose store failed: another worker may have the run, or the store may be
/// back soon.
fn failure_of_store(error: &StoreError) -> SliceFailure {
    match error {
        StoreError::NewerSchema { .. }
        | StoreError::NotAStore { .. }
        | StoreError::Corrupt { .. }
        | StoreError::ReadOnly { .. }
        | StoreError::NotFound { .. } => SliceFailure::Final(error.to_string()),
        _ => SliceFailure::Again(error.to_string()),
    }
}

/// Returns the failure of a slice that broke off.
fn failure_of_run(error: &RunError) -> SliceFailure {
    match error {
        RunError::Fenced { .. } | RunError::Unsaved { .. } | RunError::ToolsUnavailable { .. } => {
            SliceFailure::Again(error.to_string())
        }
        RunError::Provider(cause) if cause.retry() != Retry::Never => SliceFailure::Again(error.to_string()),
        _ => SliceFailure::Final(error.to_string()),
    }
}

/// Shows what a worker's user should know of a slice, on stderr.
struct SliceView(RunId);

impl RunView for SliceView {
    fn tell(&self, event: &RunEvent<'_>) {
        if let RunEvent::Notice(notice) = event {
            output::note(&format!("run {}: {notice}", self.0));
        }
    }

    fn show_resume(&self, _: &Restored, _: bool) {}

    fn show_end(&self, _: &RunReport, _: Option<&CheckpointTally>, _: Exit) {}

    fn show_break(&self, _: &Break<'_>, _: Option<&CheckpointTally>, _: &str) {}

    fn end(&self) {}
}

#[cfg(test)]
mod tests {
    use forge_domain::{CheckpointKey, ProviderError};

    use super::*;

    #[test]
    fn what_may_pass_is_tried_again() {
        let run = RunId::new("r").unwrap();
        let place = || "the store".to_owned();
        let gone = || StoreError::Unavailable { place: place(), source: "it starts".into() };
        let held = StoreError::Moved { run: run.clone() };
        for (error, is_again) in [
            (ResumeError::Store(gone()), true),
            (ResumeError::Store(held), true),
            (ResumeError::Store(StoreError::TimedOut { place: place(), seconds: 15 }), true),
            (ResumeError::Unclear(CheckpointsError::Store(gone())), true),
            (ResumeError::Unclear(CheckpointsError::Taken { run: run.clone() }), false),
            (ResumeError::Store(StoreError::NotAStore { place: place() }), false),
            (ResumeError::Store(StoreError::Diverged { parent: CheckpointKey::new(1) }), true),
            (ResumeError::Moved(run.clone()), true),
            (ResumeError::NoRun, false),
            (ResumeError::Work(RunError::Unsaved { why: "full".to_owned() }), true),
            (ResumeError::Work(RunError::Provider(ProviderError::Truncated)), true),
            (ResumeError::Work(RunError::Provider(ProviderError::RecordingEnded)), false),
            (ResumeError::Work(RunError::NothingToResume), false),
        ] {
            let failure = failure_to_resume(&error);
            assert_eq!(matches!(failure, SliceFailure::Again(_)), is_again, "{error}");
        }
    }
}
