//! What fills the window of a conversation that goes on, and what the next call would do about it.

use std::sync::Arc;

use forge_domain::compaction::Trigger;
use forge_domain::{Agent, AgentId, Conversation, ModelRef, Tokens};
use serde::Serialize;

use super::Engine;
use crate::{InspectReport, RunError, inspect_view};

/// What fills the window of a conversation that goes on. Tokens are by our counts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LiveContext {
    /// Whose it is.
    pub agent: AgentId,
    /// The model that it is for.
    pub model: ModelRef,
    /// Tokens of prompt and answer together.
    pub window: Tokens,
    /// Tokens kept free for the answer.
    pub reserve: Tokens,
    /// Tokens that messages may have: what the reserve and the tool schemas leave.
    pub room: Tokens,
    /// Messages are compacted when they have more tokens than this.
    pub trigger: Tokens,
    /// They have at most so many then.
    pub target: Tokens,
    /// Compactions in force.
    pub compactions: usize,
    /// The view by roles, tools and its largest messages; its `tokens` are those of the request.
    pub made_of: InspectReport,
    /// What the next call would do.
    pub next: NextCall,
}

impl LiveContext {
    /// Tokens of the window that neither the request nor the reserve takes.
    pub fn free(&self) -> Tokens {
        self.window.saturating_sub(self.reserve).saturating_sub(self.made_of.tokens)
    }
}

/// What the next call would do about a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum NextCall {
    /// It is sent as it is.
    AsItIs,
    /// It is compacted first.
    Compacts(Trigger),
    /// It cannot be made to fit, or `auto_compact: false` forbids it: nothing would be sent.
    CannotFit,
}

impl Engine {
    /// Has `agent` work as it is here from now on.
    pub(crate) fn configure(&mut self, agent: &Agent) {
        Arc::make_mut(&mut self.services.workflow).agents.for_each(|known| {
            if known.id == agent.id {
                known.clone_from(agent);
            }
        });
    }

    /// What fills the window of `conversation`, which is `agent`'s. Asks the server of a model of which too little is known.
    ///
    /// # Errors
    /// [`RunError`] where the agent cannot work as it is configured.
    pub async fn context(&self, agent: &Agent, conversation: &Conversation) -> Result<LiveContext, RunError> {
        self.learn(agent).await?;
        self.services.prepare(agent).await?;
        let setup = self.setup(agent)?;
        let plain = setup.measured(conversation.scale(&setup.budget.options().model));
        let measured = self.with_recall(&setup, &plain, conversation, &self.compactor);
        let (budget, compact) = (&measured.budget, &measured.compact);
        let view = conversation.view();
        let counter = &*self.services.counter;
        let next = match self.compactor.due(compact, &view, budget, counter) {
            Some(trigger) => NextCall::Compacts(trigger),
            None if view.size().tokens > budget.room() => NextCall::CannotFit,
            None => NextCall::AsItIs,
        };
        let room = budget.room();
        Ok(LiveContext {
            agent: agent.id.clone(),
            model: budget.options().model.clone(),
            window: budget.window(),
            reserve: budget.reserve(),
            room,
            trigger: compact.token_threshold.map_or(room, |limit| limit.within(room)),
            target: compact.target_tokens().min(room),
            compactions: conversation.live_entries().len(),
            made_of: inspect_view(&view, budget.tools_tokens(), counter),
            next,
        })
    }
}
