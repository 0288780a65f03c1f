//! The contract of a strategy: its services and its effect.

use async_trait::async_trait;
use serde::Serialize;

use super::{CompactionRules, SummaryTemplate};
use crate::{
    Context, ContextMessage, MessageId, Model, ModelError, ModelId, Percent, ProviderError, ProviderService,
    Size, StillOver, TemplateError, TokenCounter, Tokens, Usage,
};

/// One way to make a context smaller. It decides first, in plain data, and then acts.
#[async_trait]
pub trait CompactionStrategy: Send + Sync {
    /// Returns its id: the word in YAML and in the log.
    fn id(&self) -> &str;

    /// Describes it in one sentence for people.
    fn description(&self) -> &str;

    /// Checks whether it can do anything at all for `context`.
    fn is_applicable(&self, rules: &CompactionRules, context: &Context) -> bool;

    /// Checks whether it works only with a model that writes summaries.
    fn asks_model(&self) -> bool {
        false
    }

    /// Checks whether a focus changes what it preserves.
    fn heeds_focus(&self) -> bool {
        false
    }

    /// Makes `context` smaller by `rules`, with [`Context::edit`]. What stays is unchanged and in order. What
    /// takes the place of messages that left is marked as [`compacted`](crate::Message::compacted) and no
    /// system message; a message that only becomes shorter is a [`crate::Edit::Shorten`]. A result that
    /// breaks one of the compactor's rules is a failed attempt, and is not used.
    ///
    /// # Errors
    /// [`StrategyError`] if it gives up; the compactor then tries the next one.
    async fn compact(
        &self,
        rules: &CompactionRules,
        context: Context,
        services: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError>;
}

/// The services that strategies may use.
pub trait CompactionServices: Send + Sync {
    /// Returns the renderer of texts for models.
    fn templates(&self) -> &dyn SummaryTemplate;

    /// Asks models.
    fn providers(&self) -> &dyn ProviderService;

    /// Counts tokens.
    fn counter(&self) -> &dyn TokenCounter;

    /// Returns the limits and the provider of the model named `id`.
    ///
    /// # Errors
    /// [`ModelError`] if no provider serves it.
    fn model(&self, id: &ModelId) -> Result<Model, ModelError>;

    /// Returns the message as it was appended to the log, whatever earlier steps made of it in the view;
    /// `None` if it is not known.
    fn original(&self, id: MessageId) -> Option<ContextMessage> {
        let _ = id;
        None
    }
}

/// The effect of a strategy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CompactionImpact {
    /// The context before.
    pub before: Size,
    /// The context after.
    pub after: Size,
    /// The things that had to yield, in order; empty if nothing protected was touched.
    pub yielded: Vec<Yield>,
    /// The parts that the strategy gave up, each with the reason, for people.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub given_up: Vec<String>,
    /// Requests sent to models; the compactor meters them itself.
    pub model_calls: usize,
    /// The usage of these requests; metered as well.
    pub usage: Usage,
}

impl CompactionImpact {
    /// Creates the impact of a step that asked no model.
    pub const fn new(before: Size, after: Size, yielded: Vec<Yield>) -> Self {
        let usage = Usage {
            prompt_tokens: Tokens::ZERO,
            completion_tokens: Tokens::ZERO,
            cached_tokens: Tokens::ZERO,
            cache_written_tokens: Tokens::ZERO,
            dropped_reasoning: 0,
        };
        Self { before, after, yielded, given_up: Vec::new(), model_calls: 0, usage }
    }

    /// Checks whether it saved at least `share` of the messages or of the tokens.
    pub fn is_significant(&self, share: Percent) -> bool {
        let messages = self.before.messages.saturating_sub(self.after.messages) as u64;
        let tokens = self.before.tokens.saturating_sub(self.after.tokens);
        share.reached_by(messages, self.before.messages as u64)
            || share.reached_by(tokens.as_u64(), self.before.tokens.as_u64())
    }

    /// Combines the impact of this step and a later one.
    #[must_use]
    pub fn then(mut self, later: Self) -> Self {
        for what in later.yielded {
            if !self.yielded.contains(&what) {
                self.yielded.push(what);
            }
        }
        self.given_up.extend(later.given_up);
        self.usage += later.usage;
        Self { after: later.after, model_calls: self.model_calls + later.model_calls, ..self }
    }
}

/// A protected thing that had to be given up, in the order of giving up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Yield {
    /// The age of the retention window: messages of it left, down to the last group.
    RetentionAge,
    /// The size of what is in the retention window: results and texts were shortened.
    RetentionSize,
    /// The text of the latest user message: it was shortened.
    LatestUserText,
    /// System messages in mid-conversation: they left.
    SystemMessages,
    /// Pinned messages: they left, or their pinned lines were cut.
    Pins,
    /// The arguments of the newest calls: long values in them were shortened.
    CallArguments,
    /// The user's words between the first and the latest message: they left. What else stays takes all of
    /// the target.
    UserMessages,
    /// The text of the first user message: it was shortened. The last resort, if the room cannot hold it
    /// otherwise.
    FirstUserText,
}

/// The reasons why a strategy gave up.
#[derive(Debug, thiserror::Error)]
pub enum StrategyError {
    /// No model is set, or no provider serves it.
    #[error("no summarizer: {0}")]
    NoSummarizer(#[source] ModelError),
    /// The request could not be rendered.
    #[error("the request for a summary cannot be rendered: {0}")]
    Template(#[source] TemplateError),
    /// The summarizer gave no answer.
    #[error("the summarizer failed: {0}")]
    Provider(#[source] ProviderError),
    /// Not even one group fits into the summarizer's window.
    #[error("the request for a summary does not fit the summarizer: {0}")]
    SummarizerWindow(#[source] StillOver),
    /// The summary is empty.
    #[error("the summary is empty")]
    SummaryEmpty,
    /// The summary broke off at the limit of the output.
    #[error("the summary was cut off at its limit")]
    SummaryTruncated,
    /// The summary says the same again and again.
    #[error("the summary only repeats itself")]
    SummaryRepeats,
    /// The summary says nothing of what it should sum up: a refusal, or a question.
    #[error("the summary says nothing of the messages that it should sum up")]
    SummaryUnrelated,
    /// The provider withheld the rest of the summary.
    #[error("the provider withheld the rest of the summary")]
    SummaryWithheld,
    /// The summary is no smaller than what it would replace.
    #[error("the summary is not smaller than the messages it would replace")]
    SummaryInflated,
    /// A reason of a strategy that was registered from outside.
    #[error("{0}")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}

impl StrategyError {
    /// Returns the error and its causes in one line. A cause that the text has already is not repeated.
    pub(crate) fn with_causes(&self) -> String {
        let mut text = self.to_string();
        let mut next = std::error::Error::source(self);
        while let Some(error) = next {
            let cause = error.to_string();
            if !text.contains(&cause) {
                text = format!("{text}: {cause}");
            }
            next = error.source();
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn each_cause_is_named_once() {
        let source = Box::new(io::Error::other("the host is unknown"));
        let network = ProviderError::Network { url: "http://x".to_owned(), source };
        for (error, expected) in [
            (
                StrategyError::Provider(network),
                "the summarizer failed: cannot reach http://x: the host is unknown",
            ),
            (StrategyError::Other("out of order".into()), "out of order"),
            (StrategyError::SummaryEmpty, "the summary is empty"),
        ] {
            assert_eq!(error.with_causes(), expected);
        }
    }
}
