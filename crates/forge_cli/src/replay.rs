//! `forge replay`: a recorded session is lived through again.

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, ensure};
use forge_app::{Engine, ReplayReport};
use forge_domain::compaction::ContextCompactor;
use forge_domain::{
    Agent, AgentId, Body, Compact, Message, ModelConfig, ModelId, Provider, ProviderConfig, ProviderId, Role,
    Tokens, Workflow,
};
use forge_infra::{Exchange, Playback};
use forge_services::O200kCounter;
use forge_transcript::Session;
use indicatif::{ProgressBar, ProgressStyle};

use crate::arguments::{FormatName, ReplayArguments, Source};
use crate::failure::Misconfigured;
use crate::replay_view::{ReplayedSession, print_json, print_sessions};
use crate::run::runtime;
use crate::session_file::{SessionFile, nth_of};
use crate::setup::{self, Providers};

/// Replays the sessions of a file.
pub(crate) fn replay(arguments: &ReplayArguments) -> anyhow::Result<ExitCode> {
    let sessions =
        picked(SessionFile::read(&arguments.file, FormatName::Auto)?.sessions, arguments.picked.as_deref())?;
    let configuration = configured(arguments)?;
    let progress = progress(sessions.len());
    let runtime = runtime()?;
    let mut replayed = Vec::new();
    for session in &sessions {
        let one = runtime.block_on(replay_one(session, &configuration, arguments.window));
        replayed.push(one.with_context(|| format!("session {} cannot be replayed", session.id))?);
        progress.inc(1);
    }
    progress.finish_and_clear();
    if arguments.json {
        print_json(&replayed)?;
    } else {
        print_sessions(&replayed)?;
    }
    nothing_went_wrong(&replayed)?;
    Ok(ExitCode::SUCCESS)
}

/// Refuses to call a replay a success in which a run would have failed.
fn nothing_went_wrong(replayed: &[ReplayedSession]) -> anyhow::Result<()> {
    let sum = |n: fn(&ReplayReport) -> usize| replayed.iter().map(|one| n(&one.report)).sum::<usize>();
    let (calls, refused) = (sum(|report| report.calls), sum(|report| report.refused));
    ensure!(
        refused == 0,
        "{refused} of {calls} calls were refused, as the context cannot be made to fit: take a larger --window; what \
         has to stay is told with each of them"
    );
    let (over, split) = (sum(|report| report.over_window), sum(|report| report.split_exchanges));
    ensure!(
        over + split == 0,
        "{over} prompts were over the window and {split} had an exchange split: this is a fault of forge, please report it"
    );
    Ok(())
}

/// What a replay takes from the configuration.
struct Configured {
    compact: Compact,
    /// The workflow whose providers serve the summariser; nothing else of it counts.
    summarizers: Option<Workflow>,
}

fn picked(sessions: Vec<Session>, wanted: Option<&str>) -> anyhow::Result<Vec<Session>> {
    let Some(wanted) = wanted else { return Ok(sessions) };
    let index = nth_of(&sessions, wanted)?;
    Ok(sessions.into_iter().skip(index).take(1).collect())
}

fn configured(arguments: &ReplayArguments) -> anyhow::Result<Configured> {
    let source = Source { config: arguments.config.clone(), model: None, provider: None };
    if arguments.agent.is_none() && arguments.summarizer.is_none() && arguments.config.is_none() {
        return Ok(Configured { compact: Compact::default(), summarizers: None });
    }
    let workflow = setup::configuration(&source)?.workflow;
    let mut compact = match &arguments.agent {
        None => Compact::default(),
        Some(id) => match workflow.agents.find(id) {
            Some(agent) => agent.compact.clone().unwrap_or_default(),
            None => {
                let known: Vec<&str> = workflow.agents.iter().map(|agent| agent.id.as_str()).collect();
                let what = format!("there is no agent `{id}`; known are: {}", known.join(", "));
                return Err(Misconfigured(what).into());
            }
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
    Ok(Configured { compact, summarizers })
}

async fn replay_one(
    session: &Session,
    configured: &Configured,
    window: Tokens,
) -> anyhow::Result<ReplayedSession> {
    let recording = session.recording();
    let playback = Arc::new(Playback::new(exchanges(&recording.messages), Arc::new(O200kCounter)));
    let (workflow, providers, agent) = stage(configured, window, Arc::clone(&playback) as Arc<dyn Provider>)?;
    let services = setup::joined(workflow, providers, Arc::clone(&playback) as Arc<_>, None);
    let skipped = Arc::clone(&playback);
    let report = forge_app::replay(
        &recording.messages,
        &agent,
        |watcher| Engine::new(services, ContextCompactor::new(), watcher),
        &move || drop(skipped.skip()),
    )
    .await?;
    Ok(replayed(session, recording.orphans, recording.missing_results, window, report))
}

/// The workflow of a replay: the recorded model with a window that is all room, and the summariser's providers.
fn stage(
    configured: &Configured,
    window: Tokens,
    playback: Arc<dyn Provider>,
) -> anyhow::Result<(Workflow, Providers, Agent)> {
    let mut workflow = configured.summarizers.clone().unwrap_or_default();
    let mut providers = match &configured.summarizers {
        Some(workflow) => setup::providers(workflow)?,
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
        price: None,
    };
    workflow.models.insert(model.clone(), limits);
    let agent = Agent::new(AgentId::new("replay")?).model(model).compact(configured.compact.clone());
    Ok((workflow, providers, agent))
}

/// Each assistant message with the results behind it.
fn exchanges(messages: &[Message]) -> Vec<Exchange> {
    let mut exchanges: Vec<Exchange> = Vec::new();
    for message in messages {
        match (&message.body, exchanges.last_mut()) {
            (Body::Tool(result), Some(exchange)) => exchange.results.push(result.clone()),
            _ if message.role() == Role::Assistant => {
                exchanges.push(Exchange { reply: message.clone(), results: Vec::new() });
            }
            _ => {}
        }
    }
    exchanges
}

fn replayed(
    session: &Session,
    orphans: usize,
    missing_results: usize,
    window: Tokens,
    report: ReplayReport,
) -> ReplayedSession {
    ReplayedSession {
        id: session.id.clone(),
        window,
        orphans,
        missing_results,
        skipped_lines: session.skipped_lines,
        report,
    }
}

/// A bar on standard error while several sessions are replayed and somebody looks.
fn progress(n_sessions: usize) -> ProgressBar {
    if n_sessions < 2 || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} sessions {elapsed}");
    ProgressBar::new(n_sessions as u64).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
