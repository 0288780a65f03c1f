//! The events that start agents.

use serde::{Deserialize, Serialize};

use crate::Image;

/// The event that carries a user's task to the agents that subscribe to it.
pub const TASK_EVENT: &str = "user_task_init";

/// An event; the agents that subscribe to its name start.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event {
    /// Its name.
    pub name: String,
    /// The value of the event, in words.
    pub value: String,
    /// The images that come with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<Image>,
}

impl From<&str> for Event {
    fn from(task: &str) -> Self {
        Self::task(task)
    }
}

impl From<String> for Event {
    fn from(task: String) -> Self {
        Self::task(task)
    }
}

impl Event {
    /// Creates an event of that name and value.
    pub fn new(name: impl Into<String>, value: impl Into<String>) -> Self {
        Self { name: name.into(), value: value.into(), images: Vec::new() }
    }

    /// Returns the event with images.
    #[must_use]
    pub fn with_images(self, images: Vec<Image>) -> Self {
        Self { images, ..self }
    }

    /// Creates the event of a user's task.
    pub fn task(task: impl Into<String>) -> Self {
        Self::new(TASK_EVENT, task)
    }
}
