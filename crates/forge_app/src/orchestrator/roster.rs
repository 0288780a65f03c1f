//! The agents of a workflow, by their names and by the events that are for them.

use forge_domain::{Agent, AgentId, TASK_EVENT, Workflow};
use forge_services::workflow::all_callees;

use crate::RunError;

/// The agents of a workflow.
pub(super) struct Roster<'a>(pub(super) &'a Workflow);

impl Roster<'_> {
    /// Returns the agent named `id`.
    ///
    /// # Errors
    /// [`RunError::UnknownAgent`].
    pub(super) fn find(&self, id: &str) -> Result<Agent, RunError> {
        self.0.agents.find(id).cloned().ok_or_else(|| self.unknown(id))
    }

    /// Returns the agent that works as `id`, which may be a lane.
    ///
    /// # Errors
    /// [`RunError::UnknownAgent`].
    pub(super) fn working_as(&self, id: &str) -> Result<Agent, RunError> {
        let working = AgentId::new(id).ok().and_then(|id| self.0.agents.for_lane(&id));
        working.ok_or_else(|| self.unknown(id))
    }

    /// Returns the agents that subscribe to `event`, in the workflow's order.
    ///
    /// # Errors
    /// [`RunError::NobodyListens`] if no agent subscribes to it.
    pub(super) fn subscribers(&self, event: &str) -> Result<Vec<Agent>, RunError> {
        let agents = self.0.agents.iter().filter(|agent| agent.subscribes_to(event));
        let found: Vec<Agent> = agents.cloned().collect();
        if found.is_empty() {
            return Err(RunError::NobodyListens { event: event.to_owned(), known: self.names() });
        }
        Ok(found)
    }

    /// Returns the agents that a task is for: those that subscribe to it or, if none does, the first agent
    /// that no other agent calls.
    ///
    /// # Errors
    /// [`RunError::NobodyListens`] if there is none.
    pub(super) fn recipients(&self) -> Result<Vec<Agent>, RunError> {
        self.subscribers(TASK_EVENT).or_else(|error| {
            let first = self.0.agents.iter().find(|agent| !self.is_called(&agent.id));
            first.map(|first| vec![first.clone()]).ok_or(error)
        })
    }

    /// Checks whether another agent calls the one named `id`, or names it in a transform.
    fn is_called(&self, id: &AgentId) -> bool {
        self.0.agents.iter().filter(|caller| caller.id != *id).any(|caller| {
            let mut transforms = caller.transforms.iter().flatten();
            all_callees(self.0, caller).into_iter().any(|callee| callee.id == *id)
                || transforms.any(|transform| transform.agent_id() == id)
        })
    }

    fn names(&self) -> String {
        self.0.agents.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>().join(", ")
    }

    fn unknown(&self, id: &str) -> RunError {
        RunError::UnknownAgent { agent: id.to_owned(), known: self.names() }
    }
}
