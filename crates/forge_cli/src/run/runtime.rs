//! The runtime in which asynchronous work is done.

use std::ops::Deref;
use std::time::Duration;

/// The stack of each thread of a run, in bytes: as much as the main thread usually has. Agents that are
/// called as tools are polled on their caller's stack, and unoptimised code needs more than the usual
/// 2 MiB even for one.
const STACK: usize = 8 * 1024 * 1024;

/// The time in which threads with nothing to do end. To leave a thread behind that ends at that very moment
/// crashes in glibc 2.36 (its bug 19951): those that end are waited for, and one that is stuck is left.
const PATIENCE: Duration = Duration::from_millis(100);

/// Returns a runtime for a run, with a thread for each core.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    let runtime = builder.enable_all().thread_stack_size(STACK).build()?;
    survive_size_limits(&runtime);
    Ok(Runtime(Some(runtime)))
}

/// Makes a file that exceeds `ulimit -f` an error of its write, as on a full disk, and not the end of
/// this process without a word.
#[cfg(unix)]
fn survive_size_limits(runtime: &tokio::runtime::Runtime) {
    use tokio::signal::unix::{SignalKind, signal};
    let _context = runtime.enter();
    // The handler stays when its stream is dropped. If there can be none, all is as before.
    drop(signal(SignalKind::from_raw(rustix::process::Signal::XFSZ.as_raw())));
}

/// Does nothing: this system has no such limit.
#[cfg(not(unix))]
const fn survive_size_limits(_: &tokio::runtime::Runtime) {}

/// Does the work on this thread and returns its result.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// A runtime that hardly waits for a task when it is dropped, as in a panic: one could wait for a key
/// forever.
pub(crate) struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    pub(crate) fn shut_down(self) {
        drop(self);
    }
}

impl Deref for Runtime {
    type Target = tokio::runtime::Runtime;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_timeout(PATIENCE);
        }
    }
}
