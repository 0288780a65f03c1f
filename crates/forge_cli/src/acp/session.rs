//! A session of an editor: one run, whose turns its prompts are.

use std::sync::{Arc, Mutex, PoisonError};

use forge_app::{Conduct, ModeRefused, NextCall, Orchestrator, RunReport, StopReason};
use forge_domain::compaction::{Focus, Outcome};
use forge_domain::{AgentId, Event, Mode, StepStatus, TaskStep, UnknownMode};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use super::connection::{RpcError, RpcResult};
use super::plan;
use super::updates::{Updates, text_block};
use crate::output::with_separators;
use crate::run::{PLAN_APPROVAL, RunView, change, checkpoints, explain, may_be_plan};

/// The commands of a session, for the editor's menu: the name, what it takes, and what it does.
pub(super) const COMMANDS: [(&str, &str, &str); 3] = [
    ("compact", "what to preserve", "Compact the context now"),
    ("undo", "", "Undo the last compaction"),
    ("context", "", "Show what fills the window"),
];

/// The answers to a plan: an id, which is that of the next mode, a name and a kind.
const PLAN_OPTIONS: [(&str, &str, &str); 3] = [
    ("edits", "Yes, and edit without asking", "allow_always"),
    ("ask", "Yes, but ask before edits", "allow_once"),
    ("plan", "No, keep planning", "reject_once"),
];

/// A session.
pub(super) struct Session {
    orchestrator: tokio::sync::Mutex<Orchestrator>,
    /// The conduct of the run: the mode can change during a prompt.
    conduct: Arc<Conduct>,
    pub(super) updates: Arc<Updates>,
    /// The agent that was named on the command line.
    agent: Option<String>,
    /// The stops of the prompt at work, and of those that wait for it.
    stops: Mutex<Vec<oneshot::Sender<()>>>,
}

/// A prompt that can be stopped from now on.
pub(super) struct Stoppable(oneshot::Receiver<()>);

impl Session {
    pub(super) fn new(orchestrator: Orchestrator, updates: Arc<Updates>, agent: Option<String>) -> Self {
        Self {
            conduct: Arc::clone(&orchestrator.engine().conduct),
            orchestrator: tokio::sync::Mutex::new(orchestrator),
            updates,
            agent,
            stops: Mutex::default(),
        }
    }

    /// Returns the modes, and the current one.
    pub(super) fn modes(&self) -> Value {
        let mode = |mode: Mode| json!({"id": mode.as_str(), "name": mode.as_str(), "description": mode.description()});
        let all: Vec<Value> = Mode::ALL.into_iter().map(mode).collect();
        json!({"currentModeId": self.conduct.mode().as_str(), "availableModes": all})
    }

    /// Switches to the mode of that id, from the next call on.
    pub(super) async fn set_mode(&self, id: &str) -> RpcResult {
        let mode: Mode = id.parse().map_err(|error: UnknownMode| RpcError::invalid(error.to_string()))?;
        let refused = |error: ModeRefused| RpcError::invalid(error.to_string());
        self.conduct.set_mode(mode).await.map_err(refused)?;
        Ok(json!({}))
    }

    /// Prepares for a prompt: [`Self::stop`] works from now on.
    pub(super) fn expect_prompt(&self) -> Stoppable {
        let (stop, stopped) = oneshot::channel();
        let mut stops = self.stops.lock().unwrap_or_else(PoisonError::into_inner);
        stops.retain(|stop| !stop.is_closed());
        stops.push(stop);
        Stoppable(stopped)
    }

    /// Stops the prompt at work, and those that wait for it.
    pub(super) fn stop(&self) {
        let stops = std::mem::take(&mut *self.stops.lock().unwrap_or_else(PoisonError::into_inner));
        for stop in stops {
            // It may have ended in this moment.
            let _ = stop.send(());
        }
    }

    /// Tells the editor every message of the past.
    pub(super) async fn replay(&self) {
        let orchestrator = self.orchestrator.lock().await;
        let active = orchestrator.active().map(AgentId::as_str);
        let Some(conversation) = active.and_then(|id| orchestrator.conversation(id)) else { return };
        for message in conversation.messages() {
            self.updates.replay(message.message());
        }
    }

    /// Does what a prompt says, and returns why it ended.
    pub(super) async fn prompt(&self, event: Event, Stoppable(mut stopped): Stoppable) -> RpcResult {
        let mut orchestrator = self.orchestrator.lock().await;
        if !matches!(stopped.try_recv(), Err(oneshot::error::TryRecvError::Empty)) {
            // It was stopped while it waited for an earlier one: nothing of it has begun.
            return Ok(json!({"stopReason": "cancelled"}));
        }
        let work = async {
            match command(&event.value) {
                Some((name, rest)) => self.run_command(&mut orchestrator, name, rest).await.map(|()| None),
                None => self.run_planned(&mut orchestrator, event.clone()).await.map(Some),
            }
        };
        let outcome = tokio::select! {
            outcome = work => outcome,
            Ok(()) = stopped => {
                // Its future is dropped: what it started has ended.
                orchestrator.finish_cancelled().await;
                return Ok(json!({"stopReason": "cancelled"}));
            }
        };
        let reason = match outcome? {
            None => "end_turn",
            Some(report) => {
                if report.stop != StopReason::Done {
                    self.updates.say(&format!("\n\n[{}]", report.stop));
                }
                stop_word(&report.stop)
            }
        };
        Ok(json!({"stopReason": reason}))
    }

    /// Runs a turn. What it answers in the mode `plan` is a plan, which is carried out if the user approves.
    async fn run_planned(
        &self,
        orchestrator: &mut Orchestrator,
        event: Event,
    ) -> Result<RunReport, RpcError> {
        let report = self.run_turn(orchestrator, event).await?;
        if !may_be_plan(&report) || self.conduct.mode() != Mode::Plan {
            return Ok(report);
        }
        let steps = plan::steps_of(&report.response);
        self.updates.show_steps(steps.clone());
        let Some(mode) = self.approved_mode(&report.response).await else { return Ok(report) };
        // Only `auto` is ever refused.
        let _ = self.conduct.set_mode(mode).await;
        self.updates.send(json!({"sessionUpdate": "current_mode_update", "currentModeId": mode.as_str()}));
        let report = self.run_turn(orchestrator, Event::task(PLAN_APPROVAL)).await?;
        // An agent that shows its own steps has said which of them are done.
        if report.stop == StopReason::Done && self.updates.steps() == steps {
            let done = |step: TaskStep| TaskStep { status: StepStatus::Completed, ..step };
            self.updates.show_steps(steps.into_iter().map(done).collect());
        }
        Ok(report)
    }

    /// Asks whether a plan is to be carried out, and returns the mode for that.
    async fn approved_mode(&self, plan: &str) -> Option<Mode> {
        let call = json!({
            "toolCallId": "plan", "title": "Carry out this plan?", "kind": "switch_mode", "status": "pending",
            "content": [{"type": "content", "content": text_block(plan)}],
        });
        let option =
            |(id, name, kind): (&str, &str, &str)| json!({"optionId": id, "name": name, "kind": kind});
        let chosen = self.updates.choose(&call, &PLAN_OPTIONS.map(option)).await.ok()??;
        chosen.parse().ok().filter(|mode| matches!(mode, Mode::Ask | Mode::Edits))
    }

    async fn run_turn(
        &self,
        orchestrator: &mut Orchestrator,
        mut event: Event,
    ) -> Result<RunReport, RpcError> {
        let text = orchestrator.engine().services().expand(&event.value).await;
        event.value = text.map_err(|error| RpcError::new(error.to_string()))?;
        let report = match &self.agent {
            Some(agent) => orchestrator.wake(agent, &event).await,
            None => orchestrator.run(event).await,
        };
        report.map_err(|error| explain(error).into())
    }

    /// Runs a command of the session.
    async fn run_command(
        &self,
        orchestrator: &mut Orchestrator,
        name: &str,
        rest: &str,
    ) -> Result<(), RpcError> {
        let who = self.who(orchestrator);
        let failed = |error| RpcError::from(explain(error));
        match name {
            "compact" => {
                let focus = Focus::try_from(rest.to_owned()).ok().filter(|_| !rest.is_empty());
                let report = orchestrator.compact(&who, focus).await.map_err(failed)?;
                match &report.outcome {
                    // The event has told it.
                    Outcome::Applied { .. } => {
                        self.updates.say(&format!("Compacted: {}.", change(report.before, report.after)));
                    }
                    _ => self.updates.say("Nothing was compacted: nothing can leave the context."),
                }
            }
            "undo" => match orchestrator.undo(&who).await.map_err(failed)? {
                Some(undone) => {
                    self.updates.say(&format!("Undone: {}.", change(undone.before, undone.after)));
                }
                None => self.updates.say("There is no compaction to undo."),
            },
            _ => {
                let context = orchestrator.context(&who).await.map_err(failed)?;
                let next = match context.next {
                    NextCall::AsItIs => String::new(),
                    NextCall::Compacts(trigger) => format!("\nThe next call compacts first ({trigger})."),
                    NextCall::CannotFit => "\nThe next call cannot be made to fit.".to_owned(),
                };
                self.updates.say(&format!(
                    "{} of {} tokens are used, {} are kept for the answer, and {} are free. \
                     Compactions in force: {}. Model: {}.{next}",
                    with_separators(context.made_of.tokens),
                    with_separators(context.window),
                    with_separators(context.reserve),
                    with_separators(context.free()),
                    context.compactions,
                    context.model,
                ));
            }
        }
        Ok(())
    }

    /// Returns the agent whose conversation is meant.
    fn who(&self, orchestrator: &Orchestrator) -> String {
        let active = orchestrator.active().map(ToString::to_string);
        let first = || orchestrator.recipients().ok()?.first().map(|agent| agent.id.to_string());
        self.agent.clone().or(active).or_else(first).unwrap_or_default()
    }

    /// Saves and releases the run.
    pub(super) async fn close(&self) {
        self.stop();
        let mut orchestrator = self.orchestrator.lock().await;
        checkpoints::hand_back(&mut orchestrator, false).await;
        self.updates.end();
    }
}

/// Returns the command that a prompt is: its name and the rest.
fn command(text: &str) -> Option<(&'static str, &str)> {
    let rest = text.trim().strip_prefix('/')?;
    let (word, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    let known = COMMANDS.iter().find(|(name, ..)| *name == word)?;
    Some((known.0, rest.trim()))
}

/// Returns the protocol's word for the reason why a turn ended.
const fn stop_word(stop: &StopReason) -> &'static str {
    match stop {
        StopReason::Cut => "max_tokens",
        StopReason::Withheld | StopReason::Denied { .. } => "refusal",
        StopReason::MaxIterations(_)
        | StopReason::MaxTurns(_)
        | StopReason::MaxEvents(_)
        | StopReason::BudgetSpent(_) => "max_turn_requests",
        StopReason::Done
        | StopReason::NoAnswer
        | StopReason::Repeating { .. }
        | StopReason::Paused
        | StopReason::Waiting => "end_turn",
    }
}

/// Returns the commands for the editor's menu.
pub(super) fn commands_update() -> Value {
    let commands: Vec<Value> = COMMANDS
        .into_iter()
        .map(|(name, takes, about)| {
            let mut command = json!({"name": name, "description": about});
            if !takes.is_empty() {
                command["input"] = json!({"hint": takes});
            }
            command
        })
        .collect();
    json!({"sessionUpdate": "available_commands_update", "availableCommands": commands})
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_prompt_may_be_a_command() {
        for (text, expected) in [
            ("/compact the table", Some(("compact", "the table"))),
            (" /undo ", Some(("undo", ""))),
            ("/server:prompt x", None),
            ("/unknown", None),
            ("compact", None),
        ] {
            assert_eq!(command(text), expected, "{text}");
        }
    }
}
