//! Providers that speak Anthropic's messages protocol.

use std::borrow::Cow;

use async_trait::async_trait;
use forge_domain::{ChatStream, ModelInfo, Prompt, Provider, ProviderError, ProviderId};
use forge_wire::Delivery;
use forge_wire::anthropic::{self, AnthropicReplyReader, StaleThinking};

use crate::http::{Connection, Framing, Key, KeyHeader, ProviderSetupError, Secret, reply};

/// The version of the protocol, which every request must name.
const VERSION: &str = "2023-06-01";
/// The server that knows the fields of the protocol's betas.
const OWN_HOST: &str = "api.anthropic.com";
/// The header that names betas.
const BETA: &str = "anthropic-beta";

/// A provider that speaks Anthropic's messages protocol over HTTP.
#[derive(Clone, Debug)]
pub struct AnthropicProvider {
    connection: Connection,
}

impl AnthropicProvider {
    /// Creates the provider `id` at `base_url`, which is the part before `/messages` or before
    /// `/v1/messages`, such as `https://api.anthropic.com`. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails with [`ProviderSetupError`] if no request could ever be sent. A missing key is reported by the
    /// first request.
    pub fn new(id: ProviderId, base_url: &str, key: Key) -> Result<Self, ProviderSetupError> {
        let connection = Connection::new(id, base_url, key, KeyHeader::ApiKey)?;
        let connection = connection.with_headers([("anthropic-version", &Secret::new(VERSION))])?;
        Ok(Self { connection })
    }

    /// Adds headers to every request, such as `anthropic-beta`.
    ///
    /// # Errors
    /// Fails with [`ProviderSetupError::Header`] if one cannot be sent.
    pub fn with_headers<'a>(
        self,
        headers: impl IntoIterator<Item = (&'a str, &'a Secret)>,
    ) -> Result<Self, ProviderSetupError> {
        Ok(Self { connection: self.connection.with_headers(headers)? })
    }
}

#[async_trait]
impl Provider for AnthropicProvider {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let url = self.connection.endpoint.url_in("v1", "messages");
        let asked = self.connection.request_context(&url, Some(&prompt.options().model.model));
        // Other servers of this protocol may refuse a field that they do not know.
        let is_own = self.connection.endpoint.host() == OWN_HOST;
        let stale = if is_own { StaleThinking::Dropped } else { StaleThinking::Refused };
        let connection = match is_own && anthropic::binds_thinking(&prompt) {
            true => Cow::Owned(self.connection.with_item(BETA, anthropic::THINKING_BINDING)),
            false => Cow::Borrowed(&self.connection),
        };
        let request = connection.post(url, &anthropic::request(&prompt, Delivery::Stream, stale));
        drop(prompt);
        let response = connection.send(request, &asked).await?;
        let mut reader = AnthropicReplyReader::default();
        reply(response, asked, Framing::Sse, anthropic::read_answer, move |data| reader.read(data)).await
    }

    fn check(&self) -> Result<(), ProviderError> {
        self.connection.check_key()
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        // The list comes in parts, the first of which is as long as is allowed.
        let mut url = self.connection.endpoint.url_in("v1", "models");
        url.query_pairs_mut().append_pair("limit", "1000");
        let asked = self.connection.request_context(&url, None);
        let body = self.connection.body(self.connection.get(url), &asked).await?;
        anthropic::read_models(&body).map_err(|error| asked.wire(error, &body))
    }
}
