//! A turn: a user message, and everything up to the agent's answer.

mod agents;
mod assignment;
mod call_end;
mod call_ids;
mod calls;
mod effects;
mod flaw;
mod hooks;
mod prompt;
mod rehearsal;
mod repetition;
mod reply;
mod tools;
mod transforms;
mod usage;
mod written_call;

pub(crate) use self::assignment::Assignment;

use forge_domain::compaction::Settled;
use forge_domain::{Agent, FinishReason, Message, Overspend, Reply, Tokens, ToolCall, Usage, View};

use self::flaw::Flaw;
use self::reply::Attempts;
use self::transforms::TransformState;
use crate::checkpointing::Point;
use crate::conversations::{Others, Work};
use crate::engine::{AgentState, Setup, open_calls};
use crate::{Engine, RunError, RunEvent, RunReport, StopReason};

/// A turn of an agent: a user message, and everything up to the agent's answer.
pub(crate) struct Turn<'a, 'b> {
    engine: &'a Engine,
    agent: &'a Agent,
    work: &'a mut Work,
    /// The work of the agents that this one may call.
    others: &'a Others<'b>,
    setup: Setup,
    /// The revision of the tools in `setup`.
    tools_revision: u64,
    transforms: TransformState,
    report: RunReport,
    /// The view that was sent last, in which the next reply is made.
    view: Option<View>,
    /// The text that was cut off, which the next reply continues.
    unfinished: String,
}

/// An end of a turn: for a reason that is part of its report, or by an error.
enum Halt {
    Stop(StopReason),
    Fail(RunError),
}

impl From<RunError> for Halt {
    fn from(error: RunError) -> Self {
        Self::Fail(error)
    }
}

impl From<Overspend> for Halt {
    fn from(over: Overspend) -> Self {
        Self::Stop(StopReason::BudgetSpent(over))
    }
}

/// A reply that was received and appended, as the rest of the iteration needs it.
struct Received {
    calls: Vec<ToolCall>,
    usage: Option<Usage>,
    finish_reason: FinishReason,
    flaw: Option<Flaw>,
}

impl<'a, 'b> Turn<'a, 'b> {
    /// Sets up a turn.
    ///
    /// # Errors
    /// [`RunError`] if the agent cannot work as it is configured.
    pub(crate) async fn set_up(assignment: Assignment<'a, 'b>) -> Result<Self, RunError> {
        let Assignment { engine, agent, work, others } = assignment;
        engine.catalog.learn_models(&engine.services, agent, &engine.events).await?;
        let tools_revision = engine.services.prepare(agent).await?;
        let setup = engine.setup(agent)?;
        let (transforms, report) = (TransformState::default(), RunReport::empty(StopReason::Done));
        let (view, unfinished) = (None, String::new());
        Ok(Self { engine, agent, work, others, setup, tools_revision, transforms, report, view, unfinished })
    }

    /// Runs the turn to its end.
    ///
    /// # Errors
    /// [`RunError`] if a step fails. Everything before that step is in the conversation.
    async fn run(mut self) -> Result<RunReport, RunError> {
        let ended = self.iterate().await;
        // Summaries that were requested ahead have to be paid for, even if the turn failed.
        self.settle_rehearsal(Settled::NotCompacted);
        self.report.stop = match ended {
            Ok(stop) | Err(Halt::Stop(stop)) => stop,
            Err(Halt::Fail(error)) => return Err(error),
        };
        self.report.iterations += self.transforms.calls;
        Ok(self.report)
    }

    /// Asks the model and runs the tools that it calls, until it calls none or a limit is reached.
    async fn iterate(&mut self) -> Result<StopReason, Halt> {
        self.check_images()?;
        // Results that were there when a run was interrupted.
        self.cap_results();
        let waiting = waiting_calls(self.work);
        if !waiting.is_empty() {
            drop(self.run_tools(&waiting).await?);
            self.state().save(Point::Iteration).await;
        }
        loop {
            hear_words(self.engine, self.work);
            self.check_limits()?;
            self.refresh_tools().await?;
            self.check_repetition()?;
            self.transform().await;
            self.ask_prompt_hooks().await?;
            let mut attempts = Attempts::default();
            let reply = loop {
                // If the budget is spent, no summary is requested either.
                self.engine.check_budget(self.agent, Tokens::ZERO, None)?;
                self.engine.check_fence().await?;
                // Compactions happen here, and only here: just before the provider is called.
                let prompt = match self.fit().await {
                    Ok(prompt) => prompt,
                    Err(error) => break attempts.fall_back(error, &self.reader())?,
                };
                if let Some(reply) = self.ask(prompt, &mut attempts).await? {
                    break reply;
                }
            };
            let received = self.receive(reply).await;
            if received.calls.is_empty() && received.flaw.is_none() {
                return Ok(end_of(&received.finish_reason));
            }
            let rehearsal = self.run_tools(&received.calls).await?;
            let stop = self.note_flaw(&received).await;
            self.state().save(Point::Iteration).await;
            if let Some(stop) = stop {
                return Ok(stop);
            }
            if let Some(rehearsal) = rehearsal {
                self.finish_rehearsal(rehearsal).await;
            }
        }
    }

    /// Checks that the model reads the images of the view: it may have been switched.
    ///
    /// # Errors
    /// [`RunError::NoImages`].
    fn check_images(&self) -> Result<(), RunError> {
        let readable = self.engine.services.check_images(self.agent);
        let has_images = || {
            let view = self.work.conversation.view();
            view.messages().iter().any(|message| message.message().has_images())
        };
        if readable.is_err() && has_images() { readable } else { Ok(()) }
    }

    /// Stops the turn if the agent's `max_iterations` is reached, and pauses it if its slice is over. An
    /// agent that a transform asks completes its turn.
    fn check_limits(&self) -> Result<(), Halt> {
        let course = &self.work.course;
        if let Some(limit) = self.agent.max_iterations
            && course.progress.turn_iterations >= limit.get()
        {
            return Err(Halt::Stop(StopReason::MaxIterations(limit.get())));
        }
        let may_pause = course.asked_by.is_none() || course.depth > 0;
        if may_pause && self.engine.conduct.pacing.is_due() {
            Err(Halt::Stop(StopReason::Paused))
        } else {
            Ok(())
        }
    }

    /// Prepares the agent's tools, and sets the turn up again if they have changed.
    async fn refresh_tools(&mut self) -> Result<(), RunError> {
        let revision = self.engine.services.prepare(self.agent).await?;
        if revision != self.tools_revision {
            self.tools_revision = revision;
            self.setup = self.engine.setup(self.agent)?;
        }
        Ok(())
    }

    /// Counts the reply, appends it to the conversation and notifies the hooks.
    async fn receive(&mut self, reply: Reply) -> Received {
        self.report.iterations += 1;
        self.engine.conduct.pacing.count_call();
        self.report.usage += reply.usage.unwrap_or_default();
        let text = reply.message.to_text();
        self.report.response = std::mem::take(&mut self.unfinished) + &text;
        self.work.course.count_reply(&reply);
        let cut_calls = reply.cut_calls();
        let Reply { mut message, usage, finish_reason } = reply;
        if !self.engine.is_playback {
            call_ids::make_unique(&mut message, &self.work.conversation);
        }
        let calls = message.calls().to_vec();
        let tools = self.setup.limits.budget.tools();
        let uncalled = || Flaw::uncalled(&text, &finish_reason, tools).filter(|_| calls.is_empty());
        let flaw = Flaw::of(&text, calls.len(), &cut_calls, &finish_reason)
            .or_else(uncalled)
            .map(|flaw| flaw.in_turn(&self.work.conversation, &finish_reason))
            .filter(|_| !self.engine.is_playback)
            // The agent that asked sees that the answer is empty, and decides.
            .filter(|flaw| *flaw != Flaw::Empty || self.work.course.asked_by.is_none());
        let received = Received { calls, usage, finish_reason, flaw };
        received.report(self.engine, self.setup.price.as_ref());
        // Servers reject a message without text and calls.
        let is_blank = received.calls.is_empty() && text.trim().is_empty();
        if received.flaw == Some(Flaw::CutText) {
            self.unfinished.clone_from(&self.report.response);
        }
        if received.flaw.is_none() || !is_blank {
            let counter = &*self.engine.services.counter;
            let message = match self.view.take() {
                Some(view) => view.bind(message, counter),
                None => message,
            };
            self.engine.events.emit(&RunEvent::Message(&message));
            self.append(message);
        }
        self.save_session().await;
        self.notify_of_reply(&received).await;
        received
    }

    fn append(&mut self, message: Message) {
        self.engine.append(&mut self.work.conversation, message);
    }

    /// Saves the session file, if there is one. It is a copy for others: if it cannot be written, the work
    /// continues, and the next save tries again.
    async fn save_session(&self) {
        if let Some(sink) = &self.engine.services.sink {
            let saved = sink.save(&self.agent.id, &self.work.conversation).await;
            self.engine.events.recorded(&self.agent.id, saved);
        }
    }

    /// Returns the state of the agent, to be saved in a checkpoint.
    fn state(&mut self) -> AgentState<'_> {
        self.engine.state(self.agent, self.work)
    }
}

/// Returns the calls of the last reply if some of them wait for a person.
fn waiting_calls(work: &Work) -> Vec<ToolCall> {
    if work.course.dialogue.lock_awaiting().is_empty() {
        return Vec::new();
    }
    open_calls(&work.conversation).into_iter().map(|(_, call)| call).collect()
}

/// Appends what the user said since the agent was last at work, unless another agent speaks to it.
fn hear_words(engine: &Engine, work: &mut Work) {
    let Work { conversation, course } = work;
    if course.asked_by.is_some() {
        return;
    }
    for (number, text) in std::mem::take(&mut course.dialogue.unheard) {
        let message = Message::user(text);
        engine.events.emit(&RunEvent::Message(&message));
        engine.append(conversation, message);
        course.dialogue.heard = number;
    }
}

/// Returns the reason why a turn ends with a reply that calls no tool.
const fn end_of(finish_reason: &FinishReason) -> StopReason {
    match finish_reason {
        FinishReason::Length | FinishReason::Window => StopReason::Cut,
        FinishReason::ContentFilter => StopReason::Withheld,
        FinishReason::Stop | FinishReason::ToolCalls | FinishReason::Other(_) => StopReason::Done,
    }
}
