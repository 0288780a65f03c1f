//! Providers that speak OpenAI's chat protocol: OpenAI itself, and most other servers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use forge_domain::{
    ChatStream, ModelId, ModelInfo, Prompt, Provider, ProviderError, ProviderId, ProviderKind, Tokens,
};
use forge_wire::Delivery;
use forge_wire::ollama;
use forge_wire::openai::{self, Dialect, LocalServer, OpenAiReplyReader};
use reqwest::Url;
use serde_json::json;

use crate::http::{Connection, Framing, Key, KeyHeader, LIST_TIMEOUT, ProviderSetupError, Secret, reply};

/// A provider that speaks OpenAI's chat protocol over HTTP.
#[derive(Clone, Debug)]
pub struct OpenAiProvider {
    pub(crate) connection: Connection,
    /// The fields that the server was found to take, by model: behind one address there may be several
    /// servers.
    dialects: Arc<Mutex<HashMap<ModelId, Dialect>>>,
}

impl OpenAiProvider {
    /// Creates the provider `id` at `base_url`, which is the part before `/chat/completions`, such as
    /// `https://api.openai.com/v1`. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails with [`ProviderSetupError`] if no request could ever be sent. A missing key is reported by the
    /// first request.
    pub fn new(id: ProviderId, base_url: &str, key: Key) -> Result<Self, ProviderSetupError> {
        let connection = Connection::new(id, base_url, key, KeyHeader::Bearer)?;
        Ok(Self { connection, dialects: Arc::default() })
    }

    /// Adds headers to every request.
    ///
    /// # Errors
    /// Fails with [`ProviderSetupError::Header`] if one cannot be sent.
    pub fn with_headers<'a>(
        self,
        headers: impl IntoIterator<Item = (&'a str, &'a Secret)>,
    ) -> Result<Self, ProviderSetupError> {
        Ok(Self { connection: self.connection.with_headers(headers)?, ..self })
    }
}

#[async_trait]
impl Provider for OpenAiProvider {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let url = self.connection.endpoint.url("chat/completions");
        let model = prompt.options().model.model.clone();
        let asked = self.connection.request_context(&url, Some(&model));
        let mut dialect = self.dialect(&model);
        let response = loop {
            let request =
                self.connection.post(url.clone(), &openai::request_in(dialect, &prompt, Delivery::Stream));
            match self.connection.send(request, &asked).await {
                Err(error) => {
                    let next =
                        refusal_words(&error).and_then(|words| dialect.after_refusal(model.as_str(), words));
                    dialect = next.ok_or(error)?;
                }
                Ok(response) => break response,
            }
        };
        drop(prompt);
        self.remember(model, dialect);
        let mut reader = OpenAiReplyReader::default();
        reply(response, asked, Framing::Sse, openai::read_answer, move |data| reader.read(data)).await
    }

    fn check(&self) -> Result<(), ProviderError> {
        self.connection.check_key()
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        let (url, body) = self.list().await?;
        openai::read_models(&body)
            .map_err(|error| self.connection.request_context(&url, None).wire(error, &body))
    }

    /// Returns the description of a model. A server with only one model answers as that one to any name.
    async fn model_info(&self, id: &ModelId) -> Result<Option<ModelInfo>, ProviderError> {
        let (url, body) = self.list().await?;
        let models = openai::read_models(&body);
        let models =
            models.map_err(|error| self.connection.request_context(&url, None).wire(error, &body))?;
        let server = openai::local_server(&body);
        let is_named = |model: &ModelInfo| {
            model.id == *id
                || (server == Some(LocalServer::Ollama) && ollama::is_called(model.id.as_str(), id))
        };
        let only = || match models.as_slice() {
            [only] => Some(only),
            _ => None,
        };
        let named = models.iter().find(|model| is_named(model));
        let Some(found) = named.or_else(only) else { return Ok(None) };
        let found = ModelInfo { id: id.clone(), ..found.clone() };
        let Some(server) = server.filter(|_| found.window.is_none()) else { return Ok(Some(found)) };
        let window = match server {
            LocalServer::LlamaCpp => self.window_in_props().await,
            LocalServer::LmStudio => self.window_in_lm_studio(id).await,
            LocalServer::Ollama => self.window_in_ollama(id).await,
        };
        // Each of them may tell it only once the model is loaded.
        let is_window_due = window.is_none();
        let better_kind = (server == LocalServer::Ollama).then_some(ProviderKind::Ollama);
        Ok(Some(ModelInfo { window, is_window_due, better_kind, ..found }))
    }
}

impl OpenAiProvider {
    fn dialect(&self, model: &ModelId) -> Dialect {
        let dialects = self.dialects.lock().unwrap_or_else(PoisonError::into_inner);
        dialects.get(model).copied().unwrap_or_default()
    }

    /// Keeps what the server took for `model`, so that it is not refused again.
    fn remember(&self, model: ModelId, dialect: Dialect) {
        if dialect != Dialect::default() {
            self.dialects.lock().unwrap_or_else(PoisonError::into_inner).insert(model, dialect);
        }
    }

    /// Returns the list of models as it was sent, and its address.
    async fn list(&self) -> Result<(Url, Vec<u8>), ProviderError> {
        let url = self.connection.endpoint.url("models");
        let asked = self.connection.request_context(&url, None);
        let body = self.connection.body(self.connection.get(url.clone()), &asked).await?;
        Ok((url, body))
    }

    async fn window_in_props(&self) -> Option<Tokens> {
        openai::read_props(&self.beside("props").await?)
    }

    async fn window_in_lm_studio(&self, model: &ModelId) -> Option<Tokens> {
        openai::read_loaded(&self.beside("api/v0/models").await?, model)
    }

    /// Returns the window that Ollama has given to `model`, or gives to it when it loads it: if its file sets
    /// none, only the server's own settings decide.
    async fn window_in_ollama(&self, model: &ModelId) -> Option<Tokens> {
        let running = self.beside("api/ps").await?;
        if let Some(window) = ollama::read_loaded(&running, model) {
            return Some(window);
        }
        let url = self.connection.endpoint.clone().above("v1").url("api/show");
        let asked = self.connection.request_context(&url, Some(model));
        let request = self.connection.post(url, &json!({"model": model})).timeout(LIST_TIMEOUT);
        let card = ollama::read_card(&self.connection.body(request, &asked).await.ok()?).ok()?;
        let window = card.num_ctx?;
        Some(card.context_length.map_or(window, |length| length.min(window)))
    }

    /// Returns what the server has at `path` beside the addresses of the protocol.
    async fn beside(&self, path: &str) -> Option<Vec<u8>> {
        let url = self.connection.endpoint.clone().above("v1").url(path);
        let asked = self.connection.request_context(&url, None);
        self.connection.body(self.connection.get(url), &asked).await.ok()
    }
}

/// Returns the words of a server that refused a request, or whose chat template did: some report that as a
/// failure of their own.
fn refusal_words(error: &ProviderError) -> Option<&str> {
    match error {
        ProviderError::InvalidRequest { message, .. }
        | ProviderError::Overloaded { status: 500, message, .. } => Some(message.as_str()),
        _ => None,
    }
}
