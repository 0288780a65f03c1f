//! The hooks around a call of the model.

use forge_domain::{HookEvent, HookPoint, Message, MessageNote, PostPrompt, PrePrompt, PromptEdit};

use super::{Halt, Received, Turn};
use crate::StopReason;
use crate::hooks::Ruling;

impl Turn<'_, '_> {
    /// Gives the hooks the notices, and asks them before the model is called. Their note to the model is
    /// appended; a denial stops the turn.
    pub(super) async fn ask_prompt_hooks(&mut self) -> Result<(), Halt> {
        let id = &self.agent.id;
        self.engine.deliver_notices(id).await;
        if !self.engine.hooks.listen_at(id, HookPoint::PrePrompt) {
            return Ok(());
        }
        let view = self.work.conversation.view();
        let event = PrePrompt {
            agent: id,
            model: self.setup.model().to_string(),
            iteration: self.work.course.progress.turn_iterations + 1,
            context: view.size(),
            messages: MessageNote::all(&view),
        };
        match self.engine.ask_hooks(&[id], HookEvent::PrePrompt(event)).await {
            Ruling::Proceed => Ok(()),
            Ruling::Edit(PromptEdit { note }) => {
                self.append(Message::note("hook", note));
                Ok(())
            }
            Ruling::Deny(denial) => {
                self.engine.events.denial(HookPoint::PrePrompt, None, &denial);
                Err(Halt::Stop(StopReason::Denied { hook: denial.by, reason: denial.reason }))
            }
        }
    }

    /// Notifies the hooks of the model's reply.
    pub(super) async fn notify_of_reply(&self, received: &Received) {
        let id = &self.agent.id;
        if self.engine.hooks.listen_at(id, HookPoint::PostPrompt) {
            let event = PostPrompt {
                agent: id,
                model: self.setup.model().to_string(),
                iteration: self.work.course.progress.turn_iterations,
                text: self.report.response.clone(),
                calls: &received.calls,
                finish_reason: received.finish_reason.as_str(),
                usage: received.usage,
            };
            self.engine.notify_hooks(id, HookEvent::PostPrompt(event)).await;
        }
    }
}
