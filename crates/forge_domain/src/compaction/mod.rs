//! The rules for what may leave a context and how, and the outcome of each attempt.
//!
//! [`Compact`] decides when and how far, a [`CompactionStrategy`] is one way to make a context smaller, and
//! [`ContextCompactor`] tries them in order, keeps the rules and reports the outcome.

mod features;
mod git_names;
mod findings;
mod compact;
mod summary_template;
mod trigger;
mod summary_tag;
mod short_text;
mod record_tag;
mod originals;
mod cut;
mod rules;
mod strategy;
mod strategies;
mod settings;
mod outcome;
mod pin;
mod pinned_text;
mod question;
mod focus;
mod atoms;
mod meter;
mod logged_services;
mod rehearsal;
mod omission;
mod standing;
mod compactor;
mod guarantee;
mod named_strategy;
mod rule_check;
mod ladder;
mod loss;
mod statistics;
mod answered_call;
mod arguments;
mod asked_lines;
mod names;
mod stub;
mod superseded;
mod restated;
mod cap;
mod assistant_run;
mod written;
mod read_frame;

#[cfg(test)]
pub(crate) mod fixture;

#[cfg(test)]
mod guarantees;

#[cfg(test)]
mod durability;
mod envelope;

#[cfg(test)]
mod keys;

#[cfg(test)]
mod peers_failures;

pub use assistant_run::{AssistantRun, enrich, is_enriched};
pub use cap::cap;
pub use compact::*;
pub use compactor::*;
pub use focus::{Focus, FocusError};
pub use guarantee::{BrokenGuarantee, CheckedFit, Guarantee, fit_and_check};
pub use logged_services::LoggedServices;
pub use loss::Loss;
pub use omission::{NO_RECORD, n_omitted};
pub use outcome::*;
pub use pin::{Pin, PinError};
pub use rehearsal::{Rehearsal, Rehearsing, Settled, Unused};
pub use rules::*;
pub use settings::*;
pub use statistics::*;
pub use strategies::*;
pub use strategy::*;
pub use summary_tag::{SummaryTag, SummaryTagError};
pub use summary_template::{SummaryInput, SummaryTemplate};
pub use trigger::Trigger;
pub use written::{highest_label, is_bare_record, is_written_text, pieces_around_written, recognize_written};
