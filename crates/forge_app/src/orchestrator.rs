//! Agents that events start, each with its own conversation.

mod adoption;
mod emission;
mod lifecycle;
mod operations;
mod resumption;
mod roster;
mod slices;

use forge_domain::{Agent, AgentId, Conversation, Event};

pub use self::adoption::{Adopted, History, HistoryNote};
use self::emission::conclude;
use self::lifecycle::Lifecycle;
pub use self::operations::{ModelSwitch, RunStatistics, TakenBack};
use self::roster::Roster;
pub use self::slices::{Slice, SliceEnd, SlicedRun};
use crate::conversations::{Conversations, Others};
use crate::course::Errand;
use crate::turn::Assignment;
use crate::{Engine, RunError, RunEvent, RunReport, StopReason};

/// The agents of a run, and their conversations.
pub struct Orchestrator {
    engine: Engine,
    conversations: Conversations,
    /// The agent that is, or was last, at work.
    active: Option<AgentId>,
    /// The agent whose event the agents run on, and the number of its events that were taken with that.
    taken: Option<(AgentId, u64)>,
    lifecycle: Lifecycle,
}

impl Orchestrator {
    /// Creates an orchestrator of the agents of the engine's workflow.
    pub fn new(engine: Engine) -> Self {
        Self {
            engine,
            conversations: Conversations::default(),
            active: None,
            taken: None,
            lifecycle: Lifecycle::default(),
        }
    }

    /// Runs `task`, a text or the event of one with images, with the agents that subscribe to it or, if none
    /// does, with the first agent that no other agent calls. The report adds up theirs; the response is that
    /// of the last agent.
    ///
    /// # Errors
    /// [`RunError`] if a step of any agent fails.
    pub async fn run(&mut self, task: impl Into<Event>) -> Result<RunReport, RunError> {
        let event = task.into();
        let agents = self.recipients()?;
        self.run_together(&agents, &event).await
    }

    /// Returns the agents that a task is for: those that subscribe to it or, if none does, the first agent
    /// that no other agent calls.
    ///
    /// # Errors
    /// [`RunError::NobodyListens`] if there is none.
    pub fn recipients(&self) -> Result<Vec<Agent>, RunError> {
        self.roster().recipients()
    }

    /// Checks that the models can be asked of those whom a task, or the agent named `id`, would be for.
    /// Nothing is sent.
    ///
    /// # Errors
    /// [`RunError::Provider`] if a key is missing; [`RunError::UnknownAgent`]; else see [`Self::recipients`].
    pub fn check(&self, id: Option<&str>) -> Result<(), RunError> {
        let agents = match id {
            Some(id) => vec![self.roster().find(id)?],
            None => self.recipients()?,
        };
        agents.iter().try_for_each(|agent| self.engine.check_models(agent))
    }

    /// Runs every agent that subscribes to `event`, in the workflow's order. The report adds up theirs; the
    /// response is the last one's.
    ///
    /// # Errors
    /// [`RunError::NobodyListens`] if no agent subscribes to it; otherwise as for [`Self::run`].
    pub async fn dispatch(&mut self, event: &Event) -> Result<RunReport, RunError> {
        let agents = self.roster().subscribers(&event.name)?;
        self.run_together(&agents, event).await
    }

    /// Runs the agent named `id` on `event`, even if it does not subscribe to it.
    ///
    /// # Errors
    /// [`RunError::UnknownAgent`] if no agent has that name; otherwise as for [`Self::run`].
    pub async fn wake(&mut self, id: &str, event: &Event) -> Result<RunReport, RunError> {
        let agent = self.roster().find(id)?;
        self.init_agent_with_event(&agent, event).await
    }

    /// Appends `event` to the conversation of `agent` and runs its turn. Its first event also brings its
    /// system message.
    ///
    /// # Errors
    /// See [`Self::run`].
    pub async fn init_agent_with_event(
        &mut self,
        agent: &Agent,
        event: &Event,
    ) -> Result<RunReport, RunError> {
        self.run_together(std::slice::from_ref(agent), event).await
    }

    /// Returns the conversation of the agent named `id`, if it has started.
    pub fn conversation(&self, id: &str) -> Option<&Conversation> {
        self.conversations.find(id)
    }

    /// Runs `agents` one after the other, as one run.
    async fn run_together(&mut self, agents: &[Agent], event: &Event) -> Result<RunReport, RunError> {
        // A turn that was dropped has left it.
        self.taken = None;
        agents.iter().try_for_each(|agent| self.engine.check_models(agent))?;
        if !event.images.is_empty() {
            agents.iter().try_for_each(|agent| self.engine.services.check_images(agent))?;
        }
        if let Some(denied) = self.lifecycle.begin(&self.engine, agents, Some(event)).await {
            return Ok(denied);
        }
        let result = self.run_each(agents, event, None).await;
        conclude(self, result).await
    }

    /// Runs `agents` one after the other, and adds their reports to that of an `earlier` one.
    async fn run_each(
        &mut self,
        agents: &[Agent],
        event: &Event,
        earlier: Option<RunReport>,
    ) -> Result<RunReport, RunError> {
        let mut whole = earlier;
        for (at, agent) in agents.iter().enumerate() {
            let waiting = agents[at + 1..].iter().map(|agent| agent.id.clone()).collect();
            let latest = self.run_agent(agent, event, waiting).await?;
            let is_pause = latest.stop.is_pause();
            whole = Some(match whole {
                Some(whole) => whole.beside(latest),
                None => latest,
            });
            // The others wait with the one that paused, in its errand.
            if is_pause {
                break;
            }
        }
        Ok(whole.unwrap_or_else(|| RunReport::empty(StopReason::Done)))
    }

    /// Runs `agent` on `event`. The agents that wait for their turn are saved with its state.
    async fn run_agent(
        &mut self,
        agent: &Agent,
        event: &Event,
        waiting: Vec<AgentId>,
    ) -> Result<RunReport, RunError> {
        let Self { engine, conversations, active, taken, .. } = self;
        let others = &Others::new(conversations);
        let mut lent = others.lend(&agent.id);
        let work = &mut lent.work;
        work.course.events.took.extend(taken.clone());
        *active = Some(agent.id.clone());
        let n_turns = work.conversation.messages().filter(|message| message.starts_turn()).count();
        if let Some(limit) = agent.max_turns.filter(|limit| n_turns >= limit.get()) {
            let stop = StopReason::MaxTurns(limit.get());
            engine.events.emit(&RunEvent::Woken { agent: &agent.id });
            engine.events.emit(&RunEvent::Stopped(&stop));
            return Ok(RunReport::empty(stop));
        }
        work.course.asked_by = None;
        let errand = (!waiting.is_empty()).then(|| Errand { event: event.clone(), waiting });
        Assignment { engine, agent, work, others }.run_event(event, errand).await
    }

    fn roster(&self) -> Roster<'_> {
        Roster(&self.engine.services().workflow)
    }
}
