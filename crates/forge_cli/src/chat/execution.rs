//! The execution of a chat's commands.

use console::style;
use forge_app::{LiveContext, NextCall, Orchestrator, RunError, known_model};
use forge_domain::compaction::{CompactionReport, Focus, Outcome};
use forge_domain::{Agent, CheckpointInfo, Effort, ModelId, Role, Tokens, WindowSource, quantity};

use super::attendant::Attended;
use super::command::ChatCommand;
use super::context_picture::{context_picture, next_call};
use super::inspection::Inspection;
use super::session::{ChatSession, End, Next};
use crate::failure;
use crate::output::table::table;
use crate::output::{self, visible, with_separators};
use crate::run::status::Doing;
use crate::run::{CHECKPOINT_COLUMNS, change, checkpoint_cells, explain, failed_attempts};
use crate::setup::{self, surroundings};

/// The most checkpoints that are listed.
const LISTED: usize = 20;

impl ChatSession<'_> {
    /// Runs a command; `None` if the chat continues after it.
    pub(super) async fn command(&mut self, command: ChatCommand) -> Option<End> {
        self.run_command(command).await.err().flatten()
    }

    /// Runs a command. One that is broken off is an error, with the end of the chat if that ends as well.
    async fn run_command(&mut self, command: ChatCommand) -> Result<(), Option<End>> {
        match command {
            ChatCommand::Compact(focus) => self.compact(focus).await?,
            ChatCommand::Context => self.show_context().await?,
            ChatCommand::Undo => self.undo().await?,
            ChatCommand::Checkpoints => self.show_checkpoints().await?,
            ChatCommand::Model(Some(name)) => self.switch_model(name).await?,
            ChatCommand::Model(None) => self.show_model().await?,
            ChatCommand::Effort(Some(effort)) => self.set_effort(&effort).await?,
            ChatCommand::Effort(None) => Inspection(self).show_effort(),
            ChatCommand::Thinking => Inspection(self).show_thinking(),
            ChatCommand::Output(which) => Inspection(self).show_output(which.as_deref()),
            ChatCommand::Agent(name) => self.speak_to(name),
            ChatCommand::Cost => Inspection(self).show_cost(),
            ChatCommand::Mode(word) => self.set_mode(word).await,
            ChatCommand::Permissions => Inspection(self).show_permissions(),
            ChatCommand::Mcp => Inspection(self).show_servers(),
            ChatCommand::Status => Inspection(self).show_status(),
            ChatCommand::Diff => self.show_diff().await?,
            ChatCommand::Export(file) => self.export(file).await?,
            ChatCommand::New => return Err(Some(End::Again(Next::New))),
            ChatCommand::Resume(which) => return Err(self.leave_for(which).await),
            ChatCommand::Help => Inspection(self).show_help(),
            ChatCommand::Exit => return Err(Some(End::Left)),
        }
        Ok(())
    }

    async fn compact(&mut self, words: Option<String>) -> Result<(), Option<End>> {
        let who = self.who();
        let focus = words.and_then(|words| Focus::try_from(words).ok());
        let is_unheeded = focus.is_some() && !self.block_heeds_focus(&who);
        let report = self.ask(Doing::Compacting, async |run| run.compact(&who, focus).await).await?;
        if let Some(line) = no_compaction_reason(&report) {
            self.note(&line);
        } else if is_unheeded {
            self.note(
                "the focus had no effect: no strategy of this agent uses one (`extraction`, or \
                 `model` for summaries)",
            );
        }
        measure_context(self).await?;
        Ok(())
    }

    fn block_heeds_focus(&self, who: &str) -> bool {
        let agent = self.orchestrator.engine().services().workflow.agents.find(who);
        agent.and_then(|agent| agent.compact.clone()).unwrap_or_default().heeds_focus()
    }

    async fn show_context(&mut self) -> Result<(), Option<End>> {
        let context = measure_context(self).await?;
        let who = self.who();
        let screen = &self.attendant.screen;
        let parts = folder_parts(&self.orchestrator, &who);
        let lines = context_picture(&context, &parts, screen.columns(), screen.paint());
        self.attendant.screen.gap();
        output::say(&lines.join("\n"));
        Ok(())
    }

    /// Shows the model of the current agent, with what its server reports of it.
    async fn show_model(&mut self) -> Result<(), Option<End>> {
        let who = self.who();
        let model = self.ask(Doing::Preparing, async |run| Ok(known_model(run.engine(), &who).await)).await?;
        let said = match model {
            Some(model) => {
                let price = if model.price.is_some() { "" } else { ", price not known" };
                let assumed =
                    if model.window_source == WindowSource::Assumed { "window assumed: " } else { "" };
                format!(
                    "{} ({assumed}{} tokens{price})",
                    visible(&model.reference.to_string()),
                    with_separators(model.limits.window)
                )
            }
            None => "no model".to_owned(),
        };
        output::say(&format!("{}: {said}", visible(&who)));
        self.note(
            "/model NAME switches to another; Tab completes names, `forge models` lists what the servers \
             offer",
        );
        Ok(())
    }

    async fn undo(&mut self) -> Result<(), Option<End>> {
        let who = self.who();
        let undone = self.ask(Doing::Preparing, async |run| run.undo(&who).await).await?;
        let Some(undone) = undone else {
            self.note("nothing is compacted, so there is nothing to undo");
            return Ok(());
        };
        let mark = style(format!("Undid compaction {}", undone.undone)).cyan().for_stderr();
        output::say(&format!("{mark}: {}", change(undone.before, undone.after)));
        if undone.next != NextCall::AsItIs {
            self.note(&next_call(undone.next));
        }
        measure_context(self).await?;
        Ok(())
    }

    async fn show_checkpoints(&mut self) -> Result<(), Option<End>> {
        let outcome = self.attendant.attend(Doing::Preparing, self.orchestrator.saved_checkpoints()).await;
        match outcome {
            Attended::Done(Ok(infos)) if infos.is_empty() => self.note("nothing of this run is saved yet"),
            Attended::Done(Ok(infos)) => {
                self.attendant.screen.gap();
                output::say(checkpoints(&infos).trim_end());
                if let Some(info) = infos.first() {
                    let run = visible(info.run.as_str());
                    self.note(&format!(
                        "run {run}; forge run --resume '#NUMBER' starts a new run from one of these"
                    ));
                }
            }
            Attended::Done(Err(error)) => failure::say(&error.into()),
            Attended::Stopped => {}
            Attended::Ended(interruption) => return Err(Some(End::Interrupted(interruption))),
        }
        Ok(())
    }

    async fn switch_model(&mut self, name: String) -> Result<(), Option<End>> {
        let who = self.who();
        let model = match ModelId::new(name.clone()) {
            Ok(model) => model,
            Err(error) => {
                failure::say(&error.into());
                return Ok(());
            }
        };
        let workflow = &self.orchestrator.engine().services().workflow;
        let provider = workflow.model(&model).ok().map(|model| model.reference.provider);
        if let Some(Err(error)) = provider.map(|provider| setup::key_is_there(workflow, &provider)) {
            failure::say(&error);
            return Ok(());
        }
        let switch = self.ask(Doing::Preparing, async |run| run.switch_model(&who, model).await).await?;
        let from = switch.from.map(|from| format!("{} → ", visible(&from.to_string()))).unwrap_or_default();
        let context = &switch.context;
        let said = format!(
            "{}: {from}{}, {} of {} tokens",
            visible(&who),
            visible(&context.model.to_string()),
            with_separators(context.made_of.tokens),
            with_separators(context.window)
        );
        output::say(&said);
        if switch.context.next != NextCall::AsItIs {
            self.note(&next_call(switch.context.next));
        }
        show_used(self, context);
        // The flag is for every agent.
        if self.orchestrator.engine().services().workflow.agents.iter().count() == 1 {
            self.source.model = Some(name);
        } else {
            self.note("a resumed run uses the model of forge.yaml again");
        }
        Ok(())
    }

    async fn set_effort(&mut self, effort: &str) -> Result<(), Option<End>> {
        let effort = match effort.parse::<Effort>() {
            Ok(effort) => effort,
            Err(error) => {
                failure::say(&error.into());
                return Ok(());
            }
        };
        let who = self.who();
        self.ask(Doing::Preparing, async |run| run.set_effort(&who, effort).await).await?;
        output::say(&format!("{}: effort {effort}", visible(&who)));
        // The flag is for every agent.
        if self.orchestrator.engine().services().workflow.agents.iter().count() == 1 {
            self.source.effort = Some(effort);
        } else {
            self.note("a resumed run uses the effort of forge.yaml again");
        }
        Ok(())
    }

    fn speak_to(&mut self, name: Option<String>) {
        let agents = &self.orchestrator.engine().services().workflow.agents;
        let known: Vec<String> = agents.iter().map(|agent: &Agent| visible(agent.id.as_str())).collect();
        match name {
            Some(name) if agents.find(&name).is_some() => {
                self.note(&format!("you are now talking to {}", visible(&name)));
                self.agent = Some(name);
            }
            Some(name) => {
                self.note(&format!(
                    "there is no agent {} (expected one of {})",
                    visible(&name),
                    known.join(", ")
                ));
            }
            None => {
                let who = self.agent.as_deref().map_or_else(
                    || "the agents that subscribe to a task, or the first agent".to_owned(),
                    visible,
                );
                output::say(&format!("current agent: {who}"));
                self.note(&format!("agents: {}", known.join(", ")));
            }
        }
    }

    /// Has the orchestrator do something that the user attends, and reports an interruption.
    async fn ask<T>(
        &mut self,
        doing: Doing,
        work: impl AsyncFnOnce(&mut Orchestrator) -> Result<T, RunError>,
    ) -> Result<T, Option<End>> {
        let orchestrator = &mut self.orchestrator;
        match self.attendant.attend(doing, work(orchestrator)).await {
            Attended::Done(Ok(done)) => Ok(done),
            Attended::Done(Err(error)) => {
                failure::say(&explain(error));
                Err(None)
            }
            Attended::Stopped => Err(self.clean_up_after_stop("stopped; nothing was changed").await),
            Attended::Ended(interruption) => Err(Some(End::Interrupted(interruption))),
        }
    }
}

/// Returns the parts of the system message of `who` that come from the folder, with their tokens.
fn folder_parts(orchestrator: &Orchestrator, who: &str) -> Vec<(String, Tokens)> {
    let Some(conversation) = orchestrator.conversation(who) else { return Vec::new() };
    let counter = &orchestrator.engine().services().counter;
    let system = conversation.messages().find(|message| message.role() == Role::System);
    let system = system.map(|system| system.message().to_text());
    let parts = system.iter().flat_map(|system| surroundings::parts_of(system));
    parts.map(|(name, text)| (name, counter.count(text))).collect()
}

/// Explains why a requested compaction was not applied. One that was applied is reported while it happens.
fn no_compaction_reason(report: &CompactionReport) -> Option<String> {
    let size = report.before;
    Some(match &report.outcome {
        Outcome::Applied { .. } | Outcome::Vetoed { .. } => return None,
        Outcome::StillOver(over) => format!("cannot be made to fit: {over}"),
        Outcome::NotTriggered | Outcome::NothingToCut => format!(
            "nothing can be removed: {} in {} must stay{}",
            quantity(with_separators(size.tokens), "token"),
            quantity(size.messages, "message"),
            failed_attempts(report)
        ),
    })
}

/// Returns a table of a run's checkpoints, the newest last.
fn checkpoints(infos: &[CheckpointInfo]) -> String {
    let rows: Vec<Vec<String>> = infos.iter().take(LISTED).rev().map(checkpoint_cells).collect();
    let more = infos.len().saturating_sub(LISTED);
    let before = if more > 0 { format!("{more} earlier ones\n") } else { String::new() };
    before + &table(&CHECKPOINT_COLUMNS, rows)
}

/// Returns the context of the current agent, and shows beside the prompt how full the window is.
async fn measure_context(session: &mut ChatSession<'_>) -> Result<LiveContext, Option<End>> {
    let who = session.who();
    let context = session.ask(Doing::Preparing, async |run| run.context(&who).await).await?;
    show_used(session, &context);
    Ok(context)
}

fn show_used(session: &ChatSession<'_>, context: &LiveContext) {
    session.attendant.screen.figures(|figures| {
        (figures.used, figures.window) = (context.made_of.tokens, context.window);
    });
}
