//! The services of an agent's compactions.

use std::sync::{Mutex, PoisonError};

use async_trait::async_trait;
use forge_domain::compaction::CompactionServices;
use forge_domain::{
    Agent, ChatStream, Model, ModelError, ModelId, ModelInfo, Overspend, Prompt, ProviderError, ProviderId,
    ProviderService, SummaryTemplate, TokenCounter, Tokens,
};

use super::Engine;
use crate::spans::{chat_span, trace_chat};

/// The services of an agent's compactions. They know what servers reported of models, and request no summary
/// that the budget cannot pay for.
pub(crate) struct AgentServices<'a> {
    engine: &'a Engine,
    agent: &'a Agent,
    /// The tokens of the summaries that were requested: the ledger has them when the compaction is over.
    requested: Mutex<Tokens>,
}

impl<'a> AgentServices<'a> {
    /// Returns the services of one compaction.
    pub(crate) fn new(engine: &'a Engine, agent: &'a Agent) -> Self {
        Self { engine, agent, requested: Mutex::default() }
    }

    /// Reserves the tokens of a request.
    ///
    /// # Errors
    /// The [`Overspend`], with those that were requested before.
    fn reserve(&self, prompt: &Prompt) -> Result<(), Overspend> {
        let id = ModelId::new(prompt.options().model.to_string()).ok();
        let price = id.and_then(|id| self.model(&id).ok()).and_then(|model| model.price);
        let mut requested = self.requested.lock().unwrap_or_else(PoisonError::into_inner);
        let together = *requested + prompt.tokens();
        self.engine.check_budget(self.agent, together, price.as_ref())?;
        *requested = together;
        Ok(())
    }
}

impl CompactionServices for AgentServices<'_> {
    fn templates(&self) -> &dyn SummaryTemplate {
        &*self.engine.services.templates
    }

    fn providers(&self) -> &dyn ProviderService {
        self
    }

    fn counter(&self) -> &dyn TokenCounter {
        &*self.engine.services.counter
    }

    fn model(&self, id: &ModelId) -> Result<Model, ModelError> {
        self.engine.catalog.model(&self.engine.services, id)
    }
}

#[async_trait]
impl ProviderService for AgentServices<'_> {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        self.reserve(&prompt).map_err(ProviderError::OverBudget)?;
        let span = chat_span(&prompt, self.engine.run_id().as_ref());
        trace_chat(span, self.engine.services.providers.chat(prompt)).await
    }

    async fn models(&self, provider: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError> {
        self.engine.services.providers.models(provider).await
    }
}
