//! A chat from its first prompt to its end.

use console::style;
use forge_app::{Checkpointing, History, Orchestrator, Resume, RunError, RunReport, Scope};
use forge_domain::{
    AgentId, Body, CallScope, ContextMessage, Event, LineWatcher, Message, Mode, ProviderError, TASK_EVENT,
    ToolCall, ToolName, find_secrets, quantity,
};

use super::attendant::{Attendant, Attended};
use super::command::{ChatCommand, Input};
use super::line_editor::{Line, LineEditor};
use super::offer::{Plan, Rest, offer_plan, offer_rest};
use super::resumption::pick_run;
use super::screen::Screen;
use super::stops::Stop;
use crate::arguments::Source;
use crate::output::line_wrap::FRAME;
use crate::run::status::{Doing, mode_words};
use crate::run::{
    Attached, Interruption, PLAN_APPROVAL, RunView, attach_files, explain, may_be_plan, refuse_unavailable,
    restore, select_here,
};
#[cfg(unix)]
use crate::terminal;
use crate::{attached_images, failure, output};

/// The most lines of the last answer that are shown when a chat is resumed.
const RECALLED: usize = 12;

/// The most lines of the user's own command that are shown.
const SHELL_LINES: usize = 100;
/// The most characters of its output that the model is shown.
const SHELL_CHARS: usize = 16_000;

/// A chat.
pub(super) struct ChatSession<'a> {
    pub(super) orchestrator: Orchestrator,
    pub(super) attendant: Attendant,
    pub(super) editor: LineEditor,
    pub(super) view: &'a dyn RunView,
    /// The agent that receives messages; `None` means every agent that subscribes.
    pub(super) agent: Option<String>,
    /// The totals of all turns.
    pub(super) report: Option<RunReport>,
    /// The source of the configuration; its model is the current one.
    pub(super) source: Source,
    /// The text that the next line starts with.
    pub(super) typed: String,
    /// The commands that the user ran, and what they printed, for the next message.
    pub(super) ran: String,
}

/// The end of a chat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The user left.
    Left,
    /// The user continues another run.
    Again(Next),
    /// An interruption ended it.
    Interrupted(Interruption),
}

/// The run after this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Next {
    New,
    /// The run to resume.
    Resumed(String),
}

/// The start of a turn.
enum TurnStart {
    /// A message.
    Message(String),
    /// The unfinished work of a resumed run.
    Rest,
}

/// Checks whether the same message would be refused again.
const fn is_refusal(error: &RunError) -> bool {
    matches!(
        error,
        RunError::Provider(ProviderError::InvalidRequest { .. } | ProviderError::Unsendable { .. })
            | RunError::NoImages { .. }
    )
}

/// Shows the last exchange of messages.
fn show_last_exchange(orchestrator: &Orchestrator, screen: &Screen) {
    let active = orchestrator.active().map(AgentId::as_str);
    let Some(conversation) = active.and_then(|id| orchestrator.conversation(id)) else { return };
    // Only these are read: what lies before them stays packed.
    let messages: Vec<&ContextMessage> = conversation.messages().collect();
    let Some(asked) = messages.iter().rposition(|message| message.starts_turn()) else { return };
    let question = messages[asked].message().to_text();
    let mut lines: Vec<&str> = question.lines().take(3).collect();
    if question.lines().count() > lines.len() {
        lines.push("…");
    }
    screen.echo(&lines.join("\n"));
    let answers = messages[asked..].iter().rev().map(|message| message.message());
    let is_answer = |body: &Body| matches!(body, Body::Assistant { .. });
    let answer = answers.filter(|message| is_answer(&message.body)).map(Message::to_text);
    if let Some(answer) = answer.into_iter().find(|text| !text.trim().is_empty()) {
        screen.excerpt(&answer, RECALLED);
    }
}

impl ChatSession<'_> {
    /// Chats until the user leaves or an interruption ends it.
    pub(super) async fn chat(
        &mut self,
        first: Option<String>,
        resume: Option<Resume>,
        history: Option<History>,
    ) -> anyhow::Result<End> {
        if let Some(history) = history {
            let agent = self.agent.as_deref();
            history.begin(&mut self.orchestrator, agent).await.map_err(explain)?;
            self.count();
            show_last_exchange(&self.orchestrator, &self.attendant.screen);
        }
        if let Some(resume) = resume
            && let Some(end) = self.resume(&resume, first.is_none()).await?
        {
            return Ok(end);
        }
        if let Some(first) = first {
            self.attendant.screen.echo(&first);
            if let Some(end) = self.turn(TurnStart::Message(first)).await {
                return Ok(end);
            }
        }
        loop {
            let text = match self.attendant.screen.next_in_queue() {
                Some(text) => {
                    self.attendant.screen.echo(&text);
                    self.editor.remember(&text);
                    text
                }
                None => match self.line().await? {
                    Ok(text) => text,
                    Err(end) => return Ok(end),
                },
            };
            self.attendant.stops.went_on();
            if let Some(end) = self.handle_input(&text).await {
                return Ok(end);
            }
        }
    }

    /// Handles one input.
    async fn handle_input(&mut self, text: &str) -> Option<End> {
        match Input::read(text) {
            Input::Nothing => None,
            Input::Message(message) => self.turn(TurnStart::Message(message)).await,
            Input::Shell(command) => self.run_shell(command).await,
            Input::Command(ChatCommand::Exit) => Some(End::Left),
            Input::Command(command) => self.command(command).await,
            Input::Unknown { word, meant } => {
                let word = output::visible(&word);
                let meant = meant.map_or_else(
                    || "/help lists all of them.".to_owned(),
                    |meant| format!("did you mean {meant}?"),
                );
                self.note(&format!(
                    "unknown command {word}: {meant} To send a message that starts with a slash, begin with \
                     //"
                ));
                None
            }
            Input::TakesNothing(word) => {
                self.note(&format!("{word} takes no argument; nothing was done"));
                None
            }
        }
    }

    /// Reads the next line.
    async fn line(&mut self) -> anyhow::Result<Result<String, End>> {
        let screen = std::sync::Arc::clone(&self.attendant.screen);
        let mut is_same_line = false;
        loop {
            // If only the mode has changed, the line being written is kept.
            if !std::mem::take(&mut is_same_line) {
                screen.gap();
            }
            let typed = std::mem::take(&mut self.typed) + &screen.take_typed();
            let figures = screen.figures(|_| {});
            let mode = mode_words(figures.mode).map(str::to_owned);
            let percent = figures.percent().map(|percent| format!("{percent} % of the window"));
            let parts = [mode, percent, figures.cost()];
            let right = parts.into_iter().flatten().collect::<Vec<_>>().join(" · ");
            screen.begin_line();
            let line = tokio::select! {
                line = self.editor.read(typed, right) => line,
                Some(signal) = self.attendant.signals.recv() => {
                    self.typed = self.editor.line_now();
                    return Ok(Err(End::Interrupted(signal)));
                }
            };
            screen.end_line();
            let now = self.attendant.now();
            let stop = match line {
                Line::Entered(text) => return Ok(Ok(text)),
                Line::Lost { text, mark } => {
                    self.note(&format!("{mark} was pasted into an earlier chat: paste the text again"));
                    self.typed = text;
                    continue;
                }
                Line::Mode => {
                    self.attendant.next_mode().await;
                    is_same_line = true;
                    continue;
                }
                Line::End => return Ok(Err(End::Left)),
                #[cfg(unix)]
                Line::Unreadable(_) if terminal::is_gone() => {
                    return Ok(Err(End::Interrupted(Interruption::HungUp)));
                }
                Line::Unreadable(why) => {
                    let help = "  help: to chat without the line editor: TERM=dumb forge run --chat";
                    anyhow::bail!("the terminal cannot be read: {why}\n{help}");
                }
                Line::Interrupted { was_empty: true } => self.attendant.stops.at_empty_prompt(now),
                Line::Interrupted { was_empty: false } => self.attendant.stops.at_text(),
            };
            match stop {
                Stop::Chat => return Ok(Err(End::Interrupted(Interruption::Interrupted))),
                Stop::Warning => self.note("Ctrl-C once more ends the chat; so do Ctrl-D and /exit"),
                Stop::Action | Stop::Text => {}
            }
        }
    }

    /// Resumes a run, and finishes its last turn.
    async fn resume(&mut self, resume: &Resume, is_alone: bool) -> anyhow::Result<Option<End>> {
        let restored = restore(&mut self.orchestrator, resume).await?;
        self.view.show_resume(&restored, is_alone);
        self.count();
        show_last_exchange(&self.orchestrator, &self.attendant.screen);
        if restored.is_over || !is_alone {
            return Ok(None);
        }
        Ok(self.continue_if_wanted().await)
    }

    /// Continues an unfinished turn if the user wants that.
    async fn continue_if_wanted(&mut self) -> Option<End> {
        match offer_rest(&mut self.attendant, &mut self.editor).await {
            Attended::Done(Rest::Continue) => self.turn(TurnStart::Rest).await,
            Attended::Done(Rest::Instead(input)) => Box::pin(self.handle_input(&input)).await,
            Attended::Done(Rest::Leave) | Attended::Stopped => {
                self.note("nothing was continued: write what to do next, such as \"continue\"");
                None
            }
            Attended::Ended(interruption) => Some(End::Interrupted(interruption)),
        }
    }

    /// Has the plan that was just given carried out if the user wants that.
    async fn carry_out_if_wanted(&mut self) -> Option<End> {
        let mode = match offer_plan(&mut self.attendant, &mut self.editor).await {
            Attended::Done(Plan::CarryOut(mode)) => mode,
            Attended::Done(Plan::Change(input)) => return Box::pin(self.handle_input(&input)).await,
            Attended::Done(Plan::Leave) => {
                self.note("still planning: Shift-Tab leaves the mode");
                return None;
            }
            Attended::Stopped => return None,
            Attended::Ended(interruption) => return Some(End::Interrupted(interruption)),
        };
        // Only `auto` is ever refused.
        let _ = self.attendant.conduct.set_mode(mode).await;
        self.attendant.screen.figures(|figures| figures.mode = mode);
        self.attendant.screen.echo(PLAN_APPROVAL);
        self.turn(TurnStart::Message(PLAN_APPROVAL.to_owned())).await
    }

    /// Runs one turn; `None` if the chat continues after it.
    async fn turn(&mut self, turn: TurnStart) -> Option<End> {
        let written = match &turn {
            TurnStart::Message(message) => Some(message.clone()),
            TurnStart::Rest => None,
        };
        let task = match turn {
            TurnStart::Rest => None,
            TurnStart::Message(message) => match attached_images::task(message.clone()) {
                // Images are those that the user names: not what a file or a command mentions.
                Ok(task) => {
                    let Attached { added, notes } = attach_files(&message);
                    notes.iter().for_each(|note| self.note(note));
                    Some((task, std::mem::take(&mut self.ran), added))
                }
                Err(error) => {
                    failure::say(&error);
                    self.typed = message;
                    return None;
                }
            },
        };
        self.attendant.screen.gap();
        let (orchestrator, agent) = (&mut self.orchestrator, self.agent.as_deref());
        let work = async {
            let first = orchestrator.engine().services().workflow.agents.iter().next();
            let first = first.map(|agent| agent.id.to_string());
            // Who is to listen is not said: the first agent does, and `/agent` names another.
            let agent = match agent {
                None if orchestrator.recipients().is_err() => first.as_deref(),
                agent => agent,
            };
            let task = match task {
                Some((task, ran, added)) => {
                    let services = orchestrator.engine().services();
                    let value = services.expand(&task.value).await.map_err(|error| (false, error.into()))?;
                    Some(Event { value: format!("{ran}{value}{added}"), ..task })
                }
                None => None,
            };
            let report = match (task, agent) {
                (None, _) => orchestrator.proceed().await,
                (Some(task), Some(agent)) => orchestrator.wake(agent, &task).await,
                (Some(task), None) => orchestrator.run(task).await,
            };
            report.map_err(|error| (is_refusal(&error), explain(error)))
        };
        let outcome = self.attendant.attend(Doing::Preparing, work).await;
        match outcome {
            Attended::Done(Ok(report)) => {
                let is_planned = may_be_plan(&report);
                self.report = Some(match self.report.take() {
                    None => report,
                    Some(before) => before.then(report),
                });
                self.count();
                if is_planned && self.attendant.conduct.mode() == Mode::Plan {
                    return Box::pin(self.carry_out_if_wanted()).await;
                }
            }
            Attended::Done(Err((is_refused, error))) => {
                self.report_failure(&error, written.filter(|_| is_refused)).await;
            }
            Attended::Stopped => return self.clean_up_after_stop("stopped; what was done is kept").await,
            Attended::Ended(interruption) => return Some(End::Interrupted(interruption)),
        }
        self.count();
        None
    }

    /// Runs the user's own command with the tool for commands, and keeps what it printed for the next
    /// message.
    async fn run_shell(&mut self, command: String) -> Option<End> {
        let arguments = serde_json::json!({ "command": command }).to_string();
        let Ok(name) = ToolName::new("shell") else { return None };
        let call = ToolCall { id: "user".into(), name, arguments };
        let shown = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let counted = std::sync::Arc::clone(&shown);
        let watcher: LineWatcher = std::sync::Arc::new(move |line: &str| {
            if counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed) < SHELL_LINES {
                output::say(&format!("{FRAME}{}", output::visible(line)));
            }
        });
        let tools = std::sync::Arc::clone(&self.orchestrator.engine().services().tools);
        let scope = CallScope::unlimited().watched_by(watcher);
        let doing = Doing::Running { tools: vec![command.clone()], progress: None };
        let result = match self.attendant.attend(doing, tools.call_within(&call, &scope)).await {
            Attended::Done(result) => result,
            Attended::Stopped => {
                self.note("stopped; the model is not told of it");
                return None;
            }
            Attended::Ended(interruption) => return Some(End::Interrupted(interruption)),
        };
        let n_shown = shown.load(std::sync::atomic::Ordering::Relaxed);
        let more = n_shown.saturating_sub(SHELL_LINES);
        if more > 0 {
            self.note(&format!("… {} more", quantity(more, "line")));
        }
        let text = result.content.to_text();
        if n_shown == 0 || result.is_error {
            output::say(&format!("{FRAME}{}", output::visible(text.lines().last().unwrap_or_default())));
        }
        if let Some(secret) = find_secrets(&text).first() {
            self.note(&format!(
                "this holds {} in line {}: the model does not read it",
                secret.kind, secret.first_line
            ));
            return None;
        }
        self.note("the model reads this with your next message");
        let kept: String = text.chars().take(SHELL_CHARS).collect();
        let cut = if kept.len() < text.len() { "\n[the rest is left out]" } else { "" };
        self.ran += &format!("I ran `{command}`:\n\n```\n{}{cut}\n```\n\n", kept.trim_end());
        None
    }

    /// Returns the end of this run, with the one that continues; `None` if the user stays.
    pub(super) async fn leave_for(&mut self, which: Option<String>) -> Option<End> {
        let Some(store) = self.orchestrator.engine().checkpointing().map(Checkpointing::store) else {
            self.note("no runs are saved here (`checkpoint: { store: none }`)");
            return None;
        };
        let which = match which {
            Some(which) => match select_here(store, &which, None).await {
                Ok(selected) if selected.scope == Scope::Run => Some(selected.info.run.to_string()),
                Ok(selected) => Some(selected.info.key.to_string()),
                Err(error) => {
                    failure::say(&error.into());
                    None
                }
            },
            None => {
                let paint = self.attendant.screen.paint();
                match pick_run(store, paint).await {
                    Ok(picked) => picked,
                    Err(error) => {
                        failure::say(&error);
                        None
                    }
                }
            }
        };
        let which = which?;
        let own = self.orchestrator.checkpoints().map(|tally| tally.run);
        if own.is_some_and(|own| own.as_str() == which) {
            self.note("that is this run");
            return None;
        }
        match refuse_unavailable(store, &which).await {
            Ok(()) => Some(End::Again(Next::Resumed(which))),
            Err(error) => {
                failure::say(&error);
                None
            }
        }
    }

    /// Reports why a turn failed. Waiting messages go back to the input, as the user may want to change them.
    /// So does the message that the provider `refused`: in the conversation, it would be refused with every
    /// later one.
    async fn report_failure(&mut self, error: &anyhow::Error, refused: Option<String>) {
        failure::say(error);
        let mut typed = vec![self.attendant.screen.take_typed()];
        if let Some(refused) = refused
            && self.orchestrator.withdraw().await
        {
            self.note("the message is in the input line again, and the conversation is without it");
            typed.insert(0, refused);
        }
        typed.retain(|text| !text.is_empty());
        self.typed = typed.join("\n");
    }

    /// Adds what was typed and not sent to the history, where a later chat finds it.
    pub(super) fn remember_unsent(&mut self) {
        for text in [std::mem::take(&mut self.typed), self.attendant.screen.take_typed()] {
            self.editor.remember(&text);
        }
    }

    /// Restores a complete state after an action was stopped.
    pub(super) async fn clean_up_after_stop(&mut self, said: &str) -> Option<End> {
        self.typed = self.attendant.screen.take_typed();
        let whole = self.attendant.attend(Doing::Stopping, self.orchestrator.finish_cancelled()).await;
        self.note(said);
        self.count();
        match whole {
            Attended::Ended(interruption) => Some(End::Interrupted(interruption)),
            Attended::Done(()) | Attended::Stopped => None,
        }
    }

    /// Updates the figures from the recorded totals.
    pub(super) fn count(&self) {
        let statistics = self.orchestrator.statistics();
        self.attendant.screen.figures(|figures| {
            figures.calls = statistics.calls;
            figures.cost = statistics.spent.cost;
        });
    }

    /// Prints a note on a line.
    pub(super) fn note(&self, text: &str) {
        output::say(&style(text).dim().for_stderr().to_string());
    }

    /// Returns the agent whose conversation is meant if none is named: the addressed one, or the last one at
    /// work, or the next one.
    pub(super) fn who(&self) -> String {
        let agents = &self.orchestrator.engine().services().workflow.agents;
        let active = self.orchestrator.active().map(ToString::to_string);
        let listens = || agents.iter().find(|agent| agent.subscribes_to(TASK_EVENT)).or(agents.iter().next());
        self.agent
            .clone()
            .or(active)
            .or_else(|| listens().map(|agent| agent.id.to_string()))
            .unwrap_or_default()
    }
}
