//! A step of a task, as the tool `steps` shows it to the user.

use serde::Deserialize;

/// A step of a task.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct TaskStep {
    /// The step in a few words.
    pub step: String,
    /// The extent to which it is done.
    pub status: StepStatus,
}

/// The extent to which a step is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StepStatus {
    /// It has not begun.
    Pending,
    /// The agent works on it.
    InProgress,
    /// It is done.
    Completed,
}

impl StepStatus {
    /// Returns the word for it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::InProgress => "in_progress",
            Self::Completed => "completed",
        }
    }
}

impl TaskStep {
    /// The tool that shows steps.
    pub const TOOL: &str = "steps";

    /// Reads the steps from the arguments of a call; `None` if they are invalid.
    pub fn of_call(arguments: &str) -> Option<Vec<Self>> {
        #[derive(Deserialize)]
        struct Arguments {
            steps: Vec<TaskStep>,
        }
        serde_json::from_str::<Arguments>(arguments).ok().map(|arguments| arguments.steps)
    }

    /// Counts the steps that are done.
    pub fn count_done(steps: &[Self]) -> usize {
        steps.iter().filter(|step| step.status == StepStatus::Completed).count()
    }
}
