//! How a status, a body or a broken connection becomes a [`ProviderError`].

use std::error::Error;

use forge_domain::{ModelId, ProviderError};
use forge_wire::WireError;
use forge_wire::openai;
use reqwest::StatusCode;

use super::Key;

/// One request, as far as errors speak of it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    /// The address without query and credentials.
    pub(super) url: String,
    /// The model, where one was asked.
    pub(super) model: Option<ModelId>,
    /// Kept out of every error.
    pub(super) key: Key,
}

impl Asked {
    /// The server was not reached.
    pub(super) fn network(&self, source: reqwest::Error) -> ProviderError {
        // Its own words would repeat the address with the query.
        self.broken(source.without_url().into())
    }

    /// The stream of events broke.
    pub(super) fn stream(&self, error: sse_stream::Error) -> ProviderError {
        match error {
            sse_stream::Error::Body(source) => match source.downcast::<reqwest::Error>() {
                Ok(source) => self.interrupted(source.without_url().into()),
                Err(source) => self.interrupted(source),
            },
            error => ProviderError::Malformed { what: self.words(error.to_string()) },
        }
    }

    fn interrupted(&self, source: Box<dyn Error + Send + Sync>) -> ProviderError {
        ProviderError::Interrupted { url: self.url.clone(), source }
    }

    /// What was sent with a good status is not of the protocol, or says that it failed.
    pub(super) fn wire(&self, error: WireError) -> ProviderError {
        match error {
            WireError::Refused { message } => {
                ProviderError::Refused { status: StatusCode::OK.as_u16(), message: self.words(message) }
            }
            error => ProviderError::Malformed { what: self.words(error.to_string()) },
        }
    }

    /// The server answered with a status that is not good.
    pub(super) fn status(&self, status: StatusCode, body: &[u8]) -> ProviderError {
        // The words are cut when they are read, and half a key could not be found in them any more.
        let body = self.words(String::from_utf8_lossy(body).into_owned());
        let error = openai::read_error(body.as_bytes());
        let unknown = self.model.as_ref().filter(|model| {
            let named = error.message.contains(model.as_str());
            is_unknown_model(status, error.code.as_deref(), &error.message, named)
        });
        let (status, message) = (status.as_u16(), error.message);
        match (status, unknown) {
            (_, Some(model)) => ProviderError::UnknownModel { model: model.clone(), message },
            (401 | 403, None) => ProviderError::Auth { status, message },
            (404, None) => ProviderError::Refused {
                status,
                message: format!("{message} (nothing is at {}; is base_url right?)", self.url),
            },
            (_, None) => ProviderError::Refused { status, message },
        }
    }

    /// The server sends the caller to another address, where the key must not follow.
    pub(super) fn moved(&self, status: StatusCode, location: &str) -> ProviderError {
        let message = self.words(format!("{} has moved to {location}; change base_url", self.url));
        ProviderError::Refused { status: status.as_u16(), message }
    }

    /// The server answered with a page where a stream or JSON belongs.
    pub(super) fn page(&self) -> ProviderError {
        ProviderError::Malformed {
            what: format!("{} answered with a web page; is base_url right?", self.url),
        }
    }

    fn broken(&self, source: Box<dyn Error + Send + Sync>) -> ProviderError {
        ProviderError::Network { url: self.url.clone(), source }
    }

    /// A server's words without the key.
    pub(super) fn words(&self, text: String) -> String {
        self.key.hide_in(text)
    }
}

/// Whether a refusal means that the model is not there. Servers have no word in common for it; a bare 404 may as well
/// come from a wrong address.
fn is_unknown_model(status: StatusCode, code: Option<&str>, message: &str, names_the_model: bool) -> bool {
    const WORDS: [&str; 6] = [
        "not found",
        "does not exist",
        "not a valid model",
        "unknown model",
        "no such model",
        "no endpoints found",
    ];
    let message = message.to_lowercase();
    let says_unknown = WORDS.iter().any(|words| message.contains(words));
    match code {
        Some("model_not_found") => true,
        _ if status == StatusCode::NOT_FOUND => {
            names_the_model || (says_unknown && message.contains("model"))
        }
        _ => status == StatusCode::BAD_REQUEST && names_the_model && says_unknown,
    }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::super::Secret;
    use super::*;

    fn asked() -> Asked {
        Asked {
            url: "http://host/v1/chat/completions".into(),
            model: Some(ModelId::new("gpt-x").unwrap()),
            key: Key::Given(Secret::new("sk-123")),
        }
    }

    #[test]
    fn a_status_and_its_body_become_a_typed_error() {
        let openai = r#"{"error":{"message":"The model `gpt-x` does not exist","code":"model_not_found"}}"#;
        let no_access = r#"{"error":{"message":"Project has no access to it","code":"model_not_found"}}"#;
        let ollama = r#"{"error":{"message":"model \"gpt-x\" not found, try pulling it first"}}"#;
        let openrouter = r#"{"error":{"message":"gpt-x is not a valid model ID","code":400}}"#;
        let too_long =
            r#"{"error":{"message":"maximum context length is 10","code":"context_length_exceeded"}}"#;
        let echo = r#"{"error":{"message":"Incorrect API key provided: sk-123"}}"#;
        let late_echo = format!("{}sk-123 is wrong", "x".repeat(495));
        let late_echo_hidden =
            format!("the provider refused the key (status 403): {}(key …", "x".repeat(495));
        let file = r#"{"error":{"message":"file a.png not found"}}"#;
        for (status, body, expected) in [
            (404, openai, "the provider does not know the model `gpt-x`: The model `gpt-x` does not exist"),
            (403, no_access, "the provider does not know the model `gpt-x`: Project has no access to it"),
            (
                404,
                ollama,
                "the provider does not know the model `gpt-x`: model \"gpt-x\" not found, try pulling it first",
            ),
            (400, openrouter, "the provider does not know the model `gpt-x`: gpt-x is not a valid model ID"),
            (400, too_long, "the provider refused the request (status 400): maximum context length is 10"),
            (400, file, "the provider refused the request (status 400): file a.png not found"),
            (
                401,
                echo,
                "the provider refused the key (status 401): Incorrect API key provided: (key hidden)",
            ),
            (403, &late_echo, &late_echo_hidden),
            (
                404,
                "404 page not found",
                "the provider refused the request (status 404): 404 page not found \
                 (nothing is at http://host/v1/chat/completions; is base_url right?)",
            ),
        ] {
            let actual = asked().status(StatusCode::from_u16(status).unwrap(), body.as_bytes()).to_string();
            assert_eq!(actual, expected);
        }
    }
}
