//! The consumption of a call, as its provider reports it.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

use crate::Tokens;

/// The tokens of one call, or of several added up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    /// Tokens of the prompt, those read from the provider's cache included.
    pub prompt_tokens: Tokens,
    /// Tokens of the answer.
    pub completion_tokens: Tokens,
    /// Tokens of the prompt that the provider read from its cache.
    pub cached_tokens: Tokens,
    /// Tokens of the prompt that the provider wrote to its cache, if it reports them; some charge more for
    /// these.
    #[serde(default)]
    pub cache_written_tokens: Tokens,
    /// Blocks of reasoning in the prompt that the provider did not show to the model: they were made in
    /// another view.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub dropped_reasoning: u64,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
const fn is_zero(n: &u64) -> bool {
    *n == 0
}

impl AddAssign for Usage {
    fn add_assign(&mut self, other: Self) {
        self.prompt_tokens += other.prompt_tokens;
        self.completion_tokens += other.completion_tokens;
        self.cached_tokens += other.cached_tokens;
        self.cache_written_tokens += other.cache_written_tokens;
        self.dropped_reasoning += other.dropped_reasoning;
    }
}
