//! Tools that work on files. They may block, so they run on a thread for that, and stop when their caller has
//! gone.

mod line_reader;
mod list;
mod patch;
mod read;
mod search;
mod sieve;
mod walk;
mod workspace;
mod write;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use forge_domain::{CallScope, FileChange, Image, Permission, Reach, Subject, secret_by_name};
use serde_json::Value;

use crate::tools::arguments::Arguments;
use crate::tools::failure::ToolFailure;
use crate::tools::{Room, Tool};

pub(super) use self::list::List;
pub(super) use self::patch::Patch;
pub(super) use self::read::Read;
pub(super) use self::search::Search;
pub(crate) use self::walk::{Step, WalkEnd, walk_repository};
pub(super) use self::workspace::Workspace;
pub(crate) use self::workspace::open_entry;
pub(super) use self::write::Write;

/// The time limit of a call, and of its report about how far it came.
pub(super) const TIME_LIMIT: Duration = Duration::from_secs(30);
const GRACE: Duration = Duration::from_secs(5);

/// A tool that works on the files of the workspace.
pub(super) trait FileTool: Send + Sync {
    /// Returns the name by which the model calls it.
    fn name(&self) -> &'static str;
    /// Returns the description for the model: what it does and when to use it.
    fn description(&self) -> String;
    /// Returns the JSON Schema of its arguments, which covers all of them.
    fn parameters(&self) -> Value;
    /// Returns how a call uses its `path`.
    fn touch(&self, arguments: &Arguments) -> Touch;
    /// Returns whether the result shows a part of the file that is named.
    fn shows(&self) -> bool {
        true
    }
    /// Returns the change that the call would make to a file. It may block.
    ///
    /// # Errors
    /// Fails as the call would.
    fn preview(&self, _: &Arguments, _: &Workspace) -> Result<Option<FileChange>, ToolFailure> {
        Ok(None)
    }
    /// Returns the image that the call shows; `None` if it shows none. It may block.
    ///
    /// # Errors
    /// Fails if the image is too large to be shown.
    fn image(&self, _: &Arguments, _: &Workspace) -> Result<Option<Image>, ToolFailure> {
        Ok(None)
    }
    /// Runs the call, and may block. Long work checks the limits' `stop` now and then.
    fn run(
        &self,
        arguments: &Arguments,
        workspace: &Workspace,
        limits: &Limits,
    ) -> Result<String, ToolFailure>;
}

/// The use that a call makes of the path that it names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Touch {
    Reads,
    Writes,
    /// It reads everything below it.
    LooksBelow,
}

/// The limits of one call.
#[derive(Clone, Debug)]
pub(super) struct Limits {
    /// The flag that ends the call.
    pub(super) stop: Stop,
    /// The parts to leave out of its result.
    pub(super) scope: CallScope,
}

/// A flag that is set when no one waits for the call any more.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Checks whether the call should stop.
    pub(super) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Sets the flag.
    pub(super) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Returns the secret that the file of this path holds by its name.
pub(super) fn secret_at(path: &str) -> Option<Subject> {
    let what = secret_by_name(path)?.to_owned();
    Some(Subject::Secret { place: path.to_owned(), what })
}

/// Checks that `path` still holds the text that the user was shown, if they were shown one.
///
/// # Errors
/// The refusal if it changed meanwhile.
pub(super) fn check_unchanged(limits: &Limits, path: &str, now: Option<&[u8]>) -> Result<(), ToolFailure> {
    let Some(shown) = limits.scope.expected() else { return Ok(()) };
    if shown.before.as_deref().map(str::as_bytes) == now {
        return Ok(());
    }
    Err(ToolFailure::Refused(format!(
        "`{path}` was not changed: its content changed after the user was shown the difference; `read` it again"
    )))
}

/// A guard that sets its flag when it is dropped.
struct StopOnDrop(Stop);

impl Drop for StopOnDrop {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// A file tool as a [`Tool`].
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
        let names = tokio::task::spawn_blocking(move || workspace.names_of(&path)).await.unwrap_or_default();
        let secrets = names.iter().filter(|_| self.0.shows()).filter_map(|name| secret_at(name));
        let secrets: Vec<_> = secrets.collect();
        Reach { usual, subjects: names.into_iter().map(subject).chain(secrets).collect() }
    }

    async fn preview(&self, arguments: Arguments, room: &Room) -> Option<FileChange> {
        let (tool, workspace) = (self.0, Arc::clone(&room.workspace));
        let work = tokio::task::spawn_blocking(move || tool.preview(&arguments, &workspace));
        tokio::time::timeout(room.file_limit, work).await.ok()?.ok()?.ok()?
    }

    async fn image(&self, arguments: &Arguments, room: &Room) -> Option<Result<Image, ToolFailure>> {
        let (tool, workspace, arguments) = (self.0, Arc::clone(&room.workspace), arguments.clone());
        let work = tokio::task::spawn_blocking(move || tool.image(&arguments, &workspace));
        // A file system that hangs is reported by the call itself.
        tokio::time::timeout(room.file_limit, work).await.ok()?.ok()?.transpose()
    }

    async fn run(&self, arguments: Arguments, room: &Room, scope: &CallScope) -> Result<String, ToolFailure> {
        let (tool, workspace, stop) = (self.0, Arc::clone(&room.workspace), Stop::default());
        let _stops_it = StopOnDrop(stop.clone());
        let limits = Limits { stop: stop.clone(), scope: scope.clone() };
        let is_change = matches!(tool.touch(&arguments), Touch::Writes);
        let mut work = tokio::task::spawn_blocking(move || tool.run(&arguments, &workspace, &limits));
        let done = match tokio::time::timeout(room.file_limit, &mut work).await {
            Ok(done) => done,
            Err(_) => {
                // It says how far it came.
                stop.set();
                let Ok(done) = tokio::time::timeout(GRACE, work).await else {
                    let change = if is_change { ". What it changes may yet be changed" } else { "" };
                    return Err(ToolFailure::Refused(format!(
                        "`{}` was not done after {} seconds, and does not stop: the file system may hang{change}",
                        tool.name(),
                        (room.file_limit + GRACE).as_secs()
                    )));
                };
                done
            }
        };
        done.unwrap_or_else(|broken| {
            // A panic is passed on to the handler for all tools.
            match broken.try_into_panic() {
                Ok(panic) => resume_unwind(panic),
                Err(ended) => Err(ToolFailure::Refused(format!("`{}` was ended: {ended}", tool.name()))),
            }
        })
    }
}
