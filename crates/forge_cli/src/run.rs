//! `forge run`: an agent works on a task.

use std::io::{IsTerminal, Read};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use forge_app::{Engine, Orchestrator, RunError, RunReport};
use forge_domain::compaction::ContextCompactor;
use forge_domain::{Allowance, Event, SessionSink};
use forge_infra::{FileSessionSink, write_whole};
use forge_transcript::write_openai;

use crate::arguments::RunArguments;
use crate::console_watcher::ConsoleWatcher;
use crate::failure::Misconfigured;
use crate::interruption::interruption;
use crate::output;
use crate::setup;

/// Runs the task, streaming the answer to standard output.
pub(crate) fn run(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let task = task(arguments.task)?;
    if let Some(path) = &arguments.record {
        FileSessionSink::probe(path).map_err(|error| Misconfigured(format!("--record: {error}")))?;
    }
    let budget = Allowance { tokens: arguments.budget_tokens, cost: arguments.budget_cost };
    let configuration = setup::configuration_within(&arguments.source, budget)?;
    let workflow = setup::with_built_in_agent(configuration.workflow, &arguments.source)?;
    let sink = arguments.record.as_deref().map(sink);
    let services = setup::services(workflow, sink)?;
    setup::checked(&services, &configuration.layers, arguments.agent.as_deref())?;
    let watcher = Arc::new(ConsoleWatcher::default());
    let told = Arc::clone(&watcher);
    let hooks = setup::hooks(&services.workflow, &configuration.layers);
    let engine = Engine::new(services, ContextCompactor::new(), Arc::new(move |event| told.tell(event)))
        .with_hooks(hooks);
    let mut orchestrator = Orchestrator::new(engine);
    let outcome = runtime()?.block_on(async {
        tokio::select! {
            report = work(&mut orchestrator, arguments.agent.as_deref(), task) => Ok(report),
            interruption = interruption() => Err(interruption),
        }
    });
    watcher.end();
    match outcome {
        Ok(Ok(report)) => {
            watcher.sum_up(&report);
            if let Some(path) = &arguments.report {
                write_whole(path, serde_json::to_string_pretty(&report)?.as_bytes())
                    .with_context(|| format!("cannot write the report {}", path.display()))?;
            }
            watcher.written()?;
            Ok(ExitCode::SUCCESS)
        }
        Ok(Err(error)) => Err(explained(error)),
        Err(interruption) => {
            let word = interruption.word();
            output::say(&format!("{word}{}", kept(arguments.record.as_deref())));
            Ok(ExitCode::from(interruption.exit_code()))
        }
    }
}

async fn work(
    orchestrator: &mut Orchestrator,
    agent: Option<&str>,
    task: String,
) -> Result<RunReport, RunError> {
    match agent {
        Some(agent) => orchestrator.wake(agent, &Event::task(task)).await,
        None => orchestrator.run(task).await,
    }
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

fn kept(record: Option<&Path>) -> String {
    match record.filter(|path| path.exists()) {
        Some(path) => format!("; every call that was complete is in {}", path.display()),
        None => String::new(),
    }
}

/// Faults that mend themselves at the configuration count as such.
fn explained(error: RunError) -> anyhow::Error {
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
