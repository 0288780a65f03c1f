//! The common parts of all providers that are called over HTTP: address, key, errors, and streamed replies.

mod client;
mod endpoint;
mod error;
mod framing;
mod key;
mod limits;
mod reply;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use forge_domain::{ModelId, ProviderError, ProviderId, without_secrets};
use futures::TryStreamExt;
use reqwest::header::{ACCEPT_ENCODING, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION};
use reqwest::{Client, RequestBuilder, Response, Url};
use serde::Serialize;

pub use self::client::install_tls_provider;
pub use self::key::{Key, Secret};

pub(crate) use self::client::client_builder;
#[cfg(feature = "mcp")]
pub(crate) use self::client::same_server;
pub(crate) use self::endpoint::Endpoint;
pub(crate) use self::error::RequestContext;
pub(crate) use self::framing::Framing;
use self::limits::Broken;
pub(crate) use self::reply::reply;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for a cheap request: the list of models. A run waits for it before its first call, and
/// can do without it.
pub(crate) const LIST_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest wait for a server's count of a prompt, which is sent whole.
pub(crate) const COUNT_TIMEOUT: Duration = Duration::from_secs(30);

/// The reason why a provider cannot be set up as configured.
#[derive(Debug, thiserror::Error)]
pub enum ProviderSetupError {
    /// The base URL is invalid.
    #[error("provider `{provider}` has an invalid base_url '{url}'")]
    BaseUrl {
        /// The provider.
        provider: ProviderId,
        /// The given text, without query and credentials.
        url: String,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The key has characters that no HTTP header can carry.
    #[error("provider `{provider}` has a key with characters that cannot be sent")]
    Key {
        /// The provider.
        provider: ProviderId,
    },
    /// A header's name or value has characters that no HTTP header can carry.
    #[error("provider `{provider}` has a header `{header}` that cannot be sent")]
    Header {
        /// The provider.
        provider: ProviderId,
        /// The header's name.
        header: String,
    },
    /// No client can be created on this machine, for example without root certificates.
    #[error("provider `{provider}` cannot be called from this machine")]
    Client {
        /// The provider.
        provider: ProviderId,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// The header in which a protocol carries the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeyHeader {
    /// `authorization: Bearer KEY`.
    Bearer,
    /// `x-api-key: KEY`.
    ApiKey,
    /// `x-goog-api-key: KEY`.
    GoogApiKey,
}

/// One provider's address, headers and client.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    id: ProviderId,
    pub(crate) endpoint: Endpoint,
    key: Key,
    key_header: KeyHeader,
    headers: HeaderMap,
    secrets: Arc<[Secret]>,
    client: Client,
    /// The size of the last body, which the next one of a long conversation is likely to have: growing to it
    /// step by step would copy it several times.
    body_bytes: Arc<AtomicUsize>,
}

/// The bytes that a body may have more than the one before it without being copied.
const MORE_BODY_BYTES: usize = 16 * 1_024;

/// Headers whose values anyone may read: a version or a name must not vanish from server messages.
const OPEN_HEADERS: [&str; 10] = [
    "accept",
    "anthropic-beta",
    "anthropic-version",
    "content-type",
    "http-referer",
    "openai-organization",
    "openai-project",
    "referer",
    "user-agent",
    "x-title",
];

impl Connection {
    /// Sets up the provider `id` at `base_url`. Nothing is sent yet.
    pub(crate) fn new(
        id: ProviderId,
        base_url: &str,
        key: Key,
        key_header: KeyHeader,
    ) -> Result<Self, ProviderSetupError> {
        let endpoint = Endpoint::parse(base_url).map_err(|source| ProviderSetupError::BaseUrl {
            provider: id.clone(),
            url: without_secrets(base_url),
            source,
        })?;
        if let Key::Given(secret) = &key
            && key_value(key_header, secret).is_none()
        {
            return Err(ProviderSetupError::Key { provider: id });
        }
        let builder = client_builder()
            .user_agent(concat!("forge/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(longest_silence(&endpoint));
        let builder = if endpoint.is_loopback() { builder.no_proxy() } else { builder };
        match builder.build() {
            Ok(client) => {
                let given = match &key {
                    Key::Given(secret) => Some(secret.clone()),
                    Key::None | Key::Missing { .. } => None,
                };
                let secrets = given.into_iter().chain(endpoint.secrets()).collect();
                Ok(Self {
                    id,
                    endpoint,
                    key,
                    key_header,
                    headers: HeaderMap::new(),
                    secrets,
                    client,
                    body_bytes: Arc::default(),
                })
            }
            Err(source) => Err(ProviderSetupError::Client { provider: id, source: source.into() }),
        }
    }

    /// Adds headers to every request, which are kept out of `Debug`.
    pub(crate) fn with_headers<'a>(
        mut self,
        headers: impl IntoIterator<Item = (&'a str, &'a Secret)>,
    ) -> Result<Self, ProviderSetupError> {
        let mut secrets = self.secrets.to_vec();
        for (name, secret) in headers {
            let read = name.parse::<HeaderName>().ok().zip(HeaderValue::from_str(secret.expose()).ok());
            let Some((header, mut value)) = read else {
                return Err(ProviderSetupError::Header { provider: self.id, header: name.to_owned() });
            };
            value.set_sensitive(true);
            self.headers.insert(header, value);
            if !OPEN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
                secrets.push(secret.clone());
            }
        }
        self.secrets = secrets.into();
        Ok(self)
    }

    /// Returns the connection with `item` in the header `name`, whose value is a list.
    pub(crate) fn with_item(&self, name: &'static str, item: &'static str) -> Self {
        let known = self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let is_known = known.split(',').any(|known| known.trim() == item);
        let list = if known.is_empty() { item.to_owned() } else { format!("{known},{item}") };
        let mut connection = self.clone();
        if let Ok(value) = HeaderValue::from_str(&list)
            && !is_known
        {
            connection.headers.insert(name, value);
        }
        connection
    }

    /// Checks that the key is present, if one is needed.
    pub(crate) fn check_key(&self) -> Result<(), ProviderError> {
        match &self.key {
            Key::Missing { variable } => {
                let (provider, variable) = (self.id.clone(), variable.clone());
                Err(ProviderError::MissingKey { provider, variable })
            }
            Key::None | Key::Given(_) => Ok(()),
        }
    }

    /// Returns the description of a request to `url` for errors.
    pub(crate) fn request_context(&self, url: &Url, model: Option<&ModelId>) -> RequestContext {
        RequestContext {
            url: without_secrets(url.as_str()),
            model: model.cloned(),
            secrets: Arc::clone(&self.secrets),
            silence: longest_silence(&self.endpoint),
        }
    }

    /// Creates a POST request to `url` with `body` as JSON.
    pub(crate) fn post(&self, url: Url, body: &impl Serialize) -> RequestBuilder {
        let request = self.client.post(url);
        let mut json = Vec::with_capacity(self.body_bytes.load(Ordering::Relaxed) + MORE_BODY_BYTES);
        match serde_json::to_writer(&mut json, body) {
            Ok(()) => {
                self.body_bytes.store(json.len(), Ordering::Relaxed);
                request.header(CONTENT_TYPE, "application/json").body(json)
            }
            // The request then holds the error.
            Err(_) => request.json(body),
        }
    }

    /// Creates a GET request to `url`.
    pub(crate) fn get(&self, url: Url) -> RequestBuilder {
        self.client.get(url).timeout(LIST_TIMEOUT)
    }

    /// Sends `request` with the key and the headers; an answer with a bad status is an error.
    pub(crate) async fn send(
        &self,
        request: RequestBuilder,
        asked: &RequestContext,
    ) -> Result<Response, ProviderError> {
        self.check_key()?;
        let request = match &self.key {
            Key::None | Key::Missing { .. } => request,
            Key::Given(secret) => match (self.key_header, key_value(self.key_header, secret)) {
                (KeyHeader::Bearer, Some(value)) => request.header(reqwest::header::AUTHORIZATION, value),
                (KeyHeader::ApiKey, Some(value)) => request.header("x-api-key", value),
                (KeyHeader::GoogApiKey, Some(value)) => request.header("x-goog-api-key", value),
                (_, None) => request,
            },
        };
        // A compressed answer is read anyway, but compressing a stream delays its events.
        let request = request.header(ACCEPT_ENCODING, "identity").headers(self.headers.clone());
        let response = request.send().await.map_err(|error| asked.network(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if let Some(location) = response.headers().get(LOCATION)
            && status.is_redirection()
        {
            return Err(asked.redirect(status, &String::from_utf8_lossy(location.as_bytes())));
        }
        let headers = response.headers().clone();
        Err(asked.status(status, &headers, &beginning(response).await))
    }

    /// Sends `request`, and returns the body of an answer that is not a web page.
    pub(crate) async fn body(
        &self,
        request: RequestBuilder,
        asked: &RequestContext,
    ) -> Result<Vec<u8>, ProviderError> {
        let response = self.send(request, asked).await?;
        match Kind::of(&response) {
            Kind::Page => Err(asked.page()),
            Kind::Events | Kind::Json => {
                let bytes = response.bytes_stream().map_ok(Vec::from).map_err(Broken::Connection);
                limits::whole(bytes).await.map_err(|broken| match broken {
                    Broken::Connection(error) => asked.network(error),
                    broken => asked.broke(broken),
                })
            }
        }
    }
}

/// Fetches the text at `url`, within the limits of a list of models.
///
/// # Errors
/// Fails with [`ProviderError`] if no server answers, or not with text: a bad status, a web page, not UTF-8.
pub async fn fetch_text(url: &str) -> Result<String, ProviderError> {
    let unusable = |message: String| ProviderError::Unsendable { message };
    let id = ProviderId::new("models").map_err(|error| unusable(error.to_string()))?;
    let connection = Connection::new(id, url, Key::None, KeyHeader::Bearer)
        .map_err(|error| unusable(error.to_string()))?;
    let address = Url::parse(url).map_err(|error| unusable(error.to_string()))?;
    let asked = connection.request_context(&address, None);
    let body = connection.body(connection.get(address), &asked).await?;
    String::from_utf8(body).map_err(|_| ProviderError::Malformed { what: "it is not UTF-8 text".to_owned() })
}

/// Returns the longest time for which the server at `endpoint` may be silent.
fn longest_silence(endpoint: &Endpoint) -> Duration {
    if endpoint.is_loopback() { limits::LOCAL_SILENCE } else { limits::SILENCE }
}

fn key_value(header: KeyHeader, secret: &Secret) -> Option<HeaderValue> {
    let text = match header {
        KeyHeader::Bearer => format!("Bearer {}", secret.expose()),
        KeyHeader::ApiKey | KeyHeader::GoogApiKey => secret.expose().to_owned(),
    };
    let mut value = HeaderValue::from_str(&text).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// The kind of an answer, by its content type.
pub(crate) enum Kind {
    /// A stream; also if the type is missing or unknown.
    Events,
    /// The whole answer, from servers that cannot stream.
    Json,
    /// A web page, from something that is not a model server.
    Page,
}

impl Kind {
    pub(crate) fn of(response: &Response) -> Self {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match content_type.unwrap_or_default().to_ascii_lowercase() {
            kind if kind.starts_with("application/json") => Self::Json,
            kind if kind.starts_with("text/html") => Self::Page,
            _ => Self::Events,
        }
    }
}

/// Reads the beginning of a refusal; what cannot be read of it, or comes too late, is left out.
async fn beginning(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    let reading = async {
        while body.len() < limits::REFUSAL_BYTES
            && let Ok(Some(chunk)) = response.chunk().await
        {
            body.extend_from_slice(&chunk);
        }
    };
    // The status alone is enough to continue.
    let _ = tokio::time::timeout(limits::REFUSAL_TIME, reading).await;
    body.truncate(limits::REFUSAL_BYTES);
    body
}
