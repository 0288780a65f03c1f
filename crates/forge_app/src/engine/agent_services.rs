//! The services of an agent's compactions.

use async_trait::async_trait;
use forge_domain::compaction::CompactionServices;
use forge_domain::{
    Agent, ChatStream, Model, ModelError, ModelId, ModelInfo, Prompt, ProviderError, ProviderId,
    ProviderService, SummaryTemplate, TokenCounter,
};

use super::Engine;
use crate::spans::{chat_span, trace_chat};

/// The services of an agent's compactions. They know what servers reported of models, and request no summary
/// that the budget cannot pay for.
pub(crate) struct AgentServices<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) agent: &'a Agent,
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
        let id = ModelId::new(prompt.options().model.to_string()).ok();
        let price = id.and_then(|id| self.model(&id).ok()).and_then(|model| model.price);
        let checked = self.engine.check_budget(self.agent, prompt.tokens(), price.as_ref());
        checked.map_err(ProviderError::OverBudget)?;
        let span = chat_span(&prompt, self.engine.run_id().as_ref());
        trace_chat(span, self.engine.services.providers.chat(prompt)).await
    }

    async fn models(&self, provider: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError> {
        self.engine.services.providers.models(provider).await
    }
}
