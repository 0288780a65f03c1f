//! The needs of a run in slices: limits, and the answers of people who are not there all the time.

mod correspondence;
mod pacing;

pub use self::correspondence::{Answer, AnswerWhat, Correspondence};
pub use self::pacing::{Pacing, PauseHandle, SliceLimits};
