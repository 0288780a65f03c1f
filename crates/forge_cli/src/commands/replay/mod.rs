//! `forge replay`: replays a recorded session.

mod view;

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context as _, ensure};
use clap::Args;
use forge_app::{Checkpointing, Engine, ReplayPlan, ReplayReport, ReplayedCheckpoints, Resume};
use forge_domain::compaction::ContextCompactor;
use forge_domain::quantity;
use forge_domain::{
    Agent, AgentId, CheckpointFilter, Compact, ModelConfig, ModelId, Provider, ProviderConfig, ProviderId,
    Role, StoreSetting, Tokens, Workflow,
};
use forge_infra::{Exchange, OpeningCheckpointStore, Playback, ProcessHolder, StoreUrl, SystemClock};
use forge_services::O200kCounter;
use forge_transcript::{Recording, Session, write_openai};
use indicatif::{ProgressBar, ProgressStyle};

use self::view::{ReplayedSession, StoreFigures, print_json, print_sessions};
use crate::arguments::{ConfigFlag, FromFlag, JsonFlag, window};
use crate::consent::Need;
use crate::failure::{Misconfigured, unknown_agent};
use crate::run::{checkpoints, runtime};
use crate::session_file::{SessionFile, SessionText};
use crate::sessions::{NamedSession, resolve, view_of_run};
use crate::setup::{self, Providers, store};

/// Replay a recorded session and show what compaction does to it, without a key or a server
///
/// Reads the sessions of Claude Code, Codex, pi, opencode, goose and many other agents, and requests of all
/// protocols.
#[derive(Debug, Args)]
pub(crate) struct ReplayArguments {
    /// The recorded session: a file, `-` for stdin, or a name such as @codex:last
    #[arg(value_name = "SESSION")]
    file: PathBuf,
    #[command(flatten)]
    format: FromFlag,
    /// The agent whose `compact` block applies [default: none, so the defaults apply]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    #[command(flatten)]
    configured: ConfigFlag,
    /// The context window in tokens, all of it available to the prompt; `8k` is 8,000
    #[arg(long, value_name = "N", default_value = "128k", value_parser = window)]
    window: Tokens,
    /// The model that writes summaries; without it no model is called
    #[arg(long, value_name = "PROVIDER:MODEL")]
    summarizer: Option<String>,
    /// The session to replay if the file holds several: its id, or its number from 0 [default: all]
    #[arg(long = "session", value_name = "ID|INDEX")]
    picked: Option<String>,
    /// Save checkpoints as a run does, and measure their cost: sqlite:///PATH, postgres://USER@HOST/DATABASE
    /// or memory:
    #[arg(long, value_name = "URL")]
    store: Option<StoreSetting>,
    /// Resume an interrupted replay from its --store: its run, a checkpoint of it, or `last`
    #[arg(long, value_name = "ID", num_args = 0..=1, default_missing_value = "last", requires = "store")]
    resume: Option<String>,
    /// Stop after this many calls, as if the process had been killed: --store says where to save the state
    #[arg(long, value_name = "N", requires = "store")]
    calls: Option<usize>,
    #[command(flatten)]
    form: JsonFlag,
}

impl ReplayArguments {
    /// Replays the sessions of a file.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let sessions = match resolve(&self.file)? {
            NamedSession::File { path, part } => {
                let picked = self.picked.as_deref().or(part.as_deref());
                let file = SessionFile::read(&path, self.format.from.0, picked)?;
                pick_sessions(file, picked)?
            }
            NamedSession::Run(run) => own_run(&run)?.sessions,
        };
        if self.resume.is_some() && sessions.len() != 1 {
            let what = format!(
                "--resume needs a single session, but the file holds {}: name one with --session",
                sessions.len()
            );
            return Err(Misconfigured(what).into());
        }
        let configuration = read_configuration(&self)?;
        let progress = progress(sessions.len());
        let runtime = runtime()?;
        let mut replayed = Vec::new();
        for session in &sessions {
            let one = runtime.block_on(replay_one(session, &configuration, &self));
            replayed.push(one.with_context(|| format!("session {} cannot be replayed", session.id))?);
            progress.inc(1);
        }
        progress.finish_and_clear();
        if self.form.json {
            print_json(&replayed)?;
        } else {
            print_sessions(&replayed)?;
        }
        check_reports(&replayed)?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Reads a run of the user's own, with every message that it ever had.
fn own_run(run: &str) -> anyhow::Result<SessionFile> {
    let (_, conversation) = view_of_run(run)?;
    let text = SessionText { bytes: write_openai(&conversation), format: None, is_picked: true };
    SessionFile::of_text(Path::new(run), text, None)
}

/// Fails if a run would have failed in one of the replays.
fn check_reports(replayed: &[ReplayedSession]) -> anyhow::Result<()> {
    let sum = |n: fn(&ReplayReport) -> usize| replayed.iter().map(|one| n(&one.report)).sum::<usize>();
    let (calls, refused) = (sum(|report| report.calls), sum(|report| report.refused));
    ensure!(
        refused == 0,
        "{refused} of {} refused, as the context cannot be made to fit: use a larger --window; each refusal \
         lists what has to stay",
        if calls == 1 { "1 call was".to_owned() } else { format!("{calls} calls were") }
    );
    let (over, split) = (sum(|report| report.over_window), sum(|report| report.split_exchanges));
    ensure!(
        over + split == 0,
        "{} over the window and {split} with an exchange split: this is a bug in Forge, please report it",
        quantity(over, "prompt")
    );
    let unsaved =
        replayed.iter().filter_map(|one| one.report.checkpoints.as_ref()?.tally.unsaved.as_ref()).next();
    ensure!(
        unsaved.is_none(),
        "the replay is not in the store as a whole: {}",
        unsaved.map_or("", String::as_str)
    );
    Ok(())
}

/// The parts of the configuration that a replay uses.
struct ReplaySettings {
    compact: Compact,
    /// The workflow whose providers serve the summarizer; nothing else of it is used.
    summarizers: Option<Workflow>,
}

fn pick_sessions(file: SessionFile, wanted: Option<&str>) -> anyhow::Result<Vec<Session>> {
    if wanted.is_none() {
        return Ok(file.sessions);
    }
    let index = file.the_one(wanted)?;
    Ok(file.sessions.into_iter().skip(index).take(1).collect())
}

/// Checks that the results of a session are not all lost: its format was most likely guessed wrong.
fn refuse_lost_results(session: &Session, recording: &Recording, path: &Path) -> Result<(), Misconfigured> {
    let results = recording.messages.iter().filter(|message| message.role() == Role::Tool).count();
    if recording.orphans < 2 || results > recording.missing_results {
        return Ok(());
    }
    Err(Misconfigured(format!(
        "{} looks like the format `{}`, but none of its {} results answers a call: it may be of another format\n  \
         help: name its format with `--from FORMAT`; `forge compact --to openai` repairs it",
        path.display(),
        session.format.id(),
        recording.orphans
    )))
}

fn read_configuration(arguments: &ReplayArguments) -> anyhow::Result<ReplaySettings> {
    let source = arguments.configured.source();
    if arguments.agent.is_none() && arguments.summarizer.is_none() && source.config().is_none() {
        return Ok(ReplaySettings { compact: Compact::default(), summarizers: None });
    }
    // Without a summarizer no model is called, and only limits are read.
    let need = if arguments.summarizer.is_some() { Need::Everything } else { Need::Nothing };
    let workflow = setup::configuration(&source, need)?.workflow;
    let mut compact = match &arguments.agent {
        None => Compact::default(),
        Some(id) => match workflow.agents.find(id) {
            Some(agent) => {
                setup::say_without_transforms(agent);
                agent.compact.clone().unwrap_or_default()
            }
            None => return Err(unknown_agent(id, &workflow).into()),
        },
    };
    // A replay asks no model unless it is told which: what the agent says of one does not count.
    let summarizer = arguments.summarizer.clone().map(ModelId::new).transpose();
    let summarizer = summarizer.map_err(|error| Misconfigured(format!("--summarizer: {error}")))?;
    compact.model = summarizer;
    if let Some(model) = &compact.model {
        let model = workflow.model(model).map_err(|error| Misconfigured(format!("--summarizer: {error}")))?;
        setup::key_is_there(&workflow, &model.reference.provider)?;
    }
    let summarizers = compact.model.is_some().then_some(workflow);
    Ok(ReplaySettings { compact, summarizers })
}

async fn replay_one(
    session: &Session,
    configured: &ReplaySettings,
    arguments: &ReplayArguments,
) -> anyhow::Result<ReplayedSession> {
    let window = arguments.window;
    let recording = session.recording();
    refuse_lost_results(session, &recording, &arguments.file)?;
    let playback = Arc::new(Playback::new(Exchange::all_of(&recording.messages), Arc::new(O200kCounter)));
    let (workflow, providers, agent) = stage(configured, window, Arc::clone(&playback) as Arc<dyn Provider>)?;
    let services = setup::services_around(workflow, providers, Arc::clone(&playback) as Arc<_>, None);
    let skipped = Arc::clone(&playback);
    let url = match &arguments.store {
        Some(setting) => store::configured_store(Some(setting))?,
        None => None,
    };
    let checkpointing = url.clone().map(checkpointing).transpose()?;
    let resume = arguments.resume.as_ref().map(Resume::from);
    let plan = ReplayPlan { resume, calls: arguments.calls };
    let before = url.as_ref().and_then(bytes);
    let report = forge_app::replay(
        &recording.messages,
        &agent,
        |watcher| {
            let engine = Engine::new(services, ContextCompactor::new(), watcher);
            match checkpointing {
                Some(checkpointing) => engine.with_checkpoints(checkpointing),
                None => engine,
            }
        },
        &move || drop(skipped.skip()),
        &plan,
    )
    .await
    .map_err(checkpoints::explain)?;
    let store = match (&url, &report.checkpoints) {
        (Some(url), Some(checkpoints)) => Some(figures(url, before, checkpoints).await?),
        _ => None,
    };
    Ok(ReplayedSession {
        id: session.id.clone(),
        window,
        orphans: recording.orphans,
        missing_results: recording.missing_results,
        skipped_lines: session.skipped_lines,
        attachments: session.attachments(),
        store,
        report,
    })
}

/// Sets up the checkpoints of a replay: a run of its own for each session, or the resumed one.
fn checkpointing(url: StoreUrl) -> anyhow::Result<Checkpointing> {
    let clock = Arc::new(SystemClock);
    let run = checkpoints::new_run(&*clock)?;
    let checkpointing = Checkpointing::new(Arc::new(OpeningCheckpointStore::new(url)), clock, run);
    Ok(checkpointing.held_by(Arc::new(ProcessHolder::this())))
}

/// Measures the size of the store, and the time for opening it and reading the run's last state back.
async fn figures(
    url: &StoreUrl,
    before: Option<u64>,
    checkpoints: &ReplayedCheckpoints,
) -> anyhow::Result<StoreFigures> {
    let (after, raw_bytes) = (bytes(url), checkpoints.raw_bytes as u64);
    let grown = after.map(|after| after.saturating_sub(before.unwrap_or_default()));
    // What is in the memory of the store that is gone cannot be opened again.
    if *url == StoreUrl::Memory || checkpoints.tally.saved == 0 {
        return Ok(StoreFigures { grown_bytes: grown, over_raw: None, open_and_load_micros: None });
    }
    let started = Instant::now();
    let opened = OpeningCheckpointStore::new(url.clone()).store().await?;
    let filter = CheckpointFilter { limit: Some(1), ..CheckpointFilter::of_run(&checkpoints.tally.run) };
    if let Some(newest) = opened.list(&filter).await?.first() {
        opened.load(newest.key).await?;
    }
    Ok(StoreFigures {
        grown_bytes: grown,
        over_raw: grown
            .filter(|_| raw_bytes > 0)
            .map(|grown| (grown as f64 * 100.0 / raw_bytes as f64).round() / 100.0),
        open_and_load_micros: Some(started.elapsed().as_micros() as u64),
    })
}

/// Returns the bytes of a store in a file, with its write-ahead log.
fn bytes(url: &StoreUrl) -> Option<u64> {
    let StoreUrl::Sqlite(place) = url else { return None };
    let mut log = place.path.clone().into_os_string();
    log.push("-wal");
    let size = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
    Some(size(&place.path) + size(Path::new(&log)))
}

/// Returns the workflow of a replay: the recorded model with a window that is fully available, and the
/// summarizer's providers.
fn stage(
    configured: &ReplaySettings,
    window: Tokens,
    playback: Arc<dyn Provider>,
) -> anyhow::Result<(Workflow, Providers, Agent)> {
    let mut workflow = configured.summarizers.clone().unwrap_or_default();
    let mut providers = match &configured.summarizers {
        Some(workflow) => setup::providers(workflow, &setup::silent_watcher()),
        None => Providers::new(),
    };
    let recorded = ProviderId::new("recorded")?;
    let model = ModelId::new("recorded:session")?;
    providers.insert(recorded.clone(), playback);
    workflow.providers.insert(recorded.clone(), ProviderConfig::default());
    let limits = ModelConfig {
        provider: Some(recorded),
        window: Some(window),
        max_output: Some(Tokens::ZERO),
        ..ModelConfig::default()
    };
    workflow.models.insert(model.clone(), limits);
    let agent = Agent::new(AgentId::new("replay")?).model(model).compact(configured.compact.clone());
    Ok((workflow, providers, agent))
}

/// Returns a progress bar on stderr, which is shown for several sessions at a terminal.
fn progress(n_sessions: usize) -> ProgressBar {
    if n_sessions < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} sessions {elapsed}");
    ProgressBar::new(n_sessions as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
