//! A recorded session that answers as a provider and as tools, so that it can be replayed.

use std::sync::Arc;

use async_trait::async_trait;
use forge_domain::{
    Body, ChatCompletionMessage, ChatStream, Content, FinishReason, Message, ModelInfo, Prompt, Provider,
    ProviderError, Role, TokenCounter, Tokens, ToolCall, ToolCallPart, ToolDefinition, ToolName, ToolResult,
    ToolService, UnknownToolError, Usage, message_tokens,
};
use futures::stream;
use parking_lot::Mutex;

/// A model's recorded reply, and the results of the tools that it called.
#[derive(Clone, Debug, PartialEq)]
pub struct Exchange {
    /// The assistant message.
    pub reply: Message,
    /// The results of its calls, in any order.
    pub results: Vec<ToolResult>,
}

impl Exchange {
    /// Returns each assistant message of `messages` with the results that follow it.
    pub fn all_of(messages: &[Message]) -> Vec<Self> {
        let mut exchanges: Vec<Self> = Vec::new();
        for message in messages {
            match (&message.body, exchanges.last_mut()) {
                (Body::Tool(result), Some(exchange)) => exchange.results.push(result.clone()),
                _ if message.role() == Role::Assistant => {
                    exchanges.push(Self { reply: message.clone(), results: Vec::new() });
                }
                _ => {}
            }
        }
        exchanges
    }
}

/// A recorded session. Each chat call returns the next recorded reply, whatever was asked, and tool calls get
/// the results that were recorded with the last returned reply.
///
/// The usage it reports is counted: the prompt as it came in, the reply as it is. Parts that a stream cannot
/// carry (media in a reply, the provider's own keys) are counted with the reply and not streamed.
pub struct Playback {
    exchanges: Vec<Exchange>,
    counter: Arc<dyn TokenCounter>,
    /// The number of exchanges that were returned or skipped; the last of them is the current one.
    n_given: Mutex<usize>,
}

impl Playback {
    /// Creates a recording that returns `exchanges` in order and counts usage with `counter`.
    pub fn new(exchanges: Vec<Exchange>, counter: Arc<dyn TokenCounter>) -> Self {
        Self { exchanges, counter, n_given: Mutex::new(0) }
    }

    /// Moves past the next exchange without a chat call and returns it; `None` at the end. It serves calls
    /// that were refused before they were sent: the rest of the recording can still be replayed.
    pub fn skip(&self) -> Option<Exchange> {
        self.advance().cloned()
    }

    fn advance(&self) -> Option<&Exchange> {
        let mut n_given = self.n_given.lock();
        let exchange = self.exchanges.get(*n_given)?;
        *n_given += 1;
        Some(exchange)
    }

    fn current(&self) -> Option<&Exchange> {
        let n_given = *self.n_given.lock();
        self.exchanges.get(n_given.checked_sub(1)?)
    }
}

impl std::fmt::Debug for Playback {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Playback")
            .field("exchanges", &self.exchanges)
            .field("n_given", &self.n_given)
            .finish_non_exhaustive()
    }
}

#[async_trait]
impl Provider for Playback {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let reply = &self.advance().ok_or(ProviderError::RecordingEnded)?.reply;
        let usage = Usage {
            prompt_tokens: prompt.tokens(),
            completion_tokens: message_tokens(reply, &*self.counter),
            cached_tokens: Tokens::ZERO,
            cache_written_tokens: Tokens::ZERO,
            dropped_reasoning: 0,
        };
        Ok(Box::pin(stream::iter(pieces(reply, usage).into_iter().map(Ok))))
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(Vec::new())
    }
}

#[async_trait]
impl ToolService for Playback {
    /// Returns no definition: a recording has its tools' results, not their definitions.
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        match names.first() {
            None => Ok(Vec::new()),
            Some(name) => Err(UnknownToolError { name: name.clone(), known: "none, in a recording".into() }),
        }
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        self.current()
            .and_then(|exchange| exchange.results.iter().find(|result| result.call_id == call.id))
            .cloned()
            .unwrap_or_else(|| ToolResult::error(call, "the recording has no result for this call"))
    }
}

fn pieces(reply: &Message, usage: Usage) -> Vec<ChatCompletionMessage> {
    let text = reply.content().map(Content::to_text).filter(|text| !text.is_empty());
    let reasoning =
        reply.metadata.get("reasoning").and_then(|reasoning| reasoning.as_str()).map(str::to_owned);
    let calls: Vec<_> = reply.calls().iter().enumerate().map(whole_part).collect();
    let finish_reason = if calls.is_empty() { FinishReason::Stop } else { FinishReason::ToolCalls };
    let mut pieces = Vec::new();
    if reasoning.is_some() {
        pieces.push(ChatCompletionMessage { reasoning, ..Default::default() });
    }
    if text.is_some() {
        pieces.push(ChatCompletionMessage { content: text, ..Default::default() });
    }
    if !calls.is_empty() {
        pieces.push(ChatCompletionMessage { tool_calls: calls, ..Default::default() });
    }
    pieces.push(ChatCompletionMessage { finish_reason: Some(finish_reason), ..Default::default() });
    pieces.push(ChatCompletionMessage { usage: Some(usage), ..Default::default() });
    pieces
}

fn whole_part((index, call): (usize, &ToolCall)) -> ToolCallPart {
    ToolCallPart {
        index,
        id: Some(call.id.clone()),
        name: Some(call.name.to_string()),
        arguments: call.arguments.clone(),
    }
}

#[cfg(test)]
mod tests {
    use forge_domain::{
        Budget, ChatOptions, ContextMessage, Conversation, ModelId, ModelLimits, ModelRef, ProviderId, Reply,
        ReplyParts,
    };
    use futures::TryStreamExt;
    use pretty_assertions::assert_eq;
    use serde_json::json;

    use super::*;

    /// A counter of one token per character.
    struct Characters;
    impl TokenCounter for Characters {
        fn count(&self, text: &str) -> Tokens {
            Tokens::new(text.chars().count() as u64)
        }
    }

    fn prompt() -> Prompt {
        let model = ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new("m").unwrap() };
        let limits = ModelLimits { window: Tokens::new(1_000), max_output: None };
        let mut conversation = Conversation::new();
        conversation.append(ContextMessage::count(Message::user("hello"), &Characters));
        Budget::new(limits, ChatOptions::new(model), Vec::new(), &Characters)
            .admit(conversation.view())
            .unwrap()
    }

    fn call(id: &str, name: &str) -> ToolCall {
        ToolCall { id: id.into(), name: ToolName::new(name).unwrap(), arguments: r#"{"path":"a"}"#.into() }
    }

    fn exchange(reply: Message, results: Vec<ToolResult>) -> Exchange {
        Exchange { reply, results }
    }

    fn recording(exchanges: Vec<Exchange>) -> Playback {
        Playback::new(exchanges, Arc::new(Characters))
    }

    async fn ask(recording: &Playback) -> Result<Reply, ProviderError> {
        let mut parts = ReplyParts::default();
        let pieces: Vec<_> = recording.chat(prompt()).await?.try_collect().await?;
        pieces.into_iter().for_each(|piece| parts.push(piece));
        parts.finish()
    }

    #[tokio::test]
    async fn replies_come_as_recorded_with_counted_usage() {
        let mut reasoned = Message::assistant("hm");
        reasoned.metadata.insert("reasoning".into(), json!("because"));
        let calls = Message::calling(vec![call("1", "read"), call("2", "list")]);
        for (reply, completion_tokens, finish_reason) in [
            (Message::assistant("hi"), 6, FinishReason::Stop),
            (reasoned, 6, FinishReason::Stop),
            (calls, 4 + 2 * (4 + 4 + 12), FinishReason::ToolCalls),
        ] {
            let recording = recording(vec![exchange(reply.clone(), Vec::new())]);
            let actual = ask(&recording).await.unwrap();
            let usage = Usage {
                prompt_tokens: prompt().tokens(),
                completion_tokens: Tokens::new(completion_tokens),
                cached_tokens: Tokens::ZERO,
                cache_written_tokens: Tokens::ZERO,
                dropped_reasoning: 0,
            };
            let expected = Reply { message: reply, usage: Some(usage), finish_reason };
            assert_eq!(actual, expected);
        }
    }

    #[tokio::test]
    async fn calls_get_the_results_of_the_current_exchange() {
        // Providers use the same call id again in a later message.
        let (first, second) = (call("1", "read"), call("1", "list"));
        let recording = recording(vec![
            exchange(Message::calling(vec![first.clone()]), vec![ToolResult::answer(&first, "one")]),
            exchange(Message::calling(vec![second.clone()]), vec![ToolResult::answer(&second, "two")]),
            exchange(Message::assistant("done"), Vec::new()),
        ]);
        let none = |call| ToolResult::error(call, "the recording has no result for this call");

        assert_eq!(recording.call(&first).await, none(&first), "nothing was given yet");
        ask(&recording).await.unwrap();
        assert_eq!(recording.call(&first).await, ToolResult::answer(&first, "one"));
        assert_eq!(
            recording.skip().map(|skipped| skipped.reply),
            Some(Message::calling(vec![second.clone()]))
        );
        assert_eq!(recording.call(&second).await, ToolResult::answer(&second, "two"));
        ask(&recording).await.unwrap();
        assert_eq!(recording.call(&second).await, none(&second));
        assert_eq!(recording.skip(), None);
        assert!(matches!(ask(&recording).await, Err(ProviderError::RecordingEnded)));
    }

    #[test]
    fn a_recording_defines_no_tools() {
        let recording = recording(Vec::new());
        let read = ToolName::new("read").unwrap();
        assert_eq!(recording.definitions(&[]), Ok(Vec::new()));
        let actual = recording.definitions(std::slice::from_ref(&read)).unwrap_err().to_string();
        assert_eq!(actual, "there is no tool `read` (expected one of none, in a recording)");
    }
}
