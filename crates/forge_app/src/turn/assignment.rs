//! An assignment: an agent and its work, from the event to the report.

use forge_domain::{Agent, Conversation, Event, Message, Mode};
use tracing::Instrument;

use super::Turn;
use crate::checkpointing::Point;
use crate::conversations::{Others, Work};
use crate::course::Errand;
use crate::engine::was_stopped;
use crate::run_report::AgentResponse;
use crate::{Engine, RunError, RunEvent, RunReport, StopReason, spans};

/// The author of the notes about the mode, in the conversation.
const MODE_NOTE: &str = "mode";
/// The note for the model before a message in the mode `plan`.
const PLAN: &str = include_str!("../../../../templates/plan.md");
/// The note for the model before the first message after that.
const PLAN_IS_OVER: &str = include_str!("../../../../templates/plan_over.md");

/// The author of the note about a request whose work was stopped.
const STOP_NOTE: &str = "stop";
/// The note for the model before the message that follows an unfinished turn: the user, an error or a limit
/// stopped it, and otherwise two requests would look like one.
const STOPPED: &str = include_str!("../../../../templates/stopped.md");

/// Returns what the model must be told of the mode before a message; `None` if it knows.
fn mode_note(mode: Mode, log: &Conversation) -> Option<&'static str> {
    let by_mode = |message: &&forge_domain::ContextMessage| message.message().note_by() == Some(MODE_NOTE);
    let known = log.messages().filter(by_mode).last().map(|note| note.message().to_text());
    let (plan, is_over) = (PLAN.trim_end(), PLAN_IS_OVER.trim_end());
    let is_planning = known.is_some_and(|known| known != is_over);
    match mode {
        // A compaction may have removed the one of before.
        Mode::Plan => Some(plan),
        _ => is_planning.then_some(is_over),
    }
}

/// An agent and the work that its turn continues.
pub(crate) struct Assignment<'a, 'b> {
    pub(crate) engine: &'a Engine,
    pub(crate) agent: &'a Agent,
    pub(crate) work: &'a mut Work,
    /// The work of the agents that this one may call.
    pub(crate) others: &'a Others<'b>,
}

impl Assignment<'_, '_> {
    /// Appends `event` as a user message and runs the agent's turn. `errand` is what is to be done after it.
    /// The first event also brings the system message.
    ///
    /// # Errors
    /// [`RunError`] if a step fails. Everything before that step is in the conversation.
    pub(crate) async fn run_event(
        mut self,
        event: &Event,
        errand: Option<Errand>,
    ) -> Result<RunReport, RunError> {
        self.receive_event(event, errand).await?;
        self.run().await
    }

    /// Appends `event` as a user message, without running the agent's turn. The first event also brings the
    /// system message.
    ///
    /// # Errors
    /// [`RunError`] if the agent has no tools or no prompt as it is configured.
    pub(crate) async fn receive_event(
        &mut self,
        event: &Event,
        errand: Option<Errand>,
    ) -> Result<(), RunError> {
        let Self { engine, agent, work, .. } = self;
        engine.events.emit(&RunEvent::Woken { agent: &agent.id });
        engine.answer_open_calls(work);
        // An agent that another one asks is given its task again.
        let was_stopped = work.course.asked_by.is_none() && was_stopped(&work.conversation);
        engine.services.prepare(agent).await?;
        let templates = &engine.services.templates;
        // An agent that is called as a tool sees its own name, not that of its lane.
        let named = engine.services.workflow.agents.find(agent.id.without_lane()).unwrap_or(agent);
        let task = templates.render_event(named, event).map_err(RunError::Template)?;
        if work.conversation.entries().is_empty() {
            let tools = engine.tools(agent)?;
            if let Some(system) = templates.render_system(named, &tools).map_err(RunError::Template)? {
                engine.append(&mut work.conversation, Message::system(system));
            }
        }
        if was_stopped {
            engine.append(&mut work.conversation, Message::note(STOP_NOTE, STOPPED.trim_end()));
        }
        if let Some(note) = mode_note(engine.conduct.mode(), &work.conversation) {
            engine.append(&mut work.conversation, Message::note(MODE_NOTE, note));
        }
        let task = Message::showing(task, &event.images);
        engine.events.emit(&RunEvent::Message(&task));
        engine.append(&mut work.conversation, task);
        work.course.progress.turn_iterations = 0;
        work.course.errand = errand;
        Ok(())
    }

    /// Saves the task that was received.
    pub(crate) async fn save_task(&mut self) -> Result<(), RunError> {
        let Self { engine, agent, work, .. } = self;
        if engine.checkpointing().is_some() && work.course.configuration.is_none() {
            work.course.configuration = Some(engine.configuration(agent)?);
        }
        engine.state(agent, work).save_task().await;
        Ok(())
    }

    /// Runs the agent's turn in its span, or the rest of one.
    ///
    /// # Errors
    /// [`RunError`] if a step fails. Everything before that step is in the conversation.
    pub(crate) async fn run(self) -> Result<RunReport, RunError> {
        let Self { engine, agent, .. } = self;
        let model = agent.model.as_ref().and_then(|id| engine.services.workflow.model(id).ok());
        let model = model.as_ref().map(|model| &model.reference);
        let span = spans::agent_span(&agent.id, model, engine.run_id().as_ref());
        let result = self.run_between_checkpoints().instrument(span.clone()).await;
        spans::record_turn(&span, &result);
        result
    }

    async fn run_between_checkpoints(mut self) -> Result<RunReport, RunError> {
        self.engine.services.prepare(self.agent).await?;
        self.work.course.dialogue.is_paused = false;
        self.save_task().await?;
        let Self { engine, agent, work, others } = self;
        let result = match Turn::set_up(Assignment { engine, agent, work: &mut *work, others }).await {
            Ok(turn) => turn.run().await,
            Err(error) => Err(error),
        };
        work.course.dialogue.is_paused = result.as_ref().is_ok_and(|report| report.stop.is_pause());
        let point = match &result {
            Ok(_) if work.course.dialogue.is_paused => Point::Pause,
            Ok(_) => Point::End,
            Err(_) => Point::Interrupt,
        };
        engine.state(agent, work).save(point).await;
        if let Ok(RunReport { stop, .. }) = &result
            && *stop != StopReason::Done
            && !stop.is_pause()
        {
            engine.events.keep_for_hooks(&stop.to_string());
        }
        engine.deliver_notices(&agent.id).await;
        let mut report = result?;
        report.progress = work.course.progress.clone();
        report.checkpoints = engine.checkpoints();
        report.responses = vec![AgentResponse { agent: agent.id.clone(), response: report.response.clone() }];
        engine.events.emit(&RunEvent::Stopped(&report.stop));
        Ok(report)
    }
}
