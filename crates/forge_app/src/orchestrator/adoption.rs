//! A run that begins with what another agent did.

use std::collections::BTreeSet;

use forge_domain::compaction::highest_label;
use forge_domain::{AgentId, Message, Size};

use super::Orchestrator;
use crate::RunError;
use crate::conversations::Others;
use crate::engine::is_over;

/// A function that returns the note to the model, given the names of its tools.
pub type HistoryNote = Box<dyn Fn(&BTreeSet<String>) -> Message + Send + Sync>;

/// The session of another agent, as the beginning of a run.
pub struct History {
    /// Its messages. Calls stay calls; none of its system messages is among them.
    pub messages: Vec<Message>,
    /// The note to the model.
    pub note: HistoryNote,
}

/// The beginning of a run that was adopted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Adopted {
    /// The agent that continues.
    pub agent: AgentId,
    /// The size of its context, the system message included.
    pub size: Size,
    /// True if nothing was left to be done: it only continues with a new task.
    pub is_over: bool,
}

impl History {
    /// Begins a run with the history: after the system message of the agent named `id`, or of the first one
    /// that a task is for. Nothing runs yet: [`Orchestrator::proceed`] continues, [`Orchestrator::run`] and
    /// [`Orchestrator::wake`] start a new task.
    ///
    /// # Errors
    /// [`RunError`] if the agent is unknown or cannot work. Nothing is adopted then.
    pub async fn begin(&self, run: &mut Orchestrator, id: Option<&str>) -> Result<Adopted, RunError> {
        let agent = match id {
            Some(id) => run.roster().find(id)?,
            None => run.recipients()?.remove(0),
        };
        let Orchestrator { engine, conversations, active, .. } = run;
        engine.check_models(&agent)?;
        engine.services.prepare(&agent).await?;
        let tools = engine.tools(&agent)?;
        let system = engine.services.templates.render_system(&agent, &tools).map_err(RunError::Template)?;
        let others = Others::new(conversations);
        let mut lent = others.lend(&agent.id);
        let conversation = &mut lent.work.conversation;
        // Earlier records name messages that are not here: `recall` must not find others under their labels.
        if let Some(highest) = highest_label(&self.messages) {
            conversation.number_from(highest.next());
        }
        for message in system.map(Message::system).into_iter().chain(self.messages.iter().cloned()) {
            engine.append(conversation, message);
        }
        let is_over = is_over(conversation);
        let names = tools.iter().map(|tool| tool.name.to_string()).collect();
        engine.append(conversation, (self.note)(&names));
        let size = conversation.view().size();
        drop(lent);
        *active = Some(agent.id.clone());
        Ok(Adopted { agent: agent.id, size, is_over })
    }
}
