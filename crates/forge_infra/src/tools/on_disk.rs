//! Tools that work on files: they may block, so they run on a thread for that, and stop when nobody waits any more.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use forge_domain::{Permission, Reach, Subject};
use serde_json::Value;

use super::arguments::Arguments;
use super::failure::ToolFailure;
use super::workspace::Workspace;
use super::{Room, Tool};

/// A tool that works on the files of the workspace.
pub(super) trait FileTool: Send + Sync {
    /// The name by which the model calls it.
    fn name(&self) -> &'static str;
    /// What it does and when to use it, said to the model.
    fn description(&self) -> String;
    /// JSON Schema of its arguments: the whole of what it knows.
    fn parameters(&self) -> Value;
    /// What a call does with its `path`.
    fn touch(&self, arguments: &Arguments) -> Touch;
    /// Does it; may block. What takes long looks at `stop` now and then.
    fn run(&self, arguments: &Arguments, workspace: &Workspace, stop: &Stop) -> Result<String, ToolFailure>;
}

/// What a call does with the path that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    Reads,
    Writes,
    /// It looks at everything below it.
    LooksBelow,
}

/// Whether a call is not waited for any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Whether it is time to stop.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Says that it is.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sets its stop when it is dropped.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// A file tool as one among all tools.
pub(super) struct OnDisk(pub(super) &'static dyn FileTool);

#[async_trait]
impl Tool for OnDisk {
    fn name(&self) -> &'static str {
        self.0.name()
    }

    fn description(&self) -> String {
        self.0.description()
    }

    fn parameters(&self) -> Value {
        self.0.parameters()
    }

    async fn reach(&self, arguments: &Arguments, room: &Room) -> Reach {
        let touch = self.0.touch(arguments);
        let (usual, subject): (_, fn(String) -> Subject) = match touch {
            Touch::Reads => (Permission::Allow, Subject::Read),
            Touch::LooksBelow => (Permission::Allow, Subject::Below),
            Touch::Writes => (Permission::Ask, Subject::Written),
        };
        let (workspace, path) =
            (Arc::clone(&room.workspace), arguments.text("path").unwrap_or(".").to_owned());
        let names = tokio::task::spawn_blocking(move || workspace.names_of(&path)).await;
        Reach { usual, subjects: names.unwrap_or_default().into_iter().map(subject).collect() }
    }

    async fn run(&self, arguments: Arguments, room: &Room) -> Result<String, ToolFailure> {
        let (tool, workspace, stop) = (self.0, Arc::clone(&room.workspace), Stop::default());
        let _stops_it = StopOnDrop(stop.clone());
        let work = tokio::task::spawn_blocking(move || tool.run(&arguments, &workspace, &stop));
        work.await.unwrap_or_else(|broken| {
            // A panic goes on to where those of all tools are dealt with.
            match broken.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(ended) => Err(ToolFailure::Refused(format!("`{}` was ended: {ended}", tool.name()))),
            }
        })
    }
}
