//! Tool calls: each as the hooks and the rules decide, by a tool, by another agent, or from the log.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use forge_domain::{
    ASSUMED_WINDOW, ActionConsent, Agent, Awaited, AwaitedRequest, CallEdit, CallScope, ConsentRequest,
    Conversation, Event, FileChange, HookEvent, HookPoint, Permission, PostToolCall, PreToolCall, Reach,
    ResultEdit, Subject, Tokens, ToolCall, ToolName, ToolResult, UNNAMED_TOOL, Verdict, tool_twin,
};
use futures::channel::mpsc::UnboundedSender;
use futures::future::join_all;
use tracing::Instrument;

use super::agents::SubAgents;
use super::call_end::{CallEnd, consent_notice, question_notice, wait_notice};
use crate::caught_panic::catch_panic;
use crate::emission::{EMIT, event_of};
use crate::engine::{NoConsent, deliver_notice, recall_tools, with_notice};
use crate::hooks::{Denial, Ruling};
use crate::recall::{RECALL, recall};
use crate::{DeniedBy, Engine, Remedy, RunEvent, spans};

/// The end of a refusal, for the model.
pub(super) const NO_WAY_AROUND: &str =
    "Do not look for another way; continue without it, or say what you need";
/// The text in place of an image that the model cannot see.
const UNSEEN: &str = "[the image itself is not shown: as far as is known, this model reads no images]";
/// The reason why a call is denied in the mode `plan`, for the model.
const PLAN_ONLY: &str = "the user wants a plan first, and nothing may be changed until they approve it";
/// Most calls of one reply that run at once: each may be a process, or an agent with a conversation.
const AT_ONCE: usize = 8;
/// Most calls of one reply that are made. A reply with more is a model that repeats itself.
const MOST_CALLS: usize = 128;
/// Most characters of changed arguments that the model is shown.
const SHOWN: usize = 1_000;
/// Most tokens of an answer of `recall`, whatever the window.
const MOST_RECALLED: Tokens = Tokens::new(4_000);
/// The largest share of the window that an answer of `recall` may have is one part in this many.
const RECALLED_SHARE: u64 = 16;

/// The surroundings of an agent's tool calls.
pub(super) struct ToolCalls<'t, 'b> {
    pub(super) engine: &'t Engine,
    pub(super) agent: &'t Agent,
    /// The log without the results of these calls.
    pub(super) conversation: &'t Conversation,
    pub(super) agents: &'t SubAgents<'t, 'b>,
    /// The events that the agent emits.
    pub(super) emitted: &'t Mutex<Vec<Event>>,
    /// The ids of the calls that have started.
    pub(super) started: &'t Mutex<Option<BTreeSet<String>>>,
    /// The calls that wait for a person, by their places.
    pub(super) awaiting: &'t Mutex<BTreeMap<usize, Option<Awaited>>>,
    /// The calls to the model until then.
    pub(super) iterations: usize,
}

/// The decision of the rules on a call.
#[derive(Clone, Copy)]
pub(super) struct Decision {
    pub(super) permission: Permission,
    /// True if the mode decided, and no rule.
    pub(super) is_by_mode: bool,
}

/// The permission to make a call.
pub(super) struct Permit {
    /// The limits within which it may be made.
    pub(super) scope: CallScope,
    /// The consent to it.
    pub(super) consent: ActionConsent,
    /// The secrets that it may show.
    pub(super) secrets: Vec<Subject>,
    /// The consent to show these.
    pub(super) secret_consent: ActionConsent,
}

impl ToolCalls<'_, '_> {
    /// Runs the calls, a few at once, except those that are in `finished`. Each result is put there when it
    /// comes: if the run is interrupted while others still run, it is not lost. `notes` gets a note of each.
    pub(super) async fn run_all(
        &self,
        calls: &[ToolCall],
        finished: &Mutex<BTreeMap<usize, ToolResult>>,
        notes: &UnboundedSender<()>,
    ) {
        let lock = || finished.lock().unwrap_or_else(PoisonError::into_inner);
        for (_, call) in calls.iter().enumerate().filter(|(at, _)| !lock().contains_key(at)) {
            self.engine.events.emit(&RunEvent::ToolCall(call));
        }
        let next = AtomicUsize::new(0);
        let lines = (0..AT_ONCE.min(calls.len())).map(|_| self.run_in_line(calls, &next, finished, notes));
        join_all(lines).await;
    }

    /// Runs one call after the other, always the `next` that no other line has begun.
    async fn run_in_line(
        &self,
        calls: &[ToolCall],
        next: &AtomicUsize,
        finished: &Mutex<BTreeMap<usize, ToolResult>>,
        notes: &UnboundedSender<()>,
    ) {
        let lock = || finished.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(call) = calls.get(at) else { return };
            if !lock().contains_key(&at) {
                // The calls of a recording were made once.
                let is_made = at < MOST_CALLS || self.engine.is_playback;
                let end = if is_made {
                    self.engine.events.emit(&RunEvent::ToolStarted(call));
                    self.run(call).await
                } else {
                    excess(call).into()
                };
                match end {
                    CallEnd::Done(result) => {
                        lock().insert(at, result);
                        self.engine.events.emit(&RunEvent::ToolFinished(call));
                    }
                    CallEnd::Waits(request) => self.note_awaited(at, call, request),
                }
            }
            // There is no receiver only if no one waits for these calls any more.
            drop(notes.unbounded_send(()));
        }
    }

    /// Notes that the call at the place `at` waits.
    fn note_awaited(&self, at: usize, call: &ToolCall, request: Option<AwaitedRequest>) {
        let agent = self.agent.id.clone();
        if let Some(request) = &request {
            self.engine.events.keep_for_hooks(&wait_notice(&agent, request));
        }
        let awaited = request.map(|request| Awaited {
            id: format!("{agent}-{}-{}", self.iterations, at + 1),
            agent,
            call: call.id.clone(),
            request,
        });
        self.awaiting.lock().unwrap_or_else(PoisonError::into_inner).insert(at, awaited);
    }

    /// Runs one call in its span.
    async fn run(&self, call: &ToolCall) -> CallEnd {
        let span = spans::tool_span(call);
        let end = self.run_with_hooks(call).instrument(span.clone()).await;
        if let CallEnd::Done(result) = &end {
            spans::record_result(&span, result);
        }
        end
    }

    /// Runs one call as the hooks decide. The conversation keeps the call that the model wrote; its result
    /// shows what was run.
    async fn run_with_hooks(&self, call: &ToolCall) -> CallEnd {
        let id = &self.agent.id;
        let event = HookEvent::PreToolCall(PreToolCall::new(id, call));
        let (edited, note) = match self.engine.ask_hooks::<CallEdit>(&[id], event).await {
            Ruling::Proceed => (Cow::Borrowed(call), None),
            Ruling::Edit(edit) => {
                let arguments = serde_json::Value::Object(edit.arguments).to_string();
                let shown: String = arguments.chars().take(SHOWN).collect();
                let note = format!("[A hook changed the arguments of this call. It ran with: {shown}]");
                (Cow::Owned(ToolCall { arguments, ..call.clone() }), Some(note))
            }
            Ruling::Deny(denial) => {
                self.engine.events.denial(HookPoint::PreToolCall, Some(&call.name), &denial);
                self.engine.conduct.deny(id, call, &[], DeniedBy::Hook, Remedy::default());
                let why = reason(&denial);
                let text = format!("This call was denied and did not run. The reason: {why}");
                return ToolResult::error(call, text).into();
            }
        };
        let started = Instant::now();
        let result = match self.dispatch(&edited).await {
            CallEnd::Done(result) => result,
            waits @ CallEnd::Waits(_) => return waits,
        };
        let duration_ms = started.elapsed().as_millis() as u64;
        let end = PostToolCall::new(id, &edited, &result, duration_ms);
        let event = if result.is_error { HookEvent::ToolFailure(end) } else { HookEvent::PostToolCall(end) };
        let ruling = self.engine.ask_hooks::<ResultEdit>(&[id], event).await;
        let result = match ruling {
            Ruling::Proceed => result,
            Ruling::Edit(edit) => edit.applied_to(result),
            Ruling::Deny(denial) => {
                self.engine.events.denial(HookPoint::PostToolCall, Some(&call.name), &denial);
                let why = reason(&denial);
                let text = format!("This call ran, and its result is withheld. The reason: {why}");
                ToolResult::error(call, text)
            }
        };
        match note {
            Some(note) => result.with_note(&note).into(),
            None => result.into(),
        }
    }

    /// Answers one call: by another agent if it has an agent's name, from the log if it recalls something,
    /// else by a tool.
    async fn dispatch(&self, call: &ToolCall) -> CallEnd {
        if let Some(callee) = self.callee(call) {
            // What it does is checked against the rules separately.
            return match self.permit(call, &Reach::free()).await {
                Ok(_) => self.agents.call(callee, call).await,
                Err(end) => end,
            };
        }
        let has_recall = call.name.as_str() == RECALL
            && self.engine.tools(self.agent).is_ok_and(|own| recall_tools(self.agent, &own).is_some());
        if has_recall {
            self.recall(call).into()
        } else if call.name.as_str() == EMIT && self.agent.emits.is_some() {
            self.emit(call).await
        } else {
            self.call_tool(call).await
        }
    }

    /// Keeps the event that `call` emits, for the agents that subscribe to it.
    async fn emit(&self, call: &ToolCall) -> CallEnd {
        if let Err(end) = self.permit(call, &Reach::free()).await {
            return end;
        }
        let event = match event_of(self.agent, call) {
            Ok(event) => event,
            Err(why) => return ToolResult::error(call, why).into(),
        };
        let agents = self.engine.services.workflow.agents.iter();
        let theirs: Vec<&str> =
            agents.filter(|agent| agent.subscribes_to(&event.name)).map(|agent| agent.id.as_str()).collect();
        let text = match theirs.as_slice() {
            [] => format!("No agent subscribes to `{}`: nothing happens.", event.name),
            theirs => format!("Emitted. When you are done, it starts {}.", theirs.join(", ")),
        };
        if !theirs.is_empty() {
            self.emitted.lock().unwrap_or_else(PoisonError::into_inner).push(event);
        }
        ToolResult::answer(call, text).into()
    }

    /// Returns the agent that `call` names, if this one may call it.
    fn callee(&self, call: &ToolCall) -> Option<&Agent> {
        let is_listed = self.agent.tools.iter().flatten().any(|name| *name == call.name);
        self.engine.services.workflow.agents.find(call.name.as_str()).filter(|_| is_listed)
    }

    /// Answers a call of `recall` from the log.
    fn recall(&self, call: &ToolCall) -> ToolResult {
        let Engine { catalog, services, .. } = self.engine;
        let model = self.agent.model.as_ref().and_then(|id| catalog.model(services, id).ok());
        let window = model.map_or(ASSUMED_WINDOW, |model| model.limits.window);
        let most = window.share(1, RECALLED_SHARE).min(MOST_RECALLED);
        recall(call, self.conversation, most, &*services.counter)
    }

    /// Calls a tool, if the rules or the user allow it.
    async fn call_tool(&self, call: &ToolCall) -> CallEnd {
        if let Some(why) = self.unknown_tool(call) {
            return ToolResult::error(call, why).into();
        }
        let tools = &self.engine.services.tools;
        let reach = match catch_panic(tools.reach(call)).await {
            Ok(reach) => reach,
            Err(panic) => return ToolResult::error(call, crash_text(&call.name, &panic)).into(),
        };
        let permit = match self.permit(call, &reach).await {
            Ok(permit) => permit,
            Err(end) => return end,
        };
        if let Err(fenced) = self.engine.check_fence().await {
            return ToolResult::error(call, fenced.to_string()).into();
        }
        let begun = self.begin_effects(call, &reach, &permit).await;
        let (events, shown) = (self.engine.events.clone(), call.clone());
        let show = move |line: &str| events.emit(&RunEvent::ToolOutput { call: &shown, line });
        let permit = Permit { scope: permit.scope.watched_by(Arc::new(show)), ..permit };
        let notice = async {
            if let Some(question) = permit.scope.notes().asks {
                let text = question_notice(&self.agent.id, &question);
                deliver_notice(self.engine, &self.agent.id, &text).await;
            }
        };
        let result = with_notice(catch_panic(tools.call_within(call, &permit.scope)), notice).await;
        let result = result.unwrap_or_else(|panic| ToolResult::error(call, crash_text(&call.name, &panic)));
        // A result under another id would be an orphan in the prompt, and the call would have no result.
        let result = ToolResult { call_id: call.id.clone(), name: Some(call.name.clone()), ..result };
        self.end_effects(begun, &permit, &result).await;
        if let Some(question) = permit.scope.notes().awaits {
            return CallEnd::Waits(Some(AwaitedRequest::Answer(question)));
        }
        let result = self.guard_secrets(call, &reach, &permit, result).await;
        self.visible_to_model(result).into()
    }

    /// Returns the result as the model can see it: if it is not known to read images, words stand in their
    /// place.
    fn visible_to_model(&self, mut result: ToolResult) -> ToolResult {
        let model = self.agent.model.as_ref().and_then(|id| self.engine.services.workflow.model(id).ok());
        let reads_images = model.is_some_and(|model| model.abilities.images == Some(true));
        if !reads_images && result.content.has_images() {
            result.content = result.content.without_images(UNSEEN).to_text().into();
        }
        result
    }

    /// Returns the permission to make `call`, which reaches as far as `reach`: the rules decide, or the user
    /// if they say so. The rules decide on its secrets apart, and the user is asked for both at once.
    ///
    /// # Errors
    /// The end of the call if it may not be made, or not yet.
    async fn permit(&self, call: &ToolCall, reach: &Reach) -> Result<Permit, CallEnd> {
        let rules = self.engine.services.workflow.rules(self.agent);
        let is_secret = |subject: &Subject| matches!(subject, Subject::Secret { .. });
        let (secrets, others): (Vec<_>, Vec<_>) = reach.subjects.iter().cloned().partition(is_secret);
        let with = self.engine.conduct.discretion();
        let of_call = rules.decide(&with, &call.name, &Reach { usual: reach.usual, subjects: others });
        let of_secrets = match secrets.as_slice() {
            [] => Verdict { permission: Permission::Allow, about: Vec::new(), rules: Vec::new() },
            shown => {
                let reach = Reach { usual: Permission::Allow, subjects: shown.to_vec() };
                rules.decide(&with, &call.name, &reach)
            }
        };
        let verdicts = [&of_call, &of_secrets];
        let strictest = of_call.permission.max(of_secrets.permission);
        let strict = verdicts.into_iter().filter(|verdict| verdict.permission == strictest);
        let (mut about, mut is_by_mode) = (Vec::new(), false);
        for verdict in strict {
            about.extend(verdict.about.iter().cloned());
            is_by_mode |= verdict.is_by(with.mode);
        }
        let tools = &self.engine.services.tools;
        let preview = async { catch_panic(tools.preview(call)).await.ok().flatten() };
        let decision = Decision { permission: strictest, is_by_mode };
        let answer = self.answer(call, decision, &about, preview).await;
        let (answer, change) = match answer {
            Ok(answer) => answer,
            Err(NoConsent::Denied(_, why)) => return Err(refusal(call, &about, &why).into()),
            Err(NoConsent::Later(change)) => {
                let (tool, arguments) = (call.name.clone(), call.arguments.clone());
                let request = AwaitedRequest::Consent { tool, arguments, about, change };
                return Err(CallEnd::Waits(Some(request)));
            }
        };
        self.started
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_default()
            .insert(call.id.clone());
        Ok(Permit {
            consent: consent(&of_call, &answer),
            secret_consent: consent(&of_secrets, &answer),
            scope: CallScope::of_layers(rules, of_call.permission).expecting(change),
            secrets,
        })
    }

    /// Returns the consent to `call` under a decision that comes from the subjects in `about`; asks the
    /// user for it if the permission says so, with the change that `preview` finds.
    ///
    /// # Errors
    /// [`NoConsent`] if the call may not be made, or not yet.
    pub(super) async fn answer(
        &self,
        call: &ToolCall,
        decision: Decision,
        about: &[Subject],
        preview: impl Future<Output = Option<FileChange>>,
    ) -> Result<(ActionConsent, Option<FileChange>), NoConsent> {
        let Engine { services, consents, conduct, .. } = self.engine;
        let answer = match decision.permission {
            Permission::Allow => Ok((ActionConsent::NotNeeded, None)),
            Permission::Deny if decision.is_by_mode => {
                Err(NoConsent::Denied(DeniedBy::Mode, PLAN_ONLY.to_owned()))
            }
            Permission::Deny => {
                Err(NoConsent::Denied(DeniedBy::Rule, "the permissions of this run forbid it".to_owned()))
            }
            Permission::Ask => {
                let request = ConsentRequest { agent: &self.agent.id, call, about, change: None };
                let notice = async {
                    let text = consent_notice(&self.agent.id, &call.name, about);
                    deliver_notice(self.engine, &self.agent.id, &text).await;
                };
                consents.ask(&*services.person, &request, preview, notice).await
            }
        };
        if let Err(NoConsent::Denied(by, _)) = &answer {
            let remedy = match by {
                DeniedBy::Nobody => conduct.remedy(&services.workflow.rules(self.agent), &call.name, about),
                _ => Remedy::default(),
            };
            conduct.deny(&self.agent.id, call, about, *by, remedy);
        }
        answer
    }

    /// Returns the reason not to make the call if its tool is not one of this agent's, with those that are. A
    /// service that describes no tools may still answer it.
    fn unknown_tool(&self, call: &ToolCall) -> Option<String> {
        let own = self.engine.tools(self.agent).ok()?;
        let found = self.engine.services.tools.definitions(std::slice::from_ref(&call.name));
        let is_undescribed = found.is_ok_and(|tools| tools.is_empty());
        let is_own = own.iter().any(|tool| tool.name == call.name);
        if self.engine.is_playback || is_undescribed || is_own {
            return None;
        }
        let mut known: Vec<&str> = own.iter().map(|tool| tool.name.as_str()).collect();
        known.extend(recall_tools(self.agent, &own).map(|_| RECALL));
        known.sort_unstable();
        let known_text = match known.as_slice() {
            [] => "you have no tools".to_owned(),
            known => format!("expected one of {}", known.join(", ")),
        };
        if call.name.as_str() == UNNAMED_TOOL {
            return Some(format!(
                "this call could not be read, or names no tool ({known_text}); call one with its arguments as JSON"
            ));
        }
        let twin = tool_twin(call.name.as_str()).filter(|twin| known.contains(twin));
        let twin_text = twin.map(|twin| format!("; `{twin}` does what it does")).unwrap_or_default();
        Some(format!("there is no tool `{}` ({known_text}){twin_text}", call.name))
    }
}

/// Returns the consent to what a verdict is about; `answer` is the user's.
pub(super) fn consent(verdict: &Verdict, answer: &ActionConsent) -> ActionConsent {
    match (verdict.permission, verdict.rules.as_slice()) {
        (Permission::Allow, []) => ActionConsent::NotNeeded,
        (Permission::Allow, rules) => ActionConsent::Rule { rules: rules.to_vec() },
        _ => answer.clone(),
    }
}

/// Returns the result of a call after the most that one reply may make.
fn excess(call: &ToolCall) -> ToolResult {
    let why = format!("was not called: of one reply, the first {MOST_CALLS} calls are made");
    ToolResult::error(call, format!("`{}` {why}. Nothing was done. Call it in your next reply", call.name))
}

/// Returns the result of a call that was not made.
fn refusal(call: &ToolCall, about: &[Subject], why: &str) -> ToolResult {
    let what = about.iter().map(|subject| format!("`{subject}`")).collect::<Vec<_>>().join(", ");
    let of = if what.is_empty() { String::new() } else { format!(" for {what}") };
    ToolResult::error(
        call,
        format!("`{}` was not called{of}: {why}. Nothing was done. {NO_WAY_AROUND}", call.name),
    )
}

fn crash_text(tool: &ToolName, panic: &str) -> String {
    format!(
        "the tool `{tool}` crashed: {panic}. This is a fault of the tool. The call may have had its effect, or a part of it: look \
         before you call it again"
    )
}

/// Returns the reason of a denial, for the model.
fn reason(denial: &Denial) -> &str {
    match denial.reason.trim() {
        "" => "none is given",
        reason => reason,
    }
}
