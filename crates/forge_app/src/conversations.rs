//! The work of a run's agents, which is lent to each agent while it works.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

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
    /// Agents that work right now. Their work is lent, and they are not started again until they are done.
    at_work: BTreeSet<AgentId>,
}

impl Conversations {
    /// Creates the work of a run in which `agent` works on a conversation that is stored elsewhere.
    pub(crate) fn besides(agent: &AgentId) -> Self {
        Self { kept: BTreeMap::new(), at_work: BTreeSet::from([agent.clone()]) }
    }

    /// Returns the conversation of the agent named `id`, if it has started.
    pub(crate) fn find(&self, id: &str) -> Option<&Conversation> {
        self.kept.get(id).map(|work| &work.conversation)
    }

    /// Returns the work of the agent named `id`, unless it is lent.
    pub(crate) fn work(&self, id: &AgentId) -> Option<&Work> {
        self.kept.get(id)
    }

    /// Returns the work of the agent named `id`, to be changed, unless it is lent.
    pub(crate) fn work_mut(&mut self, id: &AgentId) -> Option<&mut Work> {
        self.kept.get_mut(id)
    }

    /// Iterates over the work of every agent, unless it is lent.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&AgentId, &Work)> {
        self.kept.iter()
    }

    /// Iterates over the work of every agent, unless it is lent.
    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (&AgentId, &mut Work)> {
        self.kept.iter_mut()
    }

    /// Takes the events that were taken before they were saved as taken.
    pub(crate) fn take_what_was_taken(&mut self) {
        let took = self.kept.values().flat_map(|work| work.course.events.took.clone());
        for (agent, n) in took.collect::<Vec<_>>() {
            let Some(work) = self.kept.get_mut(&agent) else { continue };
            while work.course.events.n_taken < n && work.course.events.take().is_some() {}
        }
    }

    /// Inserts the earlier work of an agent.
    pub(crate) fn put(&mut self, agent: AgentId, work: Work) {
        self.kept.insert(agent, work);
    }
}

/// The work of a run's agents while some of them work: each borrows its own, also concurrently.
pub(crate) struct Others<'a>(Mutex<&'a mut Conversations>);

impl<'a> Others<'a> {
    /// Shares `conversations`.
    pub(crate) fn new(conversations: &'a mut Conversations) -> Self {
        Self(Mutex::new(conversations))
    }

    /// Checks whether the agent works right now.
    pub(crate) fn is_at_work(&self, agent: &AgentId) -> bool {
        self.desk().at_work.contains(agent)
    }

    /// Lends the agent its work, which is new if it has none.
    pub(crate) fn lend(&self, agent: &AgentId) -> Lent<'_, 'a> {
        let mut desk = self.desk();
        let work = desk.kept.remove(agent).unwrap_or_default();
        let is_outermost = desk.at_work.insert(agent.clone());
        drop(desk);
        Lent { others: self, agent: agent.clone(), work, is_outermost }
    }

    /// Lends the work of a free lane of the agent: of the first with work that `is_wanted`, or else of the
    /// first whose work does not wait to be resumed.
    pub(crate) fn lend_lane(&self, agent: &AgentId, is_wanted: impl Fn(&Work) -> bool) -> Lent<'_, 'a> {
        let mut desk = self.desk();
        let lanes = || (1..).map(|n| agent.lane(n));
        let is_free = |lane: &AgentId| !desk.at_work.contains(lane);
        let begun = lanes().take_while(|lane| desk.kept.contains_key(lane) || !is_free(lane));
        let wanted = begun.filter(is_free).find(|lane| desk.kept.get(lane).is_some_and(&is_wanted));
        let is_paused =
            |lane: &AgentId| desk.kept.get(lane).is_some_and(|work| work.course.dialogue.is_paused);
        let any = || lanes().find(|lane| is_free(lane) && !is_paused(lane));
        let lane = wanted.or_else(any).unwrap_or_else(|| agent.clone());
        let work = desk.kept.remove(&lane).unwrap_or_default();
        let is_outermost = desk.at_work.insert(lane.clone());
        drop(desk);
        Lent { others: self, agent: lane, work, is_outermost }
    }

    fn desk(&self) -> MutexGuard<'_, &'a mut Conversations> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The work of one agent, lent to it. It is returned when this is dropped, even during a turn.
pub(crate) struct Lent<'o, 'a> {
    /// The agent's work.
    pub(crate) work: Work,
    others: &'o Others<'a>,
    agent: AgentId,
    is_outermost: bool,
}

impl Lent<'_, '_> {
    /// Returns the agent, or the lane.
    pub(crate) const fn agent(&self) -> &AgentId {
        &self.agent
    }
}

impl Drop for Lent<'_, '_> {
    fn drop(&mut self) {
        let mut desk = self.others.desk();
        let work = std::mem::take(&mut self.work);
        // An agent that was only inspected has not started.
        if !work.conversation.entries().is_empty() {
            desk.kept.insert(self.agent.clone(), work);
        }
        if self.is_outermost {
            desk.at_work.remove(&self.agent);
        }
    }
}
