//! A model that an agent asks: its limits and their origin, its price, and why it may have no provider.

use super::{ModelInfo, Price};
use crate::{ModelId, ModelLimits, ModelRef, ProviderId};

/// A model that an agent asks, resolved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    /// The model and who serves it.
    pub reference: ModelRef,
    /// The limits of the model.
    pub limits: ModelLimits,
    /// The origin of the window.
    pub window_source: WindowSource,
    /// The price of its tokens, if known.
    pub price: Option<Price>,
}

impl Model {
    /// Returns the model with what its server reports, for anything that is not known otherwise.
    #[must_use]
    pub fn informed_by(self, told: &ModelInfo) -> Self {
        let (window, window_source) = match (self.window_source, told.window) {
            (WindowSource::Assumed, Some(window)) => (window, WindowSource::Told),
            (source, _) => (self.limits.window, source),
        };
        let max_output = self.limits.max_output.or(told.max_output);
        let limits = ModelLimits { window, max_output };
        Self { limits, window_source, price: self.price.or(told.price), ..self }
    }
}

/// The origin of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WindowSource {
    /// It is configured, or in the table of models that is built in.
    Configured,
    /// The server reported it.
    Told,
    /// Nothing is known of the model; [`crate::ASSUMED_WINDOW`] is taken.
    Assumed,
}

/// A model reference that leads to no provider.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    /// No setting names the model's provider.
    #[error(
        "the model `{model}` has no provider: write `PROVIDER:{model}` with one of the providers \
         {providers}, \
         or `models: {{ {model}: {{ provider: NAME }} }}`"
    )]
    NoProvider {
        /// The model.
        model: ModelId,
        /// The declared providers, separated by commas.
        providers: String,
    },
    /// The provider that is named is not declared.
    #[error(
        "the model `{model}` needs the provider `{provider}`, which is not declared; declared: \
         {providers}"
    )]
    UndeclaredProvider {
        /// The model.
        model: ModelId,
        /// The provider that is named.
        provider: ProviderId,
        /// The declared providers, separated by commas.
        providers: String,
    },
}
