//! `forge checkpoints import`: reads an exported run into the store.

use std::path::PathBuf;

use anyhow::Context as _;
use clap::Args;
use forge_app::{Imported, Writer, import_run};
use forge_domain::{RunId, quantity};

use super::OpenStore;
use super::selection::new_run_id;
use super::writer::{TakeOver, by_writer};
use crate::session_file::{MOST_OF_A_FILE, read_named};

/// Read an exported run into the store; repeating it changes nothing
#[derive(Debug, Args)]
pub(super) struct ImportArguments {
    /// The exported run
    file: PathBuf,
    /// Another name for it
    #[arg(long = "as", value_name = "RUN", value_parser = new_run_id)]
    into: Option<RunId>,
}

impl ImportArguments {
    /// Reads the run into the store.
    pub(super) async fn run(self, OpenStore { store, form, .. }: &OpenStore) -> anyhow::Result<()> {
        let bytes = read_named(&self.file, "exported run", MOST_OF_A_FILE)?;
        let import =
            async |writer: &Writer<'_>| import_run(&**store, &bytes, self.into.as_ref(), writer).await;
        let imported = by_writer(TakeOver::default(), import).await;
        let imported = imported.with_context(|| format!("{} was not imported", self.file.display()))?;
        form.answer(&imported, || import_text(&imported))
    }
}

/// Describes what was imported.
fn import_text(imported: &Imported) -> String {
    let Imported { run, known, saved } = imported;
    match (saved.len(), known) {
        (0, _) => format!("run {run} already exists, with all its {}\n", quantity(known, "checkpoint")),
        (n, 0) => format!("run {run}: {} imported\n", quantity(n, "checkpoint")),
        (n, known) => {
            format!("run {run}: {} imported, {known} already existed\n", quantity(n, "checkpoint"))
        }
    }
}
