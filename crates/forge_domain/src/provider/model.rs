//! A model that an agent asks: its limits and their origin, its price, and why it may have no provider.

use super::{ModelInfo, Price};
use crate::{Effort, ModelId, ModelLimits, ModelRef, ProviderId, ProviderKind, Reasoning, RequestOptions};

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
    /// The abilities of the model, as far as they are known.
    pub abilities: Abilities,
    /// The options that its requests have unless an agent sets others.
    pub request: RequestOptions,
}

/// The abilities of a model; `None` is unknown.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Abilities {
    /// The efforts that it has.
    pub efforts: Option<Vec<Effort>>,
    /// True if it accepts a number of thinking tokens.
    pub thinking_budget: Option<bool>,
    /// True if it accepts `temperature` and `top_p`.
    pub sampling: Option<bool>,
    /// True if it can call tools.
    pub tools: Option<bool>,
    /// True if it reads images.
    pub images: Option<bool>,
}

/// A setting of `reasoning` that a model does not have.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedReasoning {
    /// The model does not have this effort.
    #[error("the model `{model}` has no effort `{effort}`: {}", has(known))]
    Effort {
        /// The model.
        model: ModelRef,
        /// The effort.
        effort: Effort,
        /// The efforts of the model.
        known: Vec<Effort>,
    },
    /// It accepts no number of tokens.
    #[error("the model `{model}` accepts no `budget_tokens`: set `effort` instead")]
    Budget {
        /// The model.
        model: ModelRef,
    },
}

fn has(known: &[Effort]) -> String {
    let names: Vec<_> = known.iter().map(|effort| effort.as_str()).collect();
    if names.is_empty() { "none can be set".to_owned() } else { format!("it has {}", names.join(", ")) }
}

fn words(kinds: &[ProviderKind]) -> String {
    kinds.iter().map(|kind| format!("`{kind}`")).collect::<Vec<_>>().join(" and ")
}

impl Model {
    /// Checks that the model has what `reasoning` asks for, as far as that is known.
    ///
    /// # Errors
    /// [`UnsupportedReasoning`] if it does not.
    pub fn check_reasoning(&self, reasoning: Reasoning) -> Result<(), UnsupportedReasoning> {
        let model = || self.reference.clone();
        if let (Some(effort), Some(known)) = (reasoning.effort, &self.abilities.efforts)
            && !known.contains(&effort)
        {
            return Err(UnsupportedReasoning::Effort { model: model(), effort, known: known.clone() });
        }
        if reasoning.budget_tokens.is_some() && self.abilities.thinking_budget == Some(false) {
            return Err(UnsupportedReasoning::Budget { model: model() });
        }
        Ok(())
    }

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
    #[error("{}", no_provider(model, providers))]
    NoProvider {
        /// The model.
        model: ModelId,
        /// The declared providers, separated by commas.
        providers: String,
    },
    /// The model is known, and the provider that an unprefixed name is for does not serve it.
    #[error(
        "the model `{model}` is not served by `{provider}`: write `PROVIDER:{model}`, or `models: {{ {model}: \
         {{ provider: NAME }} }}`, with a provider that serves it"
    )]
    NotServed {
        /// The model.
        model: ModelId,
        /// The provider that would be asked.
        provider: ProviderId,
    },
    /// The model is unknown, its provider is only assumed, and another one serves models of that name.
    #[error(
        "`{model}` is no known model, and would be asked of `{provider}`: did you mean `{meant}`? \
         `{provider}:{model}` asks `{provider}` in any case"
    )]
    ShortName {
        /// The model.
        model: ModelId,
        /// The provider that would be asked.
        provider: ProviderId,
        /// The newest model of that name.
        meant: ModelId,
    },
    /// The model is not served in the protocol that its provider is configured with.
    #[error(
        "the model `{model}` cannot be reached by `{spoken}`: its provider serves it by {} only; set \
         `providers: {{ {}: {{ kind: {} }} }}`",
        words(served),
        model.provider,
        served.first().unwrap_or(spoken)
    )]
    Unreachable {
        /// The model.
        model: ModelRef,
        /// The protocol that is configured.
        spoken: ProviderKind,
        /// The protocols in which the model is served.
        served: Vec<ProviderKind>,
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

/// Returns the message about a model without a provider: what is before its colon is taken for one.
fn no_provider(model: &ModelId, providers: &str) -> String {
    match model.as_str().split_once(':') {
        Some((named, rest)) if !named.is_empty() && !rest.is_empty() => format!(
            "there is no provider `{named}` for `{model}` (expected one of {providers}); if the model's own name is \
             `{model}`, write `PROVIDER:{model}`"
        ),
        Some((named, _)) if !named.is_empty() => {
            format!("`{model}` names no model: write the model's name after `{named}:`")
        }
        _ => format!(
            "the model `{model}` has no provider: write `PROVIDER:{model}` with one of the providers {providers}, or \
             `models: {{ {model}: {{ provider: NAME }} }}`"
        ),
    }
}
