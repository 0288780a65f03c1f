//! The contents of a live conversation's window, and what the next call would do about it.

use std::sync::Arc;

use forge_domain::compaction::Trigger;
use forge_domain::{Agent, AgentId, Conversation, ModelRef, Tokens};
use serde::Serialize;

use super::Engine;
use crate::{InspectReport, RunError, inspect_view};

/// The contents of a live conversation's window. Tokens are by our count.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LiveContext {
    /// The agent of the conversation.
    pub agent: AgentId,
    /// The agent's model.
    pub model: ModelRef,
    /// Tokens of prompt and answer together.
    pub window: Tokens,
    /// Tokens kept free for the answer.
    pub reserve: Tokens,
    /// Tokens available for messages: what the reserve and the tool schemas leave.
    pub room: Tokens,
    /// Messages are compacted when they have more tokens than this.
    pub trigger: Tokens,
    /// Most tokens of the messages after a compaction.
    pub target: Tokens,
    /// Compactions in force.
    pub compactions: usize,
    /// The view by roles, tools and its largest messages. Its `tokens` are those of the request.
    pub made_of: InspectReport,
    /// The next call's effect.
    pub next: NextCall,
}

impl LiveContext {
    /// Returns the tokens of the window that neither the request nor the reserve uses.
    pub fn free(&self) -> Tokens {
        self.window.saturating_sub(self.reserve).saturating_sub(self.made_of.tokens)
    }
}

/// An effect of the next call on a context.
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
    /// Replaces the configuration of the agent with the id of `agent`.
    pub(crate) fn configure(&mut self, agent: &Agent) {
        Arc::make_mut(&mut self.services.workflow).agents.for_each(|known| {
            if known.id == agent.id {
                known.clone_from(agent);
            }
        });
    }

    /// Returns the contents of the window of `conversation`, which is `agent`'s. Asks the server of a model
    /// of which too little is known.
    ///
    /// # Errors
    /// [`RunError`] if the agent cannot work as it is configured.
    pub async fn context(&self, agent: &Agent, conversation: &Conversation) -> Result<LiveContext, RunError> {
        self.catalog.learn_models(&self.services, agent, &self.events).await?;
        self.services.prepare(agent).await?;
        let setup = self.setup(agent)?;
        let counter = &*self.services.counter;
        let limits = setup.next_limits(conversation);
        let (budget, compact) = (&limits.budget, &limits.compact);
        let view = conversation.view().within(budget.frame());
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
            trigger: compact.rules.trigger.tokens,
            target: compact.rules.target.tokens.min(room),
            compactions: conversation.live_entries().len(),
            made_of: inspect_view(&view, budget.tools_tokens(), counter),
            next,
        })
    }
}
