//! Slices: a run that is driven for a while, pauses at a safe point, and is resumed later or elsewhere.

use std::sync::Arc;

use forge_domain::{Awaited, Dollars, Event};

use super::Orchestrator;
use crate::conversations::{Others, Work};
use crate::course::Errand;
use crate::turn::Assignment;
use crate::{RunError, RunReport, SliceLimits, StopReason};

/// A slice of a run that was run.
#[derive(Clone, Debug)]
pub struct Slice {
    /// The end.
    pub end: SliceEnd,
    /// Calls to models in it.
    pub calls: usize,
    /// The report of the turn, of this slice alone.
    pub report: RunReport,
}

/// The end of a slice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SliceEnd {
    /// The limits were reached: the next slice continues.
    Paused,
    /// Nothing can be done until a person has said something. The next slice brings their answers.
    Waiting(Vec<Awaited>),
    /// The run is over, for the reason in the report.
    Done,
}

/// A run that is driven in slices. What only a person can say may wait: the person of its orchestrator says
/// [`forge_domain::Unanswered::Later`], as a [`crate::Correspondence`] does.
pub struct SlicedRun(Orchestrator);

impl SlicedRun {
    /// Drives the run of `orchestrator`, in which nothing was restored yet. From now on checkpoints keep the
    /// user's consents for the rest of the run, because the rest may be in other processes.
    pub fn new(orchestrator: Orchestrator) -> Self {
        orchestrator.engine.consents.keep();
        Self(orchestrator)
    }

    /// Returns the orchestrator.
    pub const fn orchestrator(&self) -> &Orchestrator {
        &self.0
    }

    /// Returns the orchestrator, to be restored or closed.
    pub const fn orchestrator_mut(&mut self) -> &mut Orchestrator {
        &mut self.0
    }

    /// Takes `task` for the agent named `id`, or for whom [`Orchestrator::recipients`] names, and saves it,
    /// without calling a model: a slice begins with it, in this process or another.
    ///
    /// # Errors
    /// [`RunError`] if nobody takes it, or an agent cannot work as it is configured.
    pub async fn accept(&mut self, task: impl Into<Event>, id: Option<&str>) -> Result<(), RunError> {
        let event = task.into();
        let agents = match id {
            Some(id) => vec![self.0.roster().find(id)?],
            None => self.0.recipients()?,
        };
        let (agent, waiting) = agents.split_first().ok_or(RunError::NothingToResume)?;
        let Orchestrator { engine, conversations, active, .. } = &mut self.0;
        if !event.images.is_empty() {
            agents.iter().try_for_each(|agent| engine.services.check_images(agent))?;
        }
        *active = Some(agent.id.clone());
        let others = &Others::new(conversations);
        let mut lent = others.lend(&agent.id);
        let mut assignment = Assignment { engine, agent, work: &mut lent.work, others };
        let waiting: Vec<_> = waiting.iter().map(|agent| agent.id.clone()).collect();
        let errand = (!waiting.is_empty()).then(|| Errand { event: event.clone(), waiting });
        assignment.receive_event(&event, errand).await?;
        assignment.save_task().await
    }

    /// Says `text` to the agent that continues, which hears it before its next call to the model: in a later
    /// slice if this one only waits. The `number`, from one on, tells it apart from all other words of the
    /// run.
    pub fn say(&mut self, number: u64, text: String) {
        let Orchestrator { conversations, active, .. } = &mut self.0;
        let work = active.as_ref().and_then(|active| conversations.work_mut(active));
        if let Some(work) = work.filter(|work| work.course.dialogue.heard < number) {
            work.course.dialogue.unheard.insert(number, text);
        }
    }

    /// Returns the calls to models of the whole run until now, and their cost.
    pub fn totals(&self) -> (usize, Dollars) {
        let iterations = self.0.conversations.iter().map(|(_, work)| work.course.progress.iterations);
        (iterations.sum(), self.0.engine.spent().cost.dollars)
    }

    /// Returns what the run waits for, by agent and call.
    pub fn awaited(&self) -> Vec<Awaited> {
        let works = self.0.conversations.iter();
        let of_work = |(_, work): (_, &Work)| -> Vec<Awaited> {
            work.course.dialogue.lock_awaiting().values().flatten().cloned().collect()
        };
        works.flat_map(of_work).collect()
    }

    /// Continues from the restored state, as [`Orchestrator::proceed`], until the run is over, waits for a
    /// person, or a limit is reached: then it pauses before its next call to a model, with everything saved.
    ///
    /// # Errors
    /// See [`Orchestrator::proceed`].
    pub async fn run(&mut self, limits: SliceLimits) -> Result<Slice, RunError> {
        let conduct = Arc::clone(&self.0.engine.conduct);
        conduct.pacing.begin(limits);
        let result = self.0.proceed().await;
        let calls = conduct.pacing.calls();
        conduct.pacing.end();
        let report = result?;
        let end = match report.stop {
            StopReason::Paused => SliceEnd::Paused,
            StopReason::Waiting => SliceEnd::Waiting(self.awaited()),
            _ => SliceEnd::Done,
        };
        Ok(Slice { end, calls, report })
    }
}
