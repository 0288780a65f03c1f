//! The runtime in which asynchronous work is done.

use std::ops::Deref;

/// Returns a runtime for a run, with a thread for each core.
pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    Ok(Runtime(Some(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)))
}

/// Does the work on this thread and returns its result.
pub(crate) fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(work)
}

/// A runtime that waits for no task when it is dropped, as in a panic: one could wait for a key forever.
pub(crate) struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    pub(crate) fn shutdown_background(self) {
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
            runtime.shutdown_background();
        }
    }
}
