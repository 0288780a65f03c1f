//! The port that tells processes apart which write runs.

/// Who writes the runs of this process, and whether others that did are still there.
pub trait Holder: Send + Sync {
    /// The name under which this process claims runs; people read it too.
    fn name(&self) -> &str;

    /// Whether the process that claimed a run as `name` is known to have ended. Where that cannot be known, as of another
    /// machine's, it is not.
    fn is_gone(&self, name: &str) -> bool;
}
