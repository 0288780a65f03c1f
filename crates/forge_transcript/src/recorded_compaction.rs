//! A compaction that the recording agent made.

use serde::Serialize;

/// A compaction that the recording agent made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecordedCompaction {
    /// The record that holds the compaction, counted from 0.
    pub record: usize,
    /// The trigger: `auto` or `manual`.
    pub trigger: Option<String>,
    /// Tokens of the context before, by the agent's own count.
    pub pre_tokens: Option<u64>,
    /// Tokens after, if the record has them.
    pub post_tokens: Option<u64>,
    /// The id of the first message before it that stayed in the context.
    #[serde(skip)]
    pub(crate) kept_from: Option<String>,
    /// The first record before it that stayed in the context, if it is named by its place.
    #[serde(skip)]
    pub(crate) kept_record: Option<usize>,
}
