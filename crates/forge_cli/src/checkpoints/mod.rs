//! `forge checkpoints`: lists saved states, returns to them, and moves them.

mod view;

use std::io::{BufRead, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context as _;
use forge_app::{
    CheckpointsError, Discarded, Fork, Selected, Writer, difference, discard, export_run, fork, free_name,
    import_run, prune, report, runs, select, undo,
};
use forge_domain::{
    CheckpointFilter, CheckpointStore, Clock, ContextMessage, Holder, Mending, Retention, RunId, StoreError,
    Sweep,
};
use forge_infra::{ProcessHolder, SystemClock, write_whole};
use forge_transcript::{write_messages, write_openai};
use serde_json::json;

use crate::arguments::RunArguments;
use crate::chat;
use crate::checkpoints_arguments::{
    CheckpointsArguments, CheckpointsCommand, ExportForm, ResumeArguments, StoreArguments, StoreCommand,
    SweepArguments, What,
};
use crate::failure::Misconfigured;
use crate::output::{self, Answer};
use crate::session_file::{MOST_OF_A_FILE, read_named};
use crate::store;

/// Runs a command on the store.
pub(crate) fn checkpoints(
    CheckpointsArguments { store: place, command }: CheckpointsArguments,
) -> anyhow::Result<ExitCode> {
    match command {
        CheckpointsCommand::Resume(resumed) => resume(place, *resumed),
        CheckpointsCommand::OnStore(command) => {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(obey(&place, &command))
        }
    }
}

/// Resumes a run, as `forge run` does.
fn resume(place: StoreArguments, resumed: ResumeArguments) -> anyhow::Result<ExitCode> {
    let store = place
        .store
        .map(|url| url.parse().map_err(|error| Misconfigured(format!("--store: {error}"))))
        .transpose()?;
    chat::run(RunArguments {
        task: resumed.task,
        resume: Some(resumed.id),
        on_change: resumed.on_change,
        take_over: resumed.takeover.take_over,
        store,
        json: place.json,
        chat: false,
        how: resumed.how,
    })
}

async fn obey(place: &StoreArguments, command: &StoreCommand) -> anyhow::Result<ExitCode> {
    let url = store::named_or_of_runs(place.store.as_deref(), None)?;
    let store = match command {
        StoreCommand::Import { .. } => store::open(&url).await?,
        _ => store::open_existing(&url).await?,
    };
    let answer = Answer { is_json: place.json };
    match command {
        StoreCommand::List { run, limit } => {
            let limit = limit.map(std::num::NonZero::get);
            list(&*store, run.as_deref(), limit, &answer, &url.to_string()).await?;
        }
        StoreCommand::Show { what, full } => {
            let report = report(&store.load(select_checkpoint(&*store, what).await?.info.key).await?);
            answer.give(&report, || view::checkpoint_text(&report, *full))?;
        }
        StoreCommand::Diff { a, b } => {
            let (a, b) = (select(&*store, a, None).await?, select(&*store, b, None).await?);
            let difference = difference(&store.load(a.info.key).await?, &store.load(b.info.key).await?);
            answer.give(&difference, || view::difference_text(&difference))?;
        }
        StoreCommand::Fork { what, before_compaction, into } => {
            let from = select_checkpoint(&*store, what).await?;
            let into = match into {
                Some(into) => into.clone(),
                None => free_name(&*store, &from.info.run).await?,
            };
            let asked = Fork { from, before: *before_compaction, into };
            let saved = by_writer(false, async |writer| fork(&*store, &asked, writer).await).await?;
            answer.give(&json!({"run": asked.into, "checkpoints": saved}), || {
                view::fork_text(&asked, &saved)
            })?;
        }
        StoreCommand::Undo { what, layers, takeover } => {
            let of = select_checkpoint(&*store, what).await?;
            let undo = async |writer: &Writer<'_>| undo(&*store, &of, layers.get(), writer).await;
            let undone = by_writer(takeover.take_over, undo).await?;
            answer.give(&undone, || view::undo_text(&undone))?;
        }
        StoreCommand::Delete { what, sweep, takeover } => {
            let what = select_checkpoint(&*store, what).await?;
            let go = async |sweep| {
                by_writer(takeover.take_over, async |writer| discard(&*store, &what, sweep, writer).await)
                    .await
            };
            sweep_away(sweep, &answer, go).await?;
        }
        StoreCommand::Prune { run, keep_last, max_age, max_size, sweep } => {
            let retention = Retention {
                run: run.clone(),
                keep_last: *keep_last,
                max_age: *max_age,
                max_bytes: *max_size,
            };
            check_retention(&*store, &retention).await?;
            let go = async |sweep| Ok(prune(&*store, &retention, SystemClock.now(), sweep).await?);
            sweep_away(sweep, &answer, go).await?;
        }
        StoreCommand::Export { what, output, to, view } => {
            let what = select_checkpoint(&*store, what).await?;
            let bytes = export_selected(&*store, &what, *to, *view).await?;
            write(output.as_deref(), &bytes)?;
        }
        StoreCommand::Import { file, into } => {
            let bytes = read_named(file, "exported run", MOST_OF_A_FILE)?;
            let import = async |writer: &Writer<'_>| import_run(&*store, &bytes, into.as_ref(), writer).await;
            let imported = by_writer(false, import).await;
            let imported = imported.with_context(|| format!("{} was not imported", file.display()))?;
            answer.give(&imported, || view::import_text(&imported))?;
        }
        StoreCommand::Check { repair } => {
            let mending = if *repair { Mending::Indexes } else { Mending::LookOnly };
            let health = store.check(mending).await?;
            answer.give(&health, || view::health_text(&health, &url.to_string()))?;
            if !health.faults.is_empty() {
                return Ok(ExitCode::FAILURE);
            }
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Returns the selected checkpoint.
pub(crate) async fn select_checkpoint(
    store: &dyn CheckpointStore,
    what: &What,
) -> Result<Selected, CheckpointsError> {
    select(store, &what.id, what.agent.as_ref()).await
}

/// The holder of this process, which may take runs over from others.
struct ByHand {
    process: ProcessHolder,
    take_over: bool,
}

impl Holder for ByHand {
    fn name(&self) -> &str {
        self.process.name()
    }

    fn is_gone(&self, name: &str) -> bool {
        self.take_over || self.process.is_gone(name)
    }
}

/// Runs something as a writer of runs.
pub(crate) async fn by_writer<T, E>(
    take_over: bool,
    work: impl AsyncFnOnce(&Writer<'_>) -> Result<T, E>,
) -> anyhow::Result<T>
where
    E: std::error::Error + Send + Sync + 'static,
{
    let holder = ByHand { process: ProcessHolder::this(), take_over };
    let writer = Writer { holder: &holder, now: SystemClock.now() };
    work(&writer).await.map_err(explain)
}

/// Adds to an error about a held run how to proceed.
fn explain<E: std::error::Error + Send + Sync + 'static>(error: E) -> anyhow::Error {
    let is_held = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source())
        .any(|error| matches!(error.downcast_ref(), Some(StoreError::Held { .. })))
        || error.to_string().contains("take it over");
    let error = anyhow::Error::new(error);
    if is_held { error.context("--take-over does it anyway, once that process has ended") } else { error }
}

async fn list(
    store: &dyn CheckpointStore,
    run: Option<&str>,
    limit: Option<usize>,
    answer: &Answer,
    place: &str,
) -> anyhow::Result<()> {
    let Some(word) = run else {
        let mut runs = runs(store).await?;
        runs.truncate(limit.unwrap_or(usize::MAX));
        return answer.give(&json!({"store": place, "runs": runs}), || view::runs(&runs, place));
    };
    let run = select(store, word, None).await?.info.run;
    let infos = store.list(&CheckpointFilter { limit, ..CheckpointFilter::of_run(&run) }).await?;
    answer.give(&json!({"store": place, "run": run, "checkpoints": infos}), || view::checkpoints(&infos))
}

/// Shows what would be deleted, asks, and deletes it.
async fn sweep_away(
    asked: &SweepArguments,
    answer: &Answer,
    go: impl AsyncFn(Sweep) -> anyhow::Result<Discarded>,
) -> anyhow::Result<()> {
    if !asked.yes {
        let discarded = go(Sweep::Rehearsed).await?;
        if asked.dry_run || discarded.checkpoints.is_empty() && discarded.runs == 0 {
            return answer.give(&discarded, || view::discard_text(&discarded, Sweep::Rehearsed));
        }
        output::say(view::discard_text(&discarded, Sweep::Rehearsed).trim_end());
        if !is_confirmed()? {
            output::say("nothing was deleted");
            return Ok(());
        }
    } else if asked.dry_run {
        let discarded = go(Sweep::Rehearsed).await?;
        return answer.give(&discarded, || view::discard_text(&discarded, Sweep::Rehearsed));
    }
    let discarded = go(Sweep::Done).await?;
    answer.give(&discarded, || view::discard_text(&discarded, Sweep::Done))
}

fn is_confirmed() -> anyhow::Result<bool> {
    if !std::io::stdin().is_terminal() {
        let what = "there is no terminal to ask at, so nothing was deleted: add --yes, or try --dry-run";
        return Err(Misconfigured(what.to_owned()).into());
    }
    eprint!("Delete this? [y/N] ");
    std::io::stderr().flush()?;
    let mut line = String::new();
    std::io::stdin().lock().read_line(&mut line)?;
    Ok(matches!(line.trim(), "y" | "Y" | "yes"))
}

async fn check_retention(store: &dyn CheckpointStore, retention: &Retention) -> anyhow::Result<()> {
    let Retention { run, keep_last, max_age, max_bytes } = retention;
    if keep_last.is_none() && max_age.is_none() && max_bytes.is_none() {
        let what = "no limit was given: add --keep-last N, --max-age AGE or --max-size SIZE";
        return Err(Misconfigured(what.to_owned()).into());
    }
    let is_known = async |wanted: &RunId| {
        Ok::<_, StoreError>(store.runs().await?.iter().any(|known| known.run == *wanted))
    };
    match run {
        Some(run) if !is_known(run).await? => {
            Err(Misconfigured(format!("there is no run `{run}`; `forge checkpoints list` shows them")).into())
        }
        _ => Ok(()),
    }
}

async fn export_selected(
    store: &dyn CheckpointStore,
    what: &Selected,
    to: ExportForm,
    only_view: bool,
) -> anyhow::Result<Vec<u8>> {
    match to {
        ExportForm::Forge if only_view => {
            Err(Misconfigured("--view is for --to openai: a run is exported whole".to_owned()).into())
        }
        ExportForm::Forge => Ok(export_run(store, &what.info.run).await?),
        ExportForm::OpenAi => {
            let conversation = store.load(what.info.key).await?.snapshot.conversation;
            if !only_view {
                return Ok(write_openai(&conversation));
            }
            let view = conversation.view();
            let messages: Vec<_> = view.messages().iter().map(ContextMessage::message).cloned().collect();
            Ok(write_messages(&messages))
        }
    }
}

fn write(output: Option<&Path>, bytes: &[u8]) -> anyhow::Result<()> {
    match output {
        Some(path) => {
            write_whole(path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
            output::say(&format!("{} bytes written to {}", bytes.len(), path.display()));
            Ok(())
        }
        None => {
            let mut out = std::io::stdout().lock();
            out.write_all(bytes).and_then(|()| out.flush()).context("cannot write to stdout")
        }
    }
}
