//! Providers that speak OpenAI's chat protocol: OpenAI itself, and most servers that are not.

mod endpoint;
mod error;
mod key;

use std::time::Duration;

use async_trait::async_trait;
use forge_domain::{
    ChatCompletionMessage, ChatStream, FinishReason, ModelInfo, Prompt, Provider, ProviderError, ProviderId,
};
use forge_wire::openai::{self, Delivery, StreamEvent};
use futures::stream::{self, BoxStream, StreamExt};
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderValue, LOCATION};
use reqwest::{Client, RequestBuilder, Response, redirect};
use sse_stream::{Sse, SseByteStream};

pub use self::key::{Key, Secret};

use self::endpoint::Endpoint;
pub use self::endpoint::without_secrets;
use self::error::Asked;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest silence of a server. Generous: a local model says nothing while it reads a long prompt.
const READ_TIMEOUT: Duration = Duration::from_secs(600);
/// Longest wait for the list of models, which is no work.
const MODELS_TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes of a refusal that are read.
const MAX_REFUSAL: usize = 64 * 1_024;

/// A provider that is asked over HTTP in OpenAI's chat protocol.
#[derive(Clone, Debug)]
pub struct OpenAiProvider {
    id: ProviderId,
    endpoint: Endpoint,
    key: Key,
    client: Client,
}

/// Why a provider cannot be set up as it is configured.
#[derive(Debug, thiserror::Error)]
pub enum OpenAiSetupError {
    /// The base URL is none.
    #[error("provider `{provider}` has `{url}` as base_url, which is no http address")]
    BaseUrl {
        /// The provider.
        provider: ProviderId,
        /// The text that was given, without query and credentials.
        url: String,
        /// What is wrong with it.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The key has characters that no HTTP header can carry.
    #[error("provider `{provider}` has a key with characters that cannot be sent")]
    Key {
        /// The provider.
        provider: ProviderId,
    },
    /// No client can be made on this machine, such as for want of root certificates.
    #[error("provider `{provider}` cannot be asked from this machine")]
    Client {
        /// The provider.
        provider: ProviderId,
        /// What went wrong.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

impl OpenAiProvider {
    /// The provider `id` at `base_url`, which is the part before `/chat/completions`, such as
    /// `https://api.openai.com/v1`. Nothing is sent yet.
    ///
    /// # Errors
    /// [`OpenAiSetupError`] where the provider could never be asked. A missing key is told when it is asked.
    pub fn new(id: ProviderId, base_url: &str, key: Key) -> Result<Self, OpenAiSetupError> {
        let endpoint = Endpoint::parse(base_url).map_err(|source| OpenAiSetupError::BaseUrl {
            provider: id.clone(),
            url: without_secrets(base_url),
            source,
        })?;
        if let Key::Given(secret) = &key
            && bearer(secret).is_none()
        {
            return Err(OpenAiSetupError::Key { provider: id });
        }
        // A redirect would turn the POST into a GET, or take the prompt to where nobody wanted it.
        let builder = Client::builder()
            .user_agent(concat!("forge/", env!("CARGO_PKG_VERSION")))
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .redirect(redirect::Policy::none());
        let builder = if endpoint.is_loopback() { builder.no_proxy() } else { builder };
        match builder.build() {
            Ok(client) => Ok(Self { id, endpoint, key, client }),
            Err(source) => Err(OpenAiSetupError::Client { provider: id, source: source.into() }),
        }
    }

    /// Sends `request` with the key; an answer that is not good is an error.
    async fn send(&self, request: RequestBuilder, asked: &Asked) -> Result<Response, ProviderError> {
        let request = match &self.key {
            Key::None => request,
            Key::Given(secret) => match bearer(secret) {
                Some(bearer) => request.header(AUTHORIZATION, bearer),
                None => request,
            },
            Key::Missing { variable } => {
                let (provider, variable) = (self.id.clone(), variable.clone());
                return Err(ProviderError::MissingKey { provider, variable });
            }
        };
        let response = request.send().await.map_err(|error| asked.network(error))?;
        let status = response.status();
        if status.is_success() {
            return Ok(response);
        }
        if let Some(location) = response.headers().get(LOCATION)
            && status.is_redirection()
        {
            return Err(asked.moved(status, &String::from_utf8_lossy(location.as_bytes())));
        }
        Err(asked.status(status, &beginning(response).await))
    }
}

#[async_trait]
impl Provider for OpenAiProvider {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let url = self.endpoint.url("chat/completions");
        let asked = Asked {
            url: without_secrets(url.as_str()),
            model: Some(prompt.options().model.model.clone()),
            key: self.key.clone(),
        };
        let request = self.client.post(url).json(&openai::request(&prompt, Delivery::Stream));
        drop(prompt);
        let response = self.send(request, &asked).await?;
        match Kind::of(&response) {
            Kind::Events => Ok(pieces(SseByteStream::new(response.bytes_stream()).boxed(), asked)),
            Kind::Json => {
                let body = response.bytes().await.map_err(|error| asked.network(error))?;
                let body = asked.words(String::from_utf8_lossy(&body).into_owned());
                let answer = openai::read_answer(body.as_bytes()).map_err(|error| asked.wire(error))?;
                Ok(stream::iter([Ok(answer)]).boxed())
            }
            Kind::Page => Err(asked.page()),
        }
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        let url = self.endpoint.url("models");
        let url_shown = without_secrets(url.as_str());
        let asked = Asked { url: url_shown, model: None, key: self.key.clone() };
        let response = self.send(self.client.get(url).timeout(MODELS_TIMEOUT), &asked).await?;
        match Kind::of(&response) {
            Kind::Page => Err(asked.page()),
            Kind::Events | Kind::Json => {
                let body = response.bytes().await.map_err(|error| asked.network(error))?;
                openai::read_models(&body).map_err(|error| asked.wire(error))
            }
        }
    }
}

fn bearer(secret: &Secret) -> Option<HeaderValue> {
    let mut bearer = HeaderValue::from_str(&format!("Bearer {}", secret.expose())).ok()?;
    bearer.set_sensitive(true);
    Some(bearer)
}

/// What a server sends, by its content type.
enum Kind {
    /// A stream; also where the type is missing or odd.
    Events,
    /// The whole answer, from servers that cannot stream.
    Json,
    /// A page for people, from what is no such server.
    Page,
}

impl Kind {
    fn of(response: &Response) -> Self {
        let content_type = response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        match content_type.unwrap_or_default().to_ascii_lowercase() {
            kind if kind.starts_with("application/json") => Self::Json,
            kind if kind.starts_with("text/html") => Self::Page,
            _ => Self::Events,
        }
    }
}

/// The beginning of a refusal; what cannot be read of it is left out.
async fn beginning(mut response: Response) -> Vec<u8> {
    let mut body = Vec::new();
    while body.len() < MAX_REFUSAL
        && let Ok(Some(chunk)) = response.chunk().await
    {
        body.extend_from_slice(&chunk);
    }
    body
}

type Events = BoxStream<'static, Result<Sse, sse_stream::Error>>;

/// A reply on its way.
struct Incoming {
    events: Events,
    asked: Asked,
    progress: Progress,
}

/// How far a reply has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// More must come.
    Open,
    /// The model has stopped; the usage may still come.
    Stopped,
    /// Nothing more is read.
    Ended,
}

/// The pieces of a reply, up to its end or the first error.
fn pieces(events: Events, asked: Asked) -> ChatStream {
    let incoming = Incoming { events, asked, progress: Progress::Open };
    stream::unfold(incoming, |mut incoming| async {
        let piece = incoming.next().await?;
        Some((piece, incoming))
    })
    .fuse()
    .boxed()
}

impl Incoming {
    async fn next(&mut self) -> Option<Result<ChatCompletionMessage, ProviderError>> {
        while self.progress != Progress::Ended {
            let data = match self.events.next().await {
                Some(Ok(event)) => event.data.unwrap_or_default(),
                // A reply whose model has stopped is whole, however its connection ends.
                Some(Err(_)) | None if self.progress == Progress::Stopped => return None,
                Some(Err(error)) => return self.fail(self.asked.stream(error)),
                None => return self.fail(ProviderError::Truncated),
            };
            if data.trim().is_empty() {
                continue;
            }
            // Errors quote the beginning of what they read, and half a key could not be found in that any more.
            match openai::read_event(&self.asked.words(data)) {
                Ok(StreamEvent::Piece(piece)) => {
                    if piece.finish_reason.is_some() {
                        self.progress = Progress::Stopped;
                    }
                    return Some(Ok(piece));
                }
                Ok(StreamEvent::Done) => return self.end(),
                Err(error) => return self.fail(self.asked.wire(error)),
            }
        }
        None
    }

    /// The server says that it is done. Some never say why the model stopped; then it just did.
    fn end(&mut self) -> Option<Result<ChatCompletionMessage, ProviderError>> {
        let is_open = self.progress == Progress::Open;
        self.progress = Progress::Ended;
        let finish_reason = Some(FinishReason::Stop);
        is_open.then(|| Ok(ChatCompletionMessage { finish_reason, ..ChatCompletionMessage::default() }))
    }

    fn fail(&mut self, error: ProviderError) -> Option<Result<ChatCompletionMessage, ProviderError>> {
        self.progress = Progress::Ended;
        Some(Err(error))
    }
}
