//! Operations on a run between its turns: inspecting a conversation, compacting it, undoing a compaction,
//! giving its agent another model, and completing it after a turn was dropped.
//!
//! Each works on the conversation of one agent, named by its id. An agent that has not started has an empty
//! one.

use forge_domain::compaction::{CompactionReport, Focus};
use forge_domain::{
    Agent, AgentId, CheckpointFilter, CheckpointInfo, Effort, EntryId, ModelId, ModelRef, Progress, Size,
    Spent, StoreError,
};
use serde::Serialize;

use super::Orchestrator;
use crate::checkpointing::Point;
use crate::conversations::{Others, Work};
use crate::engine::note_unstarted;
use crate::turn::{Assignment, Turn};
use crate::{Engine, LiveContext, NextCall, RunError};

/// The effect of undoing a compaction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TakenBack {
    /// The compaction.
    pub undone: EntryId,
    /// The view before.
    pub before: Size,
    /// The view after.
    pub after: Size,
    /// The effect of the next call: if it compacts again, the reason for the compaction still holds.
    pub next: NextCall,
}

/// An agent's change to another model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ModelSwitch {
    /// The model before; `None` if the agent had none with a known provider.
    pub from: Option<ModelRef>,
    /// The contents of the new model's window; a smaller one may compact before the next call.
    pub context: LiveContext,
}

/// The statistics of a run until now, over all its processes.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct RunStatistics {
    /// Calls to models, without those for summaries.
    pub calls: usize,
    /// Requests sent to summarizers.
    pub summary_calls: usize,
    /// The tokens and the cost of all of them.
    pub spent: Spent,
    /// The counters of each agent that has started, by its id or lane.
    pub agents: Vec<(AgentId, Progress)>,
}

impl Orchestrator {
    /// Returns the agent that is, or was last, at work; `None` before the first turn.
    pub const fn active(&self) -> Option<&AgentId> {
        self.active.as_ref()
    }

    /// Returns the engine that runs the turns.
    pub const fn engine(&self) -> &Engine {
        &self.engine
    }

    /// Returns the contents of the window of the agent named `id`.
    ///
    /// # Errors
    /// [`RunError::UnknownAgent`]; else if the agent cannot work as it is configured.
    pub async fn context(&mut self, id: &str) -> Result<LiveContext, RunError> {
        let agent = self.roster().working_as(id)?;
        let Self { engine, conversations, .. } = self;
        let others = Others::new(conversations);
        let lent = others.lend(&agent.id);
        engine.context(&agent, &lent.work.conversation).await
    }

    /// Compacts the conversation of the agent named `id` now, even if that is not due: to the target of its
    /// `compact` block, or to half of its tokens if that is less. Hooks may deny or edit it, and it is saved
    /// and can be undone like any other. `focus` replaces the block's. A denial is an outcome, not an error;
    /// so is that nothing can leave.
    ///
    /// # Errors
    /// See [`Self::context`]. The conversation is then unchanged.
    pub async fn compact(&mut self, id: &str, focus: Option<Focus>) -> Result<CompactionReport, RunError> {
        let agent = self.roster().working_as(id)?;
        let Self { engine, conversations, .. } = self;
        let others = &Others::new(conversations);
        let work = &mut others.lend(&agent.id).work;
        let turn = Turn::set_up(Assignment { engine, agent: &agent, work, others }).await?;
        turn.compact(focus).await
    }

    /// Undoes the latest compaction in force of the agent named `id`. What it had absorbed is in force again,
    /// so that undoing again removes layer after layer. Returns `None` if none is in force. The state is
    /// saved.
    ///
    /// # Errors
    /// See [`Self::context`]. The compaction is undone even if only the check of the next call fails.
    pub async fn undo(&mut self, id: &str) -> Result<Option<TakenBack>, RunError> {
        let agent = self.roster().working_as(id)?;
        let Self { engine, conversations, .. } = self;
        let others = Others::new(conversations);
        let mut lent = others.lend(&agent.id);
        let work = &mut lent.work;
        let before = work.conversation.view().size();
        let Some(undone) = work.conversation.undo() else { return Ok(None) };
        let after = work.conversation.view().size();
        engine.state(&agent, work).save(Point::Undone(undone)).await;
        let next = engine.context(&agent, &work.conversation).await?.next;
        Ok(Some(TakenBack { undone, before, after, next }))
    }

    /// Switches the agent named `id` to `model`. First it checks the window and, if a budget in money
    /// applies, the price of the model, and that the agent's `compact` block works in its room. The next
    /// checkpoint has it.
    ///
    /// # Errors
    /// See [`Self::context`], for the new model; the agent then keeps the old one.
    pub async fn switch_model(&mut self, id: &str, model: ModelId) -> Result<ModelSwitch, RunError> {
        let before = self.roster().working_as(id)?;
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

    /// Sets the effort of the agent named `id`, from its next call on; the next checkpoint has it.
    ///
    /// # Errors
    /// See [`Self::context`], with the new effort; the agent then keeps the old one.
    pub async fn set_effort(&mut self, id: &str, effort: Effort) -> Result<(), RunError> {
        let mut agent = self.roster().working_as(id)?;
        agent.set_effort(effort);
        let Self { engine, conversations, .. } = self;
        let others = Others::new(conversations);
        let mut lent = others.lend(&agent.id);
        engine.context(&agent, &lent.work.conversation).await?;
        lent.work.course.configuration = Some(engine.configuration(&agent)?);
        drop(lent);
        engine.configure(&agent);
        Ok(())
    }

    /// Completes every conversation after the future of a turn was dropped: open calls are answered, with
    /// their results if these were there, and no call is made again. The state is saved, and the hooks are
    /// notified that the run was interrupted. The next turn continues from there.
    pub async fn finish_cancelled(&mut self) {
        let Self { engine, conversations, .. } = self;
        for (_, work) in conversations.iter_mut() {
            note_unstarted(work);
            engine.answer_open_calls(work);
        }
        self.save_interrupted().await;
    }

    /// Takes the latest message of the active agent out of its view if no reply follows it: what the provider
    /// refuses would be refused with every later message, too. Returns false if nothing was taken out.
    pub async fn withdraw(&mut self) -> bool {
        let Self { engine, conversations, active, .. } = self;
        let agent = active.as_ref().and_then(|id| engine.services().workflow.agents.for_lane(id));
        let Some(agent) = agent else { return false };
        let others = Others::new(conversations);
        let mut lent = others.lend(&agent.id);
        let work = &mut lent.work;
        let is_withdrawn = work.conversation.withdraw().is_ok_and(|entry| entry.is_some());
        if is_withdrawn {
            work.course.errand = None;
            engine.state(&agent, work).save(Point::Interrupt).await;
        }
        is_withdrawn
    }

    /// Returns the statistics of the run until now.
    pub fn statistics(&self) -> RunStatistics {
        let mut statistics = RunStatistics { spent: self.engine.spent(), ..RunStatistics::default() };
        for (id, Work { course, .. }) in self.conversations.iter() {
            let progress = Progress { spent: self.engine.ledger.spent_by(id), ..course.progress.clone() };
            statistics.calls += progress.iterations;
            statistics.summary_calls += progress.summary_calls;
            statistics.agents.push((id.clone(), progress));
        }
        statistics
    }

    /// Returns the checkpoints of this run, newest first; none if none are saved.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails.
    pub async fn saved_checkpoints(&self) -> Result<Vec<CheckpointInfo>, StoreError> {
        match self.engine.checkpointing() {
            Some(checkpointing) if self.conversations.iter().next().is_some() => {
                let filter = CheckpointFilter::of_run(&checkpointing.report().run);
                checkpointing.store().list(&filter).await
            }
            _ => Ok(Vec::new()),
        }
    }
}
