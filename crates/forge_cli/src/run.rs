//! `forge run`: runs an agent on a task.

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::Context as _;
use forge_app::{
    ActionLog, CheckpointTally, Engine, Orchestrator, Resume, ResumeError, RunError, RunEvent, RunReport,
    TakeFrom, Watcher,
};
use forge_domain::compaction::ContextCompactor;
use forge_domain::{Event, OnChange, Person, SessionSink, StoreSetting};
use forge_infra::{FileSessionSink, write_whole};
use forge_transcript::write_openai;
use serde_json::Value;

use crate::arguments::RunArguments;
use crate::consent::Need;
use crate::console_watcher::ConsoleWatcher;
use crate::failure::{self, Exit, Misconfigured};
use crate::interruption::{insistence, interruption};
use crate::json_watcher::JsonWatcher;
use crate::output;
use crate::run_checkpoints;
use crate::run_view::{Break, RunView, report_json};
use crate::sandbox;
use crate::setup;
use crate::terminal_person;

/// The additional observer of this process's runs.
static WATCH: OnceLock<Watcher> = OnceLock::new();

/// Shows every event of a run to `watch` first; only the first call counts.
pub(crate) fn watch(watch: Watcher) {
    drop(WATCH.set(watch));
}

/// A run that is set up and has not started.
pub(crate) struct Prepared {
    pub(crate) orchestrator: Orchestrator,
    /// The state to resume from.
    pub(crate) resume: Option<Resume>,
    /// The store that was named.
    pub(crate) store: Option<StoreSetting>,
}

/// Sets up a run that `view` shows and that works for `person`.
pub(crate) fn prepare(
    arguments: &RunArguments,
    view: &Arc<dyn RunView>,
    person: Arc<dyn Person>,
) -> anyhow::Result<Prepared> {
    if let Some(path) = &arguments.how.record {
        FileSessionSink::probe(path).map_err(|error| Misconfigured(format!("--record: {error}")))?;
    }
    let budget = arguments.how.budget.allowance();
    let configuration = setup::configuration_within(&arguments.how.source, budget, Need::Everything)?;
    let is_resumed = arguments.resume.is_some();
    let mut workflow = setup::with_built_in_agent(configuration.workflow, &arguments.how.source)
        .map_err(|error| if is_resumed { run_checkpoints::explain_missing_model(&error) } else { error })?;
    if arguments.store.is_some() {
        workflow.checkpoint.store.clone_from(&arguments.store);
    }
    let sink = arguments.how.record.as_deref().map(sink);
    let told = Arc::clone(view);
    let tell: Watcher = Arc::new(move |event| {
        if let Some(watch) = WATCH.get() {
            watch(event);
        }
        told.tell(event);
    });
    let mut notices = sandbox::refused(&configuration.layers);
    if let Some(mode) = arguments.how.sandbox {
        let asked = workflow.sandbox.take().unwrap_or_default().with_mode(mode.into());
        let (sandbox, notice) = sandbox::held(asked, &configuration.layers);
        workflow.sandbox = Some(sandbox);
        notices.extend(notice);
    }
    for notice in &notices {
        tell(&RunEvent::Notice(notice));
    }
    let sandbox = sandbox::of(&workflow, &configuration.layers.environment, &tell)?;
    let actions = ActionLog::new();
    if is_resumed {
        actions.wait_for_claim();
    }
    let layers = &configuration.layers;
    let services = setup::services(workflow, sink, layers, &tell, person, sandbox.as_ref(), &actions)?;
    setup::check_agents(&services, &configuration.layers, arguments.how.agent.as_deref())?;
    let hooks = setup::hooks(&services.workflow, layers, sandbox.as_ref(), &actions);
    let engine = Engine::new(services, ContextCompactor::new(), tell).with_hooks(hooks).with_actions(actions);
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

/// Runs the task, streaming the answer to stdout.
pub(crate) fn run(mut arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let task = task(arguments.task.take(), arguments.resume.is_some())?;
    let view: Arc<dyn RunView> =
        if arguments.json { Arc::new(JsonWatcher::default()) } else { Arc::new(ConsoleWatcher::default()) };
    let Prepared { mut orchestrator, resume, store } = prepare(&arguments, &view, terminal_person::person())?;
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
            view.show_end(&report, checkpoints.as_ref(), exit);
            write_report(arguments.how.report.as_deref(), &report_json(&report, exit.code()))?;
            view.check_writes()?;
            Ok(exit.into())
        }
        Ok(Err(error)) => {
            let why = Break::Failed(&error);
            view.show_break(&why, checkpoints.as_ref(), &flags);
            write_break(arguments.how.report.as_deref(), &why, checkpoints.as_ref());
            Err(error)
        }
        Err(interruption) => {
            let words = format!("{}{}", interruption.word(), record_note(arguments.how.record.as_deref()));
            let why = Break::Interrupted { words, exit_code: interruption.exit_code() };
            view.show_break(&why, checkpoints.as_ref(), &flags);
            write_break(arguments.how.report.as_deref(), &why, checkpoints.as_ref());
            Ok(ExitCode::from(why.exit_code()))
        }
    }
}

/// Releases the run at its end; a second interruption does not wait for the store.
pub(crate) async fn handed_back(orchestrator: &mut Orchestrator, was_interrupted: bool) {
    tokio::select! {
        () = run_checkpoints::hand_back(orchestrator, was_interrupted) => {}
        () = insistence() => {}
    }
}

/// Writes a report on an interrupted run to the requested file, so that no report of an earlier run is
/// mistaken for this one's.
pub(crate) fn write_break(path: Option<&Path>, why: &Break<'_>, checkpoints: Option<&CheckpointTally>) {
    if let Err(error) = write_report(path, &why.to_json(checkpoints)) {
        failure::say(&error);
    }
}

/// Writes a report on a run to the requested file.
pub(crate) fn write_report(path: Option<&Path>, report: &Value) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    write_whole(path, serde_json::to_string_pretty(report)?.as_bytes())
        .with_context(|| format!("cannot write the report {}", path.display()))
}

/// The task, and its agent.
struct Assignment {
    agent: Option<String>,
    /// A new task; `None` if a run is resumed.
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
        let restored = orchestrator.restore(&resume).await.map_err(explain_resume)?;
        view.show_resume(&restored, task.is_none());
    }
    let report = match (task, agent) {
        (Some(task), Some(agent)) => orchestrator.wake(&agent, &Event::task(task)).await,
        (Some(task), None) => orchestrator.run(task).await,
        (None, _) => orchestrator.proceed().await,
    };
    report.map_err(explain)
}

/// The most bytes that are read from stdin: more than any window holds.
const MOST_INPUT: u64 = 4 << 20;

/// Returns the task: the `given` one followed by the piped input, or that alone. `-` is a task that is read.
/// Without any of these, a resumed run finishes its own.
fn task(given: Option<String>, is_resumed: bool) -> anyhow::Result<Option<String>> {
    let is_read = given.as_deref() == Some("-");
    let given = given.filter(|_| !is_read);
    let input = if is_read || !std::io::stdin().is_terminal() { input()? } else { String::new() };
    let input = input.trim_end();
    let task = match (given, input.trim_start()) {
        (Some(task), "") => task,
        (Some(task), _) => format!("{}\n\n{input}", task.trim_end()),
        (None, "") if is_resumed && !is_read => return Ok(None),
        (None, task) => task.to_owned(),
    };
    if task.trim().is_empty() {
        let what = "there is no task: write `forge run \"TASK\"`, or pipe one in";
        return Err(Misconfigured(what.to_owned()).into());
    }
    Ok(Some(task))
}

/// Returns the piped input; empty if stdin is closed.
fn input() -> anyhow::Result<String> {
    const PATIENCE: Duration = Duration::from_secs(3);
    // The parent process may have left a pipe open: a waiting user is told why.
    let (reading, over) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            output::say("reading stdin to its end; to run without it, add `< /dev/null`");
        }
    });
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().take(MOST_INPUT + 1).read_to_end(&mut bytes);
    drop(reading);
    read.map_err(|error| Misconfigured(format!("cannot read stdin: {error}")))?;
    if bytes.len() as u64 > MOST_INPUT {
        let what = format!(
            "stdin has more than {} MiB\n  help: name a file in the task, and let the agent read what it \
             needs",
            MOST_INPUT >> 20
        );
        return Err(Misconfigured(what).into());
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let what = format!("stdin is not text: byte {} is not UTF-8", at + 1);
        Misconfigured(what + "\n  help: to run without it, add `< /dev/null`").into()
    })
}

fn sink(path: &Path) -> Arc<dyn SessionSink> {
    Arc::new(FileSessionSink::new(path.to_owned(), write_openai))
}

pub(crate) fn record_note(record: Option<&Path>) -> String {
    match record.filter(|path| path.exists()) {
        Some(path) => format!("; every call that was complete is in {}", path.display()),
        None => String::new(),
    }
}

/// Explains why a run cannot be resumed.
pub(crate) fn explain_resume(error: ResumeError) -> anyhow::Error {
    match error {
        ResumeError::Work(error) => explain(error),
        error => run_checkpoints::explain(error),
    }
}

/// Classifies errors that the configuration can fix.
pub(crate) fn explain(error: RunError) -> anyhow::Error {
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
            "the context cannot be made to fit; shorten what must stay, or use a model with a larger window",
        ),
        RunError::Denied { .. } => anyhow::Error::new(error).context(
            "nothing was sent: let the hook allow a compaction whose `trigger` is `window`, remove it from \
             `hooks.pre_compact`, or use a model with a larger window",
        ),
        RunError::SwitchedOff { .. } => anyhow::Error::new(error)
            .context("nothing was sent: set `auto_compact: true`, or use a model with a larger window"),
        error => error.into(),
    }
}

pub(crate) fn runtime() -> anyhow::Result<Runtime> {
    Ok(Runtime(Some(tokio::runtime::Builder::new_multi_thread().enable_all().build()?)))
}

/// A runtime that waits for no task when it is dropped, as in a panic: one could wait for a key forever.
pub(crate) struct Runtime(Option<tokio::runtime::Runtime>);

impl Runtime {
    pub(crate) fn shutdown_background(self) {
        drop(self);
    }
}

impl std::ops::Deref for Runtime {
    type Target = tokio::runtime::Runtime;

    fn deref(&self) -> &Self::Target {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}
