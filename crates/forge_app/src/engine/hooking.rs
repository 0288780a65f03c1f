//! Asks and tells the hooks of a turn: before and after a model is asked and a tool is called.

use std::borrow::Cow;
use std::convert::Infallible;
use std::sync::PoisonError;
use std::time::Instant;

use forge_domain::{
    Agent, AgentId, CallEdit, Conversation, FinishReason, HookError, HookEvent, HookPoint, Message,
    MessageNote, Notification, PointEdit, PostPrompt, PostToolCall, PrePrompt, PreToolCall, PromptEdit,
    ResultEdit, ToolCall, ToolName, ToolResult, Usage,
};

use tracing::Instrument;

use super::helping::Helpers;
use super::{Engine, Setup};
use crate::RunEvent;
use crate::course::Course;
use crate::hooks::{Denial, Ruling};
use crate::spans;

/// Most characters of changed arguments that the model is shown.
const SHOWN: usize = 1_000;

impl Engine {
    /// Asks the hooks; one that is broken is said and left out.
    pub(super) async fn ask_hooks<E: PointEdit>(&self, agent: &AgentId, event: HookEvent<'_>) -> Ruling<E> {
        self.hooks.ask(&[agent], event, &|hook, error| self.say_broken(hook, error)).await
    }

    /// Tells the hooks of what cannot be changed.
    pub(super) async fn tell_hooks(&self, agent: &AgentId, event: HookEvent<'_>) {
        let _: Ruling<Infallible> = self.ask_hooks(agent, event).await;
    }

    /// Asks or tells the hooks of what is the whole run's, which `agents` begin.
    pub(crate) async fn ask_hooks_of_run(
        &self,
        agents: &[&AgentId],
        event: HookEvent<'_>,
    ) -> Ruling<Infallible> {
        self.hooks.ask(agents, event, &|hook, error| self.say_broken(hook, error)).await
    }

    fn say_broken(&self, hook: &str, error: &HookError) {
        self.tell(&RunEvent::HookFailed { hook, error });
    }

    pub(crate) fn say_denied(&self, point: HookPoint, tool: Option<&ToolName>, denial: &Denial) {
        self.tell(&RunEvent::HookDenied { point, tool, hook: &denial.by, reason: &denial.reason });
    }

    /// Remembers what the person is told: hooks hear of it as soon as the work waits for anything.
    pub(super) fn notify(&self, text: &str) {
        self.unheard.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    }

    /// Tells the hooks what the person was told meanwhile.
    pub(super) async fn tell_notifications(&self, agent: &AgentId) {
        let unheard = std::mem::take(&mut *self.unheard.lock().unwrap_or_else(PoisonError::into_inner));
        for text in &unheard {
            self.tell_hooks(agent, HookEvent::Notification(Notification { agent, text })).await;
        }
    }

    /// Asks the hooks before the model is asked: what they tell it is appended. Who denies it, if somebody does.
    pub(super) async fn rule_prompt(
        &self,
        agent: &Agent,
        setup: &Setup,
        conversation: &mut Conversation,
        course: &Course,
    ) -> Option<Denial> {
        if !self.hooks.listen_at(&agent.id, HookPoint::PrePrompt) {
            return None;
        }
        let view = conversation.view();
        let event = PrePrompt {
            agent: &agent.id,
            model: setup.budget.options().model.to_string(),
            iteration: course.progress.turn_iterations + 1,
            context: view.size(),
            messages: MessageNote::all(&view),
        };
        match self.ask_hooks::<PromptEdit>(&agent.id, HookEvent::PrePrompt(event)).await {
            Ruling::Proceed => None,
            Ruling::Edit(PromptEdit { note }) => {
                self.append(conversation, Message::note("hook", note));
                None
            }
            Ruling::Deny(denial) => {
                self.say_denied(HookPoint::PrePrompt, None, &denial);
                Some(denial)
            }
        }
    }

    /// Tells the hooks what the model replied.
    pub(super) async fn tell_replied(
        &self,
        agent: &Agent,
        setup: &Setup,
        course: &Course,
        (calls, text): (&[ToolCall], &str),
        (usage, finish_reason): (Option<Usage>, &FinishReason),
    ) {
        if self.hooks.listen_at(&agent.id, HookPoint::PostPrompt) {
            let event = PostPrompt {
                agent: &agent.id,
                model: setup.budget.options().model.to_string(),
                iteration: course.progress.turn_iterations,
                text: text.to_owned(),
                calls,
                finish_reason: finish_reason.as_str(),
                usage,
            };
            self.tell_hooks(&agent.id, HookEvent::PostPrompt(event)).await;
        }
    }

    /// Runs one call as the hooks rule. The conversation keeps what the model wrote; what came of it says what was run.
    pub(super) async fn ruled_call(
        &self,
        agent: &Agent,
        call: &ToolCall,
        conversation: &Conversation,
        helpers: &Helpers<'_, '_>,
    ) -> ToolResult {
        let span = spans::tool_span(call);
        let result = self.ruled(agent, call, conversation, helpers).instrument(span.clone()).await;
        spans::record_result(&span, &result);
        result
    }

    async fn ruled(
        &self,
        agent: &Agent,
        call: &ToolCall,
        conversation: &Conversation,
        helpers: &Helpers<'_, '_>,
    ) -> ToolResult {
        let event = HookEvent::PreToolCall(PreToolCall::new(&agent.id, call));
        let (ran, note) = match self.ask_hooks::<CallEdit>(&agent.id, event).await {
            Ruling::Proceed => (Cow::Borrowed(call), None),
            Ruling::Edit(edit) => {
                let arguments = serde_json::Value::Object(edit.arguments).to_string();
                let shown: String = arguments.chars().take(SHOWN).collect();
                let note = format!("[A hook changed the arguments of this call. It ran with: {shown}]");
                (Cow::Owned(ToolCall { arguments, ..call.clone() }), Some(note))
            }
            Ruling::Deny(denial) => {
                self.say_denied(HookPoint::PreToolCall, Some(&call.name), &denial);
                let why = reason(&denial, "none is given");
                return ToolResult::error(
                    call,
                    format!("This call was denied and did not run. The reason: {why}"),
                );
            }
        };
        let started = Instant::now();
        let result = self.call(agent, &ran, conversation, helpers).await;
        let duration_ms = started.elapsed().as_millis() as u64;
        let is_error = result.is_error;
        let told = PostToolCall::new(&agent.id, &ran, &result, duration_ms);
        let event = if is_error { HookEvent::ToolFailure(told) } else { HookEvent::PostToolCall(told) };
        let result = match self.ask_hooks::<ResultEdit>(&agent.id, event).await {
            Ruling::Proceed => result,
            Ruling::Edit(edit) => edit.applied_to(result),
            Ruling::Deny(denial) => {
                self.say_denied(HookPoint::PostToolCall, Some(&call.name), &denial);
                let why = reason(&denial, "none is given");
                ToolResult::error(
                    call,
                    format!("This call ran, and its result is withheld. The reason: {why}"),
                )
            }
        };
        match note {
            Some(note) => result.with_note(&note),
            None => result,
        }
    }
}

fn reason<'a>(denial: &'a Denial, otherwise: &'a str) -> &'a str {
    match denial.reason.trim() {
        "" => otherwise,
        reason => reason,
    }
}
