//! The checkpoints of a run in a store. A store that fails costs checkpoints, never the run.

mod leased_store;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use forge_domain::{
    ActionEnd, ActionKey, Agent, AgentId, CheckpointInfo, CheckpointKey, CheckpointMoment, CheckpointPolicy,
    CheckpointReason, CheckpointStore, Claim, Clock, ContextSnapshot, Deletion, EntryId, FencingToken,
    Holder, Lease, NewAction, NewCheckpoint, Retention, RunId, StoreError, Sweep, WorkspaceKeeper,
};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

use self::leased_store::LeasedStore;
pub use self::leased_store::TakeFrom;
pub(crate) use self::leased_store::claim_from;

/// The pause before a store that timed out is tried again.
const PAUSE: SignedDuration = SignedDuration::from_secs(30);

/// The checkpoints of a run: their store, their policy and their tally.
pub struct Checkpointing {
    store: LeasedStore,
    clock: Arc<dyn Clock>,
    holder: Arc<dyn Holder>,
    policy: CheckpointPolicy,
    folder: Option<String>,
    /// The keeper of the run's files, if they travel with it.
    keeper: Option<Arc<dyn WorkspaceKeeper>>,
    /// True if nothing is done that is not saved before.
    is_strict: bool,
    desk: Mutex<Desk>,
    /// Held while the run is claimed, so that two calls do not claim it at once.
    claiming: futures::lock::Mutex<()>,
}

struct Desk {
    run: RunId,
    claim: Option<Claim>,
    /// True after another process has taken the run over or deleted it: nothing more is written.
    is_over: bool,
    /// The process that took the run over.
    fenced_by: Option<String>,
    /// Agents whose latest state is not in the store, with the reason.
    unsaved: BTreeMap<AgentId, String>,
    /// The end of a pause, because the store did not answer.
    paused_until: Option<Timestamp>,
    /// The end of a pause of the log of actions alone: checkpoints are tried all the same, because only they
    /// show whether the run is saved.
    log_paused_until: Option<Timestamp>,
    report: CheckpointTally,
}

impl Desk {
    /// Checks whether the log of actions alone pauses at `now`, because the store did not answer.
    fn is_log_paused(&self, now: Timestamp) -> bool {
        self.log_paused_until.is_some_and(|until| now < until)
    }

    /// Continues as the holder of what was claimed.
    fn take_up(&mut self, claimed: Claim) {
        self.run = claimed.run.clone();
        self.report.run = claimed.run.clone();
        self.claim = Some(claimed);
        self.is_over = false;
        self.fenced_by = None;
    }

    /// Notes why the store failed.
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

/// The reason why a run may not continue in this process.
#[derive(Debug)]
pub(crate) enum HoldError {
    /// Another process has taken it over: [`StoreError::Fenced`].
    Fenced(StoreError),
    /// It is strict, and its latest state is not saved.
    Unsaved(String),
}

impl From<StoreError> for HoldError {
    fn from(error: StoreError) -> Self {
        match error {
            error @ StoreError::Fenced { .. } => Self::Fenced(error),
            error => Self::Unsaved(error.to_string()),
        }
    }
}

/// The tally of a run's checkpoints in this process.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckpointTally {
    /// The run, by which it is resumed.
    pub run: RunId,
    /// Checkpoints that were saved, without those that a later one replaced.
    pub saved: usize,
    /// Saves that failed.
    pub failed: usize,
    /// The reason why the latest state is not in the store; `None` if it is.
    pub unsaved: Option<String>,
    /// True if another process has taken the run over, which saves it from now on.
    pub is_taken_over: bool,
    /// True if the run was in the store before this process continued it.
    #[serde(skip)]
    pub is_resumed: bool,
    /// The last checkpoint that was saved, and the token under which it was.
    #[serde(skip)]
    pub last: Option<(CheckpointKey, FencingToken)>,
}

impl CheckpointTally {
    /// Checks whether the store has anything of the run, by which it can be resumed.
    pub const fn is_resumable(&self) -> bool {
        self.saved > 0 || self.is_resumed
    }
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
    /// The turn pauses, or waits for a person.
    Pause,
    /// The turn is over.
    End,
    /// The state is another run's.
    Fork,
    /// The compaction of that name was undone.
    Undone(EntryId),
}

impl Point {
    /// Returns the moment by which checkpoints are due here; `None` if they always are.
    const fn moment(self) -> Option<CheckpointMoment> {
        match self {
            Self::Turn(_) | Self::Calling | Self::Iteration => Some(CheckpointMoment::Iteration),
            Self::Compaction(_) => Some(CheckpointMoment::Compaction),
            Self::Interrupt => Some(CheckpointMoment::Interrupt),
            Self::End => Some(CheckpointMoment::End),
            Self::Pause | Self::Fork | Self::Undone(_) => None,
        }
    }

    pub(crate) fn reason(self) -> CheckpointReason {
        match self {
            Self::Undone(_) => CheckpointReason::Asked,
            Self::Pause => CheckpointReason::Pause,
            point => point.moment().map_or(CheckpointReason::Fork, CheckpointReason::from),
        }
    }

    /// Returns the checkpoint's name after its agent's, after `iterations` calls to the model.
    pub(crate) fn step(self, iterations: usize) -> String {
        match self {
            Self::Turn(n) => format!("turn-{n}"),
            Self::Calling => format!("calls-{iterations}"),
            Self::Iteration | Self::End => format!("iteration-{iterations}"),
            Self::Compaction(n) => format!("compaction-{n}"),
            Self::Pause => format!("pause-{iterations}"),
            Self::Interrupt => format!("interrupt-{iterations}"),
            Self::Fork => format!("fork-{iterations}"),
            Self::Undone(entry) => format!("undo-{entry}"),
        }
    }
}

/// A holder for a program that does not name itself.
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
    /// Saves the checkpoints of `run`, which begins with the first of them, in `store`.
    pub fn new(store: Arc<dyn CheckpointStore>, clock: Arc<dyn Clock>, run: RunId) -> Self {
        let report = CheckpointTally {
            run: run.clone(),
            saved: 0,
            failed: 0,
            unsaved: None,
            is_taken_over: false,
            is_resumed: false,
            last: None,
        };
        Self {
            store: LeasedStore::new(store),
            clock,
            holder: Arc::new(Embedding),
            policy: CheckpointPolicy::default(),
            folder: None,
            keeper: None,
            is_strict: false,
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

    /// Sets when they are made and how long they are retained. The policy's `store` is the one given to
    /// [`Self::new`].
    #[must_use]
    pub fn with_policy(self, policy: CheckpointPolicy) -> Self {
        Self { policy, ..self }
    }

    /// Sets the holder under whose name runs are claimed. It also knows whether another holder is gone.
    #[must_use]
    pub fn held_by(self, holder: Arc<dyn Holder>) -> Self {
        Self { holder, ..self }
    }

    /// Sets the folder that the run works in. Another folder is a difference when the run is resumed.
    #[must_use]
    pub fn in_folder(self, folder: impl Into<String>) -> Self {
        Self { folder: Some(folder.into()), ..self }
    }

    /// Has `keeper` pin the files of the run before each checkpoint, which is saved only if they are.
    #[must_use]
    pub fn with_files(self, keeper: Arc<dyn WorkspaceKeeper>) -> Self {
        Self { keeper: Some(keeper), ..self }
    }

    /// Claims runs for the time of `lease`, so that another machine can continue a run whose process is gone.
    /// The caller calls [`Self::renew`] every [`Lease::renewal`] as long as the run is held.
    #[must_use]
    pub fn with_lease(self, lease: Lease) -> Self {
        Self { store: self.store.with_lease(lease), ..self }
    }

    /// Saves at every point, whatever the policy, and ends the run if that fails: no model is asked, and no
    /// tool called, that is not known to the next process. Otherwise a store that fails costs checkpoints,
    /// not the run.
    #[must_use]
    pub fn strict(self) -> Self {
        Self { is_strict: true, ..self }
    }

    /// Renews the lease of the run, if this process holds one with a lease. A store that fails is asked again
    /// by the next renewal; a run that was taken over ends before its next call.
    pub async fn renew(&self) {
        let claim = self.desk().claim.clone();
        if let Some(claim) = claim
            && let Err(error) = self.store.renew(&claim).await
        {
            tracing::debug!(%error, "the lease is not renewed");
            self.desk().take_failure(&error, self.clock.now());
        }
    }

    /// Returns the tally until now.
    pub fn report(&self) -> CheckpointTally {
        let desk = self.desk();
        CheckpointTally { is_taken_over: desk.fenced_by.is_some(), ..desk.report.clone() }
    }

    pub(crate) fn folder(&self) -> Option<&str> {
        self.folder.as_deref()
    }

    pub(crate) const fn policy(&self) -> &CheckpointPolicy {
        &self.policy
    }

    /// Returns the store in which they are saved.
    pub fn store(&self) -> &dyn CheckpointStore {
        self.store.inner()
    }

    /// Checks whether a checkpoint of `agent` is due. One that failed is made up for at the next point of any
    /// interval, unless the store did not even answer: then there is a pause, and what would be due in it
    /// counts as not saved.
    pub(crate) fn is_due(&self, agent: &Agent, point: Point, iterations: usize) -> bool {
        let mut desk = self.desk();
        let Some(moment) = point.moment() else { return true };
        if desk.is_over || self.is_strict {
            return !desk.is_over;
        }
        let is_unsaved = desk.unsaved.contains_key(&agent.id);
        let is_last = matches!(moment, CheckpointMoment::Interrupt | CheckpointMoment::End);
        let points = self.policy.points(agent.checkpoint.as_ref());
        // Zero is a multiple of every interval.
        let is_early = is_unsaved || matches!(point, Point::Turn(_));
        let is_due = (is_unsaved && is_last) || points.is_due(moment, if is_early { 0 } else { iterations });
        let is_paused = self.is_paused(&desk);
        if is_due && is_paused && !is_unsaved {
            desk.unsaved.insert(agent.id.clone(), "the store did not answer".to_owned());
            desk.report.unsaved = desk.unsaved.values().next().cloned();
        }
        is_due && !is_paused
    }

    fn is_paused(&self, desk: &Desk) -> bool {
        !self.is_strict && desk.paused_until.is_some_and(|until| self.clock.now() < until)
    }

    /// Ends the pause: at the end of a run the store is asked again.
    pub(crate) fn end_pause(&self) {
        self.desk().paused_until = None;
    }

    /// Checks that no other process has taken the run over, as far as the store can tell. A store that fails
    /// ends no run that is not strict. Returns when the lease had run out, if it did, and was renewed since
    /// the last check.
    ///
    /// # Errors
    /// [`HoldError`].
    pub(crate) async fn check_fence(&self) -> Result<Option<Timestamp>, HoldError> {
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
            if self.is_strict {
                return Err(error.into());
            }
        }
        self.check_known_fence().map(|()| self.store.take_lapse())
    }

    /// Checks what is known already, without asking the store.
    ///
    /// # Errors
    /// [`HoldError`].
    pub(crate) fn check_known_fence(&self) -> Result<(), HoldError> {
        let desk = self.desk();
        if let Some(by) = &desk.fenced_by {
            return Err(StoreError::Fenced { run: desk.run.clone(), by: by.clone() }.into());
        }
        let unsaved = desk.report.unsaved.clone().filter(|_| self.is_strict);
        unsaved.map_or(Ok(()), |why| Err(HoldError::Unsaved(why)))
    }

    /// Saves a state that grew from `parent`.
    ///
    /// # Errors
    /// [`StoreError`] if the store fails; that is in the tally.
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
            Ok(info) => {
                desk.report.saved += 1;
                desk.report.last = desk.claim.as_ref().map(|claim| (info.key, claim.token));
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
        if let Some(keeper) = &self.keeper {
            keeper.pin().await.map_err(StoreError::Unkept)?.save_with(&mut new.snapshot.progress);
        }
        match self.store.save(&claim, &new).await {
            // Another process has deleted the parent: the whole log is written, of which the store has most.
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

    /// Saves that an action is about to happen, unless another process has the run.
    ///
    /// # Errors
    /// The reason why it is not saved, in words.
    pub(crate) async fn begin_action(&self, action: &NewAction) -> Result<Option<ActionKey>, String> {
        let run = {
            let desk = self.desk();
            if desk.is_over {
                return Ok(None);
            }
            if self.is_paused(&desk) || desk.is_log_paused(self.clock.now()) {
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

    /// Saves how an action ended.
    ///
    /// # Errors
    /// The reason why it is not saved, in words.
    pub(crate) async fn end_action(&self, key: ActionKey, end: &ActionEnd) -> Result<(), String> {
        let is_paused = {
            let desk = self.desk();
            self.is_paused(&desk) || desk.is_log_paused(self.clock.now())
        };
        if is_paused {
            return Err("the store does not answer".to_owned());
        }
        self.store.inner().end_action(key, end).await.map_err(|error| self.note_gap(&error))
    }

    /// Notes why an action is not saved, and returns it in words.
    fn note_gap(&self, error: &StoreError) -> String {
        let (mut desk, now) = (self.desk(), self.clock.now());
        match error {
            StoreError::TimedOut { .. } => desk.log_paused_until = now.checked_add(PAUSE).ok(),
            error => desk.take_failure(error, now),
        }
        error.to_string()
    }

    /// Deletes a checkpoint that a later one replaced. If that fails, it stays.
    pub(crate) async fn delete_replaced(&self, key: CheckpointKey) {
        match self.store.inner().delete(&Deletion::Checkpoint(key), Sweep::Done).await {
            Ok(_) => {
                let mut desk = self.desk();
                desk.report.saved = desk.report.saved.saturating_sub(1);
            }
            Err(error) => tracing::debug!(%error, "a needless checkpoint stays"),
        }
    }

    /// Continues `run`. It is taken over from its holder if that one is known to be gone, or if anyone may be
    /// taken from; with `latest`, only while that checkpoint is the latest of the run. From then on no other
    /// process writes it.
    pub(crate) async fn adopt(
        &self,
        run: &RunId,
        takeover: TakeFrom,
        latest: Option<CheckpointKey>,
    ) -> Result<(), StoreError> {
        if self.desk().claim.as_ref().is_some_and(|claim| claim.run == *run) {
            return Ok(());
        }
        let claimed = self.store.claim(run, &*self.holder, takeover, latest, self.clock.now()).await?;
        let mut desk = self.desk();
        desk.take_up(claimed);
        desk.report.is_resumed = true;
        Ok(())
    }

    /// Releases a run that was claimed and is not continued.
    pub(crate) async fn give_up(&self) {
        let claim = {
            let mut desk = self.desk();
            desk.report.is_resumed = false;
            desk.claim.take()
        };
        if let Some(claim) = claim
            && let Err(error) = self.store.inner().release(&claim).await
        {
            tracing::debug!(%error, "a run is not given back");
        }
    }

    async fn claim(&self, run: &RunId) -> Result<Claim, StoreError> {
        let _one_at_a_time = self.claiming.lock().await;
        if let Some(claim) = self.desk().claim.clone().filter(|claim| claim.run == *run) {
            return Ok(claim);
        }
        let now = self.clock.now();
        let claimed = self.store.claim(run, &*self.holder, TakeFrom::TheGone, None, now).await?;
        self.desk().take_up(claimed.clone());
        Ok(claimed)
    }

    /// Releases the run, and deletes the checkpoints that the policy no longer retains.
    ///
    /// # Errors
    /// The first [`StoreError`]. The rest is done all the same.
    pub(crate) async fn close(&self) -> Result<(), StoreError> {
        let claim = {
            let mut desk = self.desk();
            // What another process writes is not tidied up here, and a store that does not answer is not
            // asked again.
            if desk.fenced_by.is_some() || self.is_paused(&desk) {
                return Ok(());
            }
            desk.claim.take()
        };
        let Some(claim) = claim else { return Ok(()) };
        let mut result = self.store.inner().release(&claim).await;
        for retention in Retention::at_end(&self.policy, &claim.run) {
            let pruned = self.store.inner().prune(&retention, self.clock.now(), Sweep::Done).await;
            result = result.and(pruned.map(drop));
        }
        result
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }
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
            (Point::Pause, ("pause-6", CheckpointReason::Pause)),
            (Point::End, ("iteration-6", CheckpointReason::End)),
            (Point::Fork, ("fork-6", CheckpointReason::Fork)),
            (Point::Undone(EntryId::nth(1)), ("undo-c1", CheckpointReason::Asked)),
        ] {
            assert_eq!((point.step(6).as_str(), point.reason()), expected);
        }
    }
}
