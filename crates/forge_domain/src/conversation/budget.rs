//! The room that a model leaves for a context, and the proof that a context fits it.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::{
    Context, ContextMessage, Frame, Message, ModelId, ProviderId, ReasoningCheck, RequestOptions, Role,
    Scale, TokenCounter, Tokens, ToolChoice, ToolDefinition, ViewMark, tools_tokens,
};

/// The window that is assumed for a model of which nothing is known.
pub const ASSUMED_WINDOW: Tokens = Tokens::new(128_000);
/// The assumed output reserve if neither the agent nor the model sets one.
const ASSUMED_RESERVE: Tokens = Tokens::new(4_096);

/// The limits of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelLimits {
    /// Tokens of prompt and answer together.
    pub window: Tokens,
    /// Most tokens of one reply, if known.
    pub max_output: Option<Tokens>,
}

/// A model and who serves it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ModelRef {
    /// The provider, by its name in the workflow.
    pub provider: ProviderId,
    /// The model, by the name that the provider knows.
    pub model: ModelId,
}

impl fmt::Display for ModelRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.provider, self.model)
    }
}

/// The options with which a model is asked.
#[derive(Clone, Debug, PartialEq)]
pub struct ChatOptions {
    /// Which model.
    pub model: ModelRef,
    /// Sampling temperature. Unset: the provider's own.
    pub temperature: Option<f64>,
    /// Nucleus sampling. Unset: the provider's own.
    pub top_p: Option<f64>,
    /// Most tokens of the reply. Unset: the provider's own.
    pub max_output_tokens: Option<Tokens>,
    /// The other options, which not every provider has.
    pub request: RequestOptions,
    /// A name that all calls of a run share, by which a provider can find its cache of their prompts.
    pub cache_key: Option<String>,
    /// True if the caller can continue without a reply, as compaction can: a failing server is not waited for
    /// as long.
    pub is_dispensable: bool,
}

impl ChatOptions {
    /// Asks `model` with everything else left to the provider.
    pub fn new(model: ModelRef) -> Self {
        Self {
            model,
            temperature: None,
            top_p: None,
            max_output_tokens: None,
            request: RequestOptions::default(),
            cache_key: None,
            is_dispensable: false,
        }
    }
}

/// The room: window − output reserve − tool schemas. Holds all that a prompt needs besides its messages.
#[derive(Clone, Debug, PartialEq)]
pub struct Budget {
    options: ChatOptions,
    tools: Arc<[ToolDefinition]>,
    frame: Arc<Frame>,
    window: Tokens,
    reserve: Tokens,
    tools_tokens: Tokens,
    /// Tokens of the window that our counts must leave free: the provider counts more than we do, or counted
    /// a prompt as longer than we did.
    withheld: Tokens,
}

impl Budget {
    /// Creates the budget of a call. The reserve is the options' `max_output_tokens` and the thinking, else
    /// the model's `max_output`, and at most a quarter of the window; if neither is known, the smaller of
    /// 4,096 and a quarter. The model is asked for a reply of at most the smaller of the two figures, and of
    /// the reserve.
    pub fn new(
        limits: ModelLimits,
        options: ChatOptions,
        tools: Vec<ToolDefinition>,
        counter: &dyn TokenCounter,
    ) -> Self {
        // A model refuses a request for a longer reply than it can give.
        let of_model = limits.max_output.filter(|most| *most > Tokens::ZERO);
        // Providers count the thinking as a part of the reply.
        let thinking = options.request.reasoning.thinking_tokens().unwrap_or_default();
        let of_agent = options.max_output_tokens.map(|tokens| tokens + thinking);
        let most = of_agent.into_iter().chain(of_model).min();
        let wanted = of_agent.or(limits.max_output).unwrap_or(ASSUMED_RESERVE + thinking);
        let reserve = wanted.min(limits.window.share(1, 4));
        let tools_tokens = tools_tokens(&tools, counter);
        // No more may be requested than is kept free: prompt and reply share the window.
        let check = ReasoningCheck::of(&options.model.model);
        let options = ChatOptions { max_output_tokens: most.map(|most| most.min(reserve)), ..options };
        Self {
            frame: Arc::new(Frame::new(&options.model.to_string(), check, &tools)),
            options,
            tools: tools.into(),
            window: limits.window,
            reserve,
            tools_tokens,
            withheld: Tokens::ZERO,
        }
    }

    /// Returns the budget without an output reserve: the whole window, less the tools, is the room.
    #[must_use]
    pub fn without_reserve(self) -> Self {
        Self { reserve: Tokens::ZERO, ..self }
    }

    /// Returns the budget for a provider that counts by `scale`. If it counts more than we do, the room is
    /// smaller by our counts. If it counts less, the room stays: a prompt then exceeds it neither by its
    /// count nor by ours. A surplus does not reduce the room: it belongs to a prompt that was sent, and may
    /// be a server's invention.
    #[must_use]
    pub fn measured(&self, scale: Scale) -> Self {
        let usable = self.window - self.reserve;
        let withheld = (usable - scale.lasting().ours(usable)).max(self.withheld);
        Self { withheld, ..self.clone() }
    }

    /// Returns the budget for prompts of at most `tokens`, tool schemas included. The window stays the same,
    /// since the provider may be told of it.
    #[must_use]
    pub fn narrow(self, tokens: Tokens) -> Self {
        let withheld = self.window.saturating_sub(self.reserve).saturating_sub(tokens).max(self.withheld);
        Self { withheld, ..self }
    }

    /// Returns the tokens that a context may have, by our counts.
    pub const fn room(&self) -> Tokens {
        let usable = self.window.saturating_sub(self.reserve);
        usable.saturating_sub(self.withheld).saturating_sub(self.tools_tokens)
    }

    /// Returns the model's window.
    pub const fn window(&self) -> Tokens {
        self.window
    }

    /// Returns the tokens kept free for the reply.
    pub const fn reserve(&self) -> Tokens {
        self.reserve
    }

    /// Returns the tools that the model may call.
    pub fn tools(&self) -> &[ToolDefinition] {
        &self.tools
    }

    /// Returns the tokens of the tool schemas.
    pub const fn tools_tokens(&self) -> Tokens {
        self.tools_tokens
    }

    /// Returns the options with which the model will be asked.
    pub const fn options(&self) -> &ChatOptions {
        &self.options
    }

    /// Returns the frame of its prompts: the part of a view that stands before the messages.
    pub const fn frame(&self) -> &Arc<Frame> {
        &self.frame
    }

    /// Proves that `context` fits and makes it a prompt. Reasoning is sent only in the view in which it was
    /// made ([`Context::within`]).
    ///
    /// # Errors
    /// [`StillOver`] if it has more tokens than the room; nothing was sent.
    pub fn admit(&self, context: Context) -> Result<Prompt, StillOver> {
        let context = context.within(&self.frame);
        let need = context.size().tokens;
        if need > self.room() {
            let because = vec![Term { part: PromptPart::Context, tokens: need }];
            return Err(StillOver { need, have: self.room(), because });
        }
        Ok(Prompt {
            options: self.options.clone(),
            tools: Arc::clone(&self.tools),
            tokens: need + self.tools_tokens,
            window: self.window,
            reserve: self.reserve,
            frame: Arc::clone(&self.frame),
            context: context.without_silent(),
        })
    }
}

/// A context proven to fit its budget. Only [`Budget::admit`] makes one, and only a prompt reaches a
/// provider.
#[derive(Clone, Debug, PartialEq)]
pub struct Prompt {
    options: ChatOptions,
    tools: Arc<[ToolDefinition]>,
    context: Context,
    tokens: Tokens,
    window: Tokens,
    reserve: Tokens,
    frame: Arc<Frame>,
}

impl Prompt {
    /// Returns the options with which the model is asked.
    pub const fn options(&self) -> &ChatOptions {
        &self.options
    }

    /// Returns the tools that it may or must call, if that is set. A forced call holds until a result has
    /// answered it: a model that must always call something never ends its turn.
    pub fn tool_choice(&self) -> Option<&ToolChoice> {
        let choice = self.options.request.tool_choice.as_ref().filter(|_| !self.tools.is_empty())?;
        let is_begun = self.messages().last().is_some_and(|last| last.role() == Role::Tool);
        (!is_begun || !choice.is_forced()).then_some(choice)
    }

    /// Returns the tools that it may call.
    pub fn tools(&self) -> &[ToolDefinition] {
        &self.tools
    }

    /// Returns the messages in order.
    pub fn messages(&self) -> &[ContextMessage] {
        self.context.messages()
    }

    /// Returns the view in which its reply is made.
    pub fn view(&self) -> View {
        View { mark: self.frame.mark(self.messages()), frame: Arc::clone(&self.frame) }
    }

    /// Returns the model and tools, which stand before the messages.
    pub(crate) fn frame(&self) -> &Frame {
        &self.frame
    }

    /// Returns the tokens that it was proven for: messages and tool schemas.
    pub const fn tokens(&self) -> Tokens {
        self.tokens
    }

    /// Returns the window that the model is believed to have; servers that need it are told.
    pub const fn window(&self) -> Tokens {
        self.window
    }

    /// Returns the most tokens of the reply, for protocols that demand a figure: the option if it is set,
    /// else what the budget keeps free, and at least one.
    pub fn answer_tokens(&self) -> Tokens {
        self.options.max_output_tokens.unwrap_or(self.reserve).max(Tokens::new(1))
    }
}

/// The view in which a reply is made: all that its prompt sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct View {
    mark: ViewMark,
    frame: Arc<Frame>,
}

impl View {
    /// Returns `reply` marked as made in this view, if it has reasoning that is bound to it.
    #[must_use]
    pub fn bind(&self, reply: Message, counter: &dyn TokenCounter) -> Message {
        self.frame.bind(self.mark, reply, counter)
    }
}

/// A part of what a prompt must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum PromptPart {
    /// The whole current context.
    Context,
    /// The fixed cost of every request.
    Request,
    /// The leading system messages.
    SystemMessages,
    /// The first user message.
    FirstUserMessage,
    /// The marker that opens the conversation in place of omitted messages.
    OmissionMarker,
    /// The latest user message, cut to the shortest.
    LatestUserMessage,
    /// The calls of the last group, with the shortest results.
    LastGroup,
    /// The pinned text.
    Pins,
    /// The tool schemas.
    Tools,
    /// The room kept for the answer.
    OutputReserve,
    /// The room for a summary.
    Summary,
    /// The least room for the work itself.
    Work,
}

impl fmt::Display for PromptPart {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Context => "the context",
            Self::Request => "the request itself",
            Self::SystemMessages => "system messages",
            Self::FirstUserMessage => "the first user message",
            Self::OmissionMarker => "the omission marker",
            Self::LatestUserMessage => "the latest user message, cut to the shortest",
            Self::LastGroup => "the last message and its calls, results cut to the shortest",
            Self::Pins => "pinned text",
            Self::Tools => "tool schemas",
            Self::OutputReserve => "the reserve for the answer",
            Self::Summary => "a summary",
            Self::Work => "the work itself",
        })
    }
}

/// One term of a sum that does not fit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Term {
    /// The part of the prompt.
    pub part: PromptPart,
    /// The number of tokens.
    pub tokens: Tokens,
}

/// A context that cannot be made to fit; nothing was sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("the context needs {need} tokens, but only {have} are available: {}", sum_of(because))]
pub struct StillOver {
    /// Tokens it needs at the least.
    pub need: Tokens,
    /// Tokens there are.
    pub have: Tokens,
    /// The terms of what it needs.
    pub because: Vec<Term>,
}

fn sum_of(terms: &[Term]) -> String {
    terms.iter().map(|term| format!("{} {}", term.part, term.tokens)).collect::<Vec<_>>().join(" + ")
}
