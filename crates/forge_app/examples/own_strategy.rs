//! Embeds forge: a provider of one's own, a compaction strategy of one's own, and a run of many calls in a tiny window.
//!
//! ```text
//! cargo run -p forge_app --example own_strategy
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use forge_app::{Orchestrator, RunEvent};
use forge_domain::compaction::{
    CompactionImpact, CompactionRules, CompactionServices, CompactionStrategy, Outcome, Rung, StrategyError,
};
use forge_domain::{
    Agent, AgentId, ChatCompletionMessage, ChatStream, Compact, Context, ContextMessage, Edit, FinishReason,
    GroupKind, Groups, Message, ModelConfig, ModelId, ModelInfo, Prompt, Provider, ProviderError, ProviderId,
    StrategyId, Tokens, ToolCall, ToolCallPart, ToolDefinition, ToolName, ToolResult, ToolService,
    UnknownToolError,
};
use futures::stream;

/// Replaces every finished exchange but the newest one by one line that says which tools ran.
struct OneLineEach;

#[async_trait]
impl CompactionStrategy for OneLineEach {
    fn id(&self) -> &str {
        "one_line_each"
    }

    fn description(&self) -> &str {
        "replaces every finished exchange but the newest by one line"
    }

    fn is_applicable(&self, _: &CompactionRules, context: &Context) -> bool {
        !exchanges(context.groups()).is_empty()
    }

    async fn compact(
        &self,
        _: &CompactionRules,
        context: Context,
        services: &dyn CompactionServices,
    ) -> Result<(Context, CompactionImpact), StrategyError> {
        // Decide: which groups. A span cannot split a call from its result.
        let groups = context.groups();
        let edits = exchanges(groups).into_iter().map(|index| {
            let span = groups.span(index..index + 1);
            let calls = context.messages()[span.range().start].message().calls();
            let names: Vec<&str> = calls.iter().map(|call| call.name.as_str()).collect();
            let line = Message::assistant(format!("(ran {})", names.join(", "))).compacted();
            Edit::Fold { span, with: vec![ContextMessage::count(line, services.counter())] }
        });
        // Act.
        let after = context.edit(edits.collect());
        let impact = CompactionImpact::new(context.size(), after.size(), Vec::new());
        Ok((after, impact))
    }
}

/// The exchanges but the newest group, by index.
fn exchanges(groups: &Groups) -> Vec<usize> {
    let older = groups.iter().enumerate().take(groups.len().saturating_sub(1));
    older.filter(|(_, group)| group.kind() == GroupKind::Exchange).map(|(index, _)| index).collect()
}

/// A model that counts to thirty by calling a tool, and then says so.
#[derive(Default)]
struct Counting {
    n_calls: AtomicUsize,
}

#[async_trait]
impl Provider for Counting {
    async fn chat(&self, _: Prompt) -> Result<ChatStream, ProviderError> {
        let n = self.n_calls.fetch_add(1, Ordering::Relaxed);
        let piece = if n < 30 {
            let call = ToolCallPart {
                index: 0,
                id: Some(format!("call_{n}")),
                name: Some("add_one".to_owned()),
                arguments: format!("{{\"to\": {n}}}"),
            };
            ChatCompletionMessage {
                tool_calls: vec![call],
                finish_reason: Some(FinishReason::ToolCalls),
                ..Default::default()
            }
        } else {
            let content = Some("I have counted to thirty.".to_owned());
            ChatCompletionMessage { content, finish_reason: Some(FinishReason::Stop), ..Default::default() }
        };
        Ok(Box::pin(stream::iter([Ok(piece)])))
    }

    async fn models(&self) -> Result<Vec<ModelInfo>, ProviderError> {
        Ok(Vec::new())
    }
}

/// The tool that the model calls. It talks too much, so that there is something to compact.
struct Adding;

#[async_trait]
impl ToolService for Adding {
    fn definitions(&self, names: &[ToolName]) -> Result<Vec<ToolDefinition>, UnknownToolError> {
        let definition = |name: &ToolName| ToolDefinition {
            name: name.clone(),
            description: "Adds one to a number.".to_owned(),
            parameters: serde_json::json!({"type": "object", "properties": {"to": {"type": "integer"}}}),
        };
        Ok(names.iter().map(definition).collect())
    }

    async fn call(&self, call: &ToolCall) -> ToolResult {
        ToolResult::answer(call, format!("{} plus one. {}", call.arguments, "That was easy. ".repeat(12)))
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let model = ModelId::new("mine:counting")?;
    let limits = ModelConfig { window: Some(Tokens::new(1_500)), ..ModelConfig::default() };
    // Without a place in the list, it would be tried after the built-in strategies.
    let own = Rung::Registered(StrategyId::new("one_line_each")?);
    let agent = Agent::new(AgentId::new("counter")?)
        .model(model.clone())
        .tools(vec![ToolName::new("add_one")?])
        .compact(Compact::default().strategies(vec![own]));
    let mut orchestrator = Orchestrator::builder()
        .agent(agent)
        .model(model, limits)
        .provider(ProviderId::new("mine")?, Arc::new(Counting::default()))
        .tools(Arc::new(Adding))
        .strategy(Arc::new(OneLineEach))
        .watcher(|event| {
            if let RunEvent::Sending(prompt) = event {
                println!("{:>5} tokens, {:>2} messages", prompt.tokens(), prompt.messages().len());
            }
        })
        .build()?;
    let report = futures::executor::block_on(orchestrator.run("Count to thirty."))?;
    for outcome in &report.outcomes {
        if let Outcome::Applied { strategies, impact } = &outcome.outcome {
            println!("{strategies:?}: {} to {} tokens", impact.before.tokens, impact.after.tokens);
        }
    }
    println!("{} after {} calls", report.response, report.iterations);
    Ok(())
}
