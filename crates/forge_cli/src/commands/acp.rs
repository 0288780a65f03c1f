//! `forge acp`: serves an editor.

use std::process::ExitCode;

use clap::Args;
use forge_domain::StoreSetting;

use crate::acp;
use crate::arguments::RunFlags;

/// Serve an editor by the Agent Client Protocol, on stdin and stdout
///
/// Editors such as Zed start it in a project's folder. A session is a run: it is saved, and can be loaded
/// again, also with `forge run --resume`.
#[derive(Debug, Args)]
pub(crate) struct AcpArguments {
    /// The checkpoint store: sqlite:///PATH, postgres://USER@HOST/DATABASE, memory: or none [default:
    /// FORGE_STORE, `checkpoint.store`, else a file in your state folder]
    #[arg(long, value_name = "URL")]
    store: Option<StoreSetting>,
    #[command(flatten)]
    flags: RunFlags,
}

impl AcpArguments {
    /// Serves until the editor closes stdin.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        acp::serve(self.flags, self.store)
    }
}
