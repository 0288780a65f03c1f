//! The rules for what may leave a context and how, and the outcome of each attempt.
//!
//! [`Compact`] decides when and how far, a [`CompactionStrategy`] is one way to make a context smaller, and
//! [`ContextCompactor`] tries them in order, keeps the rules and reports the outcome.

mod features;
mod findings;
mod compact;
mod rung;
mod summary_template;
mod strategy;
mod outcome;
mod pin;
mod focus;
mod atoms;
mod meter;
mod rehearsal;
mod omission;
mod standing;
mod compactor;
mod guarantee;
mod ladder;
mod adaptive;
mod loss;
mod statistics;
mod answered_call;
mod stub;
mod superseded;
mod clear_tool_results;
mod extraction;
mod summarization;
mod sliding_window;
mod capping;
mod truncation;
mod transforming;
mod written;

#[cfg(test)]
mod fixture;

#[cfg(test)]
mod guarantees;

#[cfg(test)]
mod durability;

#[cfg(test)]
mod keys;

#[cfg(test)]
mod peers_failures;

pub use capping::cap;
pub use clear_tool_results::ClearToolResults;
pub use compact::*;
pub use compactor::*;
pub use extraction::Extraction;
pub use focus::{Focus, FocusError};
pub use guarantee::{BrokenGuarantee, CheckedFit, Guarantee, fit_and_check};
pub use loss::Loss;
pub use omission::n_omitted;
pub use outcome::*;
pub use pin::{Pin, PinError};
pub use rehearsal::{Rehearsal, Rehearsing, Settled, Unused};
pub use rung::Rung;
pub use sliding_window::SlidingWindow;
pub use statistics::*;
pub use strategy::*;
pub use summarization::Summarization;
pub use summary_template::{SummaryInput, SummaryTemplate};
pub use transforming::{AssistantRun, enriched, is_enriched};
pub use truncation::Truncation;
pub use written::{is_written_text, pieces_around_written, recognize_written};
