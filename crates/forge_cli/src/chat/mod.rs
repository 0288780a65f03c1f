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
mod person;
mod screen;
mod session;
mod status;
mod stops;
mod table;
mod input;
mod view;
mod wrap;

use std::io::IsTerminal;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use console::style;
use forge_app::{RunError, RunReport};
use forge_domain::{Agent, Person, Workflow};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use self::attendant::Attendant;
use self::canvas::Canvas;
use self::completion::Known;
use self::line_editor::{LineEditor, Manner};
use self::person::ChatPrompt;
use self::screen::Screen;
use self::session::{ChatSession, End};
use self::stops::Stops;
use self::view::ChatView;
use self::wrap::Paint;
use crate::arguments::RunArguments;
use crate::failure::{Exit, Misconfigured};
use crate::interruption::{Interruption, interruption};
use crate::output::{self, visible};
use crate::run::{self, Prepared};
use crate::run_view::{Break, RunView, report_json};
use crate::terminal::{self, Taken};
use crate::{places, run_checkpoints, terminal_person};

/// The file of typed lines, in the user's state folder.
const HISTORY: &str = "history";

/// Runs a task, or chats if there is none and a user is at the terminal.
pub(crate) fn run(arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let is_terminal =
        std::io::stdin().is_terminal() && std::io::stdout().is_terminal() && std::io::stderr().is_terminal();
    if arguments.chat && !is_terminal {
        let what = "--chat needs a terminal for input, output and errors; without one, pipe the task in, or \
             write it as an argument";
        return Err(Misconfigured(what.to_owned()).into());
    }
    if arguments.chat || (is_terminal && arguments.task.is_none() && !arguments.json) {
        chat(arguments)
    } else {
        run::run(arguments)
    }
}

fn chat(mut arguments: RunArguments) -> anyhow::Result<ExitCode> {
    let first = arguments.task.take();
    // Where the terminal takes nothing back, lines are written as they come and read as they are given.
    let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
    let paint = if console::colors_enabled_stderr() { Paint::Colours } else { Paint::Bare };
    let screen = Arc::new(Screen::new(Canvas {
        out: Box::new(std::io::stderr()),
        size: Box::new(|| {
            crossterm::terminal::size().ok().filter(|size| size.0 > 0 && size.1 > 0).unwrap_or((80, 24))
        }),
        paint,
        redraws: !is_dumb,
    }));
    let person: Arc<dyn Person> =
        if is_dumb { terminal_person::person() } else { Arc::new(ChatPrompt::person(Arc::clone(&screen))) };
    let view: Arc<dyn RunView> = Arc::new(ChatView::at(Arc::clone(&screen)));
    let Prepared { orchestrator, resume, store } = run::prepare(&arguments, &view, person)?;
    let workflow = &orchestrator.engine().services().workflow;
    // A resumed run names its agents; a user who chats with several can name one.
    if resume.is_none()
        && let Err(error) = orchestrator.check(arguments.how.agent.as_deref())
        && !matches!(error, RunError::NobodyListens { .. })
    {
        return Err(run::explain(error));
    }
    let manner = if is_dumb {
        Manner::Plain
    } else {
        Manner::Edited { history: places::state_file(HISTORY), known: known_names(workflow), paint }
    };
    say_hello(workflow, arguments.how.agent.as_deref());
    let taken = (!is_dumb).then(Taken::take);
    output::owned_by(Some(Arc::clone(&screen) as Arc<dyn output::Owner>));
    let runtime = run::runtime()?;
    let signals = signals(&runtime);
    let mut session = ChatSession {
        orchestrator,
        attendant: Attendant {
            signals,
            screen,
            stops: Stops::default(),
            has_keys: !is_dumb,
            began: Instant::now(),
        },
        editor: LineEditor::start(manner),
        view: &*view,
        agent: arguments.how.agent.clone(),
        report: None,
        source: arguments.how.source.clone(),
        typed: String::new(),
    };
    let outcome = runtime.block_on(session.chat(first, resume));
    // From here on the terminal is as it was found: a second Ctrl-C is a signal again.
    output::owned_by(None);
    drop(taken);
    if let Ok(End::Interrupted(_)) = outcome {
        // Below the line that was being typed there may be proposals.
        output::write_raw(if is_dumb { "\n" } else { "\n\u{1b}[J" });
    }
    runtime.block_on(run::handed_back(&mut session.orchestrator, matches!(outcome, Ok(End::Interrupted(_)))));
    runtime.shutdown_background();
    let checkpoints = session.orchestrator.checkpoints();
    let flags = run_checkpoints::flags(&session.source, store.as_ref());
    let report = session.report.take().map(|report| RunReport { checkpoints: checkpoints.clone(), ..report });
    let report_file = arguments.how.report.as_deref();
    let code = match &outcome {
        Ok(End::Left) => {
            let statistics = session.orchestrator.statistics();
            if statistics.calls > 0 {
                output::say(&style(execution::in_a_line(&statistics)).dim().for_stderr().to_string());
            }
            run_checkpoints::say_how_to_go_on(checkpoints.as_ref(), &flags);
            let is_unsaved = checkpoints.as_ref().is_some_and(|tally| tally.unsaved.is_some());
            if is_unsaved { Exit::Unsaved.code() } else { Exit::Done.code() }
        }
        Ok(End::Interrupted(interruption)) => {
            let words =
                format!("{}{}", interruption.word(), run::record_note(arguments.how.record.as_deref()));
            let why = Break::Interrupted { words, exit_code: interruption.exit_code() };
            view.show_break(&why, checkpoints.as_ref(), &flags);
            why.exit_code()
        }
        Err(error) => {
            let why = Break::Failed(error);
            view.show_break(&why, checkpoints.as_ref(), &flags);
            why.exit_code()
        }
    };
    if let Some(report) = report {
        run::write_report(report_file, &report_json(&report, code))?;
    }
    outcome.map(|_| ExitCode::from(code))
}

/// Collects interruptions from now on: none is lost between two waits.
fn signals(runtime: &run::Runtime) -> UnboundedReceiver<Interruption> {
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
fn known_names(workflow: &Workflow) -> Known {
    let mut models: Vec<String> = workflow.models.keys().map(ToString::to_string).collect();
    models.extend(workflow.agents.iter().filter_map(|agent| agent.model.as_ref().map(ToString::to_string)));
    models.sort();
    models.dedup();
    Known { agents: workflow.agents.iter().map(|agent| agent.id.to_string()).collect(), models }
}

/// Prints the agents and how to get help.
fn say_hello(workflow: &Workflow, agent: Option<&str>) {
    let agents: Vec<&Agent> =
        workflow.agents.iter().filter(|known| agent.is_none_or(|agent| known.id.as_str() == agent)).collect();
    let named = |agent: &&Agent| {
        let model = agent.model.as_ref().map(|model| format!(" ({})", visible(model.as_str())));
        visible(agent.id.as_str()) + &model.unwrap_or_default()
    };
    let who = agents.iter().map(named).collect::<Vec<_>>().join(", ");
    output::say(
        &style(format!("{who} · /help lists commands and keys · Ctrl-D ends the chat"))
            .dim()
            .for_stderr()
            .to_string(),
    );
}
