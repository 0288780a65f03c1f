//! The port that tells processes apart which write runs.

/// The identity of this process as a writer of runs, and the check whether other writers still exist.
pub trait Holder: Send + Sync {
    /// Returns the name under which this process claims runs; users read it too.
    fn name(&self) -> &str;

    /// Checks whether the process that claimed a run as `name` is known to have ended. If that cannot be
    /// known, as for another machine's, it has not.
    fn is_gone(&self, name: &str) -> bool;
}
