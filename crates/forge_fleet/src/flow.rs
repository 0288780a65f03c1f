//! The workflow of a run, and the activity that runs a slice.
//!
//! # Changes of the workflow
//!
//! Open runs are replayed: a worker that takes one over runs its workflow again from the start, and every
//! command (activity, continue-as-new) must come in the order of the history. So a change of the commands
//! goes behind a patch:
//!
//! 1. Write `if ctx.patched("name") { the new way } else { the old way }` where the two part. New histories
//!    get a marker of about 200 bytes and take the new way; old ones continue in the old one.
//! 2. When no open run has an older history, replace the `if` by `ctx.deprecate_patch("name")` and the new
//!    way. Every run begins a new history after a number of slices, but one that waits for a person stays.
//! 3. One release later, remove that line too.
//!
//! No patch is needed for other timeouts and retry policies, more signals and queries, and more fields with
//! a default. No patch helps if a workflow, an activity or a signal gets another name. Versions of workers
//! could pin runs to builds instead; that needs every old build to stay up, while runs wait for days.

use std::sync::Arc;
use std::time::Duration;

use forge_app::{Answer, OutcomeEnd, RunState, SliceFailure, SliceOrder, SliceOutcome, SliceRunner, Word};
use temporalio_common::RetryPolicy;
use temporalio_common::error::IncomingError;
use temporalio_macros::{activities, workflow, workflow_methods};
use temporalio_sdk::activities::{ActivityContext, ActivityError};
use temporalio_sdk::{
    ActivityCancellationType, ActivityExecutionError, ActivityOptions, ApplicationFailure,
    ContinueAsNewOptions, RetryState, SyncWorkflowContext, WorkflowCancellationToken, WorkflowContext,
    WorkflowContextView, WorkflowResult, WorkflowTermination,
};
use tokio_util::sync::CancellationToken;

use crate::pulse::ActivityPulse;
use crate::state::{HEARTBEAT, Place, RunInput, RunResult, SLICES_PER_HISTORY, waits_for};

/// The type of a failure after which a slice is not tried again.
const FINAL: &str = "final";
/// The type of a failure after which a slice is tried again.
const AGAIN: &str = "again";
/// The type of the failure of a workflow.
const FAILED: &str = "forge_failed";
/// The longest time of a slice. It limits only what heartbeats cannot show: one that beats and never ends.
const LONGEST_SLICE: Duration = Duration::from_secs(24 * 3_600);

/// The activities of a worker.
pub(crate) struct Slices {
    pub(crate) runner: Arc<dyn SliceRunner>,
    pub(crate) drain: CancellationToken,
}

#[activities]
impl Slices {
    /// Runs one slice, passes its beats on, and tells it when to pause.
    #[activity(name = "slice")]
    pub(crate) async fn slice(
        self: Arc<Self>,
        ctx: ActivityContext,
        order: SliceOrder,
    ) -> Result<SliceOutcome, ActivityError> {
        let patience = ctx.info().heartbeat_timeout;
        let pulse = Arc::new(ActivityPulse::new(&self.drain, patience));
        let mut work = self.runner.run_slice(order, Arc::clone(&pulse) as _);
        let mut cancelled = std::pin::pin!(ctx.cancelled());
        let done = loop {
            tokio::select! {
                biased;
                done = &mut work => break done,
                () = &mut cancelled, if !pulse.is_pause_asked() => pulse.ask_pause(),
                () = pulse.beaten() => {
                    if let Err(error) = ctx.record_heartbeat(()).await {
                        tracing::warn!(%error, "a heartbeat was not sent");
                    }
                }
            }
        };
        done.map_err(|failure| match failure {
            SliceFailure::Again(why) => {
                ApplicationFailure::builder(why).type_name(AGAIN.to_owned()).build().into()
            }
            SliceFailure::Final(why) => {
                let failure = ApplicationFailure::builder(why).type_name(FINAL.to_owned());
                failure.non_retryable(true).build().into()
            }
        })
    }
}

/// The workflow of a run.
#[workflow]
pub(crate) struct ForgeRun {
    /// The state, with which the next history begins.
    at: RunInput,
    state: RunState,
    waiting: Vec<String>,
    n_slices: u32,
    is_stopping: bool,
    /// The reason why it is over.
    why: Option<String>,
    /// Cancels the slice at work.
    halt: WorkflowCancellationToken,
}

#[workflow_methods]
impl ForgeRun {
    #[init]
    fn new(_ctx: &WorkflowContextView, input: RunInput) -> Self {
        Self {
            at: input,
            state: RunState::Running,
            waiting: Vec::new(),
            n_slices: 0,
            is_stopping: false,
            why: None,
            halt: WorkflowCancellationToken::new(),
        }
    }

    /// Runs slices until one ends the run.
    #[run(name = "forge_run")]
    pub(crate) async fn run(ctx: &mut WorkflowContext<Self>) -> WorkflowResult<RunResult> {
        loop {
            if ctx.cancellation_token().is_cancelled() || ctx.state(|run| run.is_stopping) {
                return Err(WorkflowTermination::cancelled());
            }
            if ctx.state(Self::is_history_long) || ctx.continue_as_new_suggested() {
                ctx.continue_as_new(ctx.state(|run| run.at.clone()), ContinueAsNewOptions::default())?;
            }
            let halt = ctx.cancellation_token().child_token();
            let (order, options) = ctx.state_mut(|run| run.next_slice(halt));
            let words = order.words.clone();
            let end = match ctx.execute_activity(Slices::slice, order, options).await {
                Ok(outcome) => {
                    ctx.state_mut(|run| run.at.absorb(&outcome));
                    outcome.end
                }
                Err(error) => {
                    // A slice that has no outcome has heard nothing, so the next one gets its words.
                    ctx.state_mut(|run| run.at.give_back(words));
                    match final_reason(&error) {
                        Some(why) => return Err(failure(ctx.state(|run| run.result(why)))),
                        None => OutcomeEnd::Paused,
                    }
                }
            };
            match end {
                OutcomeEnd::Paused => {}
                OutcomeEnd::Waiting(_) => {
                    ctx.state_mut(|run| (run.state, run.waiting) = (RunState::Waiting, waits_for(&end)));
                    ctx.wait_condition(|run| !run.at.words.is_empty() || run.is_stopping).await?;
                }
                OutcomeEnd::Done(why) => return Ok(ctx.state_mut(|run| run.finish(why))),
            }
        }
    }

    /// Takes in advice. The slice at work pauses, so that the next one hears it.
    #[signal]
    pub(crate) fn steer(&mut self, _ctx: &mut SyncWorkflowContext<Self>, text: String) {
        self.at.steer(text);
        self.halt.cancel();
    }

    /// Takes in an answer, or a consent.
    #[signal]
    pub(crate) fn answer(&mut self, _ctx: &mut SyncWorkflowContext<Self>, answer: Answer) {
        self.at.words.push(Word::Answer(answer));
    }

    /// Asks the slice at work to pause, and ends the run then.
    #[signal]
    pub(crate) fn stop(&mut self, _ctx: &mut SyncWorkflowContext<Self>) {
        self.is_stopping = true;
        self.halt.cancel();
    }

    /// Tells where the run is.
    #[query(name = "where")]
    pub(crate) fn place(&self, _ctx: &WorkflowContextView) -> Place {
        let mut details = self.at.details();
        details.waiting.clone_from(&self.waiting);
        details.why.clone_from(&self.why);
        Place { state: self.state, details }
    }
}

impl ForgeRun {
    fn is_history_long(&self) -> bool {
        self.n_slices >= self.at.slices_per_history.unwrap_or(SLICES_PER_HISTORY)
    }

    /// Begins a slice, which hears all words until now.
    fn next_slice(&mut self, halt: WorkflowCancellationToken) -> (SliceOrder, ActivityOptions) {
        (self.state, self.n_slices) = (RunState::Running, self.n_slices + 1);
        self.waiting.clear();
        self.halt = halt.clone();
        let retries = RetryPolicy::builder()
            .initial_interval(Duration::from_millis(200))
            .backoff_coefficient(1.5)
            .maximum_interval(Duration::from_secs(1))
            .build();
        let options = ActivityOptions::with_start_to_close_timeout(LONGEST_SLICE)
            .heartbeat_timeout(self.at.heartbeat_ms.map_or(HEARTBEAT, Duration::from_millis))
            // A slice that is cancelled pauses at a safe point and reports its checkpoint: worth waiting for.
            .cancellation_type(ActivityCancellationType::WaitCancellationCompleted)
            .cancellation_token(halt)
            .retry_policy(retries)
            .build();
        (self.at.next_order(), options)
    }

    fn finish(&mut self, why: String) -> RunResult {
        (self.state, self.why) = (RunState::Done, Some(why.clone()));
        self.result(why)
    }

    fn result(&self, why: String) -> RunResult {
        RunResult { why, details: self.at.details() }
    }
}

/// Returns the failure of a workflow. It fails rather than completes, so that Temporal's own lists, and its
/// rule "start again only what failed", know it.
fn failure(result: RunResult) -> WorkflowTermination {
    let failure = ApplicationFailure::builder(result.why.clone()).type_name(FAILED.to_owned());
    WorkflowTermination::failed_application(failure.non_retryable(true).details(result).build())
}

/// Returns why a slice failed for good; `None` if it was only halted between two tries.
fn final_reason(error: &ActivityExecutionError) -> Option<String> {
    match error {
        ActivityExecutionError::Cancelled(_) => None,
        ActivityExecutionError::Failed(failed) => match error.reason() {
            Some(IncomingError::Application(cause)) if cause.type_name() == Some(FINAL) => {
                Some(cause.to_string())
            }
            _ if failed.retry_state() == RetryState::CancelRequested => None,
            cause => Some(cause.map_or_else(|| error.to_string(), ToString::to_string)),
        },
        other => Some(other.to_string()),
    }
}
