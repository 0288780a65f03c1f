//! The port for the time of day.

use jiff::Timestamp;

/// A source of the time.
pub trait Clock: Send + Sync {
    /// Returns the current time.
    fn now(&self) -> Timestamp;
}
