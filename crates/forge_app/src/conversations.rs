//! The work of a run's agents, each agent's lent to it while it works.

use std::collections::{BTreeMap, BTreeSet};

use forge_domain::{AgentId, Conversation};

use crate::course::Course;

/// The work of one agent.
#[derive(Debug, Default)]
pub(crate) struct Work {
    pub(crate) conversation: Conversation,
    pub(crate) course: Course,
}

/// The work of agents, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    kept: BTreeMap<AgentId, Work>,
    /// Agents that work right now; their work is not here, and they are not woken again until they are done.
    at_work: BTreeSet<AgentId>,
}

impl Conversations {
    /// Those of a run in which `agent` works on a conversation that is kept elsewhere.
    pub(crate) fn besides(agent: &AgentId) -> Self {
        Self { kept: BTreeMap::new(), at_work: BTreeSet::from([agent.clone()]) }
    }

    /// The conversation of the agent named `id`, once it has woken.
    pub(crate) fn find(&self, id: &str) -> Option<&Conversation> {
        self.kept.get(id).map(|work| &work.conversation)
    }

    /// The work of the agent named `id`, where it is not lent.
    pub(crate) fn work(&self, id: &AgentId) -> Option<&Work> {
        self.kept.get(id)
    }

    /// The work of every agent, where it is not lent.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&AgentId, &mut Work)> {
        self.kept.iter_mut()
    }

    /// Puts in what an agent has done before.
    pub(crate) fn put(&mut self, agent: AgentId, work: Work) {
        self.kept.insert(agent, work);
    }

    /// Whether the agent works right now.
    pub(crate) fn is_at_work(&self, agent: &AgentId) -> bool {
        self.at_work.contains(agent)
    }

    /// Lends the agent its work, new where it has none.
    pub(crate) fn lend(&mut self, agent: &AgentId) -> Lent<'_> {
        let work = self.kept.remove(agent).unwrap_or_default();
        let is_outermost = self.at_work.insert(agent.clone());
        Lent { others: self, agent: agent.clone(), work, is_outermost }
    }
}

/// What its agent works on. It goes back when this is dropped, in the middle of the work too.
pub(crate) struct Lent<'a> {
    /// The others, for agents that this one needs.
    pub(crate) others: &'a mut Conversations,
    /// The agent's own.
    pub(crate) work: Work,
    agent: AgentId,
    is_outermost: bool,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.others.kept.insert(self.agent.clone(), std::mem::take(&mut self.work));
        if self.is_outermost {
            self.others.at_work.remove(&self.agent);
        }
    }
}
