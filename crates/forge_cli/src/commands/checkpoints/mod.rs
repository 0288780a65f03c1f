//! `forge checkpoints`: lists saved states, returns to them, and moves them.

mod check;
mod delete;
mod diff;
mod export;
mod fork;
mod import;
mod list;
mod prune;
mod resume;
mod selection;
mod show;
mod sweep;
mod undo;
mod view;
mod writer;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Subcommand};
use forge_domain::CheckpointStore;
use forge_infra::StoreUrl;

use crate::arguments::{JsonFlag, STORE_OF_RUNS};
use crate::run::block_on;
use crate::setup::store;

pub(super) use self::export::view_bytes;
pub(super) use self::writer::{TakeOver, by_writer};

/// List, inspect, fork, undo, prune and move saved runs
///
/// An ID is a run, a checkpoint's label such as researcher-iteration-6 or RUN/LABEL, its number, or
/// `last`.
#[derive(Debug, Args)]
pub(crate) struct CheckpointsArguments {
    #[command(flatten)]
    store: StoreArguments,
    #[command(subcommand)]
    command: CheckpointsCommand,
}

/// The store, and the form of the answer.
#[derive(Debug, Args)]
struct StoreArguments {
    #[arg(long, value_name = "URL", global = true, help = STORE_OF_RUNS)]
    store: Option<String>,
    /// Print one JSON document
    #[arg(long, global = true)]
    json: bool,
}

#[derive(Debug, Subcommand)]
enum CheckpointsCommand {
    Resume(Box<resume::ResumeArguments>),
    #[command(flatten)]
    OnStore(StoreCommand),
}

/// A command that only needs a store.
#[derive(Debug, Subcommand)]
enum StoreCommand {
    List(list::ListArguments),
    Show(show::ShowArguments),
    Diff(diff::DiffArguments),
    Fork(fork::ForkArguments),
    Undo(undo::UndoArguments),
    Delete(delete::DeleteArguments),
    Prune(prune::PruneArguments),
    Export(export::ExportArguments),
    Import(import::ImportArguments),
    Check(check::StoreCheckArguments),
}

/// An open store, its address, and the form of the answer about it.
struct OpenStore {
    store: Arc<dyn CheckpointStore>,
    url: StoreUrl,
    form: JsonFlag,
}

impl CheckpointsArguments {
    /// Runs a command on the store.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        match self.command {
            CheckpointsCommand::Resume(resume) => resume.run(self.store),
            CheckpointsCommand::OnStore(command) => block_on(command.run(self.store)),
        }
    }
}

impl StoreCommand {
    async fn run(self, StoreArguments { store, json }: StoreArguments) -> anyhow::Result<ExitCode> {
        let url = store::named_or_of_runs(store.as_deref(), None)?;
        let store = match self {
            Self::Import(_) => store::open(&url).await?,
            Self::List(_) | Self::Show(_) | Self::Diff(_) | Self::Export(_) => {
                store::open_for_reading(&url).await?
            }
            _ => store::open_existing(&url).await?,
        };
        let place = OpenStore { store, url, form: JsonFlag { json } };
        match self {
            Self::List(list) => list.run(&place).await?,
            Self::Show(show) => show.run(&place).await?,
            Self::Diff(diff) => diff.run(&place).await?,
            Self::Fork(fork) => fork.run(&place).await?,
            Self::Undo(undo) => undo.run(&place).await?,
            Self::Delete(delete) => delete.run(&place).await?,
            Self::Prune(prune) => prune.run(&place).await?,
            Self::Export(export) => export.run(&place).await?,
            Self::Import(import) => import.run(&place).await?,
            Self::Check(check) => return check.run(&place).await,
        }
        Ok(ExitCode::SUCCESS)
    }
}
