//! The contract of a strategy: its services and its effect.

use async_trait::async_trait;
use serde::Serialize;

use super::Compact;
use crate::{
    Context, Message, Model, ModelError, ModelId, Percent, ProviderError, ProviderService, Size, StillOver,
    SummaryTemplate, TemplateError, TokenCounter, Tokens, Usage,
};

/// One way to make a context smaller. It decides first, in plain data, and then acts.
#[async_trait]
pub trait CompactionStrategy: Send + Sync {
    /// Returns its id: the word in YAML and in the log.
    fn id(&self) -> &str;

    /// Describes it in one sentence for people.
    fn description(&self) -> &str;

    /// Checks whether it can do anything at all for `context`.
    fn is_applicable(&self, compact: &Compact, context: &Context) -> bool;

    /// Makes `context` smaller. `compact` is resolved for this attempt: absolute limits, all defaults filled.
    ///
    /// # Errors
    /// [`StrategyError`] if it gives up; the compactor then tries the next one.
    async fn compact(
        &self,
        compact: &Compact,
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
        };
        Self { before, after, yielded, model_calls: 0, usage }
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
    /// The provider withheld the rest of the summary.
    #[error("the provider withheld the rest of the summary")]
    SummaryWithheld,
    /// The summary is longer than requested, by more than counters differ.
    #[error("the summary has {tokens} tokens, but at most {most} were requested")]
    SummaryOversized {
        /// Its tokens.
        tokens: Tokens,
        /// The number of tokens asked for.
        most: Tokens,
    },
    /// The summary is not in its tag.
    #[error("the summary is not inside <{tag}>")]
    SummaryUntagged {
        /// The requested tag.
        tag: String,
    },
    /// The summary is no smaller than what it would replace.
    #[error("the summary is not smaller than the messages it would replace")]
    SummaryInflated,
    /// A reason of a strategy that was registered from outside.
    #[error("{0}")]
    Other(#[source] Box<dyn std::error::Error + Send + Sync>),
}

/// Returns the text as it may be between `<tag>` and `</tag>`: tags of that name in it neither open nor close
/// anything.
pub(crate) fn within_tag(text: &str, tag: &str) -> String {
    text.replace(&format!("<{tag}>"), &format!("&lt;{tag}>"))
        .replace(&format!("</{tag}>"), &format!("&lt;/{tag}>"))
}

/// Shortens a text to its head and tail. `keep` is the number of its characters that stay; the rest is named
/// in between.
pub(crate) fn head_and_tail(text: &str, keep: usize) -> String {
    let n_chars = text.chars().count();
    if keep >= n_chars {
        return text.to_owned();
    }
    let head = keep - keep / 2;
    let cut_from = byte_of_char(text, head);
    let cut_to = byte_of_char(text, n_chars - keep / 2);
    let n_cut = n_chars - keep;
    format!("{}\n[... {n_cut} characters omitted ...]\n{}", &text[..cut_from], &text[cut_to..])
}

/// Returns the message with every text of more than `keep` characters in the arguments of its calls shortened
/// to head and tail, and the arguments still valid JSON; `None` if nothing in them is longer, or if they are
/// not JSON.
pub(crate) fn with_short_arguments(message: &Message, keep: usize) -> Option<Message> {
    let mut short = message.clone();
    let crate::Body::Assistant { calls, .. } = &mut short.body else { return None };
    let mut is_shorter = false;
    for call in calls {
        let Ok(mut arguments) = serde_json::from_str(&call.arguments) else { continue };
        if shorten_texts(&mut arguments, keep) {
            let arguments = arguments.to_string();
            if arguments.len() < call.arguments.len() {
                call.arguments = arguments;
                is_shorter = true;
            }
        }
    }
    is_shorter.then_some(short)
}

/// Shortens every longer text in `value`; whether there was one.
fn shorten_texts(value: &mut serde_json::Value, keep: usize) -> bool {
    use serde_json::Value;
    match value {
        Value::String(text) if text.chars().nth(keep).is_some() => {
            let short = if keep == 0 { SHORTEST.to_owned() } else { head_and_tail(text, keep) };
            let is_shorter = short.len() < text.len();
            if is_shorter {
                *text = short;
            }
            is_shorter
        }
        // All of them, not just the first that is longer.
        Value::Array(values) => {
            values.iter_mut().filter_map(|value| shorten_texts(value, keep).then_some(())).count() > 0
        }
        Value::Object(fields) => {
            fields.values_mut().filter_map(|value| shorten_texts(value, keep).then_some(())).count() > 0
        }
        _ => false,
    }
}

/// The text in place of one that was cut to the shortest.
pub(crate) const SHORTEST: &str = "[cut]";

fn byte_of_char(text: &str, n: usize) -> usize {
    text.char_indices().nth(n).map_or(text.len(), |(byte, _)| byte)
}

/// Returns every text of a message, with a word in place of each part that is not text.
pub(crate) fn readable_text(message: &Message) -> String {
    match message.content() {
        Some(crate::Content::Parts(parts)) => parts
            .iter()
            .map(|part| match part {
                crate::Part::Text(text) => text.as_str(),
                crate::Part::Media(_) => "[attachment left out]",
            })
            .collect::<Vec<_>>()
            .join("\n"),
        _ => message.to_text(),
    }
}
