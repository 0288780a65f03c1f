//! `forge export`: writes a run to one HTML page.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use forge_domain::{Tokens, quantity};

use crate::arguments::{ConfigFlag, STORE_OF_RUNS};
use crate::consent::Need;
use crate::output::{self, with_separators};
use crate::run::{PageState, block_on, export_page, page_of_run, select_here};
use crate::setup::{self, store};

/// Write a run to one HTML page
///
/// The page has the whole conversation; each compaction can be unfolded into what it replaced newly, and
/// links to the earlier ones that it took over. It needs nothing else: no scripts, and nothing from the
/// network.
#[derive(Debug, Args)]
pub(crate) struct ExportArguments {
    /// The run: its id or the beginning of it, or `last`; or a checkpoint, for the run as it was then
    #[arg(value_name = "RUN", default_value = "last")]
    run: String,
    /// The page, or `-` for stdout [default: forge-RUN.html, of a checkpoint forge-RUN-NUMBER.html]
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    #[arg(long, value_name = "URL", help = STORE_OF_RUNS)]
    store: Option<String>,
}

impl ExportArguments {
    /// Writes the page.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        // The keys of the configuration are hidden in the page; a broken file has none.
        drop(setup::configuration(&ConfigFlag::default().source(), Need::Nothing));
        block_on(self.write())
    }

    async fn write(self) -> anyhow::Result<ExitCode> {
        let url = store::named_or_of_runs(self.store.as_deref(), None)?;
        let store = store::open_for_reading(&url).await?;
        let state = PageState::selected(&select_here(&*store, &self.run, None).await?);
        let file = self.html.unwrap_or_else(|| state.page_name());
        if output::is_stdout(&file) {
            output::print_bytes(page_of_run(&*store, &state).await?.as_bytes())?;
            return Ok(ExitCode::SUCCESS);
        }
        let size = export_page(&*store, &state, &file).await?;
        let size = quantity(with_separators(Tokens::new(size as u64)), "byte");
        output::line!("wrote {} ({size}): open it in a browser", file.display());
        Ok(ExitCode::SUCCESS)
    }
}
