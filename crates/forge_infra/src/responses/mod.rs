//! Providers that speak OpenAI's Responses protocol: OpenAI itself, and servers that took it over.

use async_trait::async_trait;
use forge_domain::{ChatStream, ModelId, ModelInfo, Prompt, Provider, ProviderError, ProviderId};
use forge_wire::Delivery;
use forge_wire::responses::{self, ResponsesReplyReader};

use crate::OpenAiProvider;
use crate::http::{Framing, Key, ProviderSetupError, Secret, reply};

/// A provider that speaks OpenAI's Responses protocol over HTTP.
#[derive(Clone, Debug)]
pub struct ResponsesProvider {
    /// The same server in the chat protocol: models are listed in the same way.
    chat: OpenAiProvider,
}

impl ResponsesProvider {
    /// Creates the provider `id` at `base_url`, which is the part before `/responses`, such as
    /// `https://api.openai.com/v1`. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails with [`ProviderSetupError`] if no request could ever be sent. A missing key is reported by the
    /// first request.
    pub fn new(id: ProviderId, base_url: &str, key: Key) -> Result<Self, ProviderSetupError> {
        Ok(Self { chat: OpenAiProvider::new(id, base_url, key)? })
    }

    /// Adds headers to every request.
    ///
    /// # Errors
    /// Fails with [`ProviderSetupError::Header`] if one cannot be sent.
    pub fn with_headers<'a>(
        self,
        headers: impl IntoIterator<Item = (&'a str, &'a Secret)>,
    ) -> Result<Self, ProviderSetupError> {
        Ok(Self { chat: self.chat.with_headers(headers)? })
    }
}

#[async_trait]
impl Provider for ResponsesProvider {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let connection = &self.chat.connection;
        let url = connection.endpoint.url("responses");
        let asked = connection.request_context(&url, Some(&prompt.options().model.model));
        let request = connection.post(url, &responses::request(&prompt, Delivery::Stream));
        drop(prompt);
        let response = connection.send(request, &asked).await?;
        let mut reader = ResponsesReplyReader::default();
        reply(response, asked, Framing::Sse, responses::read_answer, move |data| reader.read(data)).await
    }

    fn check(&self) -> Result<(), ProviderError> {
        self.chat.check()
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        self.chat.models().await
    }

    async fn model_info(&self, id: &ModelId) -> Result<Option<ModelInfo>, ProviderError> {
        self.chat.model_info(id).await
    }
}
