//! The events that start agents.

use serde::{Deserialize, Serialize};

/// The event that carries a user's task to the agents that subscribe to it.
pub const TASK_EVENT: &str = "user_task_init";

/// An event; the agents that subscribe to its name start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// The value of the event, in words.
    pub value: String,
}

impl Event {
    /// Creates an event of that name and value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into() }
    }

    /// Creates the event of a user's task.
    pub fn task(task: impl Into<String>) -> Self {
        Self::new(TASK_EVENT, task)
    }
}
