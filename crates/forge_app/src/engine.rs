//! The world that turns run in: ports, hooks and checkpoints, and what all turns of a run share.

mod agent_services;
mod catalog;
mod checkpoints;
mod conduct;
mod consents;
mod context;
mod events;
mod hooks;
mod ledger;
mod limits;
mod setup;

pub(crate) use self::agent_services::AgentServices;
pub use self::catalog::known_model;
pub(crate) use self::checkpoints::{
    AgentState, is_over, newest_first, note_unstarted, open_calls, settle_waiting_calls, was_stopped,
};
pub use self::conduct::{Conduct, ModeRefused, SandboxCheck};
pub use self::consents::Consents;
pub(crate) use self::consents::NoConsent;
pub use self::context::{LiveContext, NextCall};
pub(crate) use self::events::silent_watcher;
pub(crate) use self::hooks::{deliver_notice, with_notice};
pub(crate) use self::ledger::{expense, is_absurd, usage_of_call};
pub(crate) use self::setup::{PromptLimits, Setup, offered_tools, recall_tools};

use std::sync::Arc;

use forge_domain::compaction::ContextCompactor;
use forge_domain::{
    Agent, AgentId, ContextMessage, Conversation, Message, MessageId, Overspend, Price, Spent, Tokens,
    ToolDefinition,
};
use forge_services::workflow::all_callees;

use self::catalog::Catalog;
use self::events::Events;
use self::ledger::Ledger;
use self::limits::Limits;
use crate::actions::ActionLog;
use crate::checkpointing::Checkpointing;
use crate::emission::{EMIT, emit_definition};
use crate::{Hooks, RunError, Services, Watcher};

/// The world that turns run in. Clones share everything but the watcher.
#[derive(Clone)]
pub struct Engine {
    pub(crate) services: Services,
    pub(crate) compactor: ContextCompactor,
    pub(crate) hooks: Hooks,
    pub(crate) events: Events,
    checkpointing: Option<Arc<Checkpointing>>,
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) ledger: Arc<Ledger>,
    /// The user's decisions in advance, and the pace.
    pub conduct: Arc<Conduct>,
    /// The user's consents during the run.
    pub consents: Arc<Consents>,
    pub(crate) limits: Arc<Limits>,
    pub(crate) actions: ActionLog,
    /// True if replies come from a recording, which are used as they are.
    pub(crate) is_playback: bool,
}

impl Engine {
    /// Creates an engine that fits contexts with `compactor` and reports events to `watcher`.
    pub fn new(services: Services, compactor: ContextCompactor, watcher: Watcher) -> Self {
        Self {
            services,
            compactor,
            hooks: Hooks::new(),
            events: Events::new(watcher),
            checkpointing: None,
            catalog: Arc::default(),
            ledger: Arc::default(),
            conduct: Arc::default(),
            consents: Arc::default(),
            limits: Arc::default(),
            actions: ActionLog::default(),
            is_playback: false,
        }
    }

    /// Uses replies as they were recorded: no flawed one is asked for again.
    #[must_use]
    pub(crate) fn for_playback(self) -> Self {
        Self { is_playback: true, ..self }
    }

    /// Asks and notifies `hooks`.
    #[must_use]
    pub fn with_hooks(self, hooks: Hooks) -> Self {
        Self { hooks, ..self }
    }

    /// Logs what the engine does in `actions`, if it saves checkpoints.
    #[must_use]
    pub fn with_actions(self, actions: ActionLog) -> Self {
        if let Some(checkpointing) = &self.checkpointing {
            actions.keep_with(checkpointing);
        }
        Self { actions, ..self }
    }

    /// Returns a clone for `agent`, whose watcher does not see what models write: that is for the agent that
    /// asked for it, not for the user.
    pub(crate) fn quiet(&self, agent: &AgentId) -> Self {
        Self { events: self.events.quiet(agent), ..self.clone() }
    }

    /// Returns the ports.
    pub const fn services(&self) -> &Services {
        &self.services
    }

    /// Counts `message`, adds the time and appends it to `conversation`.
    pub fn append(&self, conversation: &mut Conversation, message: Message) -> MessageId {
        let message = match &self.services.clock {
            Some(clock) if message.timestamp.is_none() => message.at(clock.now()),
            _ => message,
        };
        conversation.append(ContextMessage::count(message, &*self.services.counter))
    }

    /// Returns the definitions of the tools of `agent`.
    ///
    /// # Errors
    /// [`RunError::Tools`] if one of them is unknown.
    pub fn tools(&self, agent: &Agent) -> Result<Vec<ToolDefinition>, RunError> {
        let definitions = self.services.callable(agent.tools.as_deref().unwrap_or_default());
        let mut definitions =
            definitions.map_err(|source| RunError::Tools { agent: agent.id.to_string(), source })?;
        if definitions.iter().all(|tool| tool.name.as_str() != EMIT) {
            definitions.extend(emit_definition(agent));
        }
        Ok(definitions)
    }

    /// Checks that the models of `agent`, and of the agents that it can call, can be asked: that their keys
    /// are there. A summarizer that cannot be asked only causes a notice, since compactions work without one.
    ///
    /// # Errors
    /// [`RunError::Provider`] if a model cannot be asked.
    pub(crate) fn check_models(&self, agent: &Agent) -> Result<(), RunError> {
        for needed in all_callees(&self.services.workflow, agent).into_iter().chain([agent]) {
            if let Some(model) = &needed.model {
                self.services.check_model(model).map_err(RunError::Provider)?;
            }
        }
        let summarizer = agent.compact.as_ref().and_then(|compact| compact.model.as_ref());
        if let Some(Err(error)) = summarizer.map(|model| self.services.check_model(model)) {
            self.events.notice_once(&format!(
                "{error}; until then the agent `{}` compacts without summaries",
                agent.id
            ));
        }
        Ok(())
    }

    /// Checks that a prompt of `tokens` exceeds neither the agent's budget nor that of the whole run.
    ///
    /// # Errors
    /// The [`Overspend`].
    pub(crate) fn check_budget(
        &self,
        agent: &Agent,
        tokens: Tokens,
        price: Option<&Price>,
    ) -> Result<(), Overspend> {
        let spent = || self.ledger.spent_in_lanes(&agent.id);
        let own = agent.budget.and_then(|budget| budget.overspent(spent(), tokens, price));
        let whole = || self.services.workflow.budget?.overspent(self.spent(), tokens, price);
        own.or_else(whole).map_or(Ok(()), Err)
    }

    /// Returns why the last state of a session is not in its file; `None` if all are.
    pub fn unrecorded(&self) -> Option<String> {
        self.events.unrecorded()
    }

    /// Returns what the run has spent until now, all agents together.
    pub fn spent(&self) -> Spent {
        self.ledger.total()
    }
}
