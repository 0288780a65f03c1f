//! The display of a run: to a user or to a program.

use std::path::{Path, PathBuf};

use forge_app::{CheckpointTally, Orchestrator, Restored, RunEvent, RunReport};
use forge_domain::{Agent, AgentId, Discretion, Event, ModelId, RunId, ToolName};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::sync::watch;

use super::answer_schema::Answer;
use super::interruption::Interruption;
use super::progress::Progress;
use crate::failure::{self, Exit};

/// The reason why a run broke off.
pub(crate) enum Break<'a> {
    /// It failed; the error is printed at the process's end.
    Failed(&'a anyhow::Error),
    /// It was interrupted.
    Interrupted {
        /// The cause of the interruption, in words.
        words: String,
        /// The exit code: that of the signal.
        exit_code: u8,
    },
}

/// Says that the file of `--record` is not complete, and why.
pub(crate) fn unrecorded_text(why: &str) -> String {
    format!("the record lacks the end of the run: {why}")
}

impl Break<'_> {
    /// Returns the break by an interruption; `record` is the file that has the complete calls, unless it is
    /// `unrecorded` for a reason.
    pub(crate) fn interrupted(
        interruption: Interruption,
        record: Option<&Path>,
        unrecorded: Option<&str>,
    ) -> Self {
        let word = interruption.word();
        let words = match (unrecorded, record.filter(|path| path.exists())) {
            (Some(why), _) => format!("{word}; {}", unrecorded_text(why)),
            (None, Some(path)) => format!("{word}; every call that was complete is in {}", path.display()),
            (None, None) => word.to_owned(),
        };
        Self::Interrupted { words, exit_code: interruption.exit_code() }
    }

    /// Returns the exit code of the process.
    pub(crate) fn exit_code(&self) -> u8 {
        match self {
            Self::Failed(error) => Exit::of_error(error).code(),
            Self::Interrupted { exit_code, .. } => *exit_code,
        }
    }

    /// Returns the break for programs, as the last event and as the content of `--report`.
    pub(crate) fn to_json(&self, checkpoints: Option<&CheckpointTally>) -> Value {
        let (stop, why) = match self {
            Self::Failed(error) => ("failed", failure::in_a_line(error)),
            Self::Interrupted { words, .. } => ("interrupted", words.clone()),
        };
        let run = checkpoints.filter(|tally| tally.is_resumable()).map(|tally| &tally.run);
        json!({
            "stop": stop, "why": why, "exit_code": self.exit_code(), "resume": run, "checkpoints": checkpoints,
        })
    }
}

/// The facts about a run that are known when it starts.
#[derive(Debug, Serialize)]
pub(crate) struct RunStart {
    /// Its id; `None` if no checkpoints are saved.
    pub(crate) run: Option<RunId>,
    /// The agents that the task is for.
    pub(crate) agents: Vec<StartedAgent>,
    pub(crate) folder: PathBuf,
    /// The version of Forge.
    pub(crate) version: &'static str,
    /// The mode and the calls that are allowed in advance.
    #[serde(skip)]
    pub(crate) discretion: Discretion,
    /// The variable with the key of the first agent's provider, if it is set.
    #[serde(skip)]
    pub(crate) key: Option<String>,
}

/// An agent that a run starts with.
#[derive(Debug, Serialize)]
pub(crate) struct StartedAgent {
    pub(crate) id: AgentId,
    pub(crate) model: Option<ModelId>,
    pub(crate) tools: Vec<ToolName>,
}

impl RunStart {
    /// Returns the facts about a run of `agents`.
    pub(crate) fn of(orchestrator: &Orchestrator, agents: &[&Agent]) -> Self {
        let started = |agent: &&Agent| StartedAgent {
            id: agent.id.clone(),
            model: agent.model.clone(),
            tools: agent.tools.clone().unwrap_or_default(),
        };
        Self {
            run: orchestrator.checkpoints().map(|tally| tally.run),
            agents: agents.iter().map(started).collect(),
            folder: std::env::current_dir().unwrap_or_default(),
            version: env!("CARGO_PKG_VERSION"),
            discretion: orchestrator.engine().conduct.discretion(),
            key: agents.first().and_then(|agent| key_variable(orchestrator, agent)),
        }
    }
}

/// Returns the variable with the key of the provider of `agent`; `None` if it needs none, or it is not set.
fn key_variable(orchestrator: &Orchestrator, agent: &Agent) -> Option<String> {
    let workflow = &orchestrator.engine().services().workflow;
    let provider = workflow.model(agent.model.as_ref()?).ok()?.reference.provider;
    let variable = workflow.providers.get(&provider)?.api_key_env.clone()?;
    std::env::var(&variable).is_ok_and(|key| !key.trim().is_empty()).then_some(variable)
}

/// Returns what is known of the run when it starts.
pub(crate) fn run_start(orchestrator: &Orchestrator, event: Option<&Event>, agent: Option<&str>) -> RunStart {
    let agents = &orchestrator.engine().services().workflow.agents;
    let recipients = orchestrator.recipients().unwrap_or_default();
    let active = orchestrator.active().map(AgentId::without_lane);
    let agents: Vec<&Agent> = match (event, agent.or(active)) {
        (Some(event), _) => agents.iter().filter(|agent| agent.subscribes_to(&event.name)).collect(),
        (None, Some(id)) => agents.find(id).into_iter().collect(),
        (None, None) => recipients.iter().collect(),
    };
    RunStart::of(orchestrator, &agents)
}

/// A display of a run in progress, and of its result.
pub(crate) trait RunView: Send + Sync {
    /// Shows what is known when the run starts, before anything else is shown of it.
    fn show_start(&self, _: &RunStart) {}

    /// Shows one event.
    fn tell(&self, event: &RunEvent<'_>);

    /// Returns the progress that is to be shown between the events; `None` if nothing is.
    fn progress(&self) -> Option<watch::Receiver<Progress>> {
        None
    }

    /// Shows the state from which a run resumes; `without_task` means that there is no new task.
    fn show_resume(&self, restored: &Restored, without_task: bool);

    /// Shows the answer of a run that had ended before it was resumed.
    fn show_saved_answer(&self, _: &str) {}

    /// Shows the answer of a run that has a schema for it: the value, or its faults.
    fn show_answer(&self, _: &Answer) {}

    /// Shows the totals of the whole run. The process returns the code of `exit`.
    fn show_end(&self, report: &RunReport, checkpoints: Option<&CheckpointTally>, exit: Exit);

    /// Shows why it broke off and how to continue; `flags` are those that it needs to stay the same.
    fn show_break(&self, why: &Break<'_>, checkpoints: Option<&CheckpointTally>, flags: &str);

    /// Closes what is still open, such as a line of the answer.
    fn end(&self);
}

/// Returns a report for programs: the result of the run, and the exit code of the process.
pub(crate) fn report_json(report: &RunReport, exit_code: u8) -> Value {
    let mut json = serde_json::to_value(report).unwrap_or_default();
    json["exit_code"] = exit_code.into();
    json
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn an_interruption_tells_what_the_record_has() {
        let folder = tempfile::tempdir().unwrap();
        let record = folder.path().join("r.json");
        std::fs::write(&record, "{}").unwrap();
        let whole = format!("interrupted; every call that was complete is in {}", record.display());
        let full = "interrupted; the record lacks the end of the run: it is full";
        for (record, unrecorded, expected) in [
            (None, None, "interrupted"),
            (Some(record.as_path()), None, whole.as_str()),
            (Some(record.as_path()), Some("it is full"), full),
        ] {
            let told = Break::interrupted(Interruption::Interrupted, record, unrecorded);
            assert_eq!(told.to_json(None)["why"], expected);
        }
    }
}
