//! Checkpoints in the memory of this process: for tests, and for runs that no one will resume.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use forge_domain::{
    Action, ActionEnd, ActionKey, Checkpoint, CheckpointFilter, CheckpointInfo, CheckpointKey,
    CheckpointStore, Claim, ContextSnapshot, Deletion, FencingToken, Found, Holding, Lease, LeaseEnd,
    Mending, NewAction, NewCheckpoint, Pruned, Retention, RunId, RunInfo, SearchQuery, StoreError,
    StoreHealth, Sweep, Takeover,
};
use jiff::Timestamp;
use parking_lot::{Mutex, MutexGuard};

/// The version that a check reports: there is no older form.
const SCHEMA: u32 = 1;

/// A checkpoint store in the memory of this process.
#[derive(Default)]
pub struct MemoryCheckpointStore {
    shelves: Mutex<Shelves>,
}

#[derive(Clone, Default)]
struct Shelves {
    runs: BTreeMap<RunId, Held>,
    checkpoints: BTreeMap<CheckpointKey, Kept>,
    /// In the order of their beginnings.
    actions: BTreeMap<u64, KeptAction>,
    last_key: u64,
    last_token: u64,
    last_action: u64,
}

#[derive(Clone)]
struct KeptAction {
    run: RunId,
    /// The action that it is a copy of, in a run that began with another one's checkpoint.
    origin: Option<u64>,
    action: Action,
}

#[derive(Clone)]
struct Held {
    token: FencingToken,
    holder: Option<String>,
    since: Timestamp,
    /// The end of the holder's lease.
    until: Option<Timestamp>,
}

impl Held {
    /// Returns the end of the holder's lease.
    fn lease(&self) -> Option<LeaseEnd> {
        self.until.map(|at| LeaseEnd { at, has_passed: at <= Timestamp::now() })
    }

    /// Returns the end of the holder's lease if it has passed.
    fn lapsed_at(&self) -> Option<Timestamp> {
        self.lease().filter(|lease| lease.has_passed).map(|lease| lease.at)
    }
}

/// Returns the end of a lease that begins now.
fn end_of(lease: Lease) -> Timestamp {
    Timestamp::now().checked_add(lease.time()).unwrap_or(Timestamp::MAX)
}

/// A checkpoint, and the parent that its save named, by which a repeated save is recognized.
#[derive(Clone)]
struct Kept {
    info: CheckpointInfo,
    snapshot: ContextSnapshot,
    saved_parent: Option<CheckpointKey>,
}

impl MemoryCheckpointStore {
    /// Creates an empty store.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sweeps the shelves, or a copy of them.
    fn sweep(
        &self,
        sweep: Sweep,
        work: impl FnOnce(&mut Shelves) -> Result<Pruned, StoreError>,
    ) -> Result<Pruned, StoreError> {
        let mut shelves = self.shelves();
        match sweep {
            Sweep::Done => work(&mut shelves),
            Sweep::Rehearsed => work(&mut shelves.clone()),
        }
    }

    fn shelves(&self) -> MutexGuard<'_, Shelves> {
        self.shelves.lock()
    }
}

fn no_such(what: impl Into<String>) -> StoreError {
    StoreError::NotFound { place: "memory:".into(), what: what.into() }
}

impl Shelves {
    fn infos(&self) -> Vec<CheckpointInfo> {
        self.checkpoints.values().rev().map(|kept| kept.info.clone()).collect()
    }

    fn held_runs(&self) -> BTreeSet<RunId> {
        let held = self.runs.iter().filter(|(_, holding)| holding.holder.is_some());
        held.map(|(run, _)| run.clone()).collect()
    }

    /// Checks that the claim permits writing.
    fn check_claim(&self, claim: &Claim) -> Result<(), StoreError> {
        match self.holding_of(claim)?.lapsed_at() {
            None => Ok(()),
            Some(at) => Err(StoreError::Lapsed { run: claim.run.clone(), at }),
        }
    }

    /// Returns the holding of the claim, whose lease may have run out.
    fn holding_of(&self, claim: &Claim) -> Result<&Held, StoreError> {
        let holding = self.runs.get(&claim.run).ok_or_else(|| no_such(format!("run `{}`", claim.run)))?;
        if holding.token == claim.token && holding.holder.is_some() {
            return Ok(holding);
        }
        let by = holding.holder.clone().unwrap_or_else(|| "a process that has ended".into());
        Err(StoreError::Fenced { run: claim.run.clone(), by })
    }

    fn check_parent(&self, checkpoint: &NewCheckpoint) -> Result<(), StoreError> {
        let Some(parent) = checkpoint.parent else { return Ok(()) };
        let kept =
            self.checkpoints.get(&parent).ok_or_else(|| no_such(format!("parent checkpoint {parent}")))?;
        let (known, new) = (kept.snapshot.conversation.entries(), checkpoint.snapshot.conversation.entries());
        let follows = known.len() <= new.len()
            && kept.info.agent == checkpoint.snapshot.agent
            && known.last() == known.len().checked_sub(1).map(|last| &new[last]);
        if follows { Ok(()) } else { Err(StoreError::Diverged { parent }) }
    }

    fn take_away(&mut self, keys: &BTreeSet<CheckpointKey>) -> Pruned {
        let mut pruned = Pruned::default();
        let mut runs = BTreeSet::new();
        for key in keys {
            let Some(gone) = self.checkpoints.remove(key) else { continue };
            pruned.checkpoints.insert(*key);
            for kept in self.checkpoints.values_mut().filter(|kept| kept.info.parent == Some(*key)) {
                kept.info.parent = gone.info.parent;
            }
            runs.insert(gone.info.run);
        }
        pruned.runs = self.forget_empty_runs(|run| runs.contains(run));
        pruned
    }

    /// Deletes the runs among `chosen` that have neither a holder nor a checkpoint, and returns their number.
    fn forget_empty_runs(&mut self, chosen: impl Fn(&RunId) -> bool) -> usize {
        let runs_before = self.runs.len();
        let with_checkpoints: BTreeSet<_> = self.checkpoints.values().map(|kept| &kept.info.run).collect();
        self.runs.retain(|run, holding| {
            holding.holder.is_some() || with_checkpoints.contains(run) || !chosen(run)
        });
        self.actions.retain(|_, kept| self.runs.contains_key(&kept.run));
        runs_before - self.runs.len()
    }

    /// Gives `run` the actions up to its `parent`, a checkpoint of another run.
    fn inherit_actions(&mut self, run: &RunId, parent: &CheckpointInfo) {
        let is_known = |shelves: &Self, origin: u64| {
            shelves.actions.values().any(|kept| kept.run == *run && kept.origin == Some(origin))
        };
        let theirs = self
            .actions
            .iter()
            .filter(|(_, kept)| kept.run == parent.run && kept.action.begun.at <= parent.created_at);
        let theirs: Vec<_> =
            theirs.map(|(key, kept)| (kept.origin.unwrap_or(*key), kept.action.clone())).collect();
        for (origin, action) in theirs {
            if !is_known(self, origin) {
                self.last_action += 1;
                let kept = KeptAction { run: run.clone(), origin: Some(origin), action };
                self.actions.insert(self.last_action, kept);
            }
        }
    }

    fn keys_of(&self, run: &RunId) -> BTreeSet<CheckpointKey> {
        let of_run = self.checkpoints.values().filter(|kept| kept.info.run == *run);
        of_run.map(|kept| kept.info.key).collect()
    }

    fn delete(&mut self, what: &Deletion) -> Result<Pruned, StoreError> {
        match what {
            Deletion::Checkpoint(key) if self.checkpoints.contains_key(key) => {
                Ok(self.take_away(&BTreeSet::from([*key])))
            }
            Deletion::Checkpoint(key) => Err(no_such(format!("checkpoint {key}"))),
            Deletion::Run(run) => {
                let holding = self.runs.get_mut(run).ok_or_else(|| no_such(format!("run `{run}`")))?;
                holding.holder = None;
                let keys = self.keys_of(run);
                let mut pruned = self.take_away(&keys);
                pruned.runs += self.forget_empty_runs(|empty| empty == run);
                Ok(pruned)
            }
        }
    }

    fn prune(&mut self, retention: &Retention, now: Timestamp) -> Pruned {
        let overdue = retention.overdue(&self.infos(), &self.held_runs(), now);
        let mut pruned = self.take_away(&overdue);
        pruned.runs += self.forget_empty_runs(|_| true);
        while let Some(run) = retention.oldest_over_size(&self.infos(), &self.held_runs(), self.bytes()) {
            let keys = self.keys_of(&run);
            pruned.take(self.take_away(&keys));
        }
        pruned
    }

    /// Returns the approximate size of the checkpoints' texts.
    fn bytes(&self) -> u64 {
        let messages = self.checkpoints.values().flat_map(|kept| kept.snapshot.conversation.messages());
        messages.map(|message| message.message().to_text().len() as u64).sum()
    }
}

#[async_trait]
impl CheckpointStore for MemoryCheckpointStore {
    async fn claim(
        &self,
        run: &RunId,
        holder: &str,
        takeover: Takeover,
        lease: Option<Lease>,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        let mut shelves = self.shelves();
        if let Some(held) = shelves.runs.get(run)
            && let Held { token, holder: Some(by), since, .. } = held
            && !takeover.ends(*token)
            && held.lapsed_at().is_none()
        {
            let (run, by, since, token) = (run.clone(), by.clone(), *since, *token);
            return Err(StoreError::Held { run, by, since, token });
        }
        if takeover.latest().is_some_and(|latest| shelves.keys_of(run).last() != Some(&latest)) {
            return Err(StoreError::Moved { run: run.clone() });
        }
        shelves.last_token += 1;
        let token = FencingToken::new(shelves.last_token);
        let until = lease.map(end_of);
        let holding = Held { token, holder: Some(holder.to_owned()), since: now, until };
        shelves.runs.insert(run.clone(), holding);
        Ok(Claim { run: run.clone(), token })
    }

    async fn renew(&self, claim: &Claim, lease: Lease) -> Result<(), StoreError> {
        let mut shelves = self.shelves();
        shelves.holding_of(claim)?;
        if let Some(holding) = shelves.runs.get_mut(&claim.run) {
            holding.until = Some(end_of(lease));
        }
        Ok(())
    }

    async fn release(&self, claim: &Claim) -> Result<(), StoreError> {
        let mut shelves = self.shelves();
        if let Some(holding) = shelves.runs.get_mut(&claim.run).filter(|held| held.token == claim.token) {
            holding.holder = None;
        }
        Ok(())
    }

    async fn confirm(&self, claim: &Claim) -> Result<(), StoreError> {
        self.shelves().check_claim(claim)
    }

    async fn save(&self, claim: &Claim, checkpoint: &NewCheckpoint) -> Result<CheckpointInfo, StoreError> {
        let mut shelves = self.shelves();
        shelves.check_claim(claim)?;
        shelves.check_parent(checkpoint)?;
        let of_run = shelves.checkpoints.values().rev().filter(|kept| kept.info.run == claim.run);
        let mut same = of_run.filter(|kept| {
            kept.saved_parent == checkpoint.parent
                && kept.info.step == checkpoint.step
                && kept.info.reason == checkpoint.reason
                && kept.snapshot == checkpoint.snapshot
        });
        if let Some(kept) = same.next() {
            return Ok(kept.info.clone());
        }
        let parent = checkpoint.parent.and_then(|parent| shelves.checkpoints.get(&parent));
        if let Some(parent) = parent.map(|kept| kept.info.clone()).filter(|parent| parent.run != claim.run) {
            shelves.inherit_actions(&claim.run, &parent);
        }
        shelves.last_key += 1;
        let key = CheckpointKey::new(shelves.last_key);
        let info = checkpoint.info(&claim.run, key);
        let kept = Kept {
            info: info.clone(),
            snapshot: checkpoint.snapshot.clone(),
            saved_parent: checkpoint.parent,
        };
        shelves.checkpoints.insert(key, kept);
        Ok(info)
    }

    async fn begin_action(&self, claim: &Claim, action: &NewAction) -> Result<ActionKey, StoreError> {
        let mut shelves = self.shelves();
        shelves.check_claim(claim)?;
        shelves.last_action += 1;
        let key = shelves.last_action;
        let action = Action { begun: action.clone(), end: None };
        shelves.actions.insert(key, KeptAction { run: claim.run.clone(), origin: None, action });
        Ok(ActionKey::new(key))
    }

    async fn end_action(&self, key: ActionKey, end: &ActionEnd) -> Result<(), StoreError> {
        if let Some(kept) = self.shelves().actions.get_mut(&key.as_u64()) {
            kept.action.end = Some(end.clone());
        }
        Ok(())
    }

    async fn actions(&self, run: &RunId) -> Result<Vec<Action>, StoreError> {
        let shelves = self.shelves();
        if !shelves.runs.contains_key(run) {
            return Err(no_such(format!("run `{run}`")));
        }
        let of_run = shelves.actions.values().filter(|kept| kept.run == *run);
        Ok(of_run.map(|kept| kept.action.clone()).collect())
    }

    async fn load(&self, key: CheckpointKey) -> Result<Checkpoint, StoreError> {
        let shelves = self.shelves();
        let kept = shelves.checkpoints.get(&key).ok_or_else(|| no_such(format!("checkpoint {key}")))?;
        Ok(Checkpoint { info: kept.info.clone(), snapshot: kept.snapshot.clone() })
    }

    async fn list(&self, filter: &CheckpointFilter) -> Result<Vec<CheckpointInfo>, StoreError> {
        let infos = self.shelves().infos();
        let admitted = infos.into_iter().filter(|info| filter.admits(info));
        Ok(admitted.take(filter.limit.unwrap_or(usize::MAX)).collect())
    }

    async fn runs(&self) -> Result<Vec<RunInfo>, StoreError> {
        let shelves = self.shelves();
        let info = |(run, holding): (&RunId, &Held)| {
            let (lease, Held { token, holder, since, .. }) = (holding.lease(), holding.clone());
            RunInfo { run: run.clone(), holder: holder.map(|by| Holding { by, since, token, lease }) }
        };
        Ok(shelves.runs.iter().map(info).collect())
    }

    async fn delete(&self, what: &Deletion, sweep: Sweep) -> Result<Pruned, StoreError> {
        self.sweep(sweep, |shelves| shelves.delete(what))
    }

    async fn prune(&self, retention: &Retention, now: Timestamp, sweep: Sweep) -> Result<Pruned, StoreError> {
        self.sweep(sweep, |shelves| Ok(shelves.prune(retention, now)))
    }

    async fn search(&self, run: &RunId, query: &SearchQuery) -> Result<Vec<Found>, StoreError> {
        let shelves = self.shelves();
        if !shelves.runs.contains_key(run) {
            return Err(no_such(format!("run `{run}`")));
        }
        let mut seen = BTreeSet::new();
        let mut found = Vec::new();
        for kept in shelves.checkpoints.values().rev().filter(|kept| kept.info.run == *run) {
            let agent = &kept.info.agent;
            if seen.insert(agent.clone()) && query.agent.as_ref().is_none_or(|only| only == agent) {
                let messages = kept.snapshot.conversation.find(query);
                found.extend(messages.map(|(message, excerpt)| Found {
                    agent: agent.clone(),
                    message,
                    excerpt,
                }));
            }
        }
        found.truncate(query.limit);
        Ok(found)
    }

    async fn check(&self, _: Mending) -> Result<StoreHealth, StoreError> {
        let shelves = self.shelves();
        let complete = |kept: &&Kept| !kept.snapshot.conversation.coverage().is_complete();
        let lost = shelves.checkpoints.values().filter(complete);
        Ok(StoreHealth {
            schema: SCHEMA,
            checkpoints: shelves.checkpoints.len(),
            bytes: shelves.bytes(),
            faults: lost.map(|kept| format!("checkpoint {} lost messages", kept.info.key)).collect(),
        })
    }
}
