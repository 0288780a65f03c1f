//! A store in which runs are claimed with leases, and a lease that ran out is renewed if nobody has taken the
//! run.

use std::sync::{Arc, Mutex, PoisonError};

use forge_domain::{
    ActionKey, CheckpointInfo, CheckpointKey, CheckpointStore, Claim, Holder, Lease, NewAction,
    NewCheckpoint, RunId, StoreError, Takeover,
};
use jiff::Timestamp;

/// The most attempts to claim a run that other processes claim at the same moment.
const CLAIMS: usize = 10;

/// The holders from which a resumed run may be taken over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TakeFrom {
    /// Holders that are known to be gone.
    #[default]
    TheGone,
    /// Any holder: it can no longer save.
    Anyone,
}

/// A store, and the lease with which runs are claimed in it.
pub(super) struct LeasedStore {
    store: Arc<dyn CheckpointStore>,
    lease: Option<Lease>,
    /// The time at which the lease had run out before it was renewed, until it is taken.
    lapsed_at: Mutex<Option<Timestamp>>,
}

impl LeasedStore {
    /// Uses `store` without leases.
    pub(super) fn new(store: Arc<dyn CheckpointStore>) -> Self {
        Self { store, lease: None, lapsed_at: Mutex::default() }
    }

    /// Claims runs with `lease`.
    pub(super) fn with_lease(self, lease: Lease) -> Self {
        Self { lease: Some(lease), ..self }
    }

    /// Returns the store itself.
    pub(super) fn inner(&self) -> &dyn CheckpointStore {
        &*self.store
    }

    /// Claims `run` for `holder`, from nobody or from those that `takeover` and `latest` name.
    pub(super) async fn claim(
        &self,
        run: &RunId,
        holder: &dyn Holder,
        takeover: TakeFrom,
        latest: Option<CheckpointKey>,
        now: Timestamp,
    ) -> Result<Claim, StoreError> {
        claim_from(&*self.store, run, holder, takeover, latest, self.lease, now).await
    }

    /// Renews the lease of the claim, if it has one.
    pub(super) async fn renew(&self, claim: &Claim) -> Result<(), StoreError> {
        match self.lease {
            Some(lease) => self.store.renew(claim, lease).await,
            None => Ok(()),
        }
    }

    /// Confirms the claim.
    pub(super) async fn confirm(&self, claim: &Claim) -> Result<(), StoreError> {
        self.write(claim, || self.store.confirm(claim)).await
    }

    /// Saves a checkpoint.
    pub(super) async fn save(
        &self,
        claim: &Claim,
        checkpoint: &NewCheckpoint,
    ) -> Result<CheckpointInfo, StoreError> {
        self.write(claim, || self.store.save(claim, checkpoint)).await
    }

    /// Saves that an action is about to happen.
    pub(super) async fn begin_action(
        &self,
        claim: &Claim,
        action: &NewAction,
    ) -> Result<ActionKey, StoreError> {
        self.write(claim, || self.store.begin_action(claim, action)).await
    }

    /// Returns when the lease had run out before it was renewed, once.
    pub(super) fn take_lapse(&self) -> Option<Timestamp> {
        self.lapsed_at.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Runs `work`, which writes with `claim`. If the lease has run out, as on a machine that slept, it is
    /// renewed, which succeeds only if nobody else has claimed the run, and the work is repeated.
    async fn write<T, F>(&self, claim: &Claim, work: impl Fn() -> F) -> Result<T, StoreError>
    where
        F: Future<Output = Result<T, StoreError>>,
    {
        match work().await {
            Err(StoreError::Lapsed { at, .. }) => {
                self.renew(claim).await?;
                *self.lapsed_at.lock().unwrap_or_else(PoisonError::into_inner) = Some(at);
                work().await
            }
            done => done,
        }
    }
}

/// Claims `run` for `holder`, from no one or from those that `takeover` names. With `latest`, it is taken
/// over only while that checkpoint is the latest of the run.
pub(crate) async fn claim_from(
    store: &dyn CheckpointStore,
    run: &RunId,
    holder: &dyn Holder,
    takeover: TakeFrom,
    latest: Option<CheckpointKey>,
    lease: Option<Lease>,
    now: Timestamp,
) -> Result<Claim, StoreError> {
    let anyone = takeover == TakeFrom::Anyone;
    let mut from = Takeover::Never;
    for _ in 0..CLAIMS {
        match store.claim(run, holder.name(), from, lease, now).await {
            Err(StoreError::Held { by, token, .. }) if anyone || holder.is_gone(&by) => {
                from = latest.map_or(Takeover::Of(token), |latest| Takeover::OfAt(token, latest));
            }
            claimed => return claimed,
        }
    }
    store.claim(run, holder.name(), from, lease, now).await
}
