//! The progress of an agent's work: what a checkpoint saves beside its conversation, and a resumed run
//! restores.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_domain::compaction::CompactionReport;
use forge_domain::{
    AgentId, Awaited, CheckpointKey, Configuration, ContextSnapshot, Conversation, Event, Measure, Progress,
    Reply, Spent, Subject, ToolName, ToolResult,
};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::learned_limit::LearnedLimits;

/// The progress of an agent's work.
#[derive(Debug, Default)]
pub(crate) struct Course {
    /// The counters. The rest of what a checkpoint saves is added when it is made.
    pub(crate) progress: Progress,
    /// Results of the last reply's calls that came while others still run, by the place of their call.
    pub(crate) finished: Arc<Mutex<BTreeMap<usize, ToolResult>>>,
    /// The ids of the last reply's calls that have started; `None` unless this process makes them now.
    pub(crate) started: Arc<Mutex<Option<BTreeSet<String>>>>,
    /// The dialogue with the user: what it waits for, and what it heard.
    pub(crate) dialogue: Dialogue,
    /// The agents that run after this one, and their event.
    pub(crate) errand: Option<Errand>,
    /// The events between it and other agents.
    pub(crate) events: Events,
    /// The agent whose transform or call started this one. It continues if a run is resumed.
    pub(crate) asked_by: Option<AgentId>,
    /// The number of agents above it in a chain of calls.
    pub(crate) depth: usize,
    /// The agent's configuration; `None` until its first turn.
    pub(crate) configuration: Option<Configuration>,
    /// The last checkpoint that was saved or loaded.
    pub(crate) parent: Option<CheckpointKey>,
    /// The checkpoint made while the calls run, until one is made after them.
    pub(crate) begun: Option<CheckpointKey>,
    /// The state that is saved.
    pub(crate) saved: Option<Mark>,
}

/// The events between an agent and others.
#[derive(Debug, Default)]
pub(crate) struct Events {
    /// Those that it emitted and whose agents have yet to run.
    pub(crate) emitted: Arc<Mutex<Vec<Event>>>,
    /// The number of those that were taken, for agents to run on them.
    pub(crate) n_taken: u64,
    /// The number of events of each other agent of which it took the last. Its state is saved before that of
    /// the agent that emitted them, so that a run resumed in between does not start it again on the same one.
    pub(crate) took: BTreeMap<AgentId, u64>,
}

impl Events {
    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.emitted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks whether agents have yet to run on what the agent emitted.
    pub(crate) fn is_any_left(&self) -> bool {
        !self.lock().is_empty()
    }

    /// Takes the oldest of the events that the agent emitted.
    pub(crate) fn take(&mut self) -> Option<Event> {
        let mut emitted = self.lock();
        let event = (!emitted.is_empty()).then(|| emitted.remove(0))?;
        drop(emitted);
        self.n_taken += 1;
        Some(event)
    }

    /// Takes those that were saved beside the counters.
    fn restore(progress: &mut Progress) -> Self {
        Self {
            emitted: Arc::new(Mutex::new(take_extra(progress, EMITTED).unwrap_or_default())),
            n_taken: take_extra(progress, TAKEN).unwrap_or_default(),
            took: take_extra(progress, TOOK).unwrap_or_default(),
        }
    }

    /// Saves them beside the counters.
    fn save(&self, progress: &mut Progress) {
        let emitted = self.lock();
        if !emitted.is_empty() {
            put_extra(progress, EMITTED, serde_json::to_value(&*emitted));
        }
        if self.n_taken > 0 {
            put_extra(progress, TAKEN, Ok(self.n_taken.into()));
        }
        if !self.took.is_empty() {
            put_extra(progress, TOOK, serde_json::to_value(&self.took));
        }
    }
}

/// The part of an agent's work that is between it and the user.
#[derive(Debug, Default)]
pub(crate) struct Dialogue {
    /// The last reply's calls that wait for a person, by their places; `None` for one that waits for the
    /// agent that it called.
    pub(crate) awaiting: Arc<Mutex<BTreeMap<usize, Option<Awaited>>>>,
    /// The user's consents for the rest of the run, if checkpoints keep them.
    pub(crate) consents: Option<GivenConsents>,
    /// The number of the last of the user's words that were heard in mid-run, see [`crate::SlicedRun::say`].
    pub(crate) heard: u64,
    /// The words that were said and not heard yet, because the turn waits.
    pub(crate) unheard: BTreeMap<u64, String>,
    /// True if the turn has paused, or waits for a person: its caller resumes it.
    pub(crate) is_paused: bool,
}

impl Dialogue {
    /// Returns the calls that wait for a person.
    pub(crate) fn lock_awaiting(&self) -> MutexGuard<'_, BTreeMap<usize, Option<Awaited>>> {
        self.awaiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns what an agent waits for whose counters were saved as `progress`.
    pub(crate) fn awaited(progress: &Progress) -> Vec<Awaited> {
        let saved = progress.extra.get(AWAITING).cloned().unwrap_or_default();
        let awaiting: BTreeMap<usize, Option<Awaited>> = serde_json::from_value(saved).unwrap_or_default();
        awaiting.into_values().flatten().collect()
    }

    /// Takes what was saved beside the counters.
    fn restore(progress: &mut Progress) -> Self {
        Self {
            awaiting: Arc::new(Mutex::new(take_extra(progress, AWAITING).unwrap_or_default())),
            consents: take_extra(progress, CONSENTS),
            heard: take_extra(progress, HEARD).unwrap_or_default(),
            unheard: take_extra(progress, UNHEARD).unwrap_or_default(),
            is_paused: take_extra(progress, PAUSED).unwrap_or_default(),
        }
    }

    /// Saves it beside the counters.
    fn save(&self, progress: &mut Progress) {
        let awaiting = self.lock_awaiting();
        if !awaiting.is_empty() {
            put_extra(progress, AWAITING, serde_json::to_value(&*awaiting));
        }
        if let Some(consents) = &self.consents {
            put_extra(progress, CONSENTS, serde_json::to_value(consents));
        }
        if self.heard > 0 {
            put_extra(progress, HEARD, Ok(self.heard.into()));
        }
        if !self.unheard.is_empty() {
            put_extra(progress, UNHEARD, serde_json::to_value(&self.unheard));
        }
        if self.is_paused {
            put_extra(progress, PAUSED, Ok(true.into()));
        }
    }
}

/// The consents of an agent for the rest of the run, as a checkpoint keeps them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct GivenConsents {
    /// Kinds of calls: the tool, and what they are about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) calls: Vec<(ToolName, Vec<Subject>)>,
    /// The places whose secrets may be shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) secrets: Vec<String>,
}

/// An event, and the agents that have yet to run on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Errand {
    pub(crate) event: Event,
    pub(crate) waiting: Vec<AgentId>,
}

/// A mark by which two states of an agent's work are known to be equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    n_entries: usize,
    iterations: usize,
    pub(crate) n_finished: usize,
    n_emitted: usize,
    n_awaiting: usize,
    n_unheard: usize,
    is_paused: bool,
    /// A reply that broke off, or an unused summary, leaves no other trace.
    spent: Spent,
}

/// The names of what a checkpoint saves beside counters.
const FINISHED: &str = "finished";
const ERRAND: &str = "errand";
const EMITTED: &str = "emitted";
const TAKEN: &str = "taken";
const TOOK: &str = "took";
const AWAITING: &str = "awaiting";
const CONSENTS: &str = "consents";
const HEARD: &str = "heard";
const UNHEARD: &str = "unheard";
const PAUSED: &str = "paused";
const ASKED_BY: &str = "asked_by";
const LIMITS: &str = "limits";

impl Course {
    /// Restores the work and the learned limits from `snapshot`. The conversation is as it was, its measure
    /// included.
    pub(crate) fn restore(
        snapshot: ContextSnapshot,
        key: CheckpointKey,
    ) -> (Conversation, Self, LearnedLimits) {
        let ContextSnapshot { mut conversation, mut progress, .. } = snapshot;
        // A calibration of another version of forge is ignored: the first reply gives a new one.
        let calibration = progress.calibration.take().map(serde_json::from_value::<Measure>);
        conversation.restore_measure(calibration.and_then(Result::ok).unwrap_or_default());
        let limits = take_extra(&mut progress, LIMITS).unwrap_or_default();
        let mut course = Self {
            finished: Arc::new(Mutex::new(take_extra(&mut progress, FINISHED).unwrap_or_default())),
            errand: take_extra(&mut progress, ERRAND),
            events: Events::restore(&mut progress),
            dialogue: Dialogue::restore(&mut progress),
            asked_by: take_extra(&mut progress, ASKED_BY),
            progress,
            parent: Some(key),
            ..Self::default()
        };
        course.saved = Some(course.mark(&conversation));
        (conversation, course, limits)
    }

    /// Returns the state of an agent's work as a checkpoint saves it.
    pub(crate) fn snapshot(
        &self,
        agent: &AgentId,
        conversation: &Conversation,
        limits: &LearnedLimits,
    ) -> ContextSnapshot {
        let mut progress = self.progress.clone();
        let measure = conversation.measure();
        progress.calibration =
            (*measure != Measure::default()).then(|| serde_json::to_value(measure).unwrap_or_default());
        let finished = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        if !finished.is_empty() {
            put_extra(&mut progress, FINISHED, serde_json::to_value(&*finished));
        }
        if let Some(errand) = self.errand.as_ref().filter(|errand| !errand.waiting.is_empty()) {
            put_extra(&mut progress, ERRAND, serde_json::to_value(errand));
        }
        self.events.save(&mut progress);
        self.dialogue.save(&mut progress);
        if let Some(asker) = &self.asked_by {
            put_extra(&mut progress, ASKED_BY, serde_json::to_value(asker));
        }
        if !limits.is_empty() {
            put_extra(&mut progress, LIMITS, serde_json::to_value(limits));
        }
        ContextSnapshot {
            agent: agent.clone(),
            conversation: conversation.clone(),
            progress,
            configuration: self.configuration.clone().unwrap_or_default(),
        }
    }

    /// Returns the mark of the present state.
    pub(crate) fn mark(&self, conversation: &Conversation) -> Mark {
        Mark {
            n_entries: conversation.entries().len(),
            iterations: self.progress.iterations,
            spent: self.progress.spent,
            n_emitted: self.events.lock().len(),
            n_awaiting: self.dialogue.lock_awaiting().len(),
            n_unheard: self.dialogue.unheard.len(),
            is_paused: self.dialogue.is_paused,
            n_finished: self.finished.lock().unwrap_or_else(PoisonError::into_inner).len(),
        }
    }

    /// Counts a reply.
    pub(crate) fn count_reply(&mut self, reply: &Reply) {
        self.progress.iterations += 1;
        self.progress.turn_iterations += 1;
        self.progress.usage += reply.usage.unwrap_or_default();
    }

    /// Counts the fit of a context.
    pub(crate) fn count_fit(&mut self, fit: &CompactionReport) {
        if fit.trigger.is_none() {
            return;
        }
        for attempt in &fit.attempts {
            self.progress.summary_calls += attempt.model_calls;
            self.progress.summary_usage += attempt.usage;
        }
    }
}

/// Saves a value beside the counters.
fn put_extra(progress: &mut Progress, name: &str, value: serde_json::Result<Value>) {
    progress.extra.extend(value.ok().map(|value| (name.to_owned(), value)));
}

/// Takes out a value that was saved beside the counters.
fn take_extra<T: DeserializeOwned>(progress: &mut Progress, name: &str) -> Option<T> {
    serde_json::from_value(progress.extra.remove(name)?).ok()
}
