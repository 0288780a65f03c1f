//! Going on from a saved state, and keeping the state when a turn was dropped.

use forge_domain::{Agent, AgentId, Checkpoint, Difference, OnChange};

use super::Orchestrator;
use crate::Engine;
use crate::checkpointing::Point;
use crate::conversations::{Conversations, Others, Work};
use crate::course::Course;
use crate::engine::is_over;
use crate::learned_limit::LearnedLimits;
use crate::resume::{Found, find, in_lines};
use crate::{Restored, Resume, ResumeError, RunError, RunEvent, RunReport};

impl Orchestrator {
    /// Takes back the state of a run: the conversations under the same ids, counters, what was spent, calibration,
    /// what was learnt of windows, the record of the strategies. Where the state is the last of its run, that run goes on, and is claimed;
    /// else, and where the configuration has changed and the policy says so, a new one begins with it. Nothing runs yet:
    /// [`Self::proceed`] goes on, [`Self::run`] and [`Self::wake`] give a new task.
    ///
    /// # Errors
    /// [`ResumeError`]; nothing was restored then.
    pub async fn restore(&mut self, resume: &Resume) -> Result<Restored, ResumeError> {
        let Self { engine, .. } = self;
        let checkpointing = engine.checkpointing().ok_or(ResumeError::NotKept)?;
        let on_change = resume.on_change.or(checkpointing.policy().on_change).unwrap_or_default();
        let found = find(checkpointing.store(), &resume.which, checkpointing.folder()).await?;
        // What is in the way is found before the run is taken from its holder.
        let mut state = state_of(engine, found, on_change).await?;
        let is_fork = |state: &State| !state.found.is_latest || state.changed == Some(OnChange::Fork);
        if !is_fork(&state) {
            let key = state.found.checkpoint.info.key;
            let found = state.found.adopted(checkpointing, resume.take_from).await?;
            state = if found.checkpoint.info.key == key {
                State { found, ..state }
            } else {
                let now = state_of(engine, found, on_change).await;
                if now.as_ref().map_or(true, is_fork) {
                    checkpointing.give_up().await;
                }
                now?
            };
        }
        let is_fork = is_fork(&state);
        let State { found, works, differences, changed } = state;
        let from = found.checkpoint.info;
        if changed.is_some() {
            let notice = format!(
                "the configuration has changed since {} was saved; the current configuration applies, and \
                 the conversation stays as it is:\n{}",
                from.id,
                in_lines(&differences)
            );
            engine.tell(&RunEvent::Notice(&notice));
        }
        for (agent, mut work, limits) in works {
            engine.take_up(&agent.id, &work.course, limits);
            if is_fork {
                engine.keep(&agent, &work.conversation, &mut work.course, Point::Fork).await;
            }
            self.conversations.put(agent.id, work);
        }
        let active = asker(&self.conversations, &from.agent);
        let is_over = self
            .conversations
            .work(&active)
            .is_none_or(|Work { conversation, course }| is_over(conversation) && course.errand.is_none());
        self.active = Some(active);
        let run = checkpointing.report().run;
        Ok(Restored { run, from, is_fork, is_over, differences })
    }

    /// Goes on where the restored state stopped: calls that were open are answered, the turn is brought to its end, and
    /// the agents that had not heard of its event yet are woken. Where nothing was left to be done, nothing is.
    ///
    /// # Errors
    /// [`RunError::NothingToResume`] where nothing was restored; else as [`Self::run`].
    pub async fn proceed(&mut self) -> Result<RunReport, RunError> {
        let Self { engine, conversations, active, .. } = self;
        let agent = active.as_ref().and_then(|id| engine.services().workflow.agents.working_as(id));
        let agent = agent.ok_or(RunError::NothingToResume)?;
        conversations.work(&agent.id).ok_or(RunError::NothingToResume)?;
        engine.check_models(&agent)?;
        if let Some(denied) = self.begin(std::slice::from_ref(&agent), None).await {
            return Ok(denied);
        }
        let result = self.go_on(&agent).await;
        self.end(&result).await;
        result
    }

    async fn go_on(&mut self, agent: &Agent) -> Result<RunReport, RunError> {
        let Self { engine, conversations, .. } = self;
        let others = Others::new(conversations);
        let mut lent = others.lend(&agent.id);
        let work = &mut lent.work;
        engine.tell(&RunEvent::Woken { agent: &agent.id });
        let errand = work.course.errand.take();
        let mut whole = if is_over(&work.conversation) {
            engine.report_of(&work.conversation, &work.course)
        } else {
            engine.settle(&mut work.conversation, &mut work.course);
            // A death after this turn must not forget those who wait either.
            work.course.errand.clone_from(&errand);
            engine.work(agent, &mut work.conversation, &mut work.course, &others).await?
        };
        drop(lent);
        let Some(errand) = errand else { return Ok(whole) };
        let agents = &self.engine.services().workflow.agents;
        let waiting = errand.waiting.iter().filter_map(|id| agents.find(id.as_str()).cloned());
        let waiting: Vec<_> = waiting.collect();
        for report in self.wake_all(&waiting, &errand.event).await? {
            whole = whole.beside(report);
        }
        Ok(whole)
    }

    /// Keeps what of every agent's work is not kept yet, after a turn was dropped in the middle, and tells the hooks that the
    /// run is over.
    pub async fn interrupted(&mut self) {
        let Self { engine, conversations, active, .. } = self;
        // The last chance: a store that did not answer a moment ago is asked once more.
        if let Some(checkpointing) = engine.checkpointing() {
            checkpointing.end_pause();
        }
        let mut works: Vec<_> = conversations.iter_mut().collect();
        // What is saved last is gone on from.
        works.sort_by_key(|(id, _)| Some(*id) == active.as_ref());
        for (id, work) in works {
            let agent = engine.services().workflow.agents.working_as(id);
            if let Some(agent) = agent.filter(|_| !work.conversation.entries().is_empty()) {
                engine.keep(&agent, &work.conversation, &mut work.course, Point::Interrupt).await;
            }
        }
        // Last: whoever does not want to wait for a hook has kept everything.
        self.end_early().await;
    }

    /// Gives the run back, so that the next process need not take it over, and lets go the checkpoints that the policy
    /// lets go. A later turn claims it anew.
    pub async fn close(&self) {
        self.engine.close().await;
    }

    /// Whether another process is known to have taken the run over.
    pub fn is_fenced(&self) -> bool {
        self.engine.known_fence().is_err()
    }

    /// What became of the checkpoints in this process; `None` where none are kept.
    pub fn checkpoints(&self) -> Option<crate::CheckpointTally> {
        self.engine.checkpoints()
    }
}

/// What a run is to go on with.
struct State {
    found: Found,
    works: Vec<(Agent, Work, LearnedLimits)>,
    differences: Vec<Difference>,
    /// What is done about the differences, where there are any.
    changed: Option<OnChange>,
}

/// Reads the work of every agent from what was found, and compares what it was configured with.
///
/// # Errors
/// [`ResumeError`] where it cannot be gone on with.
async fn state_of(engine: &Engine, found: Found, on_change: OnChange) -> Result<State, ResumeError> {
    let many = !found.others.is_empty();
    let mut works = Vec::new();
    let mut differences: Vec<Difference> = Vec::new();
    for Checkpoint { info, snapshot } in found.others.iter().chain([&found.checkpoint]).cloned() {
        let agents = &engine.services().workflow.agents;
        let Some(agent) = agents.working_as(&info.agent) else {
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
        let (conversation, mut course, limits) = Course::restored(snapshot, info.key);
        course.configuration = Some(now);
        works.push((agent, Work { conversation, course }, limits));
    }
    let changed = Some(on_change).filter(|_| !differences.is_empty());
    if changed == Some(OnChange::Refuse) {
        return Err(ResumeError::Changed(differences));
    }
    Ok(State { found, works, differences, changed })
}

/// Who goes on where `agent` was at work: itself, or, where a transform woke it, the agent that the transform belongs to,
/// which runs it again.
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
