//! When the tool that gives back what left the view is offered, and how its calls are answered.

use std::borrow::Cow;
use std::panic::AssertUnwindSafe;

use forge_domain::compaction::ContextCompactor;
use forge_domain::{
    ASSUMED_WINDOW, Agent, Conversation, Reach, Scale, Tokens, ToolCall, ToolDefinition, ToolName, ToolResult,
};
use futures::FutureExt;

use super::helping::Helpers;
use super::{Engine, Setup};
use crate::recall::{RECALL, recall, recall_definition};

/// Most tokens of an answer, whatever the window.
const MOST: Tokens = Tokens::new(4_000);
/// The share of the window that an answer may take at most.
const SHARE: u64 = 16;

/// The share of the room that its schema may take, in percent, where nobody asks for it: in a small window it would cost
/// more compactions than it gives back.
const SCHEMA_PERCENT: u64 = 10;

/// The agent's tools with recall among them; `None` where it is to have none. An agent without tools has none unless it
/// says so, as its model may take none; a tool of its own by that name stays what it is.
pub(super) fn tools(agent: &Agent, own: &[ToolDefinition]) -> Option<Vec<ToolDefinition>> {
    let is_wanted = agent.recall.unwrap_or(!own.is_empty());
    let is_taken = own.iter().any(|tool| tool.name.as_str() == RECALL);
    (is_wanted && !is_taken).then(|| own.iter().cloned().chain([recall_definition()]).collect())
}

/// How much recall is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Recalls {
    /// Whenever something left the view.
    Always,
    /// Then, where the window has room for it.
    WithRoom,
}

impl Recalls {
    pub(super) fn of(agent: &Agent) -> Self {
        if agent.recall == Some(true) { Self::Always } else { Self::WithRoom }
    }
}

impl Setup {
    /// The same for a provider that counts by `scale`.
    pub(super) fn measured(&self, scale: Scale) -> Self {
        Self {
            budget: self.budget.measured(scale),
            compact: self.compact.measured(scale, &self.budget),
            price: self.price,
            recall: None,
            recalls: self.recalls,
            rehearsal: self.rehearsal.clone(),
        }
    }
}

impl Engine {
    /// What the next prompt is fitted to: with recall where something left the view, or is about to.
    pub(super) fn with_recall<'a>(
        &self,
        setup: &Setup,
        plain: &'a Setup,
        conversation: &Conversation,
        compactor: &ContextCompactor,
    ) -> Cow<'a, Setup> {
        let Some(with_recall) = &setup.recall else { return Cow::Borrowed(plain) };
        let is_due = || {
            let Setup { budget, compact, .. } = plain;
            compactor.due(compact, &conversation.view(), budget, &*self.services.counter).is_some()
        };
        if conversation.is_compacted() || is_due() {
            let scale = conversation.scale(&setup.budget.options().model);
            let with_recall = with_recall.measured(scale);
            let schema = plain.budget.room() - with_recall.budget.room();
            if setup.recalls == Recalls::Always || schema <= plain.budget.room().share(SCHEMA_PERCENT, 100) {
                return Cow::Owned(with_recall);
            }
        }
        Cow::Borrowed(plain)
    }

    /// Why the call is not made, where its tool is there, but for others than this agent.
    fn refused(&self, agent: &Agent, call: &ToolCall) -> Option<String> {
        let own = self.tools(agent).ok()?;
        let is_there = self.services.tools.definitions(std::slice::from_ref(&call.name));
        let is_anybodys = is_there.is_ok_and(|tools| !tools.is_empty());
        if !is_anybodys || own.iter().any(|tool| tool.name == call.name) {
            return None;
        }
        let known: Vec<&str> = own.iter().map(|tool| tool.name.as_str()).collect();
        Some(format!("there is no tool `{}`; known are: {}", call.name, known.join(", ")))
    }

    /// Runs one call: by another agent where it is one's name, from the conversation where it is for what left the view, else by
    /// the tool service.
    pub(super) async fn call(
        &self,
        agent: &Agent,
        call: &ToolCall,
        conversation: &Conversation,
        helpers: &Helpers<'_, '_>,
    ) -> ToolResult {
        if let Some(callee) = self.callee(agent, call) {
            // What it does is held against the rules by itself.
            if let Err(refusal) = self.permit(agent, call, &Reach::free()).await {
                return refusal;
            }
            return self.call_agent(callee, &agent.id, call, helpers).await;
        }
        let is_offered = call.name.as_str() == RECALL
            && conversation.is_compacted()
            && self.tools(agent).is_ok_and(|own| tools(agent, &own).is_some());
        if !is_offered {
            if let Some(why) = self.refused(agent, call) {
                return ToolResult::error(call, why);
            }
            let reach = match caught(self.services.tools.reach(call)).await {
                Ok(reach) => reach,
                Err(panic) => return ToolResult::error(call, crashed(&call.name, &panic)),
            };
            let permit = match self.permit(agent, call, &reach).await {
                Ok(permit) => permit,
                Err(refusal) => return refusal,
            };
            if let Err(fenced) = self.check_fence().await {
                return ToolResult::error(call, fenced.to_string());
            }
            let begun = self.begin_effects(agent, call, &reach, &permit).await;
            let answered = caught(self.services.tools.call_within(call, &permit.scope)).await;
            let result =
                answered.unwrap_or_else(|panic| ToolResult::error(call, crashed(&call.name, &panic)));
            self.end_effects(begun, &permit, &result).await;
            return self.guarded(agent, call, &reach, &permit, result).await;
        }
        let model = agent.model.as_ref().and_then(|id| self.catalog.model(&self.services, id).ok());
        let window = model.map_or(ASSUMED_WINDOW, |model| model.limits.window);
        recall(call, conversation, window.share(1, SHARE).min(MOST), &*self.services.counter)
    }
}

/// Runs a tool service's future. A panic in it is an error that says what the panic said: a fault of one tool must not end the run.
async fn caught<T>(work: impl Future<Output = T>) -> Result<T, String> {
    // Nothing of the engine is borrowed mutably in it, so a panic leaves no half-changed state behind here.
    AssertUnwindSafe(work).catch_unwind().await.map_err(|panic| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no reason given").to_owned()
    })
}

fn crashed(tool: &ToolName, panic: &str) -> String {
    format!(
        "the tool `{tool}` crashed: {panic}. This is a fault of the tool. The call may have had its effect, or a part of it: look \
         before you call it again"
    )
}
