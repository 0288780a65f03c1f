//! The setup of a run.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use anyhow::Context as _;
use forge_app::{ActionLog, Engine, History, Orchestrator, Resume, RunEvent, Watcher, unknown_permissions};
use forge_domain::compaction::ContextCompactor;
use forge_domain::{
    MCP_SEPARATOR, McpServerConfig, McpServerId, Mode, Person, SessionSink, StoreSetting, ToolName, Workflow,
};
use forge_infra::FileSessionSink;
use forge_transcript::write_openai;

use super::answer_schema::AnswerSchema;
use super::checkpoints;
use super::end::check_report;
use super::runtime::block_on;
use super::slice_terms::SliceTerms;
use super::view::RunView;
use crate::arguments::{RunFlags, SetupFlags};
use crate::consent::Need;
use crate::failure::Misconfigured;
use crate::session_file::is_same;
use crate::setup::{self, sandbox, surroundings};

/// The additional observer of this process's runs.
static WATCH: OnceLock<Watcher> = OnceLock::new();

/// Shows every event of a run to `watch` first; only the first call counts.
pub(crate) fn watch(watch: Watcher) {
    drop(WATCH.set(watch));
}

/// A run as it was requested on the command line.
pub(crate) struct RunRequest {
    /// The state to resume from.
    pub(crate) resume: Option<Resume>,
    /// The session of another agent that it begins with.
    pub(crate) history: Option<History>,
    /// The store that was named.
    pub(crate) store: Option<StoreSetting>,
    pub(crate) flags: RunFlags,
    /// The form that the answer must have.
    pub(crate) answer: Option<AnswerSchema>,
    /// MCP servers of the editor that the run works for.
    pub(crate) servers: BTreeMap<McpServerId, McpServerConfig>,
    /// The terms of a run that is driven in slices.
    pub(crate) slice: Option<SliceTerms>,
}

impl RunRequest {
    /// Creates a request for a new run.
    pub(crate) const fn new(store: Option<StoreSetting>, flags: RunFlags) -> Self {
        Self {
            resume: None,
            history: None,
            store,
            flags,
            answer: None,
            servers: BTreeMap::new(),
            slice: None,
        }
    }
}

/// Checks that the files of a run can be written, before anything is sent.
fn check_files(flags: &RunFlags) -> Result<(), Misconfigured> {
    if let Some(place) = &flags.report {
        check_report(place)?;
        let report = place.path();
        if flags.record.file().is_some_and(|record| is_same(record, report)) {
            let at = report.display();
            return Err(Misconfigured(format!("--record and --report are the same file: {at}")));
        }
    }
    if let Some(path) = flags.record.file() {
        FileSessionSink::probe(path).map_err(|error| Misconfigured(format!("--record: {error}")))?;
    }
    Ok(())
}

/// Sets up a run that `view` shows and that works for `person`.
pub(crate) fn prepare(
    RunRequest { resume, store, flags, answer, servers, slice, .. }: &RunRequest,
    view: &Arc<dyn RunView>,
    person: Arc<dyn Person>,
) -> anyhow::Result<Orchestrator> {
    check_files(flags)?;
    let SetupFlags { source, sandbox: mode, consent } = &flags.setup;
    let configuration = setup::configuration_within(source, flags.budget.allowance(), Need::Everything)?;
    let layers = &configuration.layers;
    // The files of Forge are those of the folder in which it was started; only the work is done elsewhere.
    if let Some(folder) = slice.as_ref().and_then(|slice| slice.folder.as_ref()) {
        std::env::set_current_dir(folder)
            .with_context(|| format!("{} cannot be entered", folder.display()))?;
    }
    let mut workflow = configuration.workflow;
    add_servers(&mut workflow, servers);
    let mut workflow = setup::with_built_in_agent(workflow, source)
        .map_err(|error| if resume.is_some() { checkpoints::explain_missing_model(&error) } else { error })?;
    if store.is_some() {
        workflow.checkpoint.store.clone_from(store);
    }
    if let Some(answer) = answer {
        answer.require_of_agents(&mut workflow, flags.agent.id());
    }
    let sink = flags.record.file().map(sink);
    let tell = watcher(view);
    let mut notices = sandbox::refusals(layers);
    if let Some(mode) = mode {
        let asked = workflow.sandbox.take().unwrap_or_default().with_mode((*mode).into());
        let (sandbox, notice) = sandbox::limit(asked, layers);
        workflow.sandbox = Some(sandbox);
        notices.extend(notice);
    }
    // A resumed run has its prompt already.
    if resume.is_none() && workflow.agents.iter().any(surroundings::is_shown_to) {
        notices.extend(surroundings::notes_on_instructions(Path::new(".")));
    }
    for notice in &notices {
        tell(&RunEvent::Notice(notice));
    }
    let sandbox = sandbox::of(&workflow, &layers.environment, &tell)?;
    let actions = ActionLog::new();
    if resume.is_some() || slice.is_some() {
        actions.wait_for_claim();
    }
    let services = setup::services(workflow, sink, layers, &tell, person, sandbox.as_ref(), &actions)?;
    setup::check_agents(&services, layers, flags.agent.id())?;
    let hooks = setup::hooks(&services.workflow, layers, sandbox.as_ref(), &actions);
    let held = sandbox.as_ref().map(sandbox::confinement);
    let engine = Engine::new(services, ContextCompactor::new(), tell).with_hooks(hooks).with_actions(actions);
    let discretion = consent.discretion()?;
    let unknown = unknown_permissions("--allow", Some(&discretion.allowed), engine.services());
    if let Some(finding) = unknown.first() {
        let help = finding.hint.as_ref().map_or_else(String::new, |hint| format!("\nhelp: {hint}"));
        return Err(Misconfigured(format!("--allow: {}{help}", finding.what)).into());
    }
    engine.conduct.begin(discretion, held);
    check_mode(&engine)?;
    Ok(Orchestrator::new(match checkpoints::checkpointing(&engine.services().workflow, slice.as_ref())? {
        Some(checkpointing) => engine.with_checkpoints(checkpointing),
        None => engine,
    }))
}

/// Adds the editor's servers, and their tools to every agent.
fn add_servers(workflow: &mut Workflow, servers: &BTreeMap<McpServerId, McpServerConfig>) {
    for (id, config) in servers {
        workflow.mcp_servers.insert(id.clone(), config.clone());
        if let Ok(tools) = ToolName::new(format!("{id}{MCP_SEPARATOR}*")) {
            workflow.agents.for_each(|agent| agent.tools.get_or_insert_default().push(tools.clone()));
        }
    }
}

/// Checks that the mode that was asked for can be used.
fn check_mode(engine: &Engine) -> anyhow::Result<()> {
    if engine.conduct.mode() != Mode::Auto {
        return Ok(());
    }
    let help =
        "help: `--mode edits` edits without asking and asks before it runs a command; see docs/sandbox.md";
    block_on(async { Ok(engine.conduct.check_mode(Mode::Auto).await) })?
        .map_err(|error| Misconfigured(format!("{error}\n{help}")).into())
}

/// Returns a watcher that shows every event to `view`, and before it to the additional observer.
fn watcher(view: &Arc<dyn RunView>) -> Watcher {
    let view = Arc::clone(view);
    Arc::new(move |event| {
        if let Some(watch) = WATCH.get() {
            watch(event);
        }
        view.tell(event);
    })
}

fn sink(path: &Path) -> Arc<dyn SessionSink> {
    Arc::new(FileSessionSink::new(path.to_owned(), write_openai))
}
