//! A strategy under its id.

use std::sync::Arc;

use super::{ClearToolResults, CompactionStrategy, Extraction};
use crate::StrategyId;

/// A strategy under the id by which the books know it.
#[derive(Clone)]
pub(super) struct NamedStrategy {
    pub(super) id: StrategyId,
    pub(super) strategy: Arc<dyn CompactionStrategy>,
}

impl NamedStrategy {
    /// Returns the strategy with its id; `None` if that is blank.
    pub(super) fn new(strategy: Arc<dyn CompactionStrategy>) -> Option<Self> {
        Some(Self { id: StrategyId::new(strategy.id()).ok()?, strategy })
    }

    /// Checks whether it writes records, which fill their target.
    pub(super) fn is_extraction(&self) -> bool {
        self.id.as_str() == Extraction::ID
    }

    /// Checks whether it clears results and leaves it to later strategies which messages stay.
    pub(super) fn is_clearing(&self) -> bool {
        self.id.as_str() == ClearToolResults::ID
    }
}
