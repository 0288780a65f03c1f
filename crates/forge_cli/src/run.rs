//! `forge run`: an agent works on a task.

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use forge_app::{
    CheckpointTally, Engine, Orchestrator, Resume, ResumeError, RunError, RunReport, TakeFrom, Watcher,
};
use forge_domain::compaction::ContextCompactor;
use forge_domain::{Event, OnChange, Person, SessionSink, StoreSetting};
use forge_infra::{FileSessionSink, write_whole};
use forge_transcript::write_openai;
use serde_json::Value;

use crate::arguments::RunArguments;
use crate::console_watcher::ConsoleWatcher;
use crate::failure::{self, Exit, Misconfigured};
use crate::interruption::interruption;
use crate::json_watcher::JsonWatcher;
use crate::run_checkpoints;
use crate::run_view::{Break, RunView, report_json};
use crate::setup;
use crate::terminal_person;

/// A run that is set up and has not begun.
pub(crate) struct Prepared {
    pub(crate) orchestrator: Orchestrator,
    /// What it is to go on from.
    pub(crate) resume: Option<Resume>,
    /// The store that was asked for by name.
    pub(crate) store: Option<StoreSetting>,
}

/// Sets up a run that `view` shows and that works for `person`.
pub(crate) fn prepared(
    arguments: &RunArguments,
    view: &Arc<dyn RunView>,
    person: Arc<dyn Person>,
) -> anyhow::Result<Prepared> {
    if let Some(path) = &arguments.how.record {
        FileSessionSink::probe(path).map_err(|error| Misconfigured(format!("--record: {error}")))?;
    }
    let configuration = setup::configuration_within(&arguments.how.source, arguments.how.budget.allowance())?;
    let is_resumed = arguments.resume.is_some();
    let mut workflow = setup::with_built_in_agent(configuration.workflow, &arguments.how.source)
        .map_err(|error| if is_resumed { run_checkpoints::unnamed(&error) } else { error })?;
    if arguments.store.is_some() {
        workflow.checkpoint.store.clone_from(&arguments.store);
    }
    let sink = arguments.how.record.as_deref().map(sink);
    let told = Arc::clone(view);
    let tell: Watcher = Arc::new(move |event| told.tell(event));
    let services = setup::services(workflow, sink, &configuration.layers, &tell, person)?;
    setup::checked(&services, &configuration.layers, arguments.how.agent.as_deref())?;
    let hooks = setup::hooks(&services.workflow, &configuration.layers);
    let engine = Engine::new(services, ContextCompactor::new(), tell).with_hooks(hooks);
    let engine = match run_checkpoints::checkpointing(&engine.services().workflow)? {
        Some(checkpointing) => engine.with_checkpoints(checkpointing),
        None => engine,
    };
    let resume = arguments.resume.clone().map(|which| Resume {
        which,
        on_change: arguments.on_change.map(OnChange::from),
        take_from: if arguments.take_over { TakeFrom::Anyone } else { TakeFrom::TheGone },
    });
    Ok(Prepared { orchestrator: Orchestrator::new(engine), resume, store: arguments.store.clone() })
}

/// Runs the task, streaming the answer to standard output.
pub(crate) fn run(mut arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let task = match (arguments.task.take(), &arguments.resume) {
        (None, Some(_)) => None,
        (task, _) => Some(self::task(task)?),
    };
    let view: Arc<dyn RunView> =
        if arguments.json { Arc::new(JsonWatcher::default()) } else { Arc::new(ConsoleWatcher::default()) };
    let Prepared { mut orchestrator, resume, store } =
        prepared(&arguments, &view, terminal_person::person())?;
    let flags = run_checkpoints::flags(&arguments.how.source, store.as_ref());
    let assignment = Assignment { agent: arguments.how.agent, task, resume };
    let runtime = runtime()?;
    let outcome = runtime.block_on(async {
        let outcome = tokio::select! {
            report = work(&mut orchestrator, assignment, &*view) => Ok(report),
            interruption = interruption() => Err(interruption),
        };
        handed_back(&mut orchestrator, outcome.is_err()).await;
        outcome
    });
    // What must be kept is kept; a tool that does not come to its end is not waited for.
    runtime.shutdown_background();
    view.end();
    let checkpoints = orchestrator.checkpoints();
    match outcome {
        Ok(Ok(report)) => {
            let exit = Exit::of_run(&report.stop, checkpoints.as_ref());
            // The report counts what was saved up to the very end.
            let report = RunReport { checkpoints: checkpoints.clone(), ..report };
            view.came_to_its_end(&report, checkpoints.as_ref(), exit);
            write_report(arguments.how.report.as_deref(), &report_json(&report, exit.code()))?;
            view.written()?;
            Ok(exit.into())
        }
        Ok(Err(error)) => {
            let why = Break::Failed(&error);
            view.broke_off(&why, checkpoints.as_ref(), &flags);
            write_break(arguments.how.report.as_deref(), &why, checkpoints.as_ref());
            Err(error)
        }
        Err(interruption) => {
            let words = format!("{}{}", interruption.word(), kept(arguments.how.record.as_deref()));
            let why = Break::Interrupted { words, exit_code: interruption.exit_code() };
            view.broke_off(&why, checkpoints.as_ref(), &flags);
            write_break(arguments.how.report.as_deref(), &why, checkpoints.as_ref());
            Ok(ExitCode::from(why.exit_code()))
        }
    }
}

/// Gives the run back at its end; whoever asks a second time does not want to wait for the store.
pub(crate) async fn handed_back(orchestrator: &mut Orchestrator, was_interrupted: bool) {
    tokio::select! {
        () = run_checkpoints::hand_back(orchestrator, was_interrupted) => {}
        _ = interruption() => {}
    }
}

/// Writes what came of a run that broke off into the file that was asked for, so that no report of an earlier run is taken
/// for this one's.
pub(crate) fn write_break(path: Option<&Path>, why: &Break<'_>, checkpoints: Option<&CheckpointTally>) {
    if let Err(error) = write_report(path, &why.to_json(checkpoints)) {
        failure::say(&error);
    }
}

/// Writes what came of a run into the file that was asked for.
pub(crate) fn write_report(path: Option<&Path>, report: &Value) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    write_whole(path, serde_json::to_string_pretty(report)?.as_bytes())
        .with_context(|| format!("cannot write the report {}", path.display()))
}

/// What is to be done, and by whom.
struct Assignment {
    agent: Option<String>,
    /// A new task; `None` where one is resumed.
    task: Option<String>,
    resume: Option<Resume>,
}

async fn work(
    orchestrator: &mut Orchestrator,
    assignment: Assignment,
    view: &dyn RunView,
) -> anyhow::Result<RunReport> {
    let Assignment { agent, task, resume } = assignment;
    if let Some(resume) = resume {
        let restored = orchestrator.restore(&resume).await.map_err(unresumed)?;
        view.resumed(&restored, task.is_none());
    }
    let report = match (task, agent) {
        (Some(task), Some(agent)) => orchestrator.wake(&agent, &Event::task(task)).await,
        (Some(task), None) => orchestrator.run(task).await,
        (None, _) => orchestrator.proceed().await,
    };
    report.map_err(explained)
}

fn task(given: Option<String>) -> anyhow::Result<String> {
    let task = match given {
        Some(task) => task,
        None if std::io::stdin().is_terminal() => String::new(),
        None => {
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text).map_err(|error| {
                Misconfigured(format!("the task on standard input cannot be read: {error}"))
            })?;
            text.trim().to_owned()
        }
    };
    if task.trim().is_empty() {
        return Err(
            Misconfigured("there is no task: write `forge run \"TASK\"`, or pipe one in".to_owned()).into()
        );
    }
    Ok(task)
}

fn sink(path: &Path) -> Arc<dyn SessionSink> {
    Arc::new(FileSessionSink::new(path.to_owned(), write_openai))
}

pub(crate) fn kept(record: Option<&Path>) -> String {
    match record.filter(|path| path.exists()) {
        Some(path) => format!("; every call that was complete is in {}", path.display()),
        None => String::new(),
    }
}

/// Why a run cannot go on.
pub(crate) fn unresumed(error: ResumeError) -> anyhow::Error {
    match error {
        ResumeError::Work(error) => explained(error),
        error => run_checkpoints::explained(error),
    }
}

/// Faults that mend themselves at the configuration count as such.
pub(crate) fn explained(error: RunError) -> anyhow::Error {
    match error {
        RunError::UnknownAgent { .. }
        | RunError::NobodyListens { .. }
        | RunError::NoModel { .. }
        | RunError::Model { .. }
        | RunError::Tools { .. }
        | RunError::Compact { .. }
        | RunError::Unpriced { .. }
        | RunError::Template(_)
        | RunError::Provider(forge_domain::ProviderError::MissingKey { .. }) => {
            Misconfigured(error.to_string()).into()
        }
        RunError::ToolsUnavailable { .. } => anyhow::Error::new(error)
            .context("`forge doctor` looks at every server; `FORGE_LOG=forge::mcp=info` shows what it says"),
        RunError::StillOver(_) => anyhow::Error::new(error).context(
            "the context cannot be made to fit; shorten what must stay, or take a model with a larger window",
        ),
        RunError::Denied { .. } => anyhow::Error::new(error).context(
            "nothing was sent: let the hook allow a compaction whose `trigger` is `window`, take it out of \
             `hooks.pre_compact`, or take a model with a larger window",
        ),
        RunError::SwitchedOff { .. } => anyhow::Error::new(error)
            .context("nothing was sent: set `auto_compact: true`, or take a model with a larger window"),
        error => error.into(),
    }
}

pub(crate) fn runtime() -> anyhow::Result<tokio::runtime::Runtime> {
    Ok(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)
}
