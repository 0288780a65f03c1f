//! The notation of the tests, logs that are written message by message, and services that answer by script.
//!
//! A letter per message: `s` system, `u` user, `n` a note by a harness, `k` a summary by another program,
//! `a` assistant, `t` assistant with calls, `r` result. Each costs 100 tokens, a capital 1,000. In expected
//! values, `[…]` has left the view and `r~` was shortened.

use std::collections::VecDeque;
use std::fmt::Display;
use std::sync::Mutex;

use async_trait::async_trait;
use futures::{FutureExt, stream};

use super::{
    Compact, CompactionReport, CompactionServices, CompactionSettings, CompactionStrategy, ContextCompactor,
    Fit, StrategyError,
};
pub(super) use crate::Characters;
use crate::*;

/// Builds the conversation that `notation` describes.
pub(super) fn conversation(notation: &str) -> Conversation {
    let mut log = Conversation::new();
    log.add_all(notation);
    log
}

/// Returns a call for each result before the next calling message, at least one; together they cost what the
/// letter says.
fn calls_of(letters: &[char], position: usize, size: usize) -> Vec<ToolCall> {
    let after = &letters[position + 1..];
    let until = after.iter().position(|letter| letter.eq_ignore_ascii_case(&'t')).unwrap_or(after.len());
    let n_calls = after[..until].iter().filter(|letter| letter.eq_ignore_ascii_case(&'r')).count().max(1);
    (0..n_calls).map(|n| call(n, ((size - 4) / n_calls).saturating_sub(7))).collect()
}

/// Ids repeat over the conversation on purpose: calls and results pair by position.
fn call(n: usize, n_chars: usize) -> ToolCall {
    ToolCall { id: format!("call_{n}"), ..tool_call("run", "x".repeat(n_chars)) }
}

/// Returns a call of `tool`. All have the same id.
pub(super) fn tool_call(tool: &str, arguments: impl Display) -> ToolCall {
    ToolCall { id: "c".to_owned(), name: ToolName::new(tool).unwrap(), arguments: arguments.to_string() }
}

/// Each appends to the log, and returns it for more.
impl Conversation {
    /// Appends a message.
    pub(crate) fn add(&mut self, message: Message) -> &mut Self {
        self.append(ContextMessage::count(message, &Characters));
        self
    }

    /// Appends the messages that `notation` describes.
    pub(crate) fn add_all(&mut self, notation: &str) -> &mut Self {
        let letters: Vec<char> = notation.chars().collect();
        let mut unanswered: Vec<VecDeque<ToolCall>> = Vec::new();
        for (position, letter) in letters.iter().enumerate() {
            let size = if letter.is_uppercase() { 1_000 } else { 100 };
            let text = format!("{position:<width$}", width = size - 4).replace(' ', ".");
            self.add(match letter.to_ascii_lowercase() {
                's' => Message::system(text),
                'u' => Message::user(text),
                'n' => Message::user(text).noted_by("harness"),
                'k' => Message::user(text).compacted(),
                'a' => Message::assistant(text),
                't' => {
                    let calls = calls_of(&letters, position, size);
                    unanswered.push(calls.clone().into());
                    Message::calling(calls)
                }
                'r' => {
                    let open = unanswered.iter_mut().rev().find_map(VecDeque::pop_front);
                    // Without a call before it, it answers one that was never made.
                    let call = open.unwrap_or_else(|| call(0, 0));
                    Message::tool(ToolResult::answer(&call, text))
                }
                other => panic!("`{other}` stands for no message"),
            });
        }
        self
    }

    /// Appends a message of the user.
    pub(crate) fn user(&mut self, text: impl Into<Content>) -> &mut Self {
        self.add(Message::user(text))
    }

    /// Appends a message of the agent.
    pub(crate) fn agent(&mut self, text: impl Into<Content>) -> &mut Self {
        self.add(Message::assistant(text))
    }

    /// Appends a call of `tool` and its result.
    pub(crate) fn call(
        &mut self,
        tool: &str,
        arguments: impl Display,
        result: impl Into<Content>,
    ) -> &mut Self {
        let call = tool_call(tool, arguments);
        let result = ToolResult::answer(&call, result);
        self.add(Message::calling(vec![call])).add(Message::tool(result))
    }

    /// Appends a call of `tool` that the agent announces in `words`, and its result.
    pub(crate) fn announced_call(
        &mut self,
        words: impl Into<Content>,
        tool: &str,
        arguments: impl Display,
        result: impl Into<Content>,
    ) -> &mut Self {
        let call = tool_call(tool, arguments);
        let result = ToolResult::answer(&call, result);
        self.add(Message::calling(vec![call]).with_content(words)).add(Message::tool(result))
    }

    /// Appends a call of `tool` that fails, and the reason.
    pub(crate) fn failed_call(
        &mut self,
        tool: &str,
        arguments: impl Display,
        why: impl Into<Content>,
    ) -> &mut Self {
        let call = tool_call(tool, arguments);
        let result = ToolResult::error(&call, why);
        self.add(Message::calling(vec![call])).add(Message::tool(result))
    }
}

/// Returns the texts that the model sees, a message each.
pub(super) fn texts(log: &Conversation) -> Vec<String> {
    log.view().plain().map(Message::to_text).collect()
}

/// Returns the texts that compactions wrote and that the model sees.
pub(super) fn written_texts(log: &Conversation) -> Vec<String> {
    log.view().plain().filter(|message| message.is_compacted).map(Message::to_text).collect()
}

/// Returns the state of the conversation, in the notation of the tests.
pub(super) fn picture(notation: &str, conversation: &Conversation) -> String {
    let view = conversation.view();
    let mut picture = String::new();
    let mut open = false;
    let live = conversation.live_entries();
    let replacements: Vec<&Replacement> = live.iter().flat_map(|entry| entry.replacements()).collect();
    for (letter, message) in notation.chars().zip(conversation.messages()) {
        let id = message.id().unwrap();
        let stays = view.messages().iter().any(|kept| kept.id() == Some(id));
        let shortened = replacements.iter().any(|replacement| {
            replacement.replaces.contains(&id)
                && replacement.with.iter().any(|with| {
                    !with.message().is_compacted
                        && with.message().with_content("") == message.message().with_content("")
                })
        });
        let gone = !stays && !shortened;
        if gone != open {
            picture.push(if gone { '[' } else { ']' });
            open = gone;
        }
        picture.push(letter);
        if shortened {
            picture.push('~');
        }
    }
    if open {
        picture.push(']');
    }
    picture
}

/// The goal, the latest request and the most tokens of a request for a summary.
type Shown = (Option<String>, Option<String>, u64);

/// Services that answer by script and remember what they were asked.
pub(super) struct Script {
    replies: Mutex<VecDeque<Result<String, ProviderError>>>,
    /// The reply when no other is left; if unset, an error that the recording ended.
    always: Option<String>,
    pub(super) asked: Mutex<Vec<Prompt>>,
    /// The parts of each request for a summary.
    pub(super) shown: Mutex<Vec<Shown>>,
    finish_reason: FinishReason,
    window: Tokens,
    usage: Option<Usage>,
}

impl Script {
    /// Creates a summarizer with a large window that gives these replies.
    pub(super) fn new(replies: Vec<Result<String, ProviderError>>) -> Self {
        Self {
            replies: Mutex::new(replies.into()),
            always: None,
            asked: Mutex::new(Vec::new()),
            shown: Mutex::new(Vec::new()),
            finish_reason: FinishReason::Stop,
            window: Tokens::new(1_000_000),
            usage: None,
        }
    }

    /// Creates a summarizer that always gives the same good summary, with some of the names that it was
    /// shown.
    pub(super) fn summarizing() -> Self {
        let summary = format!("thinking <forge_context_summary>{SUMMARY}</forge_context_summary>");
        Self { always: Some(summary), ..Self::new(Vec::new()) }
    }

    pub(super) fn finishing(self, finish_reason: FinishReason) -> Self {
        Self { finish_reason, ..self }
    }

    pub(super) fn with_window(self, window: u64) -> Self {
        Self { window: Tokens::new(window), ..self }
    }

    /// Sets the prompt tokens that each answered request consumes.
    pub(super) fn using(self, prompt_tokens: u64) -> Self {
        let usage = Usage { prompt_tokens: Tokens::new(prompt_tokens), ..Usage::default() };
        Self { usage: Some(usage), ..self }
    }

    pub(super) fn n_asked(&self) -> usize {
        self.asked.lock().unwrap().len()
    }
}

/// The text that the scripted summarizer writes.
pub(super) const SUMMARY: &str = "all went well";

#[async_trait]
impl ProviderService for Script {
    async fn chat(&self, prompt: Prompt) -> Result<ChatStream, ProviderError> {
        let text = prompt.messages().first().map(|message| message.message().to_text()).unwrap_or_default();
        self.asked.lock().unwrap().push(prompt);
        let left = || {
            let summary = self.always.as_ref().ok_or(ProviderError::RecordingEnded)?;
            let names = text.split_whitespace().filter(|word| word.contains('_') && !word.contains('<'));
            let told = names.take(2).fold(SUMMARY.to_owned(), |told, name| told + " with " + name);
            Ok(summary.replace(SUMMARY, &told))
        };
        let reply = self.replies.lock().unwrap().pop_front().unwrap_or_else(left)?;
        let piece = ChatCompletionMessage {
            content: Some(reply),
            finish_reason: Some(self.finish_reason.clone()),
            usage: self.usage,
            ..ChatCompletionMessage::default()
        };
        Ok(Box::pin(stream::iter([Ok(piece)])))
    }

    async fn models(&self, _: &ProviderId) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(Vec::new())
    }
}

impl SummaryTemplate for Script {
    fn render_summarization(
        &self,
        prompt: Option<&str>,
        summarization: &SummaryInput<'_>,
    ) -> Result<String, TemplateError> {
        let SummaryInput { goal, request, summary_max_tokens, .. } = summarization;
        let shown = (goal.map(str::to_owned), request.map(str::to_owned), *summary_max_tokens);
        self.shown.lock().unwrap().push(shown);
        let texts: Vec<String> = summarization
            .messages
            .iter()
            .map(|message| {
                let arguments: String = message.calls().iter().map(|call| call.arguments.as_str()).collect();
                message.content().map(Content::to_text).unwrap_or_default() + &arguments
            })
            .collect();
        let earlier = summarization.earlier_summary.unwrap_or("none");
        let focus = summarization.focus.map(|focus| format!(" focus: {focus}")).unwrap_or_default();
        Ok(format!("{} earlier: {earlier}{focus}\n{}", prompt.unwrap_or("shipped"), texts.join("\n")))
    }
}

impl CompactionServices for Script {
    fn templates(&self) -> &dyn SummaryTemplate {
        self
    }

    fn providers(&self) -> &dyn ProviderService {
        self
    }

    fn counter(&self) -> &dyn TokenCounter {
        &Characters
    }

    fn model(&self, id: &ModelId) -> Result<Model, ModelError> {
        let provider = ProviderId::new("scripted").unwrap();
        Ok(Model {
            reference: ModelRef { provider, model: id.clone() },
            limits: ModelLimits { window: self.window, max_output: None },
            window_source: WindowSource::Configured,
            price: None,
            abilities: Abilities::default(),
            request: RequestOptions::default(),
        })
    }
}

/// Returns a room of `tokens` besides the fixed cost of every request.
pub(super) fn budget(tokens: u64) -> Budget {
    let model = ModelRef { provider: ProviderId::new("p").unwrap(), model: ModelId::new("m").unwrap() };
    let limits = ModelLimits { window: Tokens::new(tokens) + REQUEST_TOKENS, max_output: None };
    Budget::new(limits, ChatOptions::new(model), Vec::new(), &Characters).without_reserve()
}

/// Returns the settings of a `compact:` block for a room of `tokens`.
pub(crate) fn settings(yaml: &str, tokens: u64) -> CompactionSettings {
    let compact: Compact = serde_saphyr::from_str(yaml).unwrap();
    compact.resolve(&budget(tokens)).unwrap()
}

/// Fits the conversation of `notation` into `room` tokens and records the result.
pub(super) fn fit(yaml: &str, room: u64, notation: &str, script: &Script) -> (String, CompactionReport) {
    let mut conversation = conversation(notation);
    let fit = fit_again(yaml, room, &mut conversation, script);
    (picture(notation, &conversation), fit.report)
}

/// Fits an existing conversation and records the result.
pub(super) fn fit_again(yaml: &str, room: u64, conversation: &mut Conversation, script: &Script) -> Fit {
    let budget = budget(room);
    let settings = settings(yaml, room);
    let fit = ContextCompactor::new()
        .fit(&settings, conversation.view(), &budget, script)
        .now_or_never()
        .expect("the script never waits");
    if let Ok(fitted) = &fit.result
        && let Some(compacted) = &fitted.compacted
    {
        conversation.record(compacted).unwrap();
        assert_eq!(conversation.view(), conversation.refold(), "the view is what the log gives");
    }
    assert!(conversation.coverage().is_complete(), "{:?}", conversation.coverage());
    fit
}

/// Applies one strategy, whatever the triggers, and records the result.
pub(super) fn apply(
    strategy: &dyn CompactionStrategy,
    yaml: &str,
    conversation: &mut Conversation,
    script: &Script,
) -> Result<(), StrategyError> {
    let rules = settings(yaml, 100_000).rules;
    let view = conversation.view();
    if strategy.is_applicable(&rules, &view) {
        let (after, _) =
            strategy.compact(&rules, view, script).now_or_never().expect("the script never waits")?;
        conversation.record(&after.numbered()).unwrap();
    }
    assert_eq!(conversation.view(), conversation.refold(), "the view is what the log gives");
    assert!(conversation.coverage().is_complete(), "{:?}", conversation.coverage());
    Ok(())
}
