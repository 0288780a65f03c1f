//! The chat: `forge run` at a terminal, without a task.
//!
//! The terminal has one owner at a time: the line editor while a line is typed, the [`screen`] during work.
//! All other output in the meantime goes through the owner. Commands become plain data (`command.rs`), which
//! `execution.rs` has the orchestrator run.

mod attendant;
mod lower_lines;
mod blocks;
mod command;
mod completion;
mod context_picture;
mod execution;
mod canvas;
mod keyboard;
mod line_editor;
mod markdown;
mod offer;
mod pastes;
mod picker;
mod prompt;
mod resumption;
mod inspection;
mod screen;
mod session;
mod stops;
mod table;
mod input;
mod view;
mod spans;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use console::style;
use forge_app::{Orchestrator, Resume, RunError, RunReport};
use forge_domain::{Agent, Mode, ModelId, Person, Workflow};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::attendant::Attendant;
use self::canvas::Canvas;
use self::completion::KnownNames;
use self::line_editor::{LineEditor, Manner};
use self::prompt::ChatPrompt;
pub(crate) use self::resumption::pick_of_store;
use self::screen::Screen;
use self::session::{ChatSession, End, Next};
use self::spans::Paint;
use self::stops::Stops;
use self::view::ChatView;
use crate::attached_images;
use crate::failure::{Exit, Misconfigured};
use crate::output::{self, visible};
use crate::places;
use crate::run::status::in_a_line;
use crate::run::{
    Break, Interruption, RunRequest, RunView, Runtime, checkpoints, explain, interruption, prepare, release,
    report_json, run_start, runtime, unrecorded_text, write_report,
};
use crate::setup;
use crate::terminal::{self, Taken, person};

/// The file of typed lines, in the user's state folder.
const HISTORY: &str = "history";

/// Chats about the task of `request`, beginning with the message `first`, and about further runs if the user
/// asks for them.
pub(crate) fn chat(first: Option<String>, mut request: RunRequest) -> anyhow::Result<ExitCode> {
    let images = &request.flags.images.images;
    if first.is_none() && !images.is_empty() {
        let what = "an image needs a task; in the chat, write @FILE in a message";
        return Err(Misconfigured(what.to_owned()).into());
    }
    let mut first = first.map(|first| attached_images::with_mentions(first, images));
    loop {
        match chat_about(first.take(), &mut request)? {
            Ended::Over(code) => return Ok(code),
            Ended::Again(next) => {
                request.resume = match next {
                    Next::New => None,
                    Next::Resumed(which) => Some(Resume::from(which)),
                };
                // The file has the session of the run before.
                if std::mem::take(&mut request.flags.record).file().is_some() {
                    output::note("--record is for the first run alone: this one is not recorded");
                }
            }
        }
    }
}

/// The end of one run of a chat.
enum Ended {
    Over(ExitCode),
    Again(Next),
}

/// Chats about one run.
fn chat_about(first: Option<String>, request: &mut RunRequest) -> anyhow::Result<Ended> {
    // Where the terminal takes nothing back, lines are written as they come and read as they are given.
    let is_dumb = terminal::is_dumb();
    let paint = if console::colors_enabled_stderr() { Paint::Colours } else { Paint::Bare };
    let screen = Arc::new(Screen::new(Canvas::of_stderr(paint, !is_dumb)));
    let person: Arc<dyn Person> =
        if is_dumb { person::person() } else { Arc::new(ChatPrompt::person(Arc::clone(&screen))) };
    let view: Arc<dyn RunView> = Arc::new(ChatView::at(Arc::clone(&screen)));
    let orchestrator = prepare(request, &view, person)?;
    let agent = request.flags.agent.id();
    check_agent(&orchestrator, request.resume.is_some(), agent)?;
    let workflow = &orchestrator.engine().services().workflow;
    let manner = if is_dumb {
        Manner::Plain
    } else {
        Manner::Edited { history: places::state_file(HISTORY), known: known_names(workflow), paint }
    };
    say_hello(workflow, agent, orchestrator.engine().conduct.mode());
    view.show_start(&run_start(&orchestrator, None, agent));
    let taken = (!is_dumb).then(Taken::take);
    output::set_owner(Some(Arc::clone(&screen) as Arc<dyn output::Owner>));
    let runtime = runtime()?;
    let attendant = Attendant {
        signals: signals(&runtime),
        screen,
        stops: Stops::default(),
        has_keys: !is_dumb,
        began: Instant::now(),
        conduct: Arc::clone(&orchestrator.engine().conduct),
    };
    attendant.screen.figures(|figures| figures.mode = attendant.conduct.mode());
    load_vocabulary(&orchestrator);
    let mut session = ChatSession {
        orchestrator,
        attendant,
        editor: LineEditor::start(manner),
        view: &*view,
        agent: agent.map(str::to_owned),
        report: None,
        source: request.flags.setup.source.clone(),
        typed: String::new(),
        ran: String::new(),
    };
    let outcome = runtime.block_on(session.chat(first, request.resume.take(), request.history.take()));
    // From here on the terminal is as it was found: a second Ctrl-C is a signal again.
    output::set_owner(None);
    drop(taken);
    session.remember_unsent();
    let was_interrupted = matches!(outcome, Ok(End::Interrupted(_)));
    if was_interrupted {
        // Below the line that was being typed there may be proposals.
        output::write_raw(if is_dumb { "\n" } else { "\n\u{1b}[J" });
    }
    runtime.block_on(release(&mut session.orchestrator, was_interrupted));
    runtime.shut_down();
    // What was chosen holds for the next run, too.
    request.flags.setup.source = session.source.clone();
    request.flags.setup.consent.mode = Some(session.attendant.conduct.mode());
    finish(session, outcome, request)
}

/// Checks that the agent can be chatted with. A resumed run names its agents; a user who chats with several
/// can name one.
fn check_agent(orchestrator: &Orchestrator, is_resumed: bool, agent: Option<&str>) -> anyhow::Result<()> {
    match orchestrator.check(agent) {
        Err(error) if !is_resumed && !matches!(error, RunError::NobodyListens { .. }) => Err(explain(error)),
        _ => Ok(()),
    }
}

/// Prints and writes how the chat ended, and returns its exit code.
fn finish(
    session: ChatSession<'_>,
    outcome: anyhow::Result<End>,
    request: &RunRequest,
) -> anyhow::Result<Ended> {
    let checkpoints = session.orchestrator.checkpoints();
    let checkpoints = checkpoints.as_ref();
    let flags = checkpoints::flags(&request.flags, request.store.as_ref());
    let unrecorded = session.orchestrator.engine().unrecorded();
    let why = match &outcome {
        Ok(End::Left | End::Again(_)) => None,
        Ok(End::Interrupted(interruption)) => {
            Some(Break::interrupted(*interruption, request.flags.record.file(), unrecorded.as_deref()))
        }
        Err(error) => Some(Break::Failed(error)),
    };
    let code = match &why {
        Some(why) => {
            session.view.show_break(why, checkpoints, &flags);
            why.exit_code()
        }
        None => {
            let statistics = session.orchestrator.statistics();
            if statistics.calls > 0 {
                output::say(&style(in_a_line(&statistics)).dim().for_stderr().to_string());
            }
            checkpoints::say_how_to_resume(checkpoints, &flags);
            if let Some(why) = &unrecorded {
                output::note(&unrecorded_text(why));
            }
            match checkpoints.is_some_and(|tally| tally.unsaved.is_some()) {
                true => Exit::Unsaved.code(),
                false if unrecorded.is_some() => Exit::Failed.code(),
                false => Exit::Done.code(),
            }
        }
    };
    if let Some(report) = session.report {
        let report = RunReport { checkpoints: checkpoints.cloned(), ..report };
        write_report(request.flags.report.as_ref(), &report_json(&report, code))?;
    }
    outcome.map(|end| match end {
        End::Again(next) => Ended::Again(next),
        End::Left | End::Interrupted(_) => Ended::Over(ExitCode::from(code)),
    })
}

/// Collects interruptions from now on: none is lost between two waits.
fn signals(runtime: &Runtime) -> UnboundedReceiver<Interruption> {
    let (hears, signals) = unbounded_channel();
    let hears_too = hears.clone();
    runtime.spawn(async move { while hears_too.send(interruption().await).is_ok() {} });
    #[cfg(unix)]
    terminal::watch(move || {
        // No one receives it after the chat has ended.
        let _ = hears.send(Interruption::HungUp);
    });
    #[cfg(not(unix))]
    terminal::watch(move || drop(hears));
    signals
}

/// Returns the names to complete.
fn known_names(workflow: &Workflow) -> KnownNames {
    // A model that cannot be reached is not offered.
    let is_offered = |id: &ModelId| {
        let known = workflow.models.get(id);
        known.is_none_or(|known| known.protocols.as_ref().is_none_or(|served| !served.is_empty()))
    };
    let is_reachable = |id: &&ModelId| {
        is_offered(id)
            && workflow
                .model(id)
                .is_ok_and(|model| setup::key_is_there(workflow, &model.reference.provider).is_ok())
    };
    let mut models: Vec<String> =
        workflow.models.keys().filter(is_reachable).map(ToString::to_string).collect();
    models.extend(workflow.agents.iter().filter_map(|agent| agent.model.as_ref().map(ToString::to_string)));
    models.sort();
    models.dedup();
    KnownNames { agents: workflow.agents.iter().map(|agent| agent.id.to_string()).collect(), models }
}

/// Has the counter load its vocabulary while the user types, as the first request needs it.
fn load_vocabulary(orchestrator: &Orchestrator) {
    let counter = Arc::clone(&orchestrator.engine().services().counter);
    std::thread::spawn(move || counter.count(""));
}

/// Prints the agents and how to get help.
fn say_hello(workflow: &Workflow, agent: Option<&str>, mode: Mode) {
    let agents: Vec<&Agent> =
        workflow.agents.iter().filter(|known| agent.is_none_or(|agent| known.id.as_str() == agent)).collect();
    let named = |agent: &&Agent| {
        let model = agent.model.as_ref().map(|model| format!(" ({})", visible(model.as_str())));
        visible(agent.id.as_str()) + &model.unwrap_or_default()
    };
    let who = agents.iter().map(named).collect::<Vec<_>>().join(", ");
    let mode = if mode == Mode::Ask { String::new() } else { format!(" · mode {mode}") };
    output::say(
        &style(format!(
            "{who}{mode} · /help lists commands and keys · Shift-Tab switches modes · Ctrl-D ends the chat"
        ))
        .dim()
        .for_stderr()
        .to_string(),
    );
}
