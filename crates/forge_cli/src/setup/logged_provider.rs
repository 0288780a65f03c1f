//! A provider whose address is kept in the log of actions: once for each process, with a count.

use std::sync::Arc;

use async_trait::async_trait;
use forge_app::ActionLog;
use forge_domain::{ChatStream, ModelId, ModelInfo, Prompt, Provider, ProviderError};
use tokio::sync::Mutex;

/// A provider whose requests are counted.
pub(crate) struct LoggedProvider {
    provider: Arc<dyn Provider>,
    name: String,
    address: String,
    log: ActionLog,
    asked: Mutex<Asked>,
}

/// The number of requests to a provider.
#[derive(Default)]
struct Asked {
    count: u64,
    /// The number of the action that is kept of it.
    number: u64,
}

impl LoggedProvider {
    /// Counts the requests of `provider`, which is called `name` and asked at `address`.
    pub(crate) fn new(provider: Arc<dyn Provider>, name: &str, address: &str, log: &ActionLog) -> Self {
        let (name, address) = (name.to_owned(), address.to_owned());
        Self { provider, name, address, log: log.clone(), asked: Mutex::default() }
    }

    /// Makes one request. The address is kept before the first one, and the count after each.
    async fn count<T>(
        &self,
        request: impl Future<Output = Result<T, ProviderError>>,
    ) -> Result<T, ProviderError> {
        {
            let mut asked = self.asked.lock().await;
            asked.count += 1;
            if asked.count == 1 {
                asked.number = self.log.begin_address(&self.name, &self.address).await;
            }
        }
        let answer = request.await;
        let asked = self.asked.lock().await;
        self.log.count_address(asked.number, asked.count, answer.is_err()).await;
        answer
    }
}

#[async_trait]
impl Provider for LoggedProvider {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        self.count(self.provider.chat(prompt)).await
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        self.count(self.provider.models()).await
    }

    async fn model_info(&self, id: &ModelId) -> Result<Option<ModelInfo>, ProviderError> {
        self.count(self.provider.model_info(id)).await
    }

    fn check(&self) -> Result<(), ProviderError> {
        self.provider.check()
    }
}
