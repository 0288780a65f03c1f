//! The ports through which models are asked.

use std::pin::Pin;

use async_trait::async_trait;
use futures::Stream;

use crate::{ChatCompletionMessage, ModelId, Prompt, ProviderId, Tokens};

/// A reply as it comes in. Dropping it cancels the call.
pub type ChatStream = Pin<Box<dyn Stream<Item = Result<ChatCompletionMessage, ProviderError>> + Send>>;

/// A model that a provider offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// The name that the provider knows.
    pub id: ModelId,
    /// Its window, where the provider tells.
    pub window: Option<Tokens>,
}

/// One provider: what each adapter and each wrapper around an adapter implements.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Sends `prompt` and streams the reply.
    ///
    /// # Errors
    /// [`ProviderError`] where no reply begins; one that breaks off fails inside the stream.
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError>;

    /// The models on offer.
    ///
    /// # Errors
    /// [`ProviderError`] where the provider does not tell.
    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError>;
}

/// All providers of a workflow, by name.
#[async_trait]
pub trait ProviderService: Send + Sync {
    /// Sends `prompt` to the provider that its model names.
    ///
    /// # Errors
    /// As [`Provider::chat`], and [`ProviderError::UnknownProvider`].
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError>;

    /// The models that `provider` offers.
    ///
    /// # Errors
    /// As [`Provider::models`], and [`ProviderError::UnknownProvider`].
    async fn models(&self, provider: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError>;
}

/// Why a model gave no reply.
#[derive(Debug, thiserror::Error)]
pub enum ProviderError {
    /// No provider of that name.
    #[error("there is no provider `{provider}`; known are: {known}")]
    UnknownProvider {
        /// The name asked for.
        provider: String,
        /// The names there are, separated by commas.
        known: String,
    },
    /// The provider needs a key and there is none.
    #[error("provider `{provider}` needs a key: set the environment variable {variable}")]
    MissingKey {
        /// The provider.
        provider: ProviderId,
        /// The variable that would hold the key.
        variable: String,
    },
    /// The server was not reached, or the connection broke.
    #[error("cannot reach {url}")]
    Network {
        /// The address asked.
        url: String,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server refused the key.
    #[error("the provider refused the key (status {status}): {message}")]
    Auth {
        /// HTTP status.
        status: u16,
        /// The server's words.
        message: String,
    },
    /// The server does not know the model.
    #[error("the provider does not know the model `{model}`: {message}")]
    UnknownModel {
        /// The model asked for.
        model: ModelId,
        /// The server's words.
        message: String,
    },
    /// The server refused the request for any other reason.
    #[error("the provider refused the request (status {status}): {message}")]
    Refused {
        /// HTTP status; 200 where the refusal came inside a stream.
        status: u16,
        /// The server's words.
        message: String,
    },
    /// The stream ended before the reply did.
    #[error("the reply broke off before its end")]
    Truncated,
    /// The server's answer is not of the protocol.
    #[error("the provider's answer cannot be read: {what}")]
    Malformed {
        /// What could not be read.
        what: String,
    },
    /// A recording has no further reply.
    #[error("the recording has no further reply")]
    RecordingEnded,
}
