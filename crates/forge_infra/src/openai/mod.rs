//! Providers that speak OpenAI's chat protocol: OpenAI itself, and most other servers.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use forge_domain::{ChatStream, ModelId, ModelInfo, Prompt, Provider, ProviderError, ProviderId, Tokens};
use forge_wire::Delivery;
use forge_wire::openai::{self, Dialect, OpenAiReplyReader};
use reqwest::Url;

use crate::http::{Connection, Framing, Key, KeyHeader, ProviderSetupError, Secret, reply};

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
                Err(ProviderError::InvalidRequest { status, message }) => {
                    dialect = dialect
                        .after_refusal(model.as_str(), &message)
                        .ok_or(ProviderError::InvalidRequest { status, message })?;
                }
                response => break response?,
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
        let found = match (models.iter().find(|model| model.id == *id), models.as_slice()) {
            (Some(named), _) => Some(named.clone()),
            (None, [only]) => Some(ModelInfo { id: id.clone(), ..only.clone() }),
            (None, _) => None,
        };
        match found {
            Some(model) if model.window.is_none() && openai::is_of_llama_cpp(&body) => {
                Ok(Some(ModelInfo { window: self.window_in_props().await, ..model }))
            }
            found => Ok(found),
        }
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
        let url = self.connection.endpoint.clone().above("v1").url("props");
        let asked = self.connection.request_context(&url, None);
        let body = self.connection.body(self.connection.get(url), &asked).await.ok()?;
        openai::read_props(&body)
    }
}
