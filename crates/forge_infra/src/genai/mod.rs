//! Providers of the long tail, each with its own protocol, through the crate `genai`: Gemini, Bedrock,
//! Cohere, Vertex and others. The names of the models choose the protocol.

mod error;
mod wire;

use async_trait::async_trait;
use forge_domain::{
    ChatCompletionMessage, ChatStream, FinishReason, ModelInfo, Prompt, Provider, ProviderError, ProviderId,
    without_secrets,
};
use futures::StreamExt;
use genai::chat::{ChatOptions, ChatStreamEvent};
use genai::resolver::{AuthData, Endpoint};
use genai::{Client, ServiceTarget};

use crate::http::{Endpoint as Address, client_builder};
use crate::{Key, ProviderSetupError, Secret};

/// A provider that is called through the crate `genai`. The crate normalises replies, which loses what is
/// specific to a provider: for the protocols of OpenAI, Anthropic and Ollama there are adapters of our own.
pub struct GenaiProvider {
    id: ProviderId,
    client: Client,
    key: Key,
    headers: Vec<(String, Secret)>,
    /// The key, the headers' values and the secrets in the address; they are kept out of server messages.
    secrets: Vec<Secret>,
}

impl GenaiProvider {
    /// Creates the provider `id`. The model's name selects the protocol: as it is (`gemini-2.5-flash`,
    /// `command-r-plus`) or by a prefix (`cohere::command-r-plus`, `vertex::gemini-2.5-pro`). Without a
    /// `base_url`, requests go to the usual address of that protocol; without a key, the one in its usual
    /// environment variable is sent. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails with [`ProviderSetupError`] if no request could ever be sent. A missing key is reported by the
    /// first request.
    pub fn new(id: ProviderId, base_url: Option<&str>, key: Key) -> Result<Self, ProviderSetupError> {
        let mut secrets = match base_url.map(|url| (url, Address::parse(url))) {
            None => Vec::new(),
            Some((_, Ok(address))) => address.secrets(),
            Some((url, Err(source))) => {
                return Err(ProviderSetupError::BaseUrl { provider: id, url: without_secrets(url), source });
            }
        };
        if let Key::Given(secret) = &key {
            secrets.push(secret.clone());
        }
        // Addresses of theirs end with a slash, and what follows is appended as it is.
        let base_url = base_url.map(|url| format!("{}/", url.trim().trim_end_matches('/')));
        let given = key.clone();
        let target = move |target: ServiceTarget| -> Result<ServiceTarget, genai::resolver::Error> {
            let endpoint = base_url.clone().map_or(target.endpoint, Endpoint::from_owned);
            let auth = match &given {
                Key::Given(secret) => AuthData::from_single(secret.expose()),
                Key::None | Key::Missing { .. } => target.auth,
            };
            Ok(ServiceTarget { endpoint, auth, ..target })
        };
        let web = match client_builder().build() {
            Ok(web) => web,
            Err(error) => return Err(ProviderSetupError::Client { provider: id, source: error.into() }),
        };
        match Client::builder().with_reqwest(web).with_service_target_resolver_fn(target).build() {
            Ok(client) => Ok(Self { id, client, key, headers: Vec::new(), secrets }),
            Err(error) => Err(ProviderSetupError::Client { provider: id, source: error.into() }),
        }
    }

    /// Adds headers to every request.
    #[must_use]
    pub fn with_headers<'a>(mut self, headers: impl IntoIterator<Item = (&'a str, &'a Secret)>) -> Self {
        for (name, value) in headers {
            self.headers.push((name.to_owned(), value.clone()));
            self.secrets.push(value.clone());
        }
        self
    }
}

#[async_trait]
impl Provider for GenaiProvider {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        self.check()?;
        let model = prompt.options().model.model.clone();
        let headers: Vec<_> =
            self.headers.iter().map(|(name, value)| (name.as_str(), value.expose())).collect();
        let options = options(&prompt).with_extra_headers(headers);
        let request = wire::request(&prompt);
        drop(prompt);
        let secrets = self.secrets.clone().into();
        let asked = error::GenaiRequest { provider: self.id.clone(), model: model.clone(), secrets };
        let answer = self.client.exec_chat_stream(model.as_str(), request, Some(&options)).await;
        let events = answer.map_err(|error| asked.error(error))?.stream;
        // The crate's streams continue after an error, and end silently if the connection ended.
        let pieces = events.scan(Progress::Open, move |progress, event| {
            let piece = if *progress == Progress::Ended { None } else { Some(piece(event, &asked)) };
            if matches!(&piece, Some(Err(_) | Ok(ChatCompletionMessage { finish_reason: Some(_), .. }))) {
                *progress = Progress::Ended;
            }
            std::future::ready(piece)
        });
        Ok(pieces.fuse().boxed())
    }

    fn check(&self) -> Result<(), ProviderError> {
        match &self.key {
            Key::Missing { variable } => {
                let (provider, variable) = (self.id.clone(), variable.clone());
                Err(ProviderError::MissingKey { provider, variable })
            }
            Key::None | Key::Given(_) => Ok(()),
        }
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        let what = format!(
            "provider `{}` is of kind genai, whose models are those of many providers: none are listed",
            self.id
        );
        Err(ProviderError::Unusable { what })
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Open,
    Ended,
}

fn options(prompt: &Prompt) -> ChatOptions {
    let asked = prompt.options();
    let mut options = ChatOptions::default()
        .with_capture_usage(true)
        .with_capture_content(true)
        .with_capture_tool_calls(true)
        .with_capture_reasoning_content(true);
    if let Some(temperature) = asked.temperature {
        options = options.with_temperature(temperature);
    }
    if let Some(top_p) = asked.top_p {
        options = options.with_top_p(top_p);
    }
    if let Some(limit) = asked.max_output_tokens {
        options = options.with_max_tokens(u32::try_from(limit.as_u64()).unwrap_or(u32::MAX));
    }
    options
}

/// Converts an event to a piece of a reply. Calls are passed on at the end, when they are complete. Only the
/// end has a finish reason, so a stream without it is an interrupted reply.
fn piece(
    event: genai::Result<ChatStreamEvent>,
    asked: &error::GenaiRequest,
) -> Result<ChatCompletionMessage, ProviderError> {
    let some = |text: String| (!text.is_empty()).then_some(text);
    let none = ChatCompletionMessage::default();
    Ok(match event.map_err(|error| asked.error(error))? {
        ChatStreamEvent::Chunk(chunk) => ChatCompletionMessage { content: some(chunk.content), ..none },
        ChatStreamEvent::ReasoningChunk(chunk) => {
            ChatCompletionMessage { reasoning: some(chunk.content), ..none }
        }
        ChatStreamEvent::End(end) => {
            let tool_calls = wire::calls(&end);
            // The crate ends a stream that its server did not: then there is no reason.
            let stopped = end.captured_stop_reason.as_ref().map(wire::finish_reason);
            ChatCompletionMessage {
                finish_reason: stopped.map(|stopped| match stopped {
                    FinishReason::Stop if !tool_calls.is_empty() => FinishReason::ToolCalls,
                    stopped => stopped,
                }),
                usage: end.captured_usage.as_ref().and_then(wire::usage),
                metadata: wire::kept_metadata(&end),
                tool_calls,
                ..none
            }
        }
        ChatStreamEvent::Start
        | ChatStreamEvent::ThoughtSignatureChunk(_)
        | ChatStreamEvent::ToolCallChunk(_)
        | ChatStreamEvent::Heartbeat => none,
    })
}
