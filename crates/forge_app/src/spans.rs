//! The spans of a run, with the names that OpenTelemetry has for agents, and what is recorded in them. They
//! hold no messages, arguments, results or keys.

use std::pin::Pin;
use std::task::{Context as Waker, Poll};

use forge_domain::compaction::{CompactionReport, Outcome};
use forge_domain::{
    AgentId, ChatCompletionMessage, ChatStream, CheckpointInfo, FinishReason, HookAnswer, HookError,
    HookPoint, ModelRef, Prompt, ProviderError, RunId, Size, StoreError, StrategyId, Tokens, ToolCall,
    ToolResult, Usage,
};
use futures::Stream;
use tracing::field::{Empty, display};
use tracing::{Instrument, Span};

use crate::{RunError, RunReport};

/// The status of a span that OpenTelemetry counts as failed.
const FAILED: &str = "error";

/// Creates the span of an agent's turn in this process.
pub(crate) fn agent_span(agent: &AgentId, model: Option<&ModelRef>, run: Option<&RunId>) -> Span {
    tracing::info_span!(
        target: "forge::agent",
        "invoke_agent",
        otel.name = format!("invoke_agent {agent}"),
        otel.kind = "internal",
        otel.status_code = Empty,
        gen_ai.operation.name = "invoke_agent",
        gen_ai.agent.name = agent.without_lane(),
        gen_ai.provider.name = model.map(|model| model.provider.as_str()),
        gen_ai.request.model = model.map(|model| model.model.as_str()),
        gen_ai.conversation.id = run.map(RunId::as_str),
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        error.type = Empty,
        forge.lane = agent.as_str(),
        forge.iterations = Empty,
        forge.stop = Empty,
    )
}

/// Records the result of a turn.
pub(crate) fn record_turn(span: &Span, result: &Result<RunReport, RunError>) {
    match result {
        Ok(report) => {
            if report.usage != Usage::default() {
                record_usage(span, &report.usage);
            }
            span.record("forge.iterations", report.iterations as u64);
            span.record("forge.stop", report.stop.as_str());
        }
        Err(error) => record_failure(span, error.name()),
    }
}

/// Creates the span of one call to a model, which ends with its stream.
pub(crate) fn chat_span(prompt: &Prompt, run: Option<&RunId>) -> Span {
    let options = prompt.options();
    tracing::info_span!(
        target: "forge::chat",
        "chat",
        otel.name = format!("chat {}", options.model.model),
        otel.kind = "client",
        otel.status_code = Empty,
        gen_ai.operation.name = "chat",
        gen_ai.provider.name = options.model.provider.as_str(),
        gen_ai.request.model = options.model.model.as_str(),
        gen_ai.request.stream = true,
        gen_ai.request.temperature = options.temperature,
        gen_ai.request.top_p = options.top_p,
        gen_ai.request.max_tokens = options.max_output_tokens.map(Tokens::as_u64),
        gen_ai.response.model = Empty,
        gen_ai.conversation.id = run.map(RunId::as_str),
        gen_ai.usage.input_tokens = Empty,
        gen_ai.usage.output_tokens = Empty,
        gen_ai.usage.cache_read.input_tokens = Empty,
        gen_ai.usage.cache_creation.input_tokens = Empty,
        error.type = Empty,
        forge.prompt.tokens = prompt.tokens().as_u64(),
        forge.prompt.messages = prompt.messages().len() as u64,
        forge.finish_reason = Empty,
    )
}

/// Wraps the answer to a call in its span.
pub(crate) async fn trace_chat(
    span: Span,
    answer: impl Future<Output = Result<ChatStream, ProviderError>>,
) -> Result<ChatStream, ProviderError> {
    match answer.instrument(span.clone()).await {
        Ok(stream) if span.is_disabled() => Ok(stream),
        Ok(stream) => Ok(Box::pin(ChatSpan { stream, span, usage: None, model: None, finish_reason: None })),
        Err(error) => {
            record_failure(&span, error.name());
            Err(error)
        }
    }
}

/// A reply as it is received. Its figures are recorded in the span when it is dropped.
struct ChatSpan {
    stream: ChatStream,
    span: Span,
    usage: Option<Usage>,
    model: Option<String>,
    finish_reason: Option<FinishReason>,
}

impl ChatSpan {
    fn take(&mut self, piece: &ChatCompletionMessage) {
        self.usage = piece.usage.or(self.usage);
        if piece.model.is_some() {
            self.model.clone_from(&piece.model);
        }
        if piece.finish_reason.is_some() {
            self.finish_reason.clone_from(&piece.finish_reason);
        }
    }
}

impl Stream for ChatSpan {
    type Item = Result<ChatCompletionMessage, ProviderError>;

    fn poll_next(mut self: Pin<&mut Self>, waker: &mut Waker<'_>) -> Poll<Option<Self::Item>> {
        let polled = {
            let this = &mut *self;
            let _inside = this.span.enter();
            this.stream.as_mut().poll_next(waker)
        };
        match &polled {
            Poll::Ready(Some(Ok(piece))) => self.take(piece),
            Poll::Ready(Some(Err(error))) => record_failure(&self.span, error.name()),
            Poll::Ready(None) | Poll::Pending => {}
        }
        polled
    }
}

impl Drop for ChatSpan {
    fn drop(&mut self) {
        if let Some(usage) = &self.usage {
            record_usage(&self.span, usage);
        }
        if let Some(model) = &self.model {
            self.span.record("gen_ai.response.model", model.as_str());
        }
        if let Some(finish_reason) = &self.finish_reason {
            self.span.record("forge.finish_reason", finish_reason.as_str());
        }
    }
}

fn record_usage(span: &Span, usage: &Usage) {
    span.record("gen_ai.usage.input_tokens", usage.prompt_tokens.as_u64());
    span.record("gen_ai.usage.output_tokens", usage.completion_tokens.as_u64());
    span.record("gen_ai.usage.cache_read.input_tokens", usage.cached_tokens.as_u64());
    span.record("gen_ai.usage.cache_creation.input_tokens", usage.cache_written_tokens.as_u64());
}

fn record_failure(span: &Span, what: &str) {
    span.record("error.type", what);
    span.record("otel.status_code", FAILED);
}

/// Creates the span of one call of a tool, with the hooks and the consent that it needs.
pub(crate) fn tool_span(call: &ToolCall) -> Span {
    tracing::info_span!(
        target: "forge::tool",
        "execute_tool",
        otel.name = format!("execute_tool {}", call.name),
        otel.kind = "internal",
        otel.status_code = Empty,
        gen_ai.operation.name = "execute_tool",
        gen_ai.tool.name = call.name.as_str(),
        gen_ai.tool.call.id = call.id.as_str(),
        gen_ai.tool.type = "function",
        error.type = Empty,
    )
}

pub(crate) fn record_result(span: &Span, result: &ToolResult) {
    if result.is_error {
        record_failure(span, "tool_error");
    }
}

/// Creates the span around a compaction. Its result is recorded at the end. If the compaction is not due, the
/// span has the level of debugging.
pub(crate) fn compact_span(agent: &AgentId, before: Size, is_due: bool) -> Span {
    macro_rules! span {
        ($level:expr) => {
            tracing::span!(
                target: "forge::compaction",
                $level,
                "compact",
                otel.kind = "internal",
                otel.status_code = Empty,
                gen_ai.agent.name = agent.without_lane(),
                forge.compaction.trigger = Empty,
                forge.compaction.outcome = Empty,
                forge.compaction.strategies = Empty,
                forge.compaction.before.tokens = before.tokens.as_u64(),
                forge.compaction.before.messages = before.messages as u64,
                forge.compaction.after.tokens = Empty,
                forge.compaction.after.messages = Empty,
                forge.compaction.model_calls = Empty,
                forge.compaction.cost = Empty,
            )
        };
    }
    if is_due { span!(tracing::Level::INFO) } else { span!(tracing::Level::DEBUG) }
}

pub(crate) fn record_compaction(span: &Span, report: &CompactionReport) {
    span.record("forge.compaction.after.tokens", report.after.tokens.as_u64());
    span.record("forge.compaction.after.messages", report.after.messages as u64);
    span.record("forge.compaction.outcome", report.outcome.name());
    if report.model_calls() > 0 {
        span.record("forge.compaction.model_calls", report.model_calls() as u64);
        span.record("forge.compaction.cost", display(report.cost()));
    }
    if let Some(trigger) = report.trigger {
        span.record("forge.compaction.trigger", display(trigger));
    }
    match &report.outcome {
        Outcome::Applied { strategies, .. } => {
            let strategies: Vec<&str> = strategies.iter().map(StrategyId::as_str).collect();
            span.record("forge.compaction.strategies", strategies.join(", "));
        }
        Outcome::StillOver { .. } => {
            span.record("otel.status_code", FAILED);
        }
        _ => {}
    }
}

/// Creates the span of one save.
pub(crate) fn checkpoint_span(step: &str) -> Span {
    tracing::info_span!(
        target: "forge::checkpoint",
        "checkpoint",
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        forge.checkpoint.step = step,
        forge.checkpoint.id = Empty,
    )
}

pub(crate) fn record_checkpoint(span: &Span, saved: &Result<CheckpointInfo, StoreError>) {
    match saved {
        Ok(info) => drop(span.record("forge.checkpoint.id", info.id.as_str())),
        Err(_) => record_failure(span, "store"),
    }
}

/// Creates the span of one call of a hook. A hook's name may be a command with secrets in it, so it is left
/// out.
pub(crate) fn hook_span(point: HookPoint) -> Span {
    tracing::info_span!(
        target: "forge::hook",
        "hook",
        otel.name = format!("hook {}", point.as_str()),
        otel.kind = "internal",
        otel.status_code = Empty,
        error.type = Empty,
        forge.hook.point = point.as_str(),
        forge.hook.answer = Empty,
    )
}

/// Records the kind of a hook's answer.
pub(crate) fn record_answer(span: &Span, answer: &Result<HookAnswer, HookError>) {
    match answer {
        Ok(HookAnswer::Deny { .. }) => drop(span.record("forge.hook.answer", "deny")),
        Ok(HookAnswer::Edit(_)) => drop(span.record("forge.hook.answer", "edit")),
        Ok(_) => drop(span.record("forge.hook.answer", "proceed")),
        Err(_) => record_failure(span, "broken"),
    }
}
