//! The limits of a slice: after so many calls or so much time a turn pauses at its next safe point.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The limits of a slice. Whichever is reached first ends it; at least one call to the model is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SliceLimits {
    /// The most calls to models, those of sub-agents among them.
    pub calls: Option<NonZeroUsize>,
    /// The most time.
    pub time: Option<Duration>,
}

/// The pace of a run: whether its turn pauses before the next call to the model.
#[derive(Debug, Default)]
pub struct Pacing {
    slice: Mutex<Slice>,
    pause: Arc<AtomicBool>,
}

#[derive(Debug, Default)]
struct Slice {
    limits: SliceLimits,
    begun: Option<Instant>,
    n_calls: usize,
}

/// A handle by which a slice is asked from outside to pause at its next safe point.
#[derive(Clone, Debug)]
pub struct PauseHandle(Arc<AtomicBool>);

impl PauseHandle {
    /// Asks for a pause. The call that runs is completed, and so are the tools that it calls.
    pub fn pause(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Pacing {
    /// Begins a slice.
    pub(crate) fn begin(&self, limits: SliceLimits) {
        *self.lock() = Slice { limits, begun: Some(Instant::now()), n_calls: 0 };
    }

    /// Ends the slice: what follows has no limits.
    pub(crate) fn end(&self) {
        *self.lock() = Slice::default();
        self.pause.store(false, Ordering::Relaxed);
    }

    /// Returns a handle that asks for a pause.
    pub fn handle(&self) -> PauseHandle {
        PauseHandle(Arc::clone(&self.pause))
    }

    /// Counts a call to a model.
    pub(crate) fn count_call(&self) {
        self.lock().n_calls += 1;
    }

    /// Returns the calls to models in this slice.
    pub(crate) fn calls(&self) -> usize {
        self.lock().n_calls
    }

    /// Checks whether the turn pauses here.
    pub(crate) fn is_due(&self) -> bool {
        let Slice { limits, begun, n_calls } = &*self.lock();
        let Some(begun) = begun.filter(|_| *n_calls > 0) else { return false };
        self.pause.load(Ordering::Relaxed)
            || limits.calls.is_some_and(|most| *n_calls >= most.get())
            || limits.time.is_some_and(|most| begun.elapsed() >= most)
    }

    fn lock(&self) -> MutexGuard<'_, Slice> {
        self.slice.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_pauses_after_its_calls_or_its_time_or_when_it_is_asked_and_never_before_a_call() {
        let most = |calls, time| SliceLimits { calls: NonZeroUsize::new(calls), time };
        for (limits, asked, n_calls, expected) in [
            (most(0, None), false, 99, false),
            (most(2, None), false, 1, false),
            (most(2, None), false, 2, true),
            (most(0, Some(Duration::ZERO)), false, 0, false),
            (most(0, Some(Duration::ZERO)), false, 1, true),
            (most(0, Some(Duration::from_secs(3_600))), false, 1, false),
            (most(0, None), true, 0, false),
            (most(0, None), true, 1, true),
        ] {
            let pacing = Pacing::default();
            pacing.begin(limits);
            if asked {
                pacing.handle().pause();
            }
            (0..n_calls).for_each(|_| pacing.count_call());
            assert_eq!(pacing.is_due(), expected, "{limits:?}, {asked}, {n_calls}");
            pacing.end();
            pacing.count_call();
            assert!(!pacing.is_due());
        }
    }
}
