//! This process as a writer of runs.

use clap::Args;
use forge_app::{TakeFrom, Writer};
use forge_domain::{Clock, Holder, StoreError};
use forge_infra::{ProcessHolder, SystemClock};

use crate::failure::Help;

/// The flag to take a run over.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(in crate::commands) struct TakeOver {
    /// Also if another process holds the run, but only if it is known to have ended
    #[arg(long)]
    take_over: bool,
}

impl TakeOver {
    /// Returns the holders from which a resumed run is taken.
    pub(super) const fn take_from(self) -> TakeFrom {
        if self.take_over { TakeFrom::Anyone } else { TakeFrom::TheGone }
    }
}

/// The holder of this process, which may take runs over from others.
struct ByHand {
    process: ProcessHolder,
    takeover: TakeOver,
}

impl Holder for ByHand {
    fn name(&self) -> &str {
        self.process.name()
    }

    fn is_gone(&self, name: &str) -> bool {
        self.takeover.take_over || self.process.is_gone(name)
    }
}

/// Runs something as a writer of runs.
pub(in crate::commands) async fn by_writer<T, E>(
    takeover: TakeOver,
    work: impl AsyncFnOnce(&Writer<'_>) -> Result<T, E>,
) -> anyhow::Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let holder = ByHand { process: ProcessHolder::this(), takeover };
    let writer = Writer { holder: &holder, now: SystemClock.now() };
    work(&writer).await.map_err(explain)
}

/// Adds to an error about a held run how to proceed.
fn explain<E: std::error::Error + Send + Sync + 'static>(error: E) -> anyhow::Error {
    let is_held = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source())
        .any(|error| matches!(error.downcast_ref(), Some(StoreError::Held { .. })))
        || error.to_string().contains("take it over");
    let error = anyhow::Error::new(error);
    if is_held {
        error.context(Help("--take-over does it anyway, once that process has ended"))
    } else {
        error
    }
}
