//! `forge checkpoints resume`: resumes a run, as `forge run` does.

use std::process::ExitCode;

use clap::Args;
use forge_app::Resume;
use forge_domain::OnChange;

use super::StoreArguments;
use super::writer::TakeOver;
use crate::arguments::{OnChangeName, RunFlags};
use crate::commands::run::{OutputForm, start};
use crate::failure::Misconfigured;
use crate::run::RunRequest;

/// Resume a run, as `forge run --resume` does
///
/// If the checkpoint is not the last of its run, a new run starts from it.
#[derive(Debug, Args)]
pub(super) struct ResumeArguments {
    /// A run, a label such as researcher-iteration-6 or RUN/LABEL, a number such as #12, or `last`, of this
    /// folder
    #[arg(value_name = "ID", default_value = "last")]
    id: String,
    /// A new task for it [default: it continues its own]
    task: Option<String>,
    /// Action if forge.yaml has changed since [default: `checkpoint.on_change`, else continue]
    #[arg(long, value_enum)]
    on_change: Option<OnChangeName>,
    #[command(flatten)]
    takeover: TakeOver,
    #[command(flatten)]
    flags: RunFlags,
}

impl ResumeArguments {
    /// Resumes the run.
    pub(super) fn run(self, StoreArguments { store, json }: StoreArguments) -> anyhow::Result<ExitCode> {
        let store = store
            .map(|url| url.parse().map_err(|error| Misconfigured(format!("--store: {error}"))))
            .transpose()?;
        let resume = Resume {
            which: self.id,
            on_change: self.on_change.map(OnChange::from),
            take_from: self.takeover.take_from(),
            anywhere: self.on_change.is_some(),
        };
        let request = RunRequest { resume: Some(resume), ..RunRequest::new(store, self.flags) };
        start(self.task, OutputForm::of_json(json), request)
    }
}
