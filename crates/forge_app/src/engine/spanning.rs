//! A turn inside its span, and the run that spans tell.

use forge_domain::{Agent, Conversation, Prompt, RunId};
use tracing::{Instrument, Span};

use super::Engine;
use crate::conversations::Others;
use crate::course::Course;
use crate::{RunError, RunReport, spans};

impl Engine {
    /// Goes on with a turn whose `course` is known, wherever it stands; the work of the agents that its transforms name is
    /// among `others`.
    pub(crate) async fn work(
        &self,
        agent: &Agent,
        conversation: &mut Conversation,
        course: &mut Course,
        others: &Others<'_>,
    ) -> Result<RunReport, RunError> {
        let model = agent.model.as_ref().and_then(|id| self.services.workflow.model(id).ok());
        let span =
            spans::agent_span(&agent.id, model.as_ref().map(|model| &model.reference), self.run().as_ref());
        let result = self.worked(agent, conversation, course, others).instrument(span.clone()).await;
        spans::record_turn(&span, &result);
        result
    }

    pub(super) fn chat_span(&self, prompt: &Prompt) -> Span {
        spans::chat_span(prompt, self.run().as_ref())
    }

    /// What the conversations of this process are known by, where they are kept.
    fn run(&self) -> Option<RunId> {
        self.checkpoints().map(|tally| tally.run)
    }
}
