//! Agents woken by events, each with a conversation of its own.

mod beginning;

mod live;

mod resuming;

use forge_domain::{Agent, AgentId, Conversation, Event};

use self::beginning::Begun;
pub use self::live::{ModelSwitch, RunStatistics, TakenBack};
use crate::conversations::{Conversations, Others};
use crate::course::Errand;
use crate::{Engine, RunError, RunEvent, RunReport, StopReason};

/// Wakes agents and keeps their conversations.
pub struct Orchestrator {
    engine: Engine,
    conversations: Conversations,
    /// Who is, or was last, at work.
    active: Option<AgentId>,
    /// When the work began that is not over yet.
    begun: Option<Begun>,
}

impl Orchestrator {
    /// An orchestrator of the agents of the engine's workflow.
    pub fn new(engine: Engine) -> Self {
        Self { engine, conversations: Conversations::default(), active: None, begun: None }
    }

    /// Runs `task` with the agents that subscribe to it or, where there is but one agent, with that one. The report
    /// adds up theirs; the response is that of the last agent woken.
    ///
    /// # Errors
    /// [`RunError`] where a step of any agent fails.
    pub async fn run(&mut self, task: impl Into<String>) -> Result<RunReport, RunError> {
        let event = Event::task(task);
        let agents = &self.engine.services().workflow.agents;
        match agents.iter().collect::<Vec<_>>().as_slice() {
            [only] if !only.subscribes_to(&event.name) => {
                let only = only.id.clone();
                self.wake(only.as_str(), &event).await
            }
            _ => self.dispatch(&event).await,
        }
    }

    /// Wakes every agent that subscribes to `event`, in the workflow's order. The report adds up theirs; the response
    /// is the last one's.
    ///
    /// # Errors
    /// [`RunError::NobodyListens`] where there is none; else as [`Self::run`].
    pub async fn dispatch(&mut self, event: &Event) -> Result<RunReport, RunError> {
        let agents = &self.engine.services().workflow.agents;
        let woken: Vec<Agent> =
            agents.iter().filter(|agent| agent.subscribes_to(&event.name)).cloned().collect();
        if woken.is_empty() {
            return Err(RunError::NobodyListens { event: event.name.clone() });
        }
        if let Some(denied) = self.begin(&woken, Some(event)).await {
            return Ok(denied);
        }
        let result = self.wake_all(&woken, event).await;
        let whole = |reports: Vec<RunReport>| reports.into_iter().reduce(RunReport::then);
        let result =
            result.map(|reports| whole(reports).unwrap_or_else(|| RunReport::empty(StopReason::Done)));
        self.end(&result).await;
        result
    }

    /// Wakes `agents`, one after the other.
    async fn wake_all(&mut self, agents: &[Agent], event: &Event) -> Result<Vec<RunReport>, RunError> {
        let mut reports = Vec::new();
        for (at, agent) in agents.iter().enumerate() {
            let waiting = agents[at + 1..].iter().map(|agent| agent.id.clone()).collect();
            reports.push(self.wake_before(agent, event, waiting).await?);
        }
        Ok(reports)
    }

    /// Wakes the agent named `id` with `event`, whether or not it subscribes to it.
    ///
    /// # Errors
    /// [`RunError::UnknownAgent`] where there is none of that name; else as [`Self::run`].
    pub async fn wake(&mut self, id: &str, event: &Event) -> Result<RunReport, RunError> {
        let agents = &self.engine.services().workflow.agents;
        let Some(agent) = agents.find(id).cloned() else {
            let known: Vec<&str> = agents.iter().map(|agent| agent.id.as_str()).collect();
            return Err(RunError::UnknownAgent { agent: id.to_owned(), known: known.join(", ") });
        };
        self.init_agent_with_event(&agent, event).await
    }

    /// Tells `agent` of `event` and runs its turn. Its first event also brings its system message.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub async fn init_agent_with_event(
        &mut self,
        agent: &Agent,
        event: &Event,
    ) -> Result<RunReport, RunError> {
        if let Some(denied) = self.begin(std::slice::from_ref(agent), Some(event)).await {
            return Ok(denied);
        }
        let result = self.wake_before(agent, event, Vec::new()).await;
        self.end(&result).await;
        result
    }

    /// Wakes `agent`; those who wait for their turn are remembered with its state.
    async fn wake_before(
        &mut self,
        agent: &Agent,
        event: &Event,
        waiting: Vec<AgentId>,
    ) -> Result<RunReport, RunError> {
        let Self { engine, conversations, active, .. } = self;
        let others = Others::new(conversations);
        let mut lent = others.lend(&agent.id);
        let work = &mut lent.work;
        *active = Some(agent.id.clone());
        let conversation = &work.conversation;
        let n_turns = conversation.messages().filter(|message| message.starts_turn()).count();
        if let Some(limit) = agent.max_turns.filter(|limit| n_turns >= limit.get()) {
            engine.tell(&RunEvent::Woken { agent: &agent.id });
            return Ok(refused_turn(engine, StopReason::MaxTurns(limit.get())));
        }
        work.course.asked_by = None;
        let errand = (!waiting.is_empty()).then(|| Errand { event: event.clone(), waiting });
        engine.tell_and_run(agent, event, work, &others, errand).await
    }

    /// The conversation of the agent named `id`, once it has woken.
    pub fn conversation(&self, id: &str) -> Option<&Conversation> {
        self.conversations.find(id)
    }
}

fn refused_turn(engine: &Engine, stop: StopReason) -> RunReport {
    engine.tell(&RunEvent::Stopped(&stop));
    RunReport::empty(stop)
}
