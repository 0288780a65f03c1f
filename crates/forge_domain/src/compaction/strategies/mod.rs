//! The built-in strategies: each is one file or folder with its YAML options, its rule and its tests. A new
//! one needs that, its `mod` line and its line in the table.

#[macro_use]
mod rung;
mod clear_tool_results;
mod summarization;
mod extraction;
mod sliding_window;
mod truncation;

#[cfg(test)]
pub(super) use self::extraction::Entry;
pub(super) use self::extraction::{Record, record_length};
pub(super) use self::truncation::cut_first_user;

built_in_strategies! {
    /// Clearing of old tool results.
    clear_tool_results::ClearToolResults,
    /// Summaries by a model.
    summarization::Summarization,
    /// A record without a model.
    extraction::Extraction,
    /// Dropping of whole groups.
    sliding_window::SlidingWindow,
    /// Shortening of single items.
    truncation::Truncation,
}
