//! `forge worker`: works on the runs of a fleet.

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use forge_app::SliceLimits;
use forge_domain::quantity;
use futures::FutureExt;

use crate::arguments::{STORE_OF_FLEET, SetupFlags};
use crate::consent::{self, Need};
use crate::fleet::{FleetFlags, SliceProcesses, WorkspacesFlag, slice_arguments};
use crate::output;
use crate::run::{interruption, runtime};
use crate::setup::{self, store};

/// Work on the runs of a fleet, until Ctrl-C or SIGTERM
///
/// A worker takes slices of runs: it continues a run for some calls to the model, and gives it back. When it
/// is told to end, it takes no more, lets its slices come to their next safe point, and leaves their runs to
/// other workers. Agents, models, permissions and the sandbox are those of this machine.
#[derive(Debug, Args)]
pub(crate) struct WorkerArguments {
    /// The most slices at once
    #[arg(long, value_name = "N", default_value = "4")]
    slots: NonZeroUsize,
    /// The most calls to the model in a slice
    #[arg(long, value_name = "N", default_value = "20")]
    slice_calls: NonZeroUsize,
    /// The most minutes of a slice
    #[arg(long, value_name = "N", default_value = "10")]
    slice_minutes: NonZeroUsize,
    #[arg(long, value_name = "URL", help = STORE_OF_FLEET)]
    store: Option<String>,
    #[command(flatten)]
    workspaces: WorkspacesFlag,
    #[command(flatten)]
    fleet: FleetFlags,
    #[command(flatten)]
    setup: SetupFlags,
}

impl WorkerArguments {
    /// Works.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        // A file that is not trusted is reported at once, not by each slice.
        setup::configuration(&self.setup.source, Need::Everything)?;
        FleetFlags::check_is_built()?;
        let named = super::submit::shared_store(self.store.as_deref(), self.setup.source.config())?;
        let limits = SliceLimits {
            calls: Some(self.slice_calls),
            time: Some(Duration::from_secs(60 * self.slice_minutes.get() as u64)),
        };
        let arguments = slice_arguments(&self.setup, &self.workspaces.folder()?, consent::is_given_once());
        self.workspaces.sweep()?;
        let runner = Arc::new(SliceProcesses::new(arguments, named.clone(), limits)?);
        let runtime = runtime()?;
        let done = runtime.block_on(async {
            // A store that cannot be used is reported at once, not by each slice.
            store::open_existing(&store::store_url(Some(&named))?).await?;
            let scheduler = self.fleet.connect(None).await?;
            output::say(&format!("working, {} at once; Ctrl-C ends it", quantity(self.slots.get(), "slice")));
            let drain = async {
                let why = interruption().await;
                output::say(&format!("{}: waiting until the slices have paused", why.word()));
            };
            scheduler.work(runner, self.slots, drain.boxed()).await?;
            anyhow::Ok(())
        });
        runtime.shut_down();
        done.map(|()| ExitCode::SUCCESS)
    }
}
