//! `forge acp`: serves an editor.

use std::process::ExitCode;

use clap::Args;

use crate::acp;
use crate::arguments::{AgentFlag, BudgetFlags, RecordFlag, RunFlags, SetupFlags, StoreFlag};

/// Serve an editor by the Agent Client Protocol, on stdin and stdout
///
/// Editors such as Zed start it in a project's folder. A session is a run: it is saved, and can be loaded
/// again, also with `forge run --resume`.
#[derive(Debug, Args)]
pub(crate) struct AcpArguments {
    #[command(flatten)]
    store: StoreFlag,
    #[command(flatten)]
    agent: AgentFlag,
    #[command(flatten)]
    setup: SetupFlags,
    #[command(flatten)]
    budget: BudgetFlags,
    #[command(flatten)]
    record: RecordFlag,
}

impl AcpArguments {
    /// Serves until the editor closes stdin.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let Self { store, agent, setup, budget, record } = self;
        // Images come with prompts, and an editor reads no report.
        acp::serve(RunFlags { agent, setup, budget, record, ..RunFlags::default() }, store.store)
    }
}
