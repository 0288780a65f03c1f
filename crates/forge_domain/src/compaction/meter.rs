//! Meters what an attempt asks of models, whatever strategy makes it and however it ends.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use futures::StreamExt;

use super::CompactionServices;
use crate::{
    ChatStream, Model, ModelError, ModelId, ModelInfo, Prompt, ProviderError, ProviderId, ProviderService,
    TemplateService, TokenCounter, Usage,
};

/// The services of one attempt, which count what is asked of models.
pub(super) struct Metered<'a> {
    services: &'a dyn CompactionServices,
    /// The usage of each request, as last reported.
    requests: Arc<Mutex<Vec<Usage>>>,
}

impl<'a> Metered<'a> {
    pub(super) fn new(services: &'a dyn CompactionServices) -> Self {
        Self { services, requests: Arc::default() }
    }

    /// Requests sent, those that failed among them, and what they consumed.
    pub(super) fn total(&self) -> (usize, Usage) {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut usage = Usage::default();
        requests.iter().for_each(|request| usage += *request);
        (requests.len(), usage)
    }
}

impl CompactionServices for Metered<'_> {
    fn templates(&self) -> &dyn TemplateService {
        self.services.templates()
    }

    fn providers(&self) -> &dyn ProviderService {
        self
    }

    fn counter(&self) -> &dyn TokenCounter {
        self.services.counter()
    }

    fn model(&self, id: &ModelId) -> Result<Model, ModelError> {
        self.services.model(id)
    }
}

#[async_trait]
impl ProviderService for Metered<'_> {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let nth = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            requests.push(Usage::default());
            requests.len() - 1
        };
        let stream = self.services.providers().chat(prompt).await?;
        let requests = Arc::clone(&self.requests);
        Ok(stream
            .inspect(move |piece| {
                // A later figure replaces an earlier one.
                if let Some(usage) = piece.as_ref().ok().and_then(|piece| piece.usage) {
                    requests.lock().unwrap_or_else(PoisonError::into_inner)[nth] = usage;
                }
            })
            .boxed())
    }

    async fn models(&self, provider: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError> {
        self.services.providers().models(provider).await
    }
}
