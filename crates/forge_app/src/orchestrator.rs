//! Agents woken by events, each with a conversation of its own.

mod beginning;

mod live;

mod resuming;

use forge_domain::{Agent, AgentId, Conversation, Event, TASK_EVENT};
use forge_services::workflow::all_callees;

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

    /// Runs `task` with the agents that subscribe to it or, if none does, with the only agent that no other agent calls. The
    /// report adds up theirs; the response is that of the last agent woken.
    ///
    /// # Errors
    /// [`RunError`] where a step of any agent fails.
    pub async fn run(&mut self, task: impl Into<String>) -> Result<RunReport, RunError> {
        let event = Event::task(task);
        let woken = self.recipients()?;
        self.wake_together(&woken, &event).await
    }

    /// The agents that a task is for: those that subscribe to it or, if none does, the only agent that no other agent calls.
    ///
    /// # Errors
    /// [`RunError::NobodyListens`] if it could be any of several.
    pub fn recipients(&self) -> Result<Vec<Agent>, RunError> {
        let workflow = &self.engine.services().workflow;
        self.subscribers(TASK_EVENT).or_else(|nobody| {
            let is_called = |id: &AgentId| {
                workflow.agents.iter().filter(|caller| caller.id != *id).any(|caller| {
                    let mut transforms = caller.transforms.iter().flatten();
                    all_callees(workflow, caller).into_iter().any(|callee| callee.id == *id)
                        || transforms.any(|transform| transform.agent_id() == id)
                })
            };
            let uncalled: Vec<&Agent> =
                workflow.agents.iter().filter(|agent| !is_called(&agent.id)).collect();
            if let [only] = uncalled[..] { Ok(vec![only.clone()]) } else { Err(nobody) }
        })
    }

    /// Checks that those can be asked whom a task, or the agent named `id`, would be for; nothing is sent.
    ///
    /// # Errors
    /// [`RunError::Provider`] if a key is missing; [`RunError::UnknownAgent`] and as [`Self::recipients`].
    pub fn check(&self, id: Option<&str>) -> Result<(), RunError> {
        let agents = match id {
            Some(id) => vec![self.named(id)?],
            None => self.recipients()?,
        };
        agents.iter().try_for_each(|agent| self.engine.check_models(agent))
    }

    /// The agents that subscribe to the event of that name, in the workflow's order.
    fn subscribers(&self, event: &str) -> Result<Vec<Agent>, RunError> {
        let agents = &self.engine.services().workflow.agents;
        let found: Vec<Agent> = agents.iter().filter(|agent| agent.subscribes_to(event)).cloned().collect();
        if found.is_empty() {
            return Err(RunError::NobodyListens { event: event.to_owned(), known: self.names() });
        }
        Ok(found)
    }

    fn names(&self) -> String {
        let agents = &self.engine.services().workflow.agents;
        agents.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn named(&self, id: &str) -> Result<Agent, RunError> {
        let found = self.engine.services().workflow.agents.find(id).cloned();
        found.ok_or_else(|| RunError::UnknownAgent { agent: id.to_owned(), known: self.names() })
    }

    /// Wakes every agent that subscribes to `event`, in the workflow's order. The report adds up theirs; the response
    /// is the last one's.
    ///
    /// # Errors
    /// [`RunError::NobodyListens`] where there is none; else as [`Self::run`].
    pub async fn dispatch(&mut self, event: &Event) -> Result<RunReport, RunError> {
        let woken = self.subscribers(&event.name)?;
        self.wake_together(&woken, event).await
    }

    /// Wakes `woken` one after the other, as one run.
    async fn wake_together(&mut self, woken: &[Agent], event: &Event) -> Result<RunReport, RunError> {
        woken.iter().try_for_each(|agent| self.engine.check_models(agent))?;
        if let Some(denied) = self.begin(woken, Some(event)).await {
            return Ok(denied);
        }
        let result = self.wake_all(woken, event).await;
        let whole = |reports: Vec<RunReport>| reports.into_iter().reduce(RunReport::beside);
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
        let agent = self.named(id)?;
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
        self.engine.check_models(agent)?;
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
