//! The selection of a checkpoint.

use clap::Args;
use forge_app::{CheckpointsError, Selected};
use forge_domain::{AgentId, CheckpointStore, RunId};

use crate::run::select_here;

/// A checkpoint by its name.
#[derive(Debug, Args)]
pub(super) struct CheckpointName {
    /// A run, a label such as researcher-iteration-6 or RUN/LABEL, a number such as 12, or `last`
    #[arg(value_name = "ID")]
    id: String,
    /// Only this agent's
    #[arg(long, value_name = "ID", value_parser = agent_id)]
    agent: Option<AgentId>,
}

impl CheckpointName {
    /// Returns the selected checkpoint.
    pub(super) async fn select(&self, store: &dyn CheckpointStore) -> Result<Selected, CheckpointsError> {
        select_here(store, &self.id, self.agent.as_ref()).await
    }
}

fn agent_id(text: &str) -> Result<AgentId, String> {
    AgentId::new(text).map_err(|error| error.to_string())
}

/// Parses the name of a new run: one that cannot be taken for a checkpoint, and that a shell and a file
/// system take as it is.
pub(super) fn new_run_id(text: &str) -> Result<RunId, String> {
    let run = run_id(text)?;
    if !run.is_plain() {
        return Err("a name has letters, digits, `-`, `_` and `.`, begins with a letter or a digit, and is \
                    neither a number nor `last`"
            .to_owned());
    }
    Ok(run)
}

/// Parses the name of a run.
pub(super) fn run_id(text: &str) -> Result<RunId, String> {
    RunId::new(text).map_err(|error| error.to_string())
}
