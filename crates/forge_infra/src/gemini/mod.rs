//! Providers that speak Gemini's own protocol.

use async_trait::async_trait;
use forge_domain::{ChatStream, ModelId, ModelInfo, Prompt, Provider, ProviderError, ProviderId, Tokens};
use forge_wire::gemini::{self, GeminiReplyReader};
use reqwest::Url;

use crate::http::{COUNT_TIMEOUT, Connection, Framing, Key, KeyHeader, ProviderSetupError, Secret, reply};

/// A provider that speaks Gemini's own protocol over HTTP.
///
/// Gemini may refuse a prompt over the window as one over a quota, which no wait helps. So such a prompt is
/// counted by the server before the error is passed on.
#[derive(Clone, Debug)]
pub struct GeminiProvider {
    connection: Connection,
}

impl GeminiProvider {
    /// Creates the provider `id` at `base_url`, which is the part before `/models`, such as
    /// `https://generativelanguage.googleapis.com/v1beta`. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails with [`ProviderSetupError`] if no request could ever be sent. A missing key is reported by the
    /// first request.
    pub fn new(id: ProviderId, base_url: &str, key: Key) -> Result<Self, ProviderSetupError> {
        Ok(Self { connection: Connection::new(id, base_url, key, KeyHeader::GoogApiKey)? })
    }

    /// Adds headers to every request.
    ///
    /// # Errors
    /// Fails with [`ProviderSetupError::Header`] if one cannot be sent.
    pub fn with_headers<'a>(
        self,
        headers: impl IntoIterator<Item = (&'a str, &'a Secret)>,
    ) -> Result<Self, ProviderSetupError> {
        Ok(Self { connection: self.connection.with_headers(headers)? })
    }

    /// Returns the address of a `method` of `model`.
    fn url(&self, model: &ModelId, method: &str) -> Url {
        let model = model.as_str();
        let folder = if model.contains('/') { "" } else { "models/" };
        self.connection.endpoint.url(&format!("{folder}{model}:{method}"))
    }

    /// Returns the error for a prompt that the server refused with `error`.
    async fn refusal(&self, prompt: &Prompt, error: ProviderError) -> ProviderError {
        let ProviderError::RateLimited { message, .. } = &error else { return error };
        if !message.contains("input_token") {
            return error;
        }
        match self.count(prompt).await {
            Ok(need) if need > prompt.window() => {
                let (need, window) = (Some(need), Some(prompt.window()));
                ProviderError::ContextTooLong { need, window, message: message.clone() }
            }
            Ok(_) | Err(_) => error,
        }
    }

    /// Returns the tokens of `prompt` by the server's count.
    async fn count(&self, prompt: &Prompt) -> Result<Tokens, ProviderError> {
        let model = &prompt.options().model.model;
        let url = self.url(model, "countTokens");
        let asked = self.connection.request_context(&url, Some(model));
        let request = self.connection.post(url, &gemini::count_request(prompt)).timeout(COUNT_TIMEOUT);
        let body = self.connection.body(request, &asked).await?;
        gemini::read_count(&body).map_err(|error| asked.wire(error, &body))
    }
}

#[async_trait]
impl Provider for GeminiProvider {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let model = prompt.options().model.model.clone();
        let mut url = self.url(&model, "streamGenerateContent");
        url.query_pairs_mut().append_pair("alt", "sse");
        let asked = self.connection.request_context(&url, Some(&model));
        let request = self.connection.post(url, &gemini::request(&prompt));
        let response = match self.connection.send(request, &asked).await {
            Ok(response) => response,
            Err(error) => return Err(self.refusal(&prompt, error).await),
        };
        drop(prompt);
        let mut reader = GeminiReplyReader::default();
        reply(response, asked, Framing::Sse, gemini::read_answer, move |data| reader.read(data)).await
    }

    fn check(&self) -> Result<(), ProviderError> {
        self.connection.check_key()
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        // The list comes in parts, the first of which is as long as is allowed.
        let mut url = self.connection.endpoint.url("models");
        url.query_pairs_mut().append_pair("pageSize", "1000");
        let asked = self.connection.request_context(&url, None);
        let body = self.connection.body(self.connection.get(url), &asked).await?;
        gemini::read_models(&body).map_err(|error| asked.wire(error, &body))
    }
}
