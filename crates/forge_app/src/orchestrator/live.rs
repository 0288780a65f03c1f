//! What can be done with a run between its turns: looking at a conversation, compacting it, taking a compaction back, giving its
//! agent another model, and making it whole after a turn was dropped in the middle.
//!
//! Each works on the conversation of one agent, named by its id; an agent that has not woken yet has an empty one.

use forge_domain::compaction::{CompactionReport, Focus};
use forge_domain::{
    Agent, AgentId, CheckpointFilter, CheckpointInfo, EntryId, ModelId, ModelRef, Progress, Size, Spent,
    StoreError,
};
use serde::Serialize;

use super::Orchestrator;
use crate::checkpointing::Point;
use crate::conversations::{Others, Work};
use crate::{Engine, LiveContext, NextCall, RunError};

/// What taking a compaction back did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TakenBack {
    /// The compaction.
    pub undone: EntryId,
    /// The view before.
    pub before: Size,
    /// The view after.
    pub after: Size,
    /// What the next call would do: where it compacts again, what made it due still holds.
    pub next: NextCall,
}

/// An agent's change to another model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelSwitch {
    /// The model before; `None` where the agent had none that leads to a provider.
    pub from: Option<ModelRef>,
    /// What fills the new model's window; a smaller one may compact before the next call.
    pub context: LiveContext,
}

/// What a run took until now, in whatever process.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunStatistics {
    /// Calls to models, those for summaries apart.
    pub calls: usize,
    /// Requests sent to summarisers.
    pub summary_calls: usize,
    /// What all of them consumed and cost.
    pub spent: Spent,
    /// The counters of each agent that has woken, by its id or lane.
    pub agents: Vec<(AgentId, Progress)>,
}

impl Orchestrator {
    /// Who is, or was last, at work; `None` before the first turn.
    pub const fn active(&self) -> Option<&AgentId> {
        self.active.as_ref()
    }

    /// The engine that runs the turns.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What fills the window of the agent named `id`.
    ///
    /// # Errors
    /// [`RunError::UnknownAgent`]; else where the agent cannot work as it is configured.
    pub async fn context(&mut self, id: &str) -> Result<LiveContext, RunError> {
        let agent = self.agent(id)?;
        let Self { engine, conversations, .. } = self;
        let others = Others::new(conversations);
        let lent = others.lend(&agent.id);
        engine.context(&agent, &lent.work.conversation).await
    }

    /// Compacts the conversation of the agent named `id` now, whether or not that is due: to the target of its `compact` block,
    /// or to half of its tokens where that is less. Hooks may deny or edit it, it is kept and can be taken back like any other;
    /// `focus` counts instead of the block's. A denial, or that nothing can go, is no error but an outcome.
    ///
    /// # Errors
    /// As of [`Self::context`]. The conversation is as it was then.
    pub async fn compact(&mut self, id: &str, focus: Option<Focus>) -> Result<CompactionReport, RunError> {
        let agent = self.agent(id)?;
        let Self { engine, conversations, .. } = self;
        let others = Others::new(conversations);
        let mut lent = others.lend(&agent.id);
        let Work { conversation, course } = &mut lent.work;
        engine.compact_asked(&agent, conversation, course, focus).await
    }

    /// Takes the latest compaction in force of the agent named `id` back: what it had absorbed is in force again, so that doing
    /// it again takes off layer after layer. `None` where none is in force. The state is kept.
    ///
    /// # Errors
    /// As of [`Self::context`]. The compaction is taken back all the same where only the look at the next call fails.
    pub async fn undo(&mut self, id: &str) -> Result<Option<TakenBack>, RunError> {
        let agent = self.agent(id)?;
        let Self { engine, conversations, .. } = self;
        let others = Others::new(conversations);
        let mut lent = others.lend(&agent.id);
        let Work { conversation, course } = &mut lent.work;
        let before = conversation.view().size();
        let Some(undone) = conversation.undo() else { return Ok(None) };
        let after = conversation.view().size();
        engine.keep(&agent, conversation, course, Point::Undone(undone)).await;
        let next = engine.context(&agent, conversation).await?.next;
        Ok(Some(TakenBack { undone, before, after, next }))
    }

    /// Has the agent named `id` ask `model` from now on: what is known of it, its price where a budget in money applies, and
    /// whether the agent's `compact` block works in its room are checked first. The next checkpoint says so.
    ///
    /// # Errors
    /// As of [`Self::context`], of the new model; the agent then keeps the old one.
    pub async fn switch_model(&mut self, id: &str, model: ModelId) -> Result<ModelSwitch, RunError> {
        let before = self.agent(id)?;
        let from = before.model.as_ref().and_then(|id| self.engine.services().workflow.model(id).ok());
        let agent = Agent { model: Some(model), ..before };
        let Self { engine, conversations, .. } = self;
        let others = Others::new(conversations);
        let mut lent = others.lend(&agent.id);
        let context = engine.context(&agent, &lent.work.conversation).await?;
        let configuration = engine.configuration(&agent)?;
        lent.work.course.configuration = Some(configuration);
        drop(lent);
        engine.configure(&agent);
        Ok(ModelSwitch { from: from.map(|model| model.reference), context })
    }

    /// Makes every conversation whole after the future of a turn was dropped in the middle: calls that were open are answered,
    /// with their results where these were there, and nothing of it is called again. The state is kept, and the hooks are told that
    /// the run was interrupted. The next turn goes on from there.
    pub async fn cancelled(&mut self) {
        let Self { engine, conversations, .. } = self;
        for (_, Work { conversation, course }) in conversations.iter_mut() {
            engine.settle(conversation, course);
        }
        self.interrupted().await;
    }

    /// What the run took until now.
    pub fn statistics(&self) -> RunStatistics {
        let mut statistics = RunStatistics { spent: self.engine.spent(), ..RunStatistics::default() };
        for (id, Work { course, .. }) in self.conversations.iter() {
            let progress = Progress { spent: self.engine.spent_by(id), ..course.progress.clone() };
            statistics.calls += progress.iterations;
            statistics.summary_calls += progress.summary_calls;
            statistics.agents.push((id.clone(), progress));
        }
        statistics
    }

    /// The checkpoints of this run, the newest first; none where none are kept.
    ///
    /// # Errors
    /// [`StoreError`] where the store fails.
    pub async fn saved(&self) -> Result<Vec<CheckpointInfo>, StoreError> {
        match self.engine.checkpointing() {
            Some(checkpointing) if self.is_begun() => {
                let filter = CheckpointFilter::of_run(&checkpointing.report().run);
                checkpointing.store().list(&filter).await
            }
            _ => Ok(Vec::new()),
        }
    }

    /// Whether any agent has woken.
    fn is_begun(&self) -> bool {
        self.conversations.iter().next().is_some()
    }

    fn agent(&self, id: &str) -> Result<Agent, RunError> {
        let agents = &self.engine.services().workflow.agents;
        let known = || agents.iter().map(|agent| agent.id.as_str()).collect::<Vec<_>>().join(", ");
        let working = AgentId::new(id).ok().and_then(|id| agents.working_as(&id));
        working.ok_or_else(|| RunError::UnknownAgent { agent: id.to_owned(), known: known() })
    }
}
