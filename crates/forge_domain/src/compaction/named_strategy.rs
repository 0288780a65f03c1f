//! A strategy under its id.

use std::sync::Arc;

use super::CompactionStrategy;
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
}
