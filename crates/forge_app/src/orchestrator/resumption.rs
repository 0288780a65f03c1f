//! Resuming from a saved state, and saving the state when a turn was dropped.

use forge_domain::{Agent, AgentId, Checkpoint, Difference, OnChange, Workspace};

use super::Orchestrator;
use super::emission::conclude;
use crate::Engine;
use crate::checkpointing::Point;
use crate::conversations::{Conversations, Others, Work};
use crate::course::Course;
use crate::engine::{is_over, note_unstarted, settle_waiting_calls};
use crate::learned_limit::LearnedLimits;
use crate::resume::{Found, elsewhere, files_elsewhere, find, in_lines};
use crate::turn::Assignment;
use crate::{Restored, Resume, ResumeError, RunError, RunEvent, RunReport, StopReason};

impl Orchestrator {
    /// Restores the state of a run: the conversations under the same ids, counters, spending, calibration,
    /// learned limits, and the statistics of the strategies. If the state is the last of its run, that run
    /// continues and is claimed. Otherwise a new run begins with it, as it does if the configuration has
    /// changed and the policy demands it. Nothing runs yet: [`Self::proceed`] continues, [`Self::run`] and
    /// [`Self::wake`] start a new task.
    ///
    /// # Errors
    /// [`ResumeError`]. Nothing is restored then.
    pub async fn restore(&mut self, resume: &Resume) -> Result<Restored, ResumeError> {
        let Self { engine, .. } = self;
        let checkpointing = engine.checkpointing().ok_or(ResumeError::NotKept)?;
        let on_change = resume.on_change.or(checkpointing.policy().on_change).unwrap_or_default();
        let found = find(checkpointing.store(), &resume.which, checkpointing.folder()).await?;
        if !resume.anywhere
            && let Some(folder) = elsewhere(&found.checkpoint, checkpointing.folder())
        {
            let run = found.checkpoint.info.run.clone();
            return Err(ResumeError::Elsewhere { run, folder: folder.to_owned() });
        }
        if !resume.anywhere
            && let Some(error) = files_elsewhere(&found.checkpoint, checkpointing.folder())
        {
            return Err(error);
        }
        // Obstacles are found before the run is taken from its holder.
        let mut state = state_of(engine, found, on_change).await?;
        if !state.is_fork() {
            let key = state.found.checkpoint.info.key;
            let found = state.found.adopt(checkpointing, resume.take_from).await?;
            state = if found.checkpoint.info.key == key {
                State { found, ..state }
            } else {
                let now = state_of(engine, found, on_change).await;
                if now.as_ref().map_or(true, State::is_fork) {
                    checkpointing.give_up().await;
                }
                now?
            };
        }
        let is_fork = state.is_fork();
        let State { found, works, differences, changed } = state;
        let from = found.checkpoint.info;
        if changed.is_some() {
            let notice = format!(
                "the configuration has changed since {} was saved; the current configuration applies, and \
                 the conversation stays as it is:\n{}",
                from.id,
                in_lines(&differences)
            );
            engine.events.notice(&notice);
        }
        let is_of_folder = checkpointing.folder().is_some();
        for (agent, mut work, limits) in works {
            if is_of_folder {
                Workspace::forget(&mut work.course.progress);
            }
            engine.restore(&agent.id, &work, limits);
            if is_fork {
                engine.state(&agent, &mut work).save(Point::Fork).await;
            }
            self.conversations.put(agent.id, work);
        }
        self.conversations.take_what_was_taken();
        let active = asker(&self.conversations, &from.agent);
        let is_over = self
            .conversations
            .work(&active)
            .is_none_or(|Work { conversation, course }| is_over(conversation) && course.errand.is_none());
        self.active = Some(active);
        let run = checkpointing.report().run;
        Ok(Restored { run, from, is_fork, is_over, differences })
    }

    /// Continues from the restored state: open calls are answered, the turn is completed, and the agents that
    /// wait for its event run. If nothing was left to be done, nothing happens.
    ///
    /// # Errors
    /// [`RunError::NothingToResume`] if nothing was restored; else see [`Self::run`].
    pub async fn proceed(&mut self) -> Result<RunReport, RunError> {
        let Self { engine, conversations, active, taken, .. } = self;
        *taken = None;
        let agent = active.as_ref().and_then(|id| engine.services().workflow.agents.for_lane(id));
        let agent = agent.ok_or(RunError::NothingToResume)?;
        conversations.work(&agent.id).ok_or(RunError::NothingToResume)?;
        engine.check_models(&agent)?;
        if let Some(denied) = self.lifecycle.begin(&self.engine, std::slice::from_ref(&agent), None).await {
            return Ok(denied);
        }
        let result = finish_event(self, &agent).await;
        conclude(self, result).await
    }

    /// Saves what is not saved yet of every agent's work, after a turn was dropped, and notifies the hooks
    /// that the run is over.
    pub async fn save_interrupted(&mut self) {
        let Self { engine, conversations, active, .. } = self;
        // The last chance: a store that did not answer a moment ago is asked again.
        if let Some(checkpointing) = engine.checkpointing() {
            checkpointing.end_pause();
        }
        let mut works: Vec<_> = conversations.iter_mut().collect();
        // A resumed run continues from the state that is saved last.
        works.sort_by_key(|(id, _)| Some(*id) == active.as_ref());
        let mut is_newest = true;
        for (id, work) in works {
            note_unstarted(work);
            let agent = engine.services().workflow.agents.for_lane(id);
            let Some(agent) = agent.filter(|_| !work.conversation.entries().is_empty()) else { continue };
            if Some(id) == active.as_ref() && !is_newest {
                work.course.saved = None;
            }
            let before = work.course.parent;
            engine.state(&agent, work).save(Point::Interrupt).await;
            is_newest &= work.course.parent == before;
        }
        // Last: a user who does not want to wait for a hook has everything saved.
        self.lifecycle.end_early(&self.engine).await;
    }

    /// Releases the run, so that the next process need not take it over, and deletes the checkpoints that the
    /// policy no longer retains. A later turn claims it again.
    pub async fn close(&self) {
        self.engine.close().await;
    }

    /// Checks whether another process is known to have taken the run over.
    pub fn is_fenced(&self) -> bool {
        self.engine.check_known_fence().is_err()
    }

    /// Returns the tally of the checkpoints in this process; `None` if none are saved.
    pub fn checkpoints(&self) -> Option<crate::CheckpointTally> {
        self.engine.checkpoints()
    }
}

/// Finishes the turn of `agent`, and runs the agents that wait for its event.
async fn finish_event(run: &mut Orchestrator, agent: &Agent) -> Result<RunReport, RunError> {
    let Orchestrator { engine, conversations, .. } = run;
    let others = &Others::new(conversations);
    let mut lent = others.lend(&agent.id);
    let work = &mut lent.work;
    engine.events.emit(&RunEvent::Woken { agent: &agent.id });
    let errand = work.course.errand.take();
    let report = if is_over(&work.conversation) {
        report_of(engine, work)
    } else {
        if !settle_waiting_calls(work) {
            engine.answer_open_calls(work);
        }
        // A crash after this turn must not forget the waiting agents either.
        work.course.errand.clone_from(&errand);
        Assignment { engine, agent, work, others }.run().await?
    };
    drop(lent);
    let Some(errand) = errand.filter(|_| !report.stop.is_pause()) else { return Ok(report) };
    let agents = &run.engine.services().workflow.agents;
    let waiting = errand.waiting.iter().filter_map(|id| agents.find(id.as_str()).cloned());
    let waiting: Vec<_> = waiting.collect();
    run.run_each(&waiting, &errand.event, Some(report)).await
}

/// Returns the report of a turn that was over before.
fn report_of(engine: &Engine, work: &Work) -> RunReport {
    let last = work.conversation.messages().last().map(|message| message.message().to_text());
    RunReport {
        response: last.unwrap_or_default(),
        progress: work.course.progress.clone(),
        checkpoints: engine.checkpoints(),
        ..RunReport::empty(StopReason::Done)
    }
}

/// The state that a run continues with.
struct State {
    found: Found,
    works: Vec<(Agent, Work, LearnedLimits)>,
    differences: Vec<Difference>,
    /// The policy for the differences, if there are any.
    changed: Option<OnChange>,
}

impl State {
    /// Checks whether a new run begins with the state.
    fn is_fork(&self) -> bool {
        !self.found.is_latest || self.changed == Some(OnChange::Fork)
    }
}

/// Reads the work of every agent from what was found, and compares its configuration with the present one.
///
/// # Errors
/// [`ResumeError`] if the run cannot continue with it.
async fn state_of(engine: &Engine, found: Found, on_change: OnChange) -> Result<State, ResumeError> {
    let many = !found.others.is_empty();
    let mut works = Vec::new();
    let mut differences: Vec<Difference> = Vec::new();
    for Checkpoint { info, snapshot } in found.others.iter().chain([&found.checkpoint]).cloned() {
        let agents = &engine.services().workflow.agents;
        let Some(agent) = agents.for_lane(&info.agent) else {
            let known: Vec<&str> = agents.iter().map(|agent| agent.id.as_str()).collect();
            return Err(ResumeError::AgentGone { agent: info.agent.to_string(), known: known.join(", ") });
        };
        engine.check_models(&agent)?;
        engine.services().prepare(&agent).await?;
        let now = engine.configuration(&agent)?;
        differences.extend(snapshot.configuration.differences(&now).into_iter().map(|difference| {
            let key = if many { format!("{}: {}", agent.id, difference.key) } else { difference.key };
            Difference { key, ..difference }
        }));
        let (conversation, mut course, limits) = Course::restore(snapshot, info.key);
        course.configuration = Some(now);
        works.push((agent, Work { conversation, course }, limits));
    }
    let changed = Some(on_change).filter(|_| !differences.is_empty());
    if changed == Some(OnChange::Refuse) {
        return Err(ResumeError::Changed(differences));
    }
    Ok(State { found, works, differences, changed })
}

/// Returns the agent that continues if `agent` was at work: itself or, if a transform started it, the agent
/// that the transform belongs to, which runs it again.
fn asker(conversations: &Conversations, agent: &AgentId) -> AgentId {
    // The states are of different times, so they may name each other.
    let mut chain = vec![agent];
    let asked_by = |agent| conversations.work(agent)?.course.asked_by.as_ref();
    while let Some(asker) = chain.last().copied().and_then(asked_by)
        && conversations.work(asker).is_some()
        && !chain.contains(&asker)
    {
        chain.push(asker);
    }
    chain.last().copied().unwrap_or(agent).clone()
}
