//! Histories of runs as files, by which a later version shows that it can continue what an earlier one began.

use forge_app::SchedulerError;
use forge_domain::RunId;
use temporalio_client::{WorkflowFetchHistoryOptions, WorkflowHistory};
use temporalio_sdk::workflow_replayer::{WorkflowReplayer, WorkflowReplayerOptions};

use crate::error::chain;
use crate::flow::ForgeRun;
use crate::scheduler::TemporalScheduler;

/// The reason why a history cannot be continued by this version.
#[derive(Debug, thiserror::Error)]
#[error("the history cannot be continued by this version: {0}")]
pub struct HistoryError(String);

impl TemporalScheduler {
    /// Returns the history of the run as JSON.
    ///
    /// # Errors
    /// [`SchedulerError::NoSuchRun`].
    pub async fn history(&self, run: &RunId) -> Result<Vec<u8>, SchedulerError> {
        let history = self.handle(run).fetch_history(WorkflowFetchHistoryOptions::default());
        let events = history.into_events().await.map_err(|error| self.place.interaction(&error, run))?;
        let history = temporalio_common::protos::temporal::api::history::v1::History { events };
        let json = WorkflowHistory::from(history).to_json().await;
        json.map_err(|error| self.place.worker(&error))
    }
}

/// Checks that this version decides at each step of a history as the version that wrote it did. The history
/// is as [`TemporalScheduler::history`] returns it. No server is needed.
///
/// # Errors
/// [`HistoryError`].
pub async fn replay_history(json: &[u8]) -> Result<(), HistoryError> {
    let wrong = |error: &(dyn std::error::Error + 'static)| HistoryError(chain(error));
    let history = WorkflowHistory::from_json(json).map_err(|error| wrong(&error))?;
    let mut options = WorkflowReplayerOptions::new().build();
    options.register_workflow::<ForgeRun>().map_err(|error| wrong(&error))?;
    let replayer = WorkflowReplayer::new(options).map_err(|error| wrong(&error))?;
    replayer.replay_workflow(history).await.map_err(|error| wrong(&error))
}
