//! Keeps the states of a run in a store. A store that fails costs checkpoints, never the run.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_domain::{
    ActionEnd, ActionKey, Agent, AgentId, CheckpointInfo, CheckpointKey, CheckpointMoment, CheckpointPolicy,
    CheckpointReason, CheckpointStore, Claim, Clock, ContextSnapshot, Deletion, EntryId, Holder, NewAction,
    NewCheckpoint, Retention, RunId, StoreError, Sweep, Takeover,
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// The pause before a store that timed out is tried again.
const PAUSE: SignedDuration = SignedDuration::from_secs(30);
/// The most attempts to claim a run that other processes claim at the same moment.
const CLAIMS: usize = 10;

/// Where and when the checkpoints of a run are kept.
pub struct Checkpointing {
    store: Arc<dyn CheckpointStore>,
    clock: Arc<dyn Clock>,
    holder: Arc<dyn Holder>,
    policy: CheckpointPolicy,
    folder: Option<String>,
    desk: Mutex<Desk>,
    /// Held while the run is claimed: of two that need the claim, one waits for the other.
    claiming: futures::lock::Mutex<()>,
}

struct Desk {
    run: RunId,
    claim: Option<Claim>,
    /// Somebody else has taken the run over or deleted it: nothing more is written.
    is_over: bool,
    /// The process that took the run over.
    fenced_by: Option<String>,
    /// Agents whose latest state is not in the store, and why.
    unsaved: BTreeMap<AgentId, String>,
    /// Until when the store is left alone, because it did not answer.
    paused_until: Option<Timestamp>,
    /// The same of the log of actions: checkpoints are tried all the same, as only they say whether the run is saved.
    log_paused_until: Option<Timestamp>,
    report: CheckpointTally,
}

impl Desk {
    /// Takes in why the store did not do what it was asked.
    fn take_failure(&mut self, error: &StoreError, now: Timestamp) {
        match error {
            StoreError::Fenced { by, .. } => {
                self.is_over = true;
                self.fenced_by = Some(by.clone());
            }
            StoreError::NotFound { .. } => self.is_over = true,
            StoreError::TimedOut { .. } => self.paused_until = now.checked_add(PAUSE).ok(),
            _ => {}
        }
    }
}

/// What became of a run's checkpoints in this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointTally {
    /// The run; what it is resumed by.
    pub run: RunId,
    /// Checkpoints that were saved.
    pub saved: usize,
    /// Saves that failed.
    pub failed: usize,
    /// Why the latest state is not in the store, where it is not.
    pub unsaved: Option<String>,
}

/// A point of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Point {
    /// A task was given, the `n`-th of this agent.
    Turn(usize),
    /// The model has called tools, which run now.
    Calling,
    /// A call to the model is over, and so are the tools that it called.
    Iteration,
    /// The context was compacted for the `n`-th time.
    Compaction(usize),
    /// The run was interrupted, or failed.
    Interrupt,
    /// The turn is over.
    End,
    /// The state is another run's.
    Fork,
    /// The compaction of that name was taken back.
    Undone(EntryId),
}

impl Point {
    /// When checkpoints are due here; `None` where they always are.
    const fn moment(self) -> Option<CheckpointMoment> {
        match self {
            Self::Turn(_) | Self::Calling | Self::Iteration => Some(CheckpointMoment::Iteration),
            Self::Compaction(_) => Some(CheckpointMoment::Compaction),
            Self::Interrupt => Some(CheckpointMoment::Interrupt),
            Self::End => Some(CheckpointMoment::End),
            Self::Fork | Self::Undone(_) => None,
        }
    }

    pub(crate) fn reason(self) -> CheckpointReason {
        match self {
            Self::Undone(_) => CheckpointReason::Asked,
            point => point.moment().map_or(CheckpointReason::Fork, CheckpointReason::from),
        }
    }

    /// The checkpoint's name behind its agent's, after `iterations` calls to the model.
    pub(crate) fn step(self, iterations: usize) -> String {
        match self {
            Self::Turn(n) => format!("turn-{n}"),
            Self::Calling => format!("calls-{iterations}"),
            Self::Iteration | Self::End => format!("iteration-{iterations}"),
            Self::Compaction(n) => format!("compaction-{n}"),
            Self::Interrupt => format!("interrupt-{iterations}"),
            Self::Fork => format!("fork-{iterations}"),
            Self::Undone(entry) => format!("undo-{entry}"),
        }
    }
}

/// Claims runs for a program that says nothing of itself.
struct Embedding;

impl Holder for Embedding {
    fn name(&self) -> &str {
        "a program that embeds forge"
    }

    fn is_gone(&self, _: &str) -> bool {
        false
    }
}

impl Checkpointing {
    /// Keeps the checkpoints of `run`, which begins with the first of them, in `store`.
    pub fn new(store: Arc<dyn CheckpointStore>, clock: Arc<dyn Clock>, run: RunId) -> Self {
        let report = CheckpointTally { run: run.clone(), saved: 0, failed: 0, unsaved: None };
        Self {
            store,
            clock,
            holder: Arc::new(Embedding),
            policy: CheckpointPolicy::default(),
            folder: None,
            desk: Mutex::new(Desk {
                run,
                claim: None,
                is_over: false,
                fenced_by: None,
                unsaved: BTreeMap::new(),
                paused_until: None,
                log_paused_until: None,
                report,
            }),
            claiming: futures::lock::Mutex::default(),
        }
    }

    /// When they are made and how long they stay; the policy's `store` is the one handed to [`Self::new`].
    #[must_use]
    pub fn with_policy(self, policy: CheckpointPolicy) -> Self {
        Self { policy, ..self }
    }

    /// By whom runs are claimed, and who tells whether another holder is gone.
    #[must_use]
    pub fn held_by(self, holder: Arc<dyn Holder>) -> Self {
        Self { holder, ..self }
    }

    /// The folder that the run works in: another one is a difference when it is resumed.
    #[must_use]
    pub fn in_folder(self, folder: impl Into<String>) -> Self {
        Self { folder: Some(folder.into()), ..self }
    }

    /// What became of the checkpoints until now.
    pub fn report(&self) -> CheckpointTally {
        self.desk().report.clone()
    }

    pub(crate) fn folder(&self) -> Option<&str> {
        self.folder.as_deref()
    }

    pub(crate) const fn policy(&self) -> &CheckpointPolicy {
        &self.policy
    }

    pub(crate) fn store(&self) -> &dyn CheckpointStore {
        &*self.store
    }

    /// Whether a checkpoint of `agent` is due. One that failed is made up for at the next point of any interval, unless the
    /// store did not even answer: that one is left alone for a while.
    pub(crate) fn is_due(&self, agent: &Agent, point: Point, iterations: usize) -> bool {
        let desk = self.desk();
        let Some(moment) = point.moment() else { return true };
        if desk.is_over || self.is_paused(&desk) {
            return false;
        }
        let is_unsaved = desk.unsaved.contains_key(&agent.id);
        if is_unsaved && matches!(moment, CheckpointMoment::Interrupt | CheckpointMoment::End) {
            return true;
        }
        let points = self.policy.points(agent.checkpoint.as_ref());
        // Zero is a multiple of every interval.
        let is_early = is_unsaved || matches!(point, Point::Turn(_));
        points.is_due(moment, if is_early { 0 } else { iterations })
    }

    fn is_paused(&self, desk: &Desk) -> bool {
        desk.paused_until.is_some_and(|until| self.clock.now() < until)
    }

    /// Lets the store be asked once more, at the end of a run, though it did not answer a moment ago.
    pub(crate) fn end_pause(&self) {
        self.desk().paused_until = None;
    }

    /// Checks that no other process has taken the run over, as far as the store can tell: one that fails ends no run.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    pub(crate) async fn check_fence(&self) -> Result<(), StoreError> {
        let claim = {
            let desk = self.desk();
            let is_asked = !desk.is_over && !self.is_paused(&desk);
            desk.claim.clone().filter(|_| is_asked)
        };
        if let Some(claim) = claim
            && let Err(error) = self.store.confirm(&claim).await
        {
            tracing::debug!(%error, "the claim is not confirmed");
            self.desk().take_failure(&error, self.clock.now());
        }
        self.known_fence()
    }

    /// Checks what is known already, without asking the store.
    ///
    /// # Errors
    /// [`StoreError::Fenced`].
    pub(crate) fn known_fence(&self) -> Result<(), StoreError> {
        let desk = self.desk();
        match &desk.fenced_by {
            Some(by) => Err(StoreError::Fenced { run: desk.run.clone(), by: by.clone() }),
            None => Ok(()),
        }
    }

    /// Keeps a state that grew from `parent`.
    ///
    /// # Errors
    /// [`StoreError`] where the store does not; that is in the report.
    pub(crate) async fn save(
        &self,
        snapshot: ContextSnapshot,
        point: Point,
        parent: Option<CheckpointKey>,
    ) -> Result<CheckpointInfo, StoreError> {
        let step = point.step(snapshot.progress.iterations);
        let agent = snapshot.agent.clone();
        let created_at = self.clock.now();
        let new = NewCheckpoint { snapshot, step, reason: point.reason(), created_at, parent };
        let result = self.write(new).await;
        let mut desk = self.desk();
        match &result {
            Ok(_) => {
                desk.report.saved += 1;
                desk.unsaved.remove(&agent);
            }
            Err(error) => {
                desk.report.failed += 1;
                desk.unsaved.insert(agent, error.to_string());
                desk.take_failure(error, self.clock.now());
            }
        }
        desk.report.unsaved = desk.unsaved.values().next().cloned();
        result
    }

    async fn write(&self, mut new: NewCheckpoint) -> Result<CheckpointInfo, StoreError> {
        let run = self.desk().run.clone();
        let claim = self.claim(&run).await?;
        match self.store.save(&claim, &new).await {
            // Somebody has deleted the parent: the whole log is written, of which the store has most.
            Err(StoreError::NotFound { .. }) if new.parent.take().is_some() => {
                self.store.save(&claim, &new).await
            }
            result => result,
        }
    }

    /// Returns the time.
    pub(crate) fn now(&self) -> Timestamp {
        self.clock.now()
    }

    /// Checks whether this process holds a run.
    pub(crate) fn has_claim(&self) -> bool {
        self.desk().claim.is_some()
    }

    /// Keeps that something is about to happen; nothing if another process has the run, or the store is left alone for
    /// a while.
    ///
    /// # Errors
    /// Why it is not kept.
    pub(crate) async fn begin_action(&self, action: &NewAction) -> Result<Option<ActionKey>, String> {
        let run = {
            let desk = self.desk();
            if desk.is_over {
                return Ok(None);
            }
            if self.is_log_paused(&desk) {
                return Err("the store does not answer".to_owned());
            }
            desk.run.clone()
        };
        let kept = match self.claim(&run).await {
            Ok(claim) => self.store.begin_action(&claim, action).await,
            Err(error) => Err(error),
        };
        kept.map(Some).map_err(|error| self.note_gap(&error))
    }

    /// Keeps how it ended.
    ///
    /// # Errors
    /// Why it is not kept.
    pub(crate) async fn end_action(&self, key: ActionKey, end: &ActionEnd) -> Result<(), String> {
        if self.is_log_paused(&self.desk()) {
            return Err("the store does not answer".to_owned());
        }
        self.store.end_action(key, end).await.map_err(|error| self.note_gap(&error))
    }

    fn is_log_paused(&self, desk: &Desk) -> bool {
        self.is_paused(desk) || desk.log_paused_until.is_some_and(|until| self.clock.now() < until)
    }

    /// Takes in why an action is not kept, and returns it in words.
    fn note_gap(&self, error: &StoreError) -> String {
        let (mut desk, now) = (self.desk(), self.clock.now());
        match error {
            StoreError::TimedOut { .. } => desk.log_paused_until = now.checked_add(PAUSE).ok(),
            error => desk.take_failure(error, now),
        }
        error.to_string()
    }

    /// Takes away a checkpoint that a later one made needless; where that fails it stays.
    pub(crate) async fn drop_needless(&self, key: CheckpointKey) {
        let dropped = self.store.delete(&Deletion::Checkpoint(key), Sweep::Done).await;
        if let Err(error) = dropped {
            tracing::debug!(%error, "a needless checkpoint stays");
        }
    }

    /// Goes on with `run`, from whose holder it is taken over where that one is known to be gone or is named; with
    /// `latest`, only while that checkpoint is the latest of the run. From then on nobody else writes it.
    pub(crate) async fn adopt(
        &self,
        run: &RunId,
        takeover: TakeFrom,
        latest: Option<CheckpointKey>,
    ) -> Result<(), StoreError> {
        if self.desk().claim.as_ref().is_some_and(|claim| claim.run == *run) {
            return Ok(());
        }
        let anyone = takeover == TakeFrom::Anyone;
        let (name, now) = (self.holder.name(), self.clock.now());
        let mut from = Takeover::Never;
        for _ in 0..CLAIMS {
            match self.store.claim(run, name, from, now).await {
                Err(StoreError::Held { by, token, .. }) if anyone || self.holder.is_gone(&by) => {
                    from = latest.map_or(Takeover::Of(token), |latest| Takeover::OfAt(token, latest));
                }
                claimed => return claimed.map(|claim| drop(self.take_up(claim))),
            }
        }
        self.store.claim(run, name, from, now).await.map(|claim| drop(self.take_up(claim)))
    }

    /// Gives back a run that was claimed and is not gone on with.
    pub(crate) async fn give_up(&self) {
        let claim = self.desk().claim.take();
        if let Some(claim) = claim
            && let Err(error) = self.store.release(&claim).await
        {
            tracing::debug!(%error, "a run is not given back");
        }
    }

    async fn claim(&self, run: &RunId) -> Result<Claim, StoreError> {
        let _one_at_a_time = self.claiming.lock().await;
        if let Some(claim) = self.desk().claim.clone().filter(|claim| claim.run == *run) {
            return Ok(claim);
        }
        let claimed = claim_from_the_gone(&*self.store, run, &*self.holder, self.clock.now(), None).await?;
        Ok(self.take_up(claimed))
    }

    /// Goes on as the holder of what was claimed.
    fn take_up(&self, claimed: Claim) -> Claim {
        let mut desk = self.desk();
        desk.run = claimed.run.clone();
        desk.report.run = claimed.run.clone();
        desk.claim = Some(claimed.clone());
        desk.is_over = false;
        desk.fenced_by = None;
        claimed
    }

    /// Gives the run back, and lets go what the policy lets go.
    ///
    /// # Errors
    /// The first [`StoreError`]; the rest is done all the same.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        let claim = {
            let mut desk = self.desk();
            // What another process writes is not tidied up here, and a store that does not answer is not asked again.
            if desk.fenced_by.is_some() || self.is_paused(&desk) {
                return Ok(());
            }
            desk.claim.take()
        };
        let Some(claim) = claim else { return Ok(()) };
        let mut result = self.store.release(&claim).await;
        for retention in Retention::at_end(&self.policy, &claim.run) {
            let pruned = self.store.prune(&retention, self.clock.now(), Sweep::Done).await;
            result = result.and(pruned.map(drop));
        }
        result
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Claims `run`; from whoever holds it, where that one is known to be gone. With `latest`, it is taken over only while that
/// checkpoint is the latest of the run.
pub(crate) async fn claim_from_the_gone(
    store: &dyn CheckpointStore,
    run: &RunId,
    holder: &dyn Holder,
    now: Timestamp,
    latest: Option<CheckpointKey>,
) -> Result<Claim, StoreError> {
    match store.claim(run, holder.name(), Takeover::Never, now).await {
        Err(StoreError::Held { by, token, .. }) if holder.is_gone(&by) => {
            let from = latest.map_or(Takeover::Of(token), |latest| Takeover::OfAt(token, latest));
            store.claim(run, holder.name(), from, now).await
        }
        claimed => claimed,
    }
}

/// From whom a run may be taken over that is resumed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TakeFrom {
    /// From a holder that is known to be gone.
    #[default]
    TheGone,
    /// From whoever holds it: nothing more of that one's is saved.
    Anyone,
}

#[cfg(test)]
mod tests {
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn a_point_has_a_name_and_a_reason() {
        for (point, expected) in [
            (Point::Turn(2), ("turn-2", CheckpointReason::Iteration)),
            (Point::Calling, ("calls-6", CheckpointReason::Iteration)),
            (Point::Iteration, ("iteration-6", CheckpointReason::Iteration)),
            (Point::Compaction(3), ("compaction-3", CheckpointReason::Compaction)),
            (Point::Interrupt, ("interrupt-6", CheckpointReason::Interrupt)),
            (Point::End, ("iteration-6", CheckpointReason::End)),
            (Point::Fork, ("fork-6", CheckpointReason::Fork)),
            (Point::Undone(EntryId::nth(1)), ("undo-c1", CheckpointReason::Asked)),
        ] {
            assert_eq!((point.step(6).as_str(), point.reason()), expected);
        }
    }
}
