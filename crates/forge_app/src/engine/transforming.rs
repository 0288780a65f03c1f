//! The transforms of earlier versions, run before the context is made to fit: other agents sum up, add or look on. Whatever
//! fails is said and changes nothing.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use forge_domain::compaction::{
    AssistantRun, CompactionImpact, CompactionReport, Outcome, Trigger, enriched, is_enriched,
};
use forge_domain::{
    Agent, AgentId, CompactEdit, Context, Conversation, Event, HookEvent, HookPoint, Message, MessageId,
    PostCompact, PreCompact, StrategyId, Summarization, Tokens, Transform,
};
use forge_services::workflow::Finding;
use futures::future::BoxFuture;

use super::{Engine, Setup};
use crate::conversations::Others;
use crate::deprecation::deprecations;
use crate::hooks::Ruling;
use crate::{RunError, RunEvent, RunReport, StopReason};

/// How a context is told as a text.
const TRANSCRIPT: &str = include_str!("../../../../templates/transcript.md.hbs");
/// The share of the summing agent's room that what it is to sum up may take: the rest is for its prompts.
const SHARE_OF_ROOM: (u64, u64) = (3, 4);

/// What is remembered of transforms over one turn.
#[derive(Default)]
pub(super) struct Transformed {
    /// Transforms that failed, by their place in the list: they are not tried again in this turn.
    given_up: BTreeSet<usize>,
    /// Runs whose summary was no smaller, by their ends.
    passed_over: BTreeSet<(Option<MessageId>, Option<MessageId>)>,
    /// Calls to the models of agents that did not sum up.
    pub(super) calls: usize,
}

/// Why a transform did nothing.
struct Failed(String);

impl Engine {
    /// Runs the agent's transforms on its conversation, in order.
    pub(super) async fn transform(
        &self,
        agent: &Agent,
        setup: &Setup,
        conversation: &mut Conversation,
        others: &Others<'_>,
        done: &mut Transformed,
        report: &mut RunReport,
    ) {
        let transforms = agent.transforms.as_deref().unwrap_or_default();
        self.say_deprecations(agent);
        if !transforms.is_empty() && report.iterations == 0 {
            // Where a session is kept in a file, its name belongs to the first who is kept. That nothing can be kept is
            // said where it ends the turn.
            let _ = self.save(agent, conversation).await;
        }
        for (place, transform) in transforms.iter().enumerate() {
            if done.given_up.contains(&place) {
                continue;
            }
            let failed = match self.run_one(transform, agent, setup, conversation, others, done, report).await
            {
                Ok(()) => continue,
                Err(Failed(why)) => why,
            };
            done.given_up.insert(place);
            self.tell(&RunEvent::Notice(&format!(
                "the transform `{}` of the agent `{}` did nothing: {failed}",
                transform.type_name(),
                agent.id
            )));
        }
    }

    #[expect(deprecated, reason = "it is still run")]
    #[expect(clippy::too_many_arguments, reason = "one step of `transform`, which it belongs to")]
    async fn run_one(
        &self,
        transform: &Transform,
        agent: &Agent,
        setup: &Setup,
        conversation: &mut Conversation,
        others: &Others<'_>,
        done: &mut Transformed,
        report: &mut RunReport,
    ) -> Result<(), Failed> {
        match transform {
            Transform::Assistant { input, output, agent_id, token_limit } => {
                let limit = Tokens::new(*token_limit);
                while conversation.view().size().tokens > limit {
                    let summing = Summing { agent_id, input, output, limit };
                    if !self.sum_up(summing, agent, setup, conversation, others, done, report).await? {
                        break;
                    }
                }
                Ok(())
            }
            Transform::User { agent_id, input, output } => {
                let view = conversation.view();
                if is_enriched(&view, agent_id, output) != Some(false) {
                    return Ok(());
                }
                let asked = view.plain().last().map(Message::to_text).unwrap_or_default();
                let theirs = self
                    .wake_other(agent_id, &Event::new(input, asked), &agent.id, others, Start::GoesOn)
                    .await?;
                let answer = answer(&theirs, agent_id, output);
                done.take(theirs, report);
                let with = enriched(&view, agent_id, output, &answer?, &*self.services.counter);
                with.map_or(Ok(()), |with| recorded(conversation, &with))
            }
            Transform::PassThrough { agent_id, input } => {
                let view = conversation.view();
                let text = self.transcript(view.plain().collect())?;
                let theirs = self
                    .wake_other(agent_id, &Event::new(input, text), &agent.id, others, Start::GoesOn)
                    .await?;
                done.take(theirs, report);
                Ok(())
            }
        }
    }

    /// Has the oldest run summed up that is worth it; whether there was one.
    #[expect(clippy::too_many_arguments, reason = "one step of `transform`, which it belongs to")]
    async fn sum_up(
        &self,
        summing: Summing<'_>,
        agent: &Agent,
        setup: &Setup,
        conversation: &mut Conversation,
        others: &Others<'_>,
        done: &mut Transformed,
        report: &mut RunReport,
    ) -> Result<bool, Failed> {
        let started = Instant::now();
        let view = conversation.view();
        let runs = AssistantRun::all(&view, &setup.compact);
        let least: Tokens = view.size().tokens - runs.iter().map(|run| run.tokens(&view)).sum();
        let is_worth_it = |run: &&AssistantRun| {
            // Where what must stay is over the limit by itself, nothing brings the context below it: then only what
            // makes a difference is summed up, and not each new exchange by itself.
            let makes_a_difference = || {
                setup
                    .compact
                    .significant_share()
                    .reached_by(run.tokens(&view).as_u64(), view.size().tokens.as_u64())
            };
            !done.passed_over.contains(&run.ends(&view)) && (least <= summing.limit || makes_a_difference())
        };
        let Some(whole) = runs.iter().find(is_worth_it) else { return Ok(false) };
        if self.is_denied(agent, setup, &view).await {
            return Ok(false);
        }
        let run = whole.beginning(&view, self.most_to_sum_up(summing.agent_id));
        let messages = run.messages(&view).iter().map(forge_domain::ContextMessage::message).collect();
        let event = Event::new(summing.input, self.transcript(messages)?);
        let theirs = self.wake_other(summing.agent_id, &event, &agent.id, others, Start::Afresh).await?;
        let answer = answer(&theirs, summing.agent_id, summing.output);
        report.summary_calls += theirs.iterations + theirs.summary_calls;
        report.summary_usage += theirs.usage;
        report.summary_usage += theirs.summary_usage;
        report.summary_cost += theirs.cost;
        report.summary_cost += theirs.summary_cost;
        let answer = answer?;
        let after = match run.summed_up(&view, summing.output, &answer, &*self.services.counter) {
            Ok(after) => after,
            Err(forge_domain::compaction::StrategyError::SummaryInflated) => {
                done.passed_over.insert(whole.ends(&view));
                return Ok(true);
            }
            Err(error) => return Err(Failed(format!("the agent `{}`: {error}", summing.agent_id))),
        };
        recorded(conversation, &after)?;
        self.report_summary(agent, &view, &after, started, report).await;
        Ok(true)
    }

    /// Tells everyone of a summary as of any compaction.
    async fn report_summary(
        &self,
        agent: &Agent,
        before: &Context,
        after: &Context,
        started: Instant,
        report: &mut RunReport,
    ) {
        let summary = CompactionReport::summary_of(before, after);
        let (before, after) = (before.size(), after.size());
        let strategies = StrategyId::new("transforms").into_iter().collect();
        let impact = CompactionImpact::new(before, after, Vec::new());
        let said = CompactionReport {
            trigger: Some(Trigger::TokenLimit),
            outcome: Outcome::Applied { strategies, impact },
            summary,
            attempts: Vec::new(),
            before,
            after,
        };
        let took = started.elapsed();
        self.tell(&RunEvent::Fitted { report: &said, took });
        let duration_ms = took.as_millis() as u64;
        let event = HookEvent::PostCompact(PostCompact { agent: &agent.id, report: &said, duration_ms });
        self.tell_hooks(&agent.id, event).await;
        report.take(said);
    }

    /// Whether a hook denies that something is summed up now.
    async fn is_denied(&self, agent: &Agent, setup: &Setup, view: &Context) -> bool {
        if !self.hooks.listen_at(&agent.id, HookPoint::PreCompact) {
            return false;
        }
        let room = setup.budget.room();
        let event = PreCompact::new(&agent.id, Trigger::TokenLimit, room, &setup.compact, view);
        let ruling = self.ask_hooks::<CompactEdit>(&agent.id, HookEvent::PreCompact(event)).await;
        matches!(ruling, Ruling::Deny(_))
    }

    /// Most tokens of one event that `agent` is to sum up; what is longer goes in pieces.
    fn most_to_sum_up(&self, agent: &AgentId) -> Tokens {
        let agent = self.services.workflow.agents.find(agent.as_str());
        let setup = agent.and_then(|agent| self.setup(agent).ok());
        setup.map_or(Tokens::MAX, |setup| setup.budget.room().share(SHARE_OF_ROOM.0, SHARE_OF_ROOM.1))
    }

    /// The messages as a text for another agent.
    fn transcript(&self, messages: Vec<&Message>) -> Result<String, Failed> {
        let summarization = Summarization {
            messages,
            earlier_summary: None,
            focus: None,
            summary_tag: "",
            summary_max_tokens: 0,
        };
        let text = self.services.templates.render_summarization(Some(TRANSCRIPT), &summarization);
        text.map(|text| text.trim().to_owned()).map_err(|error| Failed(error.to_string()))
    }

    /// Has another agent work on `event` for `asker`, in a conversation of its own and without a word to whoever reads along.
    fn wake_other<'a>(
        &'a self,
        agent: &'a AgentId,
        event: &'a Event,
        asker: &'a AgentId,
        others: &'a Others<'_>,
        start: Start,
    ) -> BoxFuture<'a, Result<RunReport, Failed>> {
        // Boxed: its turn may wake others in turn.
        Box::pin(async move {
            if others.is_at_work(agent) {
                return Err(Failed(format!("the agent `{agent}` is at work on what led here")));
            }
            let Some(other) = self.services.workflow.agents.find(agent.as_str()) else {
                return Err(Failed(format!("there is no agent `{agent}`")));
            };
            let failed = |error: RunError| Failed(format!("the agent `{agent}`: {error}"));
            let mut lent = others.lend(agent);
            let work = &mut lent.work;
            let quiet = self.quiet();
            if start == Start::Afresh {
                // Results of calls that were left open would stand alone behind it.
                quiet.settle(&mut work.conversation, &mut work.course);
                work.conversation.clear().map_err(|error| failed(RunError::Record(error)))?;
            }
            work.course.asked_by = Some(asker.clone());
            quiet.tell_and_run(other, event, work, others, None).await.map_err(failed)
        })
    }

    /// The same engine, of which nobody hears what models say: that is for the agent that asked, not for the person.
    pub(super) fn quiet(&self) -> Self {
        let watcher = Arc::clone(&self.watcher);
        Self {
            services: self.services.clone(),
            compactor: self.compactor.clone(),
            watcher: Arc::new(move |event| match event {
                RunEvent::Text(_)
                | RunEvent::Reasoning(_)
                | RunEvent::Restarted { .. }
                | RunEvent::Stopped(_) => {}
                event => watcher(event),
            }),
            hooks: self.hooks.clone(),
            checkpointing: self.checkpointing.clone(),
            said: Arc::clone(&self.said),
            narrowed: Arc::clone(&self.narrowed),
            catalog: Arc::clone(&self.catalog),
            ledger: Arc::clone(&self.ledger),
            consents: Arc::clone(&self.consents),
            actions: self.actions.clone(),
            unheard: Arc::clone(&self.unheard),
            is_playback: self.is_playback,
        }
    }

    /// Says once what is to become of the agent's transforms.
    fn say_deprecations(&self, agent: &Agent) {
        for Finding { what, .. } in deprecations(agent) {
            self.say_once(&what);
        }
    }
}

/// How another agent begins on an event.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    /// With what it remembers of earlier events.
    GoesOn,
    /// With nothing but its instructions: each summary is of one run alone. Its log keeps the others.
    Afresh,
}

/// What a transform of type `assistant` says.
#[derive(Clone, Copy)]
struct Summing<'a> {
    agent_id: &'a AgentId,
    input: &'a str,
    output: &'a str,
    limit: Tokens,
}

impl Transformed {
    /// Adds what an agent that did not sum up took to what the run took.
    pub(super) fn take(&mut self, theirs: RunReport, report: &mut RunReport) {
        self.calls += theirs.iterations;
        report.usage += theirs.usage;
        report.summary_calls += theirs.summary_calls;
        report.summary_usage += theirs.summary_usage;
        report.cost += theirs.cost;
        report.summary_cost += theirs.summary_cost;
        report.outcomes.extend(theirs.outcomes);
    }
}

/// What the agent answered under `output`: what stands in that tag, else all of it. An answer that is not whole is none.
fn answer(theirs: &RunReport, agent: &AgentId, output: &str) -> Result<String, Failed> {
    if theirs.stop != StopReason::Done {
        return Err(Failed(format!("the agent `{agent}` {}", theirs.stop)));
    }
    let said = theirs.response.as_str();
    let (open, close) = (format!("<{output}>"), format!("</{output}>"));
    let tagged = said.rfind(&close).and_then(|end| {
        let start = said[..end].rfind(&open)? + open.len();
        Some(&said[start..end])
    });
    match tagged.unwrap_or(said).trim() {
        "" => Err(Failed(format!("the answer of the agent `{agent}` is empty"))),
        answer => Ok(answer.to_owned()),
    }
}

fn recorded(conversation: &mut Conversation, context: &Context) -> Result<(), Failed> {
    conversation.record(context).map(drop).map_err(|error| Failed(error.to_string()))
}
