//! The needs of a run in slices: limits, and the words of people who are not there all the time.

mod correspondence;
mod pacing;
mod words;

pub use self::correspondence::{Answer, AnswerWhat, Correspondence};
pub use self::pacing::{Pacing, PauseHandle, SliceLimits};
pub use self::words::Words;
