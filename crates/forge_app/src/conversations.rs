//! The conversations of a run's agents, each lent to its agent while that works.

use std::collections::{BTreeMap, BTreeSet};

use forge_domain::{AgentId, Conversation};

/// The conversations of agents, by their ids.
#[derive(Debug, Default)]
pub(crate) struct Conversations {
    kept: BTreeMap<AgentId, Conversation>,
    /// Agents that work right now; their conversations are not here, and they are not woken again until they are done.
    at_work: BTreeSet<AgentId>,
}

impl Conversations {
    /// Those of a run in which `agent` works on a conversation that is kept elsewhere.
    pub(crate) fn besides(agent: &AgentId) -> Self {
        Self { kept: BTreeMap::new(), at_work: BTreeSet::from([agent.clone()]) }
    }

    /// The conversation of the agent named `id`, once it has woken.
    pub(crate) fn find(&self, id: &str) -> Option<&Conversation> {
        self.kept.get(id)
    }

    /// Whether the agent works right now.
    pub(crate) fn is_at_work(&self, agent: &AgentId) -> bool {
        self.at_work.contains(agent)
    }

    /// Lends the agent its conversation, a new one where it has none.
    pub(crate) fn lend(&mut self, agent: &AgentId) -> Lent<'_> {
        let conversation = self.kept.remove(agent).unwrap_or_default();
        let is_outermost = self.at_work.insert(agent.clone());
        Lent { others: self, agent: agent.clone(), conversation, is_outermost }
    }
}

/// A conversation that its agent works on. It goes back when this is dropped, in the middle of the work too.
pub(crate) struct Lent<'a> {
    /// The others, for agents that this one needs.
    pub(crate) others: &'a mut Conversations,
    /// The agent's own.
    pub(crate) conversation: Conversation,
    agent: AgentId,
    is_outermost: bool,
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        self.others.kept.insert(self.agent.clone(), std::mem::take(&mut self.conversation));
        if self.is_outermost {
            self.others.at_work.remove(&self.agent);
        }
    }
}
