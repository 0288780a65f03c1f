//! The lines that a worker and the process of a slice say to each other. The first line of the worker is the
//! request, and the last one of the slice its end.

use std::num::NonZeroUsize;
use std::time::Duration;

use forge_app::{SliceLimits, SliceOrder, SliceOutcome};
use forge_domain::Lease;
use serde::{Deserialize, Serialize};

/// The line by which the worker asks for a sign of life, and lets the lease be renewed.
pub(super) const TICK: &str = "tick";
/// The line by which the worker asks the slice to pause.
pub(super) const PAUSE: &str = "pause";

/// The first line of the worker.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct SliceRequest {
    pub(super) order: SliceOrder,
    pub(super) lease_ms: u64,
    pub(super) calls: Option<NonZeroUsize>,
    pub(super) time_ms: Option<u64>,
}

impl SliceRequest {
    /// Returns a request for a slice within `limits`, which is alive as long as its `lease` is renewed.
    pub(super) fn new(order: SliceOrder, lease: Lease, limits: SliceLimits) -> Self {
        let millis = |time: Duration| u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        Self { order, lease_ms: millis(lease.time()), calls: limits.calls, time_ms: limits.time.map(millis) }
    }

    /// Returns the limits of the slice.
    pub(super) fn limits(&self) -> SliceLimits {
        SliceLimits { calls: self.calls, time: self.time_ms.map(Duration::from_millis) }
    }
}

/// A line of the slice.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SliceLine {
    /// It is alive; what it holds is renewed.
    Beat,
    /// It ended so.
    Outcome(SliceOutcome),
    /// It can be tried again, for this reason.
    Again(String),
    /// It failed for good, for this reason.
    Final(String),
}

#[cfg(test)]
mod tests {
    use forge_domain::RunId;
    use pretty_assertions::assert_eq;

    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written() {
        let order =
            SliceOrder { run: RunId::new("r").unwrap(), checkpoint: None, token: None, words: Vec::new() };
        let limits = SliceLimits { calls: NonZeroUsize::new(3), time: Some(Duration::from_secs(2)) };
        let request = SliceRequest::new(order, Lease::default(), limits);
        let line = serde_json::to_string(&request).unwrap();
        let read: SliceRequest = serde_json::from_str(&line).unwrap();
        assert_eq!((read.limits(), &read), (limits, &request));
        for line in [SliceLine::Beat, SliceLine::Again("a\nb".into())] {
            let text = serde_json::to_string(&line).unwrap();
            assert!(!text.contains('\n'));
            assert_eq!(serde_json::from_str::<SliceLine>(&text).unwrap(), line);
        }
    }
}
