//! The line between an activity and its slice: "alive" one way, "pause" the other.

use std::time::Duration;

use async_trait::async_trait;
use forge_app::Pulse;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The pulse of a slice that is an activity.
#[derive(Debug)]
pub(crate) struct ActivityPulse {
    beats: Notify,
    pause: CancellationToken,
    patience: Option<Duration>,
}

impl ActivityPulse {
    /// Creates a pulse that is asked to pause when the worker drains.
    pub(crate) fn new(drain: &CancellationToken, patience: Option<Duration>) -> Self {
        Self { beats: Notify::new(), pause: drain.child_token(), patience }
    }

    /// Asks the slice to pause.
    pub(crate) fn ask_pause(&self) {
        self.pause.cancel();
    }

    /// Checks whether the slice was asked to pause.
    pub(crate) fn is_pause_asked(&self) -> bool {
        self.pause.is_cancelled()
    }

    /// Waits for the next beat.
    pub(crate) async fn beaten(&self) {
        self.beats.notified().await;
    }
}

#[async_trait]
impl Pulse for ActivityPulse {
    fn beat(&self) {
        self.beats.notify_one();
    }

    fn patience(&self) -> Option<Duration> {
        self.patience
    }

    async fn pause_asked(&self) {
        self.pause.cancelled().await;
    }
}
