//! Meters what an attempt asks of models, whatever strategy makes it and however it ends, and finds the
//! messages as they were before this compaction.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use futures::StreamExt;

use super::CompactionServices;
use super::stub::is_stub;
use crate::{
    ChatStream, Context, ContextMessage, Cost, MessageId, Model, ModelError, ModelId, ModelInfo, Price,
    Prompt, ProviderError, ProviderId, ProviderService, SummaryTemplate, TokenCounter, Usage,
};

/// The services of one attempt, which count what is asked of models.
pub(super) struct Metered<'a> {
    services: &'a dyn CompactionServices,
    /// The context that is compacted, before the first step.
    before: &'a Context,
    /// The positions of its messages, by their ids.
    positions: OnceLock<HashMap<MessageId, usize>>,
    requests: Arc<Mutex<Vec<Request>>>,
}

/// The state of one request.
struct Request {
    price: Option<Price>,
    /// The usage last reported; `None` if a reply began without any.
    usage: Option<Usage>,
}

/// The requests of an attempt to models.
#[derive(Clone, Copy, Default)]
pub(super) struct Meter {
    /// Requests, those that failed among them.
    pub(super) model_calls: usize,
    /// The usage of these requests.
    pub(super) usage: Usage,
    /// The cost of these requests.
    pub(super) cost: Cost,
}

impl<'a> Metered<'a> {
    pub(super) fn new(services: &'a dyn CompactionServices, before: &'a Context) -> Self {
        Self { services, before, positions: OnceLock::new(), requests: Arc::default() }
    }

    pub(super) fn total(&self) -> Meter {
        let requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
        let mut total = Meter { model_calls: requests.len(), ..Meter::default() };
        for Request { price, usage } in &*requests {
            total.usage += usage.unwrap_or_default();
            if *usage != Some(Usage::default()) {
                total.cost += Cost::of_call(price.as_ref(), *usage);
            }
        }
        total
    }

    fn price(&self, prompt: &Prompt) -> Option<Price> {
        let id = ModelId::new(prompt.options().model.to_string()).ok()?;
        self.services.model(&id).ok()?.price
    }

    /// Returns the message of that id in the context that is compacted; `None` if an earlier compaction
    /// cleared it there.
    fn message_before(&self, id: MessageId) -> Option<ContextMessage> {
        let messages = self.before.messages();
        let ids =
            || messages.iter().enumerate().filter_map(|(at, message)| Some((message.id()?, at))).collect();
        let message = &messages[*self.positions.get_or_init(ids).get(&id)?];
        Some(message.clone()).filter(|message| !is_stub(&message.message().text()))
    }
}

impl CompactionServices for Metered<'_> {
    fn templates(&self) -> &dyn SummaryTemplate {
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

    fn original(&self, id: MessageId) -> Option<ContextMessage> {
        self.message_before(id).or_else(|| self.services.original(id))
    }
}

#[async_trait]
impl ProviderService for Metered<'_> {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let price = self.price(&prompt);
        let nth = {
            let mut requests = self.requests.lock().unwrap_or_else(PoisonError::into_inner);
            // What is refused costs nothing.
            requests.push(Request { price, usage: Some(Usage::default()) });
            requests.len() - 1
        };
        let stream = self.services.providers().chat(prompt).await?;
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)[nth].usage = None;
        let requests = Arc::clone(&self.requests);
        Ok(stream
            .inspect(move |piece| {
                // A later figure replaces an earlier one.
                if let Some(usage) = piece.as_ref().ok().and_then(|piece| piece.usage) {
                    requests.lock().unwrap_or_else(PoisonError::into_inner)[nth].usage = Some(usage);
                }
            })
            .boxed())
    }

    async fn models(&self, provider: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError> {
        self.services.providers().models(provider).await
    }
}
