//! The conversion of errors of the crate `genai` to [`ProviderError`].

use std::sync::Arc;

use forge_domain::{ModelId, ProviderError, ProviderId};
use forge_wire::{Refusal, provider_error, read_error};
use genai::{Error, webc};
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use crate::Secret;
use crate::http::wait_in;

/// One request, as errors describe it.
#[derive(Clone)]
pub(super) struct Asked {
    pub(super) provider: ProviderId,
    pub(super) model: ModelId,
    /// Secrets to keep out of every error.
    pub(super) secrets: Arc<[Secret]>,
}

impl Asked {
    /// Converts an error of the crate. If a server refused, the status and the body decide, which the crate
    /// hides at several depths.
    pub(super) fn error(&self, error: Error) -> ProviderError {
        match error {
            Error::HttpError { status, body, headers, .. } => self.refused(status, &headers, &body),
            Error::WebModelCall { webc_error, .. } | Error::WebAdapterCall { webc_error, .. } => {
                self.web(webc_error)
            }
            Error::ChatResponse { body, .. } => {
                self.refused(StatusCode::OK, &HeaderMap::new(), &body.to_string())
            }
            Error::WebStream { error, cause, .. } => match error.downcast::<Error>() {
                Ok(inner) => self.error(*inner),
                Err(source) => match source.downcast::<webc::Error>() {
                    Ok(inner) => self.web(*inner),
                    Err(source) => self.broke(source, &cause),
                },
            },
            Error::RequiresApiKey { .. } | Error::NoAuthData { .. } | Error::NoAuthResolver { .. } => {
                self.keyless(&error.to_string())
            }
            Error::Resolver { ref resolver_error, .. } => self.keyless(&resolver_error.to_string()),
            Error::StreamParse { serde_error, .. } => {
                ProviderError::Malformed { what: self.words(serde_error.to_string()) }
            }
            error => ProviderError::Malformed { what: self.words(error.to_string()) },
        }
    }

    fn web(&self, error: webc::Error) -> ProviderError {
        match error {
            webc::Error::ResponseFailedStatus { status, body, headers } => {
                self.refused(status, &headers, &body)
            }
            webc::Error::Reqwest(source) => {
                let url = format!("provider `{}`", self.provider);
                ProviderError::Network { url, source: source.without_url().into() }
            }
            error => ProviderError::Malformed { what: self.words(error.to_string()) },
        }
    }

    fn refused(&self, status: StatusCode, headers: &HeaderMap, body: &str) -> ProviderError {
        let refusal =
            Refusal { status: status.as_u16(), retry_after: wait_in(headers), model: Some(&self.model) };
        provider_error(refusal, read_error(self.words(body.to_owned()).as_bytes()))
    }

    fn broke(&self, source: Box<dyn std::error::Error + Send + Sync>, cause: &str) -> ProviderError {
        match source.downcast::<reqwest::Error>() {
            Ok(source) => {
                let url = format!("provider `{}`", self.provider);
                ProviderError::Interrupted { url, source: source.without_url().into() }
            }
            Err(_) => ProviderError::Malformed { what: self.words(cause.to_owned()) },
        }
    }

    fn keyless(&self, words: &str) -> ProviderError {
        let what = format!(
            "provider `{}`, model `{}`: {}; set `api_key_env` for it",
            self.provider,
            self.model,
            self.words(words.to_owned())
        );
        ProviderError::Unusable { what }
    }

    fn words(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, secret| secret.hide_in(text))
    }
}
