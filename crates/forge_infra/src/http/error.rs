//! The conversion of a status, a body or a broken connection to a [`ProviderError`].

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use forge_domain::{AnswerLimit, ModelId, ProviderError};
use forge_wire::{HttpRefusal, WireError, provider_error, read_error};
use jiff::Timestamp;
use reqwest::StatusCode;
use reqwest::header::HeaderMap;

use super::limits::{Broken, silence_of};
use super::{CONNECT_TIMEOUT, LIST_TIMEOUT, Secret};

/// One request, as errors describe it.
#[derive(Clone, Debug)]
pub(crate) struct RequestContext {
    /// The address without query and credentials.
    pub(crate) url: String,
    /// The model, if the request was for one.
    pub(crate) model: Option<ModelId>,
    /// Secrets to keep out of everything that the server sends.
    pub(crate) secrets: Arc<[Secret]>,
    /// The longest time without content.
    pub(crate) silence: Duration,
}

impl RequestContext {
    /// Returns the error for a server that was not reached, or that gave no answer.
    pub(crate) fn network(&self, source: reqwest::Error) -> ProviderError {
        // The body could not be made: nothing was sent, and trying again is useless.
        if let Some(cause) = source.is_builder().then(|| source.source()).flatten() {
            return ProviderError::Unsendable { message: self.words(cause.to_string()) };
        }
        // It was reached, and then said nothing.
        if source.is_timeout() && !source.is_connect() {
            let is_list = self.model.is_none();
            return self.silent_for(if is_list { LIST_TIMEOUT } else { self.silence });
        }
        let is_reached = !source.is_connect();
        if source.is_timeout() {
            let why = format!("nothing answers there within {} s", CONNECT_TIMEOUT.as_secs());
            return ProviderError::Network { url: self.url.clone(), source: why.into() };
        }
        // Its own words would repeat the address with the query.
        let source: Box<dyn Error + Send + Sync> = source.without_url().into();
        if is_reached {
            return self.interruption(source);
        }
        let source: Box<dyn Error + Send + Sync> =
            if is_of_tunnel(&*source) { Box::new(ProxyError(source)) } else { source };
        ProviderError::Network { url: self.url.clone(), source }
    }

    /// Returns the error for a broken stream of events.
    pub(crate) fn stream(&self, error: sse_stream::Error) -> ProviderError {
        match error {
            sse_stream::Error::Body(source) => match source.downcast::<Broken>() {
                Ok(broken) => self.broke(*broken),
                Err(source) => self.interruption(source),
            },
            error => ProviderError::Malformed { what: self.words(error.to_string()) },
        }
    }

    /// Returns the error for a broken stream of lines.
    pub(crate) fn lines(&self, error: std::io::Error) -> ProviderError {
        match error.kind() {
            std::io::ErrorKind::InvalidData => {
                ProviderError::Malformed { what: self.words(error.to_string()) }
            }
            kind => {
                let Some(source) = error.into_inner() else {
                    return self.interruption(std::io::Error::from(kind).into());
                };
                match source.downcast::<Broken>() {
                    Ok(broken) => self.broke(*broken),
                    Err(source) => self.interruption(source),
                }
            }
        }
    }

    /// Returns the error for an answer that broke off or was stopped.
    pub(crate) fn broke(&self, broken: Broken) -> ProviderError {
        match broken {
            Broken::Connection(source) => self.interruption(source.without_url().into()),
            Broken::OverLimit(what) => self.over_limit(AnswerLimit::Size, what),
        }
    }

    /// Returns the error for an answer that was stopped at one of our limits.
    pub(crate) fn over_limit(&self, limit: AnswerLimit, what: String) -> ProviderError {
        ProviderError::OverLimit { url: self.url.clone(), what, limit }
    }

    /// Returns the error for an answer without content for longer than allowed.
    pub(crate) fn silent(&self) -> ProviderError {
        self.silent_for(self.silence)
    }

    fn silent_for(&self, time: Duration) -> ProviderError {
        self.over_limit(AnswerLimit::Time, silence_of(time))
    }

    fn interruption(&self, source: Box<dyn Error + Send + Sync>) -> ProviderError {
        ProviderError::Interrupted { url: self.url.clone(), source }
    }

    /// Returns the error for an answer with a good status that violates the protocol or reports a failure.
    /// `data` is what was read.
    pub(crate) fn wire(&self, error: WireError, data: &[u8]) -> ProviderError {
        match error {
            WireError::Refused { .. } => {
                let data = data.strip_prefix(b"data:").unwrap_or(data);
                self.refusal_error(StatusCode::OK, None, data)
            }
            WireError::Foreign { protocol } => {
                let name = protocol.name();
                let what = match protocol.kind() {
                    Some(kind) => format!("it answers in {name}; set `kind: {kind}` for this provider"),
                    None => format!("it answers in {name}, which is not known here; is base_url right?"),
                };
                ProviderError::WrongProtocol { url: self.url.clone(), what }
            }
            error => ProviderError::Malformed { what: self.words(error.to_string()) },
        }
    }

    /// Returns the error for an answer with a bad status.
    pub(crate) fn status(&self, status: StatusCode, headers: &HeaderMap, body: &[u8]) -> ProviderError {
        match self.refusal_error(status, wait_in(headers), body) {
            ProviderError::InvalidRequest { status, message } if refuses_tools(&message) => {
                let message = format!("{message} (use another model, or give the agent `tools: []`)");
                ProviderError::InvalidRequest { status, message }
            }
            ProviderError::InvalidRequest { status: 404, message } => {
                ProviderError::InvalidRequest { status: 404, message: self.absence(&message) }
            }
            error => error,
        }
    }

    /// Returns the server's words that nothing is at the address, with the most likely reason.
    fn absence(&self, message: &str) -> String {
        let path = self.url.split_once("://").and_then(|(_, rest)| rest.split_once('/'));
        let reason = match path.map(|(_, path)| path) {
            Some("chat/completions" | "responses" | "models") => {
                "most servers need `/v1` at the end of base_url"
            }
            _ => "are base_url and kind right?",
        };
        let absence = format!("nothing is at {}; {reason}", self.url);
        if message.trim().is_empty() { absence } else { format!("{message} ({absence})") }
    }

    /// Returns the error that `body` describes, without the secrets. They are hidden before the words are
    /// cut, as half a key could not be found any more, and again after JSON's escapes are resolved.
    fn refusal_error(&self, status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> ProviderError {
        let body = self.words(String::from_utf8_lossy(body).into_owned());
        let mut error = read_error(body.trim_start_matches('\u{feff}').trim().as_bytes());
        error.message = self.words(error.message);
        provider_error(self.refusal(status, retry_after), error)
    }

    fn refusal(&self, status: StatusCode, retry_after: Option<Duration>) -> HttpRefusal<'_> {
        HttpRefusal { status: status.as_u16(), retry_after, model: self.model.as_ref() }
    }

    /// Returns the error for a redirect to another address, to which the key must not be sent.
    pub(crate) fn redirect(&self, status: StatusCode, location: &str) -> ProviderError {
        let message = self.words(format!("{} has moved to {location}; change base_url", self.url));
        ProviderError::InvalidRequest { status: status.as_u16(), message }
    }

    /// Returns the error for a web page in place of a stream or JSON.
    pub(crate) fn page(&self) -> ProviderError {
        let what = "it answered with a web page; is base_url right?".to_owned();
        ProviderError::WrongProtocol { url: self.url.clone(), what }
    }

    /// Returns the error for an empty answer with a good status.
    pub(crate) fn nothing(&self) -> ProviderError {
        ProviderError::Malformed {
            what: format!("{} sent an empty answer; are base_url and kind right?", self.url),
        }
    }

    /// Returns a server's message without the key and the other secrets of our requests. Use it for errors
    /// only, as replies are data.
    pub(crate) fn words(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, secret| secret.hide_in(text))
    }
}

/// Returns how long the server's headers ask to wait: in milliseconds, in seconds, or until a date.
pub(crate) fn wait_in(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: &str| headers.get(name)?.to_str().ok().map(str::trim);
    let number = |name: &str| text(name)?.parse::<f64>().ok().filter(|number| number.is_finite());
    if let Some(milliseconds) = number("retry-after-ms") {
        return Duration::try_from_secs_f64(milliseconds / 1000.0).ok();
    }
    if let Some(seconds) = number("retry-after") {
        return Duration::try_from_secs_f64(seconds).ok();
    }
    let until = jiff::fmt::rfc2822::parse(text("retry-after")?).ok()?;
    Duration::try_from(until.timestamp().duration_since(Timestamp::now())).ok()
}

/// The error of a proxy on the way to a server, which the address of the server does not tell of.
#[derive(Debug, thiserror::Error)]
#[error("the proxy on the way (HTTPS_PROXY, ALL_PROXY or the system's settings) does not lead there")]
struct ProxyError(#[source] Box<dyn Error + Send + Sync>);

/// Checks whether a connection failed in the tunnel through a proxy. The error has no type of its own.
fn is_of_tunnel(error: &(dyn Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.to_string().starts_with("tunnel error") {
            return true;
        }
        cause = error.source();
    }
    false
}

/// Checks whether a server's words say that the model has no tools: those of Ollama, OpenRouter and Groq.
fn refuses_tools(message: &str) -> bool {
    ["does not support tools", "that support tool use", "`tool calling` is not supported"]
        .iter()
        .any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    fn context() -> RequestContext {
        RequestContext {
            url: "http://host/v1/chat/completions".into(),
            model: Some(ModelId::new("gpt-x").unwrap()),
            secrets: [Secret::new("sk-12345")].into(),
            silence: Duration::from_secs(600),
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
        let echo = r#"{"error":{"message":"Incorrect API key provided: sk-12345"}}"#;
        let late_echo = format!("{}sk-12345 is wrong", "x".repeat(495));
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
            (
                400,
                too_long,
                "the prompt is too long for the model (it takes 10 tokens): maximum context length is 10",
            ),
            (400, file, "the provider refused the request (status 400): file a.png not found"),
            (
                400,
                r#"{"error":{"message":"library/tiny does not support tools"}}"#,
                "the provider refused the request (status 400): library/tiny does not support tools \
                 (use another model, or give the agent `tools: []`)",
            ),
            (
                404,
                r#"{"error":{"message":"No endpoints found that support tool use."}}"#,
                "the provider refused the request (status 404): No endpoints found that support tool use. \
                 (use another model, or give the agent `tools: []`)",
            ),
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
                 (nothing is at http://host/v1/chat/completions; are base_url and kind right?)",
            ),
            (
                404,
                "",
                "the provider refused the request (status 404): \
                 nothing is at http://host/v1/chat/completions; are base_url and kind right?",
            ),
        ] {
            let actual = context()
                .status(StatusCode::from_u16(status).unwrap(), &HeaderMap::new(), body.as_bytes())
                .to_string();
            assert_eq!(actual, expected);
        }
    }

    #[test]
    fn a_failed_tunnel_is_that_of_a_proxy() {
        for (words, expected) in [("tunnel error: failed to connect", true), ("connection refused", false)] {
            let cause = std::io::Error::other(words);
            let error = ProviderError::Network { url: String::new(), source: cause.into() };
            assert_eq!(is_of_tunnel(&error), expected, "{words}");
        }
    }

    #[test]
    fn an_address_without_a_version_is_the_likely_reason_that_nothing_is_there() {
        for (url, expected) in [
            ("http://host:1/chat/completions", "most servers need `/v1` at the end of base_url"),
            ("http://host/models", "most servers need `/v1` at the end of base_url"),
            ("http://host/v1/models", "are base_url and kind right?"),
            ("http://host/api/chat", "are base_url and kind right?"),
        ] {
            let context = RequestContext { url: url.into(), ..context() };
            assert_eq!(context.absence(" "), format!("nothing is at {url}; {expected}"));
        }
    }

    #[test]
    fn waits_are_read_from_the_headers() {
        for (name, value, expected) in [
            ("retry-after", "2", Some(2.0)),
            ("retry-after", "0.5", Some(0.5)),
            ("retry-after-ms", "250", Some(0.25)),
            ("retry-after", "-1", None),
            ("retry-after", "soon", None),
            ("retry-after", "Wed, 21 Oct 2015 07:28:00 GMT", None),
        ] {
            let headers = HeaderMap::from_iter([(name.parse().unwrap(), value.parse().unwrap())]);
            assert_eq!(wait_in(&headers).map(|wait| wait.as_secs_f64()), expected, "{name}: {value}");
        }
        let far = HeaderMap::from_iter([(
            reqwest::header::RETRY_AFTER,
            "Fri, 31 Dec 2100 23:59:59 GMT".parse().unwrap(),
        )]);
        assert!(wait_in(&far).is_some_and(|wait| wait > Duration::from_secs(1_000_000)));
    }
}
