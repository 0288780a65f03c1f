//! Results that are too large for the view are cut when they come in; the log keeps them whole.

use forge_domain::compaction::cap;
use forge_domain::{Agent, Conversation, Tokens};

use super::{Engine, Setup};

/// Most tokens of a result where the agent says nothing.
const USUAL: Tokens = Tokens::new(16_000);
/// Of the room it is at most this share.
const SHARE: (u64, u64) = (1, 2);

impl Engine {
    /// Leaves the middle of results that are too large out of the view. That is a compaction like any other: the log has the
    /// whole, and `recall` gives it back.
    pub(super) fn cap_results(&self, agent: &Agent, setup: &Setup, conversation: &mut Conversation) {
        let said = agent.max_result_tokens.map(|most| Tokens::new(most.get() as u64));
        let most = said.unwrap_or_else(|| USUAL.min(setup.budget.room().share(SHARE.0, SHARE.1)));
        let Some(capped) = cap(&conversation.view(), most, &*self.services.counter) else { return };
        if let Err(error) = conversation.record(&capped) {
            tracing::debug!(%error, "a result stays as large as it is");
        }
    }
}
