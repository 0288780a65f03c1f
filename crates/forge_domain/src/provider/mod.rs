//! The ports through which models are asked, what they answer, and what that costs.

mod price;
mod kind;
mod error;
mod chat;
mod model;
mod template_error;

use std::pin::Pin;
use std::time::Duration;

use async_trait::async_trait;
use futures::Stream;

use crate::{ModelId, ModelRef, Prompt, ProviderId, Tokens};

pub use chat::*;
pub use error::*;
pub use kind::*;
pub use model::*;
pub use price::*;
pub use template_error::*;

/// A streamed reply. Dropping it cancels the call.
pub type ChatStream = Pin<Box<dyn Stream<Item = Result<ChatCompletionMessage, ProviderError>> + Send>>;

/// A model that a provider offers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModelInfo {
    /// The name that the provider knows.
    pub id: ModelId,
    /// Its window, if the provider reports it.
    pub window: Option<Tokens>,
    /// Most tokens of one reply, if the provider reports it.
    pub max_output: Option<Tokens>,
    /// The price of its tokens, if the provider reports it.
    pub price: Option<Price>,
    /// True if the window is known only once the server has loaded the model, which the first request makes
    /// it do.
    pub is_window_due: bool,
    /// The protocol in which the same server can be asked better, if there is one.
    pub better_kind: Option<ProviderKind>,
}

impl ModelInfo {
    /// Creates a model of which only the name is known.
    pub const fn new(id: ModelId) -> Self {
        Self { id, window: None, max_output: None, price: None, is_window_due: false, better_kind: None }
    }
}

/// One provider: what each adapter and each wrapper around an adapter implements.
#[async_trait]
pub trait Provider: Send + Sync {
    /// Sends `prompt` and streams the reply.
    ///
    /// The run waits for the future and for the stream however long they take, so an implementation limits
    /// the time itself; dropping them cancels the call. A panic unwinds through the run.
    ///
    /// # Errors
    /// [`ProviderError`] if no reply begins; one that breaks off fails inside the stream.
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError>;

    /// Lists the models on offer.
    ///
    /// # Errors
    /// [`ProviderError`] if the provider does not tell.
    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError>;

    /// Returns what is known of one model; `None` if it is not on offer. Adapters that can learn more of one
    /// than of all do.
    ///
    /// # Errors
    /// [`ProviderError`] if the provider does not tell.
    async fn model_info(&self, id: &ModelId) -> Result<Option<ModelInfo>, ProviderError> {
        Ok(self.models().await?.into_iter().find(|model| model.id == *id))
    }

    /// Checks, without asking anybody, that it can be asked: that its key is there.
    ///
    /// # Errors
    /// [`ProviderError`] if every request would fail.
    fn check(&self) -> Result<(), ProviderError> {
        Ok(())
    }
}

/// All providers of a workflow, by name.
#[async_trait]
pub trait ProviderService: Send + Sync {
    /// Sends `prompt` to the provider that its model names.
    ///
    /// # Errors
    /// As [`Provider::chat`], and [`ProviderError::UnknownProvider`].
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError>;

    /// Lists the models that `provider` offers.
    ///
    /// # Errors
    /// As [`Provider::models`], and [`ProviderError::UnknownProvider`].
    async fn models(&self, provider: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError>;

    /// Returns what its provider reports of `model`; `None` if it is not on offer.
    ///
    /// # Errors
    /// As [`Provider::model_info`], and [`ProviderError::UnknownProvider`].
    async fn model_info(&self, model: &ModelRef) -> Result<Option<ModelInfo>, ProviderError> {
        Ok(self.models(&model.provider).await?.into_iter().find(|info| info.id == model.model))
    }

    /// Checks, without asking anybody, that `provider` can be asked.
    ///
    /// # Errors
    /// As [`Provider::check`].
    fn check(&self, _provider: &ProviderId) -> Result<(), ProviderError> {
        Ok(())
    }
}

/// A pause between two attempts. Dropping it cancels the wait.
#[async_trait]
pub trait Pause: Send + Sync {
    /// Comes back after `how_long`.
    async fn pause(&self, how_long: Duration);
}

/// Returns an address as it may be shown: without query, fragment, and what stands before an `@`. Takes any
/// text, since addresses that cannot be parsed are shown as well.
pub fn without_secrets(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    match url.rsplit_once('@') {
        Some((before, host)) => {
            let scheme = before.split_once("://").map_or(String::new(), |(scheme, _)| format!("{scheme}://"));
            format!("{scheme}{host}")
        }
        None => url.to_owned(),
    }
}
