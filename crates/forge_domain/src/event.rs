//! What wakes agents.

use serde::{Deserialize, Serialize};

/// The event that carries a person's task to the agents that subscribe to it.
pub const TASK_EVENT: &str = "user_task_init";

/// Something that happened; the agents that subscribe to its name wake.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// What it carries, in words.
    pub value: String,
}

impl Event {
    /// An event of that name and value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }

    /// A person's task.
    pub fn task(task: impl Into<String>) -> Self {
        Self::new(TASK_EVENT, task)
    }
}
