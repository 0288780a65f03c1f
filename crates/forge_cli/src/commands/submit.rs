//! `forge submit`: gives a task to a fleet.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use forge_app::{SlicedRun, select};
use forge_domain::{Event, Lease, Nobody, RunId, StoreSetting};
use forge_infra::StoreUrl;
use serde_json::json;

use crate::arguments::{JsonFlag, RunFlags};
use crate::attached_images;
use crate::consent::Need;
use crate::failure::Misconfigured;
use crate::fleet::FleetFlags;
use crate::output;
use crate::run::{Attached, ConsoleWatcher, RunRequest, RunView, attach_files, explain, prepare, runtime};
use crate::setup::{self, store};

/// Give a task to a fleet, whose workers run it
///
/// The task is saved in the store, and the command ends. `forge fleet show RUN` tells how far it is.
#[derive(Debug, Args)]
pub(crate) struct SubmitArguments {
    /// The task; @FILE adds a file
    #[arg(required_unless_present = "existing")]
    task: Option<String>,
    /// Submit a run that is in the store already, instead of a new task
    #[arg(long = "run", value_name = "ID", conflicts_with = "task")]
    existing: Option<String>,
    /// The store that the machines of the fleet share: postgres://USER@HOST/DATABASE [default: FORGE_STORE,
    /// or the one that runs of this folder use]
    #[arg(long, value_name = "URL")]
    store: Option<String>,
    /// Give a slice to another worker after so many seconds without a sign of life
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    heartbeat: u64,
    #[command(flatten)]
    fleet: FleetFlags,
    #[command(flatten)]
    flags: RunFlags,
    #[command(flatten)]
    form: JsonFlag,
}

impl SubmitArguments {
    /// Saves the task, and submits it.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        if self.existing.is_none() {
            setup::configuration(&self.flags.source, Need::Everything)?;
        }
        let named = shared_store(self.store.as_deref(), self.flags.source.config())?;
        let runtime = runtime()?;
        let run = runtime.block_on(async {
            // Nothing is saved for a fleet that is not there.
            let scheduler = self.fleet.connect(Some(Duration::from_secs(self.heartbeat))).await?;
            let run = match &self.existing {
                Some(word) => existing(&named, word).await?,
                None => self.accept(&named).await?,
            };
            scheduler.submit(&run).await?;
            anyhow::Ok(run)
        });
        runtime.shutdown_background();
        let run = run?;
        let text = format!("submitted as run {run}\nto look at it: forge fleet show {run}\n");
        self.form.answer(&json!({"run": run}), || text)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Saves the task as the beginning of a run.
    async fn accept(&self, named: &str) -> anyhow::Result<RunId> {
        let setting: StoreSetting = named.parse().map_err(|error| Misconfigured(format!("{error}")))?;
        let flags = self.flags.clone();
        let agent = flags.agent.clone();
        let request = RunRequest { slice: Some(Lease::default()), ..RunRequest::new(Some(setting), flags) };
        let view: Arc<dyn RunView> = Arc::new(ConsoleWatcher::default());
        let task = self.task.clone().unwrap_or_default();
        let Attached { added, notes } = attach_files(&task);
        notes.iter().for_each(|note| output::note(note));
        let images = &request.flags.images;
        let event = attached_images::attach_with_mentioned(
            Event::task(&task),
            images,
            attached_images::mentioned(&task),
        )?;
        let event = Event { value: format!("{}{added}", event.value), ..event };
        let mut sliced = SlicedRun::new(prepare(&request, &view, Arc::new(Nobody))?);
        let accepted = sliced.accept(event, agent.as_deref()).await;
        let orchestrator = sliced.orchestrator();
        orchestrator.close().await;
        accepted.map_err(explain)?;
        let tally = orchestrator.checkpoints();
        let tally = tally.ok_or_else(|| Misconfigured("the store `none` keeps no runs".to_owned()))?;
        match tally.unsaved {
            Some(why) => Err(anyhow::anyhow!("the task cannot be saved: {why}")),
            None => Ok(tally.run),
        }
    }
}

/// Returns the run of the store that `word` names.
async fn existing(named: &str, word: &str) -> anyhow::Result<RunId> {
    let store = store::open_existing(&store::store_url(Some(named))?).await?;
    Ok(select(&*store, word, None).await?.info.run)
}

/// Returns the URL of the store of a fleet: `named`, or that of this folder's runs.
///
/// # Errors
/// Fails with [`Misconfigured`] if there is none, or if it is in memory.
pub(super) fn shared_store(named: Option<&str>, config: Option<&Path>) -> anyhow::Result<String> {
    let url = match store::setting_of_runs(named, config)? {
        None => store::store_url(None)?.to_string(),
        Some(StoreSetting::Url(url)) => url,
        Some(StoreSetting::Variable(name)) => std::env::var(&name)
            .map_err(|_| Misconfigured(format!("the store is named by ${name}, which is not set")))?,
        Some(StoreSetting::Nowhere) => String::new(),
    };
    if url.is_empty() || store::store_url(Some(&url))? == StoreUrl::Memory {
        let what =
            "a fleet needs a store that its machines share\n  help: --store postgres://USER@HOST/DATABASE";
        return Err(Misconfigured(what.to_owned()).into());
    }
    Ok(url)
}
