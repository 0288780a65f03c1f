//! The process of a slice: restores the run, continues it until it pauses, and says how it ended.

use std::io::BufRead;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use forge_app::{
    CheckpointTally, CheckpointsError, Correspondence, Engine, OutcomeEnd, Restored, Resume, ResumeError,
    RunError, RunEvent, RunReport, SliceEnd, SliceFailure, SliceOutcome, SlicedRun, TakeFrom, Word,
    saved_workspace,
};
use forge_domain::{
    CheckpointKey, Lease, OnChange, Retry, RunId, StoreError, StoreSetting, Workspace, WorkspaceKeeper,
};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use forge_infra::Left;

use super::lines::{PAUSE, SliceLine, SliceRequest, TICK};
use super::workspace::{self, WorkspacesFlag};
use crate::arguments::RunFlags;
use crate::failure::Exit;
use crate::output;
use crate::run::{Break, RunRequest, RunView, SliceTerms, prepare, runtime};
use crate::setup::store;

/// Runs the slice that the first line of stdin asks for, and prints its end as the last line of stdout.
/// Folders of workspaces are in `workspaces`.
pub(crate) fn run_slice(
    store: &StoreSetting,
    flags: RunFlags,
    workspaces: &WorkspacesFlag,
) -> anyhow::Result<ExitCode> {
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line).context("the request cannot be read")?;
    let request: SliceRequest = serde_json::from_str(&line).context("the request is not one of a worker")?;
    let runtime = runtime()?;
    let end = runtime.block_on(slice(request, store, flags, workspaces));
    runtime.shut_down();
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
    store: &StoreSetting,
    flags: RunFlags,
    workspaces: &WorkspacesFlag,
) -> Result<SliceOutcome, SliceFailure> {
    let lease = Lease::new(Duration::from_millis(request.lease_ms));
    let lease = lease.ok_or_else(|| SliceFailure::Final("the lease is too short".to_owned()))?;
    let worker = Worker::listen();
    let run = request.order.run.clone();
    let (latest, workspace) = saved(store, &run).await?;
    let place = match workspace {
        None => None,
        Some(workspace) => {
            let root = workspaces.folder().map_err(|error| SliceFailure::Final(format!("{error:#}")))?;
            let opened = workspace::open(&root, &run, &workspace).await;
            Some(
                opened
                    .map_err(|error| SliceFailure::Again(format!("the workspace cannot be made: {error}")))?,
            )
        }
    };
    let terms = SliceTerms {
        keeper: place.clone().map(|place| place as Arc<dyn WorkspaceKeeper>),
        folder: place.as_ref().map(|place| place.folder().to_owned()),
        ..SliceTerms::new(lease)
    };
    let run_request = RunRequest { slice: Some(terms), ..RunRequest::new(Some(store.clone()), flags) };
    let ended = continue_run(request, &run_request, &worker, latest).await;
    if let Some(place) = place {
        let left = match &ended {
            Ok(SliceOutcome { end: OutcomeEnd::Done(_), .. }) => Left::Over,
            Ok(_) => Left::Paused,
            Err(_) => Left::Broken,
        };
        if let Err(error) = place.close(left).await {
            output::note(&format!("run {run}: the folder of its workspace stays: {error}"));
        }
    }
    ended
}

/// Returns the latest checkpoint of the run, and the workspace that it keeps.
async fn saved(
    store: &StoreSetting,
    run: &RunId,
) -> Result<(CheckpointKey, Option<Workspace>), SliceFailure> {
    let unusable = |error: anyhow::Error| match error.downcast::<StoreError>() {
        Ok(error) => failure_of_store(&error),
        Err(error) => SliceFailure::Final(format!("{error:#}")),
    };
    let url = store::configured_store(Some(store)).map_err(unusable)?;
    let url = url.ok_or_else(|| SliceFailure::Final("the store `none` keeps no runs".to_owned()))?;
    let store = store::open_existing(&url).await.map_err(unusable)?;
    saved_workspace(&*store, run).await.map_err(|error| failure_of_store(&error))
}

/// Continues the run, whose latest checkpoint was `latest` when its workspace was made.
async fn continue_run(
    request: SliceRequest,
    run_request: &RunRequest,
    worker: &Worker,
    latest: CheckpointKey,
) -> Result<SliceOutcome, SliceFailure> {
    let limits = request.limits();
    let run = request.order.run.clone();
    let person = Arc::<Correspondence>::default();
    let view: Arc<dyn RunView> = Arc::new(SliceView(run.clone()));
    let orchestrator = prepare(run_request, &view, Arc::clone(&person) as _)
        .map_err(|error| SliceFailure::Final(format!("{error:#}")))?;
    let mut sliced = SlicedRun::new(orchestrator);
    let resume = Resume {
        which: run.to_string(),
        on_change: Some(OnChange::Continue),
        take_from: TakeFrom::TheGone,
        anywhere: true,
    };
    let restored = sliced.orchestrator_mut().restore(&resume).await;
    let restored = restored.map_err(|error| failure_to_resume(&error))?;
    if restored.from.key != latest {
        sliced.orchestrator().close().await;
        return Err(failure_to_resume(&ResumeError::Moved(run)));
    }
    worker.attend(sliced.orchestrator().engine());
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

/// The worker, which is listened to while the slice runs. If it is gone, so is the slice: whatever it holds
/// ends with its lease.
struct Worker {
    /// The run, as soon as it was restored.
    engine: Arc<OnceLock<Engine>>,
    /// True if the worker asked for a pause.
    is_pausing: Arc<AtomicBool>,
}

impl Worker {
    fn listen() -> Self {
        let worker = Self { engine: Arc::default(), is_pausing: Arc::default() };
        let (sender, lines) = unbounded_channel();
        std::thread::spawn(move || {
            for line in std::io::stdin().lock().lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    return;
                }
            }
        });
        tokio::spawn(follow(Arc::clone(&worker.engine), Arc::clone(&worker.is_pausing), lines));
        worker
    }

    /// Lets the worker renew the lease of the run, and pause it.
    fn attend(&self, engine: &Engine) {
        let engine = self.engine.get_or_init(|| engine.clone());
        if self.is_pausing.load(Ordering::SeqCst) {
            engine.conduct.pacing.handle().pause();
        }
    }
}

async fn follow(
    engine: Arc<OnceLock<Engine>>,
    is_pausing: Arc<AtomicBool>,
    mut lines: UnboundedReceiver<String>,
) {
    while let Some(line) = lines.recv().await {
        match line.as_str() {
            TICK => {
                if let Some(checkpointing) = engine.get().and_then(Engine::checkpointing) {
                    checkpointing.renew().await;
                }
                say(&SliceLine::Beat);
            }
            PAUSE => {
                is_pausing.store(true, Ordering::SeqCst);
                if let Some(engine) = engine.get() {
                    engine.conduct.pacing.handle().pause();
                }
            }
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
