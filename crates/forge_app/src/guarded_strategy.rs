//! A registered strategy whose panics are failed attempts.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::Context;
use forge_domain::compaction::{
    CompactionImpact, CompactionRules, CompactionServices, CompactionStrategy, StrategyError,
};

use crate::caught_panic::catch_panic;

/// A strategy that fails where the one in it panics, so that the next one is tried.
pub(crate) struct GuardedStrategy(pub(crate) Arc<dyn CompactionStrategy>);

#[async_trait]
impl CompactionStrategy for GuardedStrategy {
    fn id(&self) -> &str {
        self.0.id()
    }

    fn description(&self) -> &str {
        self.0.description()
    }

    /// Returns true if the check panics: only a failed attempt has a reason that can be read.
    fn is_applicable(&self, rules: &CompactionRules, context: &Context) -> bool {
        catch_unwind(AssertUnwindSafe(|| self.0.is_applicable(rules, context))).unwrap_or(true)
    }

    fn asks_model(&self) -> bool {
        self.0.asks_model()
    }

    fn heeds_focus(&self) -> bool {
        self.0.heeds_focus()
    }

    async fn compact(
        &self,
        rules: &CompactionRules,
        context: Context,
        services: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError> {
        let compacted = catch_panic(async { self.0.compact(rules, context, services).await }).await;
        compacted.unwrap_or_else(|panic| Err(StrategyError::Other(format!("it crashed: {panic}").into())))
    }
}
