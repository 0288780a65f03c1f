//! Servers that speak Ollama's own protocol, which reports and accepts the context window.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{
    ChatCompletionMessage, ChatStream, ModelId, ModelInfo, Prompt, Provider, ProviderError, ProviderId,
    Tokens,
};
use forge_wire::Delivery;
use forge_wire::ollama::{self, ModelCard, OllamaReplyReader};
use futures::StreamExt;
use parking_lot::Mutex;
use serde_json::json;

use crate::http::{Connection, Framing, Key, KeyHeader, LIST_TIMEOUT, ProviderSetupError, Secret, reply};

/// The smallest window to fall back to on a server that lacks memory.
const LEAST_WINDOW: Tokens = Tokens::new(8_192);

/// A server that is called over HTTP in Ollama's protocol.
///
/// Ollama never reports that a prompt is too long: it drops the oldest messages. So each model's window is
/// queried once, each request names the wanted window, and the reported prompt tokens are checked. A prompt
/// that was cut is [`ProviderError::ContextTooLong`] with the window to which it was cut.
#[derive(Clone, Debug)]
pub struct OllamaProvider {
    connection: Connection,
    cards: Arc<Mutex<BTreeMap<ModelId, ModelCard>>>,
    /// The windows that fitted the server's memory after larger ones did not.
    fitting: Arc<Mutex<BTreeMap<ModelId, Tokens>>>,
    /// The most tokens that the server has read of a prompt.
    most_read: Arc<Mutex<BTreeMap<ModelId, Tokens>>>,
}

impl OllamaProvider {
    /// Creates the provider `id` at `base_url`, which is the part before `/api/chat`, such as
    /// `http://localhost:11434`. The address of its OpenAI-compatible API works as well. Nothing is sent yet.
    ///
    /// # Errors
    /// Fails with [`ProviderSetupError`] if no request could ever be sent. A missing key is reported by the
    /// first request.
    pub fn new(id: ProviderId, base_url: &str, key: Key) -> Result<Self, ProviderSetupError> {
        let mut connection = Connection::new(id, base_url, key, KeyHeader::Bearer)?;
        connection.endpoint = connection.endpoint.above("v1");
        Ok(Self { connection, cards: Arc::default(), fitting: Arc::default(), most_read: Arc::default() })
    }

    /// Adds headers to every request.
    ///
    /// # Errors
    /// Fails with [`ProviderSetupError::Header`] if one cannot be sent.
    pub fn with_headers<'a>(
        self,
        headers: impl IntoIterator<Item = (&'a str, &'a Secret)>,
    ) -> Result<Self, ProviderSetupError> {
        Ok(Self { connection: self.connection.with_headers(headers)?, ..self })
    }

    /// Returns the server's description of `model`, which is requested once. A server without one is no
    /// obstacle: the chat call will report any problem.
    async fn card(&self, model: &ModelId) -> ModelCard {
        let known = self.cards.lock().get(model).copied();
        if let Some(card) = known {
            return card;
        }
        let url = self.connection.endpoint.url_in("api", "show");
        let asked = self.connection.request_context(&url, Some(model));
        let request = self.connection.post(url, &json!({"model": model})).timeout(LIST_TIMEOUT);
        let card = match self.connection.body(request, &asked).await {
            Ok(body) => ollama::read_card(&body).unwrap_or_default(),
            Err(ProviderError::InvalidRequest { .. }) => ModelCard::default(),
            // It may tell the next time.
            Err(_) => return ModelCard::default(),
        };
        self.cards.lock().insert(model.clone(), card);
        card
    }
}

#[async_trait]
impl Provider for OllamaProvider {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let model = prompt.options().model.model.clone();
        let card = self.card(&model).await;
        let fitting = self.fitting.lock().get(&model).copied();
        // The configured window is requested unchanged; a server may still read less.
        let mut window = fitting.map_or(prompt.window(), |fitting| fitting.min(prompt.window()));
        let estimate = prompt.tokens();
        let url = self.connection.endpoint.url_in("api", "chat");
        let asked = self.connection.request_context(&url, Some(&model));
        let response = loop {
            let readable = readable_window(window, card);
            if estimate > readable {
                return Err(cut(estimate, readable));
            }
            let body = ollama::request(&prompt, window, Delivery::Stream);
            let request = self.connection.post(url.clone(), &body);
            drop(body);
            match self.connection.send(request, &asked).await {
                // The window is reserved as a whole when the model is loaded, so half of it takes half the
                // memory.
                Err(error) if lacks_memory(&error) && window > LEAST_WINDOW => {
                    let half = window.share(1, 2).max(LEAST_WINDOW);
                    tracing::warn!(target: "forge::chat", %model, "{error}; asking for a window of {half} instead of {window}");
                    window = half;
                    self.fitting.lock().insert(model.clone(), half);
                }
                answered => break answered?,
            }
        };
        drop(prompt);
        let window = readable_window(window, card);
        let mut reader = OllamaReplyReader::default();
        let pieces =
            reply(response, asked, Framing::Lines, ollama::read_answer, move |line| reader.read(line))
                .await?;
        let most_read = Arc::clone(&self.most_read);
        let checked = pieces.scan(false, move |is_cut, piece| {
            let piece = (!*is_cut).then(|| check_piece(piece, estimate, window, &model, &most_read));
            *is_cut |= matches!(&piece, Some(Err(_)));
            std::future::ready(piece)
        });
        Ok(checked.fuse().boxed())
    }

    fn check(&self) -> Result<(), ProviderError> {
        self.connection.check_key()
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        let url = self.connection.endpoint.url_in("api", "tags");
        let asked = self.connection.request_context(&url, None);
        let body = self.connection.body(self.connection.get(url), &asked).await?;
        let models = ollama::read_models(&body).map_err(|error| asked.wire(error, &body))?;
        let mut informed = Vec::with_capacity(models.len());
        for model in models {
            let card = self.card(&model.id).await;
            informed.push(ModelInfo { window: reported_window(card), ..model });
        }
        Ok(informed)
    }

    /// Returns the window that is requested if none is configured: the one of the model's file, else all that
    /// it has. If the server reports neither, it is unknown, which the user is told.
    async fn model_info(&self, id: &ModelId) -> Result<Option<ModelInfo>, ProviderError> {
        let window = reported_window(self.card(id).await);
        Ok(Some(ModelInfo { window, ..ModelInfo::new(id.clone()) }))
    }
}

/// Returns how much of a requested window the server reads: at most all that the model has.
fn readable_window(requested: Tokens, card: ModelCard) -> Tokens {
    card.context_length.map_or(requested, |length| length.min(requested))
}

/// Returns the window that the server reports.
fn reported_window(card: ModelCard) -> Option<Tokens> {
    Some(readable_window(card.num_ctx.or(card.context_length)?, card))
}

/// Checks whether the server refused because the requested window does not fit its memory.
fn lacks_memory(error: &ProviderError) -> bool {
    let ProviderError::Overloaded { message, .. } = error else { return false };
    let message = message.to_lowercase();
    message.contains("requires more system memory") || message.contains("out of memory")
}

/// Returns the piece, or an error if its usage shows that the prompt was cut. `most_read` has the most tokens
/// that the server has read of a prompt for each model, this one included afterwards.
fn check_piece(
    piece: Result<ChatCompletionMessage, ProviderError>,
    estimate: Tokens,
    window: Tokens,
    model: &ModelId,
    most_read: &Mutex<BTreeMap<ModelId, Tokens>>,
) -> Result<ChatCompletionMessage, ProviderError> {
    let piece = piece?;
    let Some(count) = piece.usage.map(|usage| usage.prompt_tokens) else { return Ok(piece) };
    let mut most_read = most_read.lock();
    let most_read = most_read.entry(model.clone()).or_default();
    if is_cut(count, estimate, window, *most_read) {
        let read = if count == half_of(window) { window } else { count };
        return Err(cut(estimate.max(read), read));
    }
    *most_read = count.max(*most_read);
    Ok(piece)
}

/// Checks whether a server that read `count` tokens of a prompt that was counted as `estimate` had cut it. It
/// fills its window to the last token, or keeps half of it in its newest versions. A window other than the
/// requested one is a multiple of 1,024, which a whole prompt hits once in a thousand times. It is clearly
/// smaller than the estimate, or was all that the server read of the largest prompt before, and the server
/// has never read more than that.
fn is_cut(count: Tokens, estimate: Tokens, window: Tokens, most_read: Tokens) -> bool {
    let is_round = count > Tokens::ZERO && count.as_u64().is_multiple_of(1_024);
    let is_smaller = count.share(5, 4) < estimate;
    let is_half = count == half_of(window);
    let is_again = count == most_read && count < estimate;
    count >= window || (is_half && is_smaller) || (is_round && (is_smaller || is_again) && count >= most_read)
}

/// Returns what Ollama's newest versions keep of a prompt that exceeds `window`.
fn half_of(window: Tokens) -> Tokens {
    window.share(1, 2) + Tokens::new(2)
}

fn cut(need: Tokens, window: Tokens) -> ProviderError {
    let message = format!("the server reads {window} tokens of a prompt and would silently drop the rest");
    ProviderError::ContextTooLong { need: Some(need), window: Some(window), message }
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_window_is_what_is_configured_or_told() {
        let card = |length: Option<u64>, set: Option<u64>| ModelCard {
            context_length: length.map(Tokens::new),
            num_ctx: set.map(Tokens::new),
        };
        for (configured, card, readable) in [
            (8_000, card(None, None), 8_000),
            (8_000, card(Some(4_096), Some(2_048)), 4_096),
            (8_000, card(Some(131_072), Some(2_048)), 8_000),
            // No figure means that nothing is configured.
            (128_000, card(Some(131_072), None), 128_000),
            (128_000, card(Some(131_072), Some(65_536)), 128_000),
        ] {
            assert_eq!(readable_window(Tokens::new(configured), card).as_u64(), readable, "{card:?}");
        }
        for (card, told) in [
            (card(Some(262_144), None), Some(262_144)),
            (card(Some(262_144), Some(65_536)), Some(65_536)),
            (card(Some(2_048), Some(65_536)), Some(2_048)),
            (card(None, Some(65_536)), Some(65_536)),
            (card(None, None), None),
        ] {
            assert_eq!(reported_window(card).map(Tokens::as_u64), told, "{card:?}");
        }
    }

    #[test]
    fn a_cut_prompt_is_known_by_its_count() {
        for (count, estimate, window, most_read, expected) in [
            (4096, 3900, 4096, 0, true),
            (4096, 3900, 4096, 9000, true),
            (4095, 3900, 4096, 0, false),
            (2048, 9000, 32_768, 0, true),
            (2048, 9000, 32_768, 2048, true),
            (2048, 2100, 32_768, 0, false),
            (2047, 9000, 32_768, 0, false),
            // The same as of the prompt before.
            (2048, 2100, 32_768, 2048, true),
            (2048, 2000, 32_768, 2048, false),
            (2047, 2100, 32_768, 2047, false),
            // Half of the window and two tokens.
            (16_386, 32_000, 32_768, 20_000, true),
            (16_386, 16_500, 32_768, 0, false),
            (16_385, 32_000, 32_768, 0, false),
            // The server has read more before, so its window cannot be that small.
            (2048, 9000, 32_768, 2049, false),
            // Nothing was evaluated again: all of it was in the cache of an older server.
            (0, 9000, 32_768, 0, false),
        ] {
            let [count, estimate, window, most_read] = [count, estimate, window, most_read].map(Tokens::new);
            let actual = is_cut(count, estimate, window, most_read);
            assert_eq!(actual, expected, "{count} of {estimate} in {window}, {most_read} before");
        }
    }
}
