//! `forge slice`: runs one slice of a run, for a worker.

use std::process::ExitCode;

use clap::Args;
use forge_domain::StoreSetting;

use crate::arguments::{RunFlags, SetupFlags};
use crate::fleet::{WorkspacesFlag, run_slice};

/// Run one slice of a run for a worker, which asks for it on stdin
#[derive(Debug, Args)]
#[command(hide = true)]
pub(crate) struct SliceArguments {
    /// The store that has the run
    #[arg(long, value_name = "URL")]
    store: StoreSetting,
    #[command(flatten)]
    workspaces: WorkspacesFlag,
    #[command(flatten)]
    setup: SetupFlags,
}

impl SliceArguments {
    /// Runs the slice.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Self { store, workspaces, setup } = self;
        run_slice(&store, RunFlags { setup, ..RunFlags::default() }, &workspaces)
    }
}
