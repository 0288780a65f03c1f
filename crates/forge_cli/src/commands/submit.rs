//! `forge submit`: gives a task to a fleet.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use forge_app::{SlicedRun, saved_workspace};
use forge_domain::{Event, Lease, Nobody, RunId, StoreSetting, WorkspaceSetting};
use forge_infra::{StoreUrl, SystemClock};
use serde_json::json;

use crate::arguments::{AgentFlag, ImageFlags, JsonFlag, RunFlags, STORE_OF_FLEET, SetupFlags, Source};
use crate::attached_images;
use crate::consent::Need;
use crate::failure::Misconfigured;
use crate::fleet::{BegunWorkspace, FleetFlags};
use crate::output;
use crate::run::checkpoints::new_run;
use crate::run::{
    Attached, ConsoleWatcher, RunRequest, RunView, SliceTerms, attach_files, explain, prepare, runtime,
    select_here,
};
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
    #[arg(long = "run", value_name = "ID", conflicts_with_all = ["task", "agent", "images"])]
    existing: Option<String>,
    #[arg(long, value_name = "URL", help = STORE_OF_FLEET)]
    store: Option<String>,
    /// Seconds without a heartbeat before another worker takes the slice
    #[arg(long, value_name = "SECONDS", default_value = "5", value_parser = clap::value_parser!(u64).range(1..=3_600))]
    heartbeat: u64,
    /// Work on this: shared (the folder of the worker), none, or a copy of a git repository, such as
    /// https://HOST/PROJECT#BRANCH, that travels with the run [default: `workspace` of forge.yaml, else
    /// shared]
    #[arg(long, value_name = "WORKSPACE", conflicts_with = "existing")]
    workspace: Option<WorkspaceSetting>,
    #[command(flatten)]
    fleet: FleetFlags,
    #[command(flatten)]
    agent: AgentFlag,
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    images: ImageFlags,
    #[command(flatten)]
    form: JsonFlag,
}

impl SubmitArguments {
    /// Saves the task, and submits it.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let subject = match &self.existing {
            Some(word) => Subject::Run(word),
            None => {
                let configured = setup::configuration(&self.source, Need::Everything)?.workflow.workspace;
                Subject::Task(self.workspace.clone().or(configured).unwrap_or_default())
            }
        };
        FleetFlags::check_is_built()?;
        let named = shared_store(self.store.as_deref(), self.source.config())?;
        let runtime = runtime()?;
        let submitted = runtime.block_on(async {
            // Nothing is saved for a fleet that is not there.
            let scheduler = self.fleet.connect(Some(Duration::from_secs(self.heartbeat))).await?;
            let (run, begun) = match &subject {
                Subject::Run(word) => existing(&named, word).await?,
                Subject::Task(setting) => {
                    let run = new_run(&SystemClock)?;
                    (run.clone(), BegunWorkspace::begin(setting, &run).await?)
                }
            };
            // The user reads them before anything runs.
            begun.notes.iter().for_each(|note| output::note(note));
            if matches!(subject, Subject::Task(_)) {
                self.accept(&named, &run, &begun).await?;
            }
            scheduler.submit(&run).await?;
            anyhow::Ok((run, begun))
        });
        runtime.shut_down();
        let (run, BegunWorkspace { workspace, notes }) = submitted?;
        let text = format!("submitted as run {run}\nto look at it: forge fleet show {run}\n");
        self.form.answer(&json!({"run": run, "workspace": workspace, "notes": notes}), || text)?;
        Ok(ExitCode::SUCCESS)
    }

    /// Saves the task as the beginning of `run`.
    async fn accept(&self, named: &str, run: &RunId, begun: &BegunWorkspace) -> anyhow::Result<()> {
        let setting: StoreSetting = named.parse().map_err(|error| Misconfigured(format!("{error}")))?;
        // Permissions, limits and the sandbox are those of the workers.
        let setup = SetupFlags { source: self.source.clone(), ..SetupFlags::default() };
        let flags = RunFlags { agent: self.agent.clone(), setup, ..RunFlags::default() };
        let terms = SliceTerms {
            run: Some(run.clone()),
            keeper: begun.keeper(),
            ..SliceTerms::new(Lease::default())
        };
        let request = RunRequest { slice: Some(terms), ..RunRequest::new(Some(setting), flags) };
        let view: Arc<dyn RunView> = Arc::new(ConsoleWatcher::default());
        let task = self.task.clone().unwrap_or_default();
        let Attached { added, notes } = attach_files(&task);
        notes.iter().for_each(|note| output::note(note));
        let event = attached_images::attach_with_mentioned(
            Event::task(&task),
            &self.images.images,
            attached_images::mentioned(&task),
        )?;
        let event = Event { value: format!("{}{added}", event.value), ..event };
        let mut sliced = SlicedRun::new(prepare(&request, &view, Arc::new(Nobody))?);
        let accepted = sliced.accept(event, self.agent.id()).await;
        let orchestrator = sliced.orchestrator();
        orchestrator.close().await;
        accepted.map_err(explain)?;
        let tally = orchestrator.checkpoints();
        let tally = tally.ok_or_else(|| Misconfigured("the store `none` keeps no runs".to_owned()))?;
        match tally.unsaved {
            Some(why) => Err(anyhow::anyhow!("the task cannot be saved: {why}")),
            None => Ok(()),
        }
    }
}

/// The thing that is submitted.
enum Subject<'a> {
    /// The run of this name.
    Run(&'a str),
    /// A new task, which begins with this workspace.
    Task(WorkspaceSetting),
}

/// Returns the run of the store that `word` names, and its workspace.
async fn existing(named: &str, word: &str) -> anyhow::Result<(RunId, BegunWorkspace)> {
    let store = store::open_existing(&store::store_url(Some(named))?).await?;
    let run = select_here(&*store, word, None).await?.info.run;
    let (_, workspace) = saved_workspace(&*store, &run).await?;
    let note = "the run continues in the folder of its worker: files of other folders do not travel with it";
    let notes = workspace.is_none().then(|| note.to_owned()).into_iter().collect();
    Ok((run, BegunWorkspace { workspace, notes }))
}

/// Returns the URL of the store of a fleet: `named`, or that of this folder's runs.
///
/// # Errors
/// Fails with [`Misconfigured`] if no store is configured, or only one in memory.
pub(super) fn shared_store(named: Option<&str>, config: Option<&Path>) -> anyhow::Result<String> {
    let url = match store::setting_of_runs(named, config)? {
        None => store::default_url()?,
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
    // Slices may work in other folders.
    Ok(StoreUrl::anywhere(&url).map_err(|error| Misconfigured(error.to_string()))?)
}
